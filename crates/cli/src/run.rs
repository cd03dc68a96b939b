//! `run`.

use std::io;
use std::path::{Path, PathBuf};

use lab::plan::Plan;
use record::{RunFolder, RunRecord};
use serde_json::Value;

use crate::args::{Engine, Run};
use crate::exit::Exit;
use crate::progress::Line;
use crate::terminal::{Style, Terminal};
use crate::{Failure, Verdict, files, labs};

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
    let report = if args.no_report { Ok(None) } else { report::write_html(&folder).map(Some) };
    if terminal.json {
        terminal.object(&json(&record, folder.path())?)?;
    } else {
        terminal.data(report::table(&record))?;
    }
    match report {
        Ok(Some(path)) => terminal.talk(format!("report: {}", path.display())),
        Ok(None) => {}
        Err(error) => terminal.error(format!("the report could not be written: {error}")),
    }
    terminal.talk(format!("repeat: {}", terminal.paint_talk(Style::Strong, &record.repeat)));
    Ok(record)
}

fn json(record: &RunRecord, folder: &Path) -> Result<Value, Failure> {
    let mut value = serde_json::to_value(record).map_err(io::Error::from)?;
    value["folder"] = folder.display().to_string().into();
    Ok(value)
}

/// The command that runs this plan again: same file, seed, changes and sweep values.
fn repeat(args: &Run, plan: &Plan) -> String {
    let mut words = vec!["netarium".to_owned(), "run".to_owned(), quote_path(&args.changes.lab)];
    words.extend(["--seed".to_owned(), plan.seed.to_string()]);
    if let Some(duration) = args.changes.duration {
        words.extend(["--duration".to_owned(), quote(&duration.to_string())]);
    }
    if let Some(name) = &args.changes.name {
        words.extend(["--name".to_owned(), quote(name)]);
    }
    let swept = |field: &str| plan.sweep.iter().any(|(name, _)| name == field);
    let kept = args.changes.set.iter().filter(|(field, _)| !swept(field));
    for (field, value) in kept.chain(&plan.sweep) {
        words.extend(["--set".to_owned(), quote(&format!("{field}={value}"))]);
    }
    if args.runs != Path::new("runs") {
        words.extend(["--runs".to_owned(), quote_path(&args.runs)]);
    }
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
    words.join(" ")
}

fn quote_path(path: &Path) -> String {
    quote(&path.display().to_string())
}

/// A word as a POSIX shell reads it back.
fn quote(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "_-./=:,+@%".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', "'\\''"))
    }
}

fn failure(error: &emu::Error) -> Failure {
    let exit = Exit::of_run(error.exit_code().into());
    let failure = Failure::new(exit, error);
    match exit {
        Exit::Machine if matches!(error, emu::Error::NoEngine(_)) => failure.help(
            "`netarium doctor` says what mends it; labs of built-in flows will need none of it on \
             the virtual clock (`netarium sim`, not in this version)",
        ),
        Exit::Machine => failure.help("`netarium doctor` says what this machine lacks"),
        _ => failure,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_survive_the_shell() {
        assert_eq!(quote("link.core.rate=5"), "link.core.rate=5");
        assert_eq!(quote("delay=10 ms"), "'delay=10 ms'");
        assert_eq!(quote("it's"), "'it'\\''s'");
        assert_eq!(quote(""), "''");
    }
}
