use base::{Bandwidth, Bytes, Span, Time};
use proptest::prelude::*;

use super::*;
use crate::closed_loop::scenarios::{self, Extreme, LONG, visit_there};
use crate::{Link as _, Measured, Outbox, SessionId, Towards, Visit};

fn mbits(rate: u64) -> Bandwidth {
    Bandwidth::from_mbits_per_sec(rate)
}

fn measured(arrived: u64, backlog: u64) -> Measured {
    let interval = Span::from_millis(10);
    Measured { interval, arrived: Bytes::new(arrived), backlog: Bytes::new(backlog) }
}

fn packet(round_trip: u64) -> Packet {
    Packet { rate: u64::MAX, round_trip: Span::from_millis(round_trip), sent: Time::ZERO }
}

#[test]
fn the_rate_follows_input_and_queue() {
    let mut link = Link::try_new(mbits(100)).unwrap();
    assert_eq!(link.rate(), mbits(5));
    visit_there(&mut link, &mut packet(100));
    // y = 60 Mbit/s, q = 12,500 B = 100 kbit, d = 100 ms, T = 10 ms:
    // 1 + 0.1·(0.1·40 − 1)/100.
    link.measure(Time::ZERO, &measured(75_000, 12_500));
    assert!(link.rate().bits_per_sec().abs_diff(5_015_000) <= 1);
}

#[test]
fn no_interval_counts_longer_than_the_round_trip() {
    let mut link = Link::try_new(mbits(100)).unwrap();
    visit_there(&mut link, &mut packet(2));
    // T = d = 2 ms, not 10: 1 + 0.1·(100 − 0)/100.
    link.measure(Time::ZERO, &measured(0, 0));
    assert_eq!(link.rate().bits_per_sec(), 5_500_000);
}

#[test]
fn packets_carry_the_least_rate_downstream_alone() {
    let mut link = Link::try_new(mbits(100)).unwrap();
    let mut down = packet(0);
    visit_there(&mut link, &mut down);
    assert_eq!(down.rate, 5_000_000);
    let mut less = Packet { rate: 7, ..down };
    visit_there(&mut link, &mut less);
    assert_eq!(less.rate, 7);
    let mut back = packet(1);
    let at = Visit { session: SessionId(0), hop: 0, towards: Towards::Source };
    link.visit(Time::ZERO, at, &mut back, &mut Outbox::default());
    assert_eq!(back.rate, u64::MAX);
}

#[test]
fn rates_stay_within_their_bounds() {
    let mut link = Link::try_new(mbits(100)).unwrap();
    visit_there(&mut link, &mut packet(100));
    for _ in 0..1000 {
        link.measure(Time::ZERO, &measured(0, 0));
    }
    assert_eq!(link.rate(), mbits(100));
    link.measure(Time::ZERO, &measured(0, u64::MAX));
    assert_eq!(link.rate().bits_per_sec(), 800, "10 bytes in 100 ms");
    link.set_capacity(Time::ZERO, Bandwidth::from_bits_per_sec(500), &mut Outbox::default())
        .unwrap();
    assert_eq!(link.rate().bits_per_sec(), 500);
    let too_much = Bandwidth::from_bits_per_sec((1 << 56) + 1);
    assert!(link.set_capacity(Time::ZERO, too_much, &mut Outbox::default()).is_err());
    assert_eq!(link.rate().bits_per_sec(), 500);
    assert!(Link::try_new(Bandwidth::default()).is_err());
}

#[test]
fn equal_sessions_share_a_link_equally() {
    for sessions in [2, 10, 100] {
        let end = scenarios::bottleneck::<Rcp>(sessions, LONG);
        assert!(end.worst_error(1.0) < 0.02, "{sessions} sessions: {end:?}");
    }
}

#[test]
fn bottlenecks_in_a_row_share_by_max_min() {
    let end = scenarios::parking_lot::<Rcp>(LONG);
    assert!(end.worst_error(1.0) < 0.02, "{end:?}");
}

#[test]
fn sessions_of_any_round_trip_share_equally() {
    let end = scenarios::mixed_round_trips::<Rcp>(LONG);
    assert!(end.worst_error(1.0) < 0.05, "{end:?}");
}

#[test]
fn many_that_join_at_once_overshoot_and_settle() {
    let rush = scenarios::rush::<Rcp>();
    // The first session had the whole link, and each new one is assigned the same rate.
    assert!(rush.peak > 10.0, "{rush:?}");
    assert!((rush.last - 1.0).abs() < 0.05, "{rush:?}");
}

#[test]
fn state_at_links_is_constant() {
    let mut link = Link::try_new(mbits(100)).unwrap();
    let before = link.state();
    scenarios::hear_of(&mut link, 1000, |_| packet(3));
    assert_eq!(link.state(), before);
    assert_eq!(before.numbers, 4);
    assert!(before.bytes <= 64);
}

proptest! {
    #[test]
    fn no_input_makes_rates_unbounded(extreme: Extreme) {
        let mut link = Link::try_new(extreme.capacity).unwrap();
        for step in &extreme.steps {
            let mut probe = Packet { rate: 1 << 56, round_trip: step.round_trip, sent: Time::ZERO };
            visit_there(&mut link, &mut probe);
            link.measure(Time::ZERO, &step.measured);
            prop_assert!(link.rate().bits_per_sec() >= 1);
            prop_assert!(link.rate() <= extreme.capacity);
            prop_assert!(probe.rate >= 1 && probe.rate <= extreme.capacity.bits_per_sec());
        }
    }
}
