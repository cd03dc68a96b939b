//! Rates compared with the oracle on the ideal network, with round trips below and above a round.

use base::{Bandwidth, RandomStream, Span, Time};

use super::{CobbGouda, Link, Packet, Totals};
use crate::exchange::{Exchange, Wire};
use crate::{
    Error, Link as _, Outbox, RateController, SessionId, Settings, Source as _, Towards, Visit,
};

const ROUND: u64 = CobbGouda::ROUND.as_nanos();

fn mbits(rate: u64) -> Bandwidth {
    Bandwidth::from_mbits_per_sec(rate)
}

fn round(number: u64) -> Time {
    Time::from_nanos(number * ROUND)
}

/// The largest relative error of a session; `None` while one has no rate.
fn worst(exchange: &Exchange<CobbGouda>) -> Option<f64> {
    exchange.fair_rates().into_iter().try_fold(0.0, |worst: f64, (session, fair)| {
        let rate = exchange.rate(session)?.bits_per_sec() as f64;
        Some(worst.max((rate - fair).abs() / fair))
    })
}

struct Random(RandomStream);

impl Random {
    fn new(seed: u64) -> Self {
        Self(RandomStream::new(seed, "cobb-gouda/tests"))
    }

    fn below(&mut self, bound: u64) -> u64 {
        self.0.below(bound)
    }
}

/// Links of 100 Mbit/s to 10 Gbit/s and up to `most_millis` each, and sessions over up to eight of
/// them, half of which request only 1–100 Mbit/s.
fn network(seed: u64, most_millis: u64) -> Exchange<CobbGouda> {
    let mut random = Random::new(seed);
    let links = 2 + random.below(29);
    let wires: Vec<Wire> = (0..links)
        .map(|_| {
            let capacity = Bandwidth::from_bits_per_sec(100_000_000 + random.below(9_900_000_000));
            let delay = 1 + random.below(most_millis * 1_000);
            Wire::new(capacity, Span::from_micros(delay))
        })
        .collect();
    let mut exchange = Exchange::try_new(&Settings::default(), &wires).unwrap();
    for _ in 0..2 + random.below(99) {
        join(&mut exchange, &mut random, Time::ZERO);
    }
    exchange
}

fn join(exchange: &mut Exchange<CobbGouda>, random: &mut Random, at: Time) -> SessionId {
    let mut path: Vec<u32> = (0..exchange.links() as u32).collect();
    let hops = 1 + random.below(path.len().min(8) as u64) as usize;
    for place in 0..hops {
        let other = place as u64 + random.below((path.len() - place) as u64);
        path.swap(place, other as usize);
    }
    let demand = match random.below(2) {
        0 => Bandwidth::from_bits_per_sec(u64::MAX),
        _ => Bandwidth::from_bits_per_sec(1_000_000 + random.below(99_000_000)),
    };
    exchange.join(at, &path[..hops], demand).unwrap()
}

/// The round at whose end all rates are correct, if there is one.
fn rounds_to_converge(exchange: &mut Exchange<CobbGouda>, most: u64) -> Option<u64> {
    let first = exchange.now().as_nanos() / ROUND;
    (1..=most).find(|rounds| {
        let end = Time::from_nanos((first + rounds) * ROUND - 1);
        exchange.run_until(end).unwrap();
        worst(exchange).is_some_and(|worst| worst < 1e-6)
    })
}

fn converged(seeds: u64, most_millis: u64) -> Vec<u64> {
    let rounds = |seed| rounds_to_converge(&mut network(seed, most_millis), 100);
    let mut all: Vec<u64> = (0..seeds).filter_map(rounds).collect();
    all.sort_unstable();
    all
}

#[test]
fn most_networks_converge_within_rounds() {
    // Eight links of up to 10 ms: round trips below 160 ms.
    let all = converged(100, 10);
    assert!(all.len() >= 92, "{} of 100", all.len());
    assert!(all[all.len() / 2] <= 10);
}

#[test]
fn some_networks_cycle_for_ever() {
    // All sessions react to the same totals at once: rate that one link frees is taken by
    // another, and back.
    for seed in [4, 40] {
        let mut exchange = network(seed, 10);
        exchange.run_until(round(300)).unwrap();
        let errors: Vec<f64> = (300..312)
            .map(|number| {
                exchange.run_until(round(number)).unwrap();
                worst(&exchange).unwrap()
            })
            .collect();
        assert!(errors.iter().all(|error| *error > 0.01), "{errors:?}");
    }
}

#[test]
fn trips_longer_than_a_round_never_converge() {
    // One link, eight sessions; the round trip takes 1.2 rounds.
    let mut exchange: Exchange<CobbGouda> = Exchange::try_new(
        &Settings::default(),
        &[Wire::new(mbits(80), Span::from_nanos(ROUND * 3 / 5))],
    )
    .unwrap();
    for _ in 0..8 {
        exchange.join(Time::ZERO, &[0], mbits(1_000)).unwrap();
    }
    for number in 2..100 {
        exchange.run_until(round(number)).unwrap();
        // No session is ever counted, so each gets an offer of the whole link: 700 % too much.
        assert!((worst(&exchange).unwrap() - 7.0).abs() < 1e-9);
    }
    // The same link with a round trip of 0.8 rounds.
    let wire = Wire::new(mbits(80), Span::from_nanos(ROUND * 2 / 5));
    let mut exchange: Exchange<CobbGouda> =
        Exchange::try_new(&Settings::default(), &[wire]).unwrap();
    for _ in 0..8 {
        exchange.join(Time::ZERO, &[0], mbits(1_000)).unwrap();
    }
    assert_eq!(rounds_to_converge(&mut exchange, 10), Some(2));
}

#[test]
fn few_networks_with_long_trips_converge() {
    // Eight links of up to 60 ms: round trips up to 960 ms.
    let all = converged(40, 60);
    assert!(all.len() <= 10, "{} of 40", all.len());
}

#[test]
fn forgets_left_sessions_and_follows_changes() {
    let wire = Wire::new(mbits(90), Span::from_millis(10));
    let mut exchange: Exchange<CobbGouda> =
        Exchange::try_new(&Settings::default(), &[wire]).unwrap();
    let first = exchange.join(Time::ZERO, &[0], mbits(500)).unwrap();
    let second = exchange.join(round(1), &[0], mbits(20)).unwrap();
    let third = exchange.join(round(1), &[0], mbits(500)).unwrap();
    assert_eq!(rounds_to_converge(&mut exchange, 10), Some(1));
    assert_eq!(exchange.rate(first), Some(mbits(90)));
    exchange.run_until(round(2)).unwrap();
    let rounds = rounds_to_converge(&mut exchange, 10).unwrap();
    assert_eq!(exchange.rate(third), Some(mbits(35)), "after {rounds} rounds");
    // A lower demand takes effect at once.
    exchange.change(exchange.now(), second, mbits(10)).unwrap();
    exchange.run_until(exchange.now()).unwrap();
    assert_eq!(exchange.rate(second), Some(mbits(10)));
    assert!(rounds_to_converge(&mut exchange, 10).is_some());
    exchange.leave(exchange.now(), third).unwrap();
    assert!(rounds_to_converge(&mut exchange, 10).is_some_and(|rounds| rounds <= 3));
    assert_eq!(exchange.rate(first), Some(mbits(80)));
    exchange.set_capacity(0, mbits(50)).unwrap();
    assert!(rounds_to_converge(&mut exchange, 10).is_some_and(|rounds| rounds <= 3));
    assert_eq!(exchange.rate(first), Some(mbits(40)));
}

#[test]
fn overassigns_sessions_that_join_at_the_same_time() {
    let wire = Wire::new(mbits(100), Span::from_millis(10));
    let mut exchange: Exchange<CobbGouda> =
        Exchange::try_new(&Settings::default(), &[wire]).unwrap();
    for number in 0..20 {
        let at = Time::from_nanos(1_000_000 * (number + 1));
        exchange.join(at, &[0], mbits(1_000)).unwrap();
    }
    exchange.run_until(Time::from_nanos(ROUND - 1)).unwrap();
    assert!((worst(&exchange).unwrap() - 19.0).abs() < 1e-9, "each got the whole link");
    assert!(rounds_to_converge(&mut exchange, 10).is_some_and(|rounds| rounds <= 3));
}

#[test]
fn lost_packets_are_forgotten() {
    let wire = Wire::new(mbits(100), Span::from_millis(10));
    let mut exchange: Exchange<CobbGouda> =
        Exchange::try_new(&Settings::default(), &[wire]).unwrap();
    for _ in 0..5 {
        exchange.join(Time::ZERO, &[0], mbits(1_000)).unwrap();
    }
    assert!(rounds_to_converge(&mut exchange, 10).is_some());
    let begins = exchange.now().as_nanos() / ROUND + 1;
    exchange.run_until(Time::from_nanos(begins * ROUND + 5_000_000)).unwrap();
    exchange.set_up(0, false).unwrap();
    exchange.set_up(0, true).unwrap();
    exchange.run_until(round(begins + 1)).unwrap();
    assert_eq!(exchange.counters().lost, 5);
    assert!(rounds_to_converge(&mut exchange, 10).is_some_and(|rounds| rounds <= 4));
}

/// Sends one round's packets of `sessions` unlimited sessions through the link.
fn pass(link: &mut Link, number: u32, sessions: u64, last: &mut Option<u64>) {
    let mut out = Outbox::default();
    let now = round(u64::from(number));
    let mut packets: Vec<Packet> = (0..sessions)
        .map(|_| Packet {
            last: last.unwrap_or(0),
            rate: crate::MAX_RATE,
            round: number,
            last_limit: 0,
            limit: Packet::SOURCE,
            known: last.is_some(),
            counts: true,
        })
        .collect();
    for towards in [Towards::Destination, Towards::Source] {
        for packet in &mut packets {
            let visit = Visit { session: SessionId(0), hop: 0, towards };
            link.visit(now, visit, packet, &mut out);
        }
    }
    *last = packets.last().map(|packet| packet.rate);
}

#[test]
fn any_numbers_in_a_link_are_forgotten_after_two_rounds() {
    let mut random = Random::new(1);
    for _ in 0..2_000 {
        let mut link = CobbGouda::with_round(CobbGouda::ROUND).link(mbits(100)).unwrap();
        let mut any = || match random.below(3) {
            0 => random.below(1 << 20),
            1 => u64::MAX - random.below(3),
            _ => random.0.bits(),
        };
        link.counting = Totals { elsewhere: any(), here: any(), sessions: any() };
        link.counted = Totals { elsewhere: any(), here: any(), sessions: any() };
        link.round = any() as u32;
        let (mut last, sessions) = (Some(any() >> 8), 1 + any() % 10);
        for number in 10..14 {
            pass(&mut link, number, sessions, &mut last);
        }
        assert_eq!(last, Some(100_000_000 / sessions));
    }
}

#[test]
fn the_state_is_constant() {
    let mut link = CobbGouda::with_round(CobbGouda::ROUND).link(mbits(100)).unwrap();
    for (number, sessions) in [1, 100, 10_000].into_iter().enumerate() {
        pass(&mut link, number as u32, sessions, &mut None);
        let state = link.state();
        assert_eq!((state.numbers, state.bytes), (7, 52));
    }
    assert_eq!(size_of::<Packet>(), 24);
}

#[test]
fn rejects_invalid_input() {
    let protocol = CobbGouda::try_new(&Settings::default()).unwrap();
    let most = Bandwidth::from_bits_per_sec(1 << 56);
    assert!(protocol.link(most).is_ok());
    let more = Bandwidth::from_bits_per_sec((1 << 56) + 1);
    assert_eq!(protocol.link(more).err(), Some(Error::Capacity { capacity: more }));
    let none = Bandwidth::default();
    assert_eq!(protocol.link(none).err(), Some(Error::Capacity { capacity: none }));
    assert!(protocol.source(SessionId(0), 254).is_ok());
    let path = Error::Path { hops: 255, most: 254 };
    assert_eq!(protocol.source(SessionId(0), 255).err(), Some(path));
    let mut source = protocol.source(SessionId(0), 1).unwrap();
    let mut out = Outbox::default();
    assert_eq!(source.join(Time::ZERO, none, &mut out), Err(Error::Demand { demand: none }));
    assert!(out.is_empty());
}

#[test]
fn churn_keeps_rates_off() {
    // A tenth of the sessions is replaced in every round.
    let mut errors = Vec::new();
    for seed in 0..20 {
        let mut exchange = network(seed, 10);
        let mut random = Random::new(seed + 1_000);
        for number in 1..40 {
            let present: Vec<SessionId> = exchange.present().collect();
            for session in &present {
                if random.below(10) == 0 {
                    let at = Time::from_nanos(number * ROUND + random.below(ROUND));
                    exchange.leave(at, *session).unwrap();
                    join(&mut exchange, &mut random, at);
                }
            }
            exchange.run_until(Time::from_nanos((number + 1) * ROUND - 1)).unwrap();
            for (session, fair) in exchange.fair_rates() {
                if let Some(rate) = exchange.rate(session).filter(|_| number >= 10) {
                    errors.push(rate.bits_per_sec() as f64 / fair - 1.0);
                }
            }
        }
    }
    errors.sort_by(f64::total_cmp);
    let mean = errors.iter().sum::<f64>() / errors.len() as f64;
    let at = |share: f64| errors[(errors.len() as f64 * share) as usize];
    assert!(at(0.1) < -0.1 && at(0.9) > 0.1, "a fifth is off by more than a tenth");
    assert!(mean.abs() < 0.1, "{mean}");
}
