//! Metrics over the whole run, from its record.

use base::Distribution;
use lab::expect::{self, Measure, Quantity, Statistic, SubjectKind};

use super::statistic_of;
use crate::record::{
    BundleSummary, Clock, FlowSummary, LinkSummary, PathSummary, ProgramEnd, ProgramSummary,
    RunRecord, Slowdown,
};

/// A metric of a finished run, over the whole run.
#[derive(Clone, Debug, PartialEq)]
pub struct RunMetric {
    /// The name, as in expectations: `flow.a-b.goodput.mean`.
    pub name: String,
    pub quantity: Quantity,
    /// The value in the base unit of its quantity.
    pub value: f64,
}

/// All metrics of expectations that a record has, by name. Statistics over sampling intervals are
/// not in a record; links without traffic are omitted.
pub fn metrics(record: &RunRecord) -> Vec<RunMetric> {
    let mut all = MetricList(Vec::new());
    for flow in &record.flows {
        let name = format!("flow.{}", flow.name);
        all.add(SubjectKind::Flow, &name, |m, s| self::flow(flow, m, s));
        for path in &flow.paths {
            let name = format!("{name}.path.{}", path.link);
            all.add(SubjectKind::Path, &name, |m, _| self::path(path, m));
        }
    }
    for link in record.links.iter().filter(|link| link.sent_packets + link.dropped() > 0) {
        let name = format!("link.{}.{}", link.name, link.direction);
        let propagation = propagation(record, link);
        all.add(SubjectKind::Link, &name, |m, s| self::link(link, propagation, m, s));
    }
    for program in &record.programs {
        let name = format!("program.{}", program.name);
        all.add(SubjectKind::Program, &name, |m, _| self::program(program, m));
    }
    for bundle in &record.bundles {
        let name = format!("bundle.{}", bundle.name);
        all.add(SubjectKind::Bundle, &name, |m, s| self::bundle(bundle, m, s));
    }
    if let Some(control) = &record.control {
        all.add(SubjectKind::Control, "control", |m, s| match (m, s) {
            (Measure::Convergence, _) => Some(nanos(control.convergence_s?)),
            (Measure::Queue, Statistic::Max) => Some(control.queue_max_bytes as f64),
            _ => None,
        });
    }
    all.add(SubjectKind::Run, "run", |m, s| match (m, record.clock) {
        (Measure::Lateness, Clock::Virtual) => None,
        _ => self::run(record, m, s),
    });
    all.0.sort_by(|a, b| a.name.cmp(&b.name));
    all.0
}

struct MetricList(Vec<RunMetric>);

impl MetricList {
    fn add(
        &mut self,
        kind: SubjectKind,
        subject: &str,
        value: impl Fn(Measure, Statistic) -> Option<f64>,
    ) {
        for (metric, measure, statistic) in expect::metrics(kind) {
            if is_alias(measure, statistic) {
                continue;
            }
            if let Some(value) = value(measure, statistic).filter(|value| value.is_finite()) {
                let name = format!("{subject}.{metric}");
                self.0.push(RunMetric { name, quantity: measure.quantity(), value });
            }
        }
    }
}

/// Whether another statistic of the measure names the same value over the whole run.
fn is_alias(measure: Measure, statistic: Statistic) -> bool {
    match measure {
        Measure::Retransmits | Measure::Sent | Measure::Received | Measure::Responses => {
            matches!(statistic, Statistic::Mean | Statistic::Max)
        }
        Measure::Loss => matches!(statistic, Statistic::Min | Statistic::Max),
        _ => false,
    }
}

/// Seconds of a record as whole nanoseconds.
fn nanos(seconds: f64) -> f64 {
    (seconds * 1e9).round()
}

pub(super) fn flow(flow: &FlowSummary, measure: Measure, statistic: Statistic) -> Option<f64> {
    let count = |value: Option<u64>| value.map(|value| value as f64);
    let of = |distribution: Option<Distribution>| {
        distribution.map(|distribution| statistic_of(&distribution, statistic))
    };
    match (measure, statistic) {
        (Measure::Goodput, Statistic::Mean) => Some(flow.goodput_bit_per_s),
        (Measure::Rtt, _) => of(flow.rtt),
        (Measure::Delay, _) => of(flow.delay),
        (Measure::Latency, _) => of(flow.latency),
        (Measure::Completion, Statistic::Value) => flow.completion_s.map(nanos),
        (Measure::Completion, _) => of(flow.completion),
        (Measure::Slowdown, _) => slowdown(flow.slowdown.as_ref()?, statistic),
        (Measure::Loss, _) => {
            let (lost, sent) = (flow.lost_datagrams?, flow.sent_datagrams?);
            (sent > 0).then(|| lost as f64 / sent as f64)
        }
        (Measure::Retransmits, _) => count(flow.retransmits),
        (Measure::Timeouts, _) => count(flow.timeouts),
        (Measure::Transfers, _) => count(flow.transfers_completed),
        (Measure::Sent, _) => Some(flow.sent_bytes as f64),
        (Measure::Received, _) => Some(flow.received_bytes as f64),
        (Measure::Responses, _) => count(flow.responses),
        (Measure::Gap, _) => flow.gap_s.map(nanos),
        (Measure::Reinjected, _) => count(flow.reinjected_bytes),
        (Measure::Reorder, _) => count(flow.reorder_max_bytes),
        _ => None,
    }
}

fn slowdown(slowdown: &Slowdown, statistic: Statistic) -> Option<f64> {
    match statistic {
        Statistic::Mean => Some(slowdown.mean),
        Statistic::P50 => Some(slowdown.p50),
        Statistic::P90 => Some(slowdown.p90),
        Statistic::P99 => Some(slowdown.p99),
        Statistic::P999 => Some(slowdown.p999),
        Statistic::Max => Some(slowdown.max),
        Statistic::Min | Statistic::Sum | Statistic::Value => None,
    }
}

fn path(path: &PathSummary, measure: Measure) -> Option<f64> {
    match measure {
        Measure::Sent => Some(path.sent_bytes as f64),
        Measure::Received => Some(path.received_bytes as f64),
        Measure::Retransmits => Some(path.retransmits as f64),
        _ => None,
    }
}

/// The propagation delay of a link direction at the start, in nanoseconds.
fn propagation(record: &RunRecord, link: &LinkSummary) -> Option<u64> {
    let found = record.topology.links.iter().find(|found| found.name == link.name)?;
    Some(found.delay_ns[usize::from(link.direction != "up")])
}

pub(super) fn link(
    link: &LinkSummary,
    propagation_ns: Option<u64>,
    measure: Measure,
    statistic: Statistic,
) -> Option<f64> {
    match (measure, statistic) {
        (Measure::Throughput, Statistic::Mean) => Some(link.throughput_bit_per_s),
        (Measure::Utilisation, Statistic::Mean) => link.utilisation,
        (Measure::Drops, Statistic::Sum) => Some(link.dropped() as f64),
        (Measure::Marks, Statistic::Sum) => Some(link.marks as f64),
        (Measure::Queue, Statistic::Max) => Some(link.queue_max_bytes as f64),
        (Measure::Delay, _) => {
            let wait = statistic_of(link.queue_delay.as_ref()?, statistic);
            Some(wait + propagation_ns? as f64)
        }
        _ => None,
    }
}

pub(super) fn program(program: &ProgramSummary, measure: Measure) -> Option<f64> {
    match measure {
        Measure::Exit => match program.end? {
            ProgramEnd::Exit(status) => Some(f64::from(status)),
            ProgramEnd::Signal(signal) => Some(f64::from(128 + signal)),
            ProgramEnd::OutOfMemory => Some(137.0),
            ProgramEnd::Stopped => None,
        },
        Measure::Restarts => Some(f64::from(program.restarts)),
        Measure::Runtime => Some((program.ended_s? - program.started_s?) * 1e9),
        _ => None,
    }
}

pub(super) fn run(record: &RunRecord, measure: Measure, statistic: Statistic) -> Option<f64> {
    match measure {
        // The virtual clock has no lateness.
        Measure::Lateness if record.clock == Clock::Virtual => Some(0.0),
        Measure::Lateness => Some(statistic_of(record.lateness.distribution.as_ref()?, statistic)),
        Measure::Duration => Some(record.elapsed_s * 1e9),
        Measure::Trusted => {
            record.verdict.as_ref().map(|verdict| f64::from(u8::from(verdict.trusted)))
        }
        _ => None,
    }
}

fn bundle(bundle: &BundleSummary, measure: Measure, statistic: Statistic) -> Option<f64> {
    match (measure, statistic) {
        (Measure::Rate, Statistic::Mean) => bundle.rate_bit_per_s,
        (Measure::Throughput, Statistic::Mean) => Some(bundle.throughput_bit_per_s),
        (Measure::Queueing, Statistic::Mean) => bundle.queueing_mean_ns,
        (Measure::Backlog, Statistic::Mean) => Some(bundle.backlog_mean_bytes),
        (Measure::Backlog, Statistic::Max) => Some(bundle.backlog_max_bytes as f64),
        (Measure::Waiting, Statistic::Mean) => Some(bundle.waiting_mean_ns),
        (Measure::Drops, _) => Some(bundle.dropped_packets as f64),
        (Measure::Transitions, _) => Some(bundle.transitions.len() as f64),
        (Measure::TimeIn(state), _) => {
            Some(bundle.time.get(state.as_str()).copied().unwrap_or(0.0))
        }
        _ => None,
    }
}
