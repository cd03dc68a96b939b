//! Writes capture files from frames, and frames from BGP messages, so that other tools can read
//! archives as captures.

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};

use base::Time;

use super::Interface;
use crate::segment::flags::{ACK, FIN, PSH, RST, SYN};
use crate::{Frame, LinkType, MirrorId};

/// Maximum number of message bytes per segment, as over Ethernet.
const SEGMENT_MAX: usize = 1440;
const PORT: u16 = 179;
/// First ephemeral port (RFC 6335 §6), for the connecting ends.
const FIRST_PORT: u16 = 49_152;
const WINDOW: u16 = 65_535;

/// Appends the header of a pcap file with times in nanoseconds.
pub fn pcap_header(link: LinkType, out: &mut Vec<u8>) {
    out.extend(0xa1b2_3c4d_u32.to_le_bytes());
    out.extend([2, 0, 4, 0]);
    out.extend([0; 8]);
    out.extend(262_144_u32.to_le_bytes());
    out.extend(u32::from(link.0).to_le_bytes());
}

/// Appends a record of a pcap file. Times after 2106 are truncated.
pub fn pcap_frame(frame: &Frame<'_>, out: &mut Vec<u8>) {
    let nanos = frame.time.as_nanos();
    out.extend(((nanos / 1_000_000_000) as u32).to_le_bytes());
    out.extend(((nanos % 1_000_000_000) as u32).to_le_bytes());
    out.extend((frame.data.len() as u32).to_le_bytes());
    out.extend(frame.length.to_le_bytes());
    out.extend_from_slice(frame.data);
}

fn block(kind: u32, body: impl FnOnce(&mut Vec<u8>), out: &mut Vec<u8>) {
    let start = out.len();
    out.extend(kind.to_le_bytes());
    out.extend([0; 4]);
    body(out);
    out.resize(start + (out.len() - start).next_multiple_of(4), 0);
    let total = (out.len() - start + 4) as u32;
    out[start + 4..start + 8].copy_from_slice(&total.to_le_bytes());
    out.extend(total.to_le_bytes());
}

fn option(code: u16, value: &[u8], out: &mut Vec<u8>) {
    out.extend(code.to_le_bytes());
    out.extend((value.len() as u16).to_le_bytes());
    out.extend_from_slice(value);
    out.resize(out.len() + value.len().next_multiple_of(4) - value.len(), 0);
}

/// Appends the start of a pcapng file: its section and its interfaces, with times in nanoseconds.
/// [`Frame::interface`] is an index into `interfaces`.
pub fn pcapng_header(interfaces: &[Interface], out: &mut Vec<u8>) {
    let section = |out: &mut Vec<u8>| {
        out.extend(0x1a2b_3c4d_u32.to_le_bytes());
        out.extend([1, 0, 0, 0]);
        out.extend([0xff; 8]);
    };
    block(0x0a0d_0d0a, section, out);
    for interface in interfaces {
        let description = |out: &mut Vec<u8>| {
            out.extend(interface.link.0.to_le_bytes());
            out.extend([0; 2]);
            out.extend(interface.snap.to_le_bytes());
            if let Some(name) = &interface.name {
                option(2, &name.as_bytes()[..name.len().min(256)], out);
            }
            option(9, &[9], out);
            option(0, &[], out);
        };
        block(1, description, out);
    }
}

pub fn pcapng_frame(frame: &Frame<'_>, out: &mut Vec<u8>) {
    let packet = |out: &mut Vec<u8>| {
        let nanos = frame.time.as_nanos();
        out.extend(frame.interface.to_le_bytes());
        out.extend(((nanos >> 32) as u32).to_le_bytes());
        out.extend((nanos as u32).to_le_bytes());
        out.extend((frame.data.len() as u32).to_le_bytes());
        out.extend(frame.length.to_le_bytes());
        out.extend_from_slice(frame.data);
    };
    block(6, packet, out);
}

/// Appends a statistics block: the number of packets lost at an interface since the start
/// of the file.
pub fn pcapng_dropped(time: Time, interface: u32, packets: u64, out: &mut Vec<u8>) {
    let statistics = |out: &mut Vec<u8>| {
        let nanos = time.as_nanos();
        out.extend(interface.to_le_bytes());
        out.extend(((nanos >> 32) as u32).to_le_bytes());
        out.extend((nanos as u32).to_le_bytes());
        option(5, &packets.to_le_bytes(), out);
        option(0, &[], out);
    };
    block(5, statistics, out);
}

#[derive(Clone, Copy, Debug)]
struct Line {
    /// Ports and next sequence numbers of the lower and of the higher address.
    ports: [u16; 2],
    next: [u32; 2],
    open: bool,
    count: u16,
}

/// Converts messages to TCP segments over IP over Ethernet: one connection with handshake per pair
/// of speakers, with correct sequence numbers and checksums.
#[derive(Debug, Default)]
pub struct Wrapper {
    lines: HashMap<(IpAddr, IpAddr), Line>,
    vlan: u16,
    buffer: Vec<u8>,
}

struct Out<'a> {
    time: Time,
    from: SocketAddr,
    to: SocketAddr,
    sequence: u32,
    acknowledgment: u32,
    flags: u8,
    payload: &'a [u8],
}

impl Wrapper {
    pub fn new() -> Self {
        Self::default()
    }

    /// A wrapper without connections for sessions of `mirror`. Frames of all mirrors except the
    /// first have a VLAN tag, so that equal addresses stay separate.
    pub fn of_mirror(mirror: MirrorId) -> Self {
        const VLANS: u32 = 4094;
        let vlan = if mirror.0 > 1 { (mirror.0 - 1) % VLANS + 1 } else { 0 };
        Self { vlan: vlan as u16, ..Self::default() }
    }

    /// Passes the frames of a message to `out`. The first message of a pair opens the connection,
    /// and its sender is the client. A pair with addresses of two families uses IPv6.
    pub fn message(
        &mut self,
        time: Time,
        from: IpAddr,
        to: IpAddr,
        bytes: &[u8],
        out: &mut impl FnMut(&Frame<'_>),
    ) {
        let (from, to) = alike(from, to);
        let mut line = self.line(time, from, to, out);
        let side = usize::from(from > to);
        let ends =
            [SocketAddr::new(from, line.ports[side]), SocketAddr::new(to, line.ports[1 - side])];
        for payload in bytes.chunks(SEGMENT_MAX) {
            let flags = ACK | PSH;
            let (sequence, acknowledgment) = (line.next[side], line.next[1 - side]);
            let [from, to] = ends;
            self.write(&Out { time, from, to, sequence, acknowledgment, flags, payload }, out);
            line.next[side] = sequence.wrapping_add(payload.len() as u32);
        }
        self.keep(from, to, line);
    }

    /// Passes the frames that close the connection of a pair to `out`, if it is open: FIN from
    /// `from`, or RST if it was `reset`.
    pub fn close(
        &mut self,
        time: Time,
        from: IpAddr,
        to: IpAddr,
        reset: bool,
        out: &mut impl FnMut(&Frame<'_>),
    ) {
        let (from, to) = alike(from, to);
        let Some(line) = self.lines.get(&(from.min(to), from.max(to))).filter(|line| line.open)
        else {
            return;
        };
        let mut line = *line;
        let side = usize::from(from > to);
        let ends =
            [SocketAddr::new(from, line.ports[side]), SocketAddr::new(to, line.ports[1 - side])];
        let steps: &[(usize, u8)] =
            if reset { &[(0, RST | ACK)] } else { &[(0, FIN | ACK), (1, FIN | ACK), (0, ACK)] };
        for (who, flags) in steps {
            let (here, there) = (side ^ who, 1 - (side ^ who));
            let (sequence, acknowledgment) = (line.next[here], line.next[there]);
            let (from, to) = (ends[*who], ends[1 - who]);
            let segment =
                Out { time, from, to, sequence, acknowledgment, flags: *flags, payload: &[] };
            self.write(&segment, out);
            line.next[here] = sequence.wrapping_add(u32::from(flags & FIN));
        }
        line.open = false;
        self.keep(from, to, line);
    }

    fn keep(&mut self, from: IpAddr, to: IpAddr, line: Line) {
        self.lines.insert((from.min(to), from.max(to)), line);
    }

    fn line(
        &mut self,
        time: Time,
        from: IpAddr,
        to: IpAddr,
        out: &mut impl FnMut(&Frame<'_>),
    ) -> Line {
        let side = usize::from(from > to);
        let count = match self.lines.get(&(from.min(to), from.max(to))) {
            Some(line) if line.open => return *line,
            Some(line) => line.count.wrapping_add(1) % (u16::MAX - FIRST_PORT),
            None => 0,
        };
        let mut ports = [PORT; 2];
        ports[side] = FIRST_PORT + count;
        let next = [1, 0x8000_0001].map(|start: u32| start.wrapping_add(u32::from(count) << 16));
        let line = Line { ports, next, open: true, count };
        let ends = [SocketAddr::new(from, ports[side]), SocketAddr::new(to, ports[1 - side])];
        let (mine, theirs) = (next[side], next[1 - side]);
        for (who, flags, sequence, acknowledgment) in [
            (0, SYN, mine.wrapping_sub(1), 0),
            (1, SYN | ACK, theirs.wrapping_sub(1), mine),
            (0, ACK, mine, theirs),
        ] {
            let (from, to) = (ends[who], ends[1 - who]);
            self.write(&Out { time, from, to, sequence, acknowledgment, flags, payload: &[] }, out);
        }
        line
    }

    fn write(&mut self, segment: &Out<'_>, out: &mut impl FnMut(&Frame<'_>)) {
        let buffer = &mut self.buffer;
        buffer.clear();
        for end in [segment.to, segment.from] {
            buffer.extend(hardware(end.ip()));
        }
        if self.vlan != 0 {
            buffer.extend([0x81, 0x00]);
            buffer.extend(self.vlan.to_be_bytes());
        }
        let length = 20 + segment.payload.len();
        let addresses = ip(segment, length as u16, buffer);
        let tcp = buffer.len();
        buffer.extend(segment.from.port().to_be_bytes());
        buffer.extend(segment.to.port().to_be_bytes());
        buffer.extend(segment.sequence.to_be_bytes());
        buffer.extend(segment.acknowledgment.to_be_bytes());
        buffer.extend([0x50, segment.flags]);
        buffer.extend(WINDOW.to_be_bytes());
        buffer.extend([0; 4]);
        buffer.extend_from_slice(segment.payload);
        let pseudo = wire::checksum::pseudo_header(&buffer[addresses..tcp], 6, length as u32);
        let sum = !wire::checksum::fold(wire::checksum::add(pseudo, &buffer[tcp..]));
        buffer[tcp + 16..tcp + 18].copy_from_slice(&sum.to_be_bytes());
        out(&Frame::whole(segment.time, LinkType::ETHERNET, buffer));
    }
}

/// Appends the Ethernet type and an IP header, which ends with the addresses. Returns the offset
/// of the addresses.
fn ip(segment: &Out<'_>, length: u16, buffer: &mut Vec<u8>) -> usize {
    const HOPS: u8 = 64;
    if let (IpAddr::V4(from), IpAddr::V4(to)) = (segment.from.ip(), segment.to.ip()) {
        buffer.extend([0x08, 0x00]);
        let start = buffer.len();
        buffer.extend([0x45, 0xc0]);
        buffer.extend((length + 20).to_be_bytes());
        buffer.extend([0, 0, 0x40, 0, HOPS, 6, 0, 0]);
        buffer.extend(from.octets());
        buffer.extend(to.octets());
        let sum = wire::checksum::of(&buffer[start..]);
        buffer[start + 10..start + 12].copy_from_slice(&sum.to_be_bytes());
        return start + 12;
    }
    buffer.extend([0x86, 0xdd, 0x6c, 0, 0, 0]);
    buffer.extend(length.to_be_bytes());
    buffer.extend([6, HOPS]);
    let start = buffer.len();
    for end in [segment.from, segment.to] {
        match end.ip() {
            IpAddr::V4(address) => buffer.extend(address.to_ipv6_mapped().octets()),
            IpAddr::V6(address) => buffer.extend(address.octets()),
        }
    }
    start
}

/// A locally administered hardware address derived from the IP address.
fn hardware(address: IpAddr) -> [u8; 6] {
    let octets = match address {
        IpAddr::V4(address) => address.octets(),
        IpAddr::V6(address) => ((address.to_bits() ^ address.to_bits() >> 64) as u32).to_be_bytes(),
    };
    let [a, b, c, d] = octets;
    [2, 0, a, b, c, d]
}

fn alike(from: IpAddr, to: IpAddr) -> (IpAddr, IpAddr) {
    let six = |address| match address {
        IpAddr::V4(address) => IpAddr::V6(address.to_ipv6_mapped()),
        address @ IpAddr::V6(_) => address,
    };
    if from.is_ipv4() == to.is_ipv4() { (from, to) } else { (six(from), six(to)) }
}
