//! IP packets in all encapsulations of clones, and frames in all types of capture files.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::packet::ip;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Carrier {
    Ethernet,
    Vlan,
    QinQ,
    Mpls,
    Vxlan,
    Geneve,
    Tzsp,
    Gre,
    GreKey,
    Erspan2,
    Erspan3,
    IpInIp,
    IpInIp6,
    Nested,
    Fragments,
    FragmentsInIp6,
    Cooked,
    Cooked2,
    Raw,
    Null,
    Ppp,
    Hdlc,
    Juniper,
}

impl Carrier {
    pub(crate) const ALL: [Self; 23] = [
        Self::Ethernet,
        Self::Vlan,
        Self::QinQ,
        Self::Mpls,
        Self::Vxlan,
        Self::Geneve,
        Self::Tzsp,
        Self::Gre,
        Self::GreKey,
        Self::Erspan2,
        Self::Erspan3,
        Self::IpInIp,
        Self::IpInIp6,
        Self::Nested,
        Self::Fragments,
        Self::FragmentsInIp6,
        Self::Cooked,
        Self::Cooked2,
        Self::Raw,
        Self::Null,
        Self::Ppp,
        Self::Hdlc,
        Self::Juniper,
    ];

    pub(crate) const fn link(self) -> u32 {
        match self {
            Self::Cooked => 113,
            Self::Cooked2 => 276,
            Self::Raw => 101,
            Self::Null => 0,
            Self::Ppp => 9,
            Self::Hdlc => 104,
            _ => 1,
        }
    }

    /// The frames of the `number`th packet, in VLAN `mirror`.
    pub(crate) fn frames(self, packet: &[u8], number: u32, mirror: u16) -> Vec<Vec<u8>> {
        let kind = kind(packet);
        let frame = || ethernet(kind, packet);
        let tag = (mirror | 0x2000).to_be_bytes();
        let ip6 = (IpAddr::from(Ipv6Addr::LOCALHOST), IpAddr::from(Ipv6Addr::from_bits(77)));
        let inside = if packet[0] >> 4 == 4 { 4 } else { 41 };
        let one = match self {
            Self::Ethernet => frame(),
            Self::Vlan => ethernet(0x8100, &[&tag, &kind.to_be_bytes(), packet].concat()),
            Self::QinQ => {
                let inner = [&[0, 9, 0x81, 0][..], &tag, &kind.to_be_bytes(), packet].concat();
                ethernet(0x88a8, &inner)
            }
            Self::Mpls => ethernet(0x8847, &[&[0, 16, 0, 63, 1, 0, 1, 63], packet].concat()),
            Self::Vxlan => outer(17, &udp(4789, &[&[8, 0, 0, 0, 0, 0, 7, 0][..], &frame()])),
            Self::Geneve => {
                outer(17, &udp(6081, &[&[1, 0, 0x65, 0x58, 0, 0, 8, 0, 1, 2, 3, 0][..], &frame()]))
            }
            Self::Tzsp => outer(17, &udp(37008, &[&[1, 0, 0, 1, 10, 1, 200, 0, 1][..], &frame()])),
            Self::Gre => outer(47, &[&[0, 0], &kind.to_be_bytes()[..], packet].concat()),
            Self::GreKey => {
                let head =
                    [&[0x30, 0, 0x65, 0x58, 0, 0, 0, 99][..], &number.to_be_bytes()].concat();
                outer(47, &[&head[..], &frame()].concat())
            }
            Self::Erspan2 => {
                let head = [&[0x10, 0, 0x88, 0xbe][..], &number.to_be_bytes()].concat();
                outer(47, &[&head[..], &[0x10, 5, 0, 9, 0, 0, 0, 3], &frame()].concat())
            }
            Self::Erspan3 => {
                let head = [&[0x10, 0, 0x22, 0xeb][..], &number.to_be_bytes()].concat();
                let second = [0x20, 5, 0, 9, 1, 2, 3, 4, 0, 0, 0, 0];
                outer(47, &[&head[..], &second, &frame()].concat())
            }
            Self::IpInIp => outer(inside, packet),
            Self::IpInIp6 => ethernet(0x86dd, &ip(ip6.0, ip6.1, inside, 0, packet)),
            Self::Nested => {
                let gre = outer(47, &[&[0, 0, 0x65, 0x58][..], &frame()].concat());
                outer(17, &udp(4789, &[&[8, 0, 0, 0, 0, 1, 0, 0][..], &gre]))
            }
            Self::Fragments => return fragments(packet, number),
            Self::FragmentsInIp6 => {
                let tunnel = ip(ip6.0, ip6.1, inside, 0, packet);
                return fragments(&tunnel, number);
            }
            Self::Cooked => {
                [&[0, 0, 0, 1, 0, 6, 2, 0, 0, 0, 0, 1, 0, 0], &kind.to_be_bytes()[..], packet]
                    .concat()
            }
            Self::Cooked2 => {
                let head = [0, 0, 0, 0, 0, 3, 0, 1, 0, 6, 2, 0, 0, 0, 0, 1, 0, 0];
                [&kind.to_be_bytes()[..], &head, packet].concat()
            }
            Self::Raw => packet.to_vec(),
            Self::Null => [&[if inside == 4 { 2 } else { 24 }, 0, 0, 0], packet].concat(),
            Self::Ppp => [&[0, if inside == 4 { 0x21 } else { 0x57 }], packet].concat(),
            Self::Hdlc => [&[0x0f, 0], &kind.to_be_bytes()[..], packet].concat(),
            Self::Juniper => outer(17, &udp(30030, &[&[0, 0, 0, 1, 0, 0, 0, 2], packet])),
        };
        vec![one]
    }
}

fn kind(packet: &[u8]) -> u16 {
    if packet[0] >> 4 == 4 { 0x0800 } else { 0x86dd }
}

fn ethernet(kind: u16, payload: &[u8]) -> Vec<u8> {
    [&[2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2][..], &kind.to_be_bytes(), payload].concat()
}

/// IPv4 of a tunnel over Ethernet.
fn outer(protocol: u8, payload: &[u8]) -> Vec<u8> {
    let from = Ipv4Addr::new(192, 0, 2, 1).into();
    let to = Ipv4Addr::new(198, 51, 100, 9).into();
    ethernet(0x0800, &ip(from, to, protocol, 0, payload))
}

fn udp(port: u16, parts: &[&[u8]]) -> Vec<u8> {
    let payload = parts.concat();
    let length = (payload.len() as u16 + 8).to_be_bytes();
    [&50_000_u16.to_be_bytes(), &port.to_be_bytes(), &length, &[0, 0], &payload[..]].concat()
}

/// A packet in fragments of 512 bytes.
fn fragments(packet: &[u8], number: u32) -> Vec<Vec<u8>> {
    const PIECE: usize = 512;
    let v4 = packet[0] >> 4 == 4;
    let head = if v4 { 20 } else { 40 };
    if packet.len() <= head + PIECE {
        return vec![ethernet(kind(packet), packet)];
    }
    let last = (packet.len() - head - 1) / PIECE;
    let piece = |(at, piece): (usize, &[u8])| {
        let more = u16::from(at < last);
        let mut fragment = packet[..head].to_vec();
        if v4 {
            let length = (piece.len() + head) as u16;
            fragment[2..4].copy_from_slice(&length.to_be_bytes());
            fragment[4..6].copy_from_slice(&(number as u16).to_be_bytes());
            let place = (at * PIECE / 8) as u16 | more << 13;
            fragment[6..8].copy_from_slice(&place.to_be_bytes());
            fragment[10..12].fill(0);
            let sum = crate::packet::checksum(&[&fragment]);
            fragment[10..12].copy_from_slice(&sum.to_be_bytes());
        } else {
            fragment[4..6].copy_from_slice(&(piece.len() as u16 + 8).to_be_bytes());
            let next = std::mem::replace(&mut fragment[6], 44);
            fragment.extend([next, 0]);
            fragment.extend(((at * PIECE) as u16 | more).to_be_bytes());
            fragment.extend(number.to_be_bytes());
        }
        fragment.extend_from_slice(piece);
        ethernet(kind(packet), &fragment)
    };
    packet[head..].chunks(PIECE).enumerate().map(piece).collect()
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Format {
    Pcap,
    BigEndian,
    Nanoseconds,
    Pcapng,
}

impl Format {
    pub(crate) const ALL: [Self; 4] =
        [Self::Pcap, Self::BigEndian, Self::Nanoseconds, Self::Pcapng];

    fn number(self, number: u32) -> [u8; 4] {
        if self == Self::BigEndian { number.to_be_bytes() } else { number.to_le_bytes() }
    }

    fn numbers(self, numbers: &[u32]) -> Vec<u8> {
        numbers.iter().flat_map(|number| self.number(*number)).collect()
    }

    pub(crate) fn begin(self, link: u32) -> Vec<u8> {
        self.section(link, &[*b"eth0"])
    }

    /// The start of a file, or in pcapng of another section, with interfaces of these names.
    pub(crate) fn section(self, link: u32, names: &[[u8; 4]]) -> Vec<u8> {
        if self == Self::Pcapng {
            let section = [0x0a0d_0d0a, 28, 0x1a2b_3c4d, 1, u32::MAX, u32::MAX, 28];
            let mut out = self.numbers(&section);
            out.extend(names.iter().flat_map(|name| self.interface(link, *name)));
            return out;
        }
        let magic = if self == Self::Nanoseconds { 0xa1b2_3c4d } else { 0xa1b2_c3d4 };
        let version = if self == Self::BigEndian { 0x0002_0004 } else { 0x0004_0002 };
        self.numbers(&[magic, version, 0, 0, 262_144, link])
    }

    /// The description of an interface in pcapng, with times in nanoseconds.
    pub(crate) fn interface(self, link: u32, name: [u8; 4]) -> Vec<u8> {
        let name = u32::from_le_bytes(name);
        self.numbers(&[1, 40, link, 0, 0x0004_0002, name, 0x0001_0009, 9, 0, 40])
    }

    /// One frame of the first interface, of which the capture truncated the last `cut` bytes.
    pub(crate) fn frame(self, out: &mut Vec<u8>, time: u64, frame: &[u8], cut: usize) {
        self.frame_of(out, 0, time, frame, cut);
    }

    pub(crate) fn frame_of(
        self,
        out: &mut Vec<u8>,
        interface: u32,
        time: u64,
        frame: &[u8],
        cut: usize,
    ) {
        let (length, kept) = (frame.len() as u32, (frame.len() - cut) as u32);
        if self == Self::Pcapng {
            let size = 32 + kept.next_multiple_of(4);
            let head = [6, size, interface, (time >> 32) as u32, time as u32, kept, length];
            out.extend(self.numbers(&head));
            out.extend_from_slice(&frame[..kept as usize]);
            out.resize(out.len().next_multiple_of(4), 0);
            out.extend(self.number(size));
            return;
        }
        let part = (time % 1_000_000_000) as u32;
        let part = if self == Self::Nanoseconds { part } else { part / 1000 };
        out.extend(self.numbers(&[(time / 1_000_000_000) as u32, part, kept, length]));
        out.extend_from_slice(&frame[..kept as usize]);
    }
}
