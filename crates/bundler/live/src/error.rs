//! Errors of a gateway.

use std::io;
use std::path::{Path, PathBuf};

use lab::Diagnostics;

/// Reason why a gateway does not run, or has stopped.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    #[error(transparent)]
    Config(#[from] Diagnostics),
    /// The kernel rejected a request.
    #[error(transparent)]
    System(#[from] sys::Error),
    /// An error of a file or a local socket.
    #[error("cannot {action} {}: {cause}", path.display())]
    File { action: &'static str, path: PathBuf, cause: io::Error },
    /// An error of an Internet socket.
    #[error("cannot {action} {address}: {cause}")]
    Socket { action: &'static str, address: std::net::SocketAddr, cause: io::Error },
    /// Another gateway process uses the same address or device.
    #[error("{0} is used by another gateway process")]
    Running(String),
    /// Forwarding is disabled in the kernel.
    #[error("this machine does not forward packets: {0} is 0")]
    NoForwarding(&'static str),
    /// The kernel would no longer translate the source addresses of the bundles' packets.
    #[error("chain `{chain}` of table `{table}` translates source addresses on this machine")]
    Translation {
        table: String,
        /// The chain with rules at the hook `postrouting`.
        chain: String,
    },
    /// A new configuration has another value of a key that is read only at the start.
    #[error("`{0}` cannot change while the gateway runs")]
    Fixed(&'static str),
    /// A site is unreachable.
    #[error("no route to {0}")]
    NoRoute(String),
    #[error("{device}: {cause}")]
    Device { device: String, cause: io::Error },
}

impl Error {
    pub(crate) fn file(action: &'static str, path: impl AsRef<Path>, cause: io::Error) -> Self {
        Self::File { action, path: path.as_ref().to_owned(), cause }
    }

    /// Whether the cause is a missing privilege.
    pub fn is_denied(&self) -> bool {
        match self {
            Self::System(error) => error.is_denied(),
            Self::File { cause, .. } | Self::Socket { cause, .. } | Self::Device { cause, .. } => {
                cause.kind() == io::ErrorKind::PermissionDenied
            }
            _ => false,
        }
    }

    pub fn help(&self) -> Option<String> {
        Some(match self {
            Self::NoForwarding(name) => {
                format!("enable forwarding with `sysctl -w {}=1`", name.replace('/', "."))
            }
            Self::Translation { .. } => {
                "packets through a gateway keep their source address and get no answer. Put the \
                 gateway inside of the translation, or exempt `remote` from it, as in `nft insert \
                 rule ip nat postrouting ip daddr 10.2.0.0/16 accept`, and set `translation = \"exempt\"`"
                    .into()
            }
            Self::Fixed(_) => "restart the gateway".into(),
            Self::NoRoute(_) => {
                "add the route that packets to the other site take without a gateway".into()
            }
            Self::Running(_) => {
                "a second gateway needs a different `device`, `table`, `listen` and `status`".into()
            }
            error if error.is_denied() => {
                "a gateway needs CAP_NET_ADMIN and CAP_NET_RAW: run it as root, or give the \
                 service AmbientCapabilities=CAP_NET_ADMIN CAP_NET_RAW"
                    .into()
            }
            _ => return None,
        })
    }
}
