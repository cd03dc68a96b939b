//! The end of a session in one direction, while bytes of the other one are held.

use super::*;
use crate::reassembly::ending::MAX_ENDING;

/// Segments of a session in which the second UPDATE of the peer was not captured: the events are
/// in the order of their times.
fn gap_before_end(last: &[Segment<'_>]) -> Vec<(u64, End, u8)> {
    let updates: Vec<u8> = (0..3).flat_map(|number| update(&[], [10, 0, number])).collect();
    let length = updates.len() / 3;
    let mut segments = vec![
        from_peer(0, 0, SYN, &[]),
        from_router(1, 0, 1, SYN),
        from_peer(2, 1, ACK, &updates[..length]),
        from_router(3, 1, 1 + length as u32, 0),
        from_router(1_000, 1, 1 + 2 * length as u32, 0),
        from_peer(2_000, 1 + 2 * length as u32, ACK, &updates[2 * length..]),
    ];
    segments.extend_from_slice(last);
    let mut reassembler = Reassembler::new(Settings {
        acknowledged_timeout: Settings::default().gap_timeout,
        ..Settings::default()
    });
    let mut log = Log::default();
    for segment in &segments {
        reassembler.segment(segment, &mut log);
    }
    reassembler.end(&mut log);
    assert_eq!((reassembler.memory(), reassembler.ending.len()), (0, 0));
    log.events
}

/// Bytes of an UPDATE in [`gap_before_end`].
const LENGTH: u32 = 31;

/// A segment of the router with bytes; it acknowledges all UPDATEs.
fn of_router(ms: u64, sequence: u32, flags: u8, payload: &[u8]) -> Segment<'_> {
    Segment { payload, ..from_router(ms, sequence, 1 + 3 * LENGTH, flags) }
}

const UPDATES: [(u64, End, u8); 2] = [(2, End::Low, 2), (2_000, End::Low, 2)];

#[test]
fn end_follows_held_bytes_of_other_direction() {
    let cease = message(3, &[6, 2]);
    let closed = |ms, from| (ms, from, CLOSED);
    // A NOTIFICATION and a FIN, with other sessions' packets until the gap expires, or without.
    let end = [of_router(3_000, 1, 0, &cease), of_router(3_001, 22, FIN, &[])];
    let other =
        |ms| Segment { source: "10.9.9.9:179".parse().unwrap(), ..from_peer(ms, 1, SYN, &[]) };
    for others in [&[][..], &[other(20_000), other(32_500), other(33_000)]] {
        let events = gap_before_end(&[&end, others].concat());
        assert_eq!(events[..3], [&UPDATES[..], &[(3_000, End::High, 3)]].concat());
        assert!(events.contains(&closed(3_001, End::High)), "{events:?}");
    }
    // Only a FIN, or a reset of either end.
    let fin = gap_before_end(&[of_router(3_000, 1, FIN, &[]), other(40_000)]);
    assert_eq!(fin[..3], [&UPDATES[..], &[closed(3_000, End::High)]].concat());
    let resets = [of_router(3_000, 1, RST, &[]), from_peer(3_000, 1 + 3 * LENGTH, RST | ACK, &[])];
    for reset in resets {
        let events = gap_before_end(&[reset, other(40_000)]);
        let both = [closed(3_000, End::Low), closed(3_000, End::High)];
        assert_eq!(events[..4], [&UPDATES[..], &both].concat());
    }
}

#[test]
fn end_precedes_new_connection_of_same_addresses() {
    let cease = message(3, &[6, 2]);
    let keepalive = keepalive();
    let again = |ms, sequence, flags, payload| {
        let source = "10.0.0.1:40001".parse().unwrap();
        Segment { source, ..from_peer(ms, sequence, flags, payload) }
    };
    let new = [again(3_100, 9, SYN, &[]), again(3_120, 10, ACK, &keepalive[..])];
    let fin = |sequence| of_router(3_001, sequence, FIN, &[]);
    let of_peer = |flags| from_peer(3_001, 1 + 3 * LENGTH, ACK | flags, &[]);
    let closed = |from| (3_001, from, CLOSED);
    let (low, high) = (closed(End::Low), closed(End::High));
    let notification = (3_000, End::High, 3);
    for (end, last) in [
        (&[of_router(3_000, 1, 0, &cease), fin(22)][..], &[notification, high][..]),
        (&[fin(1)], &[high]),
        (&[of_peer(FIN)], &[low]),
        (&[fin(1), of_peer(FIN)], &[low, high]),
        (&[of_router(3_001, 1, RST, &[])], &[low, high]),
        (&[of_peer(RST)], &[low, high]),
        // The end was not captured.
        (&[], &[]),
    ] {
        let events = gap_before_end(&[end, &new].concat());
        let all = [&UPDATES[..], last, &[(3_120, End::Low, 4)]].concat();
        assert_eq!(events[..all.len()], all, "{end:?}");
    }
}

/// Its SYN was not captured, and the earlier connection of the same ports awaits bytes.
#[test]
fn bytes_of_new_connection_without_syn_do_not_belong_to_earlier_one() {
    let keepalive = keepalive();
    let (of_peer, of_router) = (2_000_000_001, 3_000_000_001);
    let (log, statistics) = run(&[
        from_peer(0, 0, SYN, &[]),
        from_router(1, 0, 1, SYN),
        from_peer(2, 60, ACK, &keepalive),
        from_router(3_000, of_router - 1, of_peer, SYN),
        Segment { acknowledgment: of_router, ..from_peer(3_001, of_peer, ACK, &keepalive) },
        Segment { payload: &keepalive, ..from_router(3_002, of_router, of_peer + 19, 0) },
    ]);
    let messages = [End::Low, End::High].map(|from| (from, keepalive.clone()));
    assert!(messages.iter().all(|message| log.messages.contains(message)), "{log:?}");
    assert_eq!((statistics.missing_bytes, statistics.skipped_bytes), (59, 19));
    assert_eq!((statistics.out_of_window, log.messages.len()), (0, 2));
}

/// The start and the end of the earlier connection were not captured, and neither were enough
/// bytes to find a message boundary.
#[test]
fn new_connection_follows_unconfirmed_messages_of_earlier_one() {
    let open = message(1, &[4, 0, 1, 0, 90, 10, 0, 0, 1, 0]);
    let first = [open.clone(), keepalive()].concat();
    let again = |ms, sequence, flags, payload| {
        let source = "10.0.0.1:40001".parse().unwrap();
        Segment { source, ..from_peer(ms, sequence, flags, payload) }
    };
    let mut reassembler = Reassembler::new(Settings::default());
    let mut log = Log::default();
    reassembler.segment(&from_peer(0, 1, ACK, &first), &mut log);
    reassembler.segment(&again(3_000, 9, SYN, &[]), &mut log);
    reassembler.segment(&again(3_020, 10, ACK, &open), &mut log);
    assert_eq!(log.events, [(0, End::Low, 1), (0, End::Low, 4), (3_020, End::Low, 1)]);
}

/// A late segment fills the gap: the end still follows it.
#[test]
fn end_follows_late_segment_of_other_direction() {
    let late: Vec<u8> = update(&[], [10, 0, 1]);
    let cease = message(3, &[6, 2]);
    let end = [
        of_router(3_000, 1, 0, &cease),
        of_router(3_001, 22, FIN, &[]),
        from_peer(9_000, 1 + LENGTH, ACK, &late),
    ];
    let events = gap_before_end(&end);
    let updates = [(2, End::Low, 2), (9_000, End::Low, 2), (9_000, End::Low, 2)];
    assert_eq!(events[..4], [&updates[..], &[(3_000, End::High, 3)]].concat());
}

/// Messages after a NOTIFICATION are held up to a byte limit, for a limited number of connections.
#[test]
fn limits_ends_that_wait() {
    let many: Vec<u8> = std::iter::once(message(3, &[6, 2]))
        .chain((0..4_000).map(|_| keepalive()))
        .flatten()
        .collect();
    let mut segments = Vec::new();
    for (number, part) in many.chunks(1_400).enumerate() {
        segments.push(of_router(3_000, 1 + 1_400 * number as u32, 0, part));
    }
    let mut all = Reassembler::new(Settings {
        acknowledged_timeout: Settings::default().gap_timeout,
        ..Settings::default()
    });
    let mut log = Log::default();
    let gap = update(&[], [10, 0, 2]);
    all.segment(&from_peer(0, 0, SYN, &[]), &mut log);
    all.segment(&from_router(1, 0, 1, SYN), &mut log);
    all.segment(&from_peer(2, 50, ACK, &gap), &mut log);
    for segment in &segments {
        all.segment(segment, &mut log);
        assert!(all.memory() < MAX_LAST_BYTES + (64 << 10), "{}", all.memory());
    }
    assert_eq!(log.messages.len(), 4_001);
    let cease = message(3, &[6, 2]);
    for number in 0..3 * MAX_ENDING as u16 {
        let peer = |sequence, flags, payload| {
            let mut segment = from_peer(3_100, sequence, flags, payload);
            segment.source.set_ip(std::net::Ipv4Addr::from(0x0a01_0000 + u32::from(number)).into());
            segment
        };
        let router = |sequence, flags, payload| {
            let peer = peer(sequence, flags | ACK, payload);
            Segment {
                source: peer.destination,
                destination: peer.source,
                acknowledgment: 1,
                ..peer
            }
        };
        all.segment(&peer(0, SYN, &[]), &mut log);
        all.segment(&router(0, SYN, &[]), &mut log);
        all.segment(&peer(50, ACK, &gap), &mut log);
        all.segment(&router(1, 0, &cease), &mut log);
        assert!(all.ending.len() <= MAX_ENDING);
    }
    all.end(&mut log);
    assert_eq!((all.memory(), log.opened), (0, log.ended));
    let notifications = log.messages.iter().filter(|(_, bytes)| bytes[18] == 3).count();
    assert_eq!(notifications, 1 + 3 * MAX_ENDING);
}
