//! Socket options for the path of a connection, and its original destination.

use std::net::SocketAddr;
use std::os::fd::BorrowedFd;

use rustix::io::Errno;
use rustix::net::sockopt;

use super::{local_address, set, set_bytes};
use crate::{Result, named};

/// Marks all packets of a socket for netfilter and routing rules (`SO_MARK`).
///
/// # Errors
/// `EPERM` without `CAP_NET_ADMIN` or, since Linux 5.17, `CAP_NET_RAW`.
pub fn set_mark(socket: BorrowedFd<'_>, mark: u32) -> Result<()> {
    set(&socket, libc::SOL_SOCKET, libc::SO_MARK, mark, "setsockopt(SO_MARK)")
}

/// Binds a socket, which must not be bound to a device yet, to this device (`SO_BINDTODEVICE`;
/// requires no privilege since Linux 5.7).
///
/// # Errors
/// `ENODEV`: the device does not exist.
pub(super) fn bind_to_device(socket: BorrowedFd<'_>, name: &str) -> Result<()> {
    let call = "setsockopt(SO_BINDTODEVICE)";
    set_bytes(&socket, libc::SOL_SOCKET, libc::SO_BINDTODEVICE, name.as_bytes(), call)
}

/// Original destination of an accepted connection that netfilter has redirected. `None`: it
/// was not redirected.
pub fn original_destination(socket: BorrowedFd<'_>) -> Result<Option<SocketAddr>> {
    let here = local_address(socket)?;
    // A dual-stack socket has IPv4 connections too.
    let there = if here.ip().to_canonical().is_ipv4() {
        sockopt::ip_original_dst(socket).map(SocketAddr::V4)
    } else {
        sockopt::ipv6_original_dst(socket).map(SocketAddr::V6)
    };
    let there = match there {
        // The connection is not tracked.
        Err(Errno::NOENT | Errno::NOPROTOOPT) => return Ok(None),
        other => named("getsockopt(SO_ORIGINAL_DST)", other)?,
    };
    let here = SocketAddr::new(here.ip().to_canonical(), here.port());
    Ok((there != here).then_some(there))
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};
    use std::os::fd::AsFd;

    use super::*;

    #[test]
    fn a_connection_that_nobody_redirected_was_meant_to_come_here() {
        for address in ["127.0.0.1:0", "[::1]:0", "[::]:0"] {
            // The host may not support IPv6.
            let Ok(listener) = TcpListener::bind(address) else { continue };
            let port = listener.local_addr().unwrap().port();
            let to = if address == "[::1]:0" { "::1" } else { "127.0.0.1" };
            let _client = TcpStream::connect((to, port)).unwrap();
            let (socket, _) = listener.accept().unwrap();
            assert_eq!(original_destination(socket.as_fd()).unwrap(), None, "{address}");
        }
    }
}
