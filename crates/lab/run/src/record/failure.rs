//! Failures of runs.

use std::io;

use serde::{Deserialize, Serialize};

use super::{RunRecord, Status};
use crate::Exit;

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failure {
    /// The kind, for programs that read the record.
    pub kind: FailureKind,
    /// The reason, for the user.
    pub text: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum FailureKind {
    /// No space (or quota) left on the disk of the run folder.
    DiskFull,
    /// An allocation failed, or the kernel's OOM killer ended a process of the run.
    OutOfMemory,
    /// A signal from outside ended the run's process.
    Killed,
    /// A program of the lab failed.
    Program,
    /// The lab cannot run as specified, or reached one of its limits.
    Lab,
    /// The host lacks a capability or rejected an operation.
    Machine,
    /// A bug of netarium: a panic or a crash.
    Internal,
}

impl FailureKind {
    /// The kind of an error of the operating system.
    pub fn of(error: &io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => Self::DiskFull,
            io::ErrorKind::OutOfMemory => Self::OutOfMemory,
            _ => Self::Machine,
        }
    }

    /// The exit code of a run with this failure.
    pub const fn exit_code(self) -> Exit {
        match self {
            Self::Lab => Exit::Usage,
            Self::DiskFull | Self::OutOfMemory | Self::Machine => Exit::Machine,
            Self::Program => Exit::Program,
            Self::Internal => Exit::Internal,
            Self::Killed => Exit::Interrupted,
        }
    }
}

impl RunRecord {
    /// Sets the final status, exit code and failure. The text is also added to the warnings.
    pub fn fail(&mut self, failure: Failure) {
        self.status = match failure.kind {
            FailureKind::Killed => Status::Killed,
            _ => Status::Failed,
        };
        self.exit_code = Some(failure.kind.exit_code());
        self.warnings.push(failure.text.clone());
        self.failure = Some(failure);
    }
}
