//! `run`.

use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use emu::run::{Starter, Up};
use lab::Lab;
use lab::plan::Plan;
use run::RunRecord;

use crate::args::{Changes, Engine, Run};
use crate::metrics::RunMetrics;
use crate::progress::Line;
use crate::results::Output;
use crate::set::Set;
use crate::terminal::Terminal;
use crate::watch::RunView;
use crate::{Failure, Verdict, cluster, files, jobs, labs, repeat, results, set, watch};
use run::Exit;

pub(crate) fn run(args: &Run, terminal: &Terminal) -> Verdict {
    labs::swept_registry(terminal)?;
    if args.labs.len() > 1 || args.spread.cluster().is_some() {
        if args.watch {
            let message = "--watch shows one lab on this machine";
            let help = "start the labs without it, and use `netarium watch NAME` for one of them";
            return Err(Failure::usage(message).help(help));
        }
        if args.metrics.is_some() {
            let message = "--metrics shows one lab on this machine";
            let help = "run each lab with its own command and address";
            return Err(Failure::usage(message).help(help));
        }
    }
    match &*args.labs {
        [file] if args.copies.get() == 1 => run_single_lab(
            args,
            &Changes { lab: file.clone(), edits: args.edits.clone() },
            terminal,
        ),
        _ => jobs::run(args, terminal),
    }
}

/// Runs one lab, or the runs of a sweep one after the other.
fn run_single_lab(args: &Run, changes: &Changes, terminal: &Terminal) -> Verdict {
    let is_spread = args.spread.cluster().is_some();
    // On a cluster, programs are installed on the agents.
    let load = if is_spread { files::load_elsewhere } else { files::load };
    let lab = load(changes, terminal)?;
    let lab_dir =
        std::path::absolute(&changes.lab)?.parent().map_or(PathBuf::from("/"), Path::to_owned);
    let set = begin_set(args, changes, &lab)?;
    let output = Output {
        runs: set.as_ref().map_or(&args.runs, |set| &set.folder),
        wants_report: !args.no_report,
        set: set.as_ref(),
    };
    let plans = vec![lab.plans; usize::from(args.repeat.get())].concat();
    let result = if is_spread {
        cluster::spread::run(args, changes, &plans, &output, &lab_dir, terminal)
    } else {
        run_on_this_host(args, changes, &plans, &output, &lab_dir, terminal)
    };
    if let (Err(_), Some(set)) = (&result, &set) {
        set.remove_if_empty();
    }
    result
}

/// The set of the runs with `--repeat`.
fn begin_set(args: &Run, changes: &Changes, lab: &Lab) -> Result<Option<Set>, Failure> {
    if args.repeat.get() == 1 {
        return Ok(None);
    }
    let plan = set::only_plan(lab, "--repeat")?;
    let mut words = repeat_options(args);
    words.extend(["--repeat".to_owned(), args.repeat.to_string()]);
    let repeat = repeat::command("run", changes, plan, &args.runs, &words);
    Set::create(&args.runs, plan, repeat).map(Some)
}

fn run_on_this_host(
    args: &Run,
    changes: &Changes,
    plans: &[Plan],
    output: &Output,
    lab_dir: &Path,
    terminal: &Terminal,
) -> Verdict {
    let starter = args.await_start.then(starter).transpose()?;
    let up = args.detached.then(|| detach(args)).transpose()?;
    let subcommand = if up.is_some() { "up" } else { "run" };
    let mut shown = Shown::new(args, subcommand, plans.len(), terminal)?;
    let verdict = results::of_each(plans, output, terminal, |plan| {
        let options = emu::run::Options {
            runs_dir: output.runs.to_owned(),
            lab_dir: lab_dir.to_owned(),
            repeat: repeat::command(subcommand, changes, plan, &args.runs, &repeat_options(args)),
            engine: args.engine.map(Engine::for_lab),
            stay: args.stay,
            starter: starter.clone(),
            up: up.clone(),
        };
        run_plan(args, plan, &options, &mut shown, terminal)
    });
    match shown.view {
        Some(view) if matches!(verdict, Ok(exit) if exit != Exit::Interrupted) => {
            view.finish().and(verdict)
        }
        _ => verdict,
    }
}

/// The live view and the metrics of a run.
struct Shown<'a> {
    view: Option<RunView<'a>>,
    metrics: Option<RunMetrics<'a>>,
}

impl<'a> Shown<'a> {
    fn new(
        args: &Run,
        subcommand: &'static str,
        runs: usize,
        terminal: &'a Terminal,
    ) -> Result<Self, Failure> {
        if args.watch {
            watch::reject_sweep("--watch", runs)?;
        }
        if args.metrics.is_some() {
            watch::reject_sweep("--metrics", runs)?;
        }
        let metrics = args.metrics.map(|address| RunMetrics::new(subcommand, address, terminal));
        let view = args.watch.then(|| RunView::new(terminal));
        Ok(Self { view, metrics: metrics.transpose()? })
    }

    /// Starts the servers of a lab that is registered.
    fn start(&mut self) {
        self.view.iter_mut().for_each(RunView::start);
        self.metrics.iter_mut().for_each(RunMetrics::start);
    }
}

/// Standard input, which is the control socket of the run supervisor.
pub(crate) fn control_socket() -> Result<UnixStream, Failure> {
    Ok(UnixStream::from(std::io::stdin().as_fd().try_clone_to_owned()?))
}

fn starter() -> Result<Arc<Starter>, Failure> {
    Ok(Arc::new(Starter::new(control_socket()?)))
}

/// Leaves the session of the terminal, for a lab of `netarium up`.
fn detach(args: &Run) -> Result<Up, Failure> {
    sys::process::start_session()
        .map_err(|e| Failure::machine(format!("cannot leave the terminal: {e}")))?;
    Ok(Up { parent: starter()?, ends: args.edits.duration.is_some() })
}

fn run_plan(
    args: &Run,
    plan: &Plan,
    options: &emu::run::Options,
    shown: &mut Shown<'_>,
    terminal: &Terminal,
) -> Result<RunRecord, Failure> {
    terminal.note(format!("{}: seed {}, max duration {}", plan.name, plan.seed, plan.duration));
    let line = Line::new(terminal.progress() && !args.no_progress);
    let result = emu::run::run(plan, options, &mut |progress| {
        shown.start();
        line.show(&progress);
    });
    line.clear();
    result.map_err(|e| failure(&e))
}

/// Options of `run` that are needed to repeat a run.
pub(crate) fn repeat_options(args: &Run) -> Vec<String> {
    [local_options(args), cluster::spread::words(&args.spread)].concat()
}

/// The options that do not concern clusters.
pub(crate) fn local_options(args: &Run) -> Vec<String> {
    let mut words = Vec::new();
    if args.stay {
        words.push("--stay".to_owned());
    }
    words.extend(engine_options(args.engine));
    words
}

pub(crate) fn engine_options(engine: Option<Engine>) -> Vec<String> {
    let words = |engine| vec!["--engine".to_owned(), engine_name(engine).to_owned()];
    engine.map_or_else(Vec::new, words)
}

impl Engine {
    pub(crate) fn for_lab(self) -> emu::enclosure::Engine {
        match self {
            Self::Tun => emu::enclosure::Engine::Tun,
            Self::Packet => emu::enclosure::Engine::Packet,
        }
    }
}

/// The name on the command line.
pub(crate) fn engine_name(engine: Engine) -> &'static str {
    match engine {
        Engine::Tun => "tun",
        Engine::Packet => "packet",
    }
}

pub(crate) fn failure(error: &emu::Error) -> Failure {
    let exit = error.exit_code();
    let failure = Failure::caused(exit, error);
    match exit {
        Exit::Machine if matches!(error, emu::Error::NoEngine(_)) => failure.help(
            "`netarium doctor` shows the fix; labs of built-in flows can run on the virtual clock \
             with `netarium sim`",
        ),
        Exit::Machine => match error {
            emu::Error::NoNamespaces { fix, .. } => failure.help(*fix),
            _ => failure.help("`netarium doctor` shows what this machine lacks"),
        },
        _ => failure,
    }
}
