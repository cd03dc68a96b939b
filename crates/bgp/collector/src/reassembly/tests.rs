//! Reassembly against a model that shares no code with it. The model determines which bytes were
//! captured, and therefore which messages are complete.

use std::collections::BTreeSet;
use std::net::SocketAddr;

use base::Bytes;
use proptest::prelude::*;

use super::*;
use crate::{Hole, MirrorId};

mod doubtful;
mod embedded;
mod ends;

#[derive(Debug, Default)]
struct Log {
    messages: Vec<(End, Vec<u8>)>,
    holes: Vec<(End, Hole)>,
    closes: Vec<(End, Close)>,
    /// Times in milliseconds of messages with their types, and of closes.
    events: Vec<(u64, End, u8)>,
    opened: usize,
    ended: usize,
}

/// Type of closes in [`Log::events`].
const CLOSED: u8 = 0;

impl Receiver for Log {
    fn opened(&mut self, _: Time, _: ConnectionId, _: &Connection) {
        self.opened += 1;
    }
    fn message(&mut self, time: Time, _: ConnectionId, from: End, bytes: &[u8]) {
        self.events.push((time.as_nanos() / 1_000_000, from, bytes[18]));
        self.messages.push((from, bytes.to_vec()));
    }
    fn hole(&mut self, _: ConnectionId, from: End, hole: &Hole) {
        self.holes.push((from, *hole));
    }
    fn closed(&mut self, time: Time, _: ConnectionId, from: End, close: Close) {
        self.events.push((time.as_nanos() / 1_000_000, from, CLOSED));
        self.closes.push((from, close));
    }
    fn ended(&mut self, _: Time, _: ConnectionId) {
        self.ended += 1;
    }
}

const PEER: &str = "10.0.0.1:40000";
const ROUTER: &str = "10.0.0.2:179";

fn from_peer(ms: u64, sequence: u32, flags: u8, payload: &[u8]) -> Segment<'_> {
    Segment {
        time: Time::from_nanos(ms * 1_000_000),
        mirror: MirrorId(0),
        is_device: false,
        source: PEER.parse::<SocketAddr>().unwrap(),
        destination: ROUTER.parse::<SocketAddr>().unwrap(),
        sequence,
        acknowledgment: 0,
        flags,
        payload,
        missing: 0,
        checksum: Checksum::Right,
    }
}

fn from_router(ms: u64, sequence: u32, acknowledgment: u32, flags: u8) -> Segment<'static> {
    let peer = from_peer(ms, sequence, flags | ACK, &[]);
    Segment { source: peer.destination, destination: peer.source, acknowledgment, ..peer }
}

fn message(kind: u8, body: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0xff; 16];
    bytes.extend_from_slice(&(19 + body.len() as u16).to_be_bytes());
    bytes.push(kind);
    bytes.extend_from_slice(body);
    bytes
}

fn keepalive() -> Vec<u8> {
    message(4, &[])
}

/// An UPDATE with ORIGIN, a community attribute of `communities` and one prefix.
fn update(communities: &[u32], prefix: [u8; 3]) -> Vec<u8> {
    let mut attributes = vec![0x40, 1, 1, 0];
    if !communities.is_empty() {
        attributes.extend_from_slice(&[0xd0, 8]);
        attributes.extend_from_slice(&(communities.len() as u16 * 4).to_be_bytes());
        attributes.extend(communities.iter().flat_map(|community| community.to_be_bytes()));
    }
    let mut body = vec![0, 0];
    body.extend_from_slice(&(attributes.len() as u16).to_be_bytes());
    body.extend_from_slice(&attributes);
    body.push(24);
    body.extend_from_slice(&prefix);
    message(2, &body)
}

fn run(segments: &[Segment<'_>]) -> (Log, Statistics) {
    let mut reassembler = Reassembler::default();
    let mut log = Log::default();
    for segment in segments {
        reassembler.segment(segment, &mut log);
    }
    reassembler.end(&mut log);
    assert_eq!(reassembler.memory(), 0);
    assert_eq!(log.opened, log.ended);
    (log, *reassembler.statistics())
}

fn payloads(log: &Log) -> Vec<Vec<u8>> {
    log.messages.iter().map(|(_, bytes)| bytes.clone()).collect()
}

#[test]
fn handles_wrap_of_sequence_numbers() {
    let stream = [keepalive(), update(&[1, 2], [1, 2, 3]), keepalive()].concat();
    let initial = u32::MAX - 10;
    let mut segments = vec![from_peer(0, initial, SYN, &[])];
    for (number, piece) in stream.chunks(7).enumerate() {
        let at = initial.wrapping_add(1 + number as u32 * 7);
        segments.push(from_peer(1 + number as u64, at, ACK, piece));
    }
    let end = initial.wrapping_add(1 + stream.len() as u32);
    segments.push(from_peer(99, end, ACK | FIN, &[]));
    let (log, statistics) = run(&segments);
    assert_eq!(payloads(&log).concat(), stream);
    assert_eq!((log.holes.len(), statistics.holes), (0, 0));
    assert_eq!(log.closes[0], (End::Low, Close::Finished));
}

#[test]
fn distinguishes_retransmitted_from_new_syn() {
    let first = keepalive();
    let second = update(&[], [9, 9, 9]);
    let (log, _) = run(&[
        from_peer(0, 100, SYN, &[]),
        from_peer(1, 100, SYN, &[]),
        from_peer(2, 101, ACK, &first),
        from_peer(3, 5_000_000, SYN, &[]),
        from_peer(4, 120, ACK, &first),
        from_peer(5, 5_000_001, ACK, &second),
    ]);
    assert_eq!(payloads(&log), [first.clone(), first, second]);
    assert_eq!(log.opened, 2);
    assert!(log.closes.contains(&(End::Low, Close::Replaced)));
}

#[test]
fn closes_acknowledged_gap_at_once() {
    let stream = [keepalive(), keepalive(), update(&[7], [1, 1, 1]), keepalive()].concat();
    let mut reassembler = Reassembler::default();
    let mut log = Log::default();
    let behind = &stream[38..];
    for segment in [
        from_peer(0, 0, SYN, &[]),
        from_router(0, 0, 1, SYN),
        from_peer(1, 1, ACK, &stream[..19]),
        from_peer(2, 39, ACK, behind),
        from_router(3, 1, 1 + stream.len() as u32, 0),
    ] {
        reassembler.segment(&segment, &mut log);
    }
    assert_eq!(log.messages.len(), 1);
    reassembler.advance(Time::from_nanos(400_000_000), &mut log);
    // The sender was idle after the acknowledgment.
    let end = 1 + stream.len() as u32;
    reassembler.segment(&from_peer(500, end, ACK, &keepalive()), &mut log);
    assert_eq!(log.messages.len(), 2);
    let (from, hole) = log.holes[0];
    assert_eq!((from, hole.missing, hole.skipped), (End::Low, 19, behind.len() as u64));
    assert!(hole.acknowledged && hole.resynchronised);
}

#[test]
fn resumes_after_truncated_message_with_header() {
    let cut = update(&[5; 30], [1, 1, 1]);
    let stream = [cut.clone(), update(&[7], [2, 2, 2]), keepalive()].concat();
    for (from, to) in [(19, 40), (20, cut.len() - 1), (60, cut.len())] {
        let (log, _) = run(&[
            from_peer(0, 0, SYN, &[]),
            from_peer(1, 1, ACK, &stream[..from]),
            from_peer(2, 1 + to as u32, ACK, &stream[to..]),
        ]);
        assert_eq!(payloads(&log).concat(), &stream[cut.len()..]);
        let hole = log.holes[0].1;
        assert_eq!(
            (hole.missing, hole.skipped as usize),
            ((to - from) as u64, cut.len() - to + from)
        );
    }
}

#[test]
fn joins_only_complementary_directions_of_two_mirrors() {
    let elsewhere = |segment: Segment<'static>| Segment { mirror: MirrorId(2), ..segment };
    for (acknowledgment, opened) in [(101, 1), (102, 2)] {
        let answer = elsewhere(from_router(1, 7, acknowledgment, SYN));
        assert_eq!(run(&[from_peer(0, 100, SYN, &[]), answer]).0.opened, opened);
        assert_eq!(run(&[answer, from_peer(2, 100, SYN, &[])]).0.opened, opened);
    }
    // From the middle, with bytes near those that the other end acknowledges.
    let bytes = keepalive();
    let said = |sequence, acknowledgment| Segment {
        acknowledgment,
        ..from_peer(0, sequence, ACK, &bytes)
    };
    let answer = |sequence, acknowledgment| Segment {
        payload: &bytes,
        ..elsewhere(from_router(1, sequence, acknowledgment, 0))
    };
    assert_eq!(run(&[said(1_000, 5_000), answer(5_019, 1_019)]).0.opened, 1);
    assert_eq!(run(&[said(1_000, 5_000), answer(500_000, 1_019)]).0.opened, 2);
    assert_eq!(run(&[said(1_000, 5_000), answer(5_019, 900_000)]).0.opened, 2);
    // Copies at two mirrors are two connections, except at devices of one host.
    for (is_device, opened) in [(false, 2), (true, 1)] {
        let own = Segment { is_device, ..from_peer(0, 100, SYN, &[]) };
        assert_eq!(run(&[own, elsewhere(own)]).0.opened, opened);
    }
}

#[test]
fn names_limits_of_capture() {
    let stream = [keepalive(), update(&[5; 30], [1, 1, 1]), keepalive()].concat();
    let end = 1 + stream.len() as u32;
    let start = [from_peer(0, 0, SYN, &[]), from_peer(1, 1, ACK, &stream[..19])];
    // The packet of the UPDATE is cut off; the next one follows 30 s later.
    let missing = stream.len() as u32 - 19 - 19 - 40;
    let cut = Segment { missing, ..from_peer(2, 20, ACK, &stream[19..59]) };
    let behind = from_peer(30_000, end - 19, ACK, &stream[stream.len() - 19..]);
    let (log, _) = run(&[start[0], start[1], cut, behind]);
    let hole = log.holes[0].1;
    let millis = |time: Time| time.as_nanos() / 1_000_000;
    assert_eq!((hole.limit, millis(hole.since), millis(hole.time)), (Some(Limit::Length), 2, 2));
    // Another clone has all bytes.
    let whole = from_peer(3, 20, ACK, &stream[19..stream.len() - 19]);
    assert_eq!(run(&[start[0], start[1], cut, whole, behind]).0.holes, []);
    // Bytes before the cut ones are lost too.
    let later = Segment { sequence: 30, payload: &stream[29..59], ..cut };
    assert_eq!(run(&[start[0], start[1], later, behind]).0.holes[0].1.limit, None);
    // The capture ends within the UPDATE, or the connection does.
    let half = from_peer(2, 20, ACK, &stream[19..59]);
    assert_eq!(run(&[start[0], start[1], half]).0.holes[0].1.limit, Some(Limit::End));
    let fin = from_peer(3, 60, ACK | FIN, &[]);
    assert_eq!(run(&[start[0], start[1], half, fin]).0.holes[0].1.limit, None);
}

#[test]
fn counts_streams_of_other_protocols() {
    let request = b"GET / HTTP/1.1\r\n\r\n";
    let (log, statistics) = run(&[
        from_peer(0, 0, SYN, &[]),
        from_peer(1, 1, ACK, request),
        from_peer(2, 100, ACK, request),
    ]);
    assert_eq!((log.messages.len(), log.holes.len()), (0, 0));
    assert_eq!((statistics.foreign, statistics.skipped_bytes, statistics.missing_bytes), (1, 0, 0));
    // A part of a header, and the end of the connection.
    for (flags, foreign) in [(FIN, 1), (ACK, 0)] {
        let (_, statistics) = run(&[
            from_peer(0, 0, SYN, &[]),
            from_peer(1, 1, ACK, &[0xff; 10]),
            from_peer(2, 11, flags, &[]),
        ]);
        assert_eq!((statistics.foreign, statistics.skipped_bytes), (foreign, 10 - 10 * foreign));
    }
    // A stream whose start was not captured may be BGP.
    let (_, statistics) = run(&[from_peer(1, 1, ACK, request)]);
    assert_eq!((statistics.foreign, statistics.skipped_bytes > 0), (0, true));
}

#[test]
fn ignores_all_ones_inside_attributes() {
    let ones = update(&[0xffff_ffff; 9], [1, 2, 3]);
    let stream = [keepalive(), ones.clone(), ones.repeat(70)].concat();
    // The gap includes the first UPDATE's header, so the search examines its communities.
    let (log, _) = run(&[
        from_peer(0, 0, SYN, &[]),
        from_peer(1, 1, ACK, &stream[..19]),
        from_peer(2, 45, ACK, &stream[44..]),
    ]);
    let distance = 4096 - (19 + ones.len() - 44);
    assert_eq!(log.messages.len(), 1 + 70 - distance.div_ceil(ones.len()), "{:?}", log.holes);
    assert!(payloads(&log)[1..].iter().all(|message| *message == ones));
}

#[test]
fn accepts_only_resets_valid_for_receiver() {
    let far = run(&[
        from_peer(0, 0, SYN, &[]),
        from_peer(1, 1, ACK, &keepalive()),
        from_peer(2, 0x4000_0000, RST, &[]),
        from_peer(3, 20, ACK, &keepalive()),
    ]);
    assert_eq!(far.0.messages.len(), 2);
    assert!(!far.0.closes.contains(&(End::Low, Close::Reset)));
    let near = run(&[
        from_peer(0, 0, SYN, &[]),
        from_peer(1, 1, ACK, &keepalive()),
        from_peer(2, 20, RST, &[]),
        from_peer(1000, 20, SYN, &[]),
    ]);
    assert!(near.0.closes.contains(&(End::Low, Close::Reset)), "{:?}", near.0.closes);
}

#[test]
fn ignores_and_counts_conflicting_retransmission() {
    let sent = update(&[1, 2, 3], [1, 2, 3]);
    let mut other = sent.clone();
    other[40] ^= 1;
    let (log, statistics) = run(&[
        from_peer(0, 0, SYN, &[]),
        from_peer(1, 1, ACK, &sent),
        from_peer(2, 1, ACK, &sent),
        from_peer(3, 1, ACK, &other),
    ]);
    assert_eq!(payloads(&log), std::slice::from_ref(&sent));
    assert_eq!(statistics.duplicate_bytes, 2 * sent.len() as u64);
    assert_eq!(statistics.conflicting_bytes, 1);
}

#[test]
fn keeps_connections_after_wrong_time() {
    let stream = [keepalive(), update(&[1], [1, 2, 3]), keepalive()].concat();
    let year = 365 * 24 * 3600 * 1000;
    let other = Segment { source: "10.0.0.9:1".parse().unwrap(), ..from_peer(year, 7, SYN, &[]) };
    let session = [
        from_peer(0, 0, SYN, &[]),
        from_peer(1, 1, ACK, &stream[..30]),
        from_peer(2, 31, ACK, &stream[30..]),
    ];
    // The handshake may have no message yet.
    for at in 1..3 {
        let (log, _) = run(&[&session[..at], &[other], &session[at..]].concat());
        assert_eq!(payloads(&log).concat(), stream);
        assert!(log.holes.is_empty());
    }
}

#[test]
fn limits_syn_flood_and_keeps_sessions() {
    let settings = Settings { connections: 100, ..Settings::default() };
    let mut reassembler = Reassembler::new(settings);
    let mut log = Log::default();
    reassembler.segment(&from_peer(0, 0, SYN, &[]), &mut log);
    reassembler.segment(&from_peer(0, 1, ACK, &keepalive()), &mut log);
    for number in 0..10_000u32 {
        let mut flood = from_peer(1, number, SYN, &[]);
        flood.source = SocketAddr::new([11, 0, (number >> 8) as u8, number as u8].into(), 1);
        reassembler.segment(&flood, &mut log);
        let junk = [b'x'; 1000];
        flood = Segment { sequence: number + 5000, flags: ACK, payload: &junk, ..flood };
        reassembler.segment(&flood, &mut log);
    }
    reassembler.segment(&from_peer(2, 20, ACK, &keepalive()), &mut log);
    assert_eq!(log.messages.len(), 2);
    assert!(reassembler.memory() < 100 * 3000);
    assert!(log.opened - log.ended <= 100);
}

#[test]
fn limits_memory() {
    let settings = Settings {
        memory: Bytes::new(1 << 20),
        out_of_order: Bytes::new(256 << 10),
        ..Settings::default()
    };
    let mut reassembler = Reassembler::new(settings);
    let mut log = Log::default();
    let junk = [0; 1400];
    for number in 0..20_000u32 {
        let mut segment = from_peer(u64::from(number) / 100, 0, ACK, &junk);
        segment.source = SocketAddr::new([11, 0, 0, (number % 50) as u8].into(), 1);
        segment.sequence = number / 50 * 3000;
        reassembler.segment(&segment, &mut log);
        assert!(reassembler.memory() <= (1 << 20) + 70_000);
    }
}

#[test]
fn evicts_connections_with_late_first_message() {
    let settings = Settings { connections: 3, ..Settings::default() };
    let mut reassembler = Reassembler::new(settings);
    let mut log = Log::default();
    let whole = keepalive();
    for number in 0..40u32 {
        // In the middle of a stream, so that the message is delivered only after a timeout.
        let mut middle = from_peer(u64::from(number) * 90, 1000, ACK, &whole);
        middle.source = SocketAddr::new([11, 0, 0, (number % 5) as u8].into(), number as u16);
        reassembler.segment(&middle, &mut log);
        reassembler.advance(middle.time + Span::from_millis(u64::from(number % 3) * 150), &mut log);
    }
    reassembler.end(&mut log);
    assert_eq!((log.messages.len(), log.opened, log.ended), (40, 40, 40));
}

#[test]
fn handles_fin_before_only_bytes() {
    let only = update(&[3], [3, 3, 3]);
    let end = 5 + only.len() as u32;
    let (log, statistics) = run(&[from_peer(0, end, ACK | FIN, &[]), from_peer(1, 5, ACK, &only)]);
    assert_eq!(payloads(&log), [only]);
    assert_eq!(statistics.missing_bytes, 0);
}

#[test]
fn assigns_bytes_after_fin_to_new_connection() {
    let (one, other) = (keepalive(), update(&[3], [3, 3, 3]));
    let begin = [
        from_peer(0, 0, SYN, &[]),
        from_peer(1, 1, ACK | FIN, &one),
        // A late segment of the old stream.
        from_peer(900, 1, ACK, &one),
    ];
    // The first connection is closed only when the SYN of the second one is captured.
    let hole = [
        from_peer(0, 0, SYN, &[]),
        from_peer(1, 1, ACK, &one),
        from_peer(2, 40, ACK | FIN, &one),
        from_peer(90_000, 0x5000_0000, SYN, &[]),
        from_peer(90_001, 0x5000_0001, ACK, &[]),
        from_peer(90_002, 0x5000_0001, ACK, &other),
    ];
    let (log, _) = run(&hole);
    // Nothing shows that the bytes after the gap are a message.
    assert_eq!(payloads(&log), [one.clone(), other.clone()]);
    assert_eq!(log.holes.len(), 1);
    assert!(log.closes.starts_with(&[(End::Low, Close::Finished)]), "{:?}", log.closes);
    for sequence in [40, 0x5000_0000, 0xb000_0000] {
        // The SYN was lost.
        let middle = from_peer(1500, sequence, ACK, &other);
        let (log, _) = run(&[&begin[..], &[middle]].concat());
        assert_eq!(payloads(&log), [one.clone(), other.clone()], "{sequence}");
        assert_eq!(log.opened, 2);
    }
}

/// The capture ends before the gap times out: the end of the connection is reported nevertheless.
#[test]
fn reports_pending_end_at_end_of_capture() {
    let one = keepalive();
    for (flags, close) in [(FIN | ACK, Close::Finished), (RST, Close::Reset)] {
        for at in [20, 39] {
            let (log, _) = run(&[
                from_peer(0, 0, SYN, &[]),
                from_peer(1, 1, ACK, &one),
                from_peer(2, at, flags, &[]),
            ]);
            assert_eq!(payloads(&log), std::slice::from_ref(&one));
            assert_eq!(log.closes[0], (End::Low, close), "{flags} {at}");
        }
    }
}

#[test]
fn waits_for_late_acknowledged_segment() {
    let stream = [keepalive(), update(&[7], [1, 1, 1]), keepalive()].concat();
    for (gap_timeout, messages) in [(200, 1), (30_000, 3)] {
        let acknowledged_timeout = Span::from_millis(gap_timeout);
        let settings = Settings { acknowledged_timeout, ..Settings::default() };
        let mut reassembler = Reassembler::new(settings);
        let mut log = Log::default();
        for segment in [
            from_peer(0, 0, SYN, &[]),
            from_router(0, 0, 1, SYN),
            from_peer(1, 1, ACK, &stream[..19]),
            from_peer(2, 50, ACK, &stream[49..]),
            from_router(3, 1, 1 + stream.len() as u32, 0),
            from_router(9_000, 1, 1 + stream.len() as u32, 0),
            from_peer(9_001, 20, ACK, &stream[19..49]),
        ] {
            reassembler.segment(&segment, &mut log);
        }
        assert_eq!(log.messages.len(), messages);
    }
}

/// The gap covers the start of a message. The search covers exactly the maximum length, which is
/// 65,535 bytes once a message of more than 4,096 bytes was captured.
#[test]
fn ends_search_after_maximum_length() {
    for (longest, first) in [(4_096, 40), (65_535, 1_020)] {
        let first = update(&vec![7; first], [0; 3]);
        let own = (0..2_000_u16).map(|number| {
            let [high, low] = number.to_be_bytes();
            update(&[7], [20, high, low])
        });
        let messages: Vec<Vec<u8>> = [first].into_iter().chain(own).collect();
        let (stream, cut) = (messages.concat(), messages[0].len());
        assert_eq!(cut > 4_096, longest == 65_535);
        for lost in [1, 18, messages[1].len(), messages[1].len() + 1] {
            let from = cut + lost;
            let mut segments =
                vec![from_peer(0, 0, SYN, &[]), from_peer(1, 1, ACK, &stream[..cut])];
            let parts = stream[from..].chunks(1448).enumerate();
            segments.extend(parts.map(|(at, part)| {
                from_peer(2 + at as u64, (1 + from + at * 1448) as u32, ACK, part)
            }));
            let (log, _) = run(&segments);
            let boundary = cut + (from + longest - cut).next_multiple_of(messages[1].len());
            let rest = stream[boundary..].to_vec();
            assert_eq!(payloads(&log)[1..].concat(), rest, "{longest} {lost}");
        }
    }
}

#[derive(Clone, Debug)]
struct Damage {
    cuts: Vec<usize>,
    lost: Vec<bool>,
    swaps: Vec<usize>,
    repeated: Vec<bool>,
    syn: bool,
    initial: u32,
}

fn damage() -> impl Strategy<Value = Damage> {
    (
        prop::collection::vec(1usize..90, 200),
        prop::collection::vec(prop::bool::weighted(0.06), 200),
        prop::collection::vec(prop_oneof![8 => Just(0usize), 1 => 1usize..8], 200),
        prop::collection::vec(prop::bool::weighted(0.1), 200),
        any::<bool>(),
        any::<u32>(),
    )
        .prop_map(|(cuts, lost, swaps, repeated, syn, initial)| Damage {
            cuts,
            lost,
            swaps,
            repeated,
            syn,
            initial,
        })
}

fn messages() -> impl Strategy<Value = Vec<Vec<u8>>> {
    let communities = prop::collection::vec(prop_oneof![any::<u32>(), Just(u32::MAX)], 0..20);
    let one = prop_oneof![
        2 => Just(keepalive()),
        5 => (communities, any::<[u8; 3]>()).prop_map(|(c, prefix)| update(&c, prefix)),
    ];
    prop::collection::vec(one, 1..300)
}

/// The length in the header at a position, if it may be the header of a message.
fn header(stream: &[u8], at: usize) -> Option<usize> {
    let header = stream.get(at..at + 19).filter(|header| header[0] == 0xff)?;
    let length = usize::from(u16::from_be_bytes([header[16], header[17]]));
    let min = [0, 29, 23, 21, 19, 23].get(usize::from(header[18])).filter(|min| **min > 0)?;
    let is_possible = length >= *min && (header[18] != 4 || length == 19);
    (header[..16] == [0xff; 16] && is_possible).then_some(length)
}

/// Boundary at which a search that starts at `from` ends: all chains of headers after the maximum
/// length have ended, or have met the real one.
fn search_end(stream: &[u8], starts: &BTreeSet<usize>, from: usize) -> usize {
    let mut end = from + bgp::message::MAX;
    let is_false = |at: &usize| header(stream, *at).is_some() && !starts.contains(at);
    for at in (from..end).filter(is_false) {
        let mut next = at;
        while !starts.contains(&next)
            && let Some(length) = header(stream, next).filter(|length| *length <= 4096)
        {
            next += length;
        }
        end = end.max(next);
    }
    end
}

/// Complete messages (`Some`), and which of them must be delivered: those whose start follows from
/// the stream's start, from a header before the gap, or from the end of a search.
fn sure(messages: &[Vec<u8>], present: &[bool], syn: bool) -> Vec<Option<bool>> {
    let stream = messages.concat();
    let lengths = messages.iter().scan(0, |at, message| {
        *at += message.len();
        Some(*at - message.len())
    });
    let starts: BTreeSet<usize> = lengths.collect();
    let (mut known, mut at) = (syn, 0);
    let mut search = search_end(&stream, &starts, 0);
    let mut all = Vec::new();
    for message in messages {
        let there = &present[at..at + message.len()];
        let whole = there.iter().all(|there| *there);
        known |= whole && at >= search;
        all.push(whole.then_some(known));
        if let Some(last) = there.iter().rposition(|there| !*there) {
            let header = there.len() >= 19 && there[..19].iter().all(|there| *there);
            known &= header;
            search = search_end(&stream, &starts, at + last + 1);
        }
        at += message.len();
    }
    all
}

/// Whether `received` equals the sent messages, except for missing ones that are not required.
fn is_explained(messages: &[Vec<u8>], sure: &[Option<bool>], received: &[Vec<u8>]) -> bool {
    let mut reached = BTreeSet::from([0]);
    for (message, sure) in messages.iter().zip(sure) {
        let mut next = BTreeSet::new();
        for at in reached {
            if sure.is_some() && received.get(at) == Some(message) {
                next.insert(at + 1);
            }
            if *sure != Some(true) {
                next.insert(at);
            }
        }
        reached = next;
    }
    reached.contains(&received.len())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    /// Only sent messages are delivered, in order, including all those with a certain boundary;
    /// each byte is accounted for.
    #[test]
    fn delivers_sent_messages_and_reports_each_loss(
        messages in messages(), damage in damage()
    ) {
        let stream = messages.concat();
        let mut present = vec![false; stream.len()];
        let mut pieces = Vec::new();
        let (mut at, mut number) = (0, 0);
        while at < stream.len() {
            let length = damage.cuts[number % 200].min(stream.len() - at);
            // Without gaps, the first and the last message are always captured.
            let edge = at == 0 || at + length == stream.len();
            if edge || !damage.lost[number % 200] {
                pieces.push((at, length));
                present[at..at + length].fill(true);
                if damage.repeated[number % 200] {
                    pieces.push((at, length));
                }
            }
            at += length;
            number += 1;
        }
        for at in 0..pieces.len() {
            let with = (at + damage.swaps[at % 200]).min(pieces.len() - 1);
            pieces.swap(at, with);
        }
        let begins = damage.initial.wrapping_add(1);
        let mut segments = Vec::new();
        if damage.syn {
            segments.push(from_peer(0, damage.initial, SYN, &[]));
        }
        segments.extend(pieces.iter().enumerate().map(|(number, (at, length))| {
            let sequence = begins.wrapping_add(*at as u32);
            from_peer(number as u64 / 4, sequence, ACK, &stream[*at..at + length])
        }));
        let (log, statistics) = run(&segments);
        let received = payloads(&log);
        let sure = sure(&messages, &present, damage.syn);
        prop_assert!(is_explained(&messages, &sure, &received), "{:?}", log.holes);
        let missing = present.iter().filter(|there| !**there).count() as u64;
        prop_assert_eq!(statistics.missing_bytes, missing);
        let lost: u64 = log.holes.iter().map(|(_, hole)| hole.missing + hole.skipped).sum();
        prop_assert_eq!(lost, (stream.len() - received.concat().len()) as u64);
    }

    #[test]
    fn accepts_arbitrary_segments(
        segments in prop::collection::vec(
            (any::<u8>(), 0u32..3000, any::<u32>(), prop::collection::vec(any::<u8>(), 0..60),
             any::<bool>(), 0u64..100_000), 0..80)
    ) {
        let made: Vec<Segment<'_>> = segments
            .iter()
            .map(|(flags, sequence, acknowledgment, payload, router, ms)| {
                let mut segment = from_peer(*ms, *sequence, *flags, payload);
                segment.acknowledgment = *acknowledgment % 5000;
                if *router {
                    std::mem::swap(&mut segment.source, &mut segment.destination);
                }
                segment
            })
            .collect();
        run(&made);
    }
}
