//! Receive rings of `AF_PACKET` sockets (`TPACKET_V3`, `packet_mmap.rst` in the kernel's
//! documentation): the kernel writes packets to blocks of shared memory, and passes a block to
//! user space when it is full or its timeout expires. Packets are not copied, and one wait returns
//! many of them.

use std::ffi::CString;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use crate::{Error, Result, check};

/// One instruction of classic BPF (`struct sock_filter` of `linux/filter.h`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct Instruction {
    /// Operation code (`BPF_*` of `linux/bpf_common.h`).
    pub code: u16,
    /// Number of instructions to skip if a comparison is true.
    pub jump_true: u8,
    /// Number of instructions to skip if it is false.
    pub jump_false: u8,
    pub operand: u32,
}

#[derive(Clone, Debug)]
pub struct Options {
    /// Size of a block: a multiple of the page size, larger than any packet.
    pub block: u32,
    pub blocks: u32,
    /// Maximum delay of a packet in a block that is not full.
    pub timeout: Duration,
    /// Also receive packets that are not addressed to this host.
    pub promiscuous: bool,
    /// Filter of received packets; if empty, all are received.
    pub filter: Vec<Instruction>,
    /// Share packets with the other rings of this group by flow (both directions of a connection
    /// are received by the same ring).
    pub fanout: Option<u16>,
    /// Use hardware timestamps if the interface has them.
    pub hardware_time: bool,
    /// Receive no packets that this host sends (Linux 4.20).
    pub incoming_only: bool,
    /// Include the virtio header of each packet, which describes how to segment coalesced
    /// super-packets.
    pub offload: bool,
}

impl Default for Options {
    /// 64 MiB, 2 ms. Blocks are small because a block that is passed early is used up: this
    /// provides room for 500 ms of traffic at any rate.
    fn default() -> Self {
        Self {
            block: 256 << 10,
            blocks: 256,
            timeout: Duration::from_millis(2),
            promiscuous: true,
            filter: Vec::new(),
            fanout: None,
            hardware_time: false,
            incoming_only: false,
            offload: false,
        }
    }
}

/// Counters of the kernel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Statistics {
    /// Packets that passed the filter, including dropped ones.
    pub packets: u64,
    /// Packets dropped for lack of room.
    pub drops: u64,
    /// Number of times that all blocks were full.
    pub freezes: u64,
}

/// A VLAN tag that the interface has removed (IEEE 802.1Q).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tag {
    /// Type of the tag: 0x8100, 0x88a8.
    pub protocol: u16,
    /// Priority and number.
    pub control: u16,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packet<'a> {
    /// Nanoseconds since 1970.
    pub time: u64,
    /// Bytes from the link-layer header on.
    pub data: &'a [u8],
    /// Length on the wire, without the removed tag.
    pub length: u32,
    pub tag: Option<Tag>,
    /// Whether this host sent it.
    pub outgoing: bool,
    /// Whether the kernel states that the checksum of the outermost TCP or UDP header is not to be
    /// verified: it is not computed (`TP_STATUS_CSUMNOTREADY`), because this host sends the packet
    /// or has merged it from several; or the network card has verified the packet, or its parts
    /// before it merged them (`TP_STATUS_CSUM_VALID`).
    pub without_checksum: bool,
    /// The virtio header, if requested; its offsets count from `data` on.
    pub offload: Option<[u8; OFFLOAD]>,
}

/// Bytes of a virtio header.
const OFFLOAD: usize = crate::tun::HEADER;

/// A socket and its memory shared with the kernel.
#[derive(Debug)]
pub struct Ring {
    fd: OwnedFd,
    memory: NonNull<u8>,
    block: usize,
    blocks: usize,
    next: usize,
    link: u16,
    index: u32,
    offload: bool,
    statistics: Statistics,
}

// SAFETY: the memory belongs to the ring alone (besides the kernel), wherever that moves.
unsafe impl Send for Ring {}

/// `PACKET_*` socket options and flags of `linux/if_packet.h` that libc does not name.
const PACKET_FANOUT: libc::c_int = 18;
const PACKET_FANOUT_HASH: u32 = 0;
const FANOUT_DEFRAG: u32 = 0x8000;
const PACKET_VNET_HDR: libc::c_int = 15;
const PACKET_IGNORE_OUTGOING: libc::c_int = 23;
const TPACKET_V3: libc::c_int = 2;
const STATUS_USER: u32 = 1;
/// `TP_STATUS_CSUMNOTREADY` and `TP_STATUS_CSUM_VALID`.
const STATUS_CHECKSUM: u32 = 1 << 3 | 1 << 7;
const STATUS_VLAN: u32 = 1 << 4;
const STATUS_VLAN_TPID: u32 = 1 << 6;

/// `struct tpacket_req3`.
#[repr(C)]
#[derive(Clone, Copy)]
struct Request {
    block_size: u32,
    block_count: u32,
    frame_size: u32,
    frame_count: u32,
    timeout_millis: u32,
    private_size: u32,
    features: u32,
}

/// Offsets of fields in a block's header (`struct tpacket_block_desc`, `tpacket_hdr_v1`).
const BLOCK_STATUS: usize = 8;
const BLOCK_PACKETS: usize = 12;
const BLOCK_FIRST: usize = 16;

/// `struct tpacket3_hdr`.
#[repr(C)]
#[derive(Clone, Copy)]
struct PacketHeader {
    next: u32,
    seconds: u32,
    nanos: u32,
    captured: u32,
    length: u32,
    status: u32,
    link_header: u16,
    network_header: u16,
    hash: u32,
    tag_control: u32,
    tag_protocol: u16,
    padding: [u16; 5],
}

/// Offset of the packet type (`sll_pkttype`) in the `struct sockaddr_ll` after a header.
const PACKET_TYPE: usize = 10;

impl Ring {
    /// A ring on the interface `name` of the calling thread's network namespace. Requires
    /// `CAP_NET_RAW` there.
    ///
    /// # Errors
    /// `ENODEV` if the interface does not exist; `EPERM` without the capability; `ENOMEM`.
    pub fn open(name: &str, options: &Options) -> Result<Self> {
        let index = interface_index(name)?;
        let kind = libc::SOCK_RAW | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
        // Protocol 0: nothing is received before the filter is there and the socket is bound.
        // SAFETY: takes integers only.
        let fd = check("socket(AF_PACKET)", unsafe { libc::socket(libc::AF_PACKET, kind, 0) })?;
        // SAFETY: the kernel has just given us this descriptor.
        let fd = unsafe { OwnedFd::from_raw_fd(fd) };
        set(&fd, libc::SOL_PACKET, libc::PACKET_VERSION, "PACKET_VERSION", &TPACKET_V3)?;
        if options.hardware_time {
            ask_for_hardware_time(&fd, name)?;
        }
        for (wanted, name, call) in [
            (options.incoming_only, PACKET_IGNORE_OUTGOING, "PACKET_IGNORE_OUTGOING"),
            (options.offload, PACKET_VNET_HDR, "PACKET_VNET_HDR"),
        ] {
            if wanted {
                set(&fd, libc::SOL_PACKET, name, call, &1_i32)?;
            }
        }
        if !options.filter.is_empty() {
            attach(&fd, &options.filter)?;
        }
        let millis = options.timeout.as_millis().clamp(1, 1_000) as u32;
        let request = Request {
            block_size: options.block,
            block_count: options.blocks,
            // Frames have any size in this version; the kernel only checks these two fields.
            frame_size: 2_048,
            frame_count: options.block / 2_048 * options.blocks,
            timeout_millis: millis,
            private_size: 0,
            features: 0,
        };
        set(&fd, libc::SOL_PACKET, libc::PACKET_RX_RING, "PACKET_RX_RING", &request)?;
        let (block, blocks) = (options.block as usize, options.blocks as usize);
        let memory = map(&fd, block * blocks)?;
        let statistics = Statistics::default();
        let (next, link, offload) = (0, 0, options.offload);
        let mut ring = Self { fd, memory, block, blocks, next, link, index, offload, statistics };
        ring.link = ring.bind()?;
        if options.promiscuous {
            let request = libc::packet_mreq {
                mr_ifindex: index as i32,
                mr_type: libc::PACKET_MR_PROMISC as u16,
                mr_alen: 0,
                mr_address: [0; 8],
            };
            let name = libc::PACKET_ADD_MEMBERSHIP;
            set(&ring.fd, libc::SOL_PACKET, name, "PACKET_ADD_MEMBERSHIP", &request)?;
        }
        if let Some(group) = options.fanout {
            let value = u32::from(group) | (PACKET_FANOUT_HASH | FANOUT_DEFRAG) << 16;
            set(&ring.fd, libc::SOL_PACKET, PACKET_FANOUT, "PACKET_FANOUT", &value)?;
        }
        Ok(ring)
    }

    /// Binds the socket to the interface; returns its hardware type.
    fn bind(&self) -> Result<u16> {
        // SAFETY: an all-zero sockaddr_ll is a valid one.
        let mut address: libc::sockaddr_ll = unsafe { std::mem::zeroed() };
        address.sll_family = libc::AF_PACKET as u16;
        address.sll_protocol = (libc::ETH_P_ALL as u16).to_be();
        address.sll_ifindex = self.index as i32;
        let mut length = size_of::<libc::sockaddr_ll>() as libc::socklen_t;
        let fd = self.fd.as_raw_fd();
        // SAFETY: the pointer and the length describe `address`, which outlives the call.
        let result = unsafe { libc::bind(fd, (&raw const address).cast(), length) };
        check("bind(AF_PACKET)", result)?;
        // SAFETY: `length` is the size of `address` in bytes.
        let result = unsafe { libc::getsockname(fd, (&raw mut address).cast(), &raw mut length) };
        check("getsockname(AF_PACKET)", result)?;
        Ok(address.sll_hatype)
    }

    /// Type of the link-layer headers, as `ARPHRD_*` of `linux/if_arp.h`.
    pub fn link(&self) -> u16 {
        self.link
    }

    pub fn blocks(&self) -> usize {
        self.blocks
    }

    pub fn interface(&self) -> u32 {
        self.index
    }

    /// The next block of packets, if one is available within `wait`. Dropping it returns it
    /// to the kernel.
    ///
    /// # Errors
    /// `ENETDOWN` or `ENODEV` if the interface goes down or disappears.
    pub fn next_block(&mut self, wait: Duration) -> Result<Option<Block<'_>>> {
        let is_ours = |ring: &Self| ring.status().load(Ordering::Acquire) & STATUS_USER != 0;
        if !is_ours(self) {
            self.wait(wait)?;
            if !is_ours(self) {
                return Ok(None);
            }
        }
        let field = |at: usize| {
            let bytes = self.bytes().get(at..).and_then(<[u8]>::first_chunk);
            bytes.map_or(0, |bytes| u32::from_ne_bytes(*bytes))
        };
        let (left, at) = (field(BLOCK_PACKETS), field(BLOCK_FIRST) as usize);
        Ok(Some(Block { ring: self, at, left }))
    }

    fn wait(&self, wait: Duration) -> Result<()> {
        let events = libc::POLLIN | libc::POLLERR;
        let mut polled = libc::pollfd { fd: self.fd.as_raw_fd(), events, revents: 0 };
        let millis = wait.as_millis().min(i32::MAX as u128) as libc::c_int;
        // SAFETY: the pointer refers to one pollfd.
        let result = unsafe { libc::poll(&raw mut polled, 1, millis) };
        match check("poll", result) {
            Err(error) if error.errno() != Some(libc::EINTR) => return Err(error),
            _ => {}
        }
        if polled.revents & libc::POLLERR != 0 {
            crate::socket::pending_error(self.fd.as_fd())?;
        }
        Ok(())
    }

    /// Counters of the kernel since the ring was opened.
    ///
    /// # Errors
    /// If the kernel does not provide them.
    pub fn statistics(&mut self) -> Result<Statistics> {
        const PACKET_STATISTICS: libc::c_int = 6;
        let mut counts = [0_u32; 3];
        let mut length = size_of_val(&counts) as libc::socklen_t;
        // SAFETY: the pointer and the length describe `counts`.
        let result = unsafe {
            libc::getsockopt(
                self.fd.as_raw_fd(),
                libc::SOL_PACKET,
                PACKET_STATISTICS,
                counts.as_mut_ptr().cast(),
                &raw mut length,
            )
        };
        check("getsockopt(PACKET_STATISTICS)", result)?;
        // The kernel resets its counters with each query.
        self.statistics.packets += u64::from(counts[0]);
        self.statistics.drops += u64::from(counts[1]);
        self.statistics.freezes += u64::from(counts[2]);
        Ok(self.statistics)
    }

    /// Status of the current block, which states its owner.
    fn status(&self) -> &AtomicU32 {
        // SAFETY: `next` is less than `blocks`, so the field lies in the mapping.
        let field = unsafe { self.memory.add(self.next * self.block + BLOCK_STATUS) };
        // SAFETY: the mapping and its blocks begin at pages, so the field is aligned; it lives as
        // long as `self`, and this process and the kernel both use it as an atomic.
        unsafe { AtomicU32::from_ptr(field.cast().as_ptr()) }
    }

    /// Bytes of the current block, which user space must own.
    fn bytes(&self) -> &[u8] {
        // SAFETY: the block lies in the mapping. Its status was loaded with `Acquire`: user space
        // owns it, and the kernel does not write to it until it is returned, which needs `&mut
        // self`. The one field that this process writes is atomic, and not read by this slice.
        unsafe {
            std::slice::from_raw_parts(self.memory.as_ptr().add(self.next * self.block), self.block)
        }
    }

    fn give_back(&mut self) {
        self.status().store(0, Ordering::Release);
        self.next = (self.next + 1) % self.blocks;
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        // SAFETY: this is the mapping that `map` made; nothing refers to it any more.
        unsafe { libc::munmap(self.memory.as_ptr().cast(), self.block * self.blocks) };
    }
}

impl AsFd for Ring {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// Packets that the kernel passed together.
#[derive(Debug)]
pub struct Block<'a> {
    ring: &'a mut Ring,
    /// Offset of the next packet's header.
    at: usize,
    left: u32,
}

impl Block<'_> {
    pub fn len(&self) -> usize {
        self.left as usize
    }

    pub fn is_empty(&self) -> bool {
        self.left == 0
    }

    pub fn next_packet(&mut self) -> Option<Packet<'_>> {
        if self.left == 0 {
            return None;
        }
        self.left -= 1;
        let at = self.at;
        let bytes = self.ring.bytes();
        let header = read_header(bytes.get(at..)?)?;
        self.at = at + header.next as usize;
        let start = at + usize::from(header.link_header);
        let data = bytes.get(start..start + header.captured as usize)?;
        let kind = bytes.get(at + size_of::<PacketHeader>() + PACKET_TYPE).copied();
        let protocol = match header.status & STATUS_VLAN_TPID {
            0 => libc::ETH_P_8021Q as u16,
            _ => header.tag_protocol,
        };
        // The kernel places it directly before the link-layer header.
        let before = || bytes.get(start.checked_sub(OFFLOAD)?..start)?.first_chunk().copied();
        let offload = if self.ring.offload { before() } else { None };
        let has_tag = header.status & STATUS_VLAN != 0;
        let tag = has_tag.then_some(Tag { protocol, control: header.tag_control as u16 });
        Some(Packet {
            time: u64::from(header.seconds) * 1_000_000_000 + u64::from(header.nanos),
            data,
            length: header.length,
            tag,
            outgoing: kind == Some(libc::PACKET_OUTGOING),
            without_checksum: header.status & STATUS_CHECKSUM != 0,
            offload,
        })
    }
}

impl Drop for Block<'_> {
    fn drop(&mut self) {
        self.ring.give_back();
    }
}

fn read_header(bytes: &[u8]) -> Option<PacketHeader> {
    let bytes = bytes.get(..size_of::<PacketHeader>())?;
    // SAFETY: there are as many bytes, and any bytes make a valid header.
    Some(unsafe { bytes.as_ptr().cast::<PacketHeader>().read_unaligned() })
}

fn interface_index(name: &str) -> Result<u32> {
    let text = CString::new(name).map_err(|_| Error::Nul(name.to_owned()))?;
    // SAFETY: the string ends in NUL and outlives the call.
    match unsafe { libc::if_nametoindex(text.as_ptr()) } {
        0 => Err(Error::last("if_nametoindex")),
        index => Ok(index),
    }
}

fn map(fd: &OwnedFd, length: usize) -> Result<NonNull<u8>> {
    let (access, flags) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_SHARED);
    // SAFETY: a new mapping, wherever the kernel wants it.
    let memory =
        unsafe { libc::mmap(std::ptr::null_mut(), length, access, flags, fd.as_raw_fd(), 0) };
    if memory == libc::MAP_FAILED {
        return Err(Error::last("mmap(AF_PACKET)"));
    }
    NonNull::new(memory.cast()).ok_or_else(|| Error::from_errno("mmap(AF_PACKET)", libc::ENOMEM))
}

fn set<T>(
    fd: &OwnedFd,
    level: libc::c_int,
    name: libc::c_int,
    call: &'static str,
    value: &T,
) -> Result<()> {
    let length = size_of::<T>() as libc::socklen_t;
    let pointer = std::ptr::from_ref(value).cast();
    // SAFETY: the pointer and the length describe `value`, which outlives the call.
    let result = unsafe { libc::setsockopt(fd.as_raw_fd(), level, name, pointer, length) };
    check(call, result)?;
    Ok(())
}

/// Type of an interface's link-layer headers, as `ARPHRD_*` of `linux/if_arp.h`; required to
/// build a filter.
///
/// # Errors
/// `ENODEV` if the interface does not exist.
pub fn link_of(name: &str) -> Result<u16> {
    // SAFETY: an all-zero ifreq is a valid one.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    for (to, from) in request.ifr_name.iter_mut().take(15).zip(name.bytes()) {
        *to = from as libc::c_char;
    }
    let kind = libc::SOCK_DGRAM | libc::SOCK_CLOEXEC;
    // SAFETY: takes integers only.
    let fd = check("socket(AF_UNIX)", unsafe { libc::socket(libc::AF_UNIX, kind, 0) })?;
    // SAFETY: the kernel has just given us this descriptor.
    let fd = unsafe { OwnedFd::from_raw_fd(fd) };
    let pointer = &raw mut request;
    // SAFETY: the pointer is to a whole ifreq, which outlives the call.
    let result =
        unsafe { libc::ioctl(fd.as_raw_fd(), libc::SIOCGIFHWADDR as libc::Ioctl, pointer) };
    check("ioctl(SIOCGIFHWADDR)", result)?;
    // SAFETY: the kernel has written this variant.
    Ok(unsafe { request.ifr_ifru.ifru_hwaddr }.sa_family)
}

/// Attaches a filter and locks it: later owners of the socket cannot remove it.
fn attach(fd: &OwnedFd, filter: &[Instruction]) -> Result<()> {
    let Ok(length) = u16::try_from(filter.len()) else {
        return Err(Error::from_errno("setsockopt(SO_ATTACH_FILTER)", libc::EINVAL));
    };
    // `Instruction` has the layout of `sock_filter`; the kernel only reads.
    let program = libc::sock_fprog { len: length, filter: filter.as_ptr().cast_mut().cast() };
    set(fd, libc::SOL_SOCKET, libc::SO_ATTACH_FILTER, "setsockopt(SO_ATTACH_FILTER)", &program)?;
    set(fd, libc::SOL_SOCKET, libc::SO_LOCK_FILTER, "setsockopt(SO_LOCK_FILTER)", &1_i32)
}

/// Enables hardware timestamps of all packets if the interface supports them, and their use
/// by the ring.
fn ask_for_hardware_time(fd: &OwnedFd, name: &str) -> Result<()> {
    /// `struct hwtstamp_config` of `linux/net_tstamp.h`.
    #[repr(C)]
    struct Config {
        flags: libc::c_int,
        transmit: libc::c_int,
        receive_filter: libc::c_int,
    }
    const RECEIVE_ALL: libc::c_int = 1;
    const SIOCSHWTSTAMP: libc::Ioctl = 0x89b0;
    const PACKET_TIMESTAMP: libc::c_int = 17;
    let mut config = Config { flags: 0, transmit: 0, receive_filter: RECEIVE_ALL };
    // SAFETY: an all-zero ifreq is a valid one.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    for (to, from) in request.ifr_name.iter_mut().take(15).zip(name.bytes()) {
        *to = from as libc::c_char;
    }
    request.ifr_ifru.ifru_data = (&raw mut config).cast();
    // SAFETY: the request and the configuration that it points to outlive the call.
    let result = unsafe { libc::ioctl(fd.as_raw_fd(), SIOCSHWTSTAMP, &raw mut request) };
    check("SIOCSHWTSTAMP", result)?;
    let flags = libc::SOF_TIMESTAMPING_RAW_HARDWARE as libc::c_int;
    set(fd, libc::SOL_PACKET, PACKET_TIMESTAMP, "PACKET_TIMESTAMP", &flags)
}

#[cfg(test)]
mod tests;
