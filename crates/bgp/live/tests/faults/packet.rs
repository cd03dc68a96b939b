//! TCP segments of a capture, parsed and written without code of the project.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::ops::Range;
use std::path::Path;

pub(crate) const FIN: u8 = 1;
pub(crate) const SYN: u8 = 2;
pub(crate) const RST: u8 = 4;
pub(crate) const ACK: u8 = 16;

/// A segment with additional information.
#[derive(Clone, Debug)]
pub(crate) struct Packet {
    /// Nanoseconds since 1970.
    pub(crate) time: u64,
    pub(crate) from: SocketAddr,
    pub(crate) to: SocketAddr,
    pub(crate) flags: u8,
    pub(crate) window: u16,
    pub(crate) options: Vec<u8>,
    pub(crate) payload: Vec<u8>,
    /// Its connection, and the end that sent it: 0 opened the connection.
    pub(crate) connection: usize,
    pub(crate) side: usize,
    /// Offset of the payload in its stream; the first byte after the SYN has 0.
    pub(crate) offset: u64,
    pub(crate) acked: u64,
    /// Number of captured bytes of the payload, if truncated.
    pub(crate) kept: Option<usize>,
    /// The bit of the segment that was flipped in transit.
    pub(crate) flipped: Option<usize>,
    /// The receiving host merged several segments: the checksum is the sum of the pseudo-header.
    pub(crate) merged: bool,
    /// A network card merged segments (LRO) and left the header of the first one, which has this
    /// many bytes of the payload: the checksum is that of the first one.
    pub(crate) first_part: Option<usize>,
    /// VLAN of the clone, if there are several mirrors.
    pub(crate) mirror: u16,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Stream {
    pub(crate) bytes: Vec<u8>,
    /// Positions of its messages; the last one may be truncated.
    pub(crate) messages: Vec<Range<usize>>,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Original {
    pub(crate) packets: Vec<Packet>,
    pub(crate) streams: BTreeMap<(usize, usize), Stream>,
}

fn word(bytes: &[u8], at: usize) -> usize {
    usize::from(bytes[at]) << 8 | usize::from(bytes[at + 1])
}

fn long(bytes: &[u8], at: usize) -> u32 {
    (word(bytes, at) << 16 | word(bytes, at + 2)) as u32
}

/// Records of a little-endian pcap file with microseconds: time and frame.
pub(crate) fn records(file: &[u8]) -> Vec<(u64, &[u8])> {
    let number = |at: usize| u32::from_le_bytes(*file[at..].first_chunk().unwrap());
    assert_eq!((number(0), number(20)), (0xa1b2_c3d4, 1));
    let (mut at, mut records) = (24, Vec::new());
    while at < file.len() {
        let length = number(at + 8) as usize;
        let time = u64::from(number(at)) * 1_000_000_000 + u64::from(number(at + 4)) * 1000;
        records.push((time, &file[at + 16..at + 16 + length]));
        at += 16 + length;
    }
    records
}

fn segment(frame: &[u8]) -> (IpAddr, IpAddr, &[u8]) {
    let ip = &frame[14..];
    if word(frame, 12) == 0x0800 {
        let address = |at: usize| Ipv4Addr::from_bits(long(ip, at)).into();
        return (address(12), address(16), &ip[20..word(ip, 2)]);
    }
    assert_eq!((word(frame, 12), ip[6]), (0x86dd, 6));
    let address = |at: usize| Ipv6Addr::from(*ip[at..].first_chunk::<16>().unwrap()).into();
    (address(8), address(24), &ip[40..40 + word(ip, 4)])
}

/// The first `most` packets of a capture file.
pub(crate) fn read(path: &Path, most: usize) -> Original {
    let bytes = std::fs::read(path).unwrap();
    let file = if path.extension().is_some_and(|extension| extension == "zst") {
        zstd::decode_all(&bytes[..]).unwrap()
    } else {
        bytes
    };
    let mut known: BTreeMap<[SocketAddr; 2], (usize, usize)> = BTreeMap::new();
    let mut initial: BTreeMap<(usize, usize), u32> = BTreeMap::new();
    let mut original = Original::default();
    for (time, frame) in records(&file).into_iter().take(most) {
        let (source, destination, tcp) = segment(frame);
        let from = SocketAddr::new(source, word(tcp, 0) as u16);
        let to = SocketAddr::new(destination, word(tcp, 2) as u16);
        let (sequence, acknowledgment, flags) = (long(tcp, 4), long(tcp, 8), tcp[13]);
        if flags & (SYN | ACK) == SYN && !known.contains_key(&[from, to]) {
            let number = known.len() / 2;
            known.insert([from, to], (number, 0));
            known.insert([to, from], (number, 1));
        }
        let (connection, side) = known[&[from, to]];
        let start = *initial.entry((connection, side)).or_insert(sequence);
        let other = initial.get(&(connection, 1 - side)).copied().unwrap_or(0);
        let header = usize::from(tcp[12] >> 4) * 4;
        let syn = u32::from(flags & SYN != 0);
        let acked = acknowledgment.wrapping_sub(other).wrapping_sub(1);
        original.packets.push(Packet {
            time,
            from,
            to,
            flags,
            window: word(tcp, 14) as u16,
            options: tcp[20..header].to_vec(),
            payload: tcp[header..].to_vec(),
            connection,
            side,
            offset: u64::from(sequence.wrapping_add(syn).wrapping_sub(start).wrapping_sub(1)),
            acked: if flags & ACK == 0 { 0 } else { u64::from(acked) },
            kept: None,
            flipped: None,
            merged: false,
            first_part: None,
            mirror: 0,
        });
    }
    original.assemble();
    original
}

impl Original {
    /// Concatenates the streams, in which nothing is missing.
    pub(crate) fn assemble(&mut self) {
        for packet in self.packets.iter().filter(|packet| !packet.payload.is_empty()) {
            let stream = self.streams.entry((packet.connection, packet.side)).or_default();
            let (at, end) = (packet.offset as usize, packet.offset as usize + packet.payload.len());
            assert!(at <= stream.bytes.len(), "a hole at {at}");
            if end > stream.bytes.len() {
                let known = stream.bytes.len() - at;
                stream.bytes.extend_from_slice(&packet.payload[known..]);
            }
        }
        let ways = self.packets.iter().map(|packet| (packet.connection, packet.side));
        for way in ways {
            self.streams.entry(way).or_default();
        }
        for stream in self.streams.values_mut() {
            let mut at = 0;
            while at + 19 <= stream.bytes.len() {
                let end = at + word(&stream.bytes, at + 16);
                stream.messages.push(at..end);
                at = end;
            }
        }
    }
}

pub(crate) fn checksum(parts: &[&[u8]]) -> u16 {
    let mut sum = 0_u64;
    for pair in parts.concat().chunks(2) {
        sum += u64::from(pair[0]) * 256 + u64::from(pair.get(1).copied().unwrap_or(0));
    }
    while sum > 0xffff {
        sum = sum % 0x1_0000 + sum / 0x1_0000;
    }
    !(sum as u16)
}

fn octets(address: IpAddr) -> Vec<u8> {
    match address {
        IpAddr::V4(address) => address.octets().to_vec(),
        IpAddr::V6(address) => address.octets().to_vec(),
    }
}

/// An IP packet with `payload`. `place` is the word of IPv4 with flags and offset.
pub(crate) fn ip(from: IpAddr, to: IpAddr, protocol: u8, place: u16, payload: &[u8]) -> Vec<u8> {
    let length = payload.len() as u16;
    let mut packet = if from.is_ipv4() { vec![0x45, 0] } else { vec![0x60, 0, 0, 0] };
    if from.is_ipv4() {
        packet.extend((length + 20).to_be_bytes());
        packet.extend([0x4e, 0x54]);
        packet.extend(place.to_be_bytes());
        packet.extend([64, protocol, 0, 0]);
    } else {
        packet.extend(length.to_be_bytes());
        packet.extend([protocol, 64]);
    }
    packet.extend(octets(from));
    packet.extend(octets(to));
    if from.is_ipv4() {
        let sum = checksum(&[&packet]);
        packet[10..12].copy_from_slice(&sum.to_be_bytes());
    }
    packet.extend_from_slice(payload);
    packet
}

impl Packet {
    /// The IP packet on the wire. `initial` are sequence numbers of the SYNs of this side and
    /// of the other.
    pub(crate) fn wire(&self, initial: [u32; 2]) -> Vec<u8> {
        let syn = u32::from(self.flags & SYN == 0);
        let sequence = initial[0].wrapping_add(self.offset as u32).wrapping_add(syn);
        let acknowledgment = match self.flags & ACK {
            0 => 0,
            _ => initial[1].wrapping_add(self.acked as u32).wrapping_add(1),
        };
        let mut tcp = [self.from.port().to_be_bytes(), self.to.port().to_be_bytes()].concat();
        tcp.extend(sequence.to_be_bytes());
        tcp.extend(acknowledgment.to_be_bytes());
        tcp.extend([((20 + self.options.len()) / 4 * 16) as u8, self.flags]);
        tcp.extend(self.window.to_be_bytes());
        tcp.extend([0; 4]);
        tcp.extend_from_slice(&self.options);
        tcp.extend_from_slice(&self.payload);
        let (from, to) = (octets(self.from.ip()), octets(self.to.ip()));
        let length = (tcp.len() as u32).to_be_bytes();
        let summed = self.first_part.map_or(tcp.len(), |part| 20 + self.options.len() + part);
        let summed_length = (summed as u32).to_be_bytes();
        let sum = checksum(&[&from, &to, &summed_length, &[0, 0, 0, 6], &tcp[..summed]]);
        tcp[16..18].copy_from_slice(&sum.to_be_bytes());
        // A checksum that equals the sum of the addresses alone would be taken for offload,
        // whatever the segment contains: then the checksum itself is damaged.
        let addresses = [&[][..], &length].map(|length| !checksum(&[&from, &to, length, &[0, 6]]));
        if self.merged {
            tcp[16..18].copy_from_slice(&addresses[1].to_be_bytes());
        } else if self.flipped.is_some() && (sum == 0 || addresses.contains(&sum)) {
            tcp[17] ^= 1;
        } else if let Some(bit) = self.flipped {
            // Any bit except those of the ports and of the checksum itself.
            let at = 4 + bit / 8 % (tcp.len() - 6);
            tcp[if at < 16 { at } else { at + 2 }] ^= 1 << (bit % 8);
        }
        ip(self.from.ip(), self.to.ip(), 6, 0x4000, &tcp)
    }

    pub(crate) fn cut(&self) -> usize {
        self.kept.map_or(0, |kept| self.payload.len() - kept)
    }
}
