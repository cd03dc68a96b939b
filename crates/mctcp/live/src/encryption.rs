//! Encryption of the connections of subflows.

use std::fmt::Debug;
use std::future::Future;
use std::io;
use std::pin::Pin;

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;

/// A handshake in progress.
pub type Handshake = Pin<Box<dyn Future<Output = io::Result<Encrypted>> + Send>>;

/// One side of an encrypting protocol, such as TLS.
pub trait Encryption: Send + Sync {
    /// Runs the handshake on a new connection.
    fn handshake(&self, stream: TcpStream) -> Handshake;

    /// Server: whether the first byte of a connection begins a handshake.
    fn is_handshake(&self, first: u8) -> bool;
}

/// An encrypted connection.
pub trait EncryptedStream: AsyncRead + AsyncWrite + Debug + Send + Unpin {
    /// The TCP connection below.
    fn tcp(&self) -> &TcpStream;
}

/// The result of a handshake.
#[derive(Debug)]
pub struct Encrypted {
    /// The connection, after its handshake.
    pub stream: Box<dyn EncryptedStream>,
    /// A secret of this connection that both ends share; the session's key depends on it.
    pub secret: Box<[u8]>,
}
