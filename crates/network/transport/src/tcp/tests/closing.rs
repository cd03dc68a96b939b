use super::*;

#[test]
fn fins_both_ways() {
    let mut pipe = Pipe::new(&reno(), millis(10)).established();
    pipe.client.write(2_500);
    pipe.client.finish();
    pipe.run(millis(50));
    assert!(pipe.server.peer_finished() && !pipe.server.is_closed());
    assert_eq!(pipe.server.received(), 2_500);
    let last = pipe.sent_by(Side::Client).find(|entry| entry.segment.length == 500);
    assert!(last.expect("a short segment").segment.flags.contains(Flags::FIN));
    // Half-closed: the other direction still works.
    pipe.server.write(1_500);
    pipe.server.finish();
    pipe.run(millis(100));
    assert_eq!(
        (pipe.client.ended(), pipe.server.ended()),
        (Some(End::Finished), Some(End::Finished))
    );
    assert_eq!((pipe.client.received(), pipe.client.acked()), (1_500, 2_500));
    assert_eq!((pipe.client.next_wake(), pipe.server.next_wake()), (None, None));
}

#[test]
fn closes_without_data() {
    let mut pipe = Pipe::new(&reno(), millis(10)).established();
    pipe.client.finish();
    pipe.server.finish();
    pipe.run(millis(100));
    assert!(pipe.client.is_closed() && pipe.server.is_closed());
    assert_eq!((pipe.client.received(), pipe.client.acked()), (0, 0));
}

#[test]
fn recovers_from_lost_fins_and_their_acks() {
    for lost in 0..6 {
        let mut count = 0;
        let mut pipe = Pipe::new(&reno(), millis(10)).established().script(move |_| {
            count += 1;
            if count == lost + 1 { Fate::Drop } else { Fate::Deliver }
        });
        pipe.client.write(1_000);
        pipe.client.finish();
        pipe.server.finish();
        pipe.run(millis(5_000));
        assert!(pipe.client.is_closed() && pipe.server.is_closed(), "segment {lost} lost");
        assert_eq!(pipe.server.received(), 1_000);
    }
}

#[test]
fn endless_writing_ends_with_what_was_sent() {
    let mut pipe = Pipe::new(&reno(), millis(10)).established();
    pipe.client.write_unlimited();
    pipe.run(millis(300));
    pipe.client.finish();
    pipe.run(millis(300));
    assert!(pipe.server.peer_finished());
    assert_eq!(pipe.client.acked(), pipe.server.received());
    assert!(pipe.server.received() > 100_000);
}

#[test]
fn an_abort_resets_the_peer() {
    let mut pipe = Pipe::new(&reno(), millis(10)).established();
    pipe.client.write(100_000);
    pipe.flush();
    pipe.client.abort();
    pipe.run(millis(100));
    assert_eq!(pipe.client.ended(), Some(End::Aborted));
    assert_eq!(pipe.server.ended(), Some(End::Reset));
    assert_eq!((pipe.client.next_wake(), pipe.server.next_wake()), (None, None));
}
