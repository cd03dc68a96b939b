//! The ICMP messages that routers send (RFC 792, RFC 1191, RFC 4443).

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::checksum;
use crate::header::{Header, Protocol};

/// TTL of messages that a router originates.
const TTL: u8 = 64;

/// Quoted bytes of the offending packet in an `ICMPv4` error: as many as keep the message within
/// 576 bytes (RFC 1812 §4.3.2.3).
const QUOTE_V4: usize = 576 - 20 - 8;

/// `ICMPv6` errors stay within the minimum MTU (RFC 4443 §2.4 c).
const QUOTE_V6: usize = 1280 - 40 - 8;

/// A message about a packet that could not be delivered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Problem {
    /// TTL or hop limit exceeded in transit.
    TtlExceeded,
    /// No route to the destination.
    NoRoute,
    /// Too large for the next link, which takes `mtu` bytes.
    TooBig {
        /// The next link's MTU.
        mtu: u32,
    },
}

/// The error message that a router with address `from` sends to the sender of `packet` (checksums
/// complete). `None` if no message may be sent: for ICMP errors, later fragments and multicasts
/// (RFC 1122 §3.2.2, RFC 4443 §2.4 e), or for a wrong address family.
pub fn error(packet: &[u8], problem: Problem, from: IpAddr) -> Option<Vec<u8>> {
    let header = Header::parse(packet)?;
    let unfit =
        header.is_multicast() || is_error(packet, &header) || is_later_fragment(packet, &header);
    if unfit || header.source == 0 {
        return None;
    }
    match (from, header.source_ip()) {
        (IpAddr::V4(from), IpAddr::V4(to)) => {
            let (kind, code, rest) = match problem {
                Problem::TtlExceeded => (11, 0, 0),
                Problem::NoRoute => (3, 0, 0),
                Problem::TooBig { mtu } => (3, 4, mtu.min(0xffff)),
            };
            let quote = &packet[..packet.len().min(QUOTE_V4)];
            Some(v4(from, to, kind, code, rest, quote))
        }
        (IpAddr::V6(from), IpAddr::V6(to)) => {
            let (kind, code, rest) = match problem {
                Problem::TtlExceeded => (3, 0, 0),
                Problem::NoRoute => (1, 0, 0),
                Problem::TooBig { mtu } => (2, 0, mtu),
            };
            let quote = &packet[..packet.len().min(QUOTE_V6)];
            Some(v6(from, to, kind, code, rest, quote))
        }
        _ => None,
    }
}

/// A router's reply to a packet for itself: an echo reply to an echo request, port unreachable to
/// UDP (by which traceroute detects the destination), none otherwise.
pub fn answer(packet: &[u8]) -> Option<Vec<u8>> {
    let header = Header::parse(packet)?;
    if header.is_fragment {
        return None;
    }
    let payload = packet.get(usize::from(header.ip_length)..)?;
    let (us, them) = (header.destination_ip(), header.source_ip());
    match (header.protocol, payload, us, them) {
        (Protocol::ICMP, [8, 0, _, _, a, b, c, d, data @ ..], IpAddr::V4(us), IpAddr::V4(them)) => {
            Some(v4(us, them, 0, 0, u32::from_be_bytes([*a, *b, *c, *d]), data))
        }
        (
            Protocol::ICMPV6,
            [128, 0, _, _, a, b, c, d, data @ ..],
            IpAddr::V6(us),
            IpAddr::V6(them),
        ) => Some(v6(us, them, 129, 0, u32::from_be_bytes([*a, *b, *c, *d]), data)),
        (Protocol::UDP, _, IpAddr::V4(us), IpAddr::V4(them)) => {
            Some(v4(us, them, 3, 3, 0, &packet[..packet.len().min(QUOTE_V4)]))
        }
        (Protocol::UDP, _, IpAddr::V6(us), IpAddr::V6(them)) => {
            Some(v6(us, them, 1, 4, 0, &packet[..packet.len().min(QUOTE_V6)]))
        }
        _ => None,
    }
}

fn is_error(packet: &[u8], header: &Header) -> bool {
    let kind = packet.get(usize::from(header.ip_length));
    match (header.protocol, kind) {
        (Protocol::ICMP, Some(kind)) => !matches!(kind, 0 | 8 | 13 | 14),
        (Protocol::ICMPV6, Some(kind)) => *kind < 128,
        _ => false,
    }
}

fn is_later_fragment(packet: &[u8], header: &Header) -> bool {
    header.version == 4 && u16::from_be_bytes([packet[6], packet[7]]) & 0x1fff != 0
}

fn message(kind: u8, code: u8, rest: u32, data: &[u8]) -> Vec<u8> {
    let mut message = vec![kind, code, 0, 0];
    message.extend_from_slice(&rest.to_be_bytes());
    message.extend_from_slice(data);
    message
}

fn v4(from: Ipv4Addr, to: Ipv4Addr, kind: u8, code: u8, rest: u32, data: &[u8]) -> Vec<u8> {
    let mut body = message(kind, code, rest, data);
    let sum = checksum::of(&body);
    body[2..4].copy_from_slice(&sum.to_be_bytes());
    let total = (20 + body.len()) as u16;
    // DSCP CS6, as for routers' network control traffic (RFC 1812 §5.3.2).
    let mut packet = vec![0x45, 0xc0, 0, 0, 0, 0, 0, 0, TTL, Protocol::ICMP, 0, 0];
    packet[2..4].copy_from_slice(&total.to_be_bytes());
    packet.extend_from_slice(&from.octets());
    packet.extend_from_slice(&to.octets());
    let sum = checksum::of(&packet);
    packet[10..12].copy_from_slice(&sum.to_be_bytes());
    packet.extend_from_slice(&body);
    packet
}

fn v6(from: Ipv6Addr, to: Ipv6Addr, kind: u8, code: u8, rest: u32, data: &[u8]) -> Vec<u8> {
    let mut body = message(kind, code, rest, data);
    let addresses = [from.octets(), to.octets()].concat();
    let pseudo = checksum::pseudo_header(&addresses, Protocol::ICMPV6, body.len() as u32);
    let sum = !checksum::fold(checksum::add(pseudo, &body));
    body[2..4].copy_from_slice(&sum.to_be_bytes());
    let mut packet = vec![0x60, 0, 0, 0];
    packet.extend_from_slice(&(body.len() as u16).to_be_bytes());
    packet.extend_from_slice(&[Protocol::ICMPV6, TTL]);
    packet.extend_from_slice(&addresses);
    packet.extend_from_slice(&body);
    packet
}
