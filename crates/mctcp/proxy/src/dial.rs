//! Plain TCP connections to targets, never to this process itself.

use std::io::{self, ErrorKind};
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use sys::netlink;
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::redirect::MARK;
use super::target::{Host, Target};
use super::{Error, Result};
use mctcp_live::{Connections, Registered};

/// Max time to look up a name, and to connect.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

#[derive(Debug, Default)]
pub(crate) struct Dialer {
    /// Own connections have the mark [`MARK`].
    pub(crate) is_marked: bool,
    /// Addresses of this process's listeners.
    pub(crate) listeners: Vec<SocketAddr>,
    /// Connections opened by this process.
    pub(crate) connections: Connections,
}

impl Dialer {
    /// Creates a socket for connections to `address`.
    pub(crate) fn socket(&self, address: IpAddr) -> io::Result<OwnedFd> {
        let socket = sys::socket::tcp_socket(address).map_err(io::Error::other)?;
        if self.is_marked {
            sys::socket::set_mark(socket.as_fd(), MARK).map_err(io::Error::other)?;
        }
        Ok(socket)
    }

    /// The addresses of a target, without those of this process's own listeners.
    ///
    /// # Errors
    /// [`Error::SelfConnection`] if none is left.
    pub(crate) fn foreign(
        &self,
        target: &Target,
        mut addresses: Vec<SocketAddr>,
    ) -> Result<Vec<SocketAddr>> {
        let mut own = None;
        addresses.retain(|address| {
            let listener = self.listeners.iter().find(|at| is_at(**at, *address));
            own = own.or(listener.copied());
            listener.is_none()
        });
        match own {
            Some(listener) if addresses.is_empty() => {
                Err(Error::SelfConnection { target: target.clone(), listener })
            }
            _ => Ok(addresses),
        }
    }

    /// Connects to the first of these addresses that accepts.
    pub(crate) async fn connect(
        &self,
        target: &Target,
        addresses: Vec<SocketAddr>,
    ) -> Result<(TcpStream, Option<Registered>)> {
        let addresses = self.foreign(target, addresses)?;
        let failed = |cause| Error::socket("connect to", target, cause);
        let attempt = async {
            let mut last = io::Error::from(ErrorKind::NotFound);
            for (place, &address) in addresses.iter().enumerate() {
                let socket = self.socket(address.ip())?;
                let one = mctcp_live::connect_socket(Some(&self.connections), socket, address);
                // The remaining time is divided among the addresses.
                let left = (addresses.len() - place) as u32;
                match timeout(CONNECT_TIMEOUT / left.min(4), one).await {
                    Ok(Ok(connected)) => return Ok(connected),
                    Ok(Err(error)) => last = error,
                    Err(_) => last = ErrorKind::TimedOut.into(),
                }
            }
            Err(last)
        };
        let connected = timeout(CONNECT_TIMEOUT, attempt).await;
        let connected =
            connected.map_err(|_| failed(ErrorKind::TimedOut.into()))?.map_err(failed)?;
        connected.0.set_nodelay(true).map_err(failed)?;
        Ok(connected)
    }
}

/// Whether `listener` receives connections to `address`.
fn is_at(listener: SocketAddr, address: SocketAddr) -> bool {
    let (listener_ip, target_ip) = (listener.ip().to_canonical(), address.ip().to_canonical());
    listener.port() == address.port()
        && (listener_ip == target_ip || (listener_ip.is_unspecified() && is_local(target_ip)))
}

/// Whether an address belongs to this host.
fn is_local(address: IpAddr) -> bool {
    if address.is_loopback() || address.is_unspecified() {
        return true;
    }
    let addresses = netlink::Socket::open().and_then(|mut socket| socket.addresses());
    addresses.is_ok_and(|all| all.iter().any(|it| it.address == address))
}

/// Resolves a target to at least one address.
pub(crate) async fn lookup(target: &Target) -> Result<Vec<SocketAddr>> {
    let name = match &target.host {
        Host::Address(address) => return Ok(vec![SocketAddr::new(*address, target.port)]),
        Host::Name(name) => name.as_str(),
    };
    let failed = |cause| Error::socket("look up", target, cause);
    let found = timeout(CONNECT_TIMEOUT, tokio::net::lookup_host((name, target.port))).await;
    let found = found.map_err(|_| failed(ErrorKind::TimedOut.into()))?.map_err(|cause| {
        // The resolver's own errors have no kind.
        failed(io::Error::new(ErrorKind::HostUnreachable, cause))
    })?;
    let found: Vec<SocketAddr> = found.collect();
    if found.is_empty() { Err(failed(ErrorKind::NotFound.into())) } else { Ok(found) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn rejects_own_listeners_as_targets() {
        let dialer =
            |at: &str| Dialer { listeners: vec![at.parse().unwrap()], ..Dialer::default() };
        let connect = async |at: &str, target: &str| {
            let target: Target = target.parse().unwrap();
            let addresses = lookup(&target).await.unwrap();
            dialer(at).connect(&target, addresses).await.unwrap_err()
        };
        for (at, target) in [
            ("127.0.0.1:9", "127.0.0.1:9"),
            ("0.0.0.0:9", "127.0.0.7:9"),
            ("[::]:9", "127.0.0.1:9"),
            ("[::]:9", "[::1]:9"),
        ] {
            let error = connect(at, target).await;
            assert!(matches!(error, Error::SelfConnection { .. }), "{at} {target}: {error}");
        }
        for (at, target) in [("127.0.0.1:9", "127.0.0.2:9"), ("0.0.0.0:9", "127.0.0.1:10")] {
            let error = connect(at, target).await;
            assert!(matches!(error, Error::Socket { .. }), "{at} {target}: {error}");
        }
    }
}
