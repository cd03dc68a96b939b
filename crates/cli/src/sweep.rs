//! `sweep`.

use std::num::NonZeroUsize;
use std::path::Path;

use base::Span;
use lab::plan::Plan;
use record::RunRecord;
use serde_json::{Value, json};
use sim::sweep::Swept;

use crate::args::{Changes, Sweep};
use crate::exit::Exit;
use crate::progress::Line;
use crate::simulate::interruption;
use crate::terminal::{Style, Terminal};
use crate::{Failure, Verdict, files, repeat};

/// By how much later flows of replications start at most, where the lab does not say it.
const START_JITTER: Span = Span::from_millis(100);

pub(crate) fn sweep(args: &Sweep, terminal: &Terminal) -> Verdict {
    let (changes, mut plans) = replications(args, terminal)?;
    for plan in &mut plans {
        args.limits.apply(plan);
    }
    let Some(first) = plans.first() else { return Ok(Exit::Ok) };
    if let Some(program) = first.programs.first() {
        let program = program.name.clone();
        return Err(crate::simulate::failure(&sim::Error::Programs { program }));
    }
    let out = args.out.clone().unwrap_or_else(|| Path::new("sweeps").join(&first.name));
    let cores = std::thread::available_parallelism().unwrap_or(NonZeroUsize::MIN);
    let jobs = args.jobs.unwrap_or(cores);
    let stop = interruption()?;
    terminal.talk(format!(
        "{}: {} from seed {}, {jobs} at a time, into {}",
        first.name,
        runs(plans.len()),
        first.seed,
        out.display()
    ));
    let line = Line::new(terminal.progress() && !args.no_progress);
    let again = |plan: &Plan| repeat::command("sim", &changes, plan, &out, &args.limits.words());
    let mut show = |progress: &sim::sweep::Progress| line.show_sweep(progress);
    let result = sim::sweep::sweep(&plans, &out, jobs, &again, &mut show, &stop);
    line.clear();
    let command = resume(args);
    let swept = result.map_err(|error| {
        let failure = crate::simulate::failure(&error);
        match error {
            sim::Error::Record(_) | sim::Error::Io { .. } => failure.help(format!(
                "runs that are over are kept; afterwards the same command goes on: {command}"
            )),
            sim::Error::Busy { .. } => failure.help("`--out DIR` names another one"),
            _ => failure,
        }
    })?;
    tell(&swept, &out, terminal)?;
    if swept.interrupted {
        terminal.talk(format!(
            "interrupted: {} of {} runs are kept; the same command goes on: {}",
            swept.records.len(),
            swept.total,
            terminal.paint_talk(Style::Strong, &command)
        ));
        return Ok(Exit::Interrupted);
    }
    terminal.talk(format!("repeat: {}", terminal.paint_talk(Style::Strong, &command)));
    let exits = swept.records.iter().map(|record| record.exit_code);
    let worst = exits.map(|code| code.map_or(Exit::Bug, |code| Exit::of_run(code.into()))).max();
    let refused = (!swept.refused.is_empty()).then_some(Exit::Usage);
    Ok(worst.max(refused).unwrap_or(Exit::Ok))
}

/// The plans of all replications, and the changes to the lab file that give each of them with its
/// seed. Replications start their flows at random unless the lab says otherwise.
fn replications(args: &Sweep, terminal: &Terminal) -> Result<(Changes, Vec<Plan>), Failure> {
    let mut changes = args.changes.clone();
    let first = files::load(&changes, terminal)?.plans;
    if args.repeat.get() == 1 {
        return Ok((changes, first));
    }
    if first.iter().all(|plan| plan.start_jitter.is_none()) {
        let shortest = first.iter().map(|plan| plan.duration.as_nanos() / 100).min();
        let jitter = START_JITTER.min(Span::from_nanos(shortest.unwrap_or(0)));
        changes.edits.set.push(("lab.start_jitter".to_owned(), jitter.to_string()));
        if !first.iter().all(|plan| plan.flows.is_empty()) {
            terminal.talk(format!(
                "flows of replications start up to {jitter} later, at random; \
                 `--set lab.start_jitter='0 s'` switches this off"
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

/// Warns of replications that show no variance because they are the same run.
fn warn_of_identical(records: &[RunRecord], terminal: &Terminal) {
    let (identical, replicated) = sim::sweep::identical_replications(records);
    if identical > 0 {
        terminal.error(format!(
            "warning: with {identical} of {replicated} combinations all seeds gave the same run \
             (equal trace hashes), because nothing in it is random; its replications show no \
             variance. Make something random, for example `start = {{ jitter = \"100 ms\" }}` on \
             flows or `start_jitter` in `[lab]`"
        ));
    }
}

fn runs(count: usize) -> String {
    format!("{count} run{}", if count == 1 { "" } else { "s" })
}

fn tell(swept: &Swept, out: &Path, terminal: &Terminal) -> Result<(), Failure> {
    for (values, error) in &swept.refused {
        let values: Vec<String> =
            values.iter().map(|(field, value)| format!("{field} = {value}")).collect();
        terminal.error(format!("not run: {}: {error}", values.join(", ")));
    }
    if swept.resumed > 0 {
        let were = if swept.resumed == 1 { "was" } else { "were" };
        terminal.talk(format!("{} {were} there from before", runs(swept.resumed)));
    }
    warn_of_identical(&swept.records, terminal);
    if !terminal.json {
        if !swept.records.is_empty() {
            terminal.data(report::sweep_table(&swept.records))?;
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

/// The command that goes on with a sweep, or repeats it into another folder.
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
