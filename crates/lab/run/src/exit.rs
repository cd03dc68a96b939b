//! Exit codes of commands and runs: an interface for scripts.

use std::process::ExitCode;

use serde::{Deserialize, Serialize};

/// The result of a command or a run, from best to worst; for several runs, the worst result.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(into = "u8", from = "u8")]
pub enum Exit {
    #[default]
    Ok,
    /// The run finished, but the host distorted its results.
    Untrusted,
    /// An `[[expect]]` failed, or two compared runs differ.
    Expectation,
    /// A program under test failed.
    Program,
    /// The command line or the lab file is invalid.
    Usage,
    /// The host lacks a capability, a device or disk space.
    Machine,
    /// The user interrupted the run; results so far are kept.
    Interrupted,
    /// A bug of netarium.
    Internal,
    /// The exit status of a command run by `exec` or `shell`.
    Status(u8),
}

impl Exit {
    pub const fn code(self) -> u8 {
        match self {
            Self::Ok => 0,
            Self::Expectation => 1,
            Self::Usage => 2,
            Self::Untrusted => 3,
            Self::Machine => 4,
            Self::Program => 5,
            Self::Internal => 70,
            Self::Interrupted => 130,
            Self::Status(code) => code,
        }
    }

    /// The result of a run for log output.
    pub const fn words(self) -> &'static str {
        match self {
            Self::Ok => "passed",
            Self::Untrusted => "not trusted",
            Self::Expectation => "expectation failed",
            Self::Program => "program failed",
            Self::Usage => "lab error",
            Self::Machine => "missing capability",
            Self::Interrupted => "interrupted",
            Self::Internal | Self::Status(_) => "internal error",
        }
    }
}

impl From<u8> for Exit {
    /// Converts an exit code; an unknown code is an internal error.
    fn from(code: u8) -> Self {
        match code {
            0 => Self::Ok,
            1 => Self::Expectation,
            2 => Self::Usage,
            3 => Self::Untrusted,
            4 => Self::Machine,
            5 => Self::Program,
            130 => Self::Interrupted,
            _ => Self::Internal,
        }
    }
}

impl From<Exit> for u8 {
    fn from(exit: Exit) -> Self {
        exit.code()
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        exit.code().into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exit_round_trips_through_its_code() {
        for exit in [
            Exit::Ok,
            Exit::Untrusted,
            Exit::Expectation,
            Exit::Program,
            Exit::Usage,
            Exit::Machine,
            Exit::Interrupted,
            Exit::Internal,
        ] {
            assert_eq!(Exit::from(exit.code()), exit);
        }
        assert_eq!(Exit::from(9), Exit::Internal);
    }

    #[test]
    fn several_runs_have_the_worst_exit() {
        let runs = [Exit::Ok, Exit::Expectation, Exit::Untrusted];
        assert_eq!(runs.into_iter().max(), Some(Exit::Expectation));
    }
}
