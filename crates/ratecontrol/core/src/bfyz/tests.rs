use base::{Bandwidth, Span, Time};

use super::{Bfyz, BfyzPacket, Kind};
use crate::exchange::{Exchange, Wire};
use crate::trial::Trial;
use crate::{
    Fate, Link as _, Outbox, RateController as _, SessionId, Settings, Source as _, Towards, Visit,
};

const NO_LIMIT: Bandwidth = Bandwidth::from_bits_per_sec(u64::MAX);

fn exchange(capacities: &[u64]) -> Exchange<Bfyz> {
    let wire =
        |capacity: &u64| Wire::new(Bandwidth::from_bits_per_sec(*capacity), Span::from_millis(1));
    let wires: Vec<Wire> = capacities.iter().map(wire).collect();
    Exchange::try_new(&Settings::default(), &wires).unwrap()
}

/// Runs some cycles.
fn settle(exchange: &mut Exchange<Bfyz>) -> Vec<u64> {
    let until = exchange.now() + Span::from_secs(1);
    exchange.run_until(until).unwrap();
    exchange.present().map(|id| exchange.rate(id).unwrap().bits_per_sec()).collect()
}

#[test]
fn two_links_share_one_session() {
    let mut exchange = exchange(&[90_000_000, 60_000_000]);
    for path in [&[0][..], &[0, 1], &[1], &[1]] {
        exchange.join(Time::ZERO, path, NO_LIMIT).unwrap();
    }
    assert_eq!(settle(&mut exchange), [70_000_000, 20_000_000, 20_000_000, 20_000_000]);
}

#[test]
fn joins_leaves_and_changes_are_found_out() {
    let mega = Bandwidth::from_mbits_per_sec;
    let mut exchange = exchange(&[100_000_000, 40_000_000]);
    let long = exchange.join(Time::ZERO, &[0, 1], NO_LIMIT).unwrap();
    let short = exchange.join(Time::ZERO, &[0], NO_LIMIT).unwrap();
    assert_eq!(settle(&mut exchange), [40_000_000, 60_000_000]);
    exchange.change(exchange.now(), short, mega(10)).unwrap();
    assert_eq!(settle(&mut exchange), [40_000_000, 10_000_000]);
    exchange.set_capacity(1, mega(95)).unwrap();
    assert_eq!(settle(&mut exchange), [90_000_000, 10_000_000]);
    exchange.set_capacity(0, mega(50)).unwrap();
    assert_eq!(settle(&mut exchange), [40_000_000, 10_000_000]);
    exchange.leave(exchange.now(), long).unwrap();
    exchange.change(exchange.now(), short, NO_LIMIT).unwrap();
    assert_eq!(settle(&mut exchange), [50_000_000]);
}

#[test]
fn sessions_that_join_at_once_do_not_get_more_than_there_is() {
    let mut exchange = exchange(&[90_000_000, 100_000_000]);
    for _ in 0..20 {
        exchange.join(Time::ZERO, &[0, 1], NO_LIMIT).unwrap();
    }
    // A cycle takes 4 ms: these are the first rates.
    exchange.run_until(Time::ZERO + Span::from_micros(4_100)).unwrap();
    let rates: Vec<_> = exchange.present().filter_map(|id| exchange.rate(id)).collect();
    assert_eq!(rates, [Bandwidth::from_bits_per_sec(4_500_000); 20]);
}

#[test]
fn random_networks_reach_the_oracles_rates() {
    let instances = if cfg!(debug_assertions) { 200 } else { 3_000 };
    let (mut rounds, mut trips) = (Vec::new(), Vec::new());
    for seed in 0..instances {
        let outcome = Trial::draw(seed).run::<Bfyz>().unwrap();
        assert!(outcome.right, "seed {seed}: {outcome:?}");
        rounds.push(outcome.rounds);
        trips.push(outcome.round_trips);
    }
    rounds.sort_unstable();
    trips.sort_by(f64::total_cmp);
    let (half, last) = (rounds.len() / 2, rounds.len() - 1);
    eprintln!(
        "{instances} instances: {} rounds in the median, {} at most; {:.1} round trips, {:.1}",
        rounds[half], rounds[last], trips[half], trips[last]
    );
}

#[test]
fn cells_take_their_share_of_the_rate() {
    let mut exchange = exchange(&[10_000_000]);
    exchange.join(Time::ZERO, &[0], NO_LIMIT).unwrap();
    exchange.run_until(Time::ZERO + Span::from_secs(10)).unwrap();
    // 64 B per cycle, 1 % of 10 Mbit/s: one in 5.12 ms, and up to 10 % of that as a pause.
    let cycles = exchange.counters().cycles;
    assert!((1_750..=1_954).contains(&cycles), "{cycles} cycles in 10 s");
}

#[test]
fn frees_state_of_left_sessions() {
    let mut exchange = exchange(&[1_000_000_000, 700_000_000]);
    let empty: Vec<_> = (0..2).map(|link| exchange.link(link).unwrap().state()).collect();
    for n in 0..400_u64 {
        let path: &[u32] = [&[0][..], &[1], &[0, 1]][n as usize % 3];
        let demand = Bandwidth::from_bits_per_sec(1 + n * 31 % 5_000 * 1_000);
        let joins = Time::from_nanos(n * 50_000);
        let id = exchange.join(joins, path, demand).unwrap();
        // Some leave while their first packet is in flight.
        exchange.leave(joins + Span::from_millis(n * n % 23), id).unwrap();
    }
    exchange.run_until(Time::ZERO + Span::from_secs(10)).unwrap();
    assert!(exchange.is_quiet());
    for (link, empty) in empty.into_iter().enumerate() {
        assert_eq!(exchange.link(link as u32).unwrap().state(), empty);
    }
}

#[test]
fn memory_is_linear_in_the_sessions() {
    for sessions in [100, 1_000, 10_000_u64] {
        let mut exchange = exchange(&[1 << 40]);
        for n in 0..sessions {
            exchange.join(Time::ZERO, &[0], Bandwidth::from_bits_per_sec(n + 1)).unwrap();
        }
        exchange.run_until(Time::ZERO + Span::from_millis(1)).unwrap();
        let state = exchange.link(0).unwrap().state();
        assert_eq!(state.numbers, 2 + 2 * sessions);
        let each = state.bytes as f64 / sessions as f64;
        assert!((16.0..66.0).contains(&each), "{each} B a session for {sessions}");
    }
}

#[test]
fn a_million_joins_at_one_instant() {
    let protocol = Bfyz::try_new(&Settings::default()).unwrap();
    let mut link = protocol.link(Bandwidth::from_bits_per_sec(1 << 56)).unwrap();
    let mut out = Outbox::default();
    let mut packet = BfyzPacket { kind: Kind::Join, rate: 0 };
    for session in 0..1_000_000 {
        packet.rate = 1 << 56;
        let visit = Visit { session: SessionId(session), hop: 0, towards: Towards::Destination };
        assert_eq!(link.visit(Time::ZERO, visit, &mut packet, &mut out), Fate::Forward);
    }
    assert_eq!(packet.rate, (1 << 56) / 1_000_000);
    assert!(out.is_empty());
    assert!(link.state().bytes <= 64 * 1_000_000);
}

#[test]
fn extremes_overflow_nothing() {
    let most = 1 << 56;
    let mut exchange = exchange(&[most, 1]);
    for n in 0..2_000 {
        let path: &[u32] = if n % 2 == 0 { &[0] } else { &[0, 1] };
        exchange.join(Time::ZERO, path, NO_LIMIT).unwrap();
    }
    let rates = settle(&mut exchange);
    assert_eq!(rates.iter().max(), Some(&(most / 1_000)));
    assert_eq!(rates.iter().min(), Some(&0), "1 bit/s for 1,000 sessions");
}

#[test]
fn rejects_bad_input() {
    let protocol = Bfyz::try_new(&Settings::default()).unwrap();
    for capacity in [0, (1 << 56) + 1, u64::MAX] {
        assert!(protocol.link(Bandwidth::from_bits_per_sec(capacity)).is_err());
    }
    assert!(protocol.source(SessionId(0), 0).is_err());
    let mut source = protocol.source(SessionId(0), 1).unwrap();
    let mut out = Outbox::default();
    assert!(source.join(Time::ZERO, Bandwidth::ZERO, &mut out).is_err());
    assert!(out.is_empty());
    source.join(Time::ZERO, NO_LIMIT, &mut out).unwrap();
    assert!(source.change(Time::ZERO, Bandwidth::ZERO, &mut out).is_err());
}
