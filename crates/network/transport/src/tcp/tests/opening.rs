use super::*;

#[test]
fn a_handshake_takes_three_segments() {
    let mut pipe = Pipe::new(&reno(), millis(10));
    pipe.run(millis(100));
    assert!(pipe.client.is_established() && pipe.server.is_established());
    let flags: Vec<_> = pipe.log.iter().map(|entry| entry.segment.flags).collect();
    assert_eq!(flags, [Flags::SYN, Flags::SYN | Flags::ACK, Flags::ACK]);
    assert_eq!(pipe.client.statistics().srtt, Some(millis(20)));
    assert_eq!(pipe.server.statistics().srtt, Some(millis(20)));
    assert_eq!(pipe.client.next_wake(), None);
    assert_eq!(pipe.server.next_wake(), None);
}

#[test]
fn windows_are_scaled_after_the_syn() {
    let mut pipe = Pipe::new(&reno(), millis(10));
    pipe.run(millis(100));
    let windows: Vec<_> = pipe.log.iter().map(|entry| entry.segment.window).collect();
    assert_eq!(windows, [65_535, 65_535, 6 << 20]);
}

#[test]
fn a_lost_syn_is_sent_again_after_a_second_then_two() {
    let mut pipe = Pipe::new(&reno(), millis(10)).script(|entry| {
        let early = entry.at < at_millis(2_000);
        if early { Fate::Drop } else { Fate::Deliver }
    });
    pipe.run(millis(3_500));
    assert!(pipe.server.is_established());
    let times: Vec<_> = pipe.sent_by(Side::Client).map(|entry| entry.at).take(3).collect();
    assert_eq!(times, [Time::ZERO, at_millis(1_000), at_millis(3_000)]);
    // RFC 6298 §5.7: no sample, so the timeout is 3 s.
    assert_eq!(pipe.client.statistics().srtt, None);
    pipe.client.write(100);
    pipe.flush();
    assert_eq!(pipe.client.next_wake(), Some(pipe.now + millis(3_000)));
}

#[test]
fn recovers_from_a_lost_syn_ack_or_ack() {
    for lost in [1, 2] {
        let mut count = 0;
        let mut pipe = Pipe::new(&reno(), millis(10)).script(move |_| {
            count += 1;
            if count == lost + 1 { Fate::Drop } else { Fate::Deliver }
        });
        pipe.client.write(30_000);
        pipe.run(millis(3_000));
        assert_eq!(pipe.server.received(), 30_000, "segment {lost} lost");
    }
}

#[test]
fn times_out_without_an_answer() {
    let mut pipe = Pipe::new(&reno(), millis(10)).script(|_| Fate::Drop);
    pipe.run(Span::from_secs(300));
    assert_eq!(pipe.client.ended(), Some(End::TimedOut));
    assert_eq!(pipe.log.len(), 7);
    assert_eq!(pipe.client.next_wake(), None);
}

#[test]
fn a_transfer_is_exact() {
    for control in Control::ALL {
        let config = Config { control, ..reno() };
        for bytes in [1, 999, 1_000, 1_001, 123_457, 3_000_000] {
            let mut pipe = Pipe::new(&config, millis(5)).established();
            pipe.set_nanos_per_byte(80);
            pipe.transfer(bytes);
            let payload: u64 =
                pipe.sent_by(Side::Client).map(|entry| u64::from(entry.segment.length)).sum();
            assert_eq!(payload, bytes, "{control}: nothing is sent twice");
            assert_eq!(pipe.client.unacked(), 0);
            assert_eq!(pipe.client.statistics().retransmits, 0, "{control}");
        }
    }
}

#[test]
fn transfers_in_both_directions_at_once() {
    let mut pipe = Pipe::new(&reno(), millis(5)).established();
    pipe.server.write(500_000);
    pipe.transfer(700_000);
    pipe.run(millis(500));
    assert_eq!((pipe.client.received(), pipe.server.received()), (500_000, 700_000));
}
