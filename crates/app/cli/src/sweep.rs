//! The subcommand `sweep`.

use std::num::NonZeroUsize;
use std::path::Path;
use std::sync::atomic::AtomicBool;

use base::Span;
use lab::plan::Plan;
use run::RunRecord;
use serde_json::{Value, json};
use sim::sweep::Swept;

use crate::args::{Changes, Sweep};
use crate::progress::Line;
use crate::terminal::{Style, Terminal};
use crate::{Failure, Verdict, files, interrupts, repeat};
use run::Exit;

/// Maximum random start delay of flows of replications, if the lab does not set it.
const MAX_START_JITTER: Span = Span::from_millis(100);

pub(crate) fn sweep(args: &Sweep, terminal: &Terminal) -> Verdict {
    let (changes, mut plans) = replications(args, terminal)?;
    for plan in &mut plans {
        args.limits.apply(plan);
    }
    let Some(first) = plans.first() else { return Ok(Exit::Ok) };
    reject_programs(first)?;
    let out = args.out.clone().unwrap_or_else(|| Path::new("sweeps").join(&first.name));
    let jobs = args.jobs.unwrap_or_else(cores);
    let stop = interrupts::flag()?;
    terminal.note(format!(
        "{}: {} from seed {}, {jobs} in parallel, results in {}",
        first.name,
        runs(plans.len()),
        first.seed,
        out.display()
    ));
    let line = Line::new(terminal.progress() && !args.no_progress);
    let repeat =
        |plan: &Plan| crate::repeat::command("sim", &changes, plan, &out, &args.limits.words());
    let command = resume(args);
    let swept = run_all(&plans, &out, jobs, &repeat, &line, &stop).map_err(|error| {
        let failure = crate::simulate::failure(&error);
        match error {
            sim::Error::Record(_) | sim::Error::Io { .. } => failure.help(format!(
                "finished runs are kept; to continue, fix the cause and run: {command}"
            )),
            sim::Error::Busy { .. } => failure.help("use --out DIR for another folder"),
            _ => failure,
        }
    })?;
    print_results(&swept, &out, terminal)?;
    if swept.interrupted {
        terminal.note(format!(
            "interrupted: {} of {} runs are kept; to continue: {}",
            swept.records.len(),
            swept.total,
            terminal.paint_note(Style::Strong, &command)
        ));
        return Ok(Exit::Interrupted);
    }
    terminal.note(format!("repeat: {}", terminal.paint_note(Style::Strong, &command)));
    let exits = swept.records.iter().map(|record| record.exit_code);
    let worst = exits.map(|exit| exit.unwrap_or(Exit::Internal)).max();
    let refused = (!swept.refused.is_empty()).then_some(Exit::Usage);
    Ok(worst.max(refused).unwrap_or(Exit::Ok))
}

/// Rejects a lab with programs, which need the wall clock.
pub(crate) fn reject_programs(plan: &Plan) -> Result<(), Failure> {
    let Some(program) = plan.programs.first() else { return Ok(()) };
    let program = program.name.clone();
    Err(crate::simulate::failure(&sim::Error::Programs { program }))
}

/// The default number of parallel runs.
pub(crate) fn cores() -> NonZeroUsize {
    std::thread::available_parallelism().unwrap_or(NonZeroUsize::MIN)
}

/// Runs all plans, `jobs` at a time, with progress on `line`.
pub(crate) fn run_all(
    plans: &[Plan],
    out: &Path,
    jobs: NonZeroUsize,
    repeat: &(dyn Fn(&Plan) -> String + Sync),
    line: &Line,
    stop: &AtomicBool,
) -> Result<Swept, sim::Error> {
    let mut show = |progress: &sim::sweep::Progress| line.show_sweep(progress);
    let result = sim::sweep::sweep(plans, out, jobs, repeat, &mut show, stop);
    line.clear();
    result
}

/// The plans of all replications, and the changes of the lab file that produce them. Flows of
/// replications start with random delays unless the lab sets `start_jitter`.
fn replications(args: &Sweep, terminal: &Terminal) -> Result<(Changes, Vec<Plan>), Failure> {
    let mut changes = args.changes.clone();
    let first = files::load(&changes, terminal)?.plans;
    if args.repeat.get() == 1 {
        return Ok((changes, first));
    }
    if first.iter().all(|plan| plan.start_jitter.is_none()) {
        let shortest = first.iter().map(|plan| plan.duration.as_nanos() / 100).min();
        let jitter = MAX_START_JITTER.min(Span::from_nanos(shortest.unwrap_or(0)));
        changes.edits.set.push(("lab.start_jitter".to_owned(), jitter.to_string()));
        if !first.iter().all(|plan| plan.flows.is_empty()) {
            terminal.note(format!(
                "flows of replications start up to {jitter} later at random; \
                 `--set lab.start_jitter='0 s'` prevents it"
            ));
        }
    }
    let load = |offset| {
        let lab = files::load_replication(&changes, u64::from(offset), terminal);
        lab.map(|lab| lab.plans)
    };
    let replications = (0..args.repeat.get()).map(load).collect::<Result<Vec<_>, _>>()?;
    Ok((changes, sim::sweep::replicated(replications)))
}

/// Warns of replications without variance because nothing in them is random.
pub(crate) fn warn_of_identical(records: &[RunRecord], terminal: &Terminal) {
    let (identical, replicated) = sim::sweep::identical_replications(records);
    if identical > 0 {
        terminal.error(format!(
            "warning: in {identical} of {replicated} combinations all seeds gave the same run \
             (equal trace hashes), because nothing in it is random: replications have no \
             variance. Make something random, for example `start = {{ jitter = \"100 ms\" }}` on \
             flows or `start_jitter` in `[lab]`"
        ));
    }
}

fn runs(count: usize) -> String {
    format!("{count} run{}", if count == 1 { "" } else { "s" })
}

fn print_results(swept: &Swept, out: &Path, terminal: &Terminal) -> Result<(), Failure> {
    for (values, error) in &swept.refused {
        let values: Vec<String> =
            values.iter().map(|(field, value)| format!("{field} = {value}")).collect();
        terminal.error(format!("not run: {}: {error}", values.join(", ")));
    }
    if swept.resumed > 0 {
        let were = if swept.resumed == 1 { "was" } else { "were" };
        terminal.note(format!("{} {were} already finished", runs(swept.resumed)));
    }
    warn_of_identical(&swept.records, terminal);
    if !terminal.json {
        if !swept.records.is_empty() {
            terminal.data(terminal.rendered(|to| report::sweep_table(&swept.records, to)))?;
        }
        return Ok(());
    }
    let runs: Vec<Value> = swept
        .records
        .iter()
        .map(|record| {
            json!({
                "folder": out.join(format!("{}-{}", record.name, record.id)),
                "seed": record.seed,
                "sweep": record.sweep,
                "outcome": record.conclusion().map(|conclusion| conclusion.outcome),
                "exit_code": record.exit_code,
                "status": record.status,
                "trace_hash": record.trace_hash,
                "flows": record.flows,
                "links": record.links,
                "expectations": record.expectations,
            })
        })
        .collect();
    terminal.object(&json!({
        "schema": "netarium.sweep/1",
        "folder": out,
        "total": swept.total,
        "resumed": swept.resumed,
        "interrupted": swept.interrupted,
        "identical_replications": sim::sweep::identical_replications(&swept.records).0,
        "refused": swept.refused.iter().map(|(values, error)| json!({
            "sweep": values, "error": error.to_string(),
        })).collect::<Vec<_>>(),
        "runs": runs,
    }))?;
    Ok(())
}

/// The command that continues a sweep, or repeats it in another folder.
fn resume(args: &Sweep) -> String {
    let mut words = vec!["netarium".to_owned(), "sweep".to_owned()];
    words.push(repeat::quote_path(&args.changes.lab));
    words.extend(repeat::changes(&args.changes.edits));
    if let Some(out) = &args.out {
        words.extend(["--out".to_owned(), repeat::quote_path(out)]);
    }
    if args.repeat.get() > 1 {
        words.extend(["--repeat".to_owned(), args.repeat.to_string()]);
    }
    words.extend(args.limits.words());
    words.join(" ")
}
