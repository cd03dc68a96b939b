//! Metrics of bundles in expectations.

use crate::BundleSample;
use base::{Bandwidth, Ratio, Span, Time};
use lab::expect::{Measure, Metric, Statistic};

use super::BundleLedger;
use crate::metrics::within;

impl BundleLedger {
    /// The value within a window in the measure's base unit; `None` if nothing was measured.
    pub(crate) fn value(
        &self,
        bundle: usize,
        metric: &Metric,
        (from, to): (Time, Time),
    ) -> Option<f64> {
        match metric.measure {
            Measure::TimeIn(state) => return self.share(bundle, state, (from, to)),
            Measure::Transitions => {
                return self.transitions(bundle, (from, to)).map(|count| count as f64);
            }
            _ => {}
        }
        let samples = self.samples(bundle).iter();
        let samples = samples.filter(|sample| within(sample.at, sample.interval, from, to));
        if metric.measure == Measure::Drops {
            return Some(samples.map(|sample| sample.counts.dropped_packets).sum::<u64>() as f64);
        }
        let values = samples.filter_map(|sample| {
            Some((number(sample, metric.measure)?, sample.interval.as_nanos() as f64))
        });
        weighted_statistic(values.collect(), metric.statistic)
    }
}

/// A sample's value in the measure's base unit.
fn number(sample: &BundleSample, measure: Measure) -> Option<f64> {
    let rate = |rate: Option<Bandwidth>| rate.map(|rate| rate.bits_per_sec() as f64);
    let time = |span: Option<Span>| span.map(|span| span.as_nanos() as f64);
    match measure {
        Measure::Rate => rate(sample.rate),
        Measure::Proposed => rate(sample.proposed),
        Measure::SendRate => rate(sample.send_rate),
        Measure::ReceiveRate => rate(sample.receive_rate),
        Measure::Capacity => rate(sample.capacity),
        Measure::Throughput => {
            let seconds = sample.interval.as_secs_f64().max(1e-9);
            Some(sample.counts.sent_bytes as f64 * 8.0 / seconds)
        }
        Measure::Queueing => time(sample.queueing),
        Measure::Rtt => time(sample.rtt),
        Measure::MinRtt => time(sample.min_rtt),
        Measure::Waiting => time(Some(sample.waiting)),
        Measure::Loss => sample.loss.map(Ratio::as_f64),
        Measure::OutOfOrder => sample.out_of_order.map(Ratio::as_f64),
        Measure::Backlog => Some(sample.backlog.count() as f64),
        _ => None,
    }
}

/// A statistic of values weighted by time: (value, time).
fn weighted_statistic(mut values: Vec<(f64, f64)>, wanted: Statistic) -> Option<f64> {
    values.retain(|(value, weight)| !value.is_nan() && *weight > 0.0);
    values.sort_by(|a, b| a.0.total_cmp(&b.0));
    let (first, last) = (values.first()?.0, values.last()?.0);
    let total: f64 = values.iter().map(|(_, weight)| weight).sum();
    let quantile = |q: f64| {
        let mut sum = 0.0;
        let quantile_value = values.iter().find(|(_, weight)| {
            sum += weight;
            sum >= total * q
        });
        quantile_value.map_or(last, |(value, _)| *value)
    };
    Some(match wanted {
        Statistic::Mean | Statistic::Value => {
            values.iter().map(|(value, weight)| value * weight).sum::<f64>() / total
        }
        Statistic::Min => first,
        Statistic::Max => last,
        Statistic::P50 => quantile(0.5),
        Statistic::P90 => quantile(0.9),
        Statistic::P99 => quantile(0.99),
        Statistic::P999 => quantile(0.999),
        Statistic::Sum => values.iter().map(|(value, _)| value).sum(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn weights_values_by_time() {
        let values = || vec![(10.0, 1.0), (2.0, 8.0), (4.0, 1.0)];
        assert_eq!(weighted_statistic(values(), Statistic::Mean), Some(3.0));
        assert_eq!(weighted_statistic(values(), Statistic::P50), Some(2.0));
        assert_eq!(weighted_statistic(values(), Statistic::P90), Some(4.0));
        assert_eq!(weighted_statistic(values(), Statistic::P99), Some(10.0));
        assert_eq!(weighted_statistic(values(), Statistic::Min), Some(2.0));
        assert_eq!(weighted_statistic(values(), Statistic::Max), Some(10.0));
        assert_eq!(weighted_statistic(vec![(1.0, 0.0)], Statistic::Mean), None);
    }
}
