//! `run`.

use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use emu::run::Starter;
use lab::plan::Plan;
use record::{RunFolder, RunRecord};

use crate::args::{Changes, Engine, Run};
use crate::exit::Exit;
use crate::progress::Line;
use crate::terminal::Terminal;
use crate::{Failure, Verdict, files, jobs, labs, repeat, results};

pub(crate) fn run(args: &Run, terminal: &Terminal) -> Verdict {
    labs::swept(terminal)?;
    match &*args.labs {
        [file] if args.copies.get() == 1 => {
            single(args, &Changes { lab: file.clone(), edits: args.edits.clone() }, terminal)
        }
        _ => jobs::run(args, terminal),
    }
}

/// Runs one lab; all combinations one after the other where it is swept.
fn single(args: &Run, changes: &Changes, terminal: &Terminal) -> Verdict {
    let lab = files::load(changes, terminal)?;
    let lab_dir =
        std::path::absolute(&changes.lab)?.parent().map_or(PathBuf::from("/"), Path::to_owned);
    let starter = args.await_start.then(starter).transpose()?;
    let mut worst = Exit::Ok;
    let mut records = Vec::new();
    for (number, plan) in lab.plans.iter().enumerate() {
        if lab.plans.len() > 1 {
            let values: Vec<String> =
                plan.sweep.iter().map(|(field, value)| format!("{field} = {value}")).collect();
            let count = lab.plans.len();
            terminal.talk(format!("run {} of {count}: {}", number + 1, values.join(", ")));
        }
        let options = emu::run::Options {
            runs_dir: args.runs.clone(),
            lab_dir: lab_dir.clone(),
            repeat: repeat::command("run", changes, plan, &args.runs, &words(args)),
            engine: args.engine.map(|engine| match engine {
                Engine::Tun => emu::enclosure::Engine::Tun,
                Engine::Packet => emu::enclosure::Engine::Packet,
            }),
            stay: args.stay,
            starter: starter.clone(),
        };
        let record = one(args, plan, &options, terminal)?;
        let exit = record.exit_code.map_or(Exit::Bug, |code| Exit::of_run(code.into()));
        worst = worst.max(exit);
        records.push(record);
        if exit == Exit::Interrupted {
            break;
        }
    }
    if records.len() > 1 && !terminal.json {
        terminal.data(report::sweep_table(&records))?;
    }
    Ok(worst)
}

/// Standard input, as the command that runs several labs has made it.
fn starter() -> Result<Arc<Starter>, Failure> {
    let socket = std::io::stdin().as_fd().try_clone_to_owned()?;
    Ok(Arc::new(Starter::new(UnixStream::from(socket))))
}

fn one(
    args: &Run,
    plan: &Plan,
    options: &emu::run::Options,
    terminal: &Terminal,
) -> Result<RunRecord, Failure> {
    terminal.talk(format!("{}: seed {}, {} at most", plan.name, plan.seed, plan.duration));
    let line = Line::new(terminal.progress() && !args.no_progress);
    let result = emu::run::run(plan, options, &mut |progress| line.show(&progress));
    line.clear();
    let record = result.map_err(|e| failure(&e))?;
    let folder = RunFolder::open(&args.runs.join(format!("{}-{}", record.name, record.id)))
        .map_err(Failure::machine)?;
    results::show(&record, &folder, !args.no_report, terminal)?;
    Ok(record)
}

/// Options that matter for repeating a run, and that only `run` has.
pub(crate) fn words(args: &Run) -> Vec<String> {
    let mut words = Vec::new();
    if args.stay {
        words.push("--stay".to_owned());
    }
    if let Some(engine) = args.engine {
        let name = match engine {
            Engine::Tun => "tun",
            Engine::Packet => "packet",
        };
        words.extend(["--engine".to_owned(), name.to_owned()]);
    }
    words
}

fn failure(error: &emu::Error) -> Failure {
    let exit = Exit::of_run(error.exit_code().into());
    let failure = Failure::caused(exit, error);
    match exit {
        Exit::Machine if matches!(error, emu::Error::NoEngine(_)) => failure.help(
            "`netarium doctor` says what mends it; labs of built-in flows need none of it on the \
             virtual clock: `netarium sim`",
        ),
        Exit::Machine => failure.help("`netarium doctor` says what this machine lacks"),
        _ => failure,
    }
}
