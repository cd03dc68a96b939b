//! `run` on a cluster: this command is the coordinator.

use std::io::Read;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::Arc;

use cluster_live::coordinate::{Interrupt, Options, Runner};
use lab::plan::Plan;

use super::{connect, failure};
use crate::args::cluster::Spread;
use crate::args::{Changes, Run};
use crate::progress::Line;
use crate::results::Output;
use crate::run::{control_socket, engine_name, local_options};
use crate::terminal::Terminal;
use crate::{Failure, Verdict, interrupts, repeat, results};

/// Runs plans one after the other.
pub(crate) fn run(
    args: &Run,
    changes: &Changes,
    plans: &[Plan],
    output: &Output,
    lab_dir: &Path,
    terminal: &Terminal,
) -> Verdict {
    let runner = Runner::new(connect(&args.spread.target)?).map_err(|e| failure(&e))?;
    let interrupt = runner.interrupt();
    interrupts::each(move || interrupt.interrupt())?;
    let starter = args.await_start.then(|| follow_starter(runner.interrupt())).transpose()?;
    results::of_each(plans, output, terminal, |plan| {
        let options = Options {
            runs_dir: output.runs.to_owned(),
            lab_dir: lab_dir.to_owned(),
            repeat: repeat(args, changes, plan),
            engine: args.engine.map(|engine| engine_name(engine).to_owned()),
            stay: args.stay,
            encrypt: !args.spread.clear,
            overcommit: args.spread.overcommit,
            starter: starter.clone(),
        };
        terminal.note(format!("{}: seed {}, {} at most", plan.name, plan.seed, plan.duration));
        let line = Line::new(terminal.progress() && !args.no_progress);
        let result = runner.run(plan, &options, &mut |progress| line.show(&progress));
        line.clear();
        result.map_err(|e| failure(&e))
    })
}

/// The command that repeats the run of `plan`. The command starts a local cluster again, because
/// such a cluster ends with its command.
fn repeat(args: &Run, changes: &Changes, plan: &Plan) -> String {
    let named = args.spread.target.name();
    let again = named.and_then(|name| cluster_live::local::repeat_command(Path::new(name)));
    let mut words = local_options(args);
    if again.is_none() {
        words.extend(cluster_options(&args.spread));
    }
    words.extend(run_options(&args.spread));
    let command = repeat::command("run", changes, plan, &args.runs, &words);
    again.into_iter().chain([command]).collect::<Vec<_>>().join(" ")
}

/// Synchronises labs that one command started together: they begin together, and end with that
/// command.
fn follow_starter(run: Interrupt) -> Result<Arc<UnixStream>, Failure> {
    let stream = Arc::new(control_socket()?);
    let control = Arc::clone(&stream);
    std::thread::Builder::new().name("starter".to_owned()).spawn(move || {
        while (&*control).read(&mut [0]).is_ok_and(|count| count > 0) {
            run.begin();
        }
        run.interrupt();
    })?;
    Ok(stream)
}

pub(crate) fn words(spread: &Spread) -> Vec<String> {
    [cluster_options(spread), run_options(spread)].concat()
}

/// Options for the cluster and the folder of credentials.
fn cluster_options(spread: &Spread) -> Vec<String> {
    let Some(cluster) = spread.target.name() else { return Vec::new() };
    let mut words = vec!["--cluster".to_owned(), cluster.to_owned()];
    if let Some(dir) = &spread.target.access.credentials {
        words.extend(["--credentials".to_owned(), dir.display().to_string()]);
    }
    words
}

fn run_options(spread: &Spread) -> Vec<String> {
    let mut words = Vec::new();
    words.extend(spread.clear.then(|| "--clear".to_owned()));
    words.extend(spread.overcommit.then(|| "--overcommit".to_owned()));
    words
}
