//! Detects imbalanced paths of a bundle: load balancing by flow hash over paths with different
//! queues, which a single rate cannot control (the Bundler paper, §5.3).
//!
//! A congestion ACK counts as out of order if its packet reached the receivebox after one that was
//! sent later. The send times (sendbox's clock) and receive times (receivebox's clock) of the
//! packets are compared, not the arrival of the ACKs, which the return path may reorder.
//!
//! //= deviation: packets sent within a tolerance always count as in order. Members of a
//! load-balancing group differ by some milliseconds of propagation delay, which is harmless;
//! persistently different queues cause larger differences. The prototype only logged the fraction;
//! the return to control is defined here.

use std::collections::VecDeque;

use base::{Ratio, Span, Time};

use crate::constants::{Multipath as Constants, span};

/// Evaluates the order of congestion ACKs.
#[derive(Debug)]
pub struct Multipath {
    constants: Constants,
    /// (receive time, send time) in the order of the receive times.
    acks: VecDeque<(Time, Time)>,
    late: usize,
    imbalanced: bool,
    /// Time since which the fraction is below the lower threshold.
    balanced_since: Option<Time>,
}

impl Multipath {
    /// The state before any acknowledgement.
    pub fn new(constants: &Constants) -> Self {
        Self {
            constants: *constants,
            acks: VecDeque::new(),
            late: 0,
            imbalanced: false,
            balanced_since: None,
        }
    }

    /// Adds an ACK for a packet sent at `sent_at` (the sendbox's clock) and received at
    /// `received_at` (the receivebox's clock), on a path with this minimum round trip.
    pub fn observe(&mut self, now: Time, sent_at: Time, received_at: Time, min_rtt: Span) {
        let place = self.acks.partition_point(|(received, _)| *received <= received_at);
        self.acks.insert(place, (received_at, sent_at));
        let newest = self.acks.back().map_or(Time::ZERO, |(received, _)| *received);
        let age = span(self.constants.leave_after);
        while self.acks.len() as f64 > self.constants.window
            || self.acks.front().is_some_and(|(received, _)| newest.since(*received) > age)
        {
            self.acks.pop_front();
        }
        let share = self.constants.tolerance_share * min_rtt.as_secs_f64();
        self.count(span(self.constants.tolerance.max(share)));
        self.conclude(now);
    }

    /// Resets the state after a restart of the receivebox, whose clock may differ.
    pub fn restart(&mut self) {
        self.acks.clear();
        self.late = 0;
        self.balanced_since = None;
    }

    /// The fraction of the newest ACKs that are out of order.
    pub fn fraction(&self) -> Ratio {
        let all = self.acks.len().max(1) as u64;
        Ratio::from_parts_per_billion(self.late as u64 * 1_000_000_000 / all)
    }

    /// Whether the paths are imbalanced.
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
        let (late, count) = (self.late as f64, self.acks.len() as f64);
        if count < self.constants.window / 2.0 {
            return;
        }
        if late > self.constants.enter * count {
            self.imbalanced = true;
        }
        if late >= self.constants.leave * count {
            self.balanced_since = None;
            return;
        }
        let since = *self.balanced_since.get_or_insert(now);
        if now.since(since) >= span(self.constants.leave_after) {
            self.imbalanced = false;
        }
    }
}

#[cfg(test)]
mod tests {
    use base::RandomStream;

    use super::*;

    /// A bundle of 20 flows, each hashed to one of `paths` drop-tail queues, sent at the paths'
    /// total rate; congestion ACKs about every 10 ms. The queues vary like windows.
    struct Model {
        rng: RandomStream,
        rtt: u64,
        /// Queueing delay of each path in µs, and its decrease per ms.
        paths: Vec<(f64, f64)>,
        /// Size of each buffer in µs; drop-tail at one round trip.
        buffer: f64,
        watch: Multipath,
        now: u64,
    }

    impl Model {
        fn new(paths: usize, mbits: u64, rtt: u64, seed: u64) -> Self {
            let mut rng = RandomStream::new(seed, "paths");
            let packet = 12_000.0 / mbits as f64;
            // Hashing 20 flows gives the paths different loads.
            let mut flows = vec![0.0; paths];
            for _ in 0..20 {
                flows[rng.below(paths as u64) as usize] += paths as f64 / 20.0;
            }
            let paths = flows.iter().map(|load| (packet, (load - 1.0) * 300.0)).collect();
            let buffer = rtt as f64 * 1e3;
            Self { rng, rtt, paths, buffer, watch: Multipath::new(&Constants::default()), now: 0 }
        }

        /// Continues the run; `jitter` per packet in µs, `skew` between paths in µs.
        fn run(&mut self, seconds: u64, jitter: f64, skew: f64) {
            let end = self.now + seconds * 1000;
            while self.now < end {
                self.now += 1;
                for (queue, drift) in &mut self.paths {
                    let swing = 200.0 * self.rng.normal();
                    *queue = (*queue + *drift + swing).clamp(0.0, self.buffer);
                }
                if self.rng.below(10) == 0 {
                    let path = self.rng.below(self.paths.len() as u64) as usize;
                    let wait = self.paths[path].0 + skew * path as f64;
                    let delay = wait + jitter * self.rng.unit() + 500.0 * self.rtt as f64;
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
    fn detects_different_queues_and_their_end_within_10_s() {
        for (mbits, rtt) in [(12, 50), (96, 50), (12, 300), (96, 300)] {
            for paths in [2, 4, 8, 32] {
                let mut model = Model::new(paths, mbits, rtt, 3);
                // A balanced load requires no action.
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
        let mut watch = Multipath::new(&Constants::default());
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
    fn ignores_too_few_acks() {
        let mut watch = Multipath::new(&Constants::default());
        for at in 0..50u64 {
            let sent = Time::from_nanos((1_000 - at) * 10_000_000);
            let received = Time::from_nanos(20_000_000_000 + at * 1_000_000);
            watch.observe(received, sent, received, Span::from_millis(50));
        }
        assert!(watch.fraction() > Ratio::ZERO && !watch.imbalanced());
    }
}
