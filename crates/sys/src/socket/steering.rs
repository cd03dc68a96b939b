//! Options of a connection that decide which way it takes, and where it was meant to go.

use std::net::SocketAddr;
use std::os::fd::BorrowedFd;

use super::address::Address;
use super::{get_address, local_address, set, set_bytes};
use crate::{Error, Result};

/// Marks all packets of a socket, for rules of netfilter and of routing (`SO_MARK`).
///
/// # Errors
/// `EPERM` without `CAP_NET_ADMIN` or, since Linux 5.17, `CAP_NET_RAW`.
pub fn set_mark(socket: BorrowedFd<'_>, mark: u32) -> Result<()> {
    set(&socket, libc::SOL_SOCKET, libc::SO_MARK, mark, "setsockopt(SO_MARK)")
}

/// Makes a socket use this device alone, as long as it is not yet bound to one
/// (`SO_BINDTODEVICE`; for anybody since Linux 5.7).
///
/// # Errors
/// `ENODEV`: there is no such device.
pub(super) fn bind_to_device(socket: BorrowedFd<'_>, name: &str) -> Result<()> {
    let call = "setsockopt(SO_BINDTODEVICE)";
    set_bytes(&socket, libc::SOL_SOCKET, libc::SO_BINDTODEVICE, name.as_bytes(), call)
}

/// Where an accepted connection was meant to go before netfilter sent it here. `None`: here.
pub fn original_destination(socket: BorrowedFd<'_>) -> Result<Option<SocketAddr>> {
    /// `SO_ORIGINAL_DST` of `linux/netfilter_ipv4.h`; of IPv6 it has the same number.
    const ORIGINAL: libc::c_int = 80;
    let here = local_address(&socket)?;
    // A socket of both versions holds connections of IPv4, too.
    let mapped = here.ip().to_canonical().is_ipv4();
    let level = if mapped { libc::SOL_IP } else { libc::SOL_IPV6 };
    let address: Address = match get_address(&socket, level, ORIGINAL) {
        // Nobody tracks its connection.
        Err(error) if matches!(error.errno(), Some(libc::ENOENT | libc::ENOPROTOOPT)) => {
            return Ok(None);
        }
        other => other?,
    };
    let there = address.to_std().ok_or(Error::Malformed("getsockopt(SO_ORIGINAL_DST)"))?;
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
            // A machine may lack IPv6.
            let Ok(listener) = TcpListener::bind(address) else { continue };
            let port = listener.local_addr().unwrap().port();
            let to = if address == "[::1]:0" { "::1" } else { "127.0.0.1" };
            let _client = TcpStream::connect((to, port)).unwrap();
            let (socket, _) = listener.accept().unwrap();
            assert_eq!(original_destination(socket.as_fd()).unwrap(), None, "{address}");
        }
    }
}
