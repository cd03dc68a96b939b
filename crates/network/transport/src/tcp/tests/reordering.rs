use super::*;

#[test]
fn adapts_to_reordering_within_a_quarter_of_the_round_trip() {
    // Every tenth segment is late by 8 ms of 40.
    let mut pipe = Pipe::new(&reno(), millis(20)).established().script(|entry| {
        let late = entry.segment.length > 0 && entry.index % 10 == 5;
        if late { Fate::Late(millis(8)) } else { Fate::Deliver }
    });
    pipe.set_nanos_per_byte(1_000);
    pipe.transfer(400_000);
    let before = pipe.client.statistics();
    assert!(before.retransmits <= 4, "{before:?}");
    pipe.transfer(2_000_000);
    let after = pipe.client.statistics();
    assert!(after.retransmits <= before.retransmits + 1, "{after:?} after {before:?}");
    assert_eq!(after.timeouts, 0);
}

#[test]
fn duplicates_widen_the_window_and_undo_the_reduction() {
    // Late by 18 ms of 40: more than a quarter, less than half.
    let mut pipe = Pipe::new(&reno(), millis(20)).established().script(|entry| {
        let late = entry.segment.length > 0 && entry.index % 20 == 15;
        if late { Fate::Late(millis(18)) } else { Fate::Deliver }
    });
    pipe.set_nanos_per_byte(1_000);
    pipe.transfer(500_000);
    let before = pipe.client.statistics();
    assert!(before.spurious > 0 && before.undone > 0, "{before:?}");
    assert_eq!(before.timeouts, 0);
    pipe.transfer(500_000);
    let after = pipe.client.statistics();
    // The changes of the queue may exceed the part of the window that the path's reordering leaves.
    assert!(after.retransmits <= before.retransmits + 1, "{after:?}");
}

#[test]
fn losses_are_found_although_segments_are_reordered() {
    let mut pipe = Pipe::new(&reno(), millis(20)).established().script(|entry| {
        let data = entry.segment.length > 0;
        match entry.index {
            index if data && index % 10 == 5 => Fate::Late(millis(6)),
            index if data && index % 50 == 40 => Fate::Drop,
            _ => Fate::Deliver,
        }
    });
    pipe.set_nanos_per_byte(1_000);
    pipe.transfer(1_000_000);
    let statistics = pipe.client.statistics();
    assert_eq!(statistics.timeouts, 0);
    let dropped = pipe.log.iter().filter(|entry| entry.fate == Fate::Drop).count();
    assert!(statistics.retransmits <= dropped as u64 + 3, "{statistics:?}, {dropped} dropped");
}

#[test]
fn blocks_and_payload_share_a_segment() {
    // Both ends send, and each loses some segments: SACK blocks that do not fit follow later.
    let mut pipe = Pipe::new(&reno(), millis(20)).established().script(|entry| {
        let lost = entry.segment.length > 0 && entry.index % 30 == 20;
        if lost { Fate::Drop } else { Fate::Deliver }
    });
    pipe.set_nanos_per_byte(1_000);
    pipe.server.write(500_000);
    pipe.transfer(500_000);
    let most = 1000 + Segment::default().header_bytes();
    let length =
        |entry: &pipe::Entry| u32::from(entry.segment.length) + entry.segment.header_bytes();
    assert!(pipe.log.iter().all(|entry| length(entry) <= most));
    let statistics = pipe.client.statistics();
    let dropped = pipe.sent_by(Side::Client).filter(|entry| entry.fate == Fate::Drop).count();
    assert_eq!(statistics.timeouts, 0, "{statistics:?}");
    assert!(statistics.retransmits <= dropped as u64 + 3, "{statistics:?}, {dropped} dropped");
}
