//! IP headers to write.

use std::net::IpAddr;

use crate::checksum;

/// What an IP header to write contains beside its addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IpFields {
    /// DSCP and ECN.
    pub traffic_class: u8,
    pub ttl: u8,
    pub protocol: u8,
    /// Bytes behind the header.
    pub payload: u16,
}

/// An IPv4 or IPv6 header without options, for a packet that routers must not fragment. `None` if
/// the addresses are of different families or the payload is too long.
pub fn ip_header(from: IpAddr, to: IpAddr, fields: IpFields) -> Option<Vec<u8>> {
    let IpFields { traffic_class, ttl, protocol, payload } = fields;
    match (from, to) {
        (IpAddr::V4(from), IpAddr::V4(to)) => {
            // Identification 0, since it is never fragmented (RFC 6864 §4.1).
            let mut header = vec![0x45, traffic_class, 0, 0, 0, 0, 0x40, 0, ttl, protocol, 0, 0];
            header[2..4].copy_from_slice(&payload.checked_add(20)?.to_be_bytes());
            header.extend(from.octets());
            header.extend(to.octets());
            let sum = checksum::of(&header);
            header[10..12].copy_from_slice(&sum.to_be_bytes());
            Some(header)
        }
        (IpAddr::V6(from), IpAddr::V6(to)) => {
            let mut header = vec![0x60 | traffic_class >> 4, traffic_class << 4, 0, 0];
            header.extend(payload.to_be_bytes());
            header.extend([protocol, ttl]);
            header.extend(from.octets());
            header.extend(to.octets());
            Some(header)
        }
        _ => None,
    }
}

/// Sum of the pseudo-header of a packet with such a header, not folded.
pub fn pseudo_header_of(header: &[u8], fields: IpFields) -> u64 {
    let addresses = if header.len() == 20 { 12 } else { 8 };
    checksum::pseudo_header(&header[addresses..], fields.protocol, u32::from(fields.payload))
}
