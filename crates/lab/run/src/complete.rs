//! Completes the record of a run that has ended.

use std::collections::BTreeMap;

use crate::effect::HostEffects;
use crate::record::{
    Clock, ExpectationRecord, FlowSummary, LinkSummary, Outcome, PathSummary, Slowdown, Verdict,
};
use crate::{ControlSample, DropReason, RunRecord};
use base::{Direction, Histogram, LinkId, NodeId, Span, Time};
use lab::expect::{self, Measure};
use lab::plan::{Plan, Traffic};

use crate::flow::multipath::PathResult;
use crate::flow::{self, FlowResult, Transfers};
use crate::ledger::bundles::BundleLedger;
use crate::ledger::links::{FlowLedger, LinkLedger};
use crate::metrics::{Measured, capacity};
use crate::{start, verdict};

/// The data from which a record is completed.
#[derive(Clone, Copy, Debug)]
pub struct RunResults<'a> {
    pub plan: &'a Plan,
    /// The end of the run.
    pub at: Time,
    pub flow_results: &'a [FlowResult],
    /// The final counters of the links.
    pub links: &'a LinkLedger,
    /// Samples of flows that expectations name.
    pub flows: &'a FlowLedger,
    /// Samples of explicit rate control; empty without it.
    pub control: &'a [ControlSample],
    /// All statuses of the bundles.
    pub bundles: &'a BundleLedger,
    /// Queueing delays, in the order of [`LinkLedger`]; missing at the end: not measured.
    pub queue_delays: &'a [Histogram],
    /// The errors that the hosts may have caused; `None` on the virtual clock.
    pub effects: Option<&'a HostEffects>,
}

/// Adds links, bundles, flows and expectations to a record, and the exit code unless an error has
/// set it. The driver has already entered status, programs, lateness and verdict.
pub fn complete(record: &mut RunRecord, results: &RunResults<'_>) {
    record.elapsed_s = results.at.as_secs_f64();
    record.ended_unix_ms = Some(start::unix_ms());
    if record.clock == Clock::Virtual && record.verdict.is_none() {
        let reason = "the virtual clock does not depend on the machine".to_owned();
        record.verdict = Some(Verdict { trusted: true, machine_fit: true, reasons: vec![reason] });
    }
    record.links = link_summaries(results);
    record.bundles = results.bundles.summaries(results.plan, results.at);
    record.flows = results
        .flow_results
        .iter()
        .map(|result| flow_summary(results, result, record.clock))
        .collect();
    if should_have_traffic(results.plan) && !has_traffic(record) {
        verdict::distrust_without_packets(&mut record.verdict);
    }
    let (trust_expectations, others): (Vec<_>, Vec<_>) = (0..results.plan.expectations.len())
        .partition(|at| results.plan.expectations[*at].metric.measure == Measure::Trusted);
    let mut expectations = vec![None; results.plan.expectations.len()];
    let undecided = check_expectations(results, record, &others, &mut expectations);
    verdict::distrust(&mut record.verdict, undecided);
    // Undecided expectations are reasons against trust.
    check_expectations(results, record, &trust_expectations, &mut expectations);
    record.expectations = expectations.into_iter().flatten().collect();
    record.exit_code =
        record.exit_code.or_else(|| record.conclusion().map(|conclusion| conclusion.exit_code));
}

/// Enters the results of these expectations. Returns the reasons of undecided ones.
fn check_expectations(
    results: &RunResults<'_>,
    record: &RunRecord,
    positions: &[usize],
    entered: &mut [Option<ExpectationRecord>],
) -> Vec<String> {
    let measured = Measured {
        plan: results.plan,
        record,
        results: results.flow_results,
        flow_samples: &results.flows.samples,
        subflow_samples: &results.flows.subflows,
        link_samples: &results.links.samples,
        control: results.control,
        bundles: results.bundles,
        ended: results.at,
        effects: results.effects,
    };
    let mut reasons = Vec::new();
    for at in positions {
        let expectation = &results.plan.expectations[*at];
        let quantity = expectation.metric.measure.quantity();
        let (outcome, found) = match expectation.check(&|metric| measured.with_range(metric)) {
            expect::Outcome::Held(found) => (Outcome::Passed, Some(found)),
            expect::Outcome::Failed(found) => (Outcome::Failed, Some(found)),
            expect::Outcome::Undecided(found) => (Outcome::Undecided, Some(found)),
            expect::Outcome::NotMeasured => (Outcome::Unmeasured, None),
        };
        let text = expectation.text.clone();
        if let (Outcome::Undecided, Some(found)) = (outcome, found) {
            let [value, min, max] =
                [found.value, found.min, found.max].map(|value| quantity.text(value));
            reasons.push(format!(
                "undecided: expected {text}, measured {value}, between {min} and {max} without \
                 the delays of the machine"
            ));
        }
        let measured = found.map(|found| quantity.text(found.value));
        entered[*at] = Some(ExpectationRecord { text, outcome, measured });
    }
    reasons
}

/// Whether packets must cross the network: it has links, and flows or programs that may use them.
fn should_have_traffic(plan: &Plan) -> bool {
    let sources = plan.flows.len() + plan.programs.len() + plan.sessions.len();
    sources > 0 && !plan.links.is_empty()
}

fn has_traffic(record: &RunRecord) -> bool {
    record.links.iter().any(|link| link.packets() > 0)
        || record.flows.iter().any(|flow| flow.sent_bytes + flow.received_bytes > 0)
        || record.flows.iter().any(|flow| flow.transfers_completed.unwrap_or(0) > 0)
        || record.lateness.distribution.is_some()
        || record.control.as_ref().is_some_and(|control| control.joined > 0)
}

fn link_summaries(results: &RunResults<'_>) -> Vec<LinkSummary> {
    let plan = results.plan;
    let seconds = results.at.as_secs_f64().max(1e-9);
    let mut summaries = Vec::with_capacity(plan.links.len() * 2);
    for (at, stats) in results.links.last.iter().enumerate() {
        if !results.links.reported[at] {
            continue;
        }
        let (link, direction) = (LinkId::at(at / 2), Direction::BOTH[at % 2]);
        let config = &plan.links[link.index()];
        let name = |end: usize| plan.nodes[config.ends[end].index()].name.clone();
        let bits = stats.sent_bytes as f64 * 8.0;
        let capacity = capacity::bits(plan, link, direction, (Time::ZERO, results.at));
        let mut drops = BTreeMap::new();
        for reason in fabric::DropReason::ALL {
            let count = stats.drops[reason.index()];
            if count > 0 {
                drops.insert(DropReason::from(reason).as_str().to_owned(), count);
            }
        }
        summaries.push(LinkSummary {
            name: config.name.clone(),
            direction: direction.as_str().to_owned(),
            from: name(direction.index()),
            to: name(1 - direction.index()),
            sent_packets: stats.sent_packets,
            sent_bytes: stats.sent_bytes,
            throughput_bit_per_s: bits / seconds,
            utilisation: capacity.filter(|c| *c > 0.0).map(|capacity| bits / capacity),
            drops,
            marks: stats.marked,
            queue_max_bytes: results.links.queue_max_bytes[at],
            queue_delay: results.queue_delays.get(at).and_then(Histogram::distribution),
        });
    }
    summaries
}

fn flow_summary(results: &RunResults<'_>, result: &FlowResult, clock: Clock) -> FlowSummary {
    let plan = results.plan;
    let flow = &plan.flows[result.id.index()];
    let name = |node: NodeId| plan.nodes[node.index()].name.clone();
    let counts = result.datagrams;
    let transfers = result.transfers.as_ref();
    FlowSummary {
        name: result.name.clone(),
        from: name(flow.from),
        to: name(flow.to),
        kind: flow_kind(&flow.traffic, clock),
        started_s: result.started.map(Time::as_secs_f64),
        ended_s: result.ended.map(Time::as_secs_f64),
        completion_s: result.completion.map(Span::as_secs_f64),
        sent_bytes: result.sent_bytes,
        received_bytes: result.received_bytes,
        goodput_bit_per_s: result.mean_goodput(),
        retransmits: result.retransmits,
        timeouts: result.timeouts,
        sent_datagrams: counts.map(|c| c.sent),
        lost_datagrams: counts.map(|c| c.lost),
        reordered_datagrams: counts.map(|c| c.reordered),
        duplicate_datagrams: counts.map(|c| c.duplicates),
        responses: result.responses,
        transfers_started: transfers.map(|t| t.started),
        transfers_completed: transfers.map(|t| t.completed),
        completion: transfers.and_then(|t| t.completion.distribution()),
        slowdown: transfers.and_then(slowdown),
        gap_s: result.gap.map(Span::as_secs_f64),
        reinjected_bytes: result.reinjected,
        reorder_max_bytes: result.reorder,
        buffered_max_bytes: result.buffered,
        paths: result.paths.iter().map(|path| path_summary(plan, path)).collect(),
        rtt: result.rtt.distribution(),
        delay: result.delay.distribution(),
        latency: result.latency.distribution(),
        error: match &result.outcome {
            flow::Outcome::Failed(error) => Some(error.clone()),
            _ => None,
        },
        host_effect: results.effects.map(|effects| effects.effect_on_flow(plan, result)),
    }
}

fn path_summary(plan: &Plan, path: &PathResult) -> PathSummary {
    PathSummary {
        link: plan.links[path.path.index()].name.clone(),
        subflows: path.subflows,
        sent_bytes: path.sent_bytes,
        received_bytes: path.received_bytes,
        retransmits: path.retransmits,
    }
}

fn slowdown(transfers: &Transfers) -> Option<Slowdown> {
    let thousandths = transfers.slowdown.distribution()?;
    let times = |value: u64| value as f64 / 1e3;
    Some(Slowdown {
        mean: thousandths.mean_ns / 1e3,
        p50: times(thousandths.p50_ns),
        p90: times(thousandths.p90_ns),
        p99: times(thousandths.p99_ns),
        p999: times(thousandths.p999_ns),
        max: times(thousandths.max_ns),
    })
}

pub(crate) fn flow_kind(traffic: &Traffic, clock: Clock) -> String {
    let default = match clock {
        // The kernel's default.
        Clock::Wall => "default",
        Clock::Virtual => "cubic",
    };
    let control = |tcp: &lab::plan::Tcp| {
        let control = tcp.control.as_deref().unwrap_or(default);
        let protocol = tcp.multipath.as_ref().map(|multipath| multipath.kind.to_string());
        let protocol = protocol.as_deref().unwrap_or("TCP");
        let ecn = if tcp.ecn { ", ECN" } else { "" };
        format!("{protocol} {control}{ecn}")
    };
    match traffic {
        Traffic::Bulk { tcp, streams: 1, .. } => control(tcp),
        Traffic::Bulk { tcp, streams, .. } => format!("{} x {streams}", control(tcp)),
        Traffic::Transfers { tcp, .. } => format!("transfers, {}", control(tcp)),
        Traffic::Paced { rate, .. } => format!("UDP {rate}"),
        Traffic::Controlled { .. } => "UDP, rate-controlled".to_owned(),
        Traffic::Rpc { tcp, .. } if tcp.multipath.is_some() => format!("RPC, {}", control(tcp)),
        Traffic::Rpc { .. } => "RPC".to_owned(),
        Traffic::Requests { tcp, .. } => format!("requests, {}", control(tcp)),
        Traffic::Queries { .. } => "UDP requests".to_owned(),
    }
}
