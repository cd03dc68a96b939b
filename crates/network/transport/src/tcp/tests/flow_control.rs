use super::*;

#[test]
fn acknowledgements_are_delayed_after_the_start() {
    let mut pipe = Pipe::new(&reno(), millis(5)).established();
    pipe.transfer(16_000);
    // Acknowledged at once at the start, except segments that are acknowledged in pairs anyway.
    assert_eq!(pipe.pure_acks(Side::Server), 16);
    pipe.run(millis(100));
    let before = pipe.pure_acks(Side::Server);
    pipe.transfer(20_000);
    assert_eq!(pipe.pure_acks(Side::Server) - before, 10, "every second segment");
    let before = pipe.pure_acks(Side::Server);
    let took = pipe.transfer(1_000);
    assert_eq!(pipe.pure_acks(Side::Server) - before, 1);
    assert_eq!(took, millis(50), "a round trip and the delay");
}

#[test]
fn an_answer_carries_the_acknowledgement() {
    let mut pipe = Pipe::new(&reno(), millis(5)).established();
    for _ in 0..5 {
        pipe.client.write(100);
        let goal = pipe.server.received() + 100;
        while pipe.server.received() < goal {
            pipe.step(at_millis(10_000));
        }
        pipe.server.write(200);
        let goal = pipe.client.received() + 200;
        while pipe.client.received() < goal {
            pipe.step(at_millis(10_000));
        }
    }
    assert!(pipe.pure_acks(Side::Server) <= 1, "{} acknowledgements", pipe.pure_acks(Side::Server));
}

#[test]
fn sends_window_probes_while_the_receive_buffer_is_full() {
    let config = Config { receive_window: Bytes::new(20_000), ..reno() };
    let mut pipe = Pipe::new(&config, millis(5)).established();
    pipe.reading = false;
    pipe.client.write(50_000);
    pipe.run(Span::from_secs(10));
    assert_eq!(pipe.server.readable(), 20_000);
    let probes: Vec<_> = pipe
        .sent_by(Side::Client)
        .filter(|entry| entry.at > at_millis(100) && entry.segment.length == 0)
        .map(|entry| entry.at)
        .collect();
    assert!((4..8).contains(&probes.len()), "{probes:?}");
    let gaps: Vec<_> = probes.windows(2).map(|pair| pair[1].since(pair[0])).collect();
    assert!(gaps.windows(2).all(|pair| pair[1] > pair[0]), "{gaps:?}");
    // A small read does not open a silly window; a large one opens the window at once.
    pipe.server.read(500);
    pipe.run(millis(1));
    assert_eq!(pipe.client.acked(), 20_000);
    let mark = pipe.now;
    pipe.server.read(15_000);
    pipe.run(millis(100));
    assert_eq!(pipe.server.received(), 35_500);
    assert!(pipe.sent_by(Side::Server).any(|entry| entry.at == mark));
    pipe.reading = true;
    pipe.server.read(35_000);
    pipe.run(millis(1_000));
    assert_eq!((pipe.server.received(), pipe.client.acked()), (50_000, 50_000));
}

#[test]
fn recovers_from_a_lost_window_update() {
    let config = Config { receive_window: Bytes::new(20_000), ..reno() };
    let mut pipe = Pipe::new(&config, millis(5)).established();
    pipe.reading = false;
    pipe.client.write(50_000);
    pipe.run(millis(100));
    let mut lost = false;
    pipe = pipe.script(move |entry| {
        let drop = !lost && entry.from == Side::Server;
        lost |= drop;
        if drop { Fate::Drop } else { Fate::Deliver }
    });
    pipe.reading = true;
    pipe.server.read(20_000);
    pipe.run(Span::from_secs(2));
    assert_eq!(pipe.server.received(), 50_000);
}

#[test]
fn nagle_delays_small_segments_without_nodelay() {
    for (nodelay, expected) in [(false, 2), (true, 5)] {
        let mut pipe = Pipe::new(&Config { nodelay, ..reno() }, millis(5)).established();
        for _ in 0..5 {
            pipe.client.write(100);
            pipe.flush();
        }
        pipe.run(millis(200));
        assert_eq!(pipe.server.received(), 500);
        let sent = pipe.sent_by(Side::Client).filter(|entry| entry.segment.length > 0);
        assert_eq!(sent.count(), expected, "nodelay {nodelay}");
    }
}

#[test]
fn keeps_in_flight_within_the_window() {
    let config = Config { receive_window: Bytes::new(30_000), ..reno() };
    let mut pipe = Pipe::new(&config, millis(50)).established();
    pipe.inspect = |pipe| {
        assert!(pipe.client.statistics().in_flight <= Bytes::new(30_000));
    };
    let took = pipe.transfer(300_000);
    assert!(took >= millis(900), "{took}: a window a round trip");
}

#[test]
fn idle_connections_fall_back_to_the_initial_window() {
    let mut pipe = Pipe::new(&reno(), millis(50)).established();
    pipe.transfer(400_000);
    assert!(pipe.client.statistics().cwnd > Bytes::new(100_000));
    pipe.run(Span::from_secs(60));
    pipe.client.write(400_000);
    let before = pipe.log.len();
    pipe.flush();
    let burst = pipe.log[before..].iter().filter(|entry| entry.from == Side::Client);
    assert_eq!(burst.count(), 10);
}

#[test]
fn counts_written_bytes_as_unsent_in_flight_or_acknowledged() {
    let config = Config { receive_window: Bytes::new(20_000), ..reno() };
    let mut pipe = Pipe::new(&config, millis(5)).established();
    pipe.reading = false;
    pipe.client.write(50_000);
    pipe.flush();
    let first = pipe.client.cwnd().count().min(20_000);
    let statistics = pipe.client.statistics();
    assert_eq!(statistics.in_flight.count() + pipe.client.not_sent(), 50_000);
    assert!(statistics.in_flight.count() <= first, "{statistics:?}");
    pipe.run(Span::from_secs(1));
    let statistics = pipe.client.statistics();
    assert_eq!((statistics.acked, statistics.not_sent), (Bytes::new(20_000), Bytes::new(30_000)));
    assert_eq!(pipe.client.not_sent(), 30_000);
}

#[test]
fn an_application_that_sends_little_leaves_the_delivery_rate() {
    let mut pipe = Pipe::new(&reno(), millis(5)).established();
    assert_eq!(pipe.client.statistics().delivery_rate, None);
    pipe.transfer(100_000);
    let rate = pipe.client.statistics().delivery_rate.expect("there were samples");
    // At least ten segments in a round trip of 10 ms.
    assert!(rate.bits_per_sec() > 10_000_000, "{rate}");
    for _ in 0..10 {
        pipe.transfer(100);
        pipe.run(millis(100));
    }
    let after = pipe.client.statistics().delivery_rate.expect("there were samples");
    assert!(after >= rate, "{after} after {rate}");
}
