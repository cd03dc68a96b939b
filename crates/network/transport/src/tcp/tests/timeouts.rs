use super::*;

#[test]
fn timeouts_back_off_until_something_arrives() {
    let mut pipe = Pipe::new(&reno(), millis(20)).established();
    pipe.transfer(20_000);
    pipe.run(millis(200));
    let start = pipe.now;
    let dark = start + Span::from_secs(20);
    pipe = pipe.script(move |entry| if entry.at < dark { Fate::Drop } else { Fate::Deliver });
    pipe.client.write(5_000);
    pipe.run_until(dark);
    let times: Vec<_> =
        pipe.sent_by(Side::Client).map(|entry| entry.at).filter(|&at| at > start).collect();
    let gaps: Vec<_> = times.windows(2).map(|pair| pair[1].since(pair[0])).collect();
    // The probe, then timeouts that double.
    assert!(gaps.len() >= 5, "{gaps:?}");
    let doubled = gaps.windows(2).skip(1).all(|pair| pair[1] == pair[0] * 2);
    assert!(doubled, "{gaps:?}");
    pipe.run(Span::from_secs(30));
    assert_eq!(pipe.server.received(), 25_000);
    assert!(pipe.client.statistics().timeouts >= 5);
    // Back to normal.
    let took = pipe.transfer(5_000);
    assert!(took < millis(200), "{took}");
}

#[test]
fn the_shortest_timeout_is_configured() {
    for (min_rto, expected) in [(millis(200), 240), (millis(50), 90), (Span::from_secs(1), 1_040)] {
        let config = Config { min_rto, ..reno() };
        let mut pipe = Pipe::new(&config, millis(20)).established();
        for _ in 0..30 {
            pipe.transfer(20_000);
        }
        let now = pipe.now;
        pipe = pipe.script(|_| Fate::Drop);
        pipe.client.write(1_000);
        pipe.flush();
        let rto = pipe.client.next_wake().expect("armed").since(now);
        assert!(rto.as_nanos() / 1_000_000 == expected, "{rto} for {min_rto}");
    }
}

#[test]
fn times_out_when_the_peer_is_dead() {
    let mut pipe = Pipe::new(&reno(), millis(20)).established();
    pipe = pipe.script(|_| Fate::Drop);
    pipe.client.write(1_000);
    pipe.run(Span::from_secs(4_000));
    assert_eq!(pipe.client.ended(), Some(End::TimedOut));
    assert!(
        (15..=17).contains(&pipe.sent_by(Side::Client).filter(|e| e.segment.length > 0).count())
    );
}

#[test]
fn a_spurious_timeout_is_undone() {
    // For 1 s no segment arrives, then all arrive: no loss.
    let mut pipe = Pipe::new(&reno(), millis(20)).established();
    pipe.set_nanos_per_byte(1_000);
    pipe.client.write_unlimited();
    pipe.run(millis(300));
    let (from, to) = (pipe.now, pipe.now + millis(900));
    pipe = pipe.script(move |entry| {
        let held = entry.from == Side::Server && entry.at >= from && entry.at < to;
        if held { Fate::Late(to.since(entry.at)) } else { Fate::Deliver }
    });
    let before = pipe.client.statistics();
    pipe.run(millis(1_500));
    let after = pipe.client.statistics();
    assert!(after.timeouts >= 1, "{after:?}");
    assert!(after.undone >= 1, "{after:?}");
    assert!(after.cwnd >= before.cwnd, "{} after {}", after.cwnd, before.cwnd);
    assert!(after.retransmits - before.retransmits <= 4, "{after:?}");
}

#[test]
fn recovers_from_the_loss_of_a_whole_window() {
    let mut pipe = Pipe::new(&reno(), millis(20)).established();
    pipe.transfer(100_000);
    let gap = (pipe.now, pipe.now + millis(150));
    pipe =
        pipe.script(
            move |entry| {
                if entry.at >= gap.0 && entry.at < gap.1 { Fate::Drop } else { Fate::Deliver }
            },
        );
    let took = pipe.transfer(200_000);
    assert!(took < millis(1_500), "{took}");
    let statistics = pipe.client.statistics();
    assert_eq!(statistics.spurious, 0, "{statistics:?}");
}
