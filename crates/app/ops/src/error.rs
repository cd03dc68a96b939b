use std::ffi::OsString;
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;

/// An error of serving or reading the status of a command.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A Unix socket cannot be used.
    #[error("cannot {action} {}: {cause}", path.display())]
    Socket { action: &'static str, path: PathBuf, cause: io::Error },
    /// Listening at the HTTP address failed.
    #[error("cannot listen at {address}: {cause}")]
    Listen { address: SocketAddr, cause: io::Error },
    /// The status socket belongs to a running process.
    #[error("status socket {} is in use by another process", .0.display())]
    Running(PathBuf),
    /// The response is not a status of the expected schema.
    #[error("{}: invalid status: {why}", path.display())]
    Status { path: PathBuf, why: String },
    /// The socket of the service manager cannot be used.
    #[error("cannot report to the service manager at `{}`: {cause}", socket.display())]
    ServiceManager { socket: OsString, cause: io::Error },
    /// A thread or the runtime cannot be started.
    #[error("cannot start to serve the status: {0}")]
    Start(#[from] io::Error),
}
