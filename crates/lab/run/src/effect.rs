//! Bounds of the error that the hosts cause in the results of a run on the wall clock.
//!
//! A packet waits in a host before it is time-stamped (`ingress`), and leaves the emulated network
//! late (`lateness`); the thread of built-in flows waits for a CPU before it reads it or sends the
//! next one (`flow_waits`). Let X be a measured delay, T the delay of the lab alone and
//! M = X − T ≥ 0 the part of the hosts. By Boole's inequality, for each ε between 0 and p, whatever
//! the dependence of T and M:
//!
//! ```text
//! q(T, p) ≥ q(X, p − ε) − q(M, 1 − ε)
//! ```
//!
//! Over n crossings of the network, M is taken as the largest of n waits, at its quantile
//! 1 − ε/n, and the mean of the others.
//!
//! RTTs contain no waits of the flow thread, because the kernel answers segments. On one host, the
//! times of the waits are also known ([`crate::waits`]), which bounds the part m of the host in
//! each delay x. As x − m ≤ t for each of them, q(T, p) ≥ q(X − m, p). The larger of both lower
//! bounds counts.
//!
//! A stalled data path delivers nothing: a flow loses at most the time of the stall. A flow that
//! waits for acknowledgements is also slowed down by the delay added to its round trips.

use base::{Histogram, Ratio, Span, Time};
use lab::expect::{Quantity, Statistic};
use lab::plan::{Plan, Tolerance, Traffic};

use crate::flow::FlowResult;
use crate::flow::adjusted::{Adjusted, AdjustedDelays};
use crate::record::{HostEffect, TrimmedDelays};
use crate::stalls::Stalls;
use crate::verdict::time_text;

/// Values of ε for which the bound is computed; the smallest bound is used.
const EXCEEDANCE_SHARES: [f64; 7] = [0.1, 0.05, 0.01, 0.005, 0.002, 0.001, 0.0001];

/// Parts of ε for lateness; the rest of ε is for the wait before the time stamp.
const LATENESS_PARTS: [f64; 5] = [0.02, 0.1, 0.5, 0.9, 0.98];

/// ε for the minimum over many packets.
const MIN_EXCEEDANCE_SHARE: f64 = 0.5;

/// ε for the delay that [`HostEffects::text`] names: 1 packet in 1,000.
const SUMMARY_EXCEEDANCE_SHARE: f64 = 0.001;

/// Bytes of TCP's initial window: 10 segments (RFC 6928).
const INITIAL_WINDOW_BYTES: f64 = 14_600.0;

#[derive(Clone, Debug, Default)]
pub struct HostDelays {
    /// How late packets left.
    pub lateness: Histogram,
    /// Time that packets waited before they were time-stamped.
    pub ingress: Histogram,
    /// Stalls of the data path.
    pub stalls: Stalls,
    /// Time for which the flow thread waited for a CPU before each of its events.
    pub flow_waits: Histogram,
}

impl HostDelays {
    /// The delay that at most a share `exceeded` of packets exceed: the smallest bound over all
    /// divisions of that share between the two waits.
    fn exceeded_by(&self, exceeded: f64, by_flow_thread: bool) -> u64 {
        if !by_flow_thread || self.flow_waits.count() == 0 {
            return self.exceeded_in_network(exceeded);
        }
        let in_network = self.exceeded_in_network(exceeded / 2.0);
        in_network + self.flow_waits.percentile(1.0 - exceeded / 2.0)
    }

    fn exceeded_in_network(&self, exceeded: f64) -> u64 {
        let bounds = LATENESS_PARTS.map(|part| {
            let late = self.lateness.percentile(1.0 - exceeded * part);
            late + self.ingress.percentile(1.0 - exceeded * (1.0 - part))
        });
        bounds.into_iter().min().unwrap_or(0)
    }

    fn mean(&self, by_flow_thread: bool) -> f64 {
        let waits = if by_flow_thread { self.flow_waits.mean() } else { 0.0 };
        self.lateness.mean() + self.ingress.mean() + waits
    }
}

/// The errors that the hosts of a run may have caused in its results.
#[derive(Clone, Debug, Default)]
pub struct HostEffects {
    hosts: Vec<HostDelays>,
    elapsed: Span,
}

/// The crossings of the network that a delay consists of.
#[derive(Clone, Copy, Debug)]
pub struct Crossings {
    count: u32,
    /// Whether the thread of built-in flows handles the packets of each crossing. If not, the
    /// kernel answers them at once.
    by_flow_thread: bool,
}

impl Crossings {
    /// Packets that the kernel answers.
    pub const fn by_kernel(count: u32) -> Self {
        Self { count, by_flow_thread: false }
    }

    /// Packets that a built-in flow sends or answers.
    pub const fn by_flow_thread(count: u32) -> Self {
        Self { count, by_flow_thread: true }
    }
}

/// The crossings of the network in a result, and the round trip that limits its rate.
#[derive(Clone, Copy, Debug)]
struct Exchange<'a> {
    /// The delays that the record reports as the result of the flow.
    delays: &'a Histogram,
    adjusted: Option<&'a Adjusted>,
    crossings: Crossings,
    /// Round trips of a flow that waits for acknowledgements or responses.
    round_trips: Option<&'a Histogram>,
    /// Interval of requests; a request waits for the response to the previous one.
    interval: Option<Span>,
}

impl HostEffects {
    /// The effects of the hosts of a run of this length.
    pub const fn new(hosts: Vec<HostDelays>, elapsed: Span) -> Self {
        Self { hosts, elapsed }
    }

    /// The largest of a value over the hosts.
    fn max_over_hosts(&self, value: impl Fn(&HostDelays) -> f64) -> f64 {
        self.hosts.iter().map(value).fold(0.0, f64::max)
    }

    /// The added delay, in nanoseconds, that a share `exceeded` of packets exceed, over several
    /// crossings of the network.
    pub fn added_delay(&self, exceeded: f64, crossings: Crossings) -> f64 {
        let Crossings { count, by_flow_thread } = crossings;
        let share = exceeded / f64::from(count.max(1));
        let largest = self.max_over_hosts(|host| host.exceeded_by(share, by_flow_thread) as f64);
        let others = Crossings { count: count.saturating_sub(1), by_flow_thread };
        largest + self.mean_added(others)
    }

    /// Mean of the delay added in these crossings, in nanoseconds.
    fn mean_added(&self, crossings: Crossings) -> f64 {
        let Crossings { count, by_flow_thread } = crossings;
        f64::from(count) * self.max_over_hosts(|host| host.mean(by_flow_thread))
    }

    /// Stalled time of the two worst hosts, because a flow has two ends.
    pub fn stalled_time(&self) -> Span {
        self.sum_of_two_worst(|host| host.stalls.sum())
    }

    /// The same within a part of the run.
    pub(crate) fn stalled_time_within(&self, (from, to): (Time, Time)) -> Span {
        self.sum_of_two_worst(|host| host.stalls.within(from, to).0)
    }

    fn sum_of_two_worst(&self, stalled: impl Fn(&HostDelays) -> Span) -> Span {
        let mut all: Vec<Span> = self.hosts.iter().map(stalled).collect();
        all.sort_unstable_by(|a, b| b.cmp(a));
        all.into_iter().take(2).fold(Span::ZERO, |sum, stalled| sum + stalled)
    }

    pub fn longest_stall(&self) -> Span {
        self.hosts.iter().map(|host| host.stalls.longest()).max().unwrap_or_default()
    }

    /// The time in stalls as a share of the run.
    pub fn stalled_share_of_run(&self) -> f64 {
        share(self.stalled_time(), self.elapsed)
    }

    /// The time in stalls as a share of a part of the run.
    pub(crate) fn stalled_share(&self, part: (Time, Time)) -> f64 {
        share(self.stalled_time_within(part), part.1.since(part.0))
    }

    /// A description of the maximum errors.
    pub fn text(&self) -> String {
        let added =
            time_text(self.added_delay(SUMMARY_EXCEEDANCE_SHARE, Crossings::by_kernel(1)) as u64);
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
        crossings: Crossings,
    ) -> f64 {
        if measured.count() == 0 {
            return 0.0;
        }
        let by_share = self.delay_by_share(measured, statistic, crossings);
        // On several hosts, only the waits of one host are known.
        let adjusted = adjusted.filter(|_| self.hosts.len() == 1);
        let lower = adjusted.map(|adjusted| &adjusted.without_waits);
        let Some(lower) = lower.filter(|lower| lower.count() == measured.count()) else {
            return by_share;
        };
        by_share.min((statistic_of(measured, statistic) - statistic_of(lower, statistic)).max(0.0))
    }

    /// The same, from the shares of packets that were late.
    fn delay_by_share(
        &self,
        measured: &Histogram,
        statistic: Statistic,
        crossings: Crossings,
    ) -> f64 {
        let quantile = match statistic {
            Statistic::Mean | Statistic::Value => {
                return self.mean_added(crossings);
            }
            Statistic::Sum => {
                return self.mean_added(crossings) * measured.count() as f64;
            }
            Statistic::Min => return self.added_delay(MIN_EXCEEDANCE_SHARE, crossings),
            Statistic::Max => return self.added_delay(0.0, crossings),
            Statistic::P50 => 0.5,
            Statistic::P90 => 0.9,
            Statistic::P99 => 0.99,
            Statistic::P999 => 0.999,
        };
        let value = measured.percentile(quantile);
        let bounds = EXCEEDANCE_SHARES.iter().map(|exceeded| {
            let lower = measured.percentile(quantile - exceeded);
            value.saturating_sub(lower) as f64 + self.added_delay(*exceeded, crossings)
        });
        bounds.fold(value as f64, f64::min)
    }

    /// The maximum share by which the rate of a flow in a part of the run may be below that of the
    /// lab. The flow was active for `duration` of it.
    pub(crate) fn rate_error(
        &self,
        plan: &Plan,
        result: &FlowResult,
        (from, to): (Time, Time),
        duration: Span,
    ) -> f64 {
        let exchange = Exchange::of(plan, result);
        let Some(round_trips) = exchange.round_trips else {
            // The sender does not wait for responses: a stall delays data, and loses none.
            let longest = self.hosts.iter().map(|host| host.stalls.within(from, to).1).max();
            let postponed = exchange.interval.map_or(0.0, |interval| {
                let lower = exchange.adjusted.filter(|_| self.hosts.len() == 1);
                let beyond = |latencies| sum_beyond(latencies, interval);
                let lower = lower.map_or(0.0, |adjusted| beyond(&adjusted.without_waits));
                (beyond(exchange.delays) - lower).max(0.0)
            });
            let lost = longest.unwrap_or_default() + Span::from_nanos(postponed as u64);
            return share(lost, duration);
        };
        let added = self.mean_added(exchange.crossings);
        let slower = if round_trips.count() > 0 { added / round_trips.mean() } else { 0.0 };
        (share(self.stalled_time_within((from, to)), duration) + slower).min(1.0)
    }

    /// By how many nanoseconds a statistic of a flow's delays may exceed that of the lab.
    pub(crate) fn delay_error(
        &self,
        plan: &Plan,
        result: &FlowResult,
        measured: &Histogram,
        statistic: Statistic,
    ) -> f64 {
        let exchange = Exchange::of(plan, result);
        let all = result.adjusted.as_deref();
        let (crossings, adjusted) = if std::ptr::eq(measured, &raw const result.rtt) {
            (Crossings::by_kernel(2), all.map(|all| &all.rtt))
        } else if std::ptr::eq(measured, &raw const result.delay) {
            (exchange.crossings, all.map(|all| &all.delay))
        } else {
            (exchange.crossings, all.map(|all| &all.latency))
        };
        self.delay(measured, adjusted, statistic, crossings)
    }

    /// The time from the start of a flow to its end.
    pub(crate) fn lifetime(&self, result: &FlowResult) -> (Time, Time) {
        let started = result.started.unwrap_or(Time::ZERO);
        (started, result.ended.unwrap_or(Time::ZERO + self.elapsed))
    }

    /// The effect on a flow's reported results.
    pub(crate) fn effect_on_flow(&self, plan: &Plan, result: &FlowResult) -> HostEffect {
        let Exchange { delays, adjusted, crossings, .. } = Exchange::of(plan, result);
        let delay = |statistic| self.delay(delays, adjusted, statistic, crossings) as u64;
        HostEffect {
            goodput_share: self.rate_error(plan, result, self.lifetime(result), result.active),
            mean_ns: delay(Statistic::Mean),
            p50_ns: delay(Statistic::P50),
            p99_ns: delay(Statistic::P99),
            trimmed: adjusted
                .filter(|_| self.hosts.len() == 1)
                .and_then(|adjusted| trim_delays(delays, &adjusted.undisturbed)),
        }
    }
}

impl<'a> Exchange<'a> {
    fn of(plan: &Plan, result: &'a FlowResult) -> Self {
        let traffic = &plan.flows[result.id.index()].traffic;
        let completion = result.transfers.as_ref().map(|transfers| &transfers.completion);
        let adjusted =
            |pick: fn(&AdjustedDelays) -> &Adjusted| result.adjusted.as_deref().map(pick);
        let with_setup = |count| Crossings::by_flow_thread(2 * (1 + round_trips(result, count)));
        let mut interval = None;
        let (delays, crossings, round_trips) = match traffic {
            Traffic::Paced { .. } | Traffic::Controlled { .. } => {
                (&result.delay, Crossings::by_flow_thread(1), None)
            }
            Traffic::Queries(_) => {
                (&result.latency, Crossings::by_flow_thread(2), Some(&result.latency))
            }
            Traffic::Rpc { spec, .. } => {
                let crossings =
                    Crossings::by_flow_thread(2 * round_trips(result, result.responses));
                // With an interval, requests wait for responses only if these take longer.
                let waits = result.latency.mean() >= spec.interval.as_nanos() as f64;
                interval = Some(spec.interval).filter(|_| !waits);
                (&result.latency, crossings, waits.then_some(&result.latency))
            }
            Traffic::Requests { .. } => (&result.latency, with_setup(result.responses), None),
            Traffic::Transfers { .. } => {
                let completed = result.transfers.as_ref().map(|transfers| transfers.completed);
                (completion.unwrap_or(&result.rtt), with_setup(completed), None)
            }
            Traffic::Bulk { .. } => (&result.rtt, Crossings::by_kernel(2), Some(&result.rtt)),
        };
        let adjusted = match traffic {
            Traffic::Paced { .. } | Traffic::Controlled { .. } => adjusted(|all| &all.delay),
            Traffic::Bulk { .. } => adjusted(|all| &all.rtt),
            Traffic::Queries(_)
            | Traffic::Rpc { .. }
            | Traffic::Requests { .. }
            | Traffic::Transfers { .. } => adjusted(|all| &all.latency),
        };
        Self { delays, adjusted, crossings, round_trips, interval }
    }
}

/// A statistic of the values of a histogram.
fn statistic_of(histogram: &Histogram, statistic: Statistic) -> f64 {
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

/// Statistics of the delays that the host did not disturb; `None` if there are no such delays.
fn trim_delays(measured: &Histogram, undisturbed: &Histogram) -> Option<TrimmedDelays> {
    (undisturbed.count() > 0).then(|| TrimmedDelays {
        left_out: measured.count().saturating_sub(undisturbed.count()),
        mean_ns: undisturbed.mean() as u64,
        p50_ns: undisturbed.percentile(0.5),
        p99_ns: undisturbed.percentile(0.99),
    })
}

/// Sum of the parts of latencies beyond the interval of requests, in nanoseconds: each postpones
/// the next request by its part.
fn sum_beyond(latencies: &Histogram, interval: Span) -> f64 {
    let beyond = |(low, high, count): (u64, u64, u64)| {
        let latency = low.midpoint(high);
        count as f64 * latency.saturating_sub(interval.as_nanos()) as f64
    };
    latencies.buckets().map(beyond).sum()
}

/// Round trips of TCP's slow start for the mean size of `count` transfers.
fn round_trips(result: &FlowResult, count: Option<u64>) -> u32 {
    let size = result.received_bytes as f64 / count.unwrap_or(1).max(1) as f64;
    ((size / INITIAL_WINDOW_BYTES + 1.0).log2().ceil() as u32).max(1)
}

fn share(part: Span, duration: Span) -> f64 {
    (part.as_nanos() as f64 / (duration.as_nanos() as f64).max(1.0)).min(1.0)
}

/// A result of a flow whose error may exceed the tolerance.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Excess {
    /// Goodput in bit/s, and the share by which it may be too low.
    Goodput { value: f64, error: f64 },
    /// A percentile of its delays and its error, in nanoseconds.
    Delay { percentile: &'static str, value: u64, error: u64, tolerance: Span },
}

impl Excess {
    /// A description of the result, its error and the tolerance.
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

    /// The result of a flow with the largest ratio of error to tolerance, if this ratio is above 1.
    pub(crate) fn of(
        plan: &Plan,
        result: &FlowResult,
        effects: &HostEffects,
    ) -> Option<(f64, Self)> {
        result.started.filter(|_| result.active.is_positive())?;
        let Tolerance { rate, .. } = plan.tolerance;
        let effect = effects.effect_on_flow(plan, result);
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
