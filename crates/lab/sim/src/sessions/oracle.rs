//! The oracle: the exact max-min fair rates of the present sessions, and the errors of assigned
//! rates.

use std::time::Duration;

use run::sample::control::Errors;
use rustix::time::{ClockId, clock_gettime};
use sharing::{FlowKey, LinkKey, Solver};

/// Relative difference below which levels are equal.
const TOLERANCE: f64 = 1e-6;

/// Relative excess of assigned rates at a bottleneck that counts as overshoot.
const OVERSHOOT: f64 = 0.05;

/// Computes the fair rates of the present sessions.
#[derive(Debug)]
pub(super) struct Oracle {
    solver: Solver,
    /// Sum of assigned rates, by link.
    sums: Vec<f64>,
    errors: Vec<f64>,
    spent: Duration,
}

/// Comparison of assigned with fair rates.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Judged {
    pub(super) sessions: u64,
    pub(super) assigned: u64,
    pub(super) source: Option<Errors>,
    pub(super) bottlenecks: u64,
    pub(super) bottleneck: Option<Errors>,
    pub(super) over: Option<f64>,
}

impl Oracle {
    /// Approximate bytes of a session over ten links.
    pub(super) const SESSION: u64 = 200;

    pub(super) fn new() -> Self {
        Self {
            solver: Solver::with_tolerance(TOLERANCE),
            sums: Vec::new(),
            errors: Vec::new(),
            spent: Duration::ZERO,
        }
    }

    /// Adds a link; they are numbered from 0.
    pub(super) fn add_link(&mut self, capacity: f64) {
        self.solver.add_link(capacity);
        self.sums.push(0.0);
    }

    pub(super) fn set_capacity(&mut self, link: u32, capacity: f64) {
        self.solver.set_capacity(LinkKey(link), capacity);
    }

    /// Adds a session over these links.
    pub(super) fn add(&mut self, path: impl Iterator<Item = u32>, cap: f64) -> u32 {
        let mut links = [LinkKey(0); 256];
        let mut count = 0;
        for (place, link) in links.iter_mut().zip(path) {
            *place = LinkKey(link);
            count += 1;
        }
        self.solver.add_flow(&links[..count], 1.0, cap).0
    }

    pub(super) fn remove(&mut self, session: u32) {
        self.solver.remove_flow(FlowKey(session));
    }

    /// Its fair rate as of the last [`Self::judge`], bit/s.
    pub(super) fn rate(&self, session: u32) -> f64 {
        self.solver.rate(FlowKey(session))
    }

    /// Processor time used by the oracle.
    pub(super) const fn spent(&self) -> Duration {
        self.spent
    }

    /// Computes the fair rates and compares. `sessions` are all added sessions, each with its
    /// assigned rate, if any.
    pub(super) fn judge(&mut self, sessions: impl Iterator<Item = (u32, Option<u64>)>) -> Judged {
        let begun = clock_gettime(ClockId::ThreadCPUTime);
        self.solver.solve();
        let mut judged = Judged::default();
        self.errors.clear();
        for (session, rate) in sessions {
            judged.sessions += 1;
            let Some(rate) = rate.map(|rate| rate as f64) else { continue };
            judged.assigned += 1;
            let key = FlowKey(session);
            let fair = self.solver.rate(key);
            if fair > 0.0 {
                self.errors.push((rate - fair) / fair);
            }
            for link in self.solver.path(key) {
                self.sums[link.0 as usize] += rate;
            }
        }
        judged.source = Errors::of(&mut self.errors);
        self.errors.clear();
        let mut over = 0;
        for (link, sum) in self.sums.iter_mut().enumerate() {
            let key = LinkKey(link as u32);
            let sum = std::mem::take(sum);
            let capacity = self.solver.capacity(key);
            if self.solver.is_bottleneck(key) && capacity > 0.0 {
                let error = (sum - capacity) / capacity;
                over += u64::from(error > OVERSHOOT);
                self.errors.push(error);
            }
        }
        judged.bottlenecks = self.errors.len() as u64;
        judged.over = (judged.bottlenecks > 0).then(|| over as f64 / judged.bottlenecks as f64);
        judged.bottleneck = Errors::of(&mut self.errors);
        let ended = clock_gettime(ClockId::ThreadCPUTime);
        self.spent += Duration::try_from(ended - begun).unwrap_or_default();
        judged
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_are_relative_to_fair_rates_and_capacities() {
        let mut oracle = Oracle::new();
        oracle.add_link(10e6);
        oracle.add_link(4e6);
        // Two sessions share the narrow link at 2 each; the third gets the rest of the wide one.
        let both = [0, 1];
        let sessions = [
            oracle.add(both.into_iter(), f64::INFINITY),
            oracle.add(both.into_iter(), f64::INFINITY),
            oracle.add([0].into_iter(), f64::INFINITY),
        ];
        let judge = |oracle: &mut Oracle, rates: [Option<u64>; 3]| {
            oracle.judge(sessions.into_iter().zip(rates))
        };
        let fair = judge(&mut oracle, [Some(2_000_000), Some(2_000_000), Some(6_000_000)]);
        assert_eq!((fair.sessions, fair.assigned, fair.bottlenecks), (3, 3, 2));
        assert!(fair.source.unwrap().mean_abs < 1e-6);
        assert_eq!(fair.over, Some(0.0));
        let off = judge(&mut oracle, [Some(3_000_000), Some(2_000_000), None]);
        assert_eq!((off.sessions, off.assigned), (3, 2));
        assert!((off.source.unwrap().mean - 0.25).abs() < 1e-6, "{off:?}");
        // 5 on a capacity of 4 on the narrow link, 5 on 10 on the wide one.
        let links = off.bottleneck.unwrap();
        assert!((links.mean - (0.25 - 0.5) / 2.0).abs() < 1e-6, "{links:?}");
        assert_eq!(off.over, Some(0.5));
        oracle.remove(sessions[1]);
        let alone = oracle.judge([(sessions[0], Some(4_000_000))].into_iter());
        assert!(alone.source.unwrap().mean_abs < 1e-6, "{alone:?}");
    }
}
