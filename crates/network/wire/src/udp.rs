//! Whole UDP datagrams (RFC 768).

use std::net::SocketAddr;

use crate::checksum;
use crate::header::Protocol;
use crate::ip::{IpFields, ip_header, pseudo_header_of};

/// Bytes of a UDP header.
pub const UDP_HEADER: usize = 8;

/// TTL of datagrams built here.
const TTL: u8 = 64;

/// A packet with a UDP datagram that routers must not fragment; `traffic_class` is DSCP and ECN.
/// `None` if the addresses are of different families or the payload is too long.
pub fn datagram(
    from: SocketAddr,
    to: SocketAddr,
    traffic_class: u8,
    payload: &[u8],
) -> Option<Vec<u8>> {
    let length = u16::try_from(UDP_HEADER + payload.len()).ok()?;
    let fields = IpFields { traffic_class, ttl: TTL, protocol: Protocol::UDP, payload: length };
    let mut packet = ip_header(from.ip(), to.ip(), fields)?;
    packet.reserve_exact(usize::from(length));
    let (start, pseudo) = (packet.len(), pseudo_header_of(&packet, fields));
    packet.extend(udp_header([from.port(), to.port()], length));
    packet.extend_from_slice(payload);
    let sum = !checksum::fold(checksum::add(pseudo, &packet[start..]));
    // 0 would mean "no checksum".
    let sum = if sum == 0 { 0xffff } else { sum };
    packet[start + 6..start + 8].copy_from_slice(&sum.to_be_bytes());
    Some(packet)
}

/// A UDP header without checksum; `length` includes it.
pub fn udp_header([from, to]: [u16; 2], length: u16) -> [u8; UDP_HEADER] {
    let mut header = [0; UDP_HEADER];
    for (field, bytes) in [from, to, length].iter().zip(header.as_chunks_mut::<2>().0) {
        *bytes = field.to_be_bytes();
    }
    header
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Header;

    #[test]
    fn headers_say_what_they_should() {
        for (from, to, ip) in
            [("10.0.0.1:1", "10.0.0.2:28316", 20), ("[fd00::1]:1", "[fd00::2]:28316", 40)]
        {
            let (from, to): (SocketAddr, SocketAddr) = (from.parse().unwrap(), to.parse().unwrap());
            let packet = datagram(from, to, 0xb9, b"epoch").unwrap();
            let header = Header::parse(&packet).unwrap();
            assert_eq!((header.source_ip(), header.destination_ip()), (from.ip(), to.ip()));
            assert_eq!((header.ports, header.protocol), ((1, 28316), Protocol::UDP));
            assert_eq!((header.dscp, header.ecn, header.ttl), (0x2e, 1, 64));
            assert_eq!(header.total_length as usize, packet.len());
            assert!(header.dont_fragment && !header.is_fragment);
            let body = &packet[ip..];
            let addresses = if ip == 20 { &packet[12..20] } else { &packet[8..40] };
            let pseudo = checksum::pseudo_header(addresses, Protocol::UDP, body.len() as u32);
            assert_eq!(checksum::fold(checksum::add(pseudo, body)), 0xffff);
            assert_eq!(&packet[ip + UDP_HEADER..], b"epoch");
        }
        let (v4, v6) = ("10.0.0.1:1".parse().unwrap(), "[fd00::1]:1".parse().unwrap());
        assert_eq!(datagram(v4, v6, 0, b""), None);
        let longest = vec![0; 65_508];
        assert_eq!(datagram(v4, v4, 0, &longest), None);
        assert!(datagram(v4, v4, 0, &longest[1..]).is_some());
    }
}
