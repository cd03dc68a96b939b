//! Errors of reading and writing run folders.

use std::io;
use std::path::{Path, PathBuf};

use parquet::errors::ParquetError;

use crate::record::{Failure, FailureKind, SCHEMA};

/// An error of reading or writing a run folder.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// No space (or quota) left. Files written so far are kept and readable.
    #[error("no space left on the disk of `{}`; results so far are kept", path.display())]
    DiskFull {
        /// The file that could not grow.
        path: PathBuf,
    },
    /// Any other error of the file system.
    #[error("cannot {action} `{}`: {source}", path.display())]
    Io {
        /// The failed operation: `write`, `create`, ….
        action: &'static str,
        path: PathBuf,
        source: io::Error,
    },
    /// The folder holds no `run.json`.
    #[error("`{}` is not a run folder: it has no run.json", path.display())]
    NotARun { path: PathBuf },
    #[error("`{}` is damaged or of an unknown version: {source}", path.display())]
    Record { path: PathBuf, source: serde_json::Error },
    /// `run.json` has an unknown schema.
    #[error("`{}` has schema `{found}`; this netarium reads `{SCHEMA}`", path.display())]
    Schema { path: PathBuf, found: String },
    /// A file is larger than any that netarium writes.
    #[error("`{}` is larger than the limit of {limit} B", path.display())]
    TooLarge { path: PathBuf, limit: u64 },
    /// A table has unexpected columns, names or values.
    #[error("`{}` belongs to another run or to another version of netarium", path.display())]
    Foreign { path: PathBuf },
    /// A file of frames is damaged or truncated.
    #[error("`{}` is damaged or truncated at byte {offset}", path.display())]
    Damaged { path: PathBuf, offset: u64 },
    #[error("`{}` is not a readable Parquet table: {source}", path.display())]
    Table { path: PathBuf, source: ParquetError },
    /// The lab does not have `record = true`.
    #[error("`{}` does not exist: the run was not recorded (set `record = true` under [lab])", path.display())]
    NotRecorded { path: PathBuf },
    /// A recording cannot be replayed.
    #[error("`{}` cannot be replayed: {error} (at byte {offset})", path.display())]
    Recording { path: PathBuf, error: crate::calls::RecordingError, offset: u64 },
    /// The lab in the run folder cannot be compiled.
    #[error("the lab of the run, `{}`, is not valid: {why}", path.display())]
    Lab { path: PathBuf, why: String },
    #[error("the run in `{}` has not ended", path.display())]
    Running { path: PathBuf },
    /// The writer thread panicked.
    #[error(
        "internal error: the recorder's writer thread panicked (this is a bug; please report it)"
    )]
    WriterGone,
}

impl Error {
    /// An I/O error with its path; a full disk becomes [`Self::DiskFull`].
    pub fn io(action: &'static str, path: &Path, source: io::Error) -> Self {
        let path = path.to_owned();
        match FailureKind::of(&source) {
            FailureKind::DiskFull => Self::DiskFull { path },
            _ => Self::Io { action, path, source },
        }
    }

    /// An error of the Parquet library, or the I/O error that caused it.
    pub(crate) fn table(path: &Path, source: ParquetError) -> Self {
        let path = path.to_owned();
        match source {
            ParquetError::External(inner) => match inner.downcast::<io::Error>() {
                Ok(source) => Self::io("read or write", &path, *source),
                Err(other) => Self::Table { path, source: ParquetError::External(other) },
            },
            source => Self::Table { path, source },
        }
    }

    /// The failure kind of a run that ends with this error.
    pub fn kind(&self) -> FailureKind {
        match self {
            Self::DiskFull { .. } => FailureKind::DiskFull,
            Self::Io { source, .. } => FailureKind::of(source),
            Self::WriterGone => FailureKind::Internal,
            _ => FailureKind::Machine,
        }
    }

    /// The failure of a run that ends with this error.
    pub fn failure(&self) -> Failure {
        Failure { kind: self.kind(), text: self.to_string() }
    }
}
