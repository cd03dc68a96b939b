//! Parts of a run's record that only the wall clock has: the engine and the programs.

use base::{ProgramId, Time};
use lab::plan::{Command, Plan, Program};
use run::record::{Engine, ProgramSummary, RejectedEngine};

use crate::doctor::Choice;
use crate::program::Supervisor;

/// The engine that moves packets, and the reason for the choice.
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

/// The outcome of the programs that run here.
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
