use base::{Bandwidth, Span, Time};

use super::*;
use crate::MAX_RATE;
use crate::rcp::Packet;
use crate::{Error, Settings};

fn source() -> ProbingSource<Packet> {
    ProbingSource::try_new(SessionId(3), 2, Settings::default().pace()).unwrap()
}

fn at(millis: u64) -> Time {
    Time::ZERO + Span::from_millis(millis)
}

fn answer(rate: u64, sent: Time) -> Packet {
    Packet { rate, sent, round_trip: Span::ZERO }
}

#[test]
fn a_source_asks_until_it_is_answered() {
    let mut source = source();
    let mut out = Outbox::default();
    source.join(at(0), Bandwidth::from_mbits_per_sec(10), &mut out).unwrap();
    assert_eq!(out.sends.len(), 1);
    assert_eq!(out.sends[0].packet.rate, 10_000_000);
    assert_eq!(out.wake, Some(at(100)));
    let mut out = Outbox::default();
    source.on_wake(at(100), &mut out);
    assert_eq!(out.sends.len(), 1);
    assert_eq!(source.rate(), None);
}

#[test]
fn probes_take_their_share_of_the_rate() {
    let mut source = source();
    let mut out = Outbox::default();
    source.join(at(0), Bandwidth::from_mbits_per_sec(1000), &mut out).unwrap();
    let mut out = Outbox::default();
    source.receive(at(50), answer(10_240_000, at(0)), &mut out);
    assert_eq!(out.rate, Some(Bandwidth::from_bits_per_sec(10_240_000)));
    assert_eq!(out.wake, Some(at(50)), "5 ms after the last at 0 ms is past");
    // 64 B at 1 % of 10.24 Mbit/s are one per 5 ms, however many are in flight.
    let mut sent = 0;
    let mut now = at(50);
    while now < at(1050) {
        let mut out = Outbox::default();
        source.on_wake(now, &mut out);
        sent += out.sends.len();
        assert_eq!(out.sends[0].packet.round_trip, Span::from_millis(50));
        now = out.wake.unwrap();
    }
    assert_eq!(sent, 200);
}

#[test]
fn a_starving_source_still_asks_each_round_trip() {
    let mut source = source();
    let mut out = Outbox::default();
    source.join(at(0), Bandwidth::from_mbits_per_sec(1000), &mut out).unwrap();
    source.receive(at(30), answer(1, at(0)), &mut out);
    let mut out = Outbox::default();
    source.on_wake(at(30), &mut out);
    assert_eq!((out.sends.len(), out.wake), (1, Some(at(60))));
    // With a round trip of 5 s, the interval is limited to `MAX_PROBE_INTERVAL`.
    source.receive(at(5030), answer(1, at(30)), &mut out);
    let mut out = Outbox::default();
    source.on_wake(at(5030), &mut out);
    assert_eq!((out.sends.len(), out.wake), (1, Some(at(5130))));
}

#[test]
fn an_early_wake_up_sends_nothing() {
    let mut source = source();
    let mut out = Outbox::default();
    source.join(at(0), Bandwidth::from_mbits_per_sec(1), &mut out).unwrap();
    let mut out = Outbox::default();
    source.on_wake(at(40), &mut out);
    assert!(out.sends.is_empty());
    assert_eq!(out.wake, Some(at(100)));
}

#[test]
fn demands_bound_the_rate() {
    let mut source = source();
    let mut out = Outbox::default();
    let nothing = source.join(at(0), Bandwidth::default(), &mut out);
    assert!(matches!(nothing, Err(Error::Demand { .. })));
    assert!(out.is_empty());
    source.join(at(0), Bandwidth::from_bits_per_sec(u64::MAX), &mut out).unwrap();
    assert_eq!(out.sends[0].packet.rate, MAX_RATE);
    source.receive(at(10), answer(5_000, at(0)), &mut out);
    let mut out = Outbox::default();
    source.change(at(11), Bandwidth::from_bits_per_sec(2_000), &mut out).unwrap();
    assert_eq!(out.rate, Some(Bandwidth::from_bits_per_sec(2_000)));
    // A packet sent before the change does not restore the old rate.
    let mut out = Outbox::default();
    source.receive(at(12), answer(5_000, at(1)), &mut out);
    assert_eq!(out.rate, None);
    assert!(source.change(at(13), Bandwidth::default(), &mut out).is_err());
    assert_eq!(source.rate(), Some(Bandwidth::from_bits_per_sec(2_000)));
}

#[test]
fn sends_nothing_after_leaving() {
    let mut source = source();
    let mut out = Outbox::default();
    source.join(at(0), Bandwidth::from_mbits_per_sec(1), &mut out).unwrap();
    let mut out = Outbox::default();
    source.leave(at(5), &mut out);
    assert!(out.gone && out.sends.is_empty());
    let mut out = Outbox::default();
    source.receive(at(6), answer(7, at(0)), &mut out);
    source.on_wake(at(100), &mut out);
    assert!(out.is_empty());
}

#[test]
fn paths_have_links() {
    let none = ProbingSource::<Packet>::try_new(SessionId(0), 0, Settings::default().pace());
    assert!(matches!(none, Err(Error::Path { hops: 0, .. })));
}

#[test]
fn the_first_round_trip_is_taken_whole_and_the_others_by_their_gain() {
    let mut mean = MeanRoundTrip::new(0.2);
    mean.close(|_, _| 0.5);
    mean.add(Span::ZERO);
    mean.close(|_, _| 0.5);
    assert!((mean.mean() - 0.2).abs() < 1e-12, "no round trip is known");
    mean.add(Span::from_millis(10));
    mean.add(Span::from_millis(30));
    mean.close(|_, _| 0.5);
    assert!((mean.mean() - 0.02).abs() < 1e-12);
    mean.add(Span::from_millis(40));
    mean.close(|sample, old| {
        assert!((sample - 0.04).abs() < 1e-12 && (old - 0.02).abs() < 1e-12);
        0.25
    });
    assert!((mean.mean() - 0.025).abs() < 1e-12);
}

#[test]
fn a_session_takes_little_memory() {
    let ends = size_of::<ProbingSource<Packet>>();
    assert!(ends <= 104, "{ends} bytes");
}
