//! IPv4 (RFC 791) and IPv6 (RFC 8200) headers in front of a TCP segment.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::packet::{Packet, Skip, u16_at, u32_at};

pub(super) mod protocol {
    pub(in super::super) const HOP_BY_HOP: u8 = 0;
    pub(in super::super) const IPV4: u8 = 4;
    pub(in super::super) const TCP: u8 = 6;
    pub(in super::super) const UDP: u8 = 17;
    pub(in super::super) const IPV6: u8 = 41;
    pub(in super::super) const ROUTING: u8 = 43;
    pub(in super::super) const FRAGMENT: u8 = 44;
    pub(in super::super) const GRE: u8 = 47;
    pub(in super::super) const AUTHENTICATION: u8 = 51;
    pub(in super::super) const DESTINATION: u8 = 60;
    pub(in super::super) const MPLS: u8 = 137;
}

const EXTENSIONS_MAX: usize = 16;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Part {
    pub(super) id: u32,
    pub(super) offset: u32,
    pub(super) more: bool,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Ip<'a> {
    pub(super) source: IpAddr,
    pub(super) destination: IpAddr,
    pub(super) protocol: u8,
    pub(super) payload: Packet<'a>,
    pub(super) part: Option<Part>,
    /// The payload is that of several fragments.
    pub(super) reassembled: bool,
    pub(super) damaged: bool,
    /// Length of the payload for which the checksum of a damaged header would be correct: that of
    /// the first part, if the packet was merged.
    pub(super) first_part: Option<usize>,
}

/// Length of the first part of a merged packet, if its header has the checksum of that part: all
/// other fields are equal. `sum` is that of the header with the length `total`.
fn first_part(total: usize, sum: u16, words: usize) -> Option<usize> {
    total.checked_sub(usize::from(sum % 0xffff) + words * 4).filter(|length| *length > 0)
}

#[inline]
pub(super) fn parse(packet: Packet<'_>) -> Result<Ip<'_>, Skip> {
    match packet.bytes.first().map(|byte| byte >> 4) {
        Some(4) => v4(packet),
        Some(6) => v6(packet),
        Some(_) => Err(Skip::Malformed),
        None => Err(Skip::Truncated),
    }
}

/// The part of `packet` within its length field. 0 (offload) means all of the packet.
#[inline]
fn trim(packet: Packet<'_>, length: usize) -> Packet<'_> {
    let have = packet.bytes.len();
    if length == 0 {
        packet
    } else if length <= have {
        Packet { bytes: &packet.bytes[..length], cut: 0 }
    } else {
        Packet { bytes: packet.bytes, cut: (length - have) as u32 }
    }
}

#[inline]
fn v4(packet: Packet<'_>) -> Result<Ip<'_>, Skip> {
    let Some(header) = packet.bytes.first_chunk::<20>() else { return Err(Skip::Truncated) };
    let words = usize::from(header[0] & 0xf);
    let total = usize::from(u16::from_be_bytes([header[2], header[3]]));
    if words < 5 || total != 0 && total < words * 4 {
        return Err(Skip::Malformed);
    }
    let packet = trim(packet, total);
    let (Some(whole), Some(payload)) =
        (packet.bytes.get(..words * 4), packet.bytes.get(words * 4..))
    else {
        return Err(Skip::Truncated);
    };
    // The sender's hardware may compute the sum after the tap.
    let stored = u16::from_be_bytes([header[10], header[11]]);
    let sum = wire::checksum::of(whole);
    let damaged = stored != 0 && sum != 0;
    let first_part = if damaged { first_part(total, !sum, words) } else { None };
    let place = u16::from_be_bytes([header[6], header[7]]);
    let part = (place & 0x3fff != 0).then(|| Part {
        id: u32::from(u16::from_be_bytes([header[4], header[5]])),
        offset: u32::from(place & 0x1fff) * 8,
        more: place & 0x2000 != 0,
    });
    let address = |at: usize| {
        IpAddr::V4(Ipv4Addr::new(header[at], header[at + 1], header[at + 2], header[at + 3]))
    };
    let mut ip = Ip {
        source: address(12),
        destination: address(16),
        protocol: header[9],
        payload: Packet { bytes: payload, cut: packet.cut },
        part,
        reassembled: false,
        damaged,
        first_part,
    };
    if ip.protocol == protocol::AUTHENTICATION && part.is_none() {
        extensions(&mut ip)?;
    }
    Ok(ip)
}

fn address_v6(bytes: &[u8], at: usize) -> Option<IpAddr> {
    let octets: [u8; 16] = *bytes.get(at..)?.first_chunk()?;
    Some(IpAddr::V6(Ipv6Addr::from(octets)))
}

fn v6(packet: Packet<'_>) -> Result<Ip<'_>, Skip> {
    let Some(header) = packet.bytes.first_chunk::<40>() else { return Err(Skip::Truncated) };
    let length = usize::from(u16::from_be_bytes([header[4], header[5]]));
    // 0 followed by data is offload or a jumbogram (RFC 2675).
    let packet = trim(packet, if length == 0 { 0 } else { length + 40 });
    let (Some(source), Some(destination)) = (address_v6(header, 8), address_v6(header, 24)) else {
        return Err(Skip::Truncated);
    };
    let mut ip = Ip {
        source,
        destination,
        protocol: header[6],
        payload: Packet { bytes: &packet.bytes[40..], cut: packet.cut },
        part: None,
        reassembled: false,
        damaged: false,
        first_part: None,
    };
    if ip.protocol != protocol::TCP {
        extensions(&mut ip)?;
    }
    Ok(ip)
}

/// Skips extension headers up to a fragment header of an incomplete datagram, or to the payload.
pub(super) fn extensions(ip: &mut Ip<'_>) -> Result<(), Skip> {
    for _ in 0..EXTENSIONS_MAX {
        let bytes = ip.payload.bytes;
        let field = |at: usize| bytes.get(at).copied().ok_or(Skip::Truncated);
        let length = match ip.protocol {
            protocol::HOP_BY_HOP | protocol::DESTINATION | 135 | 139 | 140 => {
                usize::from(field(1)?) * 8 + 8
            }
            protocol::ROUTING => {
                let length = usize::from(field(1)?) * 8 + 8;
                route(ip, length)?;
                length
            }
            protocol::AUTHENTICATION => usize::from(field(1)?) * 4 + 8,
            protocol::FRAGMENT => {
                let place = u16_at(bytes, 2).ok_or(Skip::Truncated)?;
                let id = u32_at(bytes, 4).ok_or(Skip::Truncated)?;
                // An atomic fragment contains a whole datagram (RFC 6946).
                if place & 0xfff9 != 0 {
                    let part = Part { id, offset: u32::from(place & 0xfff8), more: place & 1 != 0 };
                    ip.part = Some(part);
                }
                8
            }
            _ => return Ok(()),
        };
        ip.protocol = field(0)?;
        ip.payload.bytes = bytes.get(length..).ok_or(Skip::Truncated)?;
        if ip.part.is_some() {
            return Ok(());
        }
    }
    Err(Skip::Deep)
}

/// The final destination, which the TCP checksum and the connection use.
fn route(ip: &mut Ip<'_>, length: usize) -> Result<(), Skip> {
    let header = ip.payload.bytes.get(..length).ok_or(Skip::Truncated)?;
    let (kind, left) = (header[2], header[3]);
    if left == 0 {
        return Ok(());
    }
    let at = match kind {
        0 | 2 if length >= 24 => length - 16,
        // A segment list is in reverse order (RFC 8754 §2).
        4 => 8,
        _ => return Ok(()),
    };
    if let Some(address) = address_v6(header, at) {
        ip.destination = address;
    }
    Ok(())
}
