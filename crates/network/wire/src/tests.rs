//! Checks that etherparse, an independent decoder, reads all packets built here.

use std::net::IpAddr;

use etherparse::{PacketBuilder, SlicedPacket, TransportSlice};
use proptest::prelude::*;

use crate::icmp::{self, Problem};
use crate::{
    Change, Header, Offload, SuperPacket, VIRTIO_HEADER, checksum, finish_checksum, fragment,
};

fn tcp(v6: bool, payload: &[u8]) -> Vec<u8> {
    let builder = if v6 {
        PacketBuilder::ipv6([1; 16], [2; 16], 64)
    } else {
        PacketBuilder::ipv4([10, 0, 0, 1], [10, 0, 0, 2], 64)
    };
    let mut packet = Vec::new();
    let tcp = builder.tcp(1234, 80, 0xffff_ff00, 1000).psh().ack(7).cwr();
    tcp.write(&mut packet, payload).unwrap();
    packet
}

fn udp(v6: bool, payload: &[u8]) -> Vec<u8> {
    let builder = if v6 {
        PacketBuilder::ipv6([1; 16], [2; 16], 64)
    } else {
        PacketBuilder::ipv4([10, 0, 0, 1], [10, 0, 0, 2], 64)
    };
    let mut packet = Vec::new();
    builder.udp(1234, 53).write(&mut packet, payload).unwrap();
    packet
}

/// The virtio header of a kernel's super-packet.
fn offload(header: &Header, tcp: bool, segment: u16) -> Offload {
    let mut bytes = [0; VIRTIO_HEADER];
    bytes[0] = 1;
    bytes[1] = match (tcp, header.version) {
        (true, 4) => 1,
        (true, _) => 4,
        (false, _) => 5,
    };
    bytes[4..6].copy_from_slice(&segment.to_ne_bytes());
    bytes[6..8].copy_from_slice(&header.ip_length.to_ne_bytes());
    bytes[8..10].copy_from_slice(&(if tcp { 16u16 } else { 6 }).to_ne_bytes());
    Offload::read(bytes, 0)
}

/// A partial checksum of a kernel with checksum offload: the pseudo-header's sum.
fn partial(mut bytes: Vec<u8>, tcp: bool) -> Vec<u8> {
    let header = Header::parse(&bytes).unwrap();
    let ip = usize::from(header.ip_length);
    let addresses = if header.version == 4 { 12..20 } else { 8..40 };
    let length = (bytes.len() - ip) as u32;
    let sum = checksum::pseudo_header(&bytes[addresses], header.protocol, length);
    let at = ip + if tcp { 16 } else { 6 };
    bytes[at..at + 2].copy_from_slice(&checksum::fold(sum).to_be_bytes());
    bytes
}

/// A segment range as the receiver's kernel would complete it.
fn assemble(bytes: &[u8], layout: &SuperPacket, first: u16, count: u16) -> Vec<u8> {
    let piece = layout.piece(bytes, first, count, Change { ttl: 60, marked: true });
    let mut packet = piece.headers[..piece.header_length].to_vec();
    packet.extend_from_slice(&bytes[piece.payload.clone()]);
    finish_checksum(&mut packet, piece.offload);
    packet
}

fn checksums_hold(packet: &[u8]) {
    let sliced = SlicedPacket::from_ip(packet).unwrap();
    let header = Header::parse(packet).unwrap();
    match sliced.transport.unwrap() {
        TransportSlice::Tcp(tcp) => {
            let wanted = match (header.source_ip(), header.destination_ip()) {
                (IpAddr::V4(a), IpAddr::V4(b)) => {
                    tcp.to_header().calc_checksum_ipv4_raw(a.octets(), b.octets(), tcp.payload())
                }
                (IpAddr::V6(a), IpAddr::V6(b)) => {
                    tcp.to_header().calc_checksum_ipv6_raw(a.octets(), b.octets(), tcp.payload())
                }
                _ => unreachable!("one family"),
            };
            assert_eq!(tcp.checksum(), wanted.unwrap());
        }
        TransportSlice::Udp(udp) => {
            let wanted = match (header.source_ip(), header.destination_ip()) {
                (IpAddr::V4(a), IpAddr::V4(b)) => {
                    udp.to_header().calc_checksum_ipv4_raw(a.octets(), b.octets(), udp.payload())
                }
                (IpAddr::V6(a), IpAddr::V6(b)) => {
                    udp.to_header().calc_checksum_ipv6_raw(a.octets(), b.octets(), udp.payload())
                }
                _ => unreachable!("one family"),
            };
            assert_eq!(udp.checksum(), wanted.unwrap());
        }
        other => panic!("{other:?}"),
    }
    if let Some(etherparse::NetSlice::Ipv4(v4)) = sliced.net {
        assert_eq!(v4.header().header_checksum(), v4.header().to_header().calc_header_checksum());
    }
}

#[test]
fn segments_are_what_the_kernel_would_have_sent() {
    let payload: Vec<u8> = (0..3500u32).map(|i| i as u8).collect();
    for v6 in [false, true] {
        let bytes = partial(tcp(v6, &payload), true);
        let header = Header::parse(&bytes).unwrap();
        let layout = SuperPacket::new(&bytes, &header, offload(&header, true, 1000)).unwrap();
        assert_eq!(layout.count(), 4);
        let headers = if v6 { 60 } else { 40 };
        assert_eq!(layout.sizes(), (headers + 1000, headers + 500));
        for index in 0..4u16 {
            let packet = assemble(&bytes, &layout, index, 1);
            checksums_hold(&packet);
            let Some(TransportSlice::Tcp(tcp)) = SlicedPacket::from_ip(&packet).unwrap().transport
            else {
                panic!("no TCP")
            };
            assert_eq!(tcp.sequence_number(), 0xffff_ff00u32.wrapping_add(u32::from(index) * 1000));
            assert_eq!((tcp.psh(), tcp.cwr()), (index == 3, index == 0));
            let start = usize::from(index) * 1000;
            assert_eq!(tcp.payload(), &payload[start..(start + 1000).min(3500)]);
            let header = Header::parse(&packet).unwrap();
            assert_eq!((header.ttl, header.ecn), (60, 3));
            assert_eq!(header.total_length as usize, packet.len());
        }
    }
}

#[test]
fn udp_segments_have_their_own_lengths() {
    let payload = vec![7; 2500];
    for v6 in [false, true] {
        let bytes = partial(udp(v6, &payload), false);
        let header = Header::parse(&bytes).unwrap();
        let layout = SuperPacket::new(&bytes, &header, offload(&header, false, 1000)).unwrap();
        assert_eq!(layout.count(), 3);
        for (index, size) in [(0, 1000), (1, 1000), (2, 500)] {
            let packet = assemble(&bytes, &layout, index, 1);
            checksums_hold(&packet);
            let Some(TransportSlice::Udp(udp)) = SlicedPacket::from_ip(&packet).unwrap().transport
            else {
                panic!("no UDP")
            };
            assert_eq!((usize::from(udp.length()), udp.payload().len()), (size + 8, size));
        }
    }
}

#[test]
fn routers_answer_in_both_families() {
    for (v6, from) in [(false, "10.9.9.9"), (true, "fd00::9")] {
        let from: IpAddr = from.parse().unwrap();
        let packet = udp(v6, &[1; 100]);
        let reply = icmp::error(&packet, Problem::TtlExceeded, from).unwrap();
        let header = Header::parse(&reply).unwrap();
        assert_eq!(header.source_ip(), from);
        assert_eq!(header.destination, Header::parse(&packet).unwrap().source);
        assert!(reply.ends_with(&packet), "the offending packet is quoted");
        assert_eq!(icmp::error(&reply, Problem::NoRoute, from), None, "no error about an error");
        let reply = icmp::error(&packet, Problem::TooBig { mtu: 1300 }, from).unwrap();
        match SlicedPacket::from_ip(&reply).unwrap().transport.unwrap() {
            TransportSlice::Icmpv4(icmp) => assert!(matches!(
                icmp.icmp_type(),
                etherparse::Icmpv4Type::DestinationUnreachable(
                    etherparse::icmpv4::DestUnreachableHeader::FragmentationNeeded {
                        next_hop_mtu: 1300
                    }
                )
            )),
            TransportSlice::Icmpv6(icmp) => assert!(matches!(
                icmp.icmp_type(),
                etherparse::Icmpv6Type::PacketTooBig { mtu: 1300 }
            )),
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn echo_requests_come_back() {
    let mut request = Vec::new();
    PacketBuilder::ipv4([10, 0, 0, 1], [10, 0, 0, 2], 64)
        .icmpv4_echo_request(5, 6)
        .write(&mut request, b"hello")
        .unwrap();
    let reply = icmp::answer(&request).unwrap();
    let sliced = SlicedPacket::from_ip(&reply).unwrap();
    let Some(TransportSlice::Icmpv4(icmp)) = sliced.transport else { panic!("no ICMP") };
    assert!(
        matches!(icmp.icmp_type(), etherparse::Icmpv4Type::EchoReply(e) if e.id == 5 && e.seq == 6)
    );
    assert_eq!(icmp.payload(), b"hello");
    assert_eq!(icmp::answer(&reply), None);
}

#[test]
fn fragments_add_up() {
    let packet = udp(false, &(0..3000u32).map(|i| i as u8).collect::<Vec<_>>());
    let parts = fragment(&packet, 1000);
    assert_eq!(parts.len(), 4);
    let mut payload = Vec::new();
    for (index, part) in parts.iter().enumerate() {
        assert!(part.len() <= 1000);
        let header = Header::parse(part).unwrap();
        assert!(header.is_fragment);
        let offset = usize::from(u16::from_be_bytes([part[6], part[7]]) & 0x1fff) * 8;
        assert_eq!(offset, payload.len());
        assert_eq!(part[6] & 0x20 != 0, index < 3);
        payload.extend_from_slice(&part[20..]);
    }
    assert_eq!(payload, packet[20..]);
    assert!(fragment(&packet, 20).is_empty());
}

proptest! {
    #[test]
    fn any_run_of_segments_carries_its_bytes(
        length in 1usize..20_000, segment in 100u16..1460, first in 0u16..20, count in 1u16..20,
        v6 in any::<bool>(), is_tcp in any::<bool>(),
    ) {
        let payload: Vec<u8> = (0..length).map(|i| (i * 7) as u8).collect();
        let bytes = if is_tcp { tcp(v6, &payload) } else { udp(v6, &payload) };
        let bytes = partial(bytes, is_tcp);
        let header = Header::parse(&bytes).unwrap();
        let layout = SuperPacket::new(&bytes, &header, offload(&header, is_tcp, segment)).unwrap();
        let total = layout.count();
        prop_assert_eq!(usize::from(total), length.div_ceil(usize::from(segment)));
        let first = first.min(total - 1);
        let count = count.min(total - first);
        let packet = assemble(&bytes, &layout, first, count);
        let start = usize::from(first) * usize::from(segment);
        let end = (start + usize::from(count) * usize::from(segment)).min(length);
        prop_assert!(packet.ends_with(&payload[start..end]));
        checksums_hold(&packet);
        let (full, last) = layout.sizes();
        prop_assert_eq!(
            u64::from(full) * u64::from(total - 1) + u64::from(last),
            (length + usize::from(total) * (bytes.len() - length)) as u64
        );
    }

    #[test]
    fn foreign_bytes_never_panic(
        bytes in prop::collection::vec(any::<u8>(), 0..200),
        segment in 0u16..200,
    ) {
        let from: IpAddr = "10.0.0.1".parse().unwrap();
        let _ = icmp::error(&bytes, Problem::TtlExceeded, from);
        let _ = icmp::answer(&bytes);
        let _ = fragment(&bytes, 100);
        let Some(header) = Header::parse(&bytes) else { return Ok(()) };
        header.flow_hash();
        let mut virtio = [1, 1, 0, 0, 0, 0, 0, 0, 0, 0];
        virtio[4..6].copy_from_slice(&segment.to_ne_bytes());
        if let Some(layout) = SuperPacket::new(&bytes, &header, Offload::read(virtio, 0)) {
            let _ = layout.sizes();
            let piece = layout.piece(&bytes, 0, layout.count(), Change::default());
            let mut packet = piece.headers[..piece.header_length].to_vec();
            packet.extend_from_slice(&bytes[piece.payload.clone()]);
            finish_checksum(&mut packet, piece.offload);
            crate::flip_bit(&mut packet, 77);
        }
    }
}
