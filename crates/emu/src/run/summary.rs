//! What only the wall clock has in a run's record: the engine, lateness, the programs.

use base::{ProgramId, Span, Time};
use lab::plan::{Command, Plan, Program};
use outcome::FlowResult;
use outcome::verdict::{self, MachineSeen};
use record::RunRecord;
use record::run::{Engine, HostFaults, HostLoad, Lateness, ProgramSummary, RejectedEngine};

use crate::datapath::Report;
use crate::doctor::Choice;
use crate::program::Supervisor;

/// Which engine moves packets, and why that.
pub(super) fn engine(choice: &Choice) -> Engine {
    let rejected = choice.rejected.iter().map(|(engine, reason)| RejectedEngine {
        name: engine.as_str().to_owned(),
        reason: reason.clone(),
    });
    Engine {
        name: choice.engine.as_str().to_owned(),
        why: choice.why.clone(),
        rejected: rejected.collect(),
    }
}

/// What the machine did.
pub(super) struct Found<'a> {
    pub(super) plan: &'a Plan,
    pub(super) at: Time,
    pub(super) results: &'a [FlowResult],
    pub(super) supervisor: &'a Supervisor,
    pub(super) report: &'a Report,
    pub(super) host: HostFaults,
    pub(super) load: HostLoad,
    pub(super) tolerance: Span,
}

/// Enters it, and judges whether the run is to be trusted.
pub(super) fn enter(record: &mut RunRecord, found: Found<'_>) {
    let Found { report, tolerance, .. } = found;
    record.machine.realtime = report.realtime;
    record.lateness = Lateness {
        distribution: report.lateness.distribution(),
        tolerance_ns: tolerance.as_nanos(),
        histogram: report.lateness.clone(),
    };
    record.notice_delay = report.notices.distribution();
    record.host = found.host;
    let programs = programs(found.plan, found.supervisor);
    record.programs = programs.into_iter().map(|(_, summary)| summary).collect();
    if let Some(calls) = &report.calls
        && calls.lost == 0
    {
        record.trace_hash = Some(outcome::hash_text(report.trace_hash));
    }
    let unsent = found.results.iter().filter_map(|result| result.datagrams);
    let unsent = unsent.map(|counts| counts.skipped).sum();
    let machine = MachineSeen {
        name: "",
        lateness: &report.lateness,
        ingress: &report.ingress,
        cpu: report.cpu,
        rejected: report.rejected,
        memory_drops: report.memory_drops,
        faults: &record.host,
        load: &found.load,
        cpus: sys::sched::cpus(),
    };
    record.verdict = Some(verdict::judge(&verdict::Seen {
        machines: &[machine],
        cluster: None,
        unsent,
        elapsed: found.at.as_secs_f64(),
        tolerance,
    }));
    record.load = Some(found.load);
}

/// What became of the programs that are here.
pub(super) fn programs(plan: &Plan, supervisor: &Supervisor) -> Vec<(ProgramId, ProgramSummary)> {
    let summary = |(at, program): (usize, &Program)| {
        let id = ProgramId::at(at);
        if !supervisor.is_here(id) {
            return None;
        }
        let outcome = supervisor.outcome(id);
        let summary = ProgramSummary {
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
            discarded_output_bytes: supervisor.discarded_output(id),
        };
        Some((id, summary))
    };
    plan.programs.iter().enumerate().filter_map(summary).collect()
}
