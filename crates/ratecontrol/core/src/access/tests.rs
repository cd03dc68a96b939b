//! Actions of the router for flows, as seen by its driver.

use base::Span;
use proptest::prelude::*;

use super::*;

type Router = AccessRouter<u32, u64>;

const MS: u64 = 1_000_000;

fn at(millis: u64) -> Time {
    Time::from_nanos(millis * MS)
}

fn mbits(rate: u64) -> Bandwidth {
    Bandwidth::from_mbits_per_sec(rate)
}

fn router(policy: Policy) -> Router {
    Router::try_new(&Settings::default(), policy).unwrap()
}

fn data(bytes: u32) -> Seen {
    Seen { bytes, ..Seen::default() }
}

fn syn(initial: u32) -> Seen {
    Seen { bytes: 60, syn: Some(initial), ..Seen::default() }
}

fn fin() -> Seen {
    Seen { bytes: 52, fin: true, ..Seen::default() }
}

fn rst() -> Seen {
    Seen { bytes: 40, rst: true, ..Seen::default() }
}

fn actions(router: &mut Router) -> Vec<Action<u32, u64>> {
    std::iter::from_fn(|| router.poll()).collect()
}

/// Advances the time to `until`; returns all actions with their times.
fn pass(router: &mut Router, until: Time) -> Vec<(Time, Action<u32, u64>)> {
    let mut all = Vec::new();
    while let Some(now) = router.next_wake().filter(|at| *at <= until) {
        router.on_wake(now);
        all.extend(actions(router).into_iter().map(|action| (now, action)));
    }
    all
}

/// Number of joins and leaves in `actions`.
fn sessions(actions: &[Action<u32, u64>]) -> (usize, usize) {
    let count = |is: fn(&Action<u32, u64>) -> bool| actions.iter().filter(|a| is(a)).count();
    (
        count(|action| matches!(action, Action::Join { .. })),
        count(|action| matches!(action, Action::Leave { .. })),
    )
}

fn demands(actions: &[(Time, Action<u32, u64>)]) -> Vec<Bandwidth> {
    let demand = |(_, action): &(Time, Action<u32, u64>)| match action {
        Action::Change { demand, .. } => Some(*demand),
        _ => None,
    };
    actions.iter().filter_map(demand).collect()
}

#[test]
fn a_syn_joins_once_and_is_sent_at_once() {
    let mut router = router(Policy::default());
    router.packet(at(0), 7, syn(1), 100);
    let done = actions(&mut router);
    assert_eq!(done.len(), 2);
    assert!(matches!(done[0], Action::Join { session: SessionId(0), key: 7, .. }));
    assert_eq!(done[1], Action::Release(100));
    // A retransmission opens no connection.
    for again in 1..5 {
        router.packet(at(1000 * again), 7, syn(1), 100 + again);
        assert_eq!(sessions(&actions(&mut router)), (0, 0));
    }
    assert_eq!(router.counters().joins, 1);
}

#[test]
fn fins_of_both_sides_end_the_session_in_either_order() {
    for outward_first in [true, false] {
        let mut router = router(Policy::default());
        router.packet(at(0), 7, syn(1), 1);
        router.assigned(at(10), SessionId(0), mbits(10));
        actions(&mut router);
        if outward_first {
            router.packet(at(20), 7, fin(), 2);
            assert_eq!(sessions(&actions(&mut router)), (0, 0));
            router.returning(at(30), 7, fin());
        } else {
            router.returning(at(20), 7, fin());
            assert_eq!(sessions(&actions(&mut router)), (0, 0));
            router.packet(at(30), 7, fin(), 2);
        }
        assert_eq!(sessions(&actions(&mut router)), (0, 1));
        // The last acknowledgement and a retransmitted FIN are recognised as late.
        router.packet(at(31), 7, data(40), 3);
        router.packet(at(300), 7, fin(), 4);
        assert_eq!(sessions(&actions(&mut router)), (0, 0));
        pass(&mut router, at(5_000));
        assert_eq!((router.flows(), router.next_wake()), (0, None));
    }
}

#[test]
fn sends_queued_packets_before_leaving_after_a_fin() {
    let mut router = router(Policy::default());
    router.packet(at(0), 7, syn(1), 0);
    router.assigned(at(0), SessionId(0), mbits(1));
    router.returning(at(0), 7, fin());
    for packet in 1..10 {
        router.packet(at(0), 7, data(1500), packet);
    }
    router.packet(at(0), 7, fin(), 10);
    let first: Vec<_> = actions(&mut router).into_iter().map(|a| (at(0), a)).collect();
    let done: Vec<_> = first.into_iter().chain(pass(&mut router, at(500))).collect();
    let leave = done.iter().position(|(_, action)| matches!(action, Action::Leave { .. }));
    let last = done.iter().position(|(_, action)| *action == Action::Release(10));
    assert!(last.is_some() && leave > last, "{done:?}");
}

#[test]
fn one_fin_alone_ends_it_after_a_while() {
    let mut router = router(Policy::default());
    router.packet(at(0), 7, syn(1), 1);
    router.packet(at(500), 7, fin(), 2);
    actions(&mut router);
    let done = pass(&mut router, at(4_000));
    let left = done.iter().find(|(_, action)| matches!(action, Action::Leave { .. }));
    assert_eq!(left.map(|(at, _)| *at), Some(at(1_500)));
    assert_eq!(router.flows(), 0);
}

#[test]
fn a_reset_from_either_side_ends_it_at_once() {
    for outward in [true, false] {
        let mut router = router(Policy::default());
        router.packet(at(0), 7, syn(1), 1);
        actions(&mut router);
        if outward {
            router.packet(at(50), 7, rst(), 2);
        } else {
            router.returning(at(50), 7, rst());
        }
        assert_eq!(sessions(&actions(&mut router)), (0, 1), "outward: {outward}");
        // A RST of an unknown flow creates no record.
        router.packet(at(60), 8, rst(), 3);
        assert_eq!(actions(&mut router), [Action::Release(3)]);
    }
}

#[test]
fn ports_that_are_used_again_are_another_session() {
    let mut router = router(Policy::default());
    // After the end, while the record exists.
    router.packet(at(0), 7, syn(1), 1);
    router.packet(at(10), 7, rst(), 2);
    router.packet(at(20), 7, syn(2), 3);
    assert_eq!(sessions(&actions(&mut router)), (2, 1));
    // Without an end: the host has restarted.
    router.packet(at(30), 7, syn(3), 4);
    let done = actions(&mut router);
    assert_eq!(sessions(&done), (1, 1));
    assert!(matches!(done[0], Action::Leave { session: SessionId(1) }), "{done:?}");
    // A rate for the old session number has no effect.
    router.assigned(at(40), SessionId(1), mbits(10));
    assert_eq!(router.flows(), 1);
    pass(&mut router, at(30_000));
    let counters = router.counters();
    assert_eq!((counters.joins, counters.leaves), (3, 3));
}

#[test]
fn a_silent_flow_leaves_and_joins_again_with_its_next_packet() {
    let mut router = router(Policy::default());
    for millis in [0, 9_000, 18_000] {
        pass(&mut router, at(millis));
        router.packet(at(millis), 7, data(200), millis);
        actions(&mut router);
    }
    assert_eq!(router.counters().leaves, 0);
    let done = pass(&mut router, at(60_000));
    let left = done.iter().find(|(_, action)| matches!(action, Action::Leave { .. }));
    assert_eq!(left.map(|(at, _)| *at), Some(at(28_000)));
    assert_eq!((router.flows(), router.next_wake()), (0, None));
    router.packet(at(60_000), 7, data(200), 1);
    assert_eq!(sessions(&actions(&mut router)), (1, 0));
}

#[test]
fn a_million_flows_in_a_nanosecond_hit_the_limit() {
    let policy = Policy { flows: 1_000, ..Policy::default() };
    let mut router = router(policy);
    let mut released = 0;
    for key in 0..1_000_000 {
        router.packet(at(5), key, syn(key), u64::from(key));
        let done = actions(&mut router);
        released += done.iter().filter(|a| matches!(a, Action::Release(_))).count();
    }
    assert_eq!((router.flows(), router.flows.len()), (1_000, 1_000));
    assert_eq!(released, 1_000_000, "none is held back");
    assert_eq!((router.counters().joins, router.counters().unshaped), (1_000, 999_000));
    // There is room again after their idle timeout.
    pass(&mut router, at(20_000));
    router.packet(at(20_000), 1_000_000, syn(1), 0);
    assert_eq!(sessions(&actions(&mut router)), (1, 0));
}

#[test]
fn packets_leave_at_the_rate_that_is_left_for_data() {
    let mut router = router(Policy { queue_least: Bytes::new(1 << 20), ..Policy::default() });
    router.packet(at(0), 7, data(1000), 0);
    router.assigned(at(0), SessionId(0), mbits(8));
    for packet in 1..=100 {
        router.packet(at(0), 7, data(1000), packet);
    }
    actions(&mut router);
    let done = pass(&mut router, at(3_000));
    let releases: Vec<Time> = done
        .iter()
        .filter(|(_, action)| matches!(action, Action::Release(_)))
        .map(|(at, _)| *at)
        .collect();
    assert_eq!(releases.len(), 100);
    // 1000 B at 99 % of 8 Mbit/s, after the first one.
    let expected = 100.0 * 8_000.0 / 7.92e6;
    assert!((releases[99].as_secs_f64() - expected).abs() < 1e-6, "{}", releases[99]);
}

#[test]
fn before_the_first_rate_there_is_a_small_allowance() {
    let mut router = router(Policy::default());
    for packet in 0..10 {
        router.packet(at(0), 7, data(1250), packet);
    }
    actions(&mut router);
    // 10 ms each at 1 Mbit/s.
    assert_eq!(pass(&mut router, at(35)).len(), 3);
    // A new rate applies to queued packets too: half of a packet's time has passed.
    router.assigned(at(35), SessionId(0), mbits(100));
    actions(&mut router);
    assert_eq!(pass(&mut router, at(36)).len(), 6);
    assert_eq!(router.buffered(), Bytes::ZERO);
}

#[test]
fn queues_are_bounded_by_time_bytes_and_buffer() {
    let policy = Policy { buffer: Bytes::new(150_000), ..Policy::default() };
    let mut router = router(policy);
    for key in 0..3 {
        for packet in 0..100 {
            router.packet(at(0), key, data(1000), packet);
        }
    }
    // 64 KiB each (100 ms at 1 Mbit/s are less), then the buffer is full.
    let dropped = actions(&mut router).iter().filter(|a| matches!(a, Action::Drop(_))).count();
    assert_eq!(router.buffered(), Bytes::new(150_000));
    assert_eq!(dropped as u64, 300 - 3 - 150);
    assert_eq!(router.counters().dropped, dropped as u64);
    // At 80 Mbit/s 100 ms are 990 kB.
    router.assigned(at(0), SessionId(0), mbits(80));
    pass(&mut router, at(60_000));
    assert_eq!((router.buffered(), router.flows()), (Bytes::ZERO, 0));
}

/// Sends packets of 1,000 B at a constant rate between two times; returns the actions.
fn send(
    router: &mut Router,
    rate: Bandwidth,
    from: u64,
    until: u64,
) -> Vec<(Time, Action<u32, u64>)> {
    let gap = rate.time_for(Bytes::new(1000)).as_nanos();
    let mut done = Vec::new();
    let mut now = from * MS;
    while now < until * MS {
        done.extend(pass(router, Time::from_nanos(now)));
        router.packet(Time::from_nanos(now), 7, data(1000), now);
        done.extend(actions(router).into_iter().map(|a| (Time::from_nanos(now), a)));
        now += gap;
    }
    done
}

#[test]
fn a_flow_that_uses_less_asks_for_less_and_for_all_when_it_presses() {
    let mut router = router(Policy::default());
    router.packet(at(0), 7, data(1000), 0);
    router.assigned(at(0), SessionId(0), mbits(100));
    let demand = demands(&send(&mut router, mbits(8), 0, 3_000));
    // Once, without a further change.
    assert_eq!(demand.len(), 1, "{demand:?}");
    assert!((9_900_000..10_200_000).contains(&demand[0].bits_per_sec()), "{demand:?}");
    router.assigned(at(3_000), SessionId(0), demand[0]);
    let steady = demands(&send(&mut router, mbits(8), 3_000, 8_000));
    assert_eq!(steady, [], "it uses 80 % of what it asked for");
    // An excess of 10 % is not significant, of 100 % it is.
    assert_eq!(
        demands(&send(&mut router, Bandwidth::from_bits_per_sec(8_800_000), 8_000, 9_000)),
        []
    );
    let pressed = send(&mut router, mbits(16), 9_000, 9_100);
    assert_eq!(demands(&pressed), [Bandwidth::MAX]);
}

#[test]
fn a_flow_at_its_fair_share_changes_nothing() {
    let mut router = router(Policy::default());
    router.packet(at(0), 7, data(1000), 0);
    router.assigned(at(0), SessionId(0), mbits(10));
    // It sends more than its rate, or about as much.
    assert_eq!(demands(&send(&mut router, mbits(20), 0, 3_000)), []);
    assert_eq!(demands(&send(&mut router, mbits(9), 3_000, 6_000)), []);
    // An idle flow reaches the floor in steps of three windows.
    let silent = demands(&pass(&mut router, at(9_000)));
    assert_eq!(silent.last(), Some(&Policy::default().floor));
}

#[test]
fn a_refused_session_passes_unshaped() {
    let mut router = router(Policy::default());
    router.packet(at(0), 7, data(1000), 0);
    router.packet(at(0), 7, data(1000), 1);
    router.refuse(at(1), SessionId(0));
    for packet in 2..100 {
        router.packet(at(1), 7, data(1000), packet);
    }
    let released = actions(&mut router).iter().filter(|a| matches!(a, Action::Release(_))).count();
    assert_eq!(released, 100);
    pass(&mut router, at(20_000));
    assert_eq!((router.flows(), router.counters().leaves), (0, 0));
}

/// An event at a router.
#[derive(Clone, Debug)]
enum Happens {
    Packet { key: u32, seen: Seen },
    Returning { key: u32, seen: Seen },
    Rate { back: u32, rate: u64 },
    Refuse { back: u32 },
}

fn seen() -> impl Strategy<Value = Seen> {
    (1..3000_u32, proptest::option::weighted(0.2, 0..3_u32), 0..10_u8, 0..20_u8)
        .prop_map(|(bytes, syn, fin, rst)| Seen { bytes, syn, fin: fin == 0, rst: rst == 0 })
}

fn happens() -> impl Strategy<Value = Happens> {
    prop_oneof![
        6 => (0..6_u32, seen()).prop_map(|(key, seen)| Happens::Packet { key, seen }),
        1 => (0..6_u32, seen()).prop_map(|(key, seen)| Happens::Returning { key, seen }),
        2 => (0..4_u32, prop_oneof![Just(0), Just(u64::MAX), 1..100_000_000_u64])
            .prop_map(|(back, rate)| Happens::Rate { back, rate }),
        1 => (0..9_u32).prop_map(|back| Happens::Refuse { back }),
    ]
}

/// Observations of a router by its driver.
#[derive(Default)]
struct Watched {
    given: u64,
    out: Vec<u64>,
    dropped: u64,
    active: std::collections::BTreeSet<u32>,
    ever: u32,
}

impl Watched {
    fn take(&mut self, router: &mut Router) {
        for action in actions(router) {
            match action {
                Action::Join { session, .. } => {
                    assert_eq!(session.0, self.ever, "numbers are new");
                    self.ever += 1;
                    self.active.insert(session.0);
                }
                Action::Change { session, demand } => {
                    assert!(self.active.contains(&session.0) && demand.is_positive());
                }
                Action::Leave { session } => assert!(self.active.remove(&session.0)),
                Action::Release(packet) => self.out.push(packet),
                Action::Drop(_) => self.dropped += 1,
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn keeps_order_without_loss_and_ends_all_sessions(
        steps in proptest::collection::vec((0..300_u64, happens()), 1..200),
        flows in 1..6_usize,
    ) {
        let policy = Policy { flows, buffer: Bytes::new(100_000), ..Policy::default() };
        let mut router = router(policy);
        let mut watched = Watched::default();
        let mut now = Time::ZERO;
        for (wait, happens) in steps {
            now += Span::from_millis(wait);
            while let Some(at) = router.next_wake().filter(|at| *at <= now) {
                router.on_wake(at);
                watched.take(&mut router);
            }
            match happens {
                Happens::Packet { key, seen } => {
                    watched.given += 1;
                    // The flow is in the low digits, the order in the high ones.
                    let packet = watched.given * 8 + u64::from(key);
                    router.packet(now, key, seen, packet);
                }
                Happens::Returning { key, seen } => router.returning(now, key, seen),
                Happens::Rate { back, rate } => {
                    let session = SessionId(watched.ever.saturating_sub(back));
                    router.assigned(now, session, Bandwidth::from_bits_per_sec(rate));
                }
                Happens::Refuse { back } => {
                    let session = SessionId(watched.ever.saturating_sub(back));
                    watched.active.remove(&session.0);
                    router.refuse(now, session);
                }
            }
            watched.take(&mut router);
            prop_assert!(router.buffered() <= policy.buffer && router.flows() <= flows);
            prop_assert!(router.next_wake().is_none_or(|at| at > now));
        }
        // Sets rates high enough for the queues to drain.
        for session in 0..watched.ever {
            router.assigned(now, SessionId(session), mbits(100));
        }
        watched.take(&mut router);
        while let Some(at) = router.next_wake().filter(|at| *at < Time::MAX) {
            router.on_wake(at);
            watched.take(&mut router);
        }
        prop_assert_eq!((router.flows(), watched.active.len()), (0, 0));
        prop_assert_eq!(router.buffered(), Bytes::ZERO);
        prop_assert_eq!(watched.out.len() as u64 + watched.dropped, watched.given);
        prop_assert!(router.keys.is_empty() && router.due.is_empty() && router.sessions.is_empty());
    }

    #[test]
    fn the_rate_is_never_exceeded(
        packets in proptest::collection::vec((0..20_000_u64, 40..1500_u32), 2..100),
        rate in 10_000..50_000_000_u64,
    ) {
        let mut router = router(Policy::default());
        router.packet(Time::ZERO, 7, data(1), 0);
        router.assigned(Time::ZERO, SessionId(0), Bandwidth::from_bits_per_sec(rate));
        actions(&mut router);
        let mut now = Time::ZERO;
        let mut out = Vec::new();
        for (wait, bytes) in packets {
            now += Span::from_micros(wait);
            out.extend(pass(&mut router, now));
            router.packet(now, 7, data(bytes), u64::from(bytes));
            out.extend(actions(&mut router).into_iter().map(|action| (now, action)));
        }
        out.extend(pass(&mut router, now + Span::from_secs(9)));
        let sent: Vec<(Time, u64)> = out
            .into_iter()
            .filter_map(|(at, action)| match action {
                Action::Release(bytes) => Some((at, bytes)),
                _ => None,
            })
            .collect();
        let data = Settings::default().data_rate(Bandwidth::from_bits_per_sec(rate));
        for first in 0..sent.len() {
            let mut bits = 0;
            for (at, bytes) in &sent[first..] {
                // All packets except the last must have been transmitted by then.
                let may = data.bytes_in(at.since(sent[first].0)).count() * 8 + 8;
                prop_assert!(bits <= may, "{bits} bits of {may}");
                bits += bytes * 8;
            }
        }
    }
}
