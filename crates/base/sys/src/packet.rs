//! `AF_PACKET` sockets with the virtio header: the ports of a host if TUN is not permitted.

use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use crate::{Result, check};

/// Bytes of the Ethernet header between virtio header and packet.
pub const LINK_HEADER: usize = 14;

/// Size of a receive buffer for several dozen super-packets of 64 KiB.
const BUFFER: libc::c_int = 4 << 20;

fn set(fd: &OwnedFd, level: i32, name: i32, what: &'static str, value: libc::c_int) -> Result<()> {
    let length = size_of::<libc::c_int>() as libc::socklen_t;
    // SAFETY: the pointer and the length describe `value`, which outlives the call.
    let result =
        unsafe { libc::setsockopt(fd.as_raw_fd(), level, name, (&raw const value).cast(), length) };
    check(what, result)?;
    Ok(())
}

/// Opens a non-blocking raw socket on the device `index` of the calling thread's network namespace.
/// Each read and write consists of virtio header, Ethernet header and packet. Packets sent by the
/// socket itself are not received.
pub fn open(index: u32) -> Result<OwnedFd> {
    const PACKET_VNET_HDR: libc::c_int = 15;
    const PACKET_IGNORE_OUTGOING: libc::c_int = 23;
    let kind = libc::SOCK_RAW | libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC;
    // Protocol 0: nothing is received until the socket is bound to its device.
    // SAFETY: takes integers only.
    let fd = check("socket(AF_PACKET)", unsafe { libc::socket(libc::AF_PACKET, kind, 0) })?;
    // SAFETY: the kernel has just given us this descriptor.
    let fd = unsafe { OwnedFd::from_raw_fd(fd) };
    let level = libc::SOL_PACKET;
    set(&fd, level, PACKET_VNET_HDR, "setsockopt(PACKET_VNET_HDR)", 1)?;
    set(&fd, level, PACKET_IGNORE_OUTGOING, "setsockopt(PACKET_IGNORE_OUTGOING)", 1)?;
    for (forced, plain, what) in [
        (libc::SO_RCVBUFFORCE, libc::SO_RCVBUF, "setsockopt(SO_RCVBUF)"),
        (libc::SO_SNDBUFFORCE, libc::SO_SNDBUF, "setsockopt(SO_SNDBUF)"),
    ] {
        // Only root of the initial user namespace may exceed rmem_max and wmem_max.
        if set(&fd, libc::SOL_SOCKET, forced, what, BUFFER).is_err() {
            set(&fd, libc::SOL_SOCKET, plain, what, BUFFER)?;
        }
    }
    // SAFETY: an all-zero sockaddr_ll is a valid one.
    let mut address: libc::sockaddr_ll = unsafe { std::mem::zeroed() };
    address.sll_family = libc::AF_PACKET as u16;
    address.sll_protocol = (libc::ETH_P_ALL as u16).to_be();
    address.sll_ifindex = index as i32;
    let length = size_of::<libc::sockaddr_ll>() as libc::socklen_t;
    // SAFETY: the pointer and the length describe `address`, which outlives the call.
    let result = unsafe { libc::bind(fd.as_raw_fd(), (&raw const address).cast(), length) };
    check("bind(AF_PACKET)", result)?;
    Ok(fd)
}

/// Packets dropped because the socket's buffer was full, since the last call.
pub fn drops(socket: BorrowedFd<'_>) -> Result<u64> {
    /// `struct tpacket_stats` of `linux/if_packet.h`.
    #[repr(C)]
    #[derive(Default)]
    struct Statistics {
        packets: u32,
        drops: u32,
    }
    const PACKET_STATISTICS: libc::c_int = 6;
    let mut statistics = Statistics::default();
    let mut length = size_of::<Statistics>() as libc::socklen_t;
    // SAFETY: the pointer and the length describe `statistics`.
    let result = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::SOL_PACKET,
            PACKET_STATISTICS,
            (&raw mut statistics).cast(),
            &raw mut length,
        )
    };
    check("getsockopt(PACKET_STATISTICS)", result)?;
    Ok(statistics.drops.into())
}
