//! `sim`.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::SeqCst;

use lab::plan::Plan;
use run::{Exit, RunRecord};
use sim::live::Live;

use crate::args::{Limits, Sim};
use crate::metrics::SimulationMetrics;
use crate::progress::Line;
use crate::results::Output;
use crate::set::Set;
use crate::terminal::Terminal;
use crate::watch::{SimulationView, reject_sweep};
use crate::{Failure, Verdict, files, interrupts, repeat, results, set, sweep};

pub(crate) fn sim(args: &Sim, terminal: &Terminal) -> Verdict {
    if args.seeds.get() > 1 {
        return run_seeds(args, terminal);
    }
    let mut lab = files::load(&args.changes, terminal)?;
    lab.plans.iter_mut().for_each(|plan| args.limits.apply(plan));
    let stop = interrupts::flag()?;
    let output = Output { runs: &args.runs, wants_report: !args.no_report, set: None };
    if args.watch {
        return run_with_view(args, &lab.plans, &output, &stop, terminal);
    }
    if let Some(address) = args.metrics {
        return run_with_metrics(args, &lab.plans, address, &output, &stop, terminal);
    }
    results::of_each(&lab.plans, &output, terminal, |plan| {
        run_plan(args, plan, None, &mut || {}, &stop, terminal)
    })
}

fn run_with_metrics(
    args: &Sim,
    plans: &[Plan],
    address: SocketAddr,
    output: &Output<'_>,
    stop: &AtomicBool,
    terminal: &Terminal,
) -> Verdict {
    reject_sweep("--metrics", plans.len())?;
    results::of_each(plans, output, terminal, |plan| {
        let mut metrics = SimulationMetrics::new(plan, address, terminal)?;
        let live = Some(metrics.live());
        let record = run_plan(args, plan, live, &mut || metrics.update(), stop, terminal);
        metrics.end(record.as_ref().ok());
        record
    })
}

fn run_with_view(
    args: &Sim,
    plans: &[Plan],
    output: &Output<'_>,
    stop: &AtomicBool,
    terminal: &Terminal,
) -> Verdict {
    reject_sweep("--watch", plans.len())?;
    let mut view = None;
    let verdict = results::of_each(plans, output, terminal, |plan| {
        let view = view.insert(SimulationView::new(plan, terminal)?);
        let live = Some(view.live());
        let record = run_plan(args, plan, live, &mut || view.update(), stop, terminal);
        view.end(record.as_ref().ok());
        record
    });
    match view {
        Some(view) if !stop.load(SeqCst) => {
            view.finish(stop);
            verdict
        }
        _ => verdict,
    }
}

/// Runs a lab with several seeds, as a set.
fn run_seeds(args: &Sim, terminal: &Terminal) -> Verdict {
    let load = |offset| {
        let lab = files::load_replication(&args.changes, u64::from(offset), terminal)?;
        let mut plan = set::only_plan(&lab, "--seeds")?.clone();
        args.limits.apply(&mut plan);
        Ok(plan)
    };
    let plans = (0..args.seeds.get()).map(load).collect::<Result<Vec<Plan>, Failure>>()?;
    let Some(first) = plans.first() else { return Ok(Exit::Ok) };
    sweep::reject_programs(first)?;
    let command = |plan: &Plan, words: &[String]| {
        let words = [args.limits.words(), words.to_vec()].concat();
        repeat::command("sim", &args.changes, plan, &args.runs, &words)
    };
    let all = command(first, &["--seeds".to_owned(), args.seeds.to_string()]);
    let set = Set::create(&args.runs, first, all)?;
    let jobs = args.jobs.unwrap_or_else(sweep::cores);
    let seeds = format!("{} seeds from {}", plans.len(), first.seed);
    terminal.note(format!("{}: {seeds}, {jobs} in parallel", first.name));
    let stop = interrupts::flag()?;
    let line = Line::new(terminal.progress() && !args.no_progress);
    let repeat = |plan: &Plan| command(plan, &[]);
    let swept = sweep::run_all(&plans, &set.folder, jobs, &repeat, &line, &stop);
    let swept = swept.map_err(|error| failure(&error))?;
    for record in &swept.records {
        let folder = results::folder_of(&set.folder, record)?;
        results::show_in_set(record, &folder, !args.no_report, terminal);
    }
    sweep::warn_of_identical(&swept.records, terminal);
    let exit = set.finish(&swept.records, terminal)?;
    if swept.interrupted {
        terminal.note(format!(
            "interrupted: the set has {} of {} runs",
            swept.records.len(),
            swept.total
        ));
        return Ok(Exit::Interrupted);
    }
    match swept.refused.first() {
        Some((_, error)) => Err(failure(error)),
        None => Ok(exit),
    }
}

fn run_plan(
    args: &Sim,
    plan: &Plan,
    live: Option<Arc<Live>>,
    update: &mut dyn FnMut(),
    stop: &AtomicBool,
    terminal: &Terminal,
) -> Result<RunRecord, Failure> {
    let repeat = repeat::command("sim", &args.changes, plan, &args.runs, &args.limits.words());
    let options = sim::run::Options { runs_dir: args.runs.clone(), repeat, alone: true, live };
    terminal.note(format!("{}: seed {}, {} of virtual time", plan.name, plan.seed, plan.duration));
    let line = Line::new(terminal.progress() && !args.no_progress);
    let mut show = |progress: &sim::run::Progress| {
        update();
        line.show_virtual(progress);
    };
    let result = sim::run::run(plan, &options, &mut show, stop);
    line.clear();
    result.map_err(|error| failure(&error))
}

impl Limits {
    /// Overrides the lab's limits by those of the command line.
    pub(crate) fn apply(&self, plan: &mut Plan) {
        plan.limits.events = self.max_events.unwrap_or(plan.limits.events);
        plan.limits.memory = self.max_memory.unwrap_or(plan.limits.memory);
    }

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

/// The failure for an error of the virtual clock.
pub(crate) fn failure(error: &sim::Error) -> Failure {
    Failure::caused(error.exit_code(), error)
}
