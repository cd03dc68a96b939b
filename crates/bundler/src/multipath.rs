//! Whether the paths of a bundle are out of balance: load balancing by flow hash over paths whose
//! queues differ, which one rate cannot control (the Bundler paper, §5.3).
//!
//! A congestion ACK counts as out of order if the packet it tells of reached the receivebox after
//! one that had been sent later. Sent and received times decide, each by its own box's clock, not
//! the order in which the ACKs come back: reordering on the way back is none of the bundle's.
//!
//! //= deviation: packets sent closer together than a tolerance are in order either way. Members
//! of a load-balancing group differ by some milliseconds of propagation, which is harmless; queues
//! that differ for long do so by more. The prototype only logged the fraction; when to return to
//! control is defined here.

use std::collections::VecDeque;

use base::{Ratio, Span, Time};

/// How many of the newest ACKs are looked at.
const WINDOW: usize = 200;

/// Fewer say nothing.
const ENOUGH: usize = 100;

/// Older ones say nothing.
const AGE: Span = Span::from_secs(10);

/// Out of balance above this percentage ...
const ENTER_PERCENT: usize = 5;

/// ... and in balance again below this ...
const LEAVE_PERCENT: usize = 2;

/// ... for this long.
const LEAVE_AFTER: Span = Span::from_secs(10);

/// The tolerance is this at least, ...
const TOLERANCE: Span = Span::from_millis(8);

/// ... and this fraction of the least round trip.
const TOLERANCE_OF_ROUND_TRIP: u64 = 8;

/// Watches the order of congestion ACKs.
#[derive(Debug, Default)]
pub struct Multipath {
    /// (received at, sent at) in the order of the former.
    acks: VecDeque<(Time, Time)>,
    late: usize,
    imbalanced: bool,
    /// Since when the fraction has been below the lower threshold.
    balanced_since: Option<Time>,
}

impl Multipath {
    /// Nothing seen yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// An ACK for a packet sent at `sent_at` (the sendbox's clock) and received at `received_at`
    /// (the receivebox's), on a path of this least round trip.
    pub fn observe(&mut self, now: Time, sent_at: Time, received_at: Time, min_rtt: Span) {
        let place = self.acks.partition_point(|(received, _)| *received <= received_at);
        self.acks.insert(place, (received_at, sent_at));
        let newest = self.acks.back().map_or(Time::ZERO, |(received, _)| *received);
        while self.acks.len() > WINDOW
            || self.acks.front().is_some_and(|(received, _)| newest.since(*received) > AGE)
        {
            self.acks.pop_front();
        }
        let share = Span::from_nanos(min_rtt.as_nanos() / TOLERANCE_OF_ROUND_TRIP);
        self.count(TOLERANCE.max(share));
        self.conclude(now);
    }

    /// Forgets what was seen: another receivebox, whose clock is another.
    pub fn restart(&mut self) {
        self.acks.clear();
        self.late = 0;
        self.balanced_since = None;
    }

    /// The fraction of ACKs out of order among the newest.
    pub fn fraction(&self) -> Ratio {
        let all = self.acks.len().max(1) as u64;
        Ratio::from_parts_per_billion(self.late as u64 * 1_000_000_000 / all)
    }

    /// Whether the paths are out of balance.
    pub fn imbalanced(&self) -> bool {
        self.imbalanced
    }

    fn count(&mut self, tolerance: Span) {
        let mut last = Time::ZERO;
        self.late = 0;
        for (_, sent) in &self.acks {
            self.late += usize::from(*sent + tolerance < last);
            last = last.max(*sent);
        }
    }

    fn conclude(&mut self, now: Time) {
        if self.acks.len() < ENOUGH {
            return;
        }
        if self.late * 100 > ENTER_PERCENT * self.acks.len() {
            self.imbalanced = true;
        }
        if self.late * 100 >= LEAVE_PERCENT * self.acks.len() {
            self.balanced_since = None;
            return;
        }
        let since = *self.balanced_since.get_or_insert(now);
        if now.since(since) >= LEAVE_AFTER {
            self.imbalanced = false;
        }
    }
}

#[cfg(test)]
mod tests {
    use base::RandomStream;

    use super::*;

    /// A bundle of 20 flows, each on one of `paths` drop-tail queues by its hash, sent at the
    /// paths' whole rate; congestion ACKs about every 10 ms. The queues drift as windows do.
    struct Model {
        dice: RandomStream,
        rtt: u64,
        /// Queueing of each path, in µs, and how much of it is worked off each ms.
        paths: Vec<(f64, f64)>,
        /// What is filled, in µs; drop-tail at one round trip.
        buffer: f64,
        watch: Multipath,
        now: u64,
    }

    impl Model {
        fn new(paths: usize, mbits: u64, rtt: u64, seed: u64) -> Self {
            let mut dice = RandomStream::new(seed, "paths");
            let packet = 12_000.0 / mbits as f64;
            // Hashing 20 flows onto the paths leaves each another load.
            let mut flows = vec![0.0; paths];
            for _ in 0..20 {
                flows[dice.below(paths as u64) as usize] += paths as f64 / 20.0;
            }
            let paths = flows.iter().map(|load| (packet, (load - 1.0) * 300.0)).collect();
            let buffer = rtt as f64 * 1e3;
            Self { dice, rtt, paths, buffer, watch: Multipath::new(), now: 0 }
        }

        /// Runs on; `jitter` in µs of each packet, `skew` in µs between paths.
        fn run(&mut self, seconds: u64, jitter: f64, skew: f64) {
            let end = self.now + seconds * 1000;
            while self.now < end {
                self.now += 1;
                for (queue, drift) in &mut self.paths {
                    let swing = 200.0 * self.dice.normal();
                    *queue = (*queue + *drift + swing).clamp(0.0, self.buffer);
                }
                if self.dice.below(10) == 0 {
                    let path = self.dice.below(self.paths.len() as u64) as usize;
                    let wait = self.paths[path].0 + skew * path as f64;
                    let delay = wait + jitter * self.dice.unit() + 500.0 * self.rtt as f64;
                    let sent = Time::from_nanos(self.now * 1_000_000);
                    let received = sent + Span::from_micros(delay as u64);
                    let rtt = Span::from_millis(self.rtt);
                    self.watch.observe(received + rtt, sent, received, rtt);
                }
            }
        }
    }

    const GRID: [(u64, u64); 6] = [(12, 10), (12, 50), (12, 300), (96, 10), (96, 50), (96, 300)];

    #[test]
    fn a_single_path_is_in_balance() {
        for (mbits, rtt) in GRID {
            let mut model = Model::new(1, mbits, rtt, 1);
            model.run(30, 300.0, 0.0);
            assert!(model.watch.fraction().as_f64() <= 0.004, "{mbits} {rtt}");
            assert!(!model.watch.imbalanced(), "{mbits} {rtt}");
        }
    }

    #[test]
    fn members_of_a_group_that_differ_by_milliseconds_are_in_balance() {
        for paths in [2, 4] {
            let mut model = Model::new(paths, 96, 100, 1);
            model.paths.iter_mut().for_each(|path| *path = (0.0, -300.0));
            model.run(30, 300.0, 6000.0 / (paths - 1) as f64);
            assert!(!model.watch.imbalanced(), "{paths}");
            assert!(model.watch.fraction().as_f64() <= 0.004, "{paths}");
        }
    }

    #[test]
    fn queues_that_differ_are_found_within_10_s_and_so_is_their_end() {
        for (mbits, rtt) in [(12, 50), (96, 50), (12, 300), (96, 300)] {
            for paths in [2, 4, 8, 32] {
                let mut model = Model::new(paths, mbits, rtt, 3);
                // An even split needs no remedy.
                model.paths[0].1 = 300.0;
                model.paths[1].1 = -300.0;
                model.run(10, 300.0, 0.0);
                let fraction = model.watch.fraction().as_f64();
                assert!(model.watch.imbalanced(), "{mbits} {rtt} {paths}: {fraction}");
                assert!(fraction >= 0.2, "{mbits} {rtt} {paths}: {fraction}");
                model.paths.truncate(1);
                model.run(8, 300.0, 0.0);
                assert!(model.watch.imbalanced(), "{mbits} {rtt} {paths}: too early");
                model.run(8, 300.0, 0.0);
                assert!(!model.watch.imbalanced(), "{mbits} {rtt} {paths}: for ever");
            }
        }
    }

    #[test]
    fn the_order_in_which_acks_come_back_does_not_matter() {
        let mut watch = Multipath::new();
        let rtt = Span::from_millis(50);
        for group in 0..100u64 {
            for place in [3, 0, 2, 1] {
                let sent = Time::from_nanos((group * 4 + place) * 10_000_000);
                watch.observe(sent + Span::from_millis(90), sent, sent + rtt, rtt);
            }
        }
        assert_eq!(watch.fraction(), Ratio::ZERO);
    }

    #[test]
    fn too_few_acks_say_nothing() {
        let mut watch = Multipath::new();
        for at in 0..50u64 {
            let sent = Time::from_nanos((1_000 - at) * 10_000_000);
            let received = Time::from_nanos(20_000_000_000 + at * 1_000_000);
            watch.observe(received, sent, received, Span::from_millis(50));
        }
        assert!(watch.fraction() > Ratio::ZERO && !watch.imbalanced());
    }
}
