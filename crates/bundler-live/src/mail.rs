//! The UDP socket of a box: messages, and encapsulated packets.

use std::io::{self, ErrorKind};
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::os::fd::{AsFd, BorrowedFd};

use rustix::net::sockopt;

use crate::{Error, Result};

/// Datagrams are at most so long.
const LARGEST: usize = 65_536;
/// Room in the kernel for datagrams that come while the box does something else.
const ROOM: usize = 8 << 20;

/// The socket.
#[derive(Debug)]
pub(crate) struct Mail {
    socket: UdpSocket,
    is_v6: bool,
    buffer: Vec<u8>,
    /// Datagrams that the kernel did not take.
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
        // Beyond the machine's limit only for who may; otherwise the limit holds.
        if sockopt::set_socket_recv_buffer_size_force(&socket, ROOM).is_err() {
            let _ = sockopt::set_socket_recv_buffer_size(&socket, ROOM);
        }
        let _ = sockopt::set_socket_send_buffer_size(&socket, ROOM);
        let buffer = vec![0; LARGEST];
        Ok(Self { socket, is_v6: address.is_ipv6(), buffer, refused: 0 })
    }

    /// The next datagram that waits.
    pub(crate) fn receive(&mut self) -> Option<&[u8]> {
        loop {
            match self.socket.recv_from(&mut self.buffer) {
                Ok((length, _)) => return self.buffer.get(..length),
                Err(error) if error.kind() == ErrorKind::WouldBlock => return None,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                // What the network says about datagrams sent before.
                Err(_) => return None,
            }
        }
    }

    /// Sends a datagram, if the kernel has room for it.
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

impl AsFd for Mail {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}
