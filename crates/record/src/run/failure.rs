//! Why a run failed.

use std::io;

use serde::{Deserialize, Serialize};

use super::{RunRecord, Status};

/// Why a run failed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failure {
    /// The kind of reason, for programs.
    pub kind: FailureKind,
    /// The reason in words.
    pub text: String,
}

/// The kind of reason for which a run failed.
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
    /// The lab asks for something impossible, or reached one of its limits.
    Lab,
    /// The machine lacks or refused something else.
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

    /// The exit code of a command whose run failed for this reason.
    pub const fn exit_code(self) -> u8 {
        match self {
            Self::Lab => 2,
            Self::DiskFull | Self::OutOfMemory | Self::Machine => 4,
            Self::Program => 5,
            Self::Internal => 70,
            Self::Killed => 130,
        }
    }
}

impl RunRecord {
    /// Gives the record its final status, exit code and reason. The text becomes the last
    /// warning, too.
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
