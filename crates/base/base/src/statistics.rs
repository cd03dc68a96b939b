//! Statistics of repeated measurements: confidence intervals with Student's t, Welch's test with a
//! margin, and Holm's correction for several tests.

use std::f64::consts::PI;

/// Steps of the continued fraction of the incomplete beta function; it converges in about the
/// square root of its larger parameter.
const MAX_STEPS: u32 = 10_000;

/// Number, mean and standard deviation of independent values.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Sample {
    /// The number of values, at least 1.
    pub count: u64,
    /// Arithmetic mean of the values.
    pub mean: f64,
    /// Standard deviation with the divisor `count - 1`; 0 for one value.
    pub deviation: f64,
}

impl Sample {
    /// The sample of some values; `None` without values.
    pub fn of(values: &[f64]) -> Option<Self> {
        let first = *values.first()?;
        let count = values.len() as f64;
        // Relative to the first value, so that equal values have exactly the deviation 0.
        let mean = first + values.iter().map(|value| value - first).sum::<f64>() / count;
        let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
        let deviation = if values.len() > 1 { (squares / (count - 1.0)).sqrt() } else { 0.0 };
        Some(Self { count: values.len() as u64, mean, deviation })
    }

    /// Lower and upper end of the mean's confidence interval; `None` for one value.
    pub fn interval(&self, confidence: f64) -> Option<(f64, f64)> {
        let freedom = self.count.checked_sub(1).filter(|freedom| *freedom > 0)? as f64;
        let error = self.deviation / (self.count as f64).sqrt();
        let half = t_quantile(confidence, freedom) * error;
        Some((self.mean - half, self.mean + half))
    }

    fn variance_of_mean(&self) -> f64 {
        self.deviation * self.deviation / self.count as f64
    }
}

/// The test whether the means of two samples differ.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MeanTest {
    /// Standard error of the difference of the means.
    pub error: f64,
    /// Degrees of freedom.
    pub freedom: f64,
}

impl MeanTest {
    /// Welch's test for two samples of at least two values. If one of them has a single value, the
    /// test is whether this value is in the prediction interval of the other. `None` for two
    /// single values, and if no sample has a variance.
    pub fn new(first: &Sample, second: &Sample) -> Option<Self> {
        let (error, freedom) = match (first.count, second.count) {
            (0 | 1, 0 | 1) => return None,
            (count, 0 | 1) => prediction(first, count),
            (0 | 1, count) => prediction(second, count),
            (one, two) => {
                let (a, b) = (first.variance_of_mean(), second.variance_of_mean());
                let parts = a * a / (one - 1) as f64 + b * b / (two - 1) as f64;
                ((a + b).sqrt(), (a + b) * (a + b) / parts)
            }
        };
        (error > 0.0 && freedom.is_finite()).then_some(Self { error, freedom })
    }

    /// The probability of a difference as large as `difference`, or larger, if the means differ by
    /// `margin`.
    pub fn p_value(&self, difference: f64, margin: f64) -> f64 {
        let beyond = difference.abs() - margin;
        if beyond <= 0.0 { 1.0 } else { two_sided(beyond / self.error, self.freedom) }
    }
}

fn prediction(sample: &Sample, count: u64) -> (f64, f64) {
    (sample.deviation * (1.0 + 1.0 / count as f64).sqrt(), (count - 1) as f64)
}

/// Adjusts the p-values of several tests by Holm's procedure: the probability that any test
/// without a real difference has an adjusted p-value of at most `a` is at most `a`.
pub fn holm(p_values: &[f64]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..p_values.len()).collect();
    order.sort_by(|a, b| p_values[*a].total_cmp(&p_values[*b]));
    let mut adjusted = vec![1.0; p_values.len()];
    let mut highest: f64 = 0.0;
    for (rank, at) in order.into_iter().enumerate() {
        let remaining = (p_values.len() - rank) as f64;
        highest = highest.max((p_values[at] * remaining).min(1.0));
        adjusted[at] = highest;
    }
    adjusted
}

/// The probability that a variable with Student's t distribution is at least `t` from 0.
pub fn two_sided(t: f64, freedom: f64) -> f64 {
    let square = t * t;
    incomplete_beta(freedom / 2.0, 0.5, freedom / (freedom + square), square / (freedom + square))
}

/// The distance from 0 within which a variable with Student's t distribution is with the
/// probability `confidence`, from 0 to below 1.
pub fn t_quantile(confidence: f64, freedom: f64) -> f64 {
    let outside = 1.0 - confidence;
    let (mut low, mut high) = (0.0, 1.0);
    while two_sided(high, freedom) > outside && high < 1e300 {
        (low, high) = (high, high * 2.0);
    }
    loop {
        let middle = f64::midpoint(low, high);
        if middle <= low || middle >= high {
            return middle;
        }
        if two_sided(middle, freedom) > outside {
            low = middle;
        } else {
            high = middle;
        }
    }
}

/// The regularised incomplete beta function of `x`. `rest` is `1 - x`, passed separately because
/// the subtraction loses precision where `x` is near 1.
fn incomplete_beta(a: f64, b: f64, x: f64, rest: f64) -> f64 {
    if x <= 0.0 {
        return 0.0;
    }
    if rest <= 0.0 {
        return 1.0;
    }
    // The fraction converges fast below the mean of the distribution.
    if x > (a + 1.0) / (a + b + 2.0) {
        return 1.0 - incomplete_beta(b, a, rest, x);
    }
    let factor = ln_gamma(a + b) - ln_gamma(a) - ln_gamma(b) + a * x.ln() + b * rest.ln();
    factor.exp() / (a * beta_fraction(a, b, x))
}

/// The continued fraction 1 + d1/(1 + d2/(1 + ...)) in the denominator of the incomplete beta
/// function (DLMF 8.17.22), computed from its convergents.
fn beta_fraction(a: f64, b: f64, x: f64) -> f64 {
    let coefficient = |step: u32| {
        let m = f64::from(step / 2);
        if step.is_multiple_of(2) {
            m * (b - m) * x / ((a + 2.0 * m - 1.0) * (a + 2.0 * m))
        } else {
            -(a + m) * (a + b + m) * x / ((a + 2.0 * m) * (a + 2.0 * m + 1.0))
        }
    };
    // Ratios of successive numerators and denominators; 0 would stop the recurrence.
    let positive = |value: f64| if value == 0.0 { f64::MIN_POSITIVE } else { value };
    let (mut value, mut above, mut below) = (1.0, 1.0, f64::INFINITY);
    for step in 1..MAX_STEPS {
        let next = coefficient(step);
        above = positive(1.0 + next / above);
        below = positive(1.0 + next / below);
        let change = above / below;
        value *= change;
        if (change - 1.0).abs() < f64::EPSILON {
            break;
        }
    }
    value
}

/// The logarithm of the gamma function of a positive number, by Stirling's series (DLMF 5.11.1).
fn ln_gamma(x: f64) -> f64 {
    const MIN: f64 = 16.0;
    let mut product = 1.0;
    let mut large = x;
    while large < MIN {
        product *= large;
        large += 1.0;
    }
    let inverse = 1.0 / large;
    let square = inverse * inverse;
    let series =
        inverse * (1.0 / 12.0 - square * (1.0 / 360.0 - square * (1.0 / 1260.0 - square / 1680.0)));
    (large - 0.5) * large.ln() - large + 0.5 * (2.0 * PI).ln() + series - product.ln()
}

#[cfg(test)]
mod tests;
