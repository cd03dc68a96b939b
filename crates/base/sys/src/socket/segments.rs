//! Trains of datagrams: the kernel segments one buffer into many datagrams when it sends
//! (`UDP_SEGMENT`), and coalesces many into one buffer when it receives (`UDP_GRO`; udp(7)).

use std::net::SocketAddr;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use super::address::Address;
use super::{SocketType, bind, bytes_of, count, get, local_address, open, set, set_buffer};
use crate::{Error, Result};

/// Maximum size of a coalesced buffer in bytes.
const MAX_TRAIN_BYTES: usize = 65_536;

/// Maximum number of buffers that one call fills.
const BUFFERS: usize = 8;

/// Maximum number of datagrams per call if the kernel does not segment.
const SINGLES: usize = 64;

/// A UDP socket at `at` (port 0: selected by the kernel) for trains of datagrams, with
/// buffers of `buffer` bytes, limited by `rmem_max` and `wmem_max`. Datagrams above a path's
/// MTU are fragmented.
pub fn train_socket(at: SocketAddr, buffer: usize) -> Result<(OwnedFd, SocketAddr)> {
    let socket = open(at.ip(), SocketType::DGRAM, None)?;
    let receive = [libc::SO_RCVBUFFORCE, libc::SO_RCVBUF];
    let send = [libc::SO_SNDBUFFORCE, libc::SO_SNDBUF];
    for (options, call) in [(receive, "setsockopt(SO_RCVBUF)"), (send, "setsockopt(SO_SNDBUF)")] {
        // EPERM: continue with the system's limit.
        let granted = set_buffer(&socket, options, buffer, call);
        granted.or_else(|error| if error.is_denied() { Ok(()) } else { Err(error) })?;
    }
    let on: libc::c_int = 1;
    // Linux before 5.0 does not support it, and returns single datagrams.
    let _ = set(&socket, libc::SOL_UDP, libc::UDP_GRO, on, "setsockopt(UDP_GRO)");
    if at.is_ipv4() {
        let (level, want) = (libc::IPPROTO_IP, libc::IP_PMTUDISC_WANT);
        set(&socket, level, libc::IP_MTU_DISCOVER, want, "setsockopt(IP_MTU_DISCOVER)")?;
    } else {
        let (level, want) = (libc::IPPROTO_IPV6, libc::IPV6_PMTUDISC_WANT);
        set(&socket, level, libc::IPV6_MTU_DISCOVER, want, "setsockopt(IPV6_MTU_DISCOVER)")?;
    }
    bind(&socket, at)?;
    let at = local_address(&socket)?;
    Ok((socket, at))
}

/// Size of a socket's receive buffer, as counted by the kernel.
pub fn receive_buffer(socket: &OwnedFd) -> Result<usize> {
    let mut size: libc::c_int = 0;
    let call = "getsockopt(SO_RCVBUF)";
    get(socket, libc::SOL_SOCKET, libc::SO_RCVBUF, bytes_of(&mut size), call)?;
    Ok(usize::try_from(size).unwrap_or(0))
}

/// Sends trains of datagrams through one socket.
#[derive(Debug, Default)]
pub struct TrainSender {
    /// The kernel, or the device, does not segment trains.
    singly: bool,
    /// Bytes of the current train that were sent.
    done: usize,
}

impl TrainSender {
    /// Whether the kernel does not segment trains, so that datagrams are sent one by one.
    pub const fn is_single(&self) -> bool {
        self.singly
    }

    /// Sends `train`, datagrams of `segment` bytes (the last may be shorter), to `to`. At most 64
    /// datagrams and 65,507 bytes. False: the socket has no room; the rest of the same train must
    /// be sent before any other.
    ///
    /// # Errors
    /// The kernel's error for the destination; the train is then dropped.
    pub fn send(
        &mut self,
        socket: BorrowedFd<'_>,
        to: SocketAddr,
        train: &[u8],
        segment: usize,
    ) -> Result<bool> {
        let address = Address::from(to);
        if !self.singly && self.done == 0 {
            match send_whole(socket, &address, train, segment) {
                Ok(sent) => return Ok(sent.is_some()),
                Err(error) if is_about_cutting(&error) && train.len() > segment => {
                    // Too long for this path's MTU: fragments are acceptable. Other errors mean
                    // that segmentation is never possible here.
                    self.singly = error.errno() != Some(libc::EMSGSIZE);
                }
                Err(error) => return Err(error),
            }
        }
        let result = self.send_singly(socket, &address, train, segment);
        if !matches!(result, Ok(false)) {
            self.done = 0;
        }
        result
    }

    fn send_singly(
        &mut self,
        socket: BorrowedFd<'_>,
        address: &Address,
        train: &[u8],
        segment: usize,
    ) -> Result<bool> {
        let empty = libc::iovec { iov_base: std::ptr::null_mut(), iov_len: 0 };
        while let Some(rest) = train.get(self.done..).filter(|rest| !rest.is_empty()) {
            let mut parts = [empty; SINGLES];
            // SAFETY: null pointers and zero lengths are a valid, empty message.
            let mut messages: [libc::mmsghdr; SINGLES] = unsafe { std::mem::zeroed() };
            let mut number = 0;
            for (at, datagram) in rest.chunks(segment.max(1)).take(SINGLES).enumerate() {
                let iov_base = datagram.as_ptr().cast_mut().cast();
                parts[at] = libc::iovec { iov_base, iov_len: datagram.len() };
                let header = &mut messages[at].msg_hdr;
                name(header, address);
                header.msg_iov = &raw mut parts[at];
                header.msg_iovlen = 1;
                number = at + 1;
            }
            let flags = libc::MSG_NOSIGNAL | libc::MSG_DONTWAIT;
            // SAFETY: the first `number` messages point at an address and a slice each that
            // outlive the call; sending only reads them.
            let sent = unsafe {
                let (fd, messages) = (socket.as_raw_fd(), messages.as_mut_ptr());
                libc::sendmmsg(fd, messages, number as _, flags as _)
            };
            let Some(sent) = count("sendmmsg", sent as isize)? else { return Ok(false) };
            self.done = train.len().min(self.done + sent * segment.max(1));
        }
        Ok(true)
    }
}

/// One call for all datagrams; `None`: the socket has no room.
fn send_whole(
    socket: BorrowedFd<'_>,
    to: &Address,
    train: &[u8],
    segment: usize,
) -> Result<Option<usize>> {
    let mut part = libc::iovec { iov_base: train.as_ptr().cast_mut().cast(), iov_len: train.len() };
    // SAFETY: null pointers and zero lengths are a valid, empty message.
    let mut header: libc::msghdr = unsafe { std::mem::zeroed() };
    name(&mut header, to);
    header.msg_iov = &raw mut part;
    header.msg_iovlen = 1;
    // Words, because control messages are aligned like their header.
    let mut control = [0_u64; 3];
    if train.len() > segment {
        let segment = u16::try_from(segment)
            .map_err(|_| Error::from_errno("sendmsg(UDP_SEGMENT)", libc::EINVAL))?;
        header.msg_control = control.as_mut_ptr().cast();
        header.msg_controllen = size_of_val(&control) as _;
        // SAFETY: the control buffer is aligned and has room for this one message of two bytes.
        unsafe {
            let message = libc::CMSG_FIRSTHDR(&raw const header);
            (*message).cmsg_level = libc::SOL_UDP;
            (*message).cmsg_type = libc::UDP_SEGMENT;
            (*message).cmsg_len = libc::CMSG_LEN(size_of::<u16>() as _) as _;
            libc::CMSG_DATA(message).cast::<u16>().write_unaligned(segment);
        }
    }
    let flags = libc::MSG_NOSIGNAL | libc::MSG_DONTWAIT;
    // SAFETY: the header points at an address, a slice and a control buffer that outlive the call.
    let sent = unsafe { libc::sendmsg(socket.as_raw_fd(), &raw const header, flags) };
    match count("sendmsg(UDP_SEGMENT)", sent) {
        // The device's queue is full, not the socket's: handled in the same way.
        Err(error) if error.errno() == Some(libc::ENOBUFS) => Ok(None),
        other => other,
    }
}

fn name(header: &mut libc::msghdr, address: &Address) {
    let (pointer, length) = address.parts();
    (header.msg_name, header.msg_namelen) = (pointer.cast_mut().cast(), length);
}

/// Whether single datagrams might be accepted: the kernel does not support `UDP_SEGMENT`, a device
/// cannot compute checksums, or the path's MTU is smaller than the datagrams.
fn is_about_cutting(error: &Error) -> bool {
    matches!(error.errno(), Some(libc::EIO | libc::EINVAL | libc::EMSGSIZE | libc::ENOPROTOOPT))
}

/// Receives trains of datagrams into its own buffers.
#[derive(Debug)]
pub struct TrainReceiver {
    buffers: Vec<Box<[u8]>>,
}

impl Default for TrainReceiver {
    fn default() -> Self {
        Self {
            buffers: (0..BUFFERS).map(|_| vec![0; MAX_TRAIN_BYTES].into_boxed_slice()).collect(),
        }
    }
}

impl TrainReceiver {
    /// Receives available datagrams with one call: passes each buffer to `each`, with the size of
    /// its datagrams (the last may be shorter) and their source. Returns the number of buffers;
    /// fewer than [`Self::most`] mean that no more are available.
    pub fn receive(
        &mut self,
        socket: BorrowedFd<'_>,
        mut each: impl FnMut(&mut [u8], usize, SocketAddr),
    ) -> Result<usize> {
        // SAFETY: for all three, zero bytes (null pointers, zero lengths) are valid values.
        let (mut messages, mut parts, mut names) = unsafe {
            let messages: [libc::mmsghdr; BUFFERS] = std::mem::zeroed();
            let parts: [libc::iovec; BUFFERS] = std::mem::zeroed();
            let names: [libc::sockaddr_storage; BUFFERS] = std::mem::zeroed();
            (messages, parts, names)
        };
        let mut controls = [[0_u64; 4]; BUFFERS];
        for (at, buffer) in self.buffers.iter_mut().enumerate() {
            let iov_base = buffer.as_mut_ptr().cast();
            parts[at] = libc::iovec { iov_base, iov_len: buffer.len() };
            let header = &mut messages[at].msg_hdr;
            header.msg_iov = &raw mut parts[at];
            header.msg_iovlen = 1;
            header.msg_name = (&raw mut names[at]).cast();
            header.msg_namelen = size_of::<libc::sockaddr_storage>() as _;
            header.msg_control = controls[at].as_mut_ptr().cast();
            header.msg_controllen = size_of_val(&controls[at]) as _;
        }
        // SAFETY: every message points at a buffer, an address and a control buffer of the lengths
        // it states, which outlive the call.
        let got = unsafe {
            let (fd, messages) = (socket.as_raw_fd(), messages.as_mut_ptr());
            let none = std::ptr::null_mut();
            libc::recvmmsg(fd, messages, BUFFERS as _, libc::MSG_DONTWAIT as _, none)
        };
        let Some(got) = count("recvmmsg", got as isize)? else { return Ok(0) };
        for (at, buffer) in self.buffers.iter_mut().enumerate().take(got) {
            let length = (messages[at].msg_len as usize).min(buffer.len());
            let Some(from) = Address::from_storage(names[at]).to_std() else { continue };
            // SAFETY: the kernel has filled this message.
            let segment = unsafe { segment_size(&messages[at].msg_hdr) }.unwrap_or(length);
            each(&mut buffer[..length], segment, from);
        }
        Ok(got)
    }

    /// Maximum number of buffers that one call fills.
    pub const fn most() -> usize {
        BUFFERS
    }
}

/// The size of the coalesced datagrams; `None` for a single one.
///
/// # Safety
/// The kernel has filled `header` and the control buffer that it describes.
unsafe fn segment_size(header: &libc::msghdr) -> Option<usize> {
    // SAFETY: the control buffer is as `header` describes it; the macros stay within it, and
    // this message's data is an `int`, possibly unaligned.
    unsafe {
        let mut control = libc::CMSG_FIRSTHDR(header);
        while !control.is_null() {
            let message = &*control;
            if message.cmsg_level == libc::SOL_UDP && message.cmsg_type == libc::UDP_GRO {
                let size = libc::CMSG_DATA(control).cast::<libc::c_int>().read_unaligned();
                return usize::try_from(size).ok().filter(|size| *size > 0);
            }
            control = libc::CMSG_NXTHDR(header, control);
        }
    }
    None
}

/// MTU of the path to `to`, according to the kernel.
pub fn path_mtu(to: SocketAddr) -> Result<usize> {
    let socket = open(to.ip(), SocketType::DGRAM, None)?;
    super::set_peer(socket.as_fd(), to)?;
    let mut mtu: libc::c_int = 0;
    let (level, option) = match to {
        SocketAddr::V4(_) => (libc::IPPROTO_IP, libc::IP_MTU),
        SocketAddr::V6(_) => (libc::IPPROTO_IPV6, libc::IPV6_MTU),
    };
    get(&socket, level, option, bytes_of(&mut mtu), "getsockopt(IP_MTU)")?;
    usize::try_from(mtu).map_err(|_| Error::Malformed("getsockopt(IP_MTU)"))
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, Ipv6Addr};
    use std::os::fd::AsFd;
    use std::time::Duration;

    use super::*;

    /// Received bytes and the number of datagrams, once there are `length` bytes.
    fn receive(socket: &OwnedFd, from: SocketAddr, length: usize) -> (Vec<u8>, Vec<usize>) {
        let mut receiver = TrainReceiver::default();
        let (mut bytes, mut sizes) = (Vec::new(), Vec::new());
        for _ in 0..5_000 {
            let got = receiver.receive(socket.as_fd(), |train, segment, source| {
                assert_eq!(source, from);
                sizes.extend(train.chunks(segment).map(<[u8]>::len));
                bytes.extend_from_slice(train);
            });
            assert!(got.unwrap() <= TrainReceiver::most());
            if bytes.len() >= length {
                break;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        (bytes, sizes)
    }

    fn pattern(length: usize) -> Vec<u8> {
        (0..length).map(|at| (at * 7 + at / 251) as u8).collect()
    }

    fn crosses(address: SocketAddr, mut sender: TrainSender) {
        let (source, from) = train_socket(address, 1 << 20).unwrap();
        let (sink, to) = train_socket(address, 1 << 20).unwrap();
        for length in [1, 1472, 1473, 44 * 1472 + 700, 64 * 100] {
            let segment = if length == 64 * 100 { 100 } else { 1472 };
            let train = pattern(length);
            assert!(sender.send(source.as_fd(), to, &train, segment).unwrap());
            let (bytes, sizes) = receive(&sink, from, length);
            assert_eq!(bytes, train);
            let expected: Vec<usize> = train.chunks(segment).map(<[u8]>::len).collect();
            assert_eq!(sizes, expected);
        }
    }

    #[test]
    fn trains_arrive_as_datagrams() {
        crosses(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)), TrainSender::default());
        let singly = || TrainSender { singly: true, done: 0 };
        crosses(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)), singly());
        if std::net::UdpSocket::bind((Ipv6Addr::LOCALHOST, 0)).is_ok() {
            crosses(SocketAddr::from((Ipv6Addr::LOCALHOST, 0)), TrainSender::default());
            crosses(SocketAddr::from((Ipv6Addr::LOCALHOST, 0)), singly());
        }
    }

    #[test]
    fn counts_drops_of_a_full_buffer() {
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        let (source, from) = train_socket(address, 1 << 20).unwrap();
        let (sink, to) = train_socket(address, 10_000).unwrap();
        let mut sender = TrainSender::default();
        for _ in 0..20 {
            assert!(sender.send(source.as_fd(), to, &pattern(10_000), 1_000).unwrap());
        }
        let arrived = receive(&sink, from, 10_000).1.len() as u64;
        let dropped = super::super::dropped_on_arrival(sink.as_fd()).unwrap();
        assert!(dropped > 0, "{arrived} of 200 arrived");
    }

    #[test]
    fn reports_an_unreachable_destination() {
        let (source, _) =
            train_socket(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)), 1 << 16).unwrap();
        let nowhere = SocketAddr::from((Ipv4Addr::BROADCAST, 9));
        let error = TrainSender::default().send(source.as_fd(), nowhere, &[1; 10], 1472);
        assert!(error.unwrap_err().is_denied());
    }
}
