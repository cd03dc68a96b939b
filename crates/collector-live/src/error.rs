//! What can go wrong between the collector and its files and interfaces.

use std::io;
use std::path::{Path, PathBuf};

/// A refusal, with what was asked.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A file could not be read, written, opened, ...
    #[error("cannot {action} {}: {cause}", path.display())]
    File {
        /// The verb.
        action: &'static str,
        /// Which file.
        path: PathBuf,
        /// The kernel's answer.
        cause: io::Error,
    },
    /// Another collector writes here.
    #[error("another collector writes to {}", .0.display())]
    Locked(PathBuf),
    /// Intervals are whole seconds; names of files tell no finer time.
    #[error("archive files cannot change every {0}: a whole number of seconds is needed")]
    Interval(base::Span),
    /// A name of a file or folder that would leave the archive.
    #[error("`{0}` is no name for a part of an archive")]
    Name(String),
    /// A growing file must be plain.
    #[error("cannot follow {}: it is compressed", .0.display())]
    CompressedFollow(PathBuf),
    /// A compressed input ends or breaks off in the middle.
    #[error("{} is damaged after {after} bytes of its content: {cause}", path.display())]
    Damaged {
        /// Which file.
        path: PathBuf,
        /// Bytes that came out of it before.
        after: u64,
        /// What the decompressor says.
        cause: io::Error,
    },
    /// A single thing in an input that is longer than any that we read.
    #[error("{} holds one thing of more than {limit} bytes", path.display())]
    TooLong {
        /// Which file.
        path: PathBuf,
        /// The most that is held.
        limit: usize,
    },
    /// A capture file that cannot be read on.
    #[error("{}: {cause}", path.display())]
    Content {
        /// Which file.
        path: PathBuf,
        /// What is wrong.
        cause: String,
    },
    /// There is no such interface.
    #[error("there is no interface `{0}` here")]
    NoInterface(String),
    /// Capturing is a privilege.
    #[error("capturing on `{interface}` needs the capability CAP_NET_RAW: {cause}")]
    Denied {
        /// The interface.
        interface: String,
        /// What the kernel refused.
        cause: sys::Error,
    },
    /// An interface cannot be listened to, or no longer.
    #[error("cannot capture on `{interface}`: {cause}")]
    Interface {
        /// The interface.
        interface: String,
        /// What the kernel says.
        cause: sys::Error,
    },
    /// An interface whose packets begin in a way that is not known.
    #[error("cannot capture on `{interface}`: its hardware type {hardware} is not known")]
    Link {
        /// The interface.
        interface: String,
        /// `ARPHRD_*` of `linux/if_arp.h`.
        hardware: u16,
    },
    /// A socket cannot be had, or fails.
    #[error("cannot listen at {address}: {cause}")]
    Address {
        /// Where.
        address: std::net::SocketAddr,
        /// The kernel's answer.
        cause: io::Error,
    },
    /// A question to an archive that is none.
    #[error("{0}")]
    Question(String),
    /// The kernel refused something else.
    #[error(transparent)]
    Kernel(#[from] sys::Error),
}

impl Error {
    /// A failed operation on a file.
    pub(crate) fn file(action: &'static str, path: impl AsRef<Path>, cause: io::Error) -> Self {
        Self::File { action, path: path.as_ref().to_owned(), cause }
    }

    /// Whether it is the machine that is in the way, not what was asked for.
    pub fn is_machine(&self) -> bool {
        match self {
            Self::Denied { .. } | Self::Interface { .. } | Self::Kernel(_) | Self::Locked(_) => {
                true
            }
            Self::File { cause, .. } => cause.kind() != io::ErrorKind::NotFound,
            _ => false,
        }
    }

    /// Whether the kernel said that we may not.
    pub fn is_denied(&self) -> bool {
        match self {
            Self::Denied { .. } => true,
            Self::File { cause, .. } => cause.kind() == io::ErrorKind::PermissionDenied,
            Self::Kernel(error) => error.is_denied(),
            _ => false,
        }
    }
}
