//! A read-only view of the headers that decide what happens to a packet.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// An IP address in the data path's format: IPv4 as the mapped IPv6 address.
pub type Address = u128;

/// IP protocol numbers used by the data path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Protocol;

#[expect(missing_docs, reason = "the names are the protocols'")]
impl Protocol {
    pub const ICMP: u8 = 1;
    pub const TCP: u8 = 6;
    pub const UDP: u8 = 17;
    pub const ICMPV6: u8 = 58;
}

/// Maximum number of parsed IPv6 extension headers (RFC 8200 §4.1 names seven, once each).
const EXTENSIONS: usize = 8;

/// The parsed header fields of a packet, read once when the packet enters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// IP version: 4 or 6.
    pub version: u8,
    pub source: Address,
    pub destination: Address,
    /// Protocol of the payload, behind IPv6 extension headers.
    pub protocol: u8,
    /// Source and destination port of TCP and UDP, 0 otherwise and in later fragments.
    pub ports: (u16, u16),
    /// TCP flags (RFC 9293 §3.1), and whether payload follows the header; `None` for other
    /// protocols and later fragments.
    pub tcp: Option<(u8, bool)>,
    /// Time to live, or hop limit.
    pub ttl: u8,
    /// Differentiated services code point.
    pub dscp: u8,
    /// The two ECN bits.
    pub ecn: u8,
    /// Whether routers may not fragment it (always true in IPv6).
    pub dont_fragment: bool,
    /// Whether it is a fragment, including the first one.
    pub is_fragment: bool,
    /// Bytes of the IP header with options and extension headers.
    pub ip_length: u16,
    /// Bytes of the whole packet, by its length field.
    pub total_length: u32,
    /// IPv6 flow label, 0 in IPv4.
    pub flow_label: u32,
}

impl Header {
    /// Parses the headers of a packet; `None` if it is not a packet, or truncated
    /// within its IP header.
    pub fn parse(packet: &[u8]) -> Option<Self> {
        match packet.first()? >> 4 {
            4 => Self::parse_v4(packet),
            6 => Self::parse_v6(packet),
            _ => None,
        }
    }

    fn parse_v4(packet: &[u8]) -> Option<Self> {
        let fixed = packet.first_chunk::<20>()?;
        let ip_length = usize::from(fixed[0] & 15) * 4;
        if ip_length < 20 || packet.len() < ip_length {
            return None;
        }
        let word = |at: usize| u16::from_be_bytes([fixed[at], fixed[at + 1]]);
        let address = |at: usize| {
            let octets = [fixed[at], fixed[at + 1], fixed[at + 2], fixed[at + 3]];
            Ipv4Addr::from(octets).to_ipv6_mapped().to_bits()
        };
        let fragment = word(6);
        let later_fragment = fragment & 0x1fff != 0;
        let transport = if later_fragment { &[] } else { &packet[ip_length..] };
        Some(Self {
            version: 4,
            source: address(12),
            destination: address(16),
            protocol: fixed[9],
            ports: ports(fixed[9], transport),
            tcp: tcp(fixed[9], transport),
            ttl: fixed[8],
            dscp: fixed[1] >> 2,
            ecn: fixed[1] & 3,
            dont_fragment: fragment & 0x4000 != 0,
            is_fragment: fragment & 0x3fff != 0,
            ip_length: ip_length as u16,
            total_length: u32::from(word(2)),
            flow_label: 0,
        })
    }

    fn parse_v6(packet: &[u8]) -> Option<Self> {
        let fixed = packet.first_chunk::<40>()?;
        let first = u32::from_be_bytes([fixed[0], fixed[1], fixed[2], fixed[3]]);
        let address = |at: usize| {
            fixed[at..at + 16].iter().fold(0, |bits: u128, octet| (bits << 8) | u128::from(*octet))
        };
        let (mut protocol, mut at, mut is_fragment, mut later_fragment) =
            (fixed[6], 40, false, false);
        for _ in 0..EXTENSIONS {
            let Some(extension) = packet.get(at..at + 8) else { break };
            let length = match protocol {
                // Hop-by-hop, routing, destination options.
                0 | 43 | 60 => usize::from(extension[1]) * 8 + 8,
                44 => {
                    is_fragment = true;
                    later_fragment |=
                        (u16::from(extension[2]) << 8 | u16::from(extension[3])) >> 3 != 0;
                    8
                }
                _ => break,
            };
            if at + length > packet.len() {
                break;
            }
            protocol = extension[0];
            at += length;
        }
        let transport = if later_fragment { &[] } else { &packet[at..] };
        Some(Self {
            version: 6,
            source: address(8),
            destination: address(24),
            protocol,
            ports: ports(protocol, transport),
            tcp: tcp(protocol, transport),
            ttl: fixed[7],
            dscp: (first >> 22) as u8 & 63,
            ecn: (first >> 20) as u8 & 3,
            dont_fragment: true,
            is_fragment,
            ip_length: at as u16,
            total_length: u32::from(u16::from_be_bytes([fixed[4], fixed[5]])) + 40,
            flow_label: first & 0xf_ffff,
        })
    }

    /// A hash of the 5-tuple: addresses, protocol, ports.
    pub fn flow_hash(&self) -> u32 {
        let (source, destination) = (fold(self.source), fold(self.destination));
        let ports = u64::from(self.ports.0) << 32 | u64::from(self.ports.1) << 8;
        let mut hash = source.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ destination.rotate_left(32);
        hash = (hash ^ ports ^ u64::from(self.protocol)).wrapping_mul(0xff51_afd7_ed55_8ccd);
        hash = (hash ^ (hash >> 33)).wrapping_mul(0xc4ce_b9fe_1a85_ec53);
        (hash >> 32) as u32
    }

    pub fn source_ip(&self) -> IpAddr {
        ip(self.source)
    }

    pub fn destination_ip(&self) -> IpAddr {
        ip(self.destination)
    }

    /// Whether the destination is a multicast or broadcast address.
    pub fn is_multicast(&self) -> bool {
        match self.destination_ip() {
            IpAddr::V4(v4) => v4.is_multicast() || v4.is_broadcast(),
            IpAddr::V6(v6) => v6.is_multicast(),
        }
    }
}

fn fold(address: Address) -> u64 {
    (address >> 64) as u64 ^ address as u64
}

fn ip(address: Address) -> IpAddr {
    let v6 = Ipv6Addr::from_bits(address);
    v6.to_ipv4_mapped().map_or(IpAddr::V6(v6), IpAddr::V4)
}

fn ports(protocol: u8, transport: &[u8]) -> (u16, u16) {
    match (protocol, transport) {
        (Protocol::TCP | Protocol::UDP, [a, b, c, d, ..]) => {
            (u16::from_be_bytes([*a, *b]), u16::from_be_bytes([*c, *d]))
        }
        _ => (0, 0),
    }
}

fn tcp(protocol: u8, transport: &[u8]) -> Option<(u8, bool)> {
    if protocol != Protocol::TCP {
        return None;
    }
    let header = usize::from(transport.get(12)? >> 4) * 4;
    Some((*transport.get(13)?, transport.len() > header))
}
