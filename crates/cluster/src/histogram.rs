//! A log-linear histogram of times that is small enough to travel in messages.

use base::Span;
use serde::{Deserialize, Serialize};

/// log2 of the buckets in an octave: a value is known to within 1/32 of itself.
const SUB_BITS: u32 = 4;
const SUB: u64 = 1 << SUB_BITS;

/// Buckets of all 64-bit values.
const BUCKETS: usize = ((64 - SUB_BITS as usize) + 1) << SUB_BITS;

/// How often which time was measured. Quantiles err by less than 3.2 %; count, sum, minimum and
/// maximum are exact.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(into = "Sparse", from = "Sparse")]
pub struct Histogram {
    /// Empty until the first value.
    counts: Vec<u64>,
    count: u64,
    sum: u64,
    min: u64,
    max: u64,
}

/// What of it is not zero.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
struct Sparse {
    counts: Vec<(u16, u64)>,
    sum: u64,
    min: u64,
    max: u64,
}

impl Histogram {
    /// Adds a value.
    pub fn record(&mut self, value: Span) {
        let nanos = value.as_nanos();
        if self.counts.is_empty() {
            self.counts = vec![0; BUCKETS];
        }
        self.counts[index_of(nanos)] += 1;
        self.min = if self.count == 0 { nanos } else { self.min.min(nanos) };
        self.max = self.max.max(nanos);
        self.count += 1;
        self.sum = self.sum.saturating_add(nanos);
    }

    /// Adds all values of another one.
    pub fn merge(&mut self, other: &Self) {
        if other.count == 0 {
            return;
        }
        if self.counts.is_empty() {
            self.counts = vec![0; BUCKETS];
        }
        for (count, more) in self.counts.iter_mut().zip(&other.counts) {
            *count = count.saturating_add(*more);
        }
        self.min = if self.count == 0 { other.min } else { self.min.min(other.min) };
        self.max = self.max.max(other.max);
        self.count = self.count.saturating_add(other.count);
        self.sum = self.sum.saturating_add(other.sum);
    }

    /// How many values there are.
    pub const fn count(&self) -> u64 {
        self.count
    }

    /// The smallest value; zero without any.
    pub const fn min(&self) -> Span {
        Span::from_nanos(self.min)
    }

    /// The largest value; zero without any.
    pub const fn max(&self) -> Span {
        Span::from_nanos(self.max)
    }

    /// Arithmetic mean; zero without values.
    pub fn mean(&self) -> Span {
        Span::from_nanos(self.sum.checked_div(self.count).unwrap_or(0))
    }

    /// The value that the share `quantile` (0 to 1) of all values does not exceed; zero without
    /// values.
    pub fn percentile(&self, quantile: f64) -> Span {
        let rank = ((quantile.clamp(0.0, 1.0) * self.count as f64).ceil() as u64).max(1);
        if rank >= self.count {
            return self.max();
        }
        if rank == 1 {
            return self.min();
        }
        let mut seen = 0;
        for (value, count) in self.values() {
            seen += count;
            if seen >= rank {
                return value;
            }
        }
        self.max()
    }

    /// Values, ascending, and how many of each: what another histogram is fed with.
    pub fn values(&self) -> impl Iterator<Item = (Span, u64)> + '_ {
        let filled = self.counts.iter().copied().enumerate().filter(|(_, count)| *count > 0);
        filled.map(|(index, count)| {
            let (low, high) = bounds(index);
            let middle = low + (high - low) / 2;
            (Span::from_nanos(middle.max(self.min).min(self.max)), count)
        })
    }
}

/// The bucket of a value: itself below `SUB`, then `SUB` buckets an octave.
fn index_of(value: u64) -> usize {
    if value < SUB {
        return value as usize;
    }
    let octave = u64::from(value.ilog2() - SUB_BITS);
    ((octave << SUB_BITS) + (value >> octave)) as usize
}

/// The smallest and largest value of a bucket.
fn bounds(index: usize) -> (u64, u64) {
    let index = index as u64;
    if index < 2 * SUB {
        return (index, index);
    }
    let octave = (index >> SUB_BITS) - 1;
    let low = (SUB + (index & (SUB - 1))) << octave;
    (low, low + ((1 << octave) - 1))
}

impl From<Histogram> for Sparse {
    fn from(from: Histogram) -> Self {
        let filled = from.counts.iter().copied().enumerate().filter(|(_, count)| *count > 0);
        let counts = filled.map(|(index, count)| (index as u16, count)).collect();
        Self { counts, sum: from.sum, min: from.min, max: from.max }
    }
}

impl From<Sparse> for Histogram {
    fn from(from: Sparse) -> Self {
        let mut counts = vec![0_u64; if from.counts.is_empty() { 0 } else { BUCKETS }];
        let mut count = 0_u64;
        for (index, more) in from.counts {
            if let Some(bucket) = counts.get_mut(usize::from(index)) {
                *bucket = bucket.saturating_add(more);
                count = count.saturating_add(more);
            }
        }
        Self { counts, count, sum: from.sum, min: from.min, max: from.max }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_value_has_a_bucket_that_holds_it() {
        for shift in 0..64 {
            for value in [1_u64 << shift, (1 << shift) - 1, (1 << shift) | (1 << (shift / 2))] {
                let (low, high) = bounds(index_of(value));
                assert!(low <= value && value <= high, "{value} is not in {low}..={high}");
                assert!(high - low <= low / SUB, "{low}..={high} is too wide");
            }
        }
        assert_eq!(index_of(u64::MAX), BUCKETS - 1);
    }

    #[test]
    fn quantiles_are_near_and_survive_a_journey() {
        let mut histogram = Histogram::default();
        for value in 1..=1000 {
            histogram.record(Span::from_micros(value));
        }
        let mut other = Histogram::default();
        other.record(Span::from_millis(5));
        histogram.merge(&other);
        let text = serde_json::to_string(&histogram).unwrap();
        let histogram: Histogram = serde_json::from_str(&text).unwrap();
        let median = histogram.percentile(0.5).as_nanos() as f64;
        assert!((median / 500_500.0 - 1.0).abs() < 0.032, "median {median} ns");
        assert_eq!(histogram.percentile(1.0), Span::from_millis(5));
        assert_eq!(histogram.percentile(0.0), Span::from_micros(1));
        assert_eq!(histogram.count(), 1001);
    }
}
