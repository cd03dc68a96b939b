//! Errors of system calls.

use std::io;
use std::path::{Path, PathBuf};

/// A failed request to the kernel.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    #[error("{call}: {cause}")]
    Call {
        /// The call, and its most relevant argument.
        call: &'static str,
        cause: io::Error,
    },
    /// A file could not be read, written or opened.
    #[error("cannot {action} {}: {cause}", path.display())]
    File {
        /// The verb: `open`, `read`, `write`.
        action: &'static str,
        path: PathBuf,
        cause: io::Error,
    },
    /// The kernel rejected a request for its network configuration.
    #[error("the kernel refused to {request}: {cause}")]
    Netlink { request: &'static str, cause: io::Error },
    /// The kernel's answer is shorter than its length fields.
    #[error("malformed answer to {0}")]
    Malformed(&'static str),
    /// An operation for single-threaded processes was called with several threads.
    #[error("cannot {0}: this process has several threads")]
    Threads(&'static str),
    /// Strings for the kernel must not contain a NUL byte.
    #[error("{0:?} contains a NUL byte")]
    Nul(String),
}

impl Error {
    /// The error of the most recent system call.
    pub fn last(call: &'static str) -> Self {
        Self::Call { call, cause: io::Error::last_os_error() }
    }

    /// The error with this number of a system call.
    pub fn from_errno(call: &'static str, errno: i32) -> Self {
        Self::Call { call, cause: io::Error::from_raw_os_error(errno) }
    }

    /// The error of an operation on a file.
    pub fn file(action: &'static str, path: impl AsRef<Path>, cause: io::Error) -> Self {
        Self::File { action, path: path.as_ref().to_owned(), cause }
    }

    /// The kernel's error number, if there is one.
    pub fn errno(&self) -> Option<i32> {
        match self {
            Self::Call { cause, .. } | Self::File { cause, .. } | Self::Netlink { cause, .. } => {
                cause.raw_os_error()
            }
            Self::Malformed(_) | Self::Threads(_) | Self::Nul(_) => None,
        }
    }

    /// Whether the cause is a missing privilege.
    pub fn is_denied(&self) -> bool {
        matches!(self.errno(), Some(libc::EPERM | libc::EACCES))
    }
}
