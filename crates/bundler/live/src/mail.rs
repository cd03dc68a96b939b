//! The UDP socket of a gateway: messages, and encapsulated packets.

use std::io::{self, ErrorKind};
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::os::fd::{AsFd, BorrowedFd};

use rustix::net::sockopt;

use crate::{Error, Result};

/// The maximum length of a datagram.
const MAX_LEN: usize = 65_536;
/// Kernel buffer for datagrams that arrive while the gateway is busy.
const ROOM: usize = 8 << 20;
#[derive(Debug)]
pub(crate) struct Mail {
    socket: UdpSocket,
    is_v6: bool,
    buffer: Vec<u8>,
    /// Datagrams that the kernel rejected.
    pub(crate) refused: u64,
}

impl Mail {
    pub(crate) fn bind(address: SocketAddr) -> Result<Self> {
        let failure = |cause: io::Error| match cause.kind() {
            ErrorKind::AddrInUse => Error::Running(format!("UDP {address}")),
            _ => Error::Socket { action: "bind", address, cause },
        };
        let socket = UdpSocket::bind(address).map_err(failure)?;
        socket.set_nonblocking(true).map_err(failure)?;
        // A size above the system's limit requires a privilege; otherwise the limit applies.
        if sockopt::set_socket_recv_buffer_size_force(&socket, ROOM).is_err() {
            let _ = sockopt::set_socket_recv_buffer_size(&socket, ROOM);
        }
        let _ = sockopt::set_socket_send_buffer_size(&socket, ROOM);
        let buffer = vec![0; MAX_LEN];
        Ok(Self { socket, is_v6: address.is_ipv6(), buffer, refused: 0 })
    }

    /// The next datagram in the socket's queue, and its source.
    pub(crate) fn receive(&mut self) -> Option<(&mut [u8], SocketAddr)> {
        loop {
            match self.socket.recv_from(&mut self.buffer) {
                Ok((length, source)) => {
                    return self.buffer.get_mut(..length).map(|payload| (payload, source));
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => return None,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                // An ICMP error about an earlier datagram.
                Err(_) => return None,
            }
        }
    }

    /// Sends a datagram if the kernel has room for it.
    pub(crate) fn send(&mut self, to: SocketAddr, payload: &[u8]) {
        let to = match to.ip() {
            IpAddr::V4(address) if self.is_v6 => {
                SocketAddr::new(address.to_ipv6_mapped().into(), to.port())
            }
            _ => to,
        };
        if self.socket.send_to(payload, to).is_err() {
            self.refused += 1;
        }
    }
}

/// Whether a datagram from `source` has the address and port of the configured peer.
pub(crate) fn is_from(source: SocketAddr, peer: SocketAddr) -> bool {
    let end = |address: SocketAddr| (address.ip().to_canonical(), address.port());
    end(source) == end(peer)
}

impl AsFd for Mail {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn source_must_have_address_and_port_of_the_peer() {
        let of = |text: &str| text.parse::<SocketAddr>().unwrap();
        let peer = of("192.0.2.1:28316");
        assert!(is_from(peer, peer) && is_from(of("[::ffff:192.0.2.1]:28316"), peer));
        assert!(is_from(of("[fe80::1%3]:28316"), of("[fe80::1]:28316")));
        assert!(!is_from(of("192.0.2.1:28317"), peer) && !is_from(of("192.0.2.2:28316"), peer));
    }
}
