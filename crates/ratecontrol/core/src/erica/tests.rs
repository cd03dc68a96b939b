use base::{Bandwidth, Bytes, Span, Time};
use proptest::prelude::*;

use super::*;
use crate::closed_loop::scenarios::{self, Extreme, LONG};
use crate::{Link as _, Measured, Outbox, SessionId, Towards, Visit};

const MBIT: u64 = 1_000_000;

/// A link with a target of 95 Mbit/s.
fn link() -> Link {
    Link::try_new(Bandwidth::from_mbits_per_sec(100)).unwrap()
}

/// Ends an interval with this load.
fn interval(link: &mut Link, load: f64) {
    let arrived = Bytes::new((load * 95e6 / 8.0 * 0.005) as u64);
    let interval = Span::from_millis(5);
    link.measure(Time::ZERO, &Measured { interval, arrived, backlog: Bytes::new(0) });
}

fn forward(link: &mut Link, session: u32, current: u64) {
    let at = Visit { session: SessionId(session), hop: 0, towards: Towards::Destination };
    let mut packet = Packet { current, explicit: u64::MAX, sent: Time::ZERO };
    link.visit(Time::ZERO, at, &mut packet, &mut Outbox::default());
    assert_eq!(packet.explicit, u64::MAX, "feedback is written on the way back");
}

fn backward(link: &mut Link, session: u32) -> u64 {
    let at = Visit { session: SessionId(session), hop: 0, towards: Towards::Source };
    let mut packet = Packet { current: 0, explicit: 1 << 56, sent: Time::ZERO };
    link.visit(Time::ZERO, at, &mut packet, &mut Outbox::default());
    packet.explicit
}

/// Asserts that rates are equal except for rounding.
fn assert_near(rate: u64, mbits: f64) {
    assert!((rate as f64 / 1e6 - mbits).abs() < 0.01, "{rate} instead of {mbits} Mbit/s");
}

#[test]
fn in_overload_the_larger_of_both_shares_is_given() {
    let mut link = link();
    for (session, rate) in [(1, 120), (2, 60), (3, 10)] {
        forward(&mut link, session, rate * MBIT);
    }
    interval(&mut link, 2.0);
    assert_near(backward(&mut link, 1), 60.0);
    assert_near(backward(&mut link, 2), 95.0 / 3.0);
    assert_near(backward(&mut link, 3), 95.0 / 3.0);
}

#[test]
fn without_overload_all_rise_to_what_one_had() {
    let mut link = link();
    forward(&mut link, 1, 60 * MBIT);
    forward(&mut link, 2, 35 * MBIT);
    interval(&mut link, 1.2);
    assert_near(backward(&mut link, 1), 50.0);
    interval(&mut link, 1.0);
    // MaxAllocPrevious is the previous rate of 50, VCShare is 60.
    assert_near(backward(&mut link, 1), 60.0);
    // 35 is below FairShare, which it gets first.
    assert_near(backward(&mut link, 2), 47.5);
    forward(&mut link, 2, 48 * MBIT);
    interval(&mut link, 1.05);
    assert_near(backward(&mut link, 2), 60.0);
}

#[test]
fn a_session_gets_one_rate_in_an_interval() {
    let mut link = link();
    forward(&mut link, 1, 80 * MBIT);
    forward(&mut link, 2, 20 * MBIT);
    interval(&mut link, 1.25);
    assert_near(backward(&mut link, 1), 64.0);
    forward(&mut link, 1, 64 * MBIT);
    assert_near(backward(&mut link, 1), 64.0);
    interval(&mut link, 1.25);
    assert_near(backward(&mut link, 1), 51.2);
}

#[test]
fn assigns_at_most_the_target() {
    let mut link = link();
    forward(&mut link, 1, 90 * MBIT);
    interval(&mut link, 0.0);
    assert_near(backward(&mut link, 1), 95.0);
    // Even for a session without an entry.
    assert_near(backward(&mut link, 77), 95.0);
    link.set_capacity(Time::ZERO, Bandwidth::from_mbits_per_sec(10), &mut Outbox::default())
        .unwrap();
    assert_near(backward(&mut link, 1), 9.5);
}

#[test]
fn equal_sessions_share_a_link_equally() {
    for sessions in [2, 10, 100] {
        let end = scenarios::bottleneck::<Erica>(sessions, LONG);
        // An overload of up to δ lowers no session.
        assert!(end.worst_error(TARGET) < 0.11, "{sessions} sessions: {end:?}");
    }
}

#[test]
fn bottlenecks_in_a_row_share_nearly_by_max_min() {
    let end = scenarios::parking_lot::<Erica>(LONG);
    assert!(end.worst_error(TARGET) < 0.12, "{end:?}");
}

#[test]
fn sessions_of_any_round_trip_share_nearly_equally() {
    let end = scenarios::mixed_round_trips::<Erica>(LONG);
    assert!(end.worst_error(TARGET) < 0.12, "{end:?}");
}

#[test]
fn many_that_join_at_once_settle() {
    let rush = scenarios::rush::<Erica>();
    assert!((rush.last - TARGET).abs() < 0.11, "{rush:?}");
}

#[test]
fn state_at_links_grows_with_sessions() {
    let mut link = link();
    let hear = |link: &mut Link, count| {
        let packet = |_| Packet { current: MBIT, explicit: MBIT, sent: Time::ZERO };
        scenarios::hear_of(link, count, packet);
        link.state()
    };
    let (few, many) = (hear(&mut link, 100), hear(&mut link, 10_000));
    assert_eq!(many.numbers - few.numbers, 9_900 * 6);
    assert!(many.bytes > few.bytes + 9_900 * 48);
    assert_eq!(link.sessions(), 10_000);
}

proptest! {
    #[test]
    fn no_input_makes_rates_unbounded(extreme: Extreme, current: u64) {
        let mut link = Link::try_new(extreme.capacity).unwrap();
        let most = extreme.capacity.bits_per_sec();
        let mut now = Time::ZERO;
        for step in &extreme.steps {
            now += step.round_trip.min(Span::from_secs(1_000_000));
            let at = Visit { session: SessionId(0), hop: 0, towards: Towards::Destination };
            let mut packet = Packet { current, explicit: 1 << 56, sent: Time::ZERO };
            link.visit(now, at, &mut packet, &mut Outbox::default());
            link.measure(now, &step.measured);
            for session in 0..2 {
                let rate = backward(&mut link, session);
                prop_assert!(rate >= 1 && rate <= most);
            }
        }
    }
}
