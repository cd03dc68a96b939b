//! What can go wrong with a box.

use std::io;
use std::path::{Path, PathBuf};

use crate::config::Mistakes;

/// Why a box does not run, or no longer.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The configuration is wrong.
    #[error(transparent)]
    Config(#[from] Mistakes),
    /// The kernel refuses.
    #[error(transparent)]
    System(#[from] sys::Error),
    /// A file or a socket.
    #[error("cannot {action} {}: {cause}", path.display())]
    File {
        /// The verb.
        action: &'static str,
        /// Which.
        path: PathBuf,
        /// The kernel's answer.
        cause: io::Error,
    },
    /// A socket of the Internet.
    #[error("cannot {action} {address}: {cause}")]
    Socket {
        /// The verb.
        action: &'static str,
        /// Which.
        address: std::net::SocketAddr,
        /// The kernel's answer.
        cause: io::Error,
    },
    /// Another box runs.
    #[error("{0}: another box runs")]
    Running(String),
    /// The kernel forwards nothing.
    #[error("this machine does not forward packets: {0} is 0")]
    NoForwarding(&'static str),
    /// The kernel would no longer translate the source addresses of the bundles' packets.
    #[error("chain `{chain}` of table `{table}` translates source addresses on this machine")]
    Translation {
        /// Of nftables.
        table: String,
        /// One with rules, at the hook `postrouting`.
        chain: String,
    },
    /// There is no way to a site.
    #[error("there is no route to {0}: traffic cannot go on to it")]
    NoRoute(String),
    /// Reading or writing packets failed.
    #[error("{device}: {cause}")]
    Device {
        /// Which device.
        device: String,
        /// The kernel's answer.
        cause: io::Error,
    },
    /// What answers is no box, or of another version.
    #[error("{}: no status: {why}", path.display())]
    Status {
        /// Which socket.
        path: PathBuf,
        /// What is wrong with the answer.
        why: String,
    },
}

impl Error {
    pub(crate) fn file(action: &'static str, path: impl AsRef<Path>, cause: io::Error) -> Self {
        Self::File { action, path: path.as_ref().to_owned(), cause }
    }

    /// Whether the kernel said that we may not.
    pub fn is_denied(&self) -> bool {
        match self {
            Self::System(error) => error.is_denied(),
            Self::File { cause, .. } | Self::Socket { cause, .. } | Self::Device { cause, .. } => {
                cause.kind() == io::ErrorKind::PermissionDenied
            }
            _ => false,
        }
    }

    /// What mends it, where that is known.
    pub fn help(&self) -> Option<String> {
        Some(match self {
            Self::NoForwarding(name) => {
                format!("`sysctl -w {}=1` makes a gateway of it", name.replace('/', "."))
            }
            Self::Translation { .. } => {
                "what passes a box keeps its source address, and is not answered. Put the box \
                 inside of the translation, or exempt `remote` from it, as in `nft insert rule ip \
                 nat postrouting ip daddr 10.2.0.0/16 accept`, and set `translation = \"exempt\"`"
                    .into()
            }
            Self::NoRoute(_) => "add the route that the site's traffic takes without a box".into(),
            Self::Running(_) => {
                "a second box needs a `device`, `table`, `listen` and `status` of its own".into()
            }
            error if error.is_denied() => {
                "a box needs CAP_NET_ADMIN and CAP_NET_RAW: run it as root, or give the service \
                 AmbientCapabilities=CAP_NET_ADMIN CAP_NET_RAW"
                    .into()
            }
            _ => return None,
        })
    }
}
