//! `sim`.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use lab::plan::Plan;
use record::{RunFolder, RunRecord};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

use crate::args::{Limits, Sim};
use crate::exit::Exit;
use crate::progress::Line;
use crate::terminal::Terminal;
use crate::{Failure, Verdict, files, repeat, results};

pub(crate) fn sim(args: &Sim, terminal: &Terminal) -> Verdict {
    let mut lab = files::load(&args.changes, terminal)?;
    lab.plans.iter_mut().for_each(|plan| args.limits.apply(plan));
    let stop = interruption()?;
    results::of_each(&lab, terminal, |plan| one(args, plan, &stop, terminal))
}

fn one(
    args: &Sim,
    plan: &Plan,
    stop: &AtomicBool,
    terminal: &Terminal,
) -> Result<RunRecord, Failure> {
    let repeat = repeat::command("sim", &args.changes, plan, &args.runs, &args.limits.words());
    let options = sim::run::Options { runs_dir: args.runs.clone(), repeat, alone: true };
    terminal.talk(format!("{}: seed {}, {} of virtual time", plan.name, plan.seed, plan.duration));
    let line = Line::new(terminal.progress() && !args.no_progress);
    let result = sim::run::run(plan, &options, &mut |progress| line.show_virtual(progress), stop);
    line.clear();
    let record = result.map_err(|error| failure(&error))?;
    let folder = RunFolder::open(&args.runs.join(format!("{}-{}", record.name, record.id)))
        .map_err(Failure::machine)?;
    results::show(&record, &folder, !args.no_report, terminal)?;
    Ok(record)
}

impl Limits {
    /// Puts the command line's limits in place of the lab's.
    pub(crate) fn apply(&self, plan: &mut Plan) {
        plan.limits.events = self.max_events.unwrap_or(plan.limits.events);
        plan.limits.memory = self.max_memory.unwrap_or(plan.limits.memory);
    }

    /// The options as they were given.
    pub(crate) fn words(&self) -> Vec<String> {
        let mut words = Vec::new();
        if let Some(events) = self.max_events {
            words.extend(["--max-events".to_owned(), events.to_string()]);
        }
        if let Some(memory) = self.max_memory {
            words.extend(["--max-memory".to_owned(), memory.to_string()]);
        }
        words
    }
}

/// Set by the first signal that asks to stop; the second ends the process at once.
pub(crate) fn interruption() -> Result<Arc<AtomicBool>, Failure> {
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        let code = i32::from(Exit::Interrupted.code());
        let insisted =
            signal_hook::flag::register_conditional_shutdown(signal, code, Arc::clone(&stop));
        insisted.map_err(|e| Failure::machine(format!("cannot take signals: {e}")))?;
        signal_hook::flag::register(signal, Arc::clone(&stop))
            .map_err(|e| Failure::machine(format!("cannot take signals: {e}")))?;
    }
    Ok(stop)
}

/// An error of the virtual clock as the command tells it.
pub(crate) fn failure(error: &sim::Error) -> Failure {
    Failure::caused(Exit::of_run(error.exit_code().into()), error)
}
