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
use crate::{Failure, Verdict, files, jobs, labs, repeat, results, spread};

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
    let is_spread = args.spread.target.name().is_some();
    // Agents look for the programs of their own hosts.
    let load = if is_spread { files::load_elsewhere } else { files::load };
    let lab = load(changes, terminal)?;
    let lab_dir =
        std::path::absolute(&changes.lab)?.parent().map_or(PathBuf::from("/"), Path::to_owned);
    if is_spread {
        return spread::run(args, changes, &lab, &lab_dir, terminal);
    }
    let starter = args.await_start.then(starter).transpose()?;
    results::of_each(&lab, terminal, |plan| {
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
        one(args, plan, &options, terminal)
    })
}

/// Standard input, as the command that runs several labs has made it.
pub(crate) fn starting_stream() -> Result<UnixStream, Failure> {
    Ok(UnixStream::from(std::io::stdin().as_fd().try_clone_to_owned()?))
}

fn starter() -> Result<Arc<Starter>, Failure> {
    Ok(Arc::new(Starter::new(starting_stream()?)))
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
    [own_words(args), spread::words(&args.spread)].concat()
}

/// Those that have nothing to do with clusters.
pub(crate) fn own_words(args: &Run) -> Vec<String> {
    let mut words = Vec::new();
    if args.stay {
        words.push("--stay".to_owned());
    }
    if let Some(engine) = args.engine {
        words.extend(["--engine".to_owned(), engine_name(engine).to_owned()]);
    }
    words
}

/// As the command line has it.
pub(crate) fn engine_name(engine: Engine) -> &'static str {
    match engine {
        Engine::Tun => "tun",
        Engine::Packet => "packet",
    }
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
