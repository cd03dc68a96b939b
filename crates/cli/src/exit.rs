//! Exit codes, a promise to scripts.

use std::process::ExitCode;

/// How a command ended. Ordered from best to worst: a sweep ends with the worst of its runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Exit {
    /// All is well.
    Ok,
    /// The run finished, but the machine could not keep up: do not trust its numbers.
    Untrusted,
    /// An `[[expect]]` did not hold, or two compared runs differ.
    Expectation,
    /// A program under test failed.
    Program,
    /// The command line or the lab file is wrong.
    Usage,
    /// The machine lacks something: a capability, a device, disk space.
    Machine,
    /// The user interrupted; results so far are kept.
    Interrupted,
    /// An error of ours.
    Bug,
    /// `exec` and `shell` hand on the status of what they ran.
    Status(u8),
}

impl Exit {
    /// The number that the shell sees.
    pub(crate) fn code(self) -> u8 {
        match self {
            Self::Ok => 0,
            Self::Expectation => 1,
            Self::Usage => 2,
            Self::Untrusted => 3,
            Self::Machine => 4,
            Self::Program => 5,
            Self::Bug => 70,
            Self::Interrupted => 130,
            Self::Status(code) => code,
        }
    }

    /// How a run ended, in words.
    pub(crate) fn words(self) -> &'static str {
        match self {
            Self::Ok => "well",
            Self::Untrusted => "not trusted",
            Self::Expectation => "expectation failed",
            Self::Program => "program failed",
            Self::Usage => "lab is wrong",
            Self::Machine => "machine lacks something",
            Self::Interrupted => "interrupted",
            Self::Bug | Self::Status(_) => "died",
        }
    }

    /// What a run's record says; a number without a meaning is our error.
    pub(crate) fn of_run(code: i32) -> Self {
        match code {
            0 => Self::Ok,
            1 => Self::Expectation,
            2 => Self::Usage,
            3 => Self::Untrusted,
            4 => Self::Machine,
            5 => Self::Program,
            130 => Self::Interrupted,
            _ => Self::Bug,
        }
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
    fn a_runs_code_survives_the_way_through_the_record() {
        for exit in [
            Exit::Ok,
            Exit::Untrusted,
            Exit::Expectation,
            Exit::Program,
            Exit::Usage,
            Exit::Machine,
            Exit::Interrupted,
            Exit::Bug,
        ] {
            assert_eq!(Exit::of_run(exit.code().into()), exit);
        }
        assert_eq!(Exit::of_run(9), Exit::Bug);
    }

    #[test]
    fn the_worst_run_decides() {
        let runs = [Exit::Ok, Exit::Expectation, Exit::Untrusted];
        assert_eq!(runs.into_iter().max(), Some(Exit::Expectation));
    }
}
