//! Errors of sessions on real sockets.

use std::io;
use std::sync::Arc;

use mctcp::Reason;
use thiserror::Error;

/// Results of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Reason for which a session was not opened, or ended.
#[derive(Clone, Debug, Error)]
#[non_exhaustive]
pub enum Error {
    /// No path was given.
    #[error("a session needs at least one path")]
    NoPath,
    /// A target exceeds the maximum length in HELLO.
    #[error("a target of {length} B is longer than {} B", mctcp::frame::MAX_TARGET_BYTES)]
    Target {
        /// Length of the target in bytes.
        length: usize,
    },
    /// No connection could be established; contains the error of the path tried last.
    #[error("cannot connect: {0}")]
    Connect(Arc<io::Error>),
    /// The peer uses another protocol: it is an ordinary service, reachable over plain TCP.
    #[error("the peer does not support MCTCP: it answered in another protocol")]
    NotMctcp,
    /// The peer accepted a connection but did not answer HELLO in time.
    #[error("timeout: the peer accepted the connection but did not answer HELLO")]
    NoAnswer,
    /// The peer closed the connection without an answer to HELLO.
    #[error("the peer closed the connection before it answered HELLO")]
    Disconnected,
    /// The session has ended.
    #[error("session {}: {reason}", if *.by_peer { "closed by peer" } else { "failed" })]
    Ended {
        /// The reason code of the peer or of this end.
        reason: Reason,
        /// Whether the peer sent the reason.
        by_peer: bool,
    },
    /// The kernel rejected a socket or one of its options.
    #[error("{0}")]
    Socket(Arc<sys::Error>),
    /// The runtime that drove the session has shut down.
    #[error("internal error: the session's driver has stopped")]
    Gone,
}

impl From<sys::Error> for Error {
    fn from(error: sys::Error) -> Self {
        Self::Socket(Arc::new(error))
    }
}

impl From<Error> for io::Error {
    fn from(error: Error) -> Self {
        let kind = match &error {
            Error::Connect(cause) => cause.kind(),
            Error::NoAnswer | Error::Ended { reason: Reason::Timeout, .. } => {
                io::ErrorKind::TimedOut
            }
            Error::Ended { reason: Reason::Authentication, .. } => io::ErrorKind::PermissionDenied,
            Error::Ended { reason: Reason::Target, .. } => io::ErrorKind::HostUnreachable,
            Error::Disconnected | Error::Ended { by_peer: true, .. } => {
                io::ErrorKind::ConnectionReset
            }
            Error::Ended { .. } | Error::Gone => io::ErrorKind::ConnectionAborted,
            Error::NotMctcp => io::ErrorKind::Unsupported,
            Error::NoPath | Error::Target { .. } => io::ErrorKind::InvalidInput,
            Error::Socket(_) => io::ErrorKind::Other,
        };
        Self::new(kind, error)
    }
}
