//! BMP: what is written is read, and damage costs what it hits.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on panics")]

use std::net::IpAddr;

use base::Time;
use bgp::bmp::{
    Body, Down, Packet, PeerHeader, PeerUp, Reader, Statistic, Step, Tlv, Tlvs, Value, information,
    peer_flags, peer_type, write,
};
use bgp::mrt::Cause;
use bgp::{Asn, Family};
use proptest::prelude::*;

fn message(kind: u8, body: &[u8]) -> Vec<u8> {
    let mut out = vec![0xff; 16];
    out.extend_from_slice(&(body.len() as u16 + 19).to_be_bytes());
    out.push(kind);
    out.extend_from_slice(body);
    out
}

fn header(address: &str) -> PeerHeader {
    let time = Time::from_nanos(1_700_000_000_123_456_000);
    PeerHeader::global(time, address.parse().unwrap(), Asn(4_200_000_001), 0x0a00_0001)
}

/// One packet of each kind, with where each ends.
fn stream() -> (Vec<u8>, Vec<usize>) {
    let (v4, v6) = (header("192.0.2.1"), header("2001:db8::1"));
    let open = message(1, &[4, 0xfd, 0xe8, 0, 90, 10, 0, 0, 1, 0]);
    let mut out = Vec::new();
    let mut ends = Vec::new();
    let name = Tlv { kind: information::SYS_NAME, value: b"collector" };
    write::initiation(&mut out, &[name]).unwrap();
    ends.push(out.len());
    let up = PeerUp {
        local: "192.0.2.2".parse().unwrap(),
        local_port: 179,
        remote_port: 40_000,
        sent: &open,
        received: &open,
        information: Tlvs::new(&[0, 3, 0, 1, b'x']),
    };
    write::peer_up(&mut out, &v4, &up);
    ends.push(out.len());
    write::peer_up(&mut out, &v6, &PeerUp { local: "2001:db8::2".parse().unwrap(), ..up });
    ends.push(out.len());
    for _ in 0..3 {
        write::route_monitoring(&mut out, &v4, &message(2, &[0; 4]));
        ends.push(out.len());
    }
    let all = [
        Statistic { kind: 1, value: Value::Counter(7) },
        Statistic { kind: 7, value: Value::Gauge(1 << 40) },
        Statistic { kind: 9, value: Value::OfFamily(Family::IPV6_UNICAST, 9) },
        Statistic { kind: 99, value: Value::Opaque(b"abc") },
    ];
    write::statistics(&mut out, &v6, &all).unwrap();
    ends.push(out.len());
    let mirrored = Tlv { kind: 0, value: &open };
    write::route_mirroring(&mut out, &v6, &[mirrored, Tlv { kind: 1, value: &[0, 1] }]).unwrap();
    ends.push(out.len());
    let cease = message(3, &[6, 2]);
    for down in [
        Down::LocalNotification(&cease),
        Down::LocalEvent(24),
        Down::RemoteNotification(&cease),
        Down::RemoteClosed,
        Down::Deconfigured,
        Down::LocalRib(Tlvs::new(&[0, 3, 0, 1, b'x'])),
        Down::Other(77, b"rest"),
    ] {
        write::peer_down(&mut out, &v4, &down);
        ends.push(out.len());
    }
    write::termination(&mut out, &[Tlv { kind: 1, value: &[0, 0] }]).unwrap();
    ends.push(out.len());
    (out, ends)
}

/// Packets and skipped bytes, reading in pieces of `size`.
fn read(bytes: &[u8], size: usize) -> (Vec<Packet<'_>>, usize, Option<Cause>) {
    let (mut reader, mut from, mut to) = (Reader::new(), 0, 0);
    let (mut packets, mut skipped, mut cause) = (Vec::new(), 0, None);
    loop {
        match reader.next(&bytes[from..to], to == bytes.len()) {
            Step::Packet(packet) => {
                packets.push(packet);
                from += packet.bytes.len();
            }
            Step::Need(need) => {
                assert!(need > to - from && to < bytes.len());
                to = bytes.len().min(to + size);
            }
            Step::Damaged(damage) => {
                assert_eq!(damage.offset, from as u64);
                skipped += damage.skipped;
                from += damage.skipped;
                cause = Some(damage.cause);
            }
            Step::End => break,
        }
    }
    assert_eq!((from, reader.offset()), (bytes.len(), bytes.len() as u64));
    (packets, skipped, cause)
}

/// The packet, written from what it means.
fn again(packet: &Packet<'_>) -> Vec<u8> {
    let mut out = Vec::new();
    let whole = |tlvs: Tlvs<'_>| tlvs.iter().map(Result::unwrap).count();
    match packet.parse().unwrap() {
        Body::RouteMonitoring(peer, update) => write::route_monitoring(&mut out, &peer, update),
        Body::Statistics(peer, all) => {
            let all: Vec<_> = all.iter().map(Result::unwrap).collect();
            write::statistics(&mut out, &peer, &all).unwrap();
        }
        Body::PeerDown(peer, down) => write::peer_down(&mut out, &peer, &down),
        Body::PeerUp(peer, up) => {
            assert_eq!(whole(up.information), 1);
            write::peer_up(&mut out, &peer, &up);
        }
        Body::Initiation(tlvs) => {
            let tlvs: Vec<_> = tlvs.iter().map(Result::unwrap).collect();
            write::initiation(&mut out, &tlvs).unwrap();
        }
        Body::Termination(tlvs) => {
            let tlvs: Vec<_> = tlvs.iter().map(Result::unwrap).collect();
            write::termination(&mut out, &tlvs).unwrap();
        }
        Body::RouteMirroring(peer, tlvs) => {
            let tlvs: Vec<_> = tlvs.iter().map(Result::unwrap).collect();
            write::route_mirroring(&mut out, &peer, &tlvs).unwrap();
        }
        other => panic!("{other:?}"),
    }
    out
}

#[test]
fn every_packet_is_read_and_written_to_the_same_bytes() {
    let (bytes, ends) = stream();
    for size in [1, 7, 1 << 20] {
        let (packets, skipped, _) = read(&bytes, size);
        assert_eq!((packets.len(), skipped), (ends.len(), 0));
        for packet in &packets {
            assert_eq!(again(packet), packet.bytes);
        }
    }
    let (packets, ..) = read(&bytes, 64);
    let Ok(Body::PeerUp(peer, up)) = packets[1].parse() else { panic!() };
    assert_eq!((peer.address(), up.local), (ip("192.0.2.1"), ip("192.0.2.2")));
    assert_eq!(peer.time().unwrap().as_nanos(), 1_700_000_000_123_456_000);
    assert_eq!(up.information.first(information::VRF_NAME), Some(&b"x"[..]));
    let Ok(Body::PeerUp(peer, up)) = packets[2].parse() else { panic!() };
    assert_eq!((peer.address(), up.local), (ip("2001:db8::1"), ip("2001:db8::2")));
    let Ok(Body::PeerDown(_, down)) = packets[8].parse() else { panic!() };
    assert_eq!(down.notification(), Some((6, 2)));
}

fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}

#[test]
fn flags_of_a_loc_rib_mean_other_things() {
    let mut peer = header("192.0.2.1");
    peer.flags = peer_flags::FILTERED | peer_flags::TWO_OCTET_AS;
    assert!(peer.is_ipv6() && peer.is_two_octet_as() && !peer.is_filtered());
    peer.kind = peer_type::LOC_RIB;
    assert!(!peer.is_ipv6() && !peer.is_two_octet_as() && peer.is_filtered());
}

#[test]
fn damage_costs_the_packets_that_it_hits() {
    let (bytes, ends) = stream();
    let mut start = 0;
    for (number, &end) in ends.iter().enumerate() {
        let mut zeroed = bytes.clone();
        zeroed[start..start + 6].fill(0);
        for size in [5, 1 << 20] {
            let (packets, skipped, _) = read(&zeroed, size);
            assert_eq!(skipped, end - start, "packet {number} by {size}");
            assert_eq!(packets.len(), ends.len() - 1);
        }
        start = end;
    }
    let (_, skipped, cause) = read(&bytes[..bytes.len() - 1], 10);
    assert_eq!((skipped, cause), (bytes.len() - 1 - ends[ends.len() - 2], Some(Cause::Torn)));
}

proptest! {
    #[test]
    fn any_bytes_are_accounted_for(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        let (packets, skipped, _) = read(&bytes, 13);
        let whole: usize = packets.iter().map(|packet| packet.bytes.len()).sum();
        prop_assert_eq!(whole + skipped, bytes.len());
    }

    #[test]
    fn any_change_of_a_stream_is_survived(at in 0usize..900, byte in any::<u8>()) {
        let (mut bytes, _) = stream();
        let at = at % bytes.len();
        bytes[at] = byte;
        let (packets, ..) = read(&bytes, 50);
        for packet in packets {
            match packet.parse() {
                Ok(Body::Statistics(_, all)) => { all.iter().count(); }
                Ok(Body::RouteMirroring(_, all) | Body::Initiation(all)) => { all.iter().count(); }
                _ => {}
            }
        }
    }
}
