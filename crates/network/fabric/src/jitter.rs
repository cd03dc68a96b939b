//! Random propagation delays with a chosen marginal distribution and correlation.

use base::{RandomStream, Span};

use crate::config::{Jitter, JitterShape};

/// The state of one link's jitter: a first-order autoregressive Gaussian process, mapped to the
/// configured distribution through its quantiles (a Gaussian copula), so that the marginal
/// distribution is exact despite correlation.
#[derive(Debug)]
pub(crate) struct JitterProcess {
    law: Option<Jitter>,
    previous: f64,
    random: RandomStream,
}

impl JitterProcess {
    pub(crate) const fn new(law: Option<Jitter>, random: RandomStream) -> Self {
        Self { law, previous: 0.0, random }
    }

    pub(crate) fn set_law(&mut self, law: Option<Jitter>) {
        self.law = law;
    }

    /// `delay` plus the next sample, never negative.
    pub(crate) fn apply(&mut self, delay: Span) -> Span {
        let Some(law) = &self.law else { return delay };
        let rho = law.correlation.as_f64();
        let fresh = self.random.normal();
        let z = rho.mul_add(self.previous, (1.0 - rho * rho).sqrt() * fresh);
        self.previous = z;
        let offset = match &law.shape {
            JitterShape::Normal { deviation } => deviation.as_nanos() as f64 * z,
            JitterShape::Uniform { spread } => {
                spread.as_nanos() as f64 * 2.0f64.mul_add(normal_cdf(z), -1.0)
            }
            JitterShape::Pareto { mean, shape_milli } => {
                let alpha = f64::from(*shape_milli) / 1000.0;
                let scale = mean.as_nanos() as f64 * (alpha - 1.0);
                let rest = (1.0 - normal_cdf(z)).max(1e-12);
                scale * (rest.powf(-1.0 / alpha) - 1.0)
            }
            JitterShape::Table(quantiles) => interpolate(quantiles, normal_cdf(z)),
        };
        let nanos = (delay.as_nanos() as f64 + offset).max(0.0).round();
        Span::from_nanos(nanos as u64)
    }
}

fn interpolate(quantiles: &[Span], u: f64) -> f64 {
    let last = quantiles.len().saturating_sub(1);
    let position = u * last as f64;
    let below = (position as usize).min(last.saturating_sub(1));
    let value = |i: usize| quantiles.get(i).map_or(0.0, |q| q.as_nanos() as f64);
    let (low, high) = (value(below), value((below + 1).min(last)));
    (high - low).mul_add(position - below as f64, low)
}

/// Φ(x) to 1.5 × 10⁻⁷ (Abramowitz and Stegun 7.1.26 for the error function).
pub(crate) fn normal_cdf(x: f64) -> f64 {
    let t = 1.0 / (1.0 + 0.327_591_1 * x.abs() / std::f64::consts::SQRT_2);
    let polynomial = [1.061_405_429, -1.453_152_027, 1.421_413_741, -0.284_496_736, 0.254_829_592]
        .iter()
        .fold(0.0, |sum, c| t * (sum + c));
    let erf = 1.0 - polynomial * (-x * x / 2.0).exp();
    0.5 * (1.0 + erf.copysign(x))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use base::Ratio;

    const BASE: Span = Span::from_millis(50);

    fn draws(shape: JitterShape, correlation: &str) -> Vec<f64> {
        let correlation = correlation.parse().unwrap();
        let law = Jitter { shape, correlation, keep_order: true };
        let mut process = JitterProcess::new(Some(law), RandomStream::new(5, "jitter"));
        (0..50_000).map(|_| process.apply(BASE).as_nanos() as f64 / 1e6 - 50.0).collect()
    }

    fn mean(values: &[f64]) -> f64 {
        values.iter().sum::<f64>() / values.len() as f64
    }

    fn deviation(values: &[f64]) -> f64 {
        let m = mean(values);
        mean(&values.iter().map(|v| (v - m).powi(2)).collect::<Vec<_>>()).sqrt()
    }

    #[test]
    fn each_shape_has_its_moments() {
        let ms = Span::from_millis;
        let normal = draws(JitterShape::Normal { deviation: ms(2) }, "0 %");
        assert!(mean(&normal).abs() < 0.05 && (deviation(&normal) - 2.0).abs() < 0.05);
        let uniform = draws(JitterShape::Uniform { spread: ms(3) }, "0 %");
        assert!(uniform.iter().all(|v| v.abs() <= 3.0));
        assert!((deviation(&uniform) - 3.0 / 3.0f64.sqrt()).abs() < 0.05);
        let pareto = draws(JitterShape::Pareto { mean: ms(4), shape_milli: 3500 }, "0 %");
        assert!(pareto.iter().all(|v| *v >= -1e-6));
        assert!((mean(&pareto) - 4.0).abs() < 0.3, "{}", mean(&pareto));
        let table = Arc::new(vec![ms(0), ms(1), ms(10)]);
        let table = draws(JitterShape::Table(table), "0 %");
        assert!((mean(&table) - 3.0).abs() < 0.1, "{}", mean(&table));
    }

    #[test]
    fn correlation_keeps_the_marginal() {
        let shape = JitterShape::Uniform { spread: Span::from_millis(3) };
        let values = draws(shape, "90 %");
        let m = mean(&values);
        let lagged = mean(&values.windows(2).map(|w| (w[0] - m) * (w[1] - m)).collect::<Vec<_>>());
        let correlation = lagged / deviation(&values).powi(2);
        assert!((correlation - 0.9).abs() < 0.03, "{correlation}");
        assert!((deviation(&values) - 3.0 / 3.0f64.sqrt()).abs() < 0.15);
    }

    #[test]
    fn delay_is_never_negative() {
        let law = Jitter {
            shape: JitterShape::Normal { deviation: Span::from_secs(1) },
            correlation: Ratio::ZERO,
            keep_order: true,
        };
        let mut process = JitterProcess::new(Some(law), RandomStream::new(5, "jitter"));
        let zeros = (0..1000).filter(|_| process.apply(Span::ZERO) == Span::ZERO).count();
        assert!((400..600).contains(&zeros), "{zeros}");
    }
}
