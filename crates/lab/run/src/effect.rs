//! Bounds of what the hosts change in the results of a run on the wall clock.
//!
//! A packet waits in a host before it is time-stamped (`ingress`), and leaves the emulated network
//! late (`lateness`). Let X be a measured delay, T the delay of the lab alone and M = X − T ≥ 0
//! the part of the hosts. By Boole's inequality, for each ε between 0 and p, whatever the
//! dependence of T and M:
//!
//! ```text
//! q(T, p) ≥ q(X, p − ε) − q(M, 1 − ε)
//! ```
//!
//! Over n crossings of the network, M is taken as the largest of n waits, at its quantile
//! 1 − ε/n, and the mean of the others.
//!
//! On one host, the waits are also known by their time ([`crate::waits`]), which bounds the part m
//! of the host in each delay x. As x − m ≤ t for each of them, q(T, p) ≥ q(X − m, p). The larger of
//! both lower bounds counts.
//!
//! While the data path stands still it delivers nothing: a flow loses at most that time. A flow
//! that waits for acknowledgements is slower also by the delay added to its round trips.

use base::{Histogram, Ratio, Span};
use lab::expect::{Quantity, Statistic};
use lab::plan::{Plan, Tolerance, Traffic};

use crate::flow::FlowResult;
use crate::flow::adjusted::{Adjusted, AdjustedDelays};
use crate::record::{HostEffect, TrimmedDelays};
use crate::verdict::time_text;

/// Values of ε for which the bound is computed; the smallest result is used.
const EXCEEDED: [f64; 7] = [0.1, 0.05, 0.01, 0.005, 0.002, 0.001, 0.0001];

/// Parts of ε for lateness; the rest is for the wait before the time stamp.
const PARTS: [f64; 5] = [0.02, 0.1, 0.5, 0.9, 0.98];

/// For a minimum, which is that of many packets: the share of packets later than the bound.
const EXCEEDED_BY_MIN: f64 = 0.5;

/// Share of packets that may be later than the delay in the statement about a run.
const EXCEEDED_RARELY: f64 = 0.001;

/// Bytes of TCP's initial window: 10 segments (RFC 6928).
const INITIAL_WINDOW: f64 = 14_600.0;

/// Measurements of one host.
#[derive(Clone, Debug, Default)]
pub struct HostDelays {
    /// How late packets left.
    pub lateness: Histogram,
    /// Time that packets waited before they were time-stamped.
    pub ingress: Histogram,
    /// Lengths of the data path's stalls.
    pub stalls: Histogram,
}

impl HostDelays {
    /// The delay that at most a share `exceeded` of packets exceed. Each part of that share may be
    /// due to the one wait or to the other; the smallest bound counts.
    fn exceeded_by(&self, exceeded: f64) -> u64 {
        let bounds = PARTS.map(|part| {
            let late = self.lateness.percentile(1.0 - exceeded * part);
            late + self.ingress.percentile(1.0 - exceeded * (1.0 - part))
        });
        bounds.into_iter().min().unwrap_or(0)
    }

    fn mean(&self) -> f64 {
        self.lateness.mean() + self.ingress.mean()
    }

    /// Time in stalls, in nanoseconds.
    fn stalled(&self) -> f64 {
        self.stalls.mean() * self.stalls.count() as f64
    }
}

/// What the hosts of a run may have changed in its results.
#[derive(Clone, Debug, Default)]
pub struct HostEffects {
    hosts: Vec<HostDelays>,
    elapsed: Span,
}

/// The number of crossings of the network that a result consists of, and the round trip that
/// limits its rate.
#[derive(Clone, Copy, Debug)]
struct Exchange<'a> {
    /// The delays that are reported first.
    delays: &'a Histogram,
    adjusted: Option<&'a Adjusted>,
    crossings: u32,
    /// Round trips of a flow that waits for acknowledgements or responses.
    round_trips: Option<&'a Histogram>,
}

impl HostEffects {
    /// The effects of the hosts of a run of this length.
    pub const fn new(hosts: Vec<HostDelays>, elapsed: Span) -> Self {
        Self { hosts, elapsed }
    }

    /// The largest of a value over the hosts.
    fn worst(&self, value: impl Fn(&HostDelays) -> f64) -> f64 {
        self.hosts.iter().map(value).fold(0.0, f64::max)
    }

    /// The added delay, in nanoseconds, that a share `exceeded` of packets exceed, over several
    /// crossings of the network.
    pub fn added(&self, exceeded: f64, crossings: u32) -> f64 {
        let crossings = crossings.max(1);
        let largest = self.worst(|host| host.exceeded_by(exceeded / f64::from(crossings)) as f64);
        largest + f64::from(crossings - 1) * self.mean_added()
    }

    /// Mean of the delay added in one crossing, in nanoseconds.
    fn mean_added(&self) -> f64 {
        self.worst(HostDelays::mean)
    }

    /// Time for which the data paths of two hosts stood still: those of a flow's ends.
    pub fn stalled(&self) -> Span {
        let mut all: Vec<f64> = self.hosts.iter().map(HostDelays::stalled).collect();
        all.sort_by(|a, b| b.total_cmp(a));
        Span::from_nanos(all.iter().take(2).sum::<f64>() as u64)
    }

    /// The longest stall.
    pub fn longest_stall(&self) -> Span {
        Span::from_nanos(self.worst(|host| host.stalls.max() as f64) as u64)
    }

    /// The time in stalls as a share of `duration`.
    pub fn stalled_share(&self, duration: Span) -> f64 {
        share(self.stalled().as_nanos() as f64, duration)
    }

    /// The time in stalls as a share of the run.
    pub fn stalled_share_of_run(&self) -> f64 {
        self.stalled_share(self.elapsed)
    }

    /// What the hosts changed at most, in words.
    pub fn text(&self) -> String {
        let added = time_text(self.added(EXCEEDED_RARELY, 1) as u64);
        let rates = match self.stalled_share_of_run() {
            share if share < 0.0005 => "rates exact".to_owned(),
            share => format!("rates up to {:.1} % lower", share * 100.0),
        };
        format!("delays up to {added} longer for 1 packet in 1,000, {rates}")
    }

    /// By how many nanoseconds a statistic of measured delays may exceed that of the lab.
    fn delay(
        &self,
        measured: &Histogram,
        adjusted: Option<&Adjusted>,
        statistic: Statistic,
        crossings: u32,
    ) -> f64 {
        if measured.count() == 0 {
            return 0.0;
        }
        let by_share = self.delay_by_share(measured, statistic, crossings);
        // On several hosts, a flow knows the waits of one of them only.
        let adjusted = adjusted.filter(|_| self.hosts.len() == 1);
        let lower = adjusted.map(|adjusted| &adjusted.without_waits);
        let Some(lower) = lower.filter(|lower| lower.count() == measured.count()) else {
            return by_share;
        };
        by_share.min((value_of(measured, statistic) - value_of(lower, statistic)).max(0.0))
    }

    /// The same, from the shares of packets that were late.
    fn delay_by_share(&self, measured: &Histogram, statistic: Statistic, crossings: u32) -> f64 {
        let quantile = match statistic {
            Statistic::Mean | Statistic::Value => {
                return f64::from(crossings) * self.mean_added();
            }
            Statistic::Sum => {
                return f64::from(crossings) * self.mean_added() * measured.count() as f64;
            }
            Statistic::Min => return self.added(EXCEEDED_BY_MIN, crossings),
            Statistic::Max => return self.added(0.0, crossings),
            Statistic::P50 => 0.5,
            Statistic::P90 => 0.9,
            Statistic::P99 => 0.99,
            Statistic::P999 => 0.999,
        };
        let value = measured.percentile(quantile);
        let bounds = EXCEEDED.iter().map(|exceeded| {
            let lower = measured.percentile(quantile - exceeded);
            value.saturating_sub(lower) as f64 + self.added(*exceeded, crossings)
        });
        bounds.fold(value as f64, f64::min)
    }

    /// The maximum share by which the rate of a flow over `duration` may be below that of the lab.
    pub(crate) fn rate_of(&self, plan: &Plan, result: &FlowResult, duration: Span) -> f64 {
        let exchange = Exchange::of(plan, result);
        let Some(round_trips) = exchange.round_trips else {
            // The sender does not wait: a stall delays data, and loses none.
            return share(self.longest_stall().as_nanos() as f64, duration);
        };
        let added = f64::from(exchange.crossings) * self.mean_added();
        let slower = if round_trips.count() > 0 { added / round_trips.mean() } else { 0.0 };
        (self.stalled_share(duration) + slower).min(1.0)
    }

    /// By how many nanoseconds a statistic of a flow's delays may exceed that of the lab.
    pub(crate) fn delay_of(
        &self,
        plan: &Plan,
        result: &FlowResult,
        measured: &Histogram,
        statistic: Statistic,
    ) -> f64 {
        let exchange = Exchange::of(plan, result);
        let all = result.adjusted.as_deref();
        let (crossings, adjusted) = if std::ptr::eq(measured, &raw const result.rtt) {
            (2, all.map(|all| &all.rtt))
        } else if std::ptr::eq(measured, &raw const result.delay) {
            (exchange.crossings, all.map(|all| &all.delay))
        } else {
            (exchange.crossings, all.map(|all| &all.latency))
        };
        self.delay(measured, adjusted, statistic, crossings)
    }

    /// The effect on the results that are reported first.
    pub(crate) fn on_flow(&self, plan: &Plan, result: &FlowResult) -> HostEffect {
        let Exchange { delays, adjusted, crossings, .. } = Exchange::of(plan, result);
        let delay = |statistic| self.delay(delays, adjusted, statistic, crossings) as u64;
        HostEffect {
            goodput_share: self.rate_of(plan, result, result.active),
            mean_ns: delay(Statistic::Mean),
            p50_ns: delay(Statistic::P50),
            p99_ns: delay(Statistic::P99),
            trimmed: adjusted
                .filter(|_| self.hosts.len() == 1)
                .and_then(|adjusted| trimmed(delays, &adjusted.undisturbed)),
        }
    }
}

impl<'a> Exchange<'a> {
    fn of(plan: &Plan, result: &'a FlowResult) -> Self {
        let traffic = &plan.flows[result.id.index()].traffic;
        let completion = result.transfers.as_ref().map(|transfers| &transfers.completion);
        let adjusted =
            |pick: fn(&AdjustedDelays) -> &Adjusted| result.adjusted.as_deref().map(pick);
        let with_setup = |count: Option<u64>| 2 * (1 + round_trips(result, count));
        let (delays, crossings, round_trips) = match traffic {
            Traffic::Paced { .. } | Traffic::Controlled { .. } => (&result.delay, 1, None),
            Traffic::Queries(_) => (&result.latency, 2, Some(&result.latency)),
            Traffic::Rpc { spec, .. } => {
                let crossings = 2 * round_trips(result, result.responses);
                // With an interval, it waits for responses only if they take longer.
                let waits = result.latency.mean() >= spec.interval.as_nanos() as f64;
                (&result.latency, crossings, waits.then_some(&result.latency))
            }
            Traffic::Requests { .. } => (&result.latency, with_setup(result.responses), None),
            Traffic::Transfers { .. } => {
                let completed = result.transfers.as_ref().map(|transfers| transfers.completed);
                (completion.unwrap_or(&result.rtt), with_setup(completed), None)
            }
            Traffic::Bulk { .. } => (&result.rtt, 2, Some(&result.rtt)),
        };
        let adjusted = match traffic {
            Traffic::Paced { .. } | Traffic::Controlled { .. } => adjusted(|all| &all.delay),
            Traffic::Bulk { .. } => adjusted(|all| &all.rtt),
            Traffic::Queries(_)
            | Traffic::Rpc { .. }
            | Traffic::Requests { .. }
            | Traffic::Transfers { .. } => adjusted(|all| &all.latency),
        };
        Self { delays, adjusted, crossings, round_trips }
    }
}

/// A statistic of the values of a histogram.
fn value_of(histogram: &Histogram, statistic: Statistic) -> f64 {
    let quantile = |p| histogram.percentile(p) as f64;
    match statistic {
        Statistic::Mean | Statistic::Value => histogram.mean(),
        Statistic::Sum => histogram.mean() * histogram.count() as f64,
        Statistic::Min => histogram.min() as f64,
        Statistic::Max => histogram.max() as f64,
        Statistic::P50 => quantile(0.5),
        Statistic::P90 => quantile(0.9),
        Statistic::P99 => quantile(0.99),
        Statistic::P999 => quantile(0.999),
    }
}

/// The delays without those that the host disturbed, unless there are none.
fn trimmed(measured: &Histogram, undisturbed: &Histogram) -> Option<TrimmedDelays> {
    (undisturbed.count() > 0).then(|| TrimmedDelays {
        left_out: measured.count().saturating_sub(undisturbed.count()),
        mean_ns: undisturbed.mean() as u64,
        p50_ns: undisturbed.percentile(0.5),
        p99_ns: undisturbed.percentile(0.99),
    })
}

/// Round trips of TCP's slow start for the mean size of `count` transfers.
fn round_trips(result: &FlowResult, count: Option<u64>) -> u32 {
    let size = result.received_bytes as f64 / count.unwrap_or(1).max(1) as f64;
    ((size / INITIAL_WINDOW + 1.0).log2().ceil() as u32).max(1)
}

fn share(nanos: f64, duration: Span) -> f64 {
    if nanos > 0.0 { (nanos / (duration.as_nanos() as f64).max(1.0)).min(1.0) } else { 0.0 }
}

/// A result of a flow that the hosts may have changed by more than the tolerance.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Excess {
    /// Goodput in bit/s, and the share by which it may be too low.
    Goodput { value: f64, error: f64 },
    /// A percentile of its delays in nanoseconds, and how much it may be too long.
    Delay { percentile: &'static str, value: u64, error: u64, tolerance: Span },
}

impl Excess {
    /// The result, its error and the tolerance, in words.
    pub(crate) fn text(&self, rate: Ratio) -> String {
        match *self {
            Self::Goodput { value, error } => format!(
                "goodput {} may be {:.1} % too low because of the machine, the lab tolerates {rate}",
                Quantity::Rate.text(value),
                error * 100.0
            ),
            Self::Delay { percentile, value, error, tolerance } => format!(
                "delay {} ({percentile}) may be {} too long because of the machine, the lab \
                 tolerates {}",
                time_text(value),
                time_text(error),
                time_text(tolerance.as_nanos())
            ),
        }
    }

    /// The result of a flow that exceeds its tolerance the most, and by which factor.
    pub(crate) fn of(
        plan: &Plan,
        result: &FlowResult,
        effects: &HostEffects,
    ) -> Option<(f64, Self)> {
        result.started.filter(|_| result.active.is_positive())?;
        let Tolerance { rate, .. } = plan.tolerance;
        let effect = effects.on_flow(plan, result);
        let delays = Exchange::of(plan, result).delays;
        let delay = |percentile, quantile: f64, error: u64| {
            let value = delays.percentile(quantile);
            let tolerance = plan.tolerance.of_delay(Span::from_nanos(value));
            let factor = error as f64 / (tolerance.as_nanos() as f64).max(1.0);
            (factor, Self::Delay { percentile, value, error, tolerance })
        };
        let goodput = Self::Goodput { value: result.mean_goodput(), error: effect.goodput_share };
        let all = [
            (effect.goodput_share / rate.as_f64().max(1e-9), goodput),
            delay("p50", 0.5, effect.p50_ns),
            delay("p99", 0.99, effect.p99_ns),
        ];
        all.into_iter().filter(|(factor, _)| *factor > 1.0).max_by(|a, b| a.0.total_cmp(&b.0))
    }
}

#[cfg(test)]
mod tests;
