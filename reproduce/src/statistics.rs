//! Numbers about samples.

/// The cumulative distribution: each value and the percentage of values that are no larger.
pub(crate) fn cdf(values: &[f64]) -> Vec<(f64, f64)> {
    let mut sorted: Vec<f64> = values.iter().copied().filter(|v| v.is_finite()).collect();
    sorted.sort_by(f64::total_cmp);
    let count = sorted.len() as f64;
    let share = |(index, value): (usize, f64)| (value, (index + 1) as f64 / count * 100.0);
    sorted.into_iter().enumerate().map(share).collect()
}

/// The value that the share `quantile` (0 to 1) of the values does not exceed; `None` without any.
pub(crate) fn quantile(values: &[f64], quantile: f64) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let rank = (quantile.clamp(0.0, 1.0) * sorted.len() as f64).ceil() as usize;
    sorted.get(rank.max(1) - 1).copied()
}

/// Mean, spread and extremes.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Moments {
    /// How many values there are.
    pub(crate) count: usize,
    /// Arithmetic mean.
    pub(crate) mean: f64,
    /// Standard deviation of the values themselves (divided by their number).
    pub(crate) deviation: f64,
    /// The smallest.
    pub(crate) min: f64,
    /// The largest.
    pub(crate) max: f64,
}

/// Mean, spread and extremes of values; all zero without any.
pub(crate) fn moments(values: &[f64]) -> Moments {
    if values.is_empty() {
        return Moments::default();
    }
    let count = values.len() as f64;
    let mean = values.iter().sum::<f64>() / count;
    let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
    Moments {
        count: values.len(),
        mean,
        deviation: (squares / count).sqrt(),
        min: values.iter().copied().fold(f64::INFINITY, f64::min),
        max: values.iter().copied().fold(f64::NEG_INFINITY, f64::max),
    }
}

/// A sample of a counter: when its interval ended and how long that was, in seconds, and the count.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Counted {
    pub(crate) end: f64,
    pub(crate) length: f64,
    pub(crate) count: f64,
}

/// Counts a second in equal steps from time zero to `until`: the middle of each step and the rate
/// in it. What was counted in an interval is spread over it evenly, so that samples that were
/// taken a little late do not leak into the step after; the last step may be cut off.
pub(crate) fn rates(samples: &[Counted], step: f64, until: f64) -> Vec<(f64, f64)> {
    let steps = (until / step + 1e-6).floor().max(0.0) as usize;
    let mut sums = vec![0.0; steps];
    for sample in samples.iter().filter(|sample| sample.length > 0.0) {
        let start = sample.end - sample.length;
        let (first, last) = ((start / step).floor().max(0.0), (sample.end / step).ceil());
        for (index, sum) in sums.iter_mut().enumerate().take(last as usize).skip(first as usize) {
            let (from, to) = (index as f64 * step, (index + 1) as f64 * step);
            let overlap = (to.min(sample.end) - from.max(start)).max(0.0);
            *sum += sample.count * overlap / sample.length;
        }
    }
    let rate = |(index, sum): (usize, f64)| ((index as f64 + 0.5) * step, sum / step);
    sums.into_iter().enumerate().map(rate).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distributions_rise_to_all() {
        assert_eq!(
            cdf(&[3.0, 1.0, 2.0, f64::NAN, 2.0]),
            [(1.0, 25.0), (2.0, 50.0), (2.0, 75.0), (3.0, 100.0)]
        );
        assert_eq!(cdf(&[]), []);
    }

    #[test]
    fn quantiles_are_values_that_there_are() {
        let values: Vec<f64> = (1..=100).rev().map(f64::from).collect();
        assert_eq!(quantile(&values, 0.5), Some(50.0));
        assert_eq!(quantile(&values, 0.99), Some(99.0));
        assert_eq!((quantile(&values, 0.0), quantile(&values, 1.0)), (Some(1.0), Some(100.0)));
        assert_eq!(quantile(&[], 0.5), None);
    }

    #[test]
    fn spread_is_about_the_mean() {
        let of = moments(&[2.0, 4.0, 4.0, 4.0, 5.0, 5.0, 7.0, 9.0]);
        assert!((of.mean - 5.0).abs() < 1e-12 && (of.deviation - 2.0).abs() < 1e-12);
        assert_eq!((of.count, of.min, of.max), (8, 2.0, 9.0));
        assert_eq!(moments(&[]), Moments::default());
    }

    #[test]
    fn late_samples_do_not_move_what_they_count() {
        let sample = |end, length, count| Counted { end, length, count };
        let regular = [sample(0.5, 0.5, 5.0), sample(1.0, 0.5, 5.0), sample(2.0, 1.0, 30.0)];
        assert_eq!(rates(&regular, 1.0, 2.0), [(0.5, 10.0), (1.5, 30.0)]);
        // The second was taken 0.1 s late, and the third makes up for it.
        let late = [sample(1.0, 1.0, 10.0), sample(2.1, 1.1, 11.0), sample(3.0, 0.9, 9.0)];
        for (_, rate) in rates(&late, 1.0, 3.0) {
            assert!((rate - 10.0).abs() < 1e-9, "{rate}");
        }
    }

    #[test]
    fn steps_without_samples_are_zero() {
        let late = [Counted { end: 3.0, length: 1.0, count: 8.0 }];
        assert_eq!(rates(&late, 1.0, 3.5), [(0.5, 0.0), (1.5, 0.0), (2.5, 8.0)]);
    }
}
