//! The record of a run: begun by the command, completed by the lab's process.

use std::collections::BTreeMap;
use std::fmt::Display;

use base::{Direction, LinkId, ProgramId, Span, Time};
use fabric::LinkStats;
use lab::expect::{Outcome, Subject};
use lab::plan::{Command, Plan, Traffic};
use record::run::{
    EventRecord, ExpectationRecord, FlowSummary, HostFaults, Lateness, LinkSummary, Machine,
    ProgramSummary, RejectedEngine, RunRecord, SCHEMA, Status, SweepValue,
};
use record::{DropReason, FlowSample, Histogram, LinkSample, RecorderHandle, RunFolder};

use super::measure::Measured;
use super::{Options, capacity, picture, verdict};
use crate::datapath::{Batch, Report};
use crate::doctor::Choice;
use crate::flow;
use crate::program::Supervisor;
use crate::{Error, flow::FlowResult};

/// What came up on the way.
#[derive(Debug, Default)]
pub(super) struct Findings {
    pub(super) events: Vec<EventRecord>,
    pub(super) warnings: Vec<String>,
    flow_samples: Vec<FlowSample>,
}

impl Findings {
    /// Adds warnings.
    pub(super) fn warn_all(&mut self, notices: &[impl Display]) {
        self.warnings.extend(notices.iter().map(ToString::to_string));
    }

    /// Keeps the samples of flows that an expectation names.
    pub(super) fn keep(&mut self, plan: &Plan, samples: impl Iterator<Item = FlowSample>) {
        let named = |sample: &FlowSample| {
            plan.expectations.iter().any(|e| e.metric.subject == Subject::Flow(sample.flow))
        };
        self.flow_samples.extend(samples.filter(named));
    }
}

/// Turns counters into samples, and keeps what the summary needs.
pub(super) struct LinkLedger {
    recorder: RecorderHandle,
    at: Time,
    last: Vec<LinkStats>,
    queue_max_bytes: Vec<u64>,
    /// Positions whose samples are kept, because an expectation names them.
    named: Vec<bool>,
    kept: Vec<LinkSample>,
}

impl LinkLedger {
    pub(super) fn new(plan: &Plan, recorder: RecorderHandle) -> Self {
        let positions = plan.links.len() * 2;
        let mut named = vec![false; positions];
        for expectation in &plan.expectations {
            if let Subject::Link(link, direction) = expectation.metric.subject {
                named[link.index() * 2 + direction.index()] = true;
            }
        }
        Self {
            recorder,
            at: Time::ZERO,
            last: vec![LinkStats::default(); positions],
            queue_max_bytes: vec![0; positions],
            named,
            kept: Vec::new(),
        }
    }

    /// Enters one batch of counters.
    pub(super) fn enter(&mut self, batch: Batch) {
        let interval = batch.at.since(self.at);
        for (at, (stats, level)) in batch.links.into_iter().enumerate() {
            self.queue_max_bytes[at] = self.queue_max_bytes[at].max(level.peak_bytes);
            let last = &self.last[at];
            let idle = stats == *last && level.peak_packets == 0;
            if interval.is_positive() && !idle {
                let direction = Direction::BOTH[at % 2];
                let mut sample =
                    LinkSample::empty(batch.at, interval, LinkId::at(at / 2), direction);
                sample.sent_packets = stats.sent_packets - last.sent_packets;
                sample.sent_bytes = stats.sent_bytes - last.sent_bytes;
                sample.queue_packets = level.packets;
                sample.queue_bytes = level.bytes;
                sample.queue_max_bytes = level.peak_bytes;
                sample.queue_delay_max = (sample.sent_packets > 0).then_some(level.peak_delay);
                for reason in fabric::DropReason::ALL {
                    sample.drops[DropReason::from(reason).index()] =
                        stats.drops[reason.index()] - last.drops[reason.index()];
                }
                sample.marks = stats.marked - last.marked;
                if self.named[at] {
                    self.kept.push(sample.clone());
                }
                self.recorder.link(sample);
            }
            self.last[at] = stats;
        }
        self.at = batch.at;
    }
}

/// The record as it stands when a run begins.
pub(super) fn begin(
    plan: &Plan,
    options: &Options,
    folder: &RunFolder,
    choice: &Choice,
) -> RunRecord {
    RunRecord {
        schema: SCHEMA.to_owned(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        name: plan.name.clone(),
        id: folder.id().to_owned(),
        seed: plan.seed,
        status: Status::Running,
        started_unix_ms: sys::clock::realtime() / 1_000_000,
        planned_s: plan.duration.as_secs_f64(),
        interval_s: plan.interval.as_secs_f64(),
        repeat: options.repeat.clone(),
        plan_hash: format!("{:016x}", fnv(lab::resolved(plan).as_bytes())),
        sweep: plan
            .sweep
            .iter()
            .map(|(parameter, value)| SweepValue {
                parameter: parameter.clone(),
                value: value.clone(),
            })
            .collect(),
        machine: machine(),
        engine: record::run::Engine {
            name: choice.engine.as_str().to_owned(),
            why: choice.why.clone(),
            rejected: choice
                .rejected
                .iter()
                .map(|(engine, reason)| RejectedEngine {
                    name: engine.as_str().to_owned(),
                    reason: reason.clone(),
                })
                .collect(),
        },
        topology: picture::topology(plan),
        ..RunRecord::default()
    }
}

fn fnv(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

fn machine() -> Machine {
    let uname = rustix::system::uname();
    let cpuinfo = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = cpuinfo.lines().find_map(|line| line.strip_prefix("model name"));
    let memory = rustix::system::sysinfo();
    Machine {
        kernel: format!(
            "{} {}",
            uname.sysname().to_string_lossy(),
            uname.release().to_string_lossy()
        ),
        cpu: model.map_or("", |rest| rest.trim_start_matches([' ', '\t', ':'])).to_owned(),
        cores: sys::sched::cpus() as u32,
        memory_bytes: memory.totalram as u64 * u64::from(memory.mem_unit),
        realtime: false,
    }
}

/// All that a record is completed from.
pub(super) struct Ended<'a> {
    pub(super) plan: &'a Plan,
    pub(super) at: Time,
    pub(super) results: &'a [FlowResult],
    pub(super) supervisor: &'a Supervisor,
    pub(super) ledger: &'a LinkLedger,
    pub(super) findings: Findings,
    pub(super) report: &'a Report,
    pub(super) host: HostFaults,
    pub(super) tolerance: Span,
    pub(super) failure: Option<Error>,
}

/// Completes the record: summaries, verdict, expectations, exit code.
pub(super) fn complete(record: &mut RunRecord, ended: Ended<'_>) {
    let Ended { plan, report, .. } = ended;
    record.lateness = Lateness {
        distribution: report.lateness.distribution(),
        tolerance_ns: ended.tolerance.as_nanos(),
        histogram: report.lateness.clone(),
    };
    record.links = links(&ended);
    record.flows = ended.results.iter().map(|result| flow_summary(plan, result)).collect();
    record.programs = programs(plan, ended.supervisor);
    record.host = ended.host;
    let elapsed = ended.at.as_secs_f64();
    let unsent = ended.results.iter().filter_map(|result| result.datagrams);
    let unsent = unsent.map(|counts| counts.skipped).sum();
    record.verdict = Some(verdict::judge(report, &record.host, unsent, ended.tolerance, elapsed));
    let failed = ended.failure.as_ref();
    record.exit_code = failed.map(Error::exit_code);
    record.events = ended.findings.events;
    record.warnings = ended.findings.warnings;
    record.warnings.extend(failed.map(ToString::to_string));
    let measured = Measured {
        plan,
        record,
        results: ended.results,
        flow_samples: &ended.findings.flow_samples,
        link_samples: &ended.ledger.kept,
        ended: ended.at,
    };
    let expectations: Vec<ExpectationRecord> = plan
        .expectations
        .iter()
        .map(|expectation| {
            let quantity = expectation.metric.measure.quantity();
            let (outcome, value) = match expectation.check(&|metric| measured.value(metric)) {
                Outcome::Held { measured } => (record::run::Outcome::Passed, Some(measured)),
                Outcome::Failed { measured } => (record::run::Outcome::Failed, Some(measured)),
                Outcome::NotMeasured => (record::run::Outcome::Unmeasured, None),
            };
            let text = expectation.text.clone();
            ExpectationRecord { text, outcome, measured: value.map(|value| quantity.text(value)) }
        })
        .collect();
    record.expectations = expectations;
    record.exit_code = record.exit_code.or(Some(exit_code(record)));
}

/// The exit code of a run that came to an end, the gravest reason first.
fn exit_code(record: &RunRecord) -> u8 {
    let program_failed = record.programs.iter().any(|program| !program.as_expected);
    let missed = |e: &ExpectationRecord| e.outcome != record::run::Outcome::Passed;
    if record.status == Status::Interrupted {
        130
    } else if program_failed {
        5
    } else if record.expectations.iter().any(missed) {
        1
    } else if record.verdict.as_ref().is_some_and(|verdict| !verdict.trusted) {
        3
    } else {
        0
    }
}

fn links(ended: &Ended<'_>) -> Vec<LinkSummary> {
    let plan = ended.plan;
    let seconds = ended.at.as_secs_f64().max(1e-9);
    let mut summaries = Vec::with_capacity(plan.links.len() * 2);
    for (at, stats) in ended.ledger.last.iter().enumerate() {
        let (link, direction) = (LinkId::at(at / 2), Direction::BOTH[at % 2]);
        let config = &plan.links[link.index()];
        let name = |end: usize| plan.nodes[config.ends[end].index()].name.clone();
        let bits = stats.sent_bytes as f64 * 8.0;
        let capacity = capacity::bits(plan, link, direction, (Time::ZERO, ended.at));
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
            queue_max_bytes: ended.ledger.queue_max_bytes[at],
            queue_delay: ended.report.queue_delays.get(at).and_then(Histogram::distribution),
        });
    }
    summaries
}

fn flow_summary(plan: &Plan, result: &FlowResult) -> FlowSummary {
    let flow = &plan.flows[result.id.index()];
    let name = |node: base::NodeId| plan.nodes[node.index()].name.clone();
    let counts = result.datagrams;
    FlowSummary {
        name: result.name.clone(),
        from: name(flow.from),
        to: name(flow.to),
        kind: kind(&flow.traffic),
        started_s: result.started.map(Time::as_secs_f64),
        ended_s: result.ended.map(Time::as_secs_f64),
        completion_s: result.completion.map(Span::as_secs_f64),
        sent_bytes: result.sent_bytes,
        received_bytes: result.received_bytes,
        goodput_bit_per_s: result.mean_goodput(),
        retransmits: result.retransmits,
        sent_datagrams: counts.map(|c| c.sent),
        lost_datagrams: counts.map(|c| c.lost),
        reordered_datagrams: counts.map(|c| c.reordered),
        duplicate_datagrams: counts.map(|c| c.duplicates),
        responses: result.responses,
        rtt: result.rtt.distribution(),
        delay: result.delay.distribution(),
        latency: result.latency.distribution(),
        error: match &result.outcome {
            flow::Outcome::Failed(error) => Some(error.to_string()),
            _ => None,
        },
    }
}

fn kind(traffic: &Traffic) -> String {
    match traffic {
        Traffic::Bulk { tcp, streams, .. } => {
            let control = tcp.control.as_deref().unwrap_or("default");
            match streams {
                1 => format!("TCP {control}"),
                streams => format!("TCP {control} x {streams}"),
            }
        }
        Traffic::Paced { rate, .. } => format!("UDP {rate}"),
        Traffic::Transfers { .. } => "TCP transfers".to_owned(),
        Traffic::Rpc { .. } => "RPC".to_owned(),
    }
}

fn programs(plan: &Plan, supervisor: &Supervisor) -> Vec<ProgramSummary> {
    let summary = |(at, program): (usize, &lab::plan::Program)| {
        let id = ProgramId::at(at);
        let outcome = supervisor.outcome(id);
        ProgramSummary {
            name: program.name.clone(),
            node: plan.nodes[program.node.index()].name.clone(),
            command: match &program.command {
                Command::Shell(line) => line.clone(),
                Command::Exec(words) => words.join(" "),
            },
            started_s: outcome.started.map(Time::as_secs_f64),
            ready_s: outcome.ready.map(Time::as_secs_f64),
            ended_s: outcome.ended.map(Time::as_secs_f64),
            end: outcome.end,
            as_expected: outcome.as_expected,
            restarts: outcome.restarts,
            last_stderr: supervisor.last_stderr(id),
        }
    };
    plan.programs.iter().enumerate().map(summary).collect()
}
