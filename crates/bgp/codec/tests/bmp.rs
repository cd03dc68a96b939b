//! BMP: packets round-trip to the same bytes, and damage affects only the damaged packets.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on panics")]

use std::net::IpAddr;

use base::Time;
use bgp::Asn;
use bgp::bmp::{
    Body, Down, Packet, PeerHeader, PeerUp, Reader, Step, Tlv, Tlvs, information, peer_flags,
    peer_type, write,
};
use bgp::mrt::Cause;
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

/// One packet of each type, and the offset of the end of each.
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
        Tlv { kind: 1, value: &[0, 0, 0, 7] },
        Tlv { kind: 7, value: &[0, 0, 1, 0, 0, 0, 0, 0] },
        Tlv { kind: 9, value: &[0, 2, 1, 0, 0, 0, 0, 0, 0, 0, 9] },
        Tlv { kind: 99, value: b"abc" },
    ];
    write::statistics(&mut out, &v6, &all).unwrap();
    ends.push(out.len());
    let cease = message(3, &[6, 2]);
    for down in [
        Down::LocalNotification(&cease),
        Down::LocalEvent(24),
        Down::RemoteNotification(&cease),
        Down::RemoteClosed,
        Down::Deconfigured,
        Down::Other(6, &[0, 3, 0, 1, b'x']),
        Down::Other(77, b"rest"),
    ] {
        write::peer_down(&mut out, &v4, &down);
        ends.push(out.len());
    }
    write::termination(&mut out, &[Tlv { kind: 1, value: &[0, 0] }]).unwrap();
    ends.push(out.len());
    (out, ends)
}

/// Packets and skipped bytes, with reads of `size` bytes.
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

/// Encodes the decoded packet.
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
        other => panic!("{other:?}"),
    }
    out
}

#[test]
fn encodes_decoded_packets_to_same_bytes() {
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
    assert_eq!(up.information.first(3), Some(&b"x"[..]));
    let Ok(Body::PeerUp(peer, up)) = packets[2].parse() else { panic!() };
    assert_eq!((peer.address(), up.local), (ip("2001:db8::1"), ip("2001:db8::2")));
    let Ok(Body::PeerDown(_, down)) = packets[7].parse() else { panic!() };
    assert_eq!(down.notification(), Some((6, 2)));
}

fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}

#[test]
fn interprets_flags_of_loc_rib() {
    let mut peer = header("192.0.2.1");
    peer.flags = peer_flags::IPV6 | peer_flags::TWO_OCTET_AS;
    assert!(peer.is_ipv6() && peer.is_two_octet_as());
    peer.kind = peer_type::LOC_RIB;
    assert!(!peer.is_ipv6() && !peer.is_two_octet_as());
}

#[test]
fn skips_only_damaged_packets() {
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
    fn accounts_for_arbitrary_bytes(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        let (packets, skipped, _) = read(&bytes, 13);
        let whole: usize = packets.iter().map(|packet| packet.bytes.len()).sum();
        prop_assert_eq!(whole + skipped, bytes.len());
    }

    #[test]
    fn reads_changed_streams_without_panic(at in 0usize..900, byte in any::<u8>()) {
        let (mut bytes, _) = stream();
        let at = at % bytes.len();
        bytes[at] = byte;
        let (packets, ..) = read(&bytes, 50);
        for packet in packets {
            if let Ok(Body::Statistics(_, all) | Body::Initiation(all)) = packet.parse() {
                all.iter().count();
            }
        }
    }
}
