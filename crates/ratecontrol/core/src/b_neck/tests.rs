use base::{Bandwidth, RandomStream, Span, Time};

use super::{BNeck, BNeckPacket, Limiter};
use crate::exchange::{Exchange, Wire};
use crate::trial::{SLACK, Step, TOLERANCE, Trial};
use crate::{
    Fate, Link as _, Outbox, RateController as _, SessionId, Settings, Source as _, Towards, Visit,
};

const MILLI: u64 = 1_000_000;

fn wire(capacity: u64) -> Wire {
    Wire::new(Bandwidth::from_bits_per_sec(capacity), Span::from_millis(1))
}

fn exchange(capacities: &[u64]) -> Exchange<BNeck> {
    let wires: Vec<Wire> = capacities.iter().map(|capacity| wire(*capacity)).collect();
    Exchange::try_new(&Settings::default(), &wires).unwrap()
}

fn at(millis: u64) -> Time {
    Time::from_nanos(millis * MILLI)
}

fn rates(exchange: &Exchange<BNeck>) -> Vec<u64> {
    exchange.present().map(|id| exchange.rate(id).unwrap().bits_per_sec()).collect()
}

const NO_LIMIT: Bandwidth = Bandwidth::from_bits_per_sec(u64::MAX);

/// Runs until no packet is left, within a limit.
fn rest(exchange: &mut Exchange<BNeck>) {
    let until = exchange.now() + Span::from_secs(60);
    exchange.run_until(until).unwrap();
    assert!(exchange.is_quiet(), "packets still travel");
}

#[test]
fn two_links_share_one_session() {
    let mut exchange = exchange(&[90, 60]);
    for path in [&[0][..], &[0, 1], &[1], &[1]] {
        exchange.join(at(0), path, NO_LIMIT).unwrap();
    }
    rest(&mut exchange);
    assert_eq!(rates(&exchange), [70, 20, 20, 20]);
}

#[test]
fn joins_leaves_and_changes_are_heard_of() {
    let mut exchange = exchange(&[100, 40]);
    let long = exchange.join(at(0), &[0, 1], NO_LIMIT).unwrap();
    let short = exchange.join(at(0), &[0], NO_LIMIT).unwrap();
    rest(&mut exchange);
    assert_eq!(rates(&exchange), [40, 60]);
    exchange.change(exchange.now(), short, Bandwidth::from_bits_per_sec(10)).unwrap();
    rest(&mut exchange);
    assert_eq!(rates(&exchange), [40, 10]);
    exchange.set_capacity(1, Bandwidth::from_bits_per_sec(95)).unwrap();
    rest(&mut exchange);
    assert_eq!(rates(&exchange), [90, 10]);
    exchange.set_capacity(0, Bandwidth::from_bits_per_sec(50)).unwrap();
    rest(&mut exchange);
    assert_eq!(rates(&exchange), [40, 10]);
    exchange.leave(exchange.now(), long).unwrap();
    exchange.change(exchange.now(), short, NO_LIMIT).unwrap();
    rest(&mut exchange);
    assert_eq!(rates(&exchange), [50]);
}

fn assert_fair(exchange: &Exchange<BNeck>, seed: u64) {
    for (id, fair) in exchange.fair_rates() {
        let rate = exchange.rate(id).unwrap().bits_per_sec() as f64;
        let off = (rate - fair).abs();
        assert!(off <= TOLERANCE * fair + SLACK, "seed {seed}, {id:?}: {rate}, not {fair}");
    }
}

#[test]
fn random_networks_come_to_rest_at_the_oracles_rates() {
    let instances = if cfg!(debug_assertions) { 400 } else { 10_000 };
    let (mut packets, mut most, mut sessions) = (0, 0.0_f64, 0);
    for seed in 0..instances {
        let trial = Trial::draw(seed);
        let mut exchange: Exchange<BNeck> = trial.exchange().unwrap();
        exchange.run_until(trial.settled()).unwrap();
        rest(&mut exchange);
        assert_fair(&exchange, seed);
        let sent = exchange.counters().packets;
        packets += sent;
        let joins = trial.steps.iter().filter(|(_, step)| matches!(step, Step::Join { .. }));
        let joined = joins.count() as u64;
        sessions += joined;
        most = most.max(sent as f64 / joined as f64);

        let present: Vec<SessionId> = exchange.present().collect();
        for id in present {
            exchange.leave(exchange.now(), id).unwrap();
        }
        rest(&mut exchange);
        for link in 0..exchange.links() as u32 {
            assert!(exchange.link(link).unwrap().is_empty(), "seed {seed}, link {link}");
        }
    }
    let each = packets as f64 / sessions as f64;
    eprintln!(
        "{instances} instances, {sessions} sessions: {each:.1} packets a session until rest, \
         {most:.1} in the worst instance"
    );
}

#[test]
fn capacities_that_change_while_packets_travel() {
    let instances = if cfg!(debug_assertions) { 100 } else { 5_000 };
    for seed in 0..instances {
        let trial = Trial::draw(seed);
        let mut exchange: Exchange<BNeck> = trial.exchange().unwrap();
        let mut rng = RandomStream::new(seed, "capacities");
        for step in 1..=8 {
            let at = trial.settled().as_nanos() / 8 * step;
            exchange.run_until(Time::from_nanos(at)).unwrap();
            let link = rng.below(exchange.links() as u64) as usize;
            let old = trial.wires[link].capacity.bits_per_sec();
            let new = Bandwidth::from_bits_per_sec((old / 8).max(1) * (1 + rng.below(16)));
            exchange.set_capacity(link as u32, new).unwrap();
        }
        exchange.run_until(trial.settled()).unwrap();
        rest(&mut exchange);
        assert_fair(&exchange, seed);
    }
}

#[test]
fn a_million_joins_at_one_instant() {
    let protocol = BNeck::try_new(&Settings::default()).unwrap();
    let mut link = protocol.link(Bandwidth::from_bits_per_sec(1 << 56)).unwrap();
    let mut out = Outbox::default();
    let mut offer = 0;
    for session in 0..1_000_000 {
        let visit = Visit { session: SessionId(session), hop: 0, towards: Towards::Destination };
        let mut packet = BNeckPacket::Join { rate: 1 << 56, limiter: Limiter::Demand };
        assert_eq!(link.visit(Time::ZERO, visit, &mut packet, &mut out), Fate::Forward);
        if let BNeckPacket::Join { rate, .. } = packet {
            offer = rate;
        }
    }
    assert_eq!(offer, (1 << 56) / 1_000_000);
    assert!(out.is_empty());
    assert!(link.state().bytes <= 64 * 1_000_000);
}

#[test]
fn frees_state_of_left_sessions() {
    let mut exchange = exchange(&[1_000_000, 700_000]);
    let empty: Vec<_> = (0..2).map(|link| exchange.link(link).unwrap().state()).collect();
    for n in 0..400_u64 {
        let path: &[u32] = [&[0][..], &[1], &[0, 1]][n as usize % 3];
        let demand = Bandwidth::from_bits_per_sec(1 + n * 31 % 5_000);
        let id = exchange.join(Time::from_nanos(n * 50_000), path, demand).unwrap();
        // Some leave while their first packet is in flight.
        exchange.leave(Time::from_nanos(n * 50_000 + n * n % 7 * MILLI), id).unwrap();
    }
    rest(&mut exchange);
    assert_eq!(exchange.present().count(), 0);
    for (link, empty) in empty.into_iter().enumerate() {
        assert_eq!(exchange.link(link as u32).unwrap().state(), empty);
    }
}

#[test]
fn memory_is_linear_in_the_sessions() {
    let mut each = Vec::new();
    for sessions in [100, 1_000, 10_000_u32] {
        let mut exchange = exchange(&[1 << 40]);
        for n in 0..sessions {
            let demand = Bandwidth::from_bits_per_sec(u64::from(n) + 1);
            exchange.join(at(0), &[0], demand).unwrap();
        }
        rest(&mut exchange);
        let state = exchange.link(0).unwrap().state();
        assert!(state.numbers > u64::from(sessions));
        each.push(state.bytes as f64 / f64::from(sessions));
    }
    assert!(each.iter().all(|bytes| (24.0..140.0).contains(bytes)), "{each:?}");
}

#[test]
fn extremes_overflow_nothing() {
    let most = 1 << 56;
    let mut exchange = exchange(&[most, 1]);
    for n in 0..2_000 {
        let path: &[u32] = if n % 2 == 0 { &[0] } else { &[0, 1] };
        exchange.join(at(0), path, NO_LIMIT).unwrap();
    }
    rest(&mut exchange);
    let rates = rates(&exchange);
    assert_eq!(rates.iter().max(), Some(&(most / 1_000)));
    assert_eq!(rates.iter().min(), Some(&0), "1 bit/s for 1,000 sessions");
}

#[test]
fn rejects_bad_input() {
    let protocol = BNeck::try_new(&Settings::default()).unwrap();
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
