//! A log-linear histogram of times: linear below 256 ns, then 128 buckets per octave.
//!
//! Buckets are allocated in pages of 16, because most histograms of a large network (one per
//! direction of a link) have few distinct values: often the queueing delay of all packets is 0 ns.

/// log2 of the number of buckets per octave: the relative error of a value is at most 1/256.
const SUB_BITS: u32 = 7;
const SUB: u64 = 1 << SUB_BITS;

/// Buckets per page.
const PAGE: usize = 16;

type Page = [u64; PAGE];

/// Counts of 64-bit values, in nanoseconds unless specified otherwise. The error of quantiles is
/// below 0.4 %; count, sum, minimum and maximum are exact.
#[derive(Clone, Debug, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(into = "sparse::Sparse", try_from = "sparse::Sparse"))]
pub struct Histogram {
    /// Counts, in the order in which their pages were allocated.
    pages: Vec<Page>,
    /// Index in `pages`, plus one, of each page from `first` on; 0 for none.
    directory: Vec<u16>,
    first: u16,
    count: u64,
    sum: u128,
    min: u64,
    max: u64,
}

/// A summary of a histogram. All values are in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Distribution {
    /// Number of values.
    pub count: u64,
    /// Smallest value in ns, 0 without samples.
    pub min_ns: u64,
    /// Arithmetic mean in ns.
    pub mean_ns: f64,
    /// Median (50th percentile) in ns.
    pub p50_ns: u64,
    /// 90th percentile in ns.
    pub p90_ns: u64,
    /// 99th percentile in ns.
    pub p99_ns: u64,
    /// 99.9th percentile in ns.
    pub p999_ns: u64,
    /// Largest value in ns.
    pub max_ns: u64,
}

impl Histogram {
    /// A histogram without values. It allocates at the first value.
    pub const fn new() -> Self {
        Self {
            pages: Vec::new(),
            directory: Vec::new(),
            first: 0,
            count: 0,
            sum: 0,
            min: 0,
            max: 0,
        }
    }

    /// Adds a value.
    pub fn record(&mut self, value: u64) {
        self.record_many(value, 1);
    }

    /// Adds a value `times` times.
    pub fn record_many(&mut self, value: u64, times: u64) {
        if times == 0 {
            return;
        }
        let index = index_of(value);
        *self.bucket(index) += times;
        self.min = if self.count == 0 { value } else { self.min.min(value) };
        self.max = self.max.max(value);
        self.count += times;
        self.sum += u128::from(value) * u128::from(times);
    }

    /// The count of a bucket, whose page is allocated if necessary.
    fn bucket(&mut self, index: usize) -> &mut u64 {
        let at = (index / PAGE).wrapping_sub(usize::from(self.first));
        let page = match self.directory.get(at) {
            Some(page) if *page > 0 => usize::from(*page) - 1,
            _ => self.new_page((index / PAGE) as u16),
        };
        &mut self.pages[page][index % PAGE]
    }

    #[cold]
    fn new_page(&mut self, number: u16) -> usize {
        if self.directory.is_empty() {
            self.first = number;
        }
        if number < self.first {
            self.directory.splice(..0, (number..self.first).map(|_| 0));
            self.first = number;
        }
        let at = usize::from(number - self.first);
        if at >= self.directory.len() {
            self.directory.resize(at + 1, 0);
        }
        self.pages.push([0; PAGE]);
        self.directory[at] = self.pages.len() as u16;
        self.pages.len() - 1
    }

    /// The non-empty buckets and their counts, ascending.
    fn filled(&self) -> impl Iterator<Item = (usize, u64)> + '_ {
        let numbered = (usize::from(self.first)..).zip(&self.directory);
        let pages = numbered.filter_map(|(number, page)| {
            Some((number * PAGE, self.pages.get(usize::from(*page).checked_sub(1)?)?))
        });
        pages.flat_map(|(start, counts)| {
            (start..).zip(counts.iter().copied()).filter(|(_, count)| *count > 0)
        })
    }

    /// Adds all values of another histogram.
    pub fn merge(&mut self, other: &Self) {
        if other.count == 0 {
            return;
        }
        for (index, count) in other.filled() {
            *self.bucket(index) += count;
        }
        self.min = if self.count == 0 { other.min } else { self.min.min(other.min) };
        self.max = self.max.max(other.max);
        self.count += other.count;
        self.sum += other.sum;
    }

    /// Removes all values, but keeps the memory.
    pub fn clear(&mut self) {
        self.pages.fill([0; PAGE]);
        (self.count, self.sum, self.min, self.max) = (0, 0, 0, 0);
    }

    /// Memory of the counts in bytes.
    pub fn memory(&self) -> usize {
        size_of_val(self.pages.as_slice()) + size_of_val(self.directory.as_slice())
    }

    /// Number of values.
    pub const fn count(&self) -> u64 {
        self.count
    }

    /// The smallest value; 0 without values.
    pub const fn min(&self) -> u64 {
        self.min
    }

    /// The largest value; 0 without values.
    pub const fn max(&self) -> u64 {
        self.max
    }

    /// Arithmetic mean; 0 without values.
    pub fn mean(&self) -> f64 {
        if self.count == 0 { 0.0 } else { self.sum as f64 / self.count as f64 }
    }

    /// The quantile `quantile` (0 to 1): the middle of its bucket, limited to minimum and maximum.
    /// 0 without values.
    pub fn percentile(&self, quantile: f64) -> u64 {
        if self.count == 0 {
            return 0;
        }
        let rank = ((quantile.clamp(0.0, 1.0) * self.count as f64).ceil() as u64).max(1);
        if rank >= self.count {
            return self.max;
        }
        let mut seen = 0;
        for (index, count) in self.filled() {
            seen += count;
            if seen >= rank {
                let (low, high) = bounds(index);
                return (low + (high - low) / 2).clamp(self.min, self.max);
            }
        }
        self.max
    }

    /// The share of values at or below `value`, 0 to 1, with the resolution of the buckets.
    pub fn share_within(&self, value: u64) -> f64 {
        if self.count == 0 {
            return 1.0;
        }
        let last = index_of(value);
        let within = self.filled().take_while(|(index, _)| *index <= last);
        within.map(|(_, count)| count).sum::<u64>() as f64 / self.count as f64
    }

    /// The non-empty buckets: lowest value, highest value, count; ascending.
    pub fn buckets(&self) -> impl Iterator<Item = (u64, u64, u64)> + '_ {
        self.filled().map(|(index, count)| {
            let (low, high) = bounds(index);
            (low, high, count)
        })
    }

    /// Common percentiles; `None` without values.
    pub fn distribution(&self) -> Option<Distribution> {
        (self.count > 0).then(|| Distribution {
            count: self.count,
            min_ns: self.min,
            mean_ns: self.mean(),
            p50_ns: self.percentile(0.5),
            p90_ns: self.percentile(0.9),
            p99_ns: self.percentile(0.99),
            p999_ns: self.percentile(0.999),
            max_ns: self.max,
        })
    }
}

impl PartialEq for Histogram {
    fn eq(&self, other: &Self) -> bool {
        let numbers = |h: &Self| (h.count, h.sum, h.min, h.max);
        numbers(self) == numbers(other) && self.filled().eq(other.filled())
    }
}

impl Eq for Histogram {}

fn index_of(value: u64) -> usize {
    let exponent = (63 - SUB_BITS).saturating_sub(value.leading_zeros());
    (u64::from(exponent) * SUB + (value >> exponent)) as usize
}

/// Lowest and highest value of a bucket.
fn bounds(index: usize) -> (u64, u64) {
    let index = index as u64;
    let exponent = (index / SUB).saturating_sub(1);
    let mantissa = index - exponent * SUB;
    let low = mantissa << exponent;
    (low, low + ((1 << exponent) - 1))
}

/// Serialized form of a histogram.
#[cfg(feature = "serde")]
mod sparse {
    use serde::{Deserialize, Serialize};

    use super::{Histogram, index_of};

    /// The non-zero parts of a histogram.
    #[derive(Serialize, Deserialize)]
    pub(super) struct Sparse {
        count: u64,
        sum_ns: f64,
        min_ns: u64,
        max_ns: u64,
        /// Lowest value of the bucket and count.
        buckets: Vec<(u64, u64)>,
    }

    impl From<Histogram> for Sparse {
        fn from(full: Histogram) -> Self {
            Self {
                count: full.count,
                sum_ns: full.sum as f64,
                min_ns: full.min,
                max_ns: full.max,
                buckets: full.buckets().map(|(low, _, count)| (low, count)).collect(),
            }
        }
    }

    impl TryFrom<Sparse> for Histogram {
        type Error = &'static str;

        fn try_from(sparse: Sparse) -> Result<Self, &'static str> {
            let mut full = Self::new();
            let mut total = 0u64;
            for (low, count) in sparse.buckets {
                let bucket = full.bucket(index_of(low));
                *bucket = bucket.checked_add(count).ok_or("a bucket's count overflows")?;
                total = total.checked_add(count).ok_or("the bucket counts overflow")?;
            }
            if total != sparse.count {
                return Err("the bucket counts do not add up to `count`");
            }
            if sparse.min_ns > sparse.max_ns {
                return Err("`min_ns` is above `max_ns`");
            }
            full.count = total;
            full.sum = sparse.sum_ns as u128;
            full.min = sparse.min_ns;
            full.max = sparse.max_ns;
            Ok(full)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn buckets_tile_the_whole_range() {
        for index in 0..index_of(u64::MAX) {
            assert_eq!(bounds(index).1 + 1, bounds(index + 1).0, "after bucket {index}");
            assert_eq!(index_of(bounds(index).0), index);
            assert_eq!(index_of(bounds(index).1), index);
        }
        assert_eq!(bounds(index_of(u64::MAX)).1, u64::MAX);
    }

    #[test]
    fn small_values_are_exact() {
        let mut h = Histogram::new();
        for value in 1..=200 {
            h.record(value);
        }
        assert_eq!((h.percentile(0.0), h.percentile(0.5), h.percentile(0.99)), (1, 100, 198));
        assert_eq!((h.min(), h.max(), h.count()), (1, 200, 200));
        assert!((h.mean() - 100.5).abs() < 1e-9);
        assert!((h.share_within(50) - 0.25).abs() < 1e-9);
    }

    fn of(values: &[u64]) -> Histogram {
        let mut h = Histogram::new();
        for value in values {
            h.record(*value);
        }
        h
    }

    proptest! {
        #[test]
        fn percentiles_err_by_less_than_half_a_percent(
            mut values in prop::collection::vec(0u64..1 << 60, 1..200),
            quantile in 0.0f64..1.0,
        ) {
            let h = of(&values);
            values.sort_unstable();
            let rank = ((quantile * values.len() as f64).ceil() as usize).max(1);
            let exact = values[rank - 1] as f64;
            prop_assert!((h.percentile(quantile) as f64 - exact).abs() <= exact * 0.004 + 0.5);
        }

        #[test]
        fn merging_equals_recording_everything_in_one(
            a in prop::collection::vec(any::<u64>(), 0..50),
            b in prop::collection::vec(any::<u64>(), 0..50),
        ) {
            let mut merged = of(&a);
            merged.merge(&of(&b));
            prop_assert_eq!(merged, of(&[a, b].concat()));
        }

        #[test]
        #[cfg(feature = "serde")]
        fn json_round_trips(values in prop::collection::vec(0u64..1 << 40, 0..50)) {
            let h = of(&values);
            let text = serde_json::to_string(&h).unwrap();
            prop_assert_eq!(serde_json::from_str::<Histogram>(&text).unwrap(), h);
        }
    }

    #[test]
    fn memory_grows_with_occupied_pages_not_with_range() {
        let mut h = of(&[0; 1000]);
        assert_eq!((h.pages.len(), h.memory()), (1, 130));
        h.record(80_000_000);
        assert!(h.pages.len() == 2 && h.memory() < 1024, "{} bytes", h.memory());
        (0..100_000).for_each(|at| h.record(at * 1000));
        assert!(h.memory() < 24 * 1024, "{} bytes", h.memory());
    }

    #[test]
    fn cleared_histogram_equals_new_one() {
        let mut h = of(&[5, 1 << 40]);
        h.clear();
        assert_eq!(h, Histogram::new());
    }

    #[test]
    #[cfg(feature = "serde")]
    fn rejects_inconsistent_json() {
        let text = r#"{"count":3,"sum_ns":2,"min_ns":1,"max_ns":1,"buckets":[[1,2]]}"#;
        assert!(serde_json::from_str::<Histogram>(text).is_err());
    }
}
