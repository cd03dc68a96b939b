//! What can go wrong between us and the kernel.

use std::io;
use std::path::{Path, PathBuf};

/// A refusal of the kernel, with what was asked of it.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A system call failed.
    #[error("{call}: {cause}")]
    Call {
        /// The call, and its telling argument.
        call: &'static str,
        /// The kernel's answer.
        cause: io::Error,
    },
    /// A file could not be read, written or opened.
    #[error("cannot {action} {}: {cause}", path.display())]
    File {
        /// The verb: `open`, `read`, `write`.
        action: &'static str,
        /// Which file.
        path: PathBuf,
        /// The kernel's answer.
        cause: io::Error,
    },
    /// The kernel refused a request for its network configuration.
    #[error("the kernel refused to {request}: {cause}")]
    Netlink {
        /// The request in words.
        request: &'static str,
        /// The kernel's answer.
        cause: io::Error,
    },
    /// The kernel's answer was shorter than its own lengths say.
    #[error("malformed answer to {0}")]
    Malformed(&'static str),
    /// A step that concerns a whole process was tried in one with several threads.
    #[error("cannot {0}: this process has several threads")]
    Threads(&'static str),
    /// Text with a NUL byte cannot be handed to the kernel.
    #[error("{0:?} contains a NUL byte")]
    Nul(String),
}

impl Error {
    /// The failure of the system call that was just made.
    pub fn last(call: &'static str) -> Self {
        Self::Call { call, cause: io::Error::last_os_error() }
    }

    /// The failure of a system call, by its number.
    pub fn from_errno(call: &'static str, errno: i32) -> Self {
        Self::Call { call, cause: io::Error::from_raw_os_error(errno) }
    }

    /// A failed operation on a file.
    pub fn file(action: &'static str, path: impl AsRef<Path>, cause: io::Error) -> Self {
        Self::File { action, path: path.as_ref().to_owned(), cause }
    }

    /// The kernel's error number, where there is one.
    pub fn errno(&self) -> Option<i32> {
        match self {
            Self::Call { cause, .. } | Self::File { cause, .. } | Self::Netlink { cause, .. } => {
                cause.raw_os_error()
            }
            Self::Malformed(_) | Self::Threads(_) | Self::Nul(_) => None,
        }
    }

    /// Whether the kernel said that we may not.
    pub fn is_denied(&self) -> bool {
        matches!(self.errno(), Some(libc::EPERM | libc::EACCES))
    }
}
