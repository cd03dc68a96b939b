//! What can go wrong.

use std::io;
use std::path::{Path, PathBuf};

use run::Exit;

/// Why a figure could not be made.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A file or folder of the results.
    #[error("cannot {action} {}", path.display())]
    Io {
        /// What was to be done.
        action: &'static str,
        /// With what.
        path: PathBuf,
        /// Why it could not.
        source: io::Error,
    },
    /// A run folder cannot be read.
    #[error(transparent)]
    Record(#[from] run::Error),
    /// `results.json` is not what this program writes.
    #[error("{} is no list of results: {reason}; `--out DIR` names another folder", path.display())]
    Results {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// A run did not come to its end.
    #[error("{said}; repeat: {command}")]
    Child {
        /// What the child said, or how it ended.
        said: String,
        /// The command that repeats it.
        command: String,
        /// How it ended.
        exit: Exit,
    },
    /// A run lacks what the figure is made of.
    #[error("run {run} has no {what}")]
    Missing {
        /// The run.
        run: String,
        /// What it should have.
        what: String,
    },
    /// A protocol of explicit rate control refuses what it is given.
    #[error(transparent)]
    RateControl(#[from] ratecontrol::Error),
    /// The collector failed.
    #[error(transparent)]
    Collector(#[from] collector_live::Error),
    /// A call of the system failed.
    #[error(transparent)]
    System(#[from] sys::Error),
    /// The figure cannot be made here.
    #[error("{0}")]
    Refused(String),
    /// The user ended it.
    #[error("interrupted")]
    Interrupted,
}

impl Error {
    pub(crate) fn io(action: &'static str, path: &Path, source: io::Error) -> Self {
        Self::Io { action, path: path.to_owned(), source }
    }

    /// The process exit code that goes with it.
    pub fn exit_code(&self) -> Exit {
        match self {
            Self::Child { exit, .. } => *exit,
            Self::Interrupted => Exit::Interrupted,
            Self::Results { .. } => Exit::Usage,
            Self::Missing { .. } => Exit::Internal,
            _ => Exit::Machine,
        }
    }

    /// The error with what led to it.
    pub fn text(&self) -> String {
        let mut text = self.to_string();
        let mut cause = std::error::Error::source(self);
        while let Some(error) = cause {
            text = format!("{text}: {error}");
            cause = error.source();
        }
        text
    }
}
