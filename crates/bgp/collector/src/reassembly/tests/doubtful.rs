//! Segments that may be merged: used if the receiver acknowledged them, and no other copy exists.

use super::*;

fn doubtful(ms: u64, sequence: u32, payload: &[u8]) -> Segment<'_> {
    Segment { checksum: Checksum::Doubtful, ..from_peer(ms, sequence, ACK, payload) }
}

/// The SYNs of both ends; the first bytes of each have the number 1.
fn handshake() -> Vec<Segment<'static>> {
    vec![from_peer(0, 0, SYN, &[]), from_router(1, 0, 1, SYN)]
}

fn updates() -> [Vec<u8>; 3] {
    [1, 2, 3].map(|number| update(&[7, 8], [10, 0, number]))
}

/// Sequence number after `messages`.
fn after(messages: &[Vec<u8>]) -> u32 {
    1 + messages.concat().len() as u32
}

#[test]
fn uses_acknowledged_segment_without_other_copy() {
    let all = updates();
    for is_last in [false, true] {
        let mut segments = handshake();
        segments.push(from_peer(10, 1, ACK, &all[0]));
        segments.push(doubtful(11, after(&all[..1]), &all[1]));
        if !is_last {
            segments.push(from_peer(12, after(&all[..2]), ACK, &all[2]));
        }
        let count = 3 - usize::from(is_last);
        segments.push(from_router(13, 1, after(&all[..count]), ACK));
        segments.push(from_router(500, 1, after(&all[..count]), ACK));
        let (log, statistics) = run(&segments);
        assert_eq!(payloads(&log), all[..count], "{:?}", log.holes);
        assert_eq!((log.holes.len(), statistics.missing_bytes), (0, 0));
        let times: Vec<u64> = log.events.iter().map(|(time, ..)| *time).take(count).collect();
        assert_eq!(times, [10, 11, 12][..count]);
    }
}

#[test]
fn prefers_retransmission_with_correct_checksum() {
    let all = updates();
    let mut damaged = all[1].clone();
    damaged[30] ^= 4;
    // The retransmission is shorter in the second case, so that both copies have some bytes.
    for split in [all[1].len(), 40] {
        let mut segments = handshake();
        segments.push(from_peer(10, 1, ACK, &all[0]));
        segments.push(doubtful(11, after(&all[..1]), &damaged));
        segments.push(from_peer(12, after(&all[..2]), ACK, &all[2]));
        segments.push(from_router(13, 1, after(&all[..1]), ACK));
        segments.push(from_peer(150, after(&all[..1]), ACK, &all[1][..split]));
        segments.push(from_router(151, 1, after(&all), ACK));
        segments.push(from_router(900, 1, after(&all), ACK));
        let (log, statistics) = run(&segments);
        assert_eq!((payloads(&log), statistics.missing_bytes), (all.to_vec(), 0), "{split}");
    }
}

#[test]
fn drops_segment_that_is_not_acknowledged() {
    let all = updates();
    let mut segments = handshake();
    segments.push(from_peer(10, 1, ACK, &all[0]));
    segments.push(doubtful(11, after(&all[..1]), &all[1]));
    segments.push(from_peer(12, after(&all[..2]), ACK, &all[2]));
    segments.push(from_router(13, 1, after(&all[..1]), ACK));
    segments.push(from_router(60_000, 1, after(&all[..1]), ACK));
    let (log, statistics) = run(&segments);
    assert!(!payloads(&log).contains(&all[1]));
    assert_eq!(statistics.missing_bytes, all[1].len() as u64);
}

#[test]
fn gap_before_segment_has_only_lost_bytes() {
    let all = updates();
    let (start, lost) = all[0].split_at(30);
    let mut segments = handshake();
    segments.push(from_peer(10, 1, ACK, start));
    segments.push(doubtful(11, after(&all[..1]), &all[1]));
    segments.push(from_peer(12, after(&all[..2]), ACK, &all[2]));
    segments.push(from_router(13, 1, after(&all), ACK));
    segments.push(from_router(900, 1, after(&all), ACK));
    let (log, statistics) = run(&segments);
    let missing = lost.len() as u64;
    assert_eq!((log.holes[0].1.missing, statistics.missing_bytes), (missing, missing));
    assert_eq!(payloads(&log), all[1..]);
}

#[test]
fn limits_memory_of_doubtful_segments() {
    let settings = Settings { out_of_order: Bytes::new(10_000), ..Settings::default() };
    let (mut reassembler, mut log) = (Reassembler::new(settings), Log::default());
    let payload = [7; 1_000];
    for segment in handshake() {
        reassembler.segment(&segment, &mut log);
    }
    for number in 0..1_000 {
        let at = 1 + number * 1_000;
        reassembler.segment(&doubtful(10, at, &payload), &mut log);
        assert!(reassembler.memory() < 50_000, "{}", reassembler.memory());
    }
    reassembler.end(&mut log);
    assert_eq!((reassembler.memory(), log.messages.len()), (0, 0));
}
