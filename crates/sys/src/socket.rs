//! Sockets of the built-in flows: TCP and UDP with the options that a traffic generator needs,
//! and the readiness queue that they wait on. All sockets are non-blocking and belong to the
//! network namespace that the calling thread is in when it makes them.

mod address;
mod datagram;
mod mptcp_info;
mod ready;
mod segments;
mod steering;
mod stream;
mod tcp_info;

use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use crate::{Error, Result, check};
use address::Address;

pub use datagram::{Arrival, BATCH, receive_datagrams, send_datagrams, set_arrival_stamps};
pub use mptcp_info::{MptcpInfo, SubflowInfo};
pub use ready::{Interest, Readiness, Ready, ReadyQueue};
pub use segments::{TrainReceiver, TrainSender, path_mtu, receive_buffer, train_socket};
pub use steering::{original_destination, set_mark};
pub use stream::{StreamOptions, bind_address, set_notsent_lowat, set_stream_options, tcp_socket};
pub use tcp_info::TcpInfo;

/// What a TCP socket is set to before it is used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TcpOptions<'a> {
    /// Congestion control, as the kernel names it; `None`: the kernel's default.
    pub congestion: Option<&'a str>,
    /// Send small segments at once (no Nagle's algorithm).
    pub no_delay: bool,
    /// DSCP value of its packets, 0–63.
    pub dscp: u8,
    /// Bytes of receive window and of send buffer; the kernel reserves twice as much. `None`: the
    /// kernel tunes them.
    pub window: Option<usize>,
    /// Multipath TCP (RFC 8684): a connection that may have more than one path.
    pub multipath: bool,
}

/// A TCP socket that accepts connections at `address`, on a port of the kernel's choice.
/// Connections that it accepts inherit its options.
pub fn listen(address: IpAddr, options: TcpOptions<'_>) -> Result<(OwnedFd, SocketAddr)> {
    listen_at(SocketAddr::new(address, 0), options)
}

/// As [`listen`], on a given port: earlier connections to it may still be ending.
pub fn listen_at(at: SocketAddr, options: TcpOptions<'_>) -> Result<(OwnedFd, SocketAddr)> {
    /// Streams of one flow that may be waiting to be accepted.
    const BACKLOG: libc::c_int = 4096;
    let socket = tcp(at.ip(), options)?;
    if at.port() != 0 {
        let call = "setsockopt(SO_REUSEADDR)";
        set(&socket, libc::SOL_SOCKET, libc::SO_REUSEADDR, 1 as libc::c_int, call)?;
    }
    bind(&socket, at)?;
    // SAFETY: takes integers only.
    check("listen", unsafe { libc::listen(socket.as_raw_fd(), BACKLOG) })?;
    let at = local_address(&socket)?;
    Ok((socket, at))
}

/// A TCP socket that is connecting from `from` to `to`. It is writable once it has, or failed to
/// (see [`pending_error`]).
pub fn connect(from: IpAddr, to: SocketAddr, options: TcpOptions<'_>) -> Result<OwnedFd> {
    let socket = tcp(from, options)?;
    bind(&socket, SocketAddr::new(from, 0))?;
    match attach(&socket, to) {
        Err(error) if error.errno() != Some(libc::EINPROGRESS) => Err(error),
        _ => Ok(socket),
    }
}

/// The next connection of a listening socket, if one is there.
pub fn accept(listener: BorrowedFd<'_>) -> Result<Option<OwnedFd>> {
    let flags = libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC;
    let null = std::ptr::null_mut();
    // SAFETY: no address is asked for, so no memory is written.
    let fd = unsafe { libc::accept4(listener.as_raw_fd(), null, null.cast(), flags) };
    match check("accept", fd) {
        // The peer may have gone between its SYN and now; that is its sender's error to report.
        Err(e) if matches!(e.errno(), Some(libc::EAGAIN | libc::ECONNABORTED | libc::EINTR)) => {
            Ok(None)
        }
        // SAFETY: the call has just returned this descriptor, nobody else owns it.
        other => other.map(|fd| Some(unsafe { OwnedFd::from_raw_fd(fd) })),
    }
}

/// A UDP socket at `address` on a port of the kernel's choice, with buffers of up to `buffer`
/// bytes (less where the machine's `rmem_max` and `wmem_max` say so).
pub fn udp(address: IpAddr, dscp: u8, buffer: usize) -> Result<(OwnedFd, SocketAddr)> {
    udp_at(SocketAddr::new(address, 0), dscp, buffer)
}

/// As [`udp`], on a given port.
pub fn udp_at(at: SocketAddr, dscp: u8, buffer: usize) -> Result<(OwnedFd, SocketAddr)> {
    let socket = open(at.ip(), libc::SOCK_DGRAM)?;
    set_dscp(&socket, at.ip(), dscp)?;
    let size = libc::c_int::try_from(buffer).unwrap_or(libc::c_int::MAX);
    for (force, ordinary) in
        [(libc::SO_RCVBUFFORCE, libc::SO_RCVBUF), (libc::SO_SNDBUFFORCE, libc::SO_SNDBUF)]
    {
        // Passing the machine's limit is a privilege; without it the limit holds.
        if set(&socket, libc::SOL_SOCKET, force, size, "setsockopt(SO_RCVBUFFORCE)").is_err() {
            set(&socket, libc::SOL_SOCKET, ordinary, size, "setsockopt(SO_RCVBUF)")?;
        }
    }
    bind(&socket, at)?;
    let at = local_address(&socket)?;
    Ok((socket, at))
}

/// Fixes the peer of a UDP socket: datagrams go there, and only its datagrams are received.
pub fn set_peer(socket: BorrowedFd<'_>, peer: SocketAddr) -> Result<()> {
    attach(&socket, peer)
}

/// Writes as much of `data` as the socket takes now. `None`: nothing.
pub fn write(socket: BorrowedFd<'_>, data: &[u8]) -> Result<Option<usize>> {
    // SAFETY: pointer and length describe `data`.
    let sent = unsafe {
        libc::send(socket.as_raw_fd(), data.as_ptr().cast(), data.len(), libc::MSG_NOSIGNAL)
    };
    count("send", sent)
}

/// Writes as [`write()`], and ends a record if all of `data` was taken: what is written next never
/// shares a TCP segment with it, however long it has to wait (`MSG_EOR`, which Linux's TCP heeds
/// since 4.7; without it, small writes that wait for the congestion window are joined even with
/// `TCP_NODELAY`).
pub fn write_record(socket: BorrowedFd<'_>, data: &[u8]) -> Result<Option<usize>> {
    let flags = libc::MSG_NOSIGNAL | libc::MSG_EOR;
    // SAFETY: pointer and length describe `data`.
    let sent = unsafe { libc::send(socket.as_raw_fd(), data.as_ptr().cast(), data.len(), flags) };
    count("send", sent)
}

/// Reads what has arrived into `buffer`. `Some(0)`: the peer has finished. `None`: nothing is
/// there.
pub fn read(socket: BorrowedFd<'_>, buffer: &mut [u8]) -> Result<Option<usize>> {
    let (place, length) = (buffer.as_mut_ptr().cast(), buffer.len());
    // SAFETY: pointer and length describe `buffer`.
    let got = unsafe { libc::recv(socket.as_raw_fd(), place, length, 0) };
    count("recv", got)
}

/// Takes up to `limit` received bytes from a TCP socket without copying them anywhere
/// (`MSG_TRUNC`, tcp(7)). `Some(0)`: the peer has finished. `None`: nothing is there.
pub fn discard(socket: BorrowedFd<'_>, limit: usize) -> Result<Option<usize>> {
    // SAFETY: with MSG_TRUNC, TCP writes nothing to the buffer, so that it may be null.
    let got =
        unsafe { libc::recv(socket.as_raw_fd(), std::ptr::null_mut(), limit, libc::MSG_TRUNC) };
    count("recv", got)
}

/// Tells the peer that nothing more will be written.
pub fn finish_writing(socket: BorrowedFd<'_>) -> Result<()> {
    // SAFETY: takes integers only.
    check("shutdown", unsafe { libc::shutdown(socket.as_raw_fd(), libc::SHUT_WR) })?;
    Ok(())
}

/// Makes closing the socket drop what is still queued and reset the connection.
pub fn reset_on_close(socket: BorrowedFd<'_>) -> Result<()> {
    let linger = libc::linger { l_onoff: 1, l_linger: 0 };
    set(&socket, libc::SOL_SOCKET, libc::SO_LINGER, linger, "setsockopt(SO_LINGER)")
}

/// Takes the error that the kernel holds for a socket, such as a refused connection.
pub fn pending_error(socket: BorrowedFd<'_>) -> Result<()> {
    let mut error: libc::c_int = 0;
    let place = bytes_of(&mut error);
    get(&socket, libc::SOL_SOCKET, libc::SO_ERROR, place, "getsockopt(SO_ERROR)")?;
    if error == 0 { Ok(()) } else { Err(Error::from_errno("socket", error)) }
}

/// How many datagrams the kernel had no room for at this socket since it was made; the count
/// begins anew after 2³² (`SO_MEMINFO`, Linux 4.12).
pub fn receive_drops(socket: BorrowedFd<'_>) -> Result<u32> {
    const SO_MEMINFO: libc::c_int = 55;
    /// Place of the count among the numbers (`SK_MEMINFO_DROPS` of `linux/sock_diag.h`).
    const DROPS: usize = 8;
    let mut numbers = [0_u32; 9];
    let place = bytes_of(&mut numbers);
    get(&socket, libc::SOL_SOCKET, SO_MEMINFO, place, "getsockopt(SO_MEMINFO)")?;
    Ok(numbers[DROPS])
}

/// The congestion control that a TCP socket uses.
pub fn congestion(socket: BorrowedFd<'_>) -> Result<String> {
    let mut name = [0_u8; 16];
    let call = "getsockopt(TCP_CONGESTION)";
    get(&socket, libc::IPPROTO_TCP, libc::TCP_CONGESTION, &mut name, call)?;
    let end = name.iter().position(|byte| *byte == 0).unwrap_or(name.len());
    Ok(String::from_utf8_lossy(&name[..end]).into_owned())
}

/// Sets the congestion control of a TCP socket. `ENOENT`: the kernel does not have it; `EPERM`:
/// it is reserved for privileged users (see [`congestion_controls`]).
pub fn set_congestion(socket: BorrowedFd<'_>, name: &str) -> Result<()> {
    let call = "setsockopt(TCP_CONGESTION)";
    set_bytes(&socket, libc::IPPROTO_TCP, libc::TCP_CONGESTION, name.as_bytes(), call)
}

/// The kernel's congestion controls that it has loaded, and of these the ones that anybody may
/// use (`net.ipv4.tcp_available_congestion_control`, `tcp_allowed_congestion_control`).
pub fn congestion_controls() -> Result<(Vec<String>, Vec<String>)> {
    let read = |name: &str| {
        let path = format!("/proc/sys/net/ipv4/tcp_{name}_congestion_control");
        let text = std::fs::read_to_string(&path).map_err(|e| Error::file("read", &path, e))?;
        Ok(text.split_ascii_whitespace().map(str::to_owned).collect())
    };
    Ok((read("available")?, read("allowed")?))
}

/// Datagrams that arrived at this socket but found its buffer full (`SO_MEMINFO`).
pub fn dropped_on_arrival(socket: BorrowedFd<'_>) -> Result<u64> {
    /// `SK_MEMINFO_DROPS` of `linux/sock_diag.h`.
    const DROPS: usize = 8;
    let mut info = [0_u8; 4 * 9];
    let call = "getsockopt(SO_MEMINFO)";
    let length = get(&socket, libc::SOL_SOCKET, libc::SO_MEMINFO, &mut info, call)?;
    if length < info.len() {
        return Ok(0);
    }
    let [a, b, c, d] = [0, 1, 2, 3].map(|byte| info[4 * DROPS + byte]);
    Ok(u64::from(u32::from_ne_bytes([a, b, c, d])))
}

fn tcp(address: IpAddr, options: TcpOptions<'_>) -> Result<OwnedFd> {
    let protocol = if options.multipath { libc::IPPROTO_MPTCP } else { 0 };
    let socket = open_protocol(address, libc::SOCK_STREAM, protocol)?;
    if let Some(name) = options.congestion {
        set_congestion(as_fd(&socket), name)?;
    }
    if options.no_delay {
        let call = "setsockopt(TCP_NODELAY)";
        set(&socket, libc::IPPROTO_TCP, libc::TCP_NODELAY, 1 as libc::c_int, call)?;
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

/// Beyond `net.core.rmem_max` and `wmem_max` only for those who may; otherwise the kernel cuts it
/// in silence.
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
    // The kernel doubles what was asked for (socket(7)).
    if granted / 2 >= value {
        return Ok(());
    }
    Err(Error::from_errno(call, libc::EPERM))
}

fn open(address: IpAddr, kind: libc::c_int) -> Result<OwnedFd> {
    open_protocol(address, kind, 0)
}

fn open_protocol(address: IpAddr, kind: libc::c_int, protocol: libc::c_int) -> Result<OwnedFd> {
    let family = if address.is_ipv4() { libc::AF_INET } else { libc::AF_INET6 };
    let kind = kind | libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC;
    // SAFETY: takes integers only.
    let fd = check("socket", unsafe { libc::socket(family, kind, protocol) })?;
    // SAFETY: the call has just returned this descriptor, nobody else owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Sets the DSCP value, 0–63, of the packets of a socket of the same family as `address`.
pub fn set_dscp(socket: &OwnedFd, address: IpAddr, dscp: u8) -> Result<()> {
    if dscp == 0 {
        return Ok(());
    }
    // DSCP is the upper six bits of the field (RFC 2474); the lower two are ECN's.
    let value = libc::c_int::from(dscp & 63) << 2;
    if address.is_ipv4() {
        set(socket, libc::IPPROTO_IP, libc::IP_TOS, value, "setsockopt(IP_TOS)")
    } else {
        set(socket, libc::IPPROTO_IPV6, libc::IPV6_TCLASS, value, "setsockopt(IPV6_TCLASS)")
    }
}

fn bind(socket: &OwnedFd, at: SocketAddr) -> Result<()> {
    let address = Address::from(at);
    let (pointer, length) = address.parts();
    // SAFETY: pointer and length describe `address`, which outlives the call.
    check("bind", unsafe { libc::bind(socket.as_raw_fd(), pointer, length) })?;
    Ok(())
}

fn attach(socket: &impl AsRawFd, to: SocketAddr) -> Result<()> {
    let address = Address::from(to);
    let (pointer, length) = address.parts();
    // SAFETY: pointer and length describe `address`, which outlives the call.
    check("connect", unsafe { libc::connect(socket.as_raw_fd(), pointer, length) })?;
    Ok(())
}

/// The port at this end of a socket.
pub fn local_port(socket: BorrowedFd<'_>) -> Result<u16> {
    local_address(&socket).map(|address| address.port())
}

/// The port at the other end of a connection.
pub fn peer_port(socket: BorrowedFd<'_>) -> Result<u16> {
    let address = Address::filled(|pointer, length| {
        // SAFETY: `length` says how much room there is at `pointer`.
        check("getpeername", unsafe { libc::getpeername(socket.as_raw_fd(), pointer, length) })
    })?;
    address.to_std().map(|address| address.port()).ok_or(Error::Malformed("getpeername"))
}

fn local_address(socket: &impl AsRawFd) -> Result<SocketAddr> {
    Address::filled(|pointer, length| {
        // SAFETY: `length` says how much room there is at `pointer`.
        check("getsockname", unsafe { libc::getsockname(socket.as_raw_fd(), pointer, length) })
    })?
    .to_std()
    .ok_or(Error::Malformed("getsockname"))
}

fn as_fd(socket: &OwnedFd) -> BorrowedFd<'_> {
    std::os::fd::AsFd::as_fd(socket)
}

/// The result of a call that moves bytes: `None` where it would have to wait.
fn count(call: &'static str, result: isize) -> Result<Option<usize>> {
    if let Ok(count) = usize::try_from(result) {
        return Ok(Some(count));
    }
    let error = Error::last(call);
    let wait = matches!(error.errno(), Some(libc::EAGAIN | libc::EINTR));
    if wait { Ok(None) } else { Err(error) }
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
// SAFETY: a pair of integers of the same size, thus without padding.
unsafe impl Plain for libc::linger {}
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

/// Reads an option that is an address.
fn get_address(socket: &impl AsRawFd, level: libc::c_int, option: libc::c_int) -> Result<Address> {
    Address::filled(|pointer, length| {
        // SAFETY: `length` says how much room there is at `pointer`.
        let result =
            unsafe { libc::getsockopt(socket.as_raw_fd(), level, option, pointer.cast(), length) };
        check("getsockopt", result)
    })
}

/// Reads an option; answers how many bytes the kernel filled.
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
