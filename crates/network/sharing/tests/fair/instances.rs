//! Random systems of links and flows.

use base::RandomStream;
use sharing::{Demand, Problem};

/// The kind of generated instances.
#[derive(Clone, Copy, Debug)]
pub(super) enum Kind {
    /// All valid input of the solver: links without capacity and without limit, paths that are
    /// empty or cross a link twice, equal levels, caps of zero.
    Any,
    /// Realistic networks: loop-free paths, positive and finite capacities.
    Network,
    /// Realistic networks with flows without caps.
    Greedy,
}

/// The instance of this number.
pub(super) fn draw(kind: Kind, number: usize) -> Problem {
    let mut rng = Sampler(RandomStream::new(number as u64, "instance"));
    let (links, flows) = (rng.between(1, 12), rng.between(1, 24));
    draw_sized(kind, rng, links, flows)
}

/// The instance of this number with so many flows that changes to most of them cause
/// a recomputation of all.
pub(super) fn draw_large(kind: Kind, number: usize) -> Problem {
    let mut rng = Sampler(RandomStream::new(number as u64, "large instance"));
    let (links, flows) = (rng.between(5, 60), rng.between(450, 600));
    draw_sized(kind, rng, links, flows)
}

fn draw_sized(kind: Kind, mut rng: Sampler, links: u64, flows: u64) -> Problem {
    // Small integers cause equal levels; powers cause large differences.
    let whole = rng.one_in(2);
    let equal = rng.one_in(3);
    let capacities = (0..links).map(|_| rng.capacity(kind, whole)).collect();
    let flows = (0..flows)
        .map(|_| Demand {
            path: rng.path(kind, links),
            weight: if equal { 1.0 } else { rng.weight(whole) },
            cap: rng.cap(kind, whole),
        })
        .collect();
    Problem { capacities, flows }
}

/// Generates the parts of an instance.
pub(super) struct Sampler(pub(super) RandomStream);

impl Sampler {
    pub(super) fn between(&mut self, least: u64, most: u64) -> u64 {
        least + self.0.below(most - least + 1)
    }

    pub(super) fn one_in(&mut self, count: u64) -> bool {
        self.0.below(count) == 0
    }

    /// A sample that is uniform in the logarithm.
    pub(super) fn power(&mut self, least: f64, most: f64) -> f64 {
        least * (most / least).powf(self.0.unit())
    }

    pub(super) fn capacity(&mut self, kind: Kind, whole: bool) -> f64 {
        if matches!(kind, Kind::Any) && self.one_in(16) {
            return if self.one_in(2) { 0.0 } else { f64::INFINITY };
        }
        if whole { self.between(1, 20) as f64 * 1e6 } else { self.power(1e4, 1e9) }
    }

    /// RTTs of 1 to 300 ms, or small integers.
    pub(super) fn weight(&mut self, whole: bool) -> f64 {
        if whole { self.between(1, 9) as f64 } else { 1.0 / self.power(1e-3, 0.3) }
    }

    pub(super) fn cap(&mut self, kind: Kind, whole: bool) -> f64 {
        if matches!(kind, Kind::Greedy) || !self.one_in(3) {
            return f64::INFINITY;
        }
        if matches!(kind, Kind::Any) && self.one_in(8) {
            return 0.0;
        }
        if whole { self.between(1, 20) as f64 * 1e6 } else { self.power(1e4, 1e9) }
    }

    pub(super) fn path(&mut self, kind: Kind, links: u64) -> Vec<u32> {
        let any = matches!(kind, Kind::Any);
        let hops = self.between(u64::from(!any), links.min(5));
        let mut path = Vec::new();
        while path.len() < hops as usize {
            let link = self.0.below(links) as u32;
            if any && self.one_in(8) || !path.contains(&link) {
                path.push(link);
            }
        }
        path
    }
}
