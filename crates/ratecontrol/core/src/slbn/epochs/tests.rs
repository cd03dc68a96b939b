//! Epochs under losses, failures and restarts, compared with plain SLBN.

use base::{Bandwidth, RandomStream, Ratio, Span, Time};
use proptest::prelude::*;

use super::link::Triple;
use super::{Epochs, Packet};
use crate::exchange::{Exchange, Wire};
use crate::slbn::Slbn;
use crate::trial::{SLACK, TOLERANCE, Trial};
use crate::{Fate, Link as _, Outbox, RateController, SessionId, Settings, Towards, Visit};

const EPOCH: Span = Epochs::EPOCH;

fn percent(percent: u64) -> Ratio {
    Ratio::from_parts_per_billion(percent * 10_000_000)
}

/// The session with the largest error, its rate and the oracle's, if there is an error.
fn worst<R: RateController>(exchange: &Exchange<R>) -> Option<(SessionId, f64, f64)> {
    let rate = |session| exchange.rate(session).map_or(0.0, |rate| rate.bits_per_sec() as f64);
    let rates = exchange.fair_rates().into_iter().map(|(session, fair)| {
        let rate = rate(session);
        (session, rate, fair, (rate - fair).abs() - TOLERANCE * fair - SLACK)
    });
    let wrong = rates.filter(|(_, _, _, off)| *off > 0.0);
    wrong.max_by(|a, b| a.3.total_cmp(&b.3)).map(|(session, rate, fair, _)| (session, rate, fair))
}

/// The triple in force at each link if it had just counted the present sessions. Exact only while
/// no contribution changes.
fn truth(exchange: &Exchange<Epochs>) -> Vec<Triple> {
    let mut links = vec![Triple::default(); exchange.links()];
    for session in exchange.present() {
        let packet = exchange.source(session).unwrap().packet;
        for (hop, link) in exchange.path_of(session).unwrap().iter().enumerate() {
            let here = packet.is_limited_at(hop as u8);
            links[*link as usize].add(Triple::of((!here).then_some(packet.last)));
        }
    }
    links
}

/// The links whose triple in force is wrong.
fn misled(exchange: &Exchange<Epochs>) -> Vec<(u32, Triple, Triple)> {
    let links = (0..).zip(truth(exchange));
    let pairs = links.map(|(link, truth)| (link, exchange.link(link).unwrap().in_force, truth));
    // Unused links end their epochs only when a session joins.
    pairs.filter(|(_, held, truth)| held != truth && truth.sessions != 0).collect()
}

/// A trial whose sessions pause between cycles, for about 20 ms at a tenth of the largest capacity:
/// without pauses minutes of epochs would be many millions of cycles.
fn paced(seed: u64) -> Trial {
    let mut trial = Trial::draw(seed);
    let largest = trial.wires.iter().map(|wire| wire.capacity.bits_per_sec()).max().unwrap();
    trial.settings = Settings { seed, ..Settings::default() };
    let bits = trial.settings.packet.count() as f64 * 8.0;
    let share = bits / 0.02 / (largest as f64 / 10.0);
    trial.settings.share = Ratio::from_parts_per_billion(((share * 1e9) as u64).max(1));
    trial
}

/// Applies losses of `percent` from 3 epochs before a trial is settled until 3 after, while one
/// session in five fails without Leave.
fn disturb<R: RateController>(seed: u64, loss: u64) -> Exchange<R> {
    let trial = paced(seed);
    let mut exchange = trial.exchange::<R>().unwrap();
    exchange.lose(percent(loss), seed);
    exchange.run_until(trial.settled() + EPOCH * 2).unwrap();
    let sessions: Vec<SessionId> = exchange.present().collect();
    for session in sessions.iter().skip(1).step_by(5) {
        exchange.kill(*session).unwrap();
    }
    exchange.run_until(exchange.now() + EPOCH).unwrap();
    exchange.lose(Ratio::ZERO, 0);
    exchange
}

/// Rates and sums are correct some time after losses and failures: sums after four epochs (earlier
/// repetitions must have ended too), rates some cycles later.
fn check_recovery(seed: u64, loss: u64) -> Result<(), String> {
    let mut exchange = disturb::<Epochs>(seed, loss);
    exchange.run_until(exchange.now() + EPOCH * 4).unwrap();
    let counts = |exchange: &Exchange<Epochs>| {
        let truth = truth(exchange);
        (0..).zip(&truth).all(|(link, truth)| {
            truth.sessions == 0 || exchange.link(link).unwrap().in_force.sessions == truth.sessions
        })
    };
    if !counts(&exchange) {
        return Err(format!("seed {seed}, {loss} %: N is wrong after four epochs"));
    }
    for _ in 0..40 {
        exchange.run_until(exchange.now() + EPOCH).unwrap();
        if !counts(&exchange) {
            return Err(format!("seed {seed}, {loss} %: N became wrong"));
        }
        if worst(&exchange).is_none() && misled(&exchange).is_empty() {
            return Ok(());
        }
    }
    let (worst, misled) = (worst(&exchange), misled(&exchange));
    Err(format!("seed {seed}, {loss} %: {worst:?} {misled:?}"))
}

#[test]
fn links_recover_from_loss_and_death() {
    for seed in 0..12 {
        for loss in [1, 5, 20] {
            check_recovery(seed, loss).unwrap();
        }
    }
}

#[test]
#[ignore = "a soak, 13 s in release: cargo test --release -p netarium-ratecontrol-core -- --ignored"]
fn links_recover_in_very_many_networks() {
    let failures: Vec<String> = (1_000..3_000)
        .filter_map(|seed| check_recovery(seed, [1, 5, 20][seed as usize % 3]).err())
        .collect();
    assert!(failures.is_empty(), "{} of 2000: {:#?}", failures.len(), &failures[..1]);
}

/// Reason for epochs: a lost packet is the only copy of the contributions that links count.
#[test]
fn plain_slbn_never_recovers() {
    let mut exchange = disturb::<Slbn>(3, 5);
    exchange.run_until(exchange.now() + EPOCH * 40).unwrap();
    let (_, rate, fair) = worst(&exchange).expect("sessions whose packet is lost stay as they are");
    assert!((rate - fair).abs() > 0.01 * fair);
}

fn wires(capacities: &[u64]) -> Vec<Wire> {
    let delay = Span::from_millis(5);
    let wire = |mbits: &u64| Wire::new(Bandwidth::from_mbits_per_sec(*mbits), delay);
    capacities.iter().map(wire).collect()
}

fn greedy<R: RateController>(exchange: &mut Exchange<R>, paths: &[&[u32]]) -> Vec<SessionId> {
    let unlimited = Bandwidth::from_bits_per_sec(u64::MAX);
    let join = |path: &&[u32]| exchange.join(Time::ZERO, path, unlimited).unwrap();
    paths.iter().map(join).collect()
}

fn at(epochs: u64) -> Time {
    Time::ZERO + EPOCH * epochs
}

/// Plain SLBN cannot detect that a source has failed.
#[test]
fn only_epochs_reclaim_dead_sources() {
    let settings = Settings::default();
    let full = Some(Bandwidth::from_mbits_per_sec(100));
    let mut epochs = Exchange::<Epochs>::try_new(&settings, &wires(&[100])).unwrap();
    let sessions = greedy(&mut epochs, &[&[0], &[0]]);
    epochs.run_until(at(3)).unwrap();
    epochs.kill(sessions[0]).unwrap();
    epochs.run_until(at(5) + Span::from_millis(600)).unwrap();
    assert_eq!(epochs.rate(sessions[1]), full);
    let one = Triple { others: 0, limited: 1, sessions: 1 };
    assert_eq!(epochs.link(0).unwrap().in_force, one);

    let mut plain = Exchange::<Slbn>::try_new(&settings, &wires(&[100])).unwrap();
    let sessions = greedy(&mut plain, &[&[0], &[0]]);
    plain.run_until(at(3)).unwrap();
    plain.kill(sessions[0]).unwrap();
    plain.run_until(at(100)).unwrap();
    assert_eq!(plain.rate(sessions[1]), Some(Bandwidth::from_mbits_per_sec(50)));
    assert_eq!(plain.link(0).unwrap().integers().2, 2);
}

#[test]
fn a_restarted_link_learns_within_a_cycle() {
    let settings = Settings::default();
    let mut exchange = Exchange::<Epochs>::try_new(&settings, &wires(&[100, 40, 60])).unwrap();
    let sessions = greedy(&mut exchange, &[&[0, 1], &[0], &[1, 2], &[0, 1, 2]]);
    exchange.run_until(at(5)).unwrap();
    let before = exchange.link(1).unwrap().in_force;
    assert_eq!(before.sessions, 3);
    exchange.restart(1).unwrap();
    exchange.run_until(at(5) + Span::from_millis(600)).unwrap();
    assert_eq!(exchange.link(1).unwrap().in_force, before);
    for session in sessions {
        assert!(exchange.rate(session).is_some());
    }
    assert_eq!((worst(&exchange), misled(&exchange)), (None, vec![]));
}

#[test]
fn a_link_that_returns_finds_its_sessions_again() {
    let settings = Settings::default();
    let mut exchange = Exchange::<Epochs>::try_new(&settings, &wires(&[100, 40])).unwrap();
    let sessions = greedy(&mut exchange, &[&[0, 1], &[0]]);
    exchange.run_until(at(3)).unwrap();
    exchange.set_up(1, false).unwrap();
    // The disconnected session still shares link 0, which its packets reach.
    exchange.run_until(at(20)).unwrap();
    exchange.set_up(1, true).unwrap();
    exchange.run_until(at(25)).unwrap();
    assert_eq!((worst(&exchange), misled(&exchange)), (None, vec![]));
    assert_eq!(exchange.rate(sessions[0]), Some(Bandwidth::from_mbits_per_sec(40)));
}

#[test]
fn satellites_need_no_longer_epoch_to_go_on() {
    // Round trips of 2.4 s, epochs of 1 s: the source learns that repetitions are too early.
    let settings = Settings::default();
    let wire = Wire::new(Bandwidth::from_mbits_per_sec(10), Span::from_millis(1_200));
    let mut exchange = Exchange::<Epochs>::try_new(&settings, &[wire]).unwrap();
    let sessions = greedy(&mut exchange, &[&[0]]);
    exchange.run_until(at(30)).unwrap();
    assert_eq!(exchange.rate(sessions[0]), Some(Bandwidth::from_mbits_per_sec(10)));
    assert!(exchange.cycles(sessions[0]) > 8);
}

#[test]
fn without_loss_it_is_slbn() {
    for seed in 0..24 {
        let outcome = Trial::draw(seed).run::<Epochs>().unwrap();
        assert!(outcome.right, "seed {seed}: {outcome:?}");
    }
}

#[test]
fn a_leave_that_is_lost_is_an_ordinary_death() {
    let settings = Settings::default();
    let mut exchange = Exchange::<Epochs>::try_new(&settings, &wires(&[100])).unwrap();
    let sessions = greedy(&mut exchange, &[&[0], &[0]]);
    exchange.leave(at(3), sessions[0]).unwrap();
    exchange.run_until(Time::from_nanos(at(3).as_nanos() - 1)).unwrap();
    exchange.set_up(0, false).unwrap();
    exchange.run_until(at(3) + Span::from_millis(100)).unwrap();
    exchange.set_up(0, true).unwrap();
    exchange.run_until(at(7)).unwrap();
    assert!(exchange.is_gone(sessions[0]));
    assert_eq!((worst(&exchange), misled(&exchange)), (None, vec![]));
}

/// Otherwise each of many sessions finds the wide link free, and the sum of their rates exceeds it.
#[test]
fn links_behind_the_bottleneck_reserve_a_share_for_joiners() {
    let protocol = Epochs::try_new(&Settings::default()).unwrap();
    let [mut narrow, mut wide] =
        [10, 100].map(|rate| protocol.link(Bandwidth::from_bits_per_sec(rate)).unwrap());
    let mut packet = Packet::joining(1000);
    let mut out = Outbox::default();
    let mut cross = |link: &mut super::Link, hop, towards| {
        let visit = Visit { session: SessionId(1), hop, towards };
        link.visit(Time::ZERO, visit, &mut packet, &mut out);
        link.integers()
    };
    assert_eq!(cross(&mut narrow, 0, Towards::Destination), (0, 1, 1));
    assert_eq!(cross(&mut wide, 1, Towards::Destination), (0, 1, 1));
    cross(&mut wide, 1, Towards::Source);
    assert_eq!(cross(&mut narrow, 0, Towards::Source), (0, 1, 1));
    assert_eq!((packet.rate, packet.limit), (10, 0));
}

proptest! {
    /// For arbitrary packets, shares do not exceed the capacity and nothing overflows.
    #[test]
    fn nonsense_gives_rates_within_the_capacity(
        seed: u64,
        capacity in prop_oneof![1_u64..100, Just(1_u64 << 56), 1_u64..1 << 56],
    ) {
        let mut rng = RandomStream::new(seed, "nonsense");
        let protocol = Epochs::try_new(&Settings::default()).unwrap();
        let mut link = protocol.link(Bandwidth::from_bits_per_sec(capacity)).unwrap();
        let mut out = Outbox::default();
        let mut now = Time::ZERO;
        for _ in 0..500 {
            let mut packet = Packet::joining(rng.bits());
            packet.last = rng.bits();
            packet.older = rng.bits();
            packet.leaves = rng.below(4) == 0;
            packet.limit = if rng.below(2) == 0 { 3 } else { Packet::SOURCE };
            packet.set_limited_at(3, rng.below(2) == 0);
            packet.set_stamp(3, (rng.below(4) != 0).then(|| rng.below(7) as u8));
            let towards =
                [Towards::Destination, Towards::Source][rng.below(2) as usize];
            let visit = Visit { session: SessionId(1), hop: 3, towards };
            now += Span::from_nanos(rng.below(EPOCH.as_nanos() / 2));
            prop_assert_eq!(link.visit(now, visit, &mut packet, &mut out), Fate::Forward);
            // For new sessions links change the rate only upstream.
            let returns = towards == Towards::Source;
            prop_assert!(!returns || packet.leaves || packet.limit != 3 || packet.rate <= capacity);
        }
    }
}
