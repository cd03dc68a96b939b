//! Random streams keyed by (seed, element path), so that a new element does not
//! change other streams.

use rand_core::{Rng, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

use crate::{Ratio, fnv};

/// The random stream of one element. Equal keys give equal streams on every platform.
#[derive(Clone, Debug)]
pub struct RandomStream(Xoshiro256PlusPlus);

impl RandomStream {
    /// The stream of the element at `path` (such as `link/a-b/up/loss`) in the run with `seed`.
    pub fn new(seed: u64, path: &str) -> Self {
        // The hash must never change. xoshiro's own seeding removes the remaining correlations.
        let hash = fnv::hash(seed.to_le_bytes().iter().chain(path.as_bytes()));
        Self(Xoshiro256PlusPlus::seed_from_u64(hash))
    }

    /// 64 uniform bits.
    pub fn bits(&mut self) -> u64 {
        self.0.next_u64()
    }

    /// Uniform in `0..bound` without modulo bias beyond 2⁻⁶⁴; 0 for an empty range.
    pub fn below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.bits()) * u128::from(bound)) >> 64) as u64
    }

    /// True with probability `p`.
    pub fn chance(&mut self, p: Ratio) -> bool {
        p.is_positive() && self.below(Ratio::ONE.parts_per_billion()) < p.parts_per_billion()
    }

    /// Uniform in [0, 1) with 53 bits.
    pub fn unit(&mut self) -> f64 {
        (self.bits() >> 11) as f64 * (1.0 / (1u64 << 53) as f64)
    }

    /// Standard normal, by the Box-Muller transform (one value of the pair is discarded, so that
    /// the stream has no state beside the generator).
    pub fn normal(&mut self) -> f64 {
        let radius = (-2.0 * (1.0 - self.unit()).ln()).sqrt();
        radius * (std::f64::consts::TAU * self.unit()).cos()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn streams_differ_by_seed_and_path_and_repeat() {
        let first = |seed, path| RandomStream::new(seed, path).bits();
        assert_eq!(first(1, "link/a"), first(1, "link/a"));
        assert_ne!(first(1, "link/a"), first(2, "link/a"));
        assert_ne!(first(1, "link/a"), first(1, "link/b"));
    }

    #[test]
    fn chance_follows_its_probability() {
        let mut stream = RandomStream::new(7, "chance");
        let p: Ratio = "10 %".parse().unwrap();
        let hits = (0..100_000).filter(|_| stream.chance(p)).count();
        assert!((9_700..10_300).contains(&hits), "{hits}");
        assert!(!stream.chance(Ratio::ZERO) && stream.chance(Ratio::ONE));
    }

    #[test]
    fn normal_has_unit_variance() {
        let mut stream = RandomStream::new(7, "normal");
        let draws: Vec<f64> = (0..100_000).map(|_| stream.normal()).collect();
        let mean = draws.iter().sum::<f64>() / 1e5;
        let var = draws.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / 1e5;
        assert!(mean.abs() < 0.02 && (var - 1.0).abs() < 0.03, "{mean} {var}");
    }
}
