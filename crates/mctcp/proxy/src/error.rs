//! Errors of proxies and servers.

use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

/// Result of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Reason why a proxy or server cannot run, or why one of its connections fails.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// An option is invalid, or conflicts with others.
    #[error("{option}: {why}")]
    Option { option: String, why: String, help: String },
    #[error(transparent)]
    Session(#[from] mctcp_live::Error),
    #[error(transparent)]
    System(#[from] sys::Error),
    #[error("cannot {action} {}: {cause}", path.display())]
    File { action: &'static str, path: PathBuf, cause: io::Error },
    #[error("cannot {action} {address}: {cause}")]
    Socket { action: &'static str, address: String, cause: io::Error },
    /// An invalid file of users.
    #[error("{}:{line}: {why}", path.display())]
    Users { path: PathBuf, line: usize, why: &'static str },
    /// An invalid certificate or key.
    #[error("{}: {why}", path.display())]
    Tls { path: PathBuf, why: String },
    /// netfilter cannot redirect connections.
    #[error("{0}")]
    Netfilter(String),
    /// The target could not be reached by the server.
    #[error("{target}: {}", why.description())]
    Target {
        target: super::target::Target,
        /// Reason according to the server.
        why: super::socks::Reply,
    },
    /// No session can be established, and plain TCP is not allowed.
    #[error("no session with {peer}: {cause}")]
    NoFallback { peer: super::target::Target, cause: Box<Error> },
    /// No session can be established, and plain TCP failed as well.
    #[error("{cause} (in plain TCP; no session with {session})")]
    Plain {
        /// The server, and the reason for the missing session.
        session: String,
        cause: Box<Error>,
    },
    /// A connection to the target would be redirected to this process.
    #[error("{target} is the listener {listener} of this process")]
    SelfConnection { target: super::target::Target, listener: SocketAddr },
    /// The limit of plain connections is reached.
    #[error("{max} plain TCP connections{to} are open, which is the maximum")]
    PlainLimit {
        /// The target that has reached its share; empty for the total limit.
        to: String,
        max: usize,
    },
    /// No local address has a route to the server.
    #[error("no address of this host has a route to {0}")]
    NoPath(String),
}

impl Error {
    pub(super) fn option(
        option: impl Into<String>,
        why: impl Into<String>,
        help: impl Into<String>,
    ) -> Self {
        Self::Option { option: option.into(), why: why.into(), help: help.into() }
    }

    pub(super) fn file(action: &'static str, path: impl AsRef<Path>, cause: io::Error) -> Self {
        Self::File { action, path: path.as_ref().to_owned(), cause }
    }

    pub(super) fn socket(
        action: &'static str,
        address: impl std::fmt::Display,
        cause: io::Error,
    ) -> Self {
        Self::Socket { action, address: address.to_string(), cause }
    }

    /// Whether the error is caused by the command line.
    pub fn is_usage(&self) -> bool {
        matches!(self, Self::Option { .. } | Self::Users { .. } | Self::Tls { .. })
    }

    fn is_denied(&self) -> bool {
        match self {
            Self::System(error) => error.is_denied(),
            Self::File { cause, .. } | Self::Socket { cause, .. } => {
                cause.kind() == io::ErrorKind::PermissionDenied
            }
            _ => false,
        }
    }

    /// How to fix the error, if known.
    pub fn help(&self) -> Option<String> {
        Some(match self {
            Self::Option { help, .. } => help.clone(),
            Self::Users { .. } => {
                "write one user per line as NAME:PASSWORD; # begins a comment".into()
            }
            Self::NoFallback { .. } => {
                "--allow-plain connects to targets without the server, in plain TCP: neither the \
                 key nor TLS protects such a connection"
                    .into()
            }
            Self::Plain { cause, .. } => return cause.help(),
            Self::SelfConnection { .. } => "name another target, or listen at another port".into(),
            Self::PlainLimit { .. } => "raise the limit with --max-plain N".into(),
            Self::NoPath(_) => "name the addresses to use with --path".into(),
            Self::Netfilter(_) => {
                "--redirect needs CAP_NET_ADMIN, and nftables for --install; without --install the \
                 rules are printed"
                    .into()
            }
            error if error.is_denied() => {
                "this needs privileges: CAP_NET_BIND_SERVICE for ports below 1024, CAP_NET_ADMIN \
                 for --redirect"
                    .into()
            }
            _ => return None,
        })
    }
}
