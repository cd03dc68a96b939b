//! Errors of files, interfaces and archives.

use std::io;
use std::path::{Path, PathBuf};

#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    #[error("cannot {action} {}: {cause}", path.display())]
    File { action: &'static str, path: PathBuf, cause: io::Error },
    #[error("another collector writes to {}", .0.display())]
    Locked(PathBuf),
    /// Intervals are whole seconds, because file names have no fractions.
    #[error("invalid interval {0} of archive files: expected a whole number of seconds")]
    Interval(base::Span),
    /// A name of a file or folder that would leave the archive.
    #[error(
        "invalid path `{0}` in the archive: a part is empty, starts with a dot or has a zero byte"
    )]
    Name(String),
    #[error("cannot follow {}: it is compressed", .0.display())]
    CompressedFollow(PathBuf),
    /// A compressed input is truncated or damaged.
    #[error("{} is damaged after {after} bytes of its content: {cause}", path.display())]
    Damaged { path: PathBuf, after: u64, cause: io::Error },
    /// An item of an input above the maximum length.
    #[error("{} has a record of more than {limit} bytes", path.display())]
    TooLong { path: PathBuf, limit: usize },
    #[error("{}: {cause}", path.display())]
    Content { path: PathBuf, cause: String },
    #[error("interface `{0}` does not exist in this network namespace")]
    NoInterface(String),
    #[error("capturing on `{interface}` needs the capability CAP_NET_RAW: {cause}")]
    Denied { interface: String, cause: sys::Error },
    #[error("cannot capture on `{interface}`: {cause}")]
    Interface { interface: String, cause: sys::Error },
    /// An interface with an unknown link type.
    #[error("cannot capture on `{interface}`: unknown hardware type {hardware}")]
    Link {
        interface: String,
        /// `ARPHRD_*` of `linux/if_arp.h`.
        hardware: u16,
    },
    #[error("cannot listen at {address}: {cause}")]
    Address { address: std::net::SocketAddr, cause: io::Error },
    #[error("{0}")]
    Question(String),
    #[error(transparent)]
    Kernel(#[from] sys::Error),
}

impl Error {
    pub(crate) fn file(action: &'static str, path: impl AsRef<Path>, cause: io::Error) -> Self {
        Self::File { action, path: path.as_ref().to_owned(), cause }
    }

    /// Whether the cause is the host rather than the request.
    pub fn is_machine(&self) -> bool {
        match self {
            Self::Denied { .. } | Self::Interface { .. } | Self::Kernel(_) | Self::Locked(_) => {
                true
            }
            Self::File { cause, .. } => cause.kind() != io::ErrorKind::NotFound,
            _ => false,
        }
    }

    pub fn is_denied(&self) -> bool {
        match self {
            Self::Denied { .. } => true,
            Self::File { cause, .. } => cause.kind() == io::ErrorKind::PermissionDenied,
            Self::Kernel(error) => error.is_denied(),
            _ => false,
        }
    }
}
