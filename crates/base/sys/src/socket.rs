//! Sockets of the built-in flows: TCP and UDP with the options of a traffic generator, and the
//! readiness queue for them. All sockets are non-blocking and belong to the network namespace of
//! the thread that creates them.

mod address;
mod datagram;
mod mptcp_info;
mod ready;
mod segments;
mod steering;
mod stream;
mod tcp_info;

use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use rustix::io::Errno;
use rustix::net::{
    self, AddressFamily, RecvFlags, SendFlags, Shutdown, SocketFlags, SocketType, sockopt,
};

use crate::{Error, Result, check, named};

pub use datagram::{Arrival, BATCH, receive_datagrams, send_datagrams, set_arrival_stamps};
pub use mptcp_info::{MptcpInfo, SubflowInfo};
pub use ready::{Interest, Readiness, Ready, ReadyQueue};
pub use segments::{TrainReceiver, TrainSender, path_mtu, receive_buffer, train_socket};
pub use steering::{original_destination, set_mark};
pub use stream::{StreamOptions, bind_address, set_notsent_lowat, set_stream_options, tcp_socket};
pub use tcp_info::TcpInfo;

/// Options that are set on a TCP socket before it is used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TcpOptions<'a> {
    /// Congestion control, by its name in the kernel; `None`: the kernel's default.
    pub congestion: Option<&'a str>,
    /// Send small segments at once (no Nagle's algorithm).
    pub no_delay: bool,
    /// DSCP value of its packets, 0–63.
    pub dscp: u8,
    /// Size of receive window and send buffer in bytes; the kernel reserves twice as much. `None`:
    /// autotuned by the kernel.
    pub window: Option<usize>,
    /// Multipath TCP (RFC 8684).
    pub multipath: bool,
}

/// A TCP socket that accepts connections at `address`, on a port selected by the kernel. Accepted
/// connections inherit its options.
pub fn listen(address: IpAddr, options: TcpOptions<'_>) -> Result<(OwnedFd, SocketAddr)> {
    listen_at(SocketAddr::new(address, 0), options)
}

/// As [`listen`], on a given port, on which earlier connections may still be closing.
pub fn listen_at(at: SocketAddr, options: TcpOptions<'_>) -> Result<(OwnedFd, SocketAddr)> {
    /// Maximum number of streams of one flow in the accept queue.
    const BACKLOG: i32 = 4096;
    let socket = tcp(at.ip(), options)?;
    if at.port() != 0 {
        let reused = sockopt::set_socket_reuseaddr(&socket, true);
        named("setsockopt(SO_REUSEADDR)", reused)?;
    }
    bind(&socket, at)?;
    named("listen", net::listen(&socket, BACKLOG))?;
    let at = local_address(&socket)?;
    Ok((socket, at))
}

/// Starts to connect a TCP socket from `from` to `to`. It becomes writable when the connection is
/// established, or has failed (see [`pending_error`]).
pub fn connect(from: IpAddr, to: SocketAddr, options: TcpOptions<'_>) -> Result<OwnedFd> {
    let socket = tcp(from, options)?;
    bind(&socket, SocketAddr::new(from, 0))?;
    match net::connect(&socket, &to) {
        Err(Errno::INPROGRESS) => Ok(socket),
        connected => named("connect", connected).map(|()| socket),
    }
}

/// Accepts the next connection of a listening socket, if there is one.
pub fn accept(listener: BorrowedFd<'_>) -> Result<Option<OwnedFd>> {
    match net::accept_with(listener, SocketFlags::NONBLOCK | SocketFlags::CLOEXEC) {
        // The peer may have disconnected since its SYN; its sender reports that error.
        Err(Errno::AGAIN | Errno::CONNABORTED | Errno::INTR) => Ok(None),
        accepted => named("accept", accepted).map(Some),
    }
}

/// A UDP socket at `address` on a port selected by the kernel, with buffers of up to `buffer` bytes
/// (limited by `rmem_max` and `wmem_max`).
pub fn udp(address: IpAddr, dscp: u8, buffer: usize) -> Result<(OwnedFd, SocketAddr)> {
    udp_at(SocketAddr::new(address, 0), dscp, buffer)
}

/// As [`udp`], on a given port.
pub fn udp_at(at: SocketAddr, dscp: u8, buffer: usize) -> Result<(OwnedFd, SocketAddr)> {
    let socket = open(at.ip(), SocketType::DGRAM, None)?;
    set_dscp(&socket, at.ip(), dscp)?;
    let size = libc::c_int::try_from(buffer).unwrap_or(libc::c_int::MAX);
    for (force, ordinary) in
        [(libc::SO_RCVBUFFORCE, libc::SO_RCVBUF), (libc::SO_SNDBUFFORCE, libc::SO_SNDBUF)]
    {
        // Exceeding the system's limit requires a privilege; otherwise the limit applies.
        if set(&socket, libc::SOL_SOCKET, force, size, "setsockopt(SO_RCVBUFFORCE)").is_err() {
            set(&socket, libc::SOL_SOCKET, ordinary, size, "setsockopt(SO_RCVBUF)")?;
        }
    }
    bind(&socket, at)?;
    let at = local_address(&socket)?;
    Ok((socket, at))
}

/// Sets the peer of a UDP socket, to which all datagrams are sent; only its datagrams are received.
pub fn set_peer(socket: BorrowedFd<'_>, peer: SocketAddr) -> Result<()> {
    named("connect", net::connect(socket, &peer))
}

/// Writes as much of `data` as the socket accepts now. `None`: nothing.
pub fn write(socket: BorrowedFd<'_>, data: &[u8]) -> Result<Option<usize>> {
    moved("send", net::send(socket, data, SendFlags::NOSIGNAL))
}

/// As [`write()`], and ends a record if all of `data` was accepted: later data never share a TCP
/// segment with it, however long it is queued (`MSG_EOR`, respected by Linux's TCP since 4.7).
/// Without it, small writes that wait for the congestion window are coalesced even with
/// `TCP_NODELAY`.
pub fn write_record(socket: BorrowedFd<'_>, data: &[u8]) -> Result<Option<usize>> {
    moved("send", net::send(socket, data, SendFlags::NOSIGNAL | SendFlags::EOR))
}

/// Reads received bytes into `buffer`. `Some(0)`: the peer has sent FIN. `None`: no
/// bytes are available.
pub fn read(socket: BorrowedFd<'_>, buffer: &mut [u8]) -> Result<Option<usize>> {
    let got = net::recv(socket, buffer, RecvFlags::empty());
    moved("recv", got.map(|(count, _)| count))
}

/// Discards up to `limit` received bytes of a TCP socket without copying them (`MSG_TRUNC`,
/// tcp(7)). `Some(0)`: the peer has sent FIN. `None`: no bytes are available.
pub fn discard(socket: BorrowedFd<'_>, limit: usize) -> Result<Option<usize>> {
    // SAFETY: with MSG_TRUNC, TCP writes nothing to the buffer, so that it may be null.
    let got =
        unsafe { libc::recv(socket.as_raw_fd(), std::ptr::null_mut(), limit, libc::MSG_TRUNC) };
    count("recv", got)
}

/// Sends FIN: no more data will be written.
pub fn finish_writing(socket: BorrowedFd<'_>) -> Result<()> {
    named("shutdown", net::shutdown(socket, Shutdown::Write))
}

/// Closing the socket then drops queued data and resets the connection.
pub fn reset_on_close(socket: BorrowedFd<'_>) -> Result<()> {
    let set = sockopt::set_socket_linger(socket, Some(Duration::ZERO));
    named("setsockopt(SO_LINGER)", set)
}

/// Returns the pending error of a socket, such as a refused connection.
pub fn pending_error(socket: BorrowedFd<'_>) -> Result<()> {
    named("socket", named("getsockopt(SO_ERROR)", sockopt::socket_error(socket))?)
}

/// The congestion control that a TCP socket uses.
pub fn congestion(socket: BorrowedFd<'_>) -> Result<String> {
    named("getsockopt(TCP_CONGESTION)", sockopt::tcp_congestion(socket))
}

/// Sets the congestion control of a TCP socket. `ENOENT`: the kernel does not have it; `EPERM`: it
/// is restricted to privileged users (see [`congestion_controls`]).
pub fn set_congestion(socket: BorrowedFd<'_>, name: &str) -> Result<()> {
    named("setsockopt(TCP_CONGESTION)", sockopt::set_tcp_congestion(socket, name))
}

/// The congestion controls loaded in the kernel, and those of them that unprivileged users may use
/// (`net.ipv4.tcp_available_congestion_control`, `tcp_allowed_congestion_control`).
pub fn congestion_controls() -> Result<(Vec<String>, Vec<String>)> {
    let read = |name: &str| {
        let path = format!("/proc/sys/net/ipv4/tcp_{name}_congestion_control");
        let text = std::fs::read_to_string(&path).map_err(|e| Error::file("read", &path, e))?;
        Ok(text.split_ascii_whitespace().map(str::to_owned).collect())
    };
    Ok((read("available")?, read("allowed")?))
}

/// Number of received datagrams that were dropped because the socket's buffer was full; wraps at
/// 2³² (`SO_MEMINFO`, Linux 4.12).
pub fn dropped_on_arrival(socket: BorrowedFd<'_>) -> Result<u64> {
    /// `SK_MEMINFO_DROPS` of `linux/sock_diag.h`.
    const DROPS: usize = 8;
    let mut info = [0_u8; 4 * 9];
    let call = "getsockopt(SO_MEMINFO)";
    let length = get(&socket, libc::SOL_SOCKET, libc::SO_MEMINFO, &mut info, call)?;
    if length < info.len() {
        return Ok(0);
    }
    Ok(info[4 * DROPS..].first_chunk().map_or(0, |count| u32::from_ne_bytes(*count)).into())
}

fn tcp(address: IpAddr, options: TcpOptions<'_>) -> Result<OwnedFd> {
    let protocol = options.multipath.then_some(net::ipproto::MPTCP);
    let socket = open(address, SocketType::STREAM, protocol)?;
    if let Some(name) = options.congestion {
        set_congestion(socket.as_fd(), name)?;
    }
    if options.no_delay {
        named("setsockopt(TCP_NODELAY)", sockopt::set_tcp_nodelay(&socket, true))?;
    }
    set_dscp(&socket, address, options.dscp)?;
    if let Some(window) = options.window {
        let force = [libc::SO_RCVBUFFORCE, libc::SO_RCVBUF];
        set_buffer(&socket, force, window, "setsockopt(SO_RCVBUF)")?;
        let force = [libc::SO_SNDBUFFORCE, libc::SO_SNDBUF];
        set_buffer(&socket, force, window, "setsockopt(SO_SNDBUF)")?;
    }
    Ok(socket)
}

/// Sets a buffer size. Exceeding `net.core.rmem_max` and `wmem_max` requires a privilege; otherwise
/// the kernel silently limits the size.
fn set_buffer(
    socket: &OwnedFd,
    [force, ordinary]: [libc::c_int; 2],
    bytes: usize,
    call: &'static str,
) -> Result<()> {
    let value = libc::c_int::try_from(bytes).unwrap_or(libc::c_int::MAX);
    if set(socket, libc::SOL_SOCKET, force, value, call).is_ok() {
        return Ok(());
    }
    set(socket, libc::SOL_SOCKET, ordinary, value, call)?;
    let mut granted: libc::c_int = 0;
    get(socket, libc::SOL_SOCKET, ordinary, bytes_of(&mut granted), call)?;
    // The kernel doubles the requested value (socket(7)).
    if granted / 2 >= value {
        return Ok(());
    }
    Err(Error::from_errno(call, libc::EPERM))
}

fn open(address: IpAddr, kind: SocketType, protocol: Option<net::Protocol>) -> Result<OwnedFd> {
    let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    named("socket", net::socket_with(family, kind, flags, protocol))
}

/// Sets the DSCP value, 0–63, for packets of a socket of the same family as `address`.
pub fn set_dscp(socket: &OwnedFd, address: IpAddr, dscp: u8) -> Result<()> {
    if dscp == 0 {
        return Ok(());
    }
    // DSCP is the upper six bits of the field (RFC 2474); the lower two are ECN.
    let value = (dscp & 63) << 2;
    if address.is_ipv4() {
        named("setsockopt(IP_TOS)", sockopt::set_ip_tos(socket, value))
    } else {
        named("setsockopt(IPV6_TCLASS)", sockopt::set_ipv6_tclass(socket, value.into()))
    }
}

fn bind(socket: &OwnedFd, at: SocketAddr) -> Result<()> {
    named("bind", net::bind(socket, &at))
}

pub fn local_port(socket: BorrowedFd<'_>) -> Result<u16> {
    local_address(socket).map(|address| address.port())
}

pub fn peer_port(socket: BorrowedFd<'_>) -> Result<u16> {
    let address = named("getpeername", net::getpeername(socket))?;
    let address = address.and_then(|address| SocketAddr::try_from(address).ok());
    Ok(address.ok_or(Error::Malformed("getpeername"))?.port())
}

fn local_address(socket: impl AsFd) -> Result<SocketAddr> {
    let address = named("getsockname", net::getsockname(socket))?;
    SocketAddr::try_from(address).map_err(|_| Error::Malformed("getsockname"))
}

/// The result of a read or write: `None` if it would block.
fn count(call: &'static str, result: isize) -> Result<Option<usize>> {
    if let Ok(count) = usize::try_from(result) {
        return Ok(Some(count));
    }
    let error = Error::last(call);
    let wait = matches!(error.errno(), Some(libc::EAGAIN | libc::EINTR));
    if wait { Ok(None) } else { Err(error) }
}

/// As [`count`], for the result of a rustix call.
fn moved(call: &'static str, result: rustix::io::Result<usize>) -> Result<Option<usize>> {
    match result {
        Err(Errno::AGAIN | Errno::INTR) => Ok(None),
        other => named(call, other).map(Some),
    }
}

/// Types without padding for which every bit pattern is a value.
///
/// # Safety
/// Only such types may implement this.
unsafe trait Plain: Copy {}

// SAFETY: integers are plain.
unsafe impl Plain for u8 {}
// SAFETY: integers are plain.
unsafe impl Plain for u16 {}
// SAFETY: integers are plain.
unsafe impl Plain for u32 {}
// SAFETY: integers are plain.
unsafe impl Plain for i32 {}
// SAFETY: integers are plain.
unsafe impl Plain for u64 {}
// SAFETY: an array has no padding but that of its elements.
unsafe impl<T: Plain, const N: usize> Plain for [T; N] {}

/// The memory of a plain value.
fn bytes_of<T: Plain>(value: &mut T) -> &mut [u8] {
    // SAFETY: the slice covers exactly `value`, which has no uninitialised bytes and stays valid
    // whatever is written to it.
    unsafe { std::slice::from_raw_parts_mut(std::ptr::from_mut(value).cast(), size_of::<T>()) }
}

fn set<T: Plain>(
    socket: &impl AsRawFd,
    level: libc::c_int,
    option: libc::c_int,
    mut value: T,
    call: &'static str,
) -> Result<()> {
    set_bytes(socket, level, option, bytes_of(&mut value), call)
}

fn set_bytes(
    socket: &impl AsRawFd,
    level: libc::c_int,
    option: libc::c_int,
    value: &[u8],
    call: &'static str,
) -> Result<()> {
    let (fd, length) = (socket.as_raw_fd(), value.len() as libc::socklen_t);
    // SAFETY: pointer and length describe `value`.
    check(call, unsafe { libc::setsockopt(fd, level, option, value.as_ptr().cast(), length) })?;
    Ok(())
}

/// Reads an option; returns the number of bytes that the kernel wrote.
fn get(
    socket: &impl AsRawFd,
    level: libc::c_int,
    option: libc::c_int,
    place: &mut [u8],
    call: &'static str,
) -> Result<usize> {
    let mut length = place.len() as libc::socklen_t;
    let pointer = place.as_mut_ptr().cast();
    // SAFETY: `length` says how much room there is at `pointer`.
    let result =
        unsafe { libc::getsockopt(socket.as_raw_fd(), level, option, pointer, &raw mut length) };
    check(call, result)?;
    Ok(length as usize)
}

#[cfg(test)]
mod tests;
