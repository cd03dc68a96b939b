//! Computes the metrics of expectations.

use std::collections::BTreeMap;

use crate::effect::{Crossings, HostEffects};
use crate::record::{LinkSummary, RunRecord};
use crate::{ControlSample, FlowSample, LinkSample, SubflowSample};
use base::{Direction, Distribution, FlowId, Histogram, LinkId, Span, Time};
use lab::expect::{Measure, Measurement, Metric, Quantity, Statistic, Subject};
use lab::plan::Plan;

use crate::flow::FlowResult;
use crate::ledger::bundles::BundleLedger;

pub(crate) mod capacity;
pub(crate) mod whole_run;

/// The data for metrics. Samples are only of flows and links named by an expectation.
pub(crate) struct Measured<'a> {
    pub(crate) plan: &'a Plan,
    pub(crate) record: &'a RunRecord,
    pub(crate) results: &'a [FlowResult],
    pub(crate) flow_samples: &'a [FlowSample],
    pub(crate) subflow_samples: &'a [SubflowSample],
    pub(crate) link_samples: &'a [LinkSample],
    pub(crate) control: &'a [ControlSample],
    pub(crate) bundles: &'a BundleLedger,
    pub(crate) ended: Time,
    pub(crate) effects: Option<&'a HostEffects>,
}

impl Measured<'_> {
    /// The value of a metric, and the range in which it lies without the effect of the hosts, which
    /// make delays longer and rates lower.
    pub(crate) fn with_range(&self, metric: &Metric) -> Option<Measurement> {
        let value = self.value(metric)?;
        let error = self.effects.map_or(0.0, |effects| self.error(metric, value, effects));
        Some(match metric.measure.quantity() {
            Quantity::Time | Quantity::Share if metric.measure != Measure::Utilisation => {
                Measurement { min: (value - error).max(0.0), ..Measurement::exact(value) }
            }
            _ => Measurement { max: value + error, ..Measurement::exact(value) },
        })
    }

    /// The maximum error that the hosts cause in a value, in its unit; 0 for values that do not
    /// depend on arrival times, or that the emulated network itself counts.
    fn error(&self, metric: &Metric, value: f64, effects: &HostEffects) -> f64 {
        let window = self.window(metric);
        match (metric.subject, metric.measure) {
            (Subject::Link(..), Measure::Throughput | Measure::Utilisation) => {
                value * effects.stalled_share(window)
            }
            (Subject::Program(_), Measure::Runtime) => effects.stalled_time().as_nanos() as f64,
            (Subject::Flow(flow) | Subject::Subflow(flow, _) | Subject::Path(flow, _), _) => {
                let result = self.results.iter().find(|result| result.id == flow);
                result
                    .map_or(0.0, |result| self.flow_error(result, metric, (value, window), effects))
            }
            _ => 0.0,
        }
    }

    fn flow_error(
        &self,
        result: &FlowResult,
        metric: &Metric,
        (value, window): (f64, (Time, Time)),
        effects: &HostEffects,
    ) -> f64 {
        let statistic = metric.statistic;
        let delay = |delays| effects.delay_error(self.plan, result, delays, statistic);
        let transfers = result.transfers.as_ref();
        match metric.measure {
            Measure::Goodput
            | Measure::Sent
            | Measure::Received
            | Measure::Responses
            | Measure::Transfers => {
                let duration = window.1.since(window.0);
                value * effects.rate_error(self.plan, result, window, duration)
            }
            Measure::Rtt => delay(&result.rtt),
            Measure::Delay => delay(&result.delay),
            Measure::Latency => delay(&result.latency),
            Measure::Completion if statistic == Statistic::Value => {
                let duration = Span::from_nanos(value as u64);
                value * effects.rate_error(self.plan, result, effects.lifetime(result), duration)
            }
            Measure::Completion => transfers.map_or(0.0, |all| delay(&all.completion)),
            Measure::Slowdown => transfers.map_or(0.0, |all| {
                let completion = histogram(&all.completion, statistic).unwrap_or(0.0);
                value * (delay(&all.completion) / completion.max(1.0)).min(1.0)
            }),
            Measure::Loss => effects.stalled_share(window),
            Measure::Gap => effects.added_delay(0.0, Crossings::by_flow_thread(2)),
            _ => 0.0,
        }
    }

    /// The value in the measure's base unit; `None` if nothing was measured.
    pub(crate) fn value(&self, metric: &Metric) -> Option<f64> {
        match metric.subject {
            Subject::Flow(flow) => self.flow(flow, metric),
            Subject::Subflow(flow, number) => {
                self.subflows(flow, metric, |sample| sample.subflow == number)
            }
            Subject::Path(flow, link) => self.subflows(flow, metric, |sample| sample.path == link),
            Subject::Link(link, direction) => self.link(link, direction, metric),
            Subject::Program(program) => {
                whole_run::program(self.record.programs.get(program.index())?, metric.measure)
            }
            Subject::Control => self.control(metric),
            Subject::Bundle(bundle) => self.bundles.value(bundle, metric, self.window(metric)),
            Subject::Run => whole_run::run(self.record, metric.measure, metric.statistic),
        }
    }

    fn control(&self, metric: &Metric) -> Option<f64> {
        if metric.measure == Measure::Convergence {
            return Some(self.record.control.as_ref()?.convergence_s? * 1e9);
        }
        let (from, to) = self.window(metric);
        let samples =
            self.control.iter().filter(|sample| within(sample.at, sample.interval, from, to));
        let values = samples.filter_map(|sample| match metric.measure {
            Measure::Error => sample.source.map(|errors| errors.mean_abs),
            Measure::Over => sample.over,
            Measure::Queue => Some(sample.queue_max_bytes.count() as f64),
            _ => None,
        });
        statistic(values.collect(), metric.statistic)
    }

    fn window(&self, metric: &Metric) -> (Time, Time) {
        metric.window.map_or((Time::ZERO, self.ended), |(from, to)| (from, to.min(self.ended)))
    }

    fn flow(&self, flow: FlowId, metric: &Metric) -> Option<f64> {
        let result = self.results.iter().find(|result| result.id == flow)?;
        let summary = self.record.flows.iter().find(|summary| summary.name == result.name)?;
        let (measure, wanted) = (metric.measure, metric.statistic);
        if metric.window.is_none() {
            match (measure, wanted) {
                (Measure::Goodput, wanted) if wanted != Statistic::Mean => {}
                (Measure::Slowdown, _) => {
                    let thousandths = &result.transfers.as_ref()?.slowdown;
                    return histogram(thousandths, wanted).map(|value| value / 1e3);
                }
                _ => return whole_run::flow(summary, measure, wanted),
            }
        }
        let (from, to) = self.window(metric);
        let samples: Vec<&FlowSample> = self
            .flow_samples
            .iter()
            .filter(|sample| sample.flow == flow && within(sample.at, sample.interval, from, to))
            .collect();
        let sum = |pick: fn(&FlowSample) -> Option<u64>| -> Option<f64> {
            let values: Vec<u64> = samples.iter().filter_map(|sample| pick(sample)).collect();
            (!values.is_empty()).then(|| values.iter().sum::<u64>() as f64)
        };
        let latencies = || samples.iter().filter_map(|sample| sample.latency.as_ref());
        match measure {
            Measure::Goodput => {
                let rates = samples.iter().map(|sample| {
                    sample.received_bytes as f64 * 8.0 / sample.interval.as_secs_f64().max(1e-9)
                });
                statistic(rates.collect(), wanted)
            }
            Measure::Rtt => {
                let values = samples.iter().filter_map(|sample| sample.rtt);
                statistic(values.map(|rtt| rtt.as_nanos() as f64).collect(), wanted)
            }
            Measure::Delay => {
                over_intervals(samples.iter().filter_map(|s| s.delay.as_ref()), wanted)
            }
            Measure::Completion if wanted == Statistic::Value => {
                whole_run::flow(summary, measure, wanted)
            }
            Measure::Latency | Measure::Completion => over_intervals(latencies(), wanted),
            Measure::Loss => {
                result.datagrams?;
                let lost = sum(|sample| sample.lost)?;
                let delays = samples.iter().filter_map(|sample| sample.delay.as_ref());
                let sent = lost + delays.map(|delay| delay.count).sum::<u64>() as f64;
                (sent > 0.0).then(|| lost / sent)
            }
            Measure::Retransmits => sum(|sample| sample.retransmits),
            Measure::Sent => sum(|sample| Some(sample.sent_bytes)),
            Measure::Received => sum(|sample| Some(sample.received_bytes)),
            Measure::Gap => {
                let gaps = samples.iter().filter_map(|sample| sample.gap);
                gaps.max().map(|gap| gap.as_nanos() as f64)
            }
            Measure::Reinjected => sum(|sample| sample.reinjected_bytes),
            Measure::Reorder => {
                let peaks = samples.iter().filter_map(|sample| sample.reorder_bytes);
                peaks.max().map(|bytes| bytes as f64)
            }
            Measure::Responses => sum(|sample| sample.responses),
            Measure::Transfers => {
                let counts = samples.iter().filter_map(|sample| sample.responses);
                (!samples.is_empty()).then(|| counts.sum::<u64>() as f64)
            }
            // Samples do not contain the other measures, so they are unknown for a window.
            _ => None,
        }
    }

    /// A metric over some of a flow's subflows; `None` if there were none.
    fn subflows(
        &self,
        flow: FlowId,
        metric: &Metric,
        is_selected: impl Fn(&SubflowSample) -> bool,
    ) -> Option<f64> {
        let (from, to) = self.window(metric);
        let is_wanted = |sample: &&SubflowSample| sample.flow == flow && is_selected(sample);
        let all = || self.subflow_samples.iter().filter(is_wanted);
        all().next()?;
        // Intervals without these subflows count as 0.
        let mut intervals: BTreeMap<Time, (f64, u64)> = BTreeMap::new();
        for sample in self.flow_samples.iter().filter(|sample| sample.flow == flow) {
            if within(sample.at, sample.interval, from, to) {
                intervals.insert(sample.at, (sample.interval.as_secs_f64(), 0));
            }
        }
        let samples: Vec<&SubflowSample> =
            all().filter(|sample| within(sample.at, sample.interval, from, to)).collect();
        for sample in &samples {
            let interval = sample.interval.as_secs_f64();
            intervals.entry(sample.at).or_insert((interval, 0)).1 += sample.received_bytes;
        }
        let sum =
            |pick: fn(&SubflowSample) -> u64| samples.iter().map(|s| pick(s)).sum::<u64>() as f64;
        match metric.measure {
            Measure::Goodput if metric.statistic == Statistic::Mean => {
                let seconds: f64 = intervals.values().map(|(seconds, _)| seconds).sum();
                (seconds > 0.0).then(|| sum(|sample| sample.received_bytes) * 8.0 / seconds)
            }
            Measure::Goodput => {
                let rate = |(seconds, bytes): &(f64, u64)| *bytes as f64 * 8.0 / seconds.max(1e-9);
                statistic(intervals.values().map(rate).collect(), metric.statistic)
            }
            Measure::Rtt => {
                let values = samples.iter().filter_map(|sample| sample.rtt);
                statistic(values.map(|rtt| rtt.as_nanos() as f64).collect(), metric.statistic)
            }
            Measure::Retransmits => Some(sum(|sample| sample.retransmits)),
            Measure::Sent => Some(sum(|sample| sample.sent_bytes)),
            Measure::Received => Some(sum(|sample| sample.received_bytes)),
            _ => None,
        }
    }

    fn link(&self, link: LinkId, direction: Direction, metric: &Metric) -> Option<f64> {
        if metric.window.is_none()
            && let Some(value) = self.whole_link(link, direction, metric)
        {
            return Some(value);
        }
        let (from, to) = self.window(metric);
        let seconds = to.since(from).as_secs_f64();
        let samples: Vec<&LinkSample> = self
            .link_samples
            .iter()
            .filter(|sample| (sample.link, sample.direction) == (link, direction))
            .filter(|sample| within(sample.at, sample.interval, from, to))
            .collect();
        let bits = |sample: &LinkSample| sample.sent_bytes as f64 * 8.0;
        let total: f64 = samples.iter().map(|sample| bits(sample)).sum();
        let is_mean = matches!(metric.statistic, Statistic::Mean | Statistic::Value);
        match metric.measure {
            Measure::Throughput if is_mean => (seconds > 0.0).then(|| total / seconds),
            Measure::Throughput => {
                let rates = samples.iter().map(|s| bits(s) / s.interval.as_secs_f64().max(1e-9));
                statistic(rates.collect(), metric.statistic)
            }
            Measure::Utilisation if is_mean => {
                let capacity = capacity::bits(self.plan, link, direction, (from, to))?;
                (capacity > 0.0).then(|| total / capacity)
            }
            Measure::Utilisation => {
                let shares = samples.iter().filter_map(|sample| {
                    let start = Time::from_nanos(
                        sample.at.as_nanos().saturating_sub(sample.interval.as_nanos()),
                    );
                    let capacity = capacity::bits(self.plan, link, direction, (start, sample.at))?;
                    (capacity > 0.0).then(|| bits(sample) / capacity)
                });
                statistic(shares.collect(), metric.statistic)
            }
            Measure::Drops => {
                Some(samples.iter().map(|sample| sample.dropped()).sum::<u64>() as f64)
            }
            Measure::Marks => Some(samples.iter().map(|sample| sample.marks).sum::<u64>() as f64),
            Measure::Queue => {
                let pick = |sample: &&LinkSample| match metric.statistic {
                    Statistic::Max => sample.queue_max_bytes as f64,
                    _ => sample.queue_bytes as f64,
                };
                statistic(samples.iter().map(pick).collect(), metric.statistic)
            }
            Measure::Delay => {
                let propagation = self.plan.links[link.index()].directions[direction.index()].delay;
                let waits = samples.iter().filter_map(|sample| sample.queue_delay_max);
                let delays = waits.map(|wait| (wait + propagation).as_nanos() as f64);
                statistic(delays.collect(), metric.statistic)
            }
            _ => None,
        }
    }
}

impl Measured<'_> {
    /// The metric of a link over the whole run, if the record has it.
    fn whole_link(&self, link: LinkId, direction: Direction, metric: &Metric) -> Option<f64> {
        let config = &self.plan.links[link.index()];
        let delay = config.directions[direction.index()].delay.as_nanos();
        let is_wanted =
            |s: &&LinkSummary| s.name == config.name && s.direction == direction.as_str();
        let summary = self.record.links.iter().find(is_wanted)?;
        whole_run::link(summary, Some(delay), metric.measure, metric.statistic)
    }
}

/// Whether the midpoint of an interval that ended at `at` is within the window.
pub(crate) fn within(at: Time, interval: Span, from: Time, to: Time) -> bool {
    let half = interval.as_nanos() / 2;
    let middle = at.as_nanos().saturating_sub(half);
    (from.as_nanos()..to.as_nanos()).contains(&middle)
}

fn statistic(mut values: Vec<f64>, wanted: Statistic) -> Option<f64> {
    if values.is_empty() {
        return None;
    }
    values.sort_by(f64::total_cmp);
    let quantile = |q: f64| values[((values.len() - 1) as f64 * q).round() as usize];
    let sum = values.iter().sum::<f64>();
    Some(match wanted {
        Statistic::Mean | Statistic::Value => sum / values.len() as f64,
        Statistic::Min => values[0],
        Statistic::Max => values[values.len() - 1],
        Statistic::P50 => quantile(0.5),
        Statistic::P90 => quantile(0.9),
        Statistic::P99 => quantile(0.99),
        Statistic::P999 => quantile(0.999),
        Statistic::Sum => sum,
    })
}

fn histogram(histogram: &Histogram, wanted: Statistic) -> Option<f64> {
    Some(statistic_of(&histogram.distribution()?, wanted))
}

fn statistic_of(distribution: &Distribution, wanted: Statistic) -> f64 {
    match wanted {
        Statistic::Mean | Statistic::Value => distribution.mean_ns,
        Statistic::Min => distribution.min_ns as f64,
        Statistic::Max => distribution.max_ns as f64,
        Statistic::P50 => distribution.p50_ns as f64,
        Statistic::P90 => distribution.p90_ns as f64,
        Statistic::P99 => distribution.p99_ns as f64,
        Statistic::P999 => distribution.p999_ns as f64,
        Statistic::Sum => distribution.mean_ns * distribution.count as f64,
    }
}

/// A statistic over several intervals. Means are weighted by the number of values. A percentile is
/// the maximum over the intervals: an upper bound, because the single values are not available.
fn over_intervals<'a>(
    parts: impl Iterator<Item = &'a Distribution>,
    wanted: Statistic,
) -> Option<f64> {
    let parts: Vec<&Distribution> = parts.filter(|part| part.count > 0).collect();
    let count: u64 = parts.iter().map(|part| part.count).sum();
    let values = parts.iter().map(|part| statistic_of(part, wanted));
    match wanted {
        Statistic::Mean | Statistic::Value => (count > 0).then(|| {
            parts.iter().map(|part| part.mean_ns * part.count as f64).sum::<f64>() / count as f64
        }),
        Statistic::Sum => Some(values.sum()),
        Statistic::Min => values.min_by(f64::total_cmp),
        _ => values.max_by(f64::total_cmp),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn computes_statistics_of_few_values() {
        let values = || vec![3.0, 1.0, 2.0];
        assert_eq!(statistic(values(), Statistic::Mean), Some(2.0));
        assert_eq!(statistic(values(), Statistic::P50), Some(2.0));
        assert_eq!(statistic(values(), Statistic::P99), Some(3.0));
        assert_eq!(statistic(values(), Statistic::Sum), Some(6.0));
        assert_eq!(statistic(Vec::new(), Statistic::Max), None);
    }

    #[test]
    fn assigns_interval_to_window_of_its_midpoint() {
        let second = |n| Time::ZERO + Span::from_secs(n);
        assert!(within(second(3), Span::from_secs(1), second(2), second(3)));
        assert!(!within(second(2), Span::from_secs(1), second(2), second(3)));
    }

    #[test]
    fn window_percentile_is_an_upper_bound() {
        let part = |value| {
            let mut histogram = Histogram::new();
            histogram.record_many(value, 10);
            histogram.distribution().unwrap()
        };
        let parts = [part(1_000), part(3_000)];
        let near = |value: Option<f64>, wanted: f64| (value.unwrap() / wanted - 1.0).abs() < 0.02;
        assert!(near(over_intervals(parts.iter(), Statistic::Mean), 2_000.0));
        assert!(near(over_intervals(parts.iter(), Statistic::P99), 3_000.0));
        assert!(near(over_intervals(parts.iter(), Statistic::Min), 1_000.0));
    }
}
