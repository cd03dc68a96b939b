//! `run`.

use std::path::{Path, PathBuf};

use lab::plan::Plan;
use record::{RunFolder, RunRecord};

use crate::args::{Engine, Run};
use crate::exit::Exit;
use crate::progress::Line;
use crate::terminal::Terminal;
use crate::{Failure, Verdict, files, labs, repeat, results};

pub(crate) fn run(args: &Run, terminal: &Terminal) -> Verdict {
    labs::swept(terminal)?;
    let lab = files::load(&args.changes, terminal)?;
    let file = &args.changes.lab;
    let lab_dir = std::path::absolute(file)?.parent().map_or(PathBuf::from("/"), Path::to_owned);
    let mut worst = Exit::Ok;
    let mut records = Vec::new();
    for (number, plan) in lab.plans.iter().enumerate() {
        if lab.plans.len() > 1 {
            let values: Vec<String> =
                plan.sweep.iter().map(|(field, value)| format!("{field} = {value}")).collect();
            let count = lab.plans.len();
            terminal.talk(format!("run {} of {count}: {}", number + 1, values.join(", ")));
        }
        let record = one(args, plan, &lab_dir, terminal)?;
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

fn one(args: &Run, plan: &Plan, lab_dir: &Path, terminal: &Terminal) -> Result<RunRecord, Failure> {
    let options = emu::run::Options {
        runs_dir: args.runs.clone(),
        lab_dir: lab_dir.to_owned(),
        repeat: repeat(args, plan),
        engine: args.engine.map(|engine| match engine {
            Engine::Tun => emu::enclosure::Engine::Tun,
            Engine::Packet => emu::enclosure::Engine::Packet,
        }),
        stay: args.stay,
    };
    terminal.talk(format!("{}: seed {}, {} at most", plan.name, plan.seed, plan.duration));
    let line = Line::new(terminal.progress() && !args.no_progress);
    let result = emu::run::run(plan, &options, &mut |progress| line.show(&progress));
    line.clear();
    let record = result.map_err(|e| failure(&e))?;
    let folder = RunFolder::open(&args.runs.join(format!("{}-{}", record.name, record.id)))
        .map_err(Failure::machine)?;
    results::show(&record, &folder, !args.no_report, terminal)?;
    Ok(record)
}

/// The command that runs this plan again.
fn repeat(args: &Run, plan: &Plan) -> String {
    let mut more = Vec::new();
    if args.stay {
        more.push("--stay".to_owned());
    }
    if let Some(engine) = args.engine {
        let name = match engine {
            Engine::Tun => "tun",
            Engine::Packet => "packet",
        };
        more.extend(["--engine".to_owned(), name.to_owned()]);
    }
    repeat::command("run", &args.changes, plan, &args.runs, &more)
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
