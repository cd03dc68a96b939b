use std::net::SocketAddr;

use base::{Span, Time};
use proptest::prelude::*;

use super::*;
use crate::LinkType;

pub(crate) mod encapsulate;
mod merged;
mod numbered;
mod tshark;

use encapsulate::{all, fragments, packet, plain, vlan};

fn ends() -> [(SocketAddr, SocketAddr); 2] {
    let at = |text: &str| text.parse().unwrap();
    [
        (at("10.9.1.2:40001"), at("10.9.1.1:179")),
        (at("[2001:db8::1]:179"), at("[2001:db8::2]:40002")),
    ]
}

fn frame(link: LinkType, data: &[u8]) -> Frame<'_> {
    Frame::whole(Time::from_nanos(1_700_000_000_000_000_000), link, data)
}

type Kept = (SocketAddr, SocketAddr, u32, u32, u8, Vec<u8>, u32, Checksum);

fn kept(segment: &Segment<'_>) -> Kept {
    let Segment { source, destination, sequence, acknowledgment, flags, .. } = *segment;
    let (payload, missing) = (segment.payload.to_vec(), segment.missing);
    (source, destination, sequence, acknowledgment, flags, payload, missing, segment.checksum)
}

fn take(decapsulator: &mut Decapsulator, frame: &Frame<'_>) -> Vec<Kept> {
    let mut out = Vec::new();
    decapsulator.segments(frame, &mut |segment| out.push(kept(segment)));
    out
}

fn new() -> Decapsulator {
    Decapsulator::new(Settings::default())
}

#[test]
fn extracts_same_segment_from_each_encapsulation() {
    let payload: Vec<u8> = (0..1_001).map(|i| i as u8).collect();
    for (from, to) in ends() {
        for payload in [&payload[..], &[]] {
            let packet = packet(from, to, 5_000, payload);
            let expected = (from, to, 5_000, 777, 0x18, payload.to_vec(), 0, Checksum::Right);
            for (name, link, data) in all(&packet) {
                let mut decapsulator = new();
                let got = take(&mut decapsulator, &frame(link, &data));
                assert_eq!(
                    got,
                    std::slice::from_ref(&expected),
                    "{name}: {:?}",
                    decapsulator.counters()
                );
            }
        }
    }
}

#[test]
fn rejects_five_nested_tunnels() {
    let (from, to) = ends()[0];
    let mut data = packet(from, to, 1, b"x");
    for _ in 0..5 {
        let (low, high) = encapsulate::addresses_4(&data);
        data = encapsulate::ip4(low, high, 4, 0, &data);
    }
    let mut decapsulator = new();
    assert!(take(&mut decapsulator, &frame(LinkType::RAW, &data)).is_empty());
    assert_eq!(decapsulator.counters().deep, 1);
    assert_eq!(take(&mut decapsulator, &frame(LinkType::RAW, &data[20..])).len(), 1);
}

#[test]
fn ignores_unselected_tunnels() {
    let (from, to) = ends()[0];
    let settings = Settings { tunnels: Tunnels::none(), ..Settings::default() };
    let mut decapsulator = Decapsulator::new(settings);
    for (name, link, data) in all(&packet(from, to, 1, b"x")) {
        let got = take(&mut decapsulator, &frame(link, &data)).len();
        let bare = link != LinkType::ETHERNET
            || ["plain", "vlan", "priority", "snap", "extension headers", "vn-tag"].contains(&name)
            || ["qinq", "e-tag", "cisco", "arista"].iter().any(|tag| name.starts_with(tag));
        assert_eq!(got, usize::from(bare), "{name}");
    }
}

#[test]
fn identifies_mirror_by_encapsulation() {
    let (from, to) = ends()[0];
    let (there, back) = (packet(from, to, 1, b"x"), packet(to, from, 1, b"y"));
    let mut decapsulator = new();
    let mut mirror = |data: &[u8]| {
        let mut mirror = None;
        decapsulator.segments(&frame(LinkType::ETHERNET, data), &mut |segment| {
            mirror = Some(segment.mirror);
        });
        mirror.unwrap()
    };
    let ids = [
        mirror(&plain(&there)),
        mirror(&vlan(0x8100, 10, &there)),
        mirror(&vlan(0x8100, 11, &there)),
        mirror(&plain(&encapsulate::vxlan(1, &plain(&there)))),
        mirror(&plain(&encapsulate::vxlan(2, &plain(&there)))),
        mirror(&plain(&encapsulate::erspan_2(1, 0, &plain(&there)))),
        mirror(&plain(&encapsulate::erspan_2(2, 0, &plain(&there)))),
    ];
    assert_eq!(ids.map(|id| id.0), [1, 2, 3, 4, 5, 6, 7]);
    assert_eq!(mirror(&vlan(0x88a8, 10, &back)), ids[1], "both directions are one mirror");
    assert_eq!(mirror(&plain(&encapsulate::vxlan(2, &plain(&back)))), ids[4]);
    let described = decapsulator.mirrors()[6].name.clone();
    assert_eq!(described, "interface 0, tunnel 192.0.2.1 – 198.51.100.9, ERSPAN session 2, VLAN 5");
    assert_eq!(decapsulator.mirrors()[1].segments, 2);
    let settings = Settings { merge: true, ..Settings::default() };
    let mut merged = Decapsulator::new(settings);
    for data in [plain(&there), vlan(0x8100, 10, &there)] {
        merged.segments(&frame(LinkType::ETHERNET, &data), &mut |segment| {
            assert_eq!(segment.mirror, MirrorId(1));
        });
    }
    assert_eq!(merged.counters().segments, 2);
}

#[test]
fn limits_number_of_mirrors() {
    let (from, to) = ends()[0];
    let mut decapsulator = Decapsulator::new(Settings { mirrors: 3, ..Settings::default() });
    for tag in 1..=9 {
        take(
            &mut decapsulator,
            &frame(LinkType::ETHERNET, &vlan(0x8100, tag, &packet(from, to, 1, b""))),
        );
    }
    assert_eq!((decapsulator.mirrors().len(), decapsulator.counters().mirrors_refused), (3, 6));
}

#[test]
fn reports_uncaptured_bytes_as_missing() {
    let payload = [7; 500];
    for (from, to) in ends() {
        let data = plain(&packet(from, to, 9, &payload));
        let whole = data.len() as u32;
        let head = data.len() - 500;
        for kept in head - 12..data.len() {
            let frame = Frame { length: whole, ..frame(LinkType::ETHERNET, &data[..kept]) };
            let got = take(&mut new(), &frame);
            let (_, _, _, _, _, seen, missing, checksum) = &got[0];
            assert_eq!(seen.len() + *missing as usize, 500, "{kept} of {whole}");
            assert_eq!(seen.len(), kept.saturating_sub(head));
            assert_eq!(*checksum, Checksum::Unknown);
        }
        let frame = Frame { length: whole, ..frame(LinkType::ETHERNET, &data[..head - 13]) };
        let mut decapsulator = new();
        assert!(take(&mut decapsulator, &frame).is_empty());
        assert_eq!(decapsulator.counters().truncated, 1);
    }
}

#[test]
fn limits_super_segments_to_captured_bytes() {
    let payload = vec![3; 100_000];
    for (from, to) in ends() {
        let segment = encapsulate::tcp(from, to, 1, &payload);
        let mut data = encapsulate::ip(from.ip(), to.ip(), 6, &[]);
        let at = if from.is_ipv4() { 2 } else { 4 };
        data[at..at + 2].fill(0);
        if from.is_ipv4() {
            data[10..12].fill(0);
        }
        data.extend(&segment);
        let got = take(&mut new(), &frame(LinkType::RAW, &data));
        assert_eq!((got[0].5.len(), got[0].6, got[0].7), (100_000, 0, Checksum::Right));
    }
}

#[test]
fn treats_wrong_sum_among_correct_ones_as_damage() {
    let (from, to) = ends()[0];
    let good = plain(&packet(from, to, 1, b"right"));
    let mut decapsulator = new();
    let mut verdict = |data: &[u8]| take(&mut decapsulator, &frame(LinkType::ETHERNET, data))[0].7;
    for bit in 0..8 {
        assert_eq!(verdict(&good), Checksum::Right);
        let mut bad = good.clone();
        bad[54 + 14] ^= 1 << bit;
        assert_eq!(verdict(&bad), Checksum::Wrong);
    }
    assert_eq!(decapsulator.counters().bad_checksums, 8);
}

/// Segments without payload count neither as right nor as wrong.
#[test]
fn rejects_damaged_payload_after_damaged_acknowledgments() {
    let (from, to) = ends()[0];
    let mut decapsulator = new();
    let mut verdict = |data: &[u8]| take(&mut decapsulator, &frame(LinkType::ETHERNET, data))[0].7;
    let damaged = |payload: &[u8]| {
        let mut data = plain(&packet(from, to, 2, payload));
        data[14 + 20 + 8] ^= 1;
        data
    };
    assert_eq!(verdict(&plain(&packet(from, to, 1, b"right"))), Checksum::Right);
    for _ in 0..100 {
        assert_eq!(verdict(&plain(&packet(from, to, 2, b""))), Checksum::Right);
        assert_eq!(verdict(&damaged(b"")), Checksum::Wrong);
    }
    assert_eq!(verdict(&damaged(b"wrong")), Checksum::Wrong);
}

/// Bytes of the segment of [`with_sum`].
const LENGTH: u8 = 32 + 7;

/// A frame whose field of the TCP checksum holds `sum`.
fn with_sum(sum: u16, sequence: u32) -> Vec<u8> {
    let (from, to) = ends()[0];
    let mut data = plain(&packet(from, to, sequence, b"offload"));
    data[14 + 20 + 16..14 + 20 + 18].copy_from_slice(&sum.to_be_bytes());
    data
}

/// The sum of the pseudo-header of [`with_sum`], with the length of the segment or 0.
fn pseudo_sum(length: u8) -> u16 {
    let (from, to) = ends()[0];
    let octets = [from.ip(), to.ip()].map(|ip| match ip {
        std::net::IpAddr::V4(ip) => ip.octets(),
        std::net::IpAddr::V6(_) => unreachable!(),
    });
    !encapsulate::checksum(&[&octets.concat(), &[0, 6, 0, length]])
}

#[test]
fn rejects_incomplete_sums_of_sender_with_correct_sums() {
    let (from, to) = ends()[0];
    let mut decapsulator = new();
    let mut verdict = |data: &[u8]| take(&mut decapsulator, &frame(LinkType::ETHERNET, data))[0].7;
    for round in 0..20 {
        assert_eq!(verdict(&plain(&packet(from, to, round, b"right"))), Checksum::Right);
        for sum in [0, pseudo_sum(0), pseudo_sum(LENGTH + 1)] {
            assert_eq!(verdict(&with_sum(sum, round)), Checksum::Wrong, "{sum:#x}");
        }
    }
    assert_eq!(decapsulator.counters().bad_checksums, 60);
}

#[test]
fn accepts_partial_sums_of_offloading_sender_after_correct_resets() {
    let (from, to) = ends()[0];
    let mut decapsulator = new();
    let mut verdict = |data: &[u8]| take(&mut decapsulator, &frame(LinkType::ETHERNET, data))[0].7;
    for round in 0..50 {
        assert_eq!(verdict(&plain(&packet(from, to, round, b""))), Checksum::Right);
    }
    for round in 0..50 {
        assert_eq!(verdict(&with_sum(pseudo_sum(0), 1_000 + round)), Checksum::Unknown);
    }
}

/// The sum of the pseudo-header is not that of the segment on the wire, so it shows no damage.
#[test]
fn accepts_sum_of_pseudo_header_of_any_sender() {
    let (from, to) = ends()[0];
    let mut decapsulator = new();
    let mut verdict = |data: &[u8]| take(&mut decapsulator, &frame(LinkType::ETHERNET, data))[0].7;
    for round in 0..20 {
        assert_eq!(verdict(&plain(&packet(from, to, round, b"right"))), Checksum::Right);
        assert_eq!(verdict(&with_sum(pseudo_sum(LENGTH), round)), Checksum::Unknown);
    }
    let counters = decapsulator.counters();
    assert_eq!((counters.bad_checksums, counters.unknown_checksums), (0, 20));
}

#[test]
fn accepts_offloaded_checksums() {
    let mut decapsulator = new();
    let mut verdict = |data: &[u8]| take(&mut decapsulator, &frame(LinkType::ETHERNET, data))[0].7;
    assert_eq!(verdict(&with_sum(pseudo_sum(0), 1)), Checksum::Unknown);
    assert_eq!(verdict(&with_sum(0, 1)), Checksum::Unknown);
    // Other wrong values may be damage until the sender has sent only wrong ones.
    let verdicts: Vec<_> = (0..8).map(|i| verdict(&with_sum(0x1234, i))).collect();
    assert_eq!(verdicts[..3], [Checksum::Wrong; 3]);
    assert_eq!(verdicts[3..], [Checksum::Unknown; 5]);
}

#[test]
fn reads_input_without_correct_sums() {
    let data: Vec<_> = (0..3).map(|i| with_sum(0x1234, i)).collect();
    let frames = || data.iter().map(|data| frame(LinkType::ETHERNET, data));
    let mut decapsulator = new();
    decapsulator.learn(frames());
    assert_eq!(decapsulator.counters(), Counters::default());
    for frame in frames() {
        assert_eq!(take(&mut decapsulator, &frame)[0].7, Checksum::Unknown);
    }
    let good = plain(&packet(ends()[1].0, ends()[1].1, 1, b"right"));
    let mut decapsulator = new();
    decapsulator.learn(frames().take(1).chain([frame(LinkType::ETHERNET, &good)]));
    assert_eq!(take(&mut decapsulator, &frames().next().unwrap())[0].7, Checksum::Wrong);
}

#[test]
fn applies_checksum_mode() {
    for (verify, sum) in [(Verify::Always, Checksum::Wrong), (Verify::Never, Checksum::Unknown)] {
        let mut decapsulator = Decapsulator::new(Settings { verify, ..Settings::default() });
        for value in [0, 0x1234] {
            let data = with_sum(value, 1);
            assert_eq!(take(&mut decapsulator, &frame(LinkType::ETHERNET, &data))[0].7, sum);
        }
    }
}

#[test]
fn counts_other_traffic_by_kind() {
    let at = |text: &str| -> SocketAddr { text.parse().unwrap() };
    let mut decapsulator = new();
    let mut give = |link, data: &[u8]| take(&mut decapsulator, &frame(link, data));
    give(LinkType::RAW, &packet(at("10.0.0.1:80"), at("10.0.0.2:1179"), 1, b"x"));
    give(LinkType::RAW, &encapsulate::udp(53, b"question"));
    give(LinkType::ETHERNET, &encapsulate::ethernet(0x0806, &[0; 28]));
    give(LinkType(147), &[0; 100]);
    give(LinkType::ETHERNET, &[0; 13]);
    give(LinkType::RAW, &[0x42; 40]);
    let counters = decapsulator.counters();
    assert_eq!((counters.frames, counters.other_ports, counters.foreign), (6, 1, 2));
    assert_eq!((counters.unknown_links, counters.truncated, counters.malformed), (1, 1, 1));
    assert_eq!(
        counters.unread(),
        [
            "1 packet of unknown link type 147",
            "1 packet cut off before the TCP header",
            "4 packets without readable BGP (1 TCP segment of other ports, 2 packets of other \
         protocols, 1 malformed packet)",
        ]
    );
    // The other fragments of a packet are missing.
    let mut fragment = packet(at("10.0.0.1:179"), at("10.0.0.2:1180"), 1, b"x");
    fragment[6] |= 0x20;
    let mut fragmented = new();
    take(&mut fragmented, &frame(LinkType::RAW, &fragment));
    assert_eq!(
        fragmented.counters().unread(),
        ["1 packet without readable BGP (1 fragment of incomplete packets)"]
    );
    // With BGP in the capture, other traffic is not reported as unread.
    let mut give = |link, data: &[u8]| take(&mut decapsulator, &frame(link, data));
    give(LinkType::RAW, &packet(at("10.0.0.1:179"), at("10.0.0.2:1180"), 1, b"x"));
    let keepalive = [&[0xff; 16][..], &[0, 19, 4]].concat();
    let long = [&[0xff; 16][..], &[16, 0, 2, 0, 0]].concat();
    for payload in [&keepalive, &long] {
        give(LinkType::RAW, &packet(at("10.0.0.1:40000"), at("10.0.0.2:1179"), 1, payload));
    }
    assert_eq!(
        decapsulator.counters().unread()[2..],
        ["2 BGP segments of port 1179 (read them with --port 1179)",]
    );
}

#[test]
fn reassembles_fragments_in_any_order() {
    let payload: Vec<u8> = (0..2_000).map(|i| (i * 7) as u8).collect();
    for (from, to) in ends() {
        let whole = packet(from, to, 4, &payload);
        let pieces = fragments(&whole, 512);
        assert_eq!(pieces.len(), 4);
        for order in [[0, 1, 2, 3], [3, 2, 1, 0], [1, 3, 0, 2], [2, 0, 3, 1]] {
            let mut decapsulator = new();
            let mut got = Vec::new();
            for at in order.into_iter().flat_map(|at| [at, at]).take(7) {
                got.extend(take(&mut decapsulator, &frame(LinkType::RAW, &pieces[at])));
            }
            assert_eq!(got.len(), 1);
            assert_eq!((&got[0].5, got[0].7), (&payload, Checksum::Right));
            let counters = decapsulator.counters();
            assert_eq!((counters.fragments_joined, counters.fragments_doubled), (4, 3));
            assert_eq!(counters.fragments_pending, 0);
        }
        // In a tunnel that is itself fragmented.
        let tunnel = encapsulate::vxlan(1, &plain(&whole));
        let mut decapsulator = new();
        let mut got = Vec::new();
        for piece in fragments(&tunnel, 800) {
            got.extend(take(&mut decapsulator, &frame(LinkType::ETHERNET, &plain(&piece))));
        }
        assert_eq!(got[0].5, payload);
    }
}

#[test]
fn drops_overlapping_fragments() {
    let (from, to) = ends()[0];
    let whole = packet(from, to, 4, &[1; 1_000]);
    let mut other = fragments(&whole, 256);
    let shifted = fragments(&whole, 128).swap_remove(1);
    let last = other.pop().unwrap();
    let mut decapsulator = new();
    for piece in other.iter().chain([&shifted, &last]) {
        assert!(take(&mut decapsulator, &frame(LinkType::RAW, piece)).is_empty());
    }
    assert_eq!(decapsulator.counters().fragments_overlapping, 1);
    assert_eq!(decapsulator.counters().fragments_pending, 0);
}

#[test]
fn reads_start_of_incomplete_datagram() {
    let payload: Vec<u8> = (0..1_000).map(|i| (i * 7) as u8).collect();
    for (from, to) in ends() {
        let whole = packet(from, to, 4, &payload);
        let pieces = fragments(&whole, 512);
        let tunnel: Vec<_> = fragments(&encapsulate::vxlan(1, &plain(&whole)), 512);
        for (pieces, inner) in [(pieces, 32), (tunnel, 32 + 14 + 16 + whole.len() - 1_032)] {
            let have = 1_024 - inner;
            let give = |decapsulator: &mut Decapsulator| {
                for piece in pieces[..2].iter().rev() {
                    assert!(take(decapsulator, &frame(LinkType::RAW, piece)).is_empty());
                }
            };
            // The timeout is detected at the end of the input, or with a much later fragment.
            let mut decapsulator = new();
            give(&mut decapsulator);
            let mut got = Vec::new();
            decapsulator.end(Time::ZERO, &mut |segment| got.push(kept(segment)));
            let mut other = new();
            give(&mut other);
            let time = Time::from_nanos(1_800_000_000_000_000_000);
            let late = Frame { time, ..frame(LinkType::RAW, &pieces[1]) };
            got.extend(take(&mut other, &late));
            assert_eq!(got.len(), 2);
            for (_, _, sequence, _, _, seen, missing, checksum) in got {
                assert_eq!((sequence, checksum), (4, Checksum::Unknown));
                assert_eq!(seen, payload[..have.min(1_000)]);
                assert!(missing >= 1);
            }
        }
    }
}

#[test]
fn ends_fragments_within_incomplete_datagrams() {
    for (from, to) in ends() {
        let inner = fragments(&packet(from, to, 4, &[1; 1_000]), 512).swap_remove(1);
        let mut padded = plain(&inner);
        padded.resize(2_000, 0);
        // The first fragment of the tunnel's packet contains the inner fragment.
        let outer = fragments(&encapsulate::vxlan(1, &padded), 1_024).swap_remove(0);
        let mut decapsulator = new();
        assert!(take(&mut decapsulator, &frame(LinkType::RAW, &outer)).is_empty());
        decapsulator.end(Time::ZERO, &mut |_| panic!("no segment is complete"));
        let counters = decapsulator.counters();
        assert_eq!((counters.fragments_expired, counters.fragments_pending), (2, 0));
    }
}

#[test]
fn limits_time_and_memory_of_incomplete_datagrams() {
    let (from, to) = ends()[0];
    let limits = FragmentLimits { bytes: 10_000, time: Span::from_secs(5) };
    let settings = Settings { fragments: limits, ..Settings::default() };
    let mut decapsulator = Decapsulator::new(settings);
    let whole = packet(from, to, 4, &[1; 1_000]);
    let first = &fragments(&whole, 512)[0];
    let mut time = Time::from_nanos(1);
    for id in 0..1_000_u16 {
        let mut piece = first.clone();
        piece[4..6].copy_from_slice(&id.to_be_bytes());
        piece[10..12].fill(0);
        take(&mut decapsulator, &Frame { time, ..frame(LinkType::RAW, &piece) });
        assert!(decapsulator.counters().fragments_pending <= 16);
        time += Span::from_millis(1);
    }
    assert!(decapsulator.counters().fragments_pending > 4);
    time += Span::from_secs(6);
    take(&mut decapsulator, &Frame { time, ..frame(LinkType::RAW, first) });
    assert_eq!(decapsulator.counters().fragments_pending, 1);
    assert_eq!(decapsulator.counters().fragments_expired, 1_000);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn reads_arbitrary_bytes_without_panic(
        link in prop_oneof![0_u16..300, Just(1), Just(101)],
        data in prop::collection::vec(any::<u8>(), 0..200),
        length in any::<u32>(),
    ) {
        let mut decapsulator = new();
        let frame = Frame { length, ..frame(LinkType(link), &data) };
        for _ in 0..2 {
            decapsulator.segments(&frame, &mut |segment| {
                assert!(segment.payload.len() <= data.len());
            });
        }
        let counters = decapsulator.counters();
        let outcomes = counters.segments + counters.foreign + counters.other_ports
            + counters.unknown_links + counters.truncated + counters.malformed + counters.deep;
        let parts = counters.fragments_bad + counters.fragments_pending
            + counters.fragments_doubled + counters.fragments_overlapping;
        prop_assert_eq!(outcomes + parts, 2, "{:?}", counters);
    }

    #[test]
    fn reads_damaged_frames_without_panic(
        kind in 0_usize..40,
        six in any::<bool>(),
        damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..6),
        cut in any::<prop::sample::Index>(),
    ) {
        let (from, to) = ends()[usize::from(six)];
        let all = all(&packet(from, to, 1, &[9; 60]));
        let (_, link, mut data) = all[kind % all.len()].clone();
        for (at, value) in damage {
            let at = at.index(data.len());
            data[at] = value;
        }
        let length = data.len() as u32;
        data.truncate(cut.index(data.len()) + 1);
        let mut decapsulator = new();
        decapsulator.segments(&Frame { length, ..frame(link, &data) }, &mut |segment| {
            assert!(segment.payload.len() <= 100);
        });
    }
}
