//! Clocks that differ, drift and step, over paths that are slower one way than the other.

use std::net::{Ipv4Addr, SocketAddr};

use base::RandomStream;

use super::*;

/// Two clocks and the path between them. True time is the own clock's.
struct World {
    random: RandomStream,
    /// The other clock at true time zero, in nanoseconds, and its rate less one, in ppm.
    offset: i64,
    ppm: f64,
    /// Least time of each way and mean of what comes on top, in nanoseconds.
    ways: [(u64, u64); 2],
}

impl World {
    fn new(seed: u64, offset: i64, ppm: f64, ways: [(u64, u64); 2]) -> Self {
        Self { random: RandomStream::new(seed, "world"), offset, ppm, ways }
    }

    fn there(&self, own: Time) -> Time {
        let drift = own.as_nanos() as f64 * self.ppm / 1e6;
        Time::from_nanos(own.as_nanos().saturating_add_signed(self.offset + drift as i64))
    }

    /// Exponential jitter.
    fn way(&mut self, way: usize) -> Span {
        let (least, more) = self.ways[way];
        let more = -(1.0 - self.random.unit()).ln() * more as f64;
        Span::from_nanos(least + more as u64)
    }

    fn exchange(&mut self, sent: Time) -> Exchange {
        let arrived = sent + self.way(0);
        let left = arrived + Span::from_micros(3);
        let returned = left + self.way(1);
        Exchange { sent, received: self.there(arrived), answered: self.there(left), returned }
    }

    /// How wrong an estimate is.
    fn error(&self, now: Time, offset: Offset) -> f64 {
        self.there(now).as_nanos() as f64 - offset.there(now).as_nanos() as f64
    }
}

const START: u64 = 500_000_000_000;

fn at(millis: u64) -> Time {
    Time::from_nanos(START) + Span::from_millis(millis)
}

#[test]
fn the_bound_holds_and_becomes_tight() {
    for (seed, ppm) in [(1, 0.0), (2, 100.0), (3, -100.0), (4, 17.5), (5, -180.0)] {
        for ways in [
            [(30_000, 20_000), (30_000, 20_000)],
            [(30_000, 5_000), (30_000, 400_000)],
            [(200_000, 1_000_000), (20_000, 1_000)],
        ] {
            let mut world = World::new(seed, -300_000_000_000, ppm, ways);
            let mut filter = OffsetFilter::default();
            for step in 0..480 {
                let now = at(step * 250);
                assert!(filter.add(world.exchange(now)));
                for later in [10, 120, 249, 2_000] {
                    let later = now + Span::from_millis(later);
                    let offset = filter.offset(later).unwrap();
                    let error = world.error(later, offset).abs();
                    let bound = offset.bound.as_nanos() as f64;
                    assert!(error <= bound, "seed {seed}, step {step}: {error} > {bound}");
                }
            }
            assert_eq!(filter.steps(), 0);
            let offset = filter.offset(at(120_000)).unwrap();
            let half = (ways[0].0 + ways[1].0) as f64 / 2.0;
            let bound = offset.bound.as_nanos() as f64;
            let allowed = 3.0 * half + 30_000.0;
            assert!(bound < allowed, "seed {seed}, {ways:?}: bound {bound}, allowed {allowed}");
            let skew = offset.skew as f64 / 1e3;
            assert!((skew - ppm).abs() < 10.0, "seed {seed}: {skew} ppm instead of {ppm}");
        }
    }
}

#[test]
fn even_ways_give_a_fine_estimate() {
    let mut world = World::new(9, 123_456_789_000, 42.0, [(40_000, 30_000); 2]);
    let mut filter = OffsetFilter::default();
    let mut worst: f64 = 0.0;
    for step in 0..400 {
        filter.add(world.exchange(at(step * 250)));
        if step > 40 {
            let now = at(step * 250 + 200);
            worst = worst.max(world.error(now, filter.offset(now).unwrap()).abs());
        }
    }
    assert!(worst < 10_000.0, "off by up to {worst} ns");
}

#[test]
fn a_first_exchange_is_enough_for_a_bound() {
    let mut world = World::new(5, 1_000, 80.0, [(50_000, 1_000); 2]);
    let mut filter = OffsetFilter::default();
    assert_eq!(filter.offset(at(0)), None);
    filter.add(world.exchange(at(0)));
    let soon = filter.offset(at(1)).unwrap();
    assert!(soon.bound < Span::from_micros(70), "{}", soon.bound);
    // Without anything new, nobody can be sure for long.
    let later = filter.offset(at(10_000)).unwrap();
    assert!(later.bound > Span::from_millis(1) && later.bound < Span::from_millis(5));
    assert!(world.error(at(10_000), later).abs() <= later.bound.as_nanos() as f64);
}

#[test]
fn a_step_is_noticed_at_once() {
    let mut world = World::new(6, 0, 30.0, [(50_000, 20_000); 2]);
    let mut filter = OffsetFilter::default();
    for step in 0..200 {
        if step == 100 {
            world.offset += 5_000_000;
        }
        let now = at(step * 250);
        filter.add(world.exchange(now));
        let offset = filter.offset(now + Span::from_millis(200)).unwrap();
        let error = world.error(now + Span::from_millis(200), offset).abs();
        assert!(error <= offset.bound.as_nanos() as f64, "step {step}: {error}");
    }
    assert_eq!(filter.steps(), 1);
}

#[test]
fn contradictory_stamps_are_refused() {
    let mut filter = OffsetFilter::default();
    let exchange = |sent, received, answered, returned| {
        let [sent, received, answered, returned] =
            [sent, received, answered, returned].map(Time::from_nanos);
        Exchange { sent, received, answered, returned }
    };
    assert!(!filter.add(exchange(100, 0, 0, 99)));
    assert!(!filter.add(exchange(100, 50, 49, 200)));
    assert!(!filter.add(exchange(100, 50, 250, 200)));
    assert!(filter.add(exchange(0, u64::MAX, u64::MAX, 0)));
    assert_eq!(filter.offset(Time::MAX).unwrap().nanos, i64::MAX);
    assert!(filter.add(exchange(u64::MAX, 0, 0, u64::MAX)));
    assert_eq!(filter.offset(Time::MAX).unwrap().nanos, i64::MIN);
    assert_eq!(filter.steps(), 1);
}

/// Two pingers on one network of so much delay, for so long.
fn ping(millis: u64, mut lose: impl FnMut(u64) -> bool) -> (Pinger, u32) {
    let [own, peer] = [3, 4].map(|port| SocketAddr::from((Ipv4Addr::LOCALHOST, port)));
    let (mut asker, mut other) = (Pinger::new(1), Pinger::new(2));
    asker.add(at(0), "b", peer, &[2; 32]);
    other.add(at(0), "a", own, &[1; 32]);
    other.answer_to("a", &[2; 32]);
    let mut asked = 0;
    while let Some(now) = asker.next_wake().filter(|next| *next < at(millis)) {
        let (to, question) = asker.poll(now).unwrap();
        assert_eq!(to, peer);
        asked += 1;
        if lose(now.since(at(0)).as_nanos() / 1_000_000) {
            continue;
        }
        let there = now + Span::from_secs(1_000) + Span::from_micros(100);
        let answer = other.on_datagram(there, own, &question).unwrap();
        assert_eq!(answer.len(), question.len());
        let back = now + Span::from_micros(300);
        assert_eq!(asker.on_datagram(back, peer, &answer), None);
        // A second time it is nobody's.
        assert_eq!(asker.on_datagram(back, peer, &answer), None);
    }
    assert_eq!(asker.poll(at(millis.saturating_sub(1_000))), None);
    (asker, asked)
}

#[test]
fn pings_come_in_a_burst_and_then_steadily() {
    let (pinger, asked) = ping(400, |_| false);
    assert!((15..=18).contains(&asked), "{asked} questions in 0.4 s");
    let (pinger_long, asked_long) = ping(10_400, |_| false);
    assert!((36..=42).contains(&(asked_long - asked)), "{asked_long} questions in 10.4 s");
    for pinger in [pinger, pinger_long] {
        let offset = pinger.offset(at(11_000), "b").unwrap();
        let error = offset.nanos.abs_diff(1_000_000_000_000);
        assert!(Span::from_nanos(error) <= offset.bound, "{offset:?}");
        assert_eq!(pinger.path("b").unwrap().lost, 0);
        assert_eq!(pinger.path("b").unwrap().round_trips().max(), 300_000);
    }
}

#[test]
fn lost_pings_are_counted_and_a_return_starts_a_burst() {
    let (steady, asked_steady) = ping(20_000, |_| false);
    let (pinger, asked) = ping(20_000, |millis| (5_000..10_000).contains(&millis));
    assert_eq!(steady.path("b").unwrap().lost, 0);
    let lost = pinger.path("b").unwrap().lost;
    assert!((17..=20).contains(&lost), "{lost} lost in 5 s");
    let more = asked.saturating_sub(asked_steady);
    assert!((12..=17).contains(&more), "{more} more questions");
    assert_eq!(pinger.path("b").unwrap().answered + lost, u64::from(asked));
}

#[test]
fn questions_under_another_secret_or_from_elsewhere_get_no_answer() {
    let [own, elsewhere] = [3, 4].map(|port| SocketAddr::from((Ipv4Addr::LOCALHOST, port)));
    let mut pinger = Pinger::new(1);
    pinger.add(at(0), "a", own, &[7; 32]);
    pinger.answer_to("a", &[1; 32]);
    for (secret, from, answered) in
        [([1; 32], own, true), ([1; 32], elsewhere, false), ([7; 32], own, false)]
    {
        let mut asker = Pinger::new(2);
        asker.add(at(0), "b", elsewhere, &secret);
        let (_, question) = asker.poll(at(0)).unwrap();
        assert_eq!(pinger.on_datagram(at(0), from, &question).is_some(), answered, "{secret:?}");
    }
    assert_eq!(pinger.on_datagram(at(0), own, &[]), None);
}

#[test]
fn an_agent_that_states_the_address_of_another_does_not_take_its_place() {
    let [own, peer] = [3, 4].map(|port| SocketAddr::from((Ipv4Addr::LOCALHOST, port)));
    let (mut asker, mut other) = (Pinger::new(1), Pinger::new(2));
    asker.add(at(0), "a liar", peer, &[8; 32]);
    asker.add(at(0), "b", peer, &[2; 32]);
    other.add(at(0), "another liar", own, &[7; 32]);
    other.answer_to("another liar", &[6; 32]);
    other.add(at(0), "a", own, &[1; 32]);
    other.answer_to("a", &[2; 32]);
    while let Some((_, question)) = asker.poll(at(0)) {
        if let Some(answer) = other.on_datagram(at(0), own, &question) {
            asker.on_datagram(at(1), peer, &answer);
        }
    }
    assert!(asker.offset(at(2), "b").is_some());
    assert_eq!(asker.offset(at(2), "a liar"), None);
}

#[test]
fn forged_answers_are_ignored() {
    let peer = SocketAddr::from((Ipv4Addr::LOCALHOST, 4));
    let mut asker = Pinger::new(1);
    asker.add(at(0), "b", peer, &[2; 32]);
    let (_, question) = asker.poll(at(0)).unwrap();
    // The number of the question is in clear: a host on the path knows it.
    let number = datagram::Ping::number(&question).unwrap();
    let stamp = at(5_000);
    for secret in [[0; 32], [1; 32], [3; 32]] {
        let forged = datagram::Ping { kind: datagram::Kind::Answer, number, stamp };
        let forged = forged.encode(&datagram::key(&secret));
        assert_eq!(asker.on_datagram(at(1), peer, &forged), None);
    }
    let mut turned = question.clone();
    turned[0] = 2;
    for forged in [turned, question] {
        assert_eq!(asker.on_datagram(at(1), peer, &forged), None);
    }
    assert_eq!(asker.offset(at(2), "b"), None, "no forged answer counts");
    let honest = datagram::Ping { kind: datagram::Kind::Answer, number, stamp };
    asker.on_datagram(at(1), peer, &honest.encode(&datagram::key(&[2; 32])));
    assert!(asker.offset(at(2), "b").is_some());
}
