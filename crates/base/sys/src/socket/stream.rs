//! TCP sockets of programs that select paths themselves: creation and connection are separate.

use std::net::{IpAddr, SocketAddr};
use std::os::fd::{BorrowedFd, OwnedFd};

use base::{Bytes, Span};

use super::steering::bind_to_device;
use super::{SocketType, bind, open, set, set_congestion};
use crate::Result;

/// Options that are set on a TCP socket before it connects or listens; accepted
/// connections inherit them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StreamOptions {
    /// Congestion control, by its name in the kernel; `None`: the kernel's default.
    pub congestion: Option<String>,
    /// Network device for all packets.
    pub device: Option<String>,
    /// Payload in its send buffer; `None`: autotuned by the kernel.
    pub send_buffer: Option<Bytes>,
    /// Payload in its receive buffer; `None`: autotuned by the kernel.
    pub receive_buffer: Option<Bytes>,
    /// Timeout of unacknowledged data, after which the connection breaks (`TCP_USER_TIMEOUT`, RFC
    /// 5482).
    pub user_timeout: Option<Span>,
    /// Pace segments in the kernel, at the rate that it derives from window and round-trip time.
    pub paced: bool,
}

/// A TCP socket for peers of the same family as `address`, in the calling thread's namespace.
pub fn tcp_socket(address: IpAddr) -> Result<OwnedFd> {
    open(address, SocketType::STREAM, None)
}

/// Sets a TCP socket's options, and sends small segments at once. Without privileges, the kernel
/// silently limits buffers (`net.core.rmem_max`, `wmem_max`).
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
    if options.paced {
        // Pacing only avoids losses: a kernel without the option sends bursts.
        let _ = set_pacing(socket);
    }
    Ok(())
}

/// Maximum pacing rate in bytes per second. Any rate but the default, the largest number, turns on
/// TCP's pacing (Linux 4.13). No path reaches this one, nor its lower half, which kernels before
/// Linux 4.20 read.
pub(super) const MAX_PACING_RATE: libc::c_ulong = libc::c_ulong::MAX - 1;

fn set_pacing(socket: BorrowedFd<'_>) -> Result<()> {
    let call = "setsockopt(SO_MAX_PACING_RATE)";
    set(&socket, libc::SOL_SOCKET, libc::SO_MAX_PACING_RATE, MAX_PACING_RATE, call)
}

/// Sets the maximum of unsent data in a TCP socket, which reports that it is writable below half of
/// it (`TCP_NOTSENT_LOWAT`).
pub fn set_notsent_lowat(socket: BorrowedFd<'_>, bytes: u32) -> Result<()> {
    let call = "setsockopt(TCP_NOTSENT_LOWAT)";
    set(&socket, libc::IPPROTO_TCP, libc::TCP_NOTSENT_LOWAT, bytes, call)
}

/// Sets the local address of a socket before it connects. The port is selected when it connects, so
/// that ports in use towards other peers can be reused (`IP_BIND_ADDRESS_NO_PORT`).
pub fn bind_address(socket: &OwnedFd, address: IpAddr) -> Result<()> {
    let call = "setsockopt(IP_BIND_ADDRESS_NO_PORT)";
    let late = libc::IP_BIND_ADDRESS_NO_PORT;
    set(socket, libc::IPPROTO_IP, late, 1 as libc::c_int, call)?;
    bind(socket, SocketAddr::new(address, 0))
}
