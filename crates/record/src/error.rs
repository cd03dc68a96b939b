//! What can go wrong with a run folder.

use std::io;
use std::path::{Path, PathBuf};

use parquet::errors::ParquetError;

use crate::run::{Failure, FailureKind};

/// What can go wrong with a run folder.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// No space (or quota) left. What had been written before is kept and readable.
    #[error("no space left on the disk of `{}`; results so far are kept", path.display())]
    DiskFull {
        /// The file that could not grow.
        path: PathBuf,
    },
    /// Some other failure of the file system.
    #[error("cannot {action} `{}`", path.display())]
    Io {
        /// What was tried: `write`, `create`, ….
        action: &'static str,
        /// On which file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The folder holds no `run.json`.
    #[error("`{}` is no run folder: it holds no run.json", path.display())]
    NotARun {
        /// The folder.
        path: PathBuf,
    },
    /// `run.json` is not what it should be.
    #[error("`{}` is damaged or of another version", path.display())]
    Record {
        /// The file.
        path: PathBuf,
        /// Where and why reading failed.
        source: serde_json::Error,
    },
    /// `run.json` has a schema that this version does not know.
    #[error("`{}` has the schema `{found}`, which this version cannot read", path.display())]
    Schema {
        /// The file.
        path: PathBuf,
        /// The schema that it names.
        found: String,
    },
    /// A file is larger than any that this project writes.
    #[error("`{}` is larger than {limit} B", path.display())]
    TooLarge {
        /// The file.
        path: PathBuf,
        /// The limit.
        limit: u64,
    },
    /// A table has other columns, names or values than this version writes.
    #[error("`{}` is a table of another run or version", path.display())]
    Foreign {
        /// The file.
        path: PathBuf,
    },
    /// A file of frames is damaged or cut short.
    #[error("`{}` is damaged or cut short by byte {offset}", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// How far it was read.
        offset: u64,
    },
    /// A table is damaged.
    #[error("`{}` is no readable Parquet table", path.display())]
    Table {
        /// The file.
        path: PathBuf,
        /// What the Parquet library said.
        source: ParquetError,
    },
    /// The run was made without `record = true`.
    #[error("`{}` does not exist: the run was not recorded (set `record = true` under [lab])", path.display())]
    NotRecorded {
        /// The file that is missing.
        path: PathBuf,
    },
    /// A recording can't be replayed.
    #[error("`{}` cannot be replayed: {flaw} (by byte {offset})", path.display())]
    Recording {
        /// The file.
        path: PathBuf,
        /// Why.
        flaw: crate::calls::Flaw,
        /// How far it was read.
        offset: u64,
    },
    /// The writer thread is gone, which only a panic in it explains.
    #[error("the recorder's writer ended unexpectedly")]
    WriterGone,
}

impl Error {
    /// An I/O error with its place. A full disk has a variant of its own.
    pub fn io(action: &'static str, path: &Path, source: io::Error) -> Self {
        let path = path.to_owned();
        match FailureKind::of(&source) {
            FailureKind::DiskFull => Self::DiskFull { path },
            _ => Self::Io { action, path, source },
        }
    }

    /// An error of the Parquet library; an I/O error below it counts as such.
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

    /// The reason that this error is for the end of a run.
    pub fn kind(&self) -> FailureKind {
        match self {
            Self::DiskFull { .. } => FailureKind::DiskFull,
            Self::Io { source, .. } => FailureKind::of(source),
            Self::WriterGone => FailureKind::Internal,
            _ => FailureKind::Machine,
        }
    }

    /// The failure of a run that ends with this error; the text names the cause, too.
    pub fn failure(&self) -> Failure {
        let text = match self {
            Self::Io { source, .. } => format!("{self}: {source}"),
            Self::Table { source, .. } => format!("{self}: {source}"),
            _ => self.to_string(),
        };
        Failure { kind: self.kind(), text }
    }
}
