//! TCP sockets of programs that choose paths themselves: made in one place, connected in another.

use std::net::{IpAddr, SocketAddr};
use std::os::fd::{BorrowedFd, OwnedFd};

use base::{Bytes, Span};

use super::steering::bind_to_device;
use super::{as_fd, bind, open, set, set_congestion};
use crate::Result;

/// What a TCP socket is set to before it connects, or listens and hands it on to what it accepts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StreamOptions {
    /// Congestion control, as the kernel names it; `None`: the kernel's default.
    pub congestion: Option<String>,
    /// Network device that all packets are to take.
    pub device: Option<String>,
    /// Payload that its send buffer is to hold; `None`: the kernel tunes it.
    pub send_buffer: Option<Bytes>,
    /// The same of its receive buffer.
    pub receive_buffer: Option<Bytes>,
    /// The connection breaks once data has waited this long for its acknowledgement
    /// (`TCP_USER_TIMEOUT`, RFC 5482).
    pub user_timeout: Option<Span>,
}

/// A TCP socket for peers of the same family as `address`, of the calling thread's namespace.
pub fn tcp_socket(address: IpAddr) -> Result<OwnedFd> {
    open(address, libc::SOCK_STREAM)
}

/// Sets a TCP socket's options, and that small segments leave at once. Buffers are cut in silence
/// to what the machine allows (`net.core.rmem_max`, `wmem_max`) to those without privileges.
pub fn set_stream_options(socket: BorrowedFd<'_>, options: &StreamOptions) -> Result<()> {
    let call = "setsockopt(TCP_NODELAY)";
    set(&socket, libc::IPPROTO_TCP, libc::TCP_NODELAY, 1 as libc::c_int, call)?;
    if let Some(name) = &options.congestion {
        set_congestion(socket, name)?;
    }
    if let Some(name) = &options.device {
        bind_to_device(socket, name)?;
    }
    let buffers = [
        (options.send_buffer, libc::SO_SNDBUFFORCE, libc::SO_SNDBUF, "setsockopt(SO_SNDBUF)"),
        (options.receive_buffer, libc::SO_RCVBUFFORCE, libc::SO_RCVBUF, "setsockopt(SO_RCVBUF)"),
    ];
    for (size, force, ordinary, call) in buffers {
        let Some(size) = size else { continue };
        let size = libc::c_int::try_from(size.count()).unwrap_or(libc::c_int::MAX);
        if set(&socket, libc::SOL_SOCKET, force, size, call).is_err() {
            set(&socket, libc::SOL_SOCKET, ordinary, size, call)?;
        }
    }
    if let Some(span) = options.user_timeout {
        let millis = libc::c_int::try_from(span.as_nanos() / 1_000_000).unwrap_or(libc::c_int::MAX);
        let call = "setsockopt(TCP_USER_TIMEOUT)";
        set(&socket, libc::IPPROTO_TCP, libc::TCP_USER_TIMEOUT, millis, call)?;
    }
    Ok(())
}

/// A TCP socket takes data only while less than this waits in it unsent, and says that it is
/// writable below half of it (`TCP_NOTSENT_LOWAT`).
pub fn set_notsent_lowat(socket: BorrowedFd<'_>, bytes: u32) -> Result<()> {
    let call = "setsockopt(TCP_NOTSENT_LOWAT)";
    set(&socket, libc::IPPROTO_TCP, libc::TCP_NOTSENT_LOWAT, bytes, call)
}

/// Fixes the address at this end of a socket that is going to connect. Its port is chosen then, so
/// that ports in use towards other peers can be used again (`IP_BIND_ADDRESS_NO_PORT`).
pub fn bind_address(socket: &OwnedFd, address: IpAddr) -> Result<()> {
    let call = "setsockopt(IP_BIND_ADDRESS_NO_PORT)";
    let late = libc::IP_BIND_ADDRESS_NO_PORT;
    set(&as_fd(socket), libc::IPPROTO_IP, late, 1 as libc::c_int, call)?;
    bind(socket, SocketAddr::new(address, 0))
}
