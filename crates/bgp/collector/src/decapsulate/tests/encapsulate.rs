//! Packets in all supported encapsulations, built without the code under test.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use crate::LinkType;

pub(crate) fn checksum(parts: &[&[u8]]) -> u16 {
    let all = parts.concat();
    let mut sum = 0_u64;
    for pair in all.chunks(2) {
        sum += u64::from(pair[0]) * 256 + u64::from(pair.get(1).copied().unwrap_or(0));
    }
    while sum > 0xffff {
        sum = sum % 0x1_0000 + sum / 0x1_0000;
    }
    !(sum as u16)
}

pub(crate) fn ip4(
    from: Ipv4Addr,
    to: Ipv4Addr,
    protocol: u8,
    place: u16,
    payload: &[u8],
) -> Vec<u8> {
    let mut packet = vec![0x45, 0];
    packet.extend((payload.len() as u16 + 20).to_be_bytes());
    packet.extend([0x12, 0x34]);
    packet.extend(place.to_be_bytes());
    packet.extend([64, protocol, 0, 0]);
    packet.extend(from.octets());
    packet.extend(to.octets());
    let sum = checksum(&[&packet]);
    packet[10..12].copy_from_slice(&sum.to_be_bytes());
    packet.extend(payload);
    packet
}

pub(crate) fn ip6(from: Ipv6Addr, to: Ipv6Addr, protocol: u8, payload: &[u8]) -> Vec<u8> {
    let mut packet = vec![0x60, 0, 0, 0];
    packet.extend((payload.len() as u16).to_be_bytes());
    packet.extend([protocol, 64]);
    packet.extend(from.octets());
    packet.extend(to.octets());
    packet.extend(payload);
    packet
}

pub(crate) fn ip(from: IpAddr, to: IpAddr, protocol: u8, payload: &[u8]) -> Vec<u8> {
    match (from, to) {
        (IpAddr::V4(from), IpAddr::V4(to)) => ip4(from, to, protocol, 0x4000, payload),
        (IpAddr::V6(from), IpAddr::V6(to)) => ip6(from, to, protocol, payload),
        _ => panic!("two families"),
    }
}

/// A TCP segment without IP header, with `options` bytes of options.
pub(crate) fn tcp(from: SocketAddr, to: SocketAddr, sequence: u32, payload: &[u8]) -> Vec<u8> {
    let mut segment = Vec::new();
    segment.extend(from.port().to_be_bytes());
    segment.extend(to.port().to_be_bytes());
    segment.extend(sequence.to_be_bytes());
    segment.extend(777_u32.to_be_bytes());
    segment.extend([0x80, 0x18, 1, 0, 0, 0, 0, 0]);
    // No-operation, no-operation, timestamps.
    segment.extend([1, 1, 8, 10, 0, 0, 0, 5, 0, 0, 0, 6]);
    segment.extend(payload);
    let addresses = match (from.ip(), to.ip()) {
        (IpAddr::V4(from), IpAddr::V4(to)) => [from.octets(), to.octets()].concat(),
        (IpAddr::V6(from), IpAddr::V6(to)) => [from.octets(), to.octets()].concat(),
        _ => panic!("two families"),
    };
    let length = (segment.len() as u32).to_be_bytes();
    let sum = checksum(&[&addresses, &length, &[0, 0, 0, 6], &segment]);
    segment[16..18].copy_from_slice(&sum.to_be_bytes());
    segment
}

pub(crate) fn packet(from: SocketAddr, to: SocketAddr, sequence: u32, payload: &[u8]) -> Vec<u8> {
    ip(from.ip(), to.ip(), 6, &tcp(from, to, sequence, payload))
}

fn ether_type(packet: &[u8]) -> u16 {
    if packet[0] >> 4 == 4 { 0x0800 } else { 0x86dd }
}

fn join(parts: &[&[u8]]) -> Vec<u8> {
    parts.concat()
}

/// Ethernet with any type, padded to 60 bytes.
pub(crate) fn ethernet(kind: u16, payload: &[u8]) -> Vec<u8> {
    let mut frame = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2];
    frame.extend(kind.to_be_bytes());
    frame.extend(payload);
    frame.resize(frame.len().max(60), 0xee);
    frame
}

pub(crate) fn plain(packet: &[u8]) -> Vec<u8> {
    ethernet(ether_type(packet), packet)
}

pub(crate) fn vlan(outer: u16, tag: u16, packet: &[u8]) -> Vec<u8> {
    let inner = ether_type(packet).to_be_bytes();
    ethernet(outer, &join(&[&(0x2000 | tag).to_be_bytes(), &inner, packet]))
}

fn qinq(outer: u16, packet: &[u8]) -> Vec<u8> {
    let inner = ether_type(packet).to_be_bytes();
    let inside = join(&[&100_u16.to_be_bytes(), &[0x81, 0], &7_u16.to_be_bytes(), &inner, packet]);
    ethernet(outer, &inside)
}

fn labels(bottom: u32, packet: &[u8]) -> Vec<u8> {
    let label = |label: u32, last: u32| ((label << 12) | (last << 8) | 64).to_be_bytes();
    join(&[&label(16_000, 0), &label(24_001, 0), &label(bottom, 1), packet])
}

const OUTER: (Ipv4Addr, Ipv4Addr) = (Ipv4Addr::new(192, 0, 2, 1), Ipv4Addr::new(198, 51, 100, 9));
const OUTER_6: (Ipv6Addr, Ipv6Addr) = (
    Ipv6Addr::new(0x2001, 0xdb8, 0, 1, 0, 0, 0, 1),
    Ipv6Addr::new(0x2001, 0xdb8, 0, 2, 0, 0, 0, 2),
);

fn outer(protocol: u8, payload: &[u8]) -> Vec<u8> {
    ip4(OUTER.0, OUTER.1, protocol, 0, payload)
}

/// IP, UDP and `payload`.
pub(crate) fn udp(port: u16, payload: &[u8]) -> Vec<u8> {
    let length = (payload.len() as u16 + 8).to_be_bytes();
    outer(17, &join(&[&50_000_u16.to_be_bytes(), &port.to_be_bytes(), &length, &[0, 0], payload]))
}

pub(crate) fn vxlan(network: u32, frame: &[u8]) -> Vec<u8> {
    udp(4789, &join(&[&[8, 0, 0, 0], &(network << 8).to_be_bytes(), frame]))
}

fn geneve(frame: &[u8]) -> Vec<u8> {
    let head = [0x02, 0, 0x65, 0x58, 0, 0, 42, 0];
    udp(6081, &join(&[&head, &[1, 2, 3, 1, 9, 9, 9, 9], frame]))
}

fn tzsp(frame: &[u8]) -> Vec<u8> {
    udp(37008, &join(&[&[1, 0, 0, 1, 0, 41, 2, 5, 6, 1], frame]))
}

pub(crate) fn gre(flags: u16, kind: u16, fields: &[u32], payload: &[u8]) -> Vec<u8> {
    let mut header = [flags.to_be_bytes(), kind.to_be_bytes()].concat();
    for field in fields {
        header.extend(field.to_be_bytes());
    }
    outer(47, &join(&[&header, payload]))
}

pub(crate) fn erspan_2(session: u16, sequence: u32, frame: &[u8]) -> Vec<u8> {
    let header = join(&[&[0x10, 5], &session.to_be_bytes(), &[0, 0, 0, 3], frame]);
    gre(0x1000, 0x88be, &[sequence], &header)
}

fn erspan_3(platform: bool, frame: &[u8]) -> Vec<u8> {
    let mut header = vec![0x20, 5, 0, 9, 1, 2, 3, 4, 0, 0, 0, u8::from(platform)];
    if platform {
        header.extend([0x0c, 0, 0, 0, 0, 0, 0, 0]);
    }
    gre(0x1000, 0x22eb, &[77], &join(&[&header, frame]))
}

fn juniper(link: &[u8]) -> Vec<u8> {
    join(&[&[0x4d, 0x47, 0x43, 0x81, 0, 4, 1, 2, 3, 4], link])
}

/// With an extension header of IPv6, or an authentication header of IPv4, before TCP.
pub(crate) fn extended(packet: &[u8]) -> Vec<u8> {
    if packet[0] >> 4 == 4 {
        let (from, to) = addresses_4(packet);
        return ip4(from, to, 51, 0, &join(&[&[6, 4], &[7; 22], &packet[20..]]));
    }
    let hop = [60, 0, 5, 2, 0, 0, 1, 0];
    let destination = [43, 0, 1, 4, 0, 0, 0, 0];
    let (from, to) = addresses_6(packet);
    let (mut routing, on_the_way) = (vec![6, 4, 4, 1, 1, 0, 0, 0], OUTER_6.1);
    routing.extend(to.octets());
    routing.extend(on_the_way.octets());
    let inside = join(&[&hop, &destination, &routing, &packet[40..]]);
    ip6(from, on_the_way, 0, &inside)
}

pub(crate) fn addresses_4(packet: &[u8]) -> (Ipv4Addr, Ipv4Addr) {
    let at = |at: usize| Ipv4Addr::from(<[u8; 4]>::try_from(&packet[at..at + 4]).unwrap());
    (at(12), at(16))
}

pub(crate) fn addresses_6(packet: &[u8]) -> (Ipv6Addr, Ipv6Addr) {
    let at = |at: usize| Ipv6Addr::from(<[u8; 16]>::try_from(&packet[at..at + 16]).unwrap());
    (at(8), at(24))
}

/// Fragments of a packet, each with at most `most` bytes of it.
pub(crate) fn fragments(packet: &[u8], most: usize) -> Vec<Vec<u8>> {
    let head = if packet[0] >> 4 == 4 { 20 } else { 40 };
    let pieces: Vec<&[u8]> = packet[head..].chunks(most).collect();
    let last = pieces.len() - 1;
    let fragment = |(at, piece): (usize, &&[u8])| {
        let (place, more) = ((at * most) as u16, u16::from(at < last));
        if head == 20 {
            let (from, to) = addresses_4(packet);
            return ip4(from, to, packet[9], (place / 8) | (more << 13), piece);
        }
        let (from, to) = addresses_6(packet);
        let header = join(&[&[packet[6], 0], &(place | more).to_be_bytes(), &[0, 1, 2, 3]]);
        ip6(from, to, 44, &join(&[&header, piece]))
    };
    pieces.iter().enumerate().map(fragment).collect()
}

/// A packet in a netfilter log: packet header, hardware address, payload.
fn nflog(packet: &[u8], number: fn(u16) -> [u8; 2]) -> Vec<u8> {
    let attribute = |kind: u16, value: &[u8]| {
        let mut bytes = [number(value.len() as u16 + 4), number(kind)].concat();
        bytes.extend(value);
        bytes.resize(bytes.len().next_multiple_of(4), 0);
        bytes
    };
    let before = [attribute(1, &[8, 0, 1, 0]), attribute(10, &[0])].concat();
    join(&[&[2, 0, 0, 5], &before, &attribute(9, packet)])
}

/// A frame of `link` after the 108-byte header of Apple's packet taps.
fn pktap(link: u32, number: fn(u32) -> [u8; 4], frame: &[u8]) -> Vec<u8> {
    let mut header = [number(108), number(1), number(link)].concat();
    header.extend(b"en0");
    header.resize(108, 0);
    join(&[&header, frame])
}

/// Labels of pseudowires: without a control word, and with one.
pub(crate) const PSEUDOWIRE: u32 = 300;
pub(crate) const PSEUDOWIRE_WORD: u32 = 301;

/// `packet` in each encapsulation: name, link type, frame.
#[expect(clippy::too_many_lines, reason = "a table")]
pub(crate) fn all(packet: &[u8]) -> Vec<(&'static str, LinkType, Vec<u8>)> {
    let frame = plain(packet);
    let kind = ether_type(packet).to_be_bytes();
    let family = if packet[0] >> 4 == 4 { 2_u32 } else { 24 };
    let ppp = if packet[0] >> 4 == 4 { [0, 0x21] } else { [0, 0x57] };
    let inside = if packet[0] >> 4 == 4 { 4 } else { 41 };
    let (from_6, to_6) = OUTER_6;
    let ether = LinkType::ETHERNET;
    let pppoe = {
        let length = (packet.len() as u16 + 2).to_be_bytes();
        ethernet(0x8864, &join(&[&[0x11, 0, 0, 5], &length, &ppp, packet]))
    };
    let snap = join(&[&[0xaa, 0xaa, 3, 0, 0, 0], &kind, packet]);
    let sll = join(&[&[0, 0, 0, 1, 0, 6, 2, 0, 0, 0, 0, 1, 0, 0], &kind, packet]);
    let sll_2 = join(&[&kind, &[0, 0, 0, 0, 0, 3, 0, 1, 0, 6, 2, 0, 0, 0, 0, 1, 0, 0], packet]);
    let family_le = join(&[&family.to_le_bytes(), packet]);
    let family_be = join(&[&family.to_be_bytes(), packet]);
    let four = plain(&outer(inside, packet));
    let nested =
        plain(&vxlan(5, &vlan(0x8100, 6, &gre(0, 0x6558, &[], &plain(&outer(inside, packet))))));
    let deepest = plain(&udp(
        30030,
        &join(&[
            &[0, 0, 0, 1, 0, 0, 0, 2],
            &vxlan(3, &plain(&gre(0x2000, 0x8847, &[9], &labels(400, &outer(inside, packet))))),
        ]),
    ));
    let tagged = |tag: u16, fields: &[u8]| ethernet(tag, &join(&[fields, &kind, packet]));
    let vlan_inside = join(&[&[0x81, 0, 0, 10], &kind, packet]);
    let tagged_vlan = ethernet(0x893f, &join(&[&[0, 0, 0, 5, 0, 0], &vlan_inside]));
    let word_first = join(&[&[0; 4], &frame]);
    vec![
        ("plain", ether, frame.clone()),
        ("vlan", ether, vlan(0x8100, 10, packet)),
        ("priority", ether, vlan(0x8100, 0, packet)),
        ("qinq 88a8", ether, qinq(0x88a8, packet)),
        ("qinq 9100", ether, qinq(0x9100, packet)),
        ("qinq 8100", ether, qinq(0x8100, packet)),
        ("vn-tag", ether, tagged(0x8926, &[0xc0, 0, 0, 5])),
        ("e-tag", ether, tagged(0x893f, &[0x20, 0, 0, 5, 0, 0])),
        ("cisco metadata", ether, tagged(0x8909, &[1, 1, 0, 1, 0, 5])),
        ("arista 64 bits", ether, tagged(0xd28b, &[0, 1, 0, 0x10, 0, 0, 0, 1, 0, 0, 0, 2])),
        ("arista 48 bits", ether, tagged(0xd28b, &[0, 1, 1, 0x20, 0, 1, 0, 0, 0, 2])),
        ("e-tag and vlan", ether, tagged_vlan),
        ("snap", ether, ethernet(snap.len() as u16, &snap)),
        ("mpls", ether, ethernet(0x8847, &labels(400, packet))),
        ("pseudowire", ether, ethernet(0x8847, &labels(PSEUDOWIRE, &frame))),
        (
            "pseudowire with control word",
            ether,
            ethernet(0x8847, &labels(PSEUDOWIRE_WORD, &word_first)),
        ),
        ("mpls in ip", ether, plain(&outer(137, &labels(400, packet)))),
        ("pppoe", ether, pppoe),
        ("vxlan", ether, plain(&vxlan(7, &frame))),
        ("geneve", ether, plain(&geneve(&frame))),
        ("tzsp", ether, plain(&tzsp(&frame))),
        ("gre", ether, plain(&gre(0, ether_type(packet), &[], packet))),
        ("gre key sequence", ether, plain(&gre(0x3000, 0x6558, &[5, 6], &frame))),
        ("gre checksum", ether, plain(&gre(0x8000, 0x6558, &[0], &frame))),
        ("erspan i", ether, plain(&gre(0, 0x88be, &[], &frame))),
        ("erspan ii", ether, plain(&erspan_2(9, 1, &frame))),
        ("erspan iii", ether, plain(&erspan_3(false, &frame))),
        ("erspan iii platform", ether, plain(&erspan_3(true, &frame))),
        ("ip in ipv4", ether, four),
        ("ip in ipv6", ether, plain(&ip6(from_6, to_6, inside, packet))),
        ("jmirror", ether, plain(&udp(30030, &join(&[&[0, 0, 0, 1, 0, 0, 0, 2], packet])))),
        ("extension headers", ether, plain(&extended(packet))),
        ("nested three times", ether, nested),
        ("nested four times", ether, deepest),
        ("raw", LinkType::RAW, packet.to_vec()),
        ("cooked", LinkType::LINUX_SLL, sll),
        ("cooked 2", LinkType::LINUX_SLL2, sll_2),
        ("null little-endian", LinkType::NULL, family_le),
        ("null big-endian", LinkType::NULL, family_be.clone()),
        ("loop", LinkType::LOOP, family_be),
        ("nflog little-endian", LinkType(239), nflog(packet, u16::to_le_bytes)),
        ("nflog big-endian", LinkType(239), nflog(packet, u16::to_be_bytes)),
        ("pktap", LinkType(258), pktap(1, u32::to_le_bytes, &frame)),
        ("pktap big-endian", LinkType(258), pktap(12, u32::to_be_bytes, packet)),
        ("ppp", LinkType::PPP, join(&[&ppp, packet])),
        ("ppp framed", LinkType::PPP_HDLC, join(&[&[0xff, 3], &ppp, packet])),
        ("hdlc", LinkType::CISCO_HDLC, join(&[&[0x0f, 0], &kind, packet])),
        ("frame relay", LinkType(107), join(&[&[0x18, 0x41, 3, nlpid(packet)], packet])),
        ("juniper", LinkType(178), juniper(&frame)),
        ("juniper ppp", LinkType(179), juniper(&join(&[&[0xff, 3], &ppp, packet]))),
    ]
}

const fn nlpid(packet: &[u8]) -> u8 {
    if packet[0] >> 4 == 4 { 0xcc } else { 0x8e }
}
