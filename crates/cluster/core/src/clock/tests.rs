//! Clocks with offset, skew and steps, over symmetric and asymmetric paths.

use std::net::{Ipv4Addr, SocketAddr};

use base::RandomStream;

use super::*;

/// Two clocks and the path between them. The local clock shows true time.
struct World {
    rng: RandomStream,
    /// The remote clock at true time zero, in nanoseconds, and its skew in ppm.
    offset: i64,
    ppm: f64,
    /// Min delay and mean jitter of each direction, in nanoseconds.
    directions: [(u64, u64); 2],
}

impl World {
    fn new(seed: u64, offset: i64, ppm: f64, directions: [(u64, u64); 2]) -> Self {
        Self { rng: RandomStream::new(seed, "world"), offset, ppm, directions }
    }

    fn remote(&self, own: Time) -> Time {
        let drift = own.as_nanos() as f64 * self.ppm / 1e6;
        Time::from_nanos(own.as_nanos().saturating_add_signed(self.offset + drift as i64))
    }

    /// A delay with exponential jitter.
    fn delay(&mut self, direction: usize) -> Span {
        let (min, mean_jitter) = self.directions[direction];
        let jitter = -(1.0 - self.rng.unit()).ln() * mean_jitter as f64;
        Span::from_nanos(min + jitter as u64)
    }

    fn exchange(&mut self, sent: Time) -> Exchange {
        let arrived = sent + self.delay(0);
        let left = arrived + Span::from_micros(3);
        let returned = left + self.delay(1);
        Exchange { sent, received: self.remote(arrived), answered: self.remote(left), returned }
    }

    /// The error of an estimate in ns.
    fn error(&self, now: Time, offset: Offset) -> f64 {
        self.remote(now).as_nanos() as f64 - offset.to_remote(now).as_nanos() as f64
    }
}

const START: u64 = 500_000_000_000;

fn at(millis: u64) -> Time {
    Time::from_nanos(START) + Span::from_millis(millis)
}

#[test]
fn error_stays_within_bound_and_bound_becomes_tight() {
    for (seed, ppm) in [(1, 0.0), (2, 100.0), (3, -100.0), (4, 17.5), (5, -180.0)] {
        for directions in [
            [(30_000, 20_000), (30_000, 20_000)],
            [(30_000, 5_000), (30_000, 400_000)],
            [(200_000, 1_000_000), (20_000, 1_000)],
        ] {
            let mut world = World::new(seed, -300_000_000_000, ppm, directions);
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
            let half = (directions[0].0 + directions[1].0) as f64 / 2.0;
            let bound = offset.bound.as_nanos() as f64;
            let allowed = 3.0 * half + 30_000.0;
            assert!(
                bound < allowed,
                "seed {seed}, {directions:?}: bound {bound}, allowed {allowed}"
            );
            let skew = offset.skew as f64 / 1e3;
            assert!((skew - ppm).abs() < 10.0, "seed {seed}: {skew} ppm instead of {ppm}");
        }
    }
}

#[test]
fn estimate_is_accurate_on_symmetric_path() {
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
fn first_exchange_gives_a_bound() {
    let mut world = World::new(5, 1_000, 80.0, [(50_000, 1_000); 2]);
    let mut filter = OffsetFilter::default();
    assert_eq!(filter.offset(at(0)), None);
    filter.add(world.exchange(at(0)));
    let soon = filter.offset(at(1)).unwrap();
    assert!(soon.bound < Span::from_micros(70), "{}", soon.bound);
    // Without further exchanges the bound grows.
    let later = filter.offset(at(10_000)).unwrap();
    assert!(later.bound > Span::from_millis(1) && later.bound < Span::from_millis(5));
    assert!(world.error(at(10_000), later).abs() <= later.bound.as_nanos() as f64);
}

#[test]
fn detects_clock_step_at_once() {
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
fn rejects_contradictory_timestamps() {
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

/// Two pingers for `millis` ms on a network with a delay of 100 µs; `lose` drops requests by time.
fn ping(millis: u64, mut lose: impl FnMut(u64) -> bool) -> (Pinger, u32) {
    let [own, peer] = [3, 4].map(|port| SocketAddr::from((Ipv4Addr::LOCALHOST, port)));
    let (mut requester, mut responder) = (Pinger::new(1), Pinger::new(2));
    requester.add(at(0), "b", peer, &[2; 32]);
    responder.add(at(0), "a", own, &[1; 32]);
    responder.answer_to("a", &[2; 32]);
    let mut requests = 0;
    while let Some(now) = requester.next_wake().filter(|next| *next < at(millis)) {
        let (to, request) = requester.poll(now).unwrap();
        assert_eq!(to, peer);
        requests += 1;
        if lose(now.since(at(0)).as_nanos() / 1_000_000) {
            continue;
        }
        let arrival = now + Span::from_secs(1_000) + Span::from_micros(100);
        let answer = responder.on_datagram(arrival, own, &request).unwrap();
        assert_eq!(answer.len(), request.len());
        let back = now + Span::from_micros(300);
        assert_eq!(requester.on_datagram(back, peer, &answer), None);
        // A duplicate reply is ignored.
        assert_eq!(requester.on_datagram(back, peer, &answer), None);
    }
    assert_eq!(requester.poll(at(millis.saturating_sub(1_000))), None);
    (requester, requests)
}

#[test]
fn pings_start_with_a_burst_and_continue_at_interval() {
    let (pinger, asked) = ping(400, |_| false);
    assert!((15..=18).contains(&asked), "{asked} requests in 0.4 s");
    let (pinger_long, asked_long) = ping(10_400, |_| false);
    assert!((36..=42).contains(&(asked_long - asked)), "{asked_long} requests in 10.4 s");
    for pinger in [pinger, pinger_long] {
        let offset = pinger.offset(at(11_000), "b").unwrap();
        let error = offset.nanos.abs_diff(1_000_000_000_000);
        assert!(Span::from_nanos(error) <= offset.bound, "{offset:?}");
        assert_eq!(pinger.path("b").unwrap().lost, 0);
        assert_eq!(pinger.path("b").unwrap().rtts().max(), 300_000);
    }
}

#[test]
fn counts_lost_pings_and_starts_burst_on_return() {
    let (steady, asked_steady) = ping(20_000, |_| false);
    let (pinger, asked) = ping(20_000, |millis| (5_000..10_000).contains(&millis));
    assert_eq!(steady.path("b").unwrap().lost, 0);
    let lost = pinger.path("b").unwrap().lost;
    assert!((17..=20).contains(&lost), "{lost} lost in 5 s");
    let more = asked.saturating_sub(asked_steady);
    assert!((12..=17).contains(&more), "{more} more requests");
    assert_eq!(pinger.path("b").unwrap().answered + lost, u64::from(asked));
}

#[test]
fn ignores_requests_with_wrong_secret_or_address() {
    let [own, elsewhere] = [3, 4].map(|port| SocketAddr::from((Ipv4Addr::LOCALHOST, port)));
    let mut pinger = Pinger::new(1);
    pinger.add(at(0), "a", own, &[7; 32]);
    pinger.answer_to("a", &[1; 32]);
    for (secret, from, answered) in
        [([1; 32], own, true), ([1; 32], elsewhere, false), ([7; 32], own, false)]
    {
        let mut requester = Pinger::new(2);
        requester.add(at(0), "b", elsewhere, &secret);
        let (_, request) = requester.poll(at(0)).unwrap();
        assert_eq!(pinger.on_datagram(at(0), from, &request).is_some(), answered, "{secret:?}");
    }
    assert_eq!(pinger.on_datagram(at(0), own, &[]), None);
}

#[test]
fn agent_with_false_address_does_not_replace_real_one() {
    let [own, peer] = [3, 4].map(|port| SocketAddr::from((Ipv4Addr::LOCALHOST, port)));
    let (mut requester, mut responder) = (Pinger::new(1), Pinger::new(2));
    requester.add(at(0), "impostor", peer, &[8; 32]);
    requester.add(at(0), "b", peer, &[2; 32]);
    responder.add(at(0), "other impostor", own, &[7; 32]);
    responder.answer_to("other impostor", &[6; 32]);
    responder.add(at(0), "a", own, &[1; 32]);
    responder.answer_to("a", &[2; 32]);
    for now in (0..4).map(at) {
        let Some((_, request)) = requester.poll(now) else { continue };
        if let Some(answer) = responder.on_datagram(now, own, &request) {
            requester.on_datagram(now, peer, &answer);
        }
    }
    assert!(requester.offset(at(4), "b").is_some());
    assert_eq!(requester.offset(at(4), "impostor"), None);
}

fn address(number: u16) -> SocketAddr {
    SocketAddr::from((Ipv4Addr::LOCALHOST, number))
}

#[test]
fn peers_that_rest_or_are_removed_get_no_pings() {
    let mut pinger = Pinger::new(1);
    for number in 1..=3 {
        pinger.add(at(0), &number.to_string(), address(number), &[1; 32]);
    }
    pinger.rest("1");
    pinger.remove("2");
    let asked = |pinger: &mut Pinger, millis: std::ops::Range<u64>| -> Vec<u16> {
        let mut ports: Vec<_> =
            millis.filter_map(|now| Some(pinger.poll(at(now))?.0.port())).collect();
        ports.sort_unstable();
        ports.dedup();
        ports
    };
    assert_eq!(asked(&mut pinger, 0..2_000), [3]);
    assert!(pinger.path("1").is_some() && pinger.path("2").is_none());
    // A heartbeat of a lost agent.
    pinger.add(at(2_000), "1", address(1), &[1; 32]);
    assert_eq!(asked(&mut pinger, 2_000..3_000), [1, 3]);
    pinger.remove("1");
    pinger.remove("3");
    assert_eq!(pinger.next_wake(), None);
    assert_eq!(pinger.poll(at(4_000)), None);
}

#[test]
fn many_peers_share_a_limited_rate_of_pings() {
    const PEERS: u16 = 2_000;
    let mut pinger = Pinger::new(1);
    for number in 1..=PEERS {
        pinger.add(at(0), &number.to_string(), address(number), &[1; 32]);
    }
    let mut pings = vec![0; usize::from(PEERS) + 1];
    let mut now = at(0);
    while now < at(20_000) {
        while let Some((to, _)) = pinger.poll(now) {
            pings[usize::from(to.port())] += 1;
        }
        now = pinger.next_wake().unwrap();
    }
    let total: u32 = pings.iter().sum();
    assert!(total <= 20_001, "{total} pings in 20 s");
    assert!(pings[1..].iter().all(|count| (5..=15).contains(count)), "each gets about ten");
}

#[test]
fn ignores_forged_replies() {
    let peer = SocketAddr::from((Ipv4Addr::LOCALHOST, 4));
    let mut requester = Pinger::new(1);
    requester.add(at(0), "b", peer, &[2; 32]);
    let (_, request) = requester.poll(at(0)).unwrap();
    // The number of the request is not encrypted: a host on the path can read it.
    let number = datagram::Ping::number(&request).unwrap();
    let stamp = at(5_000);
    for secret in [[0; 32], [1; 32], [3; 32]] {
        let forged = datagram::Ping { kind: datagram::Kind::Reply, number, stamp };
        let forged = forged.encode(&datagram::key(&secret));
        assert_eq!(requester.on_datagram(at(1), peer, &forged), None);
    }
    let mut modified = request.clone();
    modified[0] = 2;
    for forged in [modified, request] {
        assert_eq!(requester.on_datagram(at(1), peer, &forged), None);
    }
    assert_eq!(requester.offset(at(2), "b"), None, "only forged replies so far");
    let authentic = datagram::Ping { kind: datagram::Kind::Reply, number, stamp };
    requester.on_datagram(at(1), peer, &authentic.encode(&datagram::key(&[2; 32])));
    assert!(requester.offset(at(2), "b").is_some());
}

#[test]
fn keys_of_agents_that_are_not_added_are_limited() {
    let mut pinger = Pinger::new(1);
    for number in 1..=1_000 {
        pinger.answer_to(&number.to_string(), &[1; 32]);
    }
    let mut requester = Pinger::new(2);
    requester.add(at(0), "own", address(2_000), &[1; 32]);
    let (_, request) = requester.poll(at(0)).unwrap();
    let mut answered = 0;
    for number in 1..=1_000 {
        pinger.add(at(0), &number.to_string(), address(number), &[2; 32]);
        answered += u32::from(pinger.on_datagram(at(0), address(number), &request).is_some());
    }
    assert_eq!(answered, 64);
    pinger.answer_to("1000", &[1; 32]);
    assert!(pinger.on_datagram(at(0), address(1_000), &request).is_some(), "it is added");
}
