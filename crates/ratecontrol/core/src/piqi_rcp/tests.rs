use base::{Bandwidth, Bytes, Span, Time};
use proptest::prelude::*;

use super::*;
use crate::closed_loop::scenarios::{self, Extreme, LONG, visit_there};
use crate::{Link as _, Measured, Outbox};

fn measured(arrived: u64) -> Measured {
    let interval = Span::from_millis(5);
    // The queue is not used.
    Measured { interval, arrived: Bytes::new(arrived), backlog: Bytes::new(u64::MAX) }
}

fn packet(round_trip: u64) -> Packet {
    Packet { rate: u64::MAX, round_trip: Span::from_millis(round_trip), sent: Time::ZERO }
}

#[test]
fn the_law_integrates_the_error_for_all_and_adds_each_ones_part() {
    let mut link = Link::try_new(Bandwidth::from_mbits_per_sec(100)).unwrap();
    assert_eq!(link.rate().bits_per_sec(), 4_750_000);
    visit_there(&mut link, &mut packet(45));
    // y = 47.5 Mbit/s, half the target; κ* = 5/50.
    link.measure(Time::ZERO, &measured(29_688));
    let rate = 4_750_000.0 * (1.0 + 0.05 * 0.5);
    assert!((link.rate().bits_per_sec() as f64 - rate).abs() < 20.0, "{:?}", link.rate());
    for (round_trip, bound) in [(5, 0.5), (95, 0.05), (0, 0.1)] {
        let mut probe = packet(round_trip);
        visit_there(&mut link, &mut probe);
        let own = rate * (1.0 + 0.5 * bound * 0.5);
        assert!((probe.rate as f64 - own).abs() < 100.0, "{round_trip} ms: {probe:?}");
    }
}

#[test]
fn rates_stay_within_their_bounds() {
    let mut link = Link::try_new(Bandwidth::from_mbits_per_sec(100)).unwrap();
    visit_there(&mut link, &mut packet(100));
    for _ in 0..1000 {
        link.measure(Time::ZERO, &measured(0));
    }
    assert_eq!(link.rate().bits_per_sec(), 95_000_000);
    let mut probe = packet(1);
    visit_there(&mut link, &mut probe);
    assert_eq!(probe.rate, 95_000_000);
    link.measure(Time::ZERO, &measured(u64::MAX));
    assert_eq!(link.rate().bits_per_sec(), 800);
    visit_there(&mut link, &mut probe);
    assert!((1..=800).contains(&probe.rate));
    let one = Bandwidth::from_bits_per_sec(1);
    link.set_capacity(Time::ZERO, one, &mut Outbox::default()).unwrap();
    assert_eq!(link.rate(), one);
    assert!(Link::try_new(Bandwidth::default()).is_err());
}

#[test]
fn equal_sessions_share_a_link_equally() {
    for sessions in [2, 10, 100] {
        let end = scenarios::bottleneck::<PiqiRcp>(sessions, LONG);
        assert!(end.worst_error(TARGET) < 0.01, "{sessions} sessions: {end:?}");
    }
}

#[test]
fn bottlenecks_in_a_row_share_by_max_min() {
    let end = scenarios::parking_lot::<PiqiRcp>(LONG);
    assert!(end.worst_error(TARGET) < 0.01, "{end:?}");
}

#[test]
fn sessions_of_any_round_trip_share_equally() {
    let end = scenarios::mixed_round_trips::<PiqiRcp>(LONG);
    assert!(end.worst_error(TARGET) < 0.01, "{end:?}");
}

#[test]
fn many_that_join_at_once_overshoot_and_settle() {
    let rush = scenarios::rush::<PiqiRcp>();
    assert!(rush.peak > 10.0, "{rush:?}");
    assert!((rush.last - TARGET).abs() < 0.02, "{rush:?}");
}

#[test]
fn state_at_links_is_constant() {
    let mut link = Link::try_new(Bandwidth::from_mbits_per_sec(100)).unwrap();
    let before = link.state();
    scenarios::hear_of(&mut link, 1000, |_| packet(3));
    assert_eq!(link.state(), before);
    assert_eq!(before.numbers, 5);
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
