use super::*;

/// A connection with a window of about 40 segments, then a hundred segments more.
fn lossy(indices: &'static [u64]) -> Pipe {
    let mut pipe = Pipe::new(&reno(), millis(20)).established().dropping(indices);
    pipe.transfer(150_000);
    pipe
}

#[test]
fn repairs_one_loss_within_a_round_trip() {
    let pipe = lossy(&[60]);
    let statistics = pipe.client.statistics();
    assert_eq!((statistics.retransmits, statistics.timeouts, statistics.recoveries), (1, 0, 1));
    assert_eq!(statistics.spurious, 0);
    let seq = pipe.sent_by(Side::Client).find(|entry| entry.fate == Fate::Drop);
    let lost = seq.expect("one was dropped");
    let again = pipe.sent_by(Side::Client).filter(|entry| entry.segment.seq == lost.segment.seq);
    let times: Vec<_> = again.map(|entry| entry.at).collect();
    assert_eq!(times[1].since(times[0]), millis(40));
}

#[test]
fn repairs_a_burst_of_losses_without_a_timeout() {
    let pipe = lossy(&[60, 61, 62, 63, 64, 66, 68, 70]);
    let statistics = pipe.client.statistics();
    assert_eq!((statistics.retransmits, statistics.timeouts, statistics.recoveries), (8, 0, 1));
}

#[test]
fn the_window_is_halved_once() {
    let mut pipe = Pipe::new(&reno(), millis(20)).established().dropping(&[60, 62]);
    pipe.client.write(120_000);
    let mut before = Bytes::ZERO;
    while pipe.client.statistics().recoveries == 0 {
        before = pipe.client.statistics().cwnd;
        assert!(pipe.step(at_millis(10_000)));
    }
    let half = pipe.client.statistics().ssthresh;
    assert!(half.count().abs_diff(before.count() / 2) <= 1_000, "{half} of {before}");
    pipe.run(millis(200));
    assert_eq!(pipe.client.statistics().recoveries, 1);
    assert!(pipe.client.statistics().cwnd >= half);
}

#[test]
fn a_lost_tail_is_probed() {
    for lost in [&[49][..], &[48, 49], &[45, 46, 47, 48, 49]] {
        let mut pipe = Pipe::new(&reno(), millis(20)).established().dropping(lost);
        let took = pipe.transfer(50_000);
        let statistics = pipe.client.statistics();
        assert_eq!((statistics.timeouts, statistics.probes), (0, 1), "{lost:?}");
        assert_eq!(statistics.retransmits, lost.len() as u64);
        assert!(took < millis(500), "{took}");
        // A later acknowledgement shows whether the probe repaired a loss.
        pipe.transfer(1_000);
        assert_eq!(pipe.client.statistics().recoveries, 1, "the loss was answered");
    }
}

#[test]
fn a_probe_that_was_not_needed_reduces_nothing() {
    // Acknowledgements are late from some time on: later than the probe, but before the timeout.
    let mut pipe = Pipe::new(&reno(), millis(20)).established().script(|entry| {
        let late = entry.from == Side::Server && entry.at > at_millis(300);
        if late { Fate::Late(millis(150)) } else { Fate::Deliver }
    });
    pipe.transfer(20_000);
    pipe.run(millis(300));
    pipe.transfer(5_000);
    pipe.run(millis(500));
    let statistics = pipe.client.statistics();
    assert_eq!((statistics.probes, statistics.timeouts), (1, 0));
    assert_eq!((statistics.recoveries, statistics.spurious), (0, 1));
}

#[test]
fn lost_retransmissions_are_sent_again_without_a_timeout() {
    let mut seen = 0;
    let mut pipe = Pipe::new(&reno(), millis(20)).established().script(move |entry| {
        let again = entry.segment.length > 0 && entry.segment.seq == 60_000_u32.wrapping_sub(7_000);
        seen += u32::from(again);
        if again && seen <= 3 { Fate::Drop } else { Fate::Deliver }
    });
    pipe.transfer(400_000);
    let statistics = pipe.client.statistics();
    assert_eq!((statistics.retransmits, statistics.timeouts), (3, 0));
}

#[test]
fn selective_acknowledgements_name_the_most_recent_first() {
    let mut pipe = Pipe::new(&reno(), millis(20)).established().dropping(&[2, 4, 6, 8]);
    pipe.client.write(10_000);
    pipe.run(millis(30));
    let isn = u32::MAX - 7_000;
    let blocks =
        |from: u32, to: u32| (isn.wrapping_add(1 + from * 1_000), isn.wrapping_add(1 + to * 1_000));
    let last = pipe.sent_by(Side::Server).last().expect("acknowledgements").segment;
    assert_eq!(last.ack, blocks(2, 2).0);
    assert_eq!(last.sack(), [blocks(9, 10), blocks(7, 8), blocks(5, 6)]);
    let counts: Vec<_> =
        pipe.sent_by(Side::Server).map(|entry| entry.segment.sack().len()).skip(1).collect();
    assert_eq!(counts, [0, 0, 1, 2, 3, 3]);
    pipe.run(millis(1_000));
    assert_eq!(pipe.server.received(), 10_000);
    assert!(pipe.sent_by(Side::Server).last().expect("one").segment.sack().is_empty());
}

#[test]
fn duplicates_are_reported_once() {
    let mut pipe = Pipe::new(&reno(), millis(20)).established().script(|entry| {
        let twice = entry.segment.length > 0 && entry.index == 3;
        if twice { Fate::Twice(millis(5)) } else { Fate::Deliver }
    });
    pipe.transfer(10_000);
    pipe.run(millis(100));
    let reports: Vec<_> =
        pipe.sent_by(Side::Server).filter(|entry| !entry.segment.sack().is_empty()).collect();
    assert_eq!(reports.len(), 1);
    let (start, end) = reports[0].segment.sack()[0];
    assert_eq!(end.wrapping_sub(start), 1_000);
    assert_eq!(pipe.client.statistics().spurious, 1);
    assert_eq!(pipe.client.statistics().retransmits, 0);
}

#[test]
fn limited_transmit_keeps_small_windows_from_timeouts() {
    let config = Config { initial_window: 2, ..reno() };
    let mut pipe = Pipe::new(&config, millis(20)).established().dropping(&[0]);
    pipe.client.write(2_000);
    pipe.run(millis(30));
    // The second segment is selectively acknowledged: a new one may be sent although
    // the window is 2.
    pipe.client.write(8_000);
    pipe.run(millis(400));
    let statistics = pipe.client.statistics();
    assert_eq!((pipe.server.received(), statistics.timeouts), (10_000, 0));
}

#[test]
fn losses_of_acknowledgements_do_not_matter() {
    let mut pipe = Pipe::new(&reno(), millis(20)).established().script(|entry| {
        let lost = entry.from == Side::Server && entry.at.as_nanos() / 1_000_000 % 3 != 0;
        if lost { Fate::Drop } else { Fate::Deliver }
    });
    pipe.set_nanos_per_byte(100);
    pipe.transfer(1_000_000);
    assert_eq!(pipe.client.statistics().recoveries, 0);
}

/// Mathis, Semke, Mahdavi and Ott (1997): rate = MSS / RTT · sqrt(3 / 2p) under random losses.
#[test]
fn throughput_follows_the_square_root_of_losses() {
    for (per_thousand, seconds) in [(1, 500), (5, 300), (20, 300)] {
        let mut rng = base::RandomStream::new(per_thousand, "losses");
        let mut pipe = Pipe::new(&reno(), millis(50)).established().script(move |entry| {
            let lost = entry.segment.length > 0 && rng.below(1_000) < per_thousand;
            if lost { Fate::Drop } else { Fate::Deliver }
        });
        pipe.logging = false;
        pipe.set_nanos_per_byte(80);
        pipe.client.write_unlimited();
        pipe.run(Span::from_secs(20));
        let before = pipe.client.acked();
        pipe.run(Span::from_secs(seconds));
        let rate = (pipe.client.acked() - before) as f64 / seconds as f64;
        let law = 1_000.0 / 0.1 * (1.5 / (per_thousand as f64 / 1_000.0)).sqrt();
        let ratio = rate / law;
        assert!((0.8..1.15).contains(&ratio), "{ratio} at {per_thousand} ‰");
    }
}
