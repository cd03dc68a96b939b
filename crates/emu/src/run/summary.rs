//! What only the wall clock has in a run's record: the engine, the programs.

use base::{ProgramId, Time};
use lab::plan::{Command, Plan, Program};
use record::run::{Engine, ProgramSummary, RejectedEngine};

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

/// What became of the programs.
pub(super) fn programs(plan: &Plan, supervisor: &Supervisor) -> Vec<ProgramSummary> {
    let summary = |(at, program): (usize, &Program)| {
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
