//! What can go wrong with a front.

use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

/// Results of the fronts.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why a front does not run, or a connection of it fails.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// An option is wrong, or does not go with the others.
    #[error("{option}: {why}")]
    Option {
        /// The option as it was given.
        option: String,
        /// What is wrong with it.
        why: String,
        /// What would be right.
        help: String,
    },
    /// The session.
    #[error(transparent)]
    Session(#[from] crate::Error),
    /// The kernel refuses.
    #[error(transparent)]
    System(#[from] sys::Error),
    /// A file.
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
        address: String,
        /// The kernel's answer.
        cause: io::Error,
    },
    /// A file of users.
    #[error("{}:{line}: {why}", path.display())]
    Users {
        /// The file.
        path: PathBuf,
        /// The line.
        line: usize,
        /// What is wrong there.
        why: &'static str,
    },
    /// A certificate or a key.
    #[error("{}: {why}", path.display())]
    Tls {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        why: String,
    },
    /// Redirection by netfilter.
    #[error("{0}")]
    Netfilter(String),
    /// Another process listens at a status socket.
    #[error("{}: another process tells its status there", .0.display())]
    Running(PathBuf),
    /// What answers is no front, or of another version.
    #[error("{}: no status: {why}", path.display())]
    Status {
        /// Which socket.
        path: PathBuf,
        /// What is wrong with the answer.
        why: String,
    },
    /// The target could not be reached by the server.
    #[error("{target}: {}", why.words())]
    Target {
        /// The target.
        target: super::target::Target,
        /// Why, as the server says.
        why: super::socks::Reply,
    },
    /// There is no session, and plain TCP is not allowed.
    #[error("no session with {peer}: {cause}")]
    NoFallback {
        /// The server.
        peer: super::target::Target,
        /// Why there is no session.
        cause: Box<Error>,
    },
    /// There is no session, and plain TCP in its place failed as well.
    #[error("{cause} (in plain TCP; no session with {session})")]
    Plain {
        /// The server, and why there is no session.
        session: String,
        /// Why there is no plain connection.
        cause: Box<Error>,
    },
    /// A connection to the target would come back to this process.
    #[error("{target} leads back to this process, which listens at {listener}")]
    SelfConnection {
        /// The target.
        target: super::target::Target,
        /// The listener.
        listener: SocketAddr,
    },
    /// As many plain connections as there may be.
    #[error("{max} plain TCP connections{to} are open, the maximum")]
    PlainLimit {
        /// The target that has its share; empty: all together.
        to: String,
        /// The limit.
        max: usize,
    },
    /// No address of this machine leads to the server.
    #[error("no address of this machine has a route to {0}")]
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

    /// Whether it is the command line that is wrong.
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

    /// What mends it, where that is known.
    pub fn help(&self) -> Option<String> {
        Some(match self {
            Self::Option { help, .. } => help.clone(),
            Self::Users { .. } => "a line for each user, NAME:PASSWORD; # begins a comment".into(),
            Self::Running(_) => "give one of them another --status".into(),
            Self::NoFallback { .. } => {
                "--allow-plain connects to targets without the server, in plain TCP: neither the \
                 key nor TLS protects such a connection"
                    .into()
            }
            Self::Plain { cause, .. } => return cause.help(),
            Self::SelfConnection { .. } => "name another target, or listen at another port".into(),
            Self::PlainLimit { .. } => "--max-plain N allows more".into(),
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
