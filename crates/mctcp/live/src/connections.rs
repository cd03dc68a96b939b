//! The TCP connections that this process has opened, so that a proxy detects one that is redirected
//! to its own listener.

use std::collections::BTreeSet;
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rustix::io::Errno;
use tokio::net::TcpStream;

/// Local and remote address of a connection, as seen by the end that opened it.
type Pair = (SocketAddr, SocketAddr);

/// The table of open connections. Clones share it.
#[derive(Clone, Debug, Default)]
pub struct Connections(Arc<Mutex<BTreeSet<Pair>>>);

/// A connection in the table; removed when this is dropped.
#[derive(Debug)]
pub struct Registered {
    table: Connections,
    pair: Pair,
}

impl Connections {
    fn lock(&self) -> MutexGuard<'_, BTreeSet<Pair>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Starts to connect. The table stays locked, so that a listener that accepts the connection at
    /// once finds it in the table.
    fn connect(&self, socket: &OwnedFd, remote: SocketAddr) -> io::Result<Registered> {
        let mut table = self.lock();
        start_connecting(socket, remote)?;
        let local = rustix::net::getsockname(socket)?;
        let pair = (canonical(SocketAddr::try_from(local)?), canonical(remote));
        if pair.0 == pair.1 {
            // Without a listener, the kernel may choose the requested port as the local one, which
            // connects the socket to itself (simultaneous open, RFC 9293 §3.5).
            return Err(io::ErrorKind::ConnectionRefused.into());
        }
        table.insert(pair);
        Ok(Registered { table: self.clone(), pair })
    }

    /// Whether this process opened an accepted connection. Netfilter may have
    /// changed its destination.
    pub fn contain(&self, accepted: &TcpStream) -> bool {
        let (Ok(peer), Ok(local)) = (accepted.peer_addr(), accepted.local_addr()) else {
            return false;
        };
        let original = sys::socket::original_destination(accepted.as_fd()).ok().flatten();
        let table = self.lock();
        let pair = |remote| (canonical(peer), canonical(remote));
        table.contains(&pair(local)) || original.is_some_and(|remote| table.contains(&pair(remote)))
    }
}

impl Drop for Registered {
    fn drop(&mut self) {
        self.table.lock().remove(&self.pair);
    }
}

/// Connects a socket that is neither connected nor registered with a runtime, and adds it
/// to the table.
///
/// # Errors
/// Those of `connect(2)`, and `ConnectionRefused` if the socket would be connected to itself.
pub async fn connect(
    table: Option<&Connections>,
    socket: OwnedFd,
    remote: SocketAddr,
) -> io::Result<(TcpStream, Option<Registered>)> {
    rustix::io::ioctl_fionbio(&socket, true)?;
    let registered = if let Some(table) = table {
        Some(table.connect(&socket, remote)?)
    } else {
        start_connecting(&socket, remote)?;
        None
    };
    let stream = TcpStream::from_std(socket.into())?;
    stream.writable().await?;
    match stream.take_error()? {
        Some(error) => Err(error),
        None => Ok((stream, registered)),
    }
}

fn start_connecting(socket: &OwnedFd, remote: SocketAddr) -> io::Result<()> {
    match rustix::net::connect(socket, &remote) {
        Ok(()) | Err(Errno::INPROGRESS) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

fn canonical(address: SocketAddr) -> SocketAddr {
    SocketAddr::new(address.ip().to_canonical(), address.port())
}

#[cfg(test)]
mod tests {
    use tokio::net::TcpListener;

    use super::*;

    #[tokio::test]
    async fn contains_own_connections_while_they_are_open() {
        for at in ["127.0.0.1:0", "[::]:0"] {
            let Ok(listener) = TcpListener::bind(at).await else { continue };
            let port = listener.local_addr().unwrap().port();
            let remote = SocketAddr::from(([127, 0, 0, 1], port));
            let table = Connections::default();
            let socket = || sys::socket::tcp_socket(remote.ip()).unwrap();
            let (_stream, registered) = connect(Some(&table), socket(), remote).await.unwrap();
            let (own, _) = listener.accept().await.unwrap();
            assert!(table.contain(&own), "{at}");
            let (_other, none) = connect(None, socket(), remote).await.unwrap();
            let (foreign, _) = listener.accept().await.unwrap();
            assert!(none.is_none() && !table.contain(&foreign), "{at}");
            drop(registered);
            assert!(!table.contain(&own), "{at}");
        }
    }
}
