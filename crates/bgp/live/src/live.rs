//! Live packets: rings on interfaces, and sockets for tunnels from routers.

use std::io::ErrorKind;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use base::{Span, Time};
use collector::filter::{self, Wanted};
use collector::{Frame, LinkType};
use rustix::net::sockopt;
pub use sys::ring::Options as RingOptions;
use sys::ring::{self, Instruction, Options, Packet, Ring, Tag};

use crate::input::{Captures, Item, Progress};
use crate::{Error, Result};

/// Interval of drop reports of the kernel.
const ASK: Duration = Duration::from_secs(1);

pub struct Interface {
    name: String,
    ring: Ring,
    number: u32,
    link: LinkType,
    /// Loopback shows each packet twice: as sent and as received.
    is_loopback: bool,
    dropped: u64,
    asked: Instant,
    retagged: Vec<u8>,
}

impl Interface {
    /// Captures on the interface `name` of this network namespace, as interface `number`. The
    /// kernel drops all packets but the `wanted` ones.
    pub fn open(name: &str, number: u32, wanted: &Wanted, options: &Options) -> Result<Self> {
        let (link, is_loopback) = match ring::link_of(name).map_err(|error| refused(name, error))? {
            hardware::ETHERNET => (LinkType::ETHERNET, false),
            hardware::LOOPBACK => (LinkType::ETHERNET, true),
            hardware::NONE => (LinkType::RAW, false),
            other => return Err(Error::Link { interface: name.to_owned(), hardware: other }),
        };
        let wanted = Wanted { bare: link == LinkType::RAW, ..wanted.clone() };
        let mut options = options.clone();
        options.filter = instructions(&wanted);
        let ring = Ring::open(name, &options).map_err(|error| refused(name, error))?;
        let name = name.to_owned();
        let asked = Instant::now();
        let retagged = Vec::new();
        Ok(Self { name, ring, number, link, is_loopback, dropped: 0, asked, retagged })
    }

    pub fn name(&self) -> &str {
        &self.name
    }

    pub fn dropped(&self) -> u64 {
        self.dropped
    }

    /// Delivers a block of packets, if one arrives within `wait`.
    pub fn step(&mut self, wait: Duration, each: &mut impl FnMut(Item<'_>)) -> Result<Progress> {
        let gone = |cause| Error::Interface { interface: self.name.clone(), cause };
        let mut progress = Progress::Waiting;
        if let Some(mut block) = self.ring.next_block(wait).map_err(gone)? {
            progress = Progress::More;
            while let Some(packet) = block.next_packet() {
                if self.is_loopback && packet.outgoing {
                    continue;
                }
                each(Item::Frame(frame(self.link, self.number, &packet, &mut self.retagged)));
            }
        }
        if self.asked.elapsed() >= ASK {
            self.ask(each)?;
        }
        Ok(progress)
    }

    /// Dropped packets since the last call.
    pub fn ask(&mut self, each: &mut impl FnMut(Item<'_>)) -> Result<()> {
        self.asked = Instant::now();
        let dropped = self.ring.statistics()?.drops;
        let packets = dropped.saturating_sub(std::mem::replace(&mut self.dropped, dropped));
        each(Item::Dropped { interface: self.number, packets });
        Ok(())
    }
}

/// `ARPHRD_*` of `linux/if_arp.h`.
mod hardware {
    pub(super) const ETHERNET: u16 = 1;
    pub(super) const LOOPBACK: u16 = 772;
    /// No link-layer header: TUN devices.
    pub(super) const NONE: u16 = 65534;
}

fn instructions(wanted: &Wanted) -> Vec<Instruction> {
    let of = |step: &filter::Instruction| Instruction {
        code: step.code,
        jump_true: step.jt,
        jump_false: step.jf,
        operand: step.k,
    };
    filter::program(wanted).iter().map(of).collect()
}

/// The frame of a packet, with the VLAN tag that the interface removed.
#[inline]
fn frame<'a>(
    link: LinkType,
    interface: u32,
    packet: &Packet<'a>,
    retagged: &'a mut Vec<u8>,
) -> Frame<'a> {
    /// Addresses, before the tag.
    const ADDRESSES: usize = 12;
    const TAG: u32 = 4;
    let time = Time::from_nanos(packet.time);
    let (data, length) = (packet.data, packet.length);
    let without_checksum = packet.without_checksum;
    let plain = Frame { time, link, interface, data, length, without_checksum };
    let Some(Tag { protocol, control }) = packet.tag else { return plain };
    let Some((addresses, rest)) = packet.data.split_at_checked(ADDRESSES) else { return plain };
    retagged.clear();
    retagged.extend_from_slice(addresses);
    retagged.extend(protocol.to_be_bytes());
    retagged.extend(control.to_be_bytes());
    retagged.extend_from_slice(rest);
    Frame { data: retagged, length: packet.length + TAG, ..plain }
}

fn refused(name: &str, cause: sys::Error) -> Error {
    const ENODEV: i32 = 19;
    match cause.errno() {
        Some(ENODEV) => Error::NoInterface(name.to_owned()),
        _ if cause.is_denied() => Error::Denied { interface: name.to_owned(), cause },
        _ => Error::Interface { interface: name.to_owned(), cause },
    }
}

/// A socket for VXLAN, Geneve or TZSP from routers.
pub struct Tunnel {
    socket: UdpSocket,
    local: SocketAddr,
    number: u32,
    buffer: Vec<u8>,
    dropped: u32,
    asked: Instant,
}

/// Length of the reconstructed headers in bytes: IPv6 and UDP.
const HEADERS: usize = 48;
/// Receive buffer in the kernel, if permitted: one second of a fast link exceeds the default.
const ROOM: usize = 16 << 20;
/// Maximum number of datagrams read before other sources.
const BATCH: usize = 256;

impl Tunnel {
    /// Receives packets at `address` as those of interface `number`.
    pub fn bind(address: SocketAddr, number: u32) -> Result<Self> {
        let refused = |cause| Error::Address { address, cause };
        let socket = UdpSocket::bind(address).map_err(refused)?;
        let local = socket.local_addr().map_err(refused)?;
        // A size above the system's limit needs a privilege; otherwise the limit applies.
        if sockopt::set_socket_recv_buffer_size_force(&socket, ROOM).is_err() {
            let size = sockopt::set_socket_recv_buffer_size(&socket, ROOM);
            size.map_err(|cause| refused(cause.into()))?;
        }
        let (buffer, asked) = (vec![0; HEADERS + (1 << 16)], Instant::now());
        Ok(Self { socket, local, number, buffer, dropped: 0, asked })
    }

    pub fn local(&self) -> SocketAddr {
        self.local
    }

    /// Delivers available datagrams, and waits up to `wait` if there are none.
    pub fn step(&mut self, wait: Duration, each: &mut impl FnMut(Item<'_>)) -> Result<Progress> {
        let progress = self.receive(wait, each)?;
        if self.asked.elapsed() >= ASK {
            self.ask(each)?;
        }
        Ok(progress)
    }

    /// Dropped datagrams since the last call.
    pub fn ask(&mut self, each: &mut impl FnMut(Item<'_>)) -> Result<()> {
        self.asked = Instant::now();
        let dropped = sys::socket::dropped_on_arrival(self.socket.as_fd())? as u32;
        let packets = dropped.wrapping_sub(std::mem::replace(&mut self.dropped, dropped));
        each(Item::Dropped { interface: self.number, packets: packets.into() });
        Ok(())
    }

    fn receive(&mut self, wait: Duration, each: &mut impl FnMut(Item<'_>)) -> Result<Progress> {
        let local = self.local;
        let failed = |cause| Error::Address { address: local, cause };
        // A timeout of zero would mean an infinite one.
        let wait = wait.max(Duration::from_micros(1));
        self.socket.set_nonblocking(false).map_err(failed)?;
        self.socket.set_read_timeout(Some(wait)).map_err(failed)?;
        for count in 0..BATCH {
            let (length, from) = match self.socket.recv_from(&mut self.buffer[HEADERS..]) {
                Ok(received) => received,
                Err(e) if matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                    return Ok(if count == 0 { Progress::Waiting } else { Progress::More });
                }
                Err(e) if e.kind() == ErrorKind::Interrupted => continue,
                Err(e) => return Err(failed(e)),
            };
            if count == 0 {
                self.socket.set_nonblocking(true).map_err(failed)?;
            }
            let (link, start) = wrap(&mut self.buffer, length, from, local);
            let data = &self.buffer[start..HEADERS + length];
            let whole = Frame::whole(Time::from_nanos(sys::clock::realtime()), link, data);
            each(Item::Frame(Frame { interface: self.number, ..whole }));
        }
        Ok(Progress::More)
    }
}

/// Prepends the IP and UDP headers of a datagram, so that the router's address identifies its
/// mirror. Returns the offset of their start.
fn wrap(buffer: &mut [u8], length: usize, from: SocketAddr, to: SocketAddr) -> (LinkType, usize) {
    const UDP: u8 = 17;
    let udp = (8 + length) as u16;
    let at = HEADERS - 8;
    buffer[at..at + 2].copy_from_slice(&from.port().to_be_bytes());
    buffer[at + 2..at + 4].copy_from_slice(&to.port().to_be_bytes());
    buffer[at + 4..at + 6].copy_from_slice(&udp.to_be_bytes());
    // No checksum (RFC 768): the kernel has verified it.
    buffer[at + 6..at + 8].fill(0);
    let (source, target) = (from.ip().to_canonical(), to.ip().to_canonical());
    if let (IpAddr::V4(source), IpAddr::V4(target)) = (source, target) {
        let start = at - 20;
        let header = &mut buffer[start..at];
        header.fill(0);
        header[0] = 0x45;
        header[2..4].copy_from_slice(&(udp.saturating_add(20)).to_be_bytes());
        (header[8], header[9]) = (64, UDP);
        header[12..16].copy_from_slice(&source.octets());
        header[16..20].copy_from_slice(&target.octets());
        let sum: u32 = header.chunks_exact(2).map(|w| u32::from(w[0]) << 8 | u32::from(w[1])).sum();
        let sum = !((sum & 0xffff) + (sum >> 16)) as u16;
        header[10..12].copy_from_slice(&sum.to_be_bytes());
        return (LinkType::IPV4, start);
    }
    let octets = |address: IpAddr| match address {
        IpAddr::V4(address) => address.to_ipv6_mapped().octets(),
        IpAddr::V6(address) => address.octets(),
    };
    let header = &mut buffer[..at];
    header[..4].copy_from_slice(&[0x60, 0, 0, 0]);
    header[4..6].copy_from_slice(&udp.to_be_bytes());
    (header[6], header[7]) = (UDP, 64);
    header[8..24].copy_from_slice(&octets(source));
    header[24..40].copy_from_slice(&octets(target));
    (LinkType::IPV6, 0)
}

pub enum Source {
    Captures(Captures),
    Interface(Interface),
    Tunnel(Tunnel),
}

impl Source {
    fn step(&mut self, wait: Duration, each: &mut impl FnMut(Item<'_>)) -> Result<Progress> {
        match self {
            Self::Captures(captures) => captures.step(wait, each),
            Self::Interface(interface) => interface.step(wait, each),
            Self::Tunnel(tunnel) => tunnel.step(wait, each),
        }
    }

    const fn is_growing(&self) -> bool {
        matches!(self, Self::Captures(captures) if captures.is_growing())
    }

    pub(crate) const fn is_live(&self) -> bool {
        !matches!(self, Self::Captures(_))
    }
}

pub trait Handler {
    fn item(&mut self, item: Item<'_>);
    /// Called when all packets so far were delivered, so that their records may be written.
    fn pause(&mut self, clock: Clock);
}

/// The time after all packets were delivered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Clock {
    /// Live packets, and none is waiting: the time of the clock.
    Live(Time),
    /// Recorded packets: the time without packets, as in a file that another process writes.
    Recorded(Span),
    Unknown,
}

/// Maximum time without a call.
const WAIT: Duration = Duration::from_millis(50);
/// Maximum age of packets that the kernel batches.
const LAG: Span = Span::from_millis(50);

/// Passes packets of all sources to `handler` until they end, or `stop` is set.
pub fn run(sources: &mut [Source], handler: &mut impl Handler, stop: &AtomicBool) -> Result<()> {
    let mut ended = vec![false; sources.len()];
    let is_live = sources.iter().any(Source::is_live);
    let is_growing = sources.iter().any(Source::is_growing);
    // With several sources, none may delay the others.
    let share = match sources.len() {
        0 | 1 => WAIT,
        count => Duration::from_millis(2) / count as u32,
    };
    let mut last = Instant::now();
    while !stop.load(Ordering::Relaxed) && ended.contains(&false) {
        let mut is_idle = true;
        for (source, ended) in sources.iter_mut().zip(&mut ended).filter(|(_, ended)| !**ended) {
            match source.step(share, &mut |item| handler.item(item))? {
                Progress::More => is_idle = false,
                Progress::Waiting => {}
                Progress::End => *ended = true,
            }
        }
        let now = Time::from_nanos(sys::clock::realtime().saturating_sub(LAG.as_nanos()));
        if !is_idle {
            last = Instant::now();
        }
        handler.pause(if is_idle && is_live {
            Clock::Live(now)
        } else if is_idle && is_growing {
            let idle = u64::try_from(last.elapsed().as_nanos()).unwrap_or(u64::MAX);
            Clock::Recorded(Span::from_nanos(idle))
        } else {
            Clock::Unknown
        });
    }
    for source in sources {
        if let Source::Tunnel(tunnel) = source {
            tunnel.step(Duration::ZERO, &mut |item| handler.item(item))?;
            tunnel.ask(&mut |item| handler.item(item))?;
        }
        if let Source::Interface(interface) = source {
            // Packets in the ring were captured, as the last drop counter of the kernel shows. At
            // most one ring is read, because packets may arrive as fast as they are read.
            for _ in 0..interface.ring.blocks() {
                let more = interface.step(Duration::ZERO, &mut |item| handler.item(item))?;
                if more != Progress::More {
                    break;
                }
            }
            interface.ask(&mut |item| handler.item(item))?;
        }
    }
    handler.pause(Clock::Unknown);
    Ok(())
}

#[cfg(test)]
mod tests;
