//! `link`: a command behind one emulated link.

mod lab_text;

use std::path::{Path, PathBuf};

use base::NodeId;
use emu::run::{AttachedRun, run_attached};
use lab::{Diagnostics, Lab};
use report::format::shell_word;
use run::record::Status;
use run::{Exit, RunRecord};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::args::link::Link;
use crate::terminal::Terminal;
use crate::{Failure, Verdict, files, labs};
use lab_text::LabText;

/// Standard output belongs to the command, so errors go to standard error in JSON too.
pub(crate) fn link(args: &Link, terminal: &Terminal) -> Verdict {
    run(args, terminal).map_err(|failure| {
        if !terminal.json || failure.message.is_empty() {
            return failure;
        }
        terminal.error_object(&failure.as_json());
        Failure::silent(failure.exit)
    })
}

fn run(args: &Link, terminal: &Terminal) -> Verdict {
    let lab = compile(args, terminal)?;
    let [plan] = lab.plans.as_slice() else {
        return Err(Failure::usage("a link has one value for each property, not several"));
    };
    let folder = Runs::of(args)?;
    let options = emu::run::Options {
        runs_dir: folder.path().to_owned(),
        lab_dir: std::env::current_dir()?,
        repeat: repeat(),
        engine: args.engine.map(crate::args::Engine::for_lab),
        stay: true,
        starter: None,
        up: None,
    };
    let command =
        if args.command.is_empty() { vec![labs::user_shell()] } else { args.command.clone() };
    let ended = run_attached(plan, &options, NodeId::at(0), &command);
    let AttachedRun { record, status } = ended.map_err(|error| crate::run::failure(&error))?;
    show(args, &record, status, terminal)?;
    match (record.status, status) {
        // The exit status of a process is from 0 to 255.
        (Status::Finished, Some(status)) => {
            Ok(u8::try_from(status).map_or(Exit::Internal, Exit::Status))
        }
        (Status::Interrupted, _) => Ok(Exit::Interrupted),
        _ => Err(lab_failure(&record)),
    }
}

fn lab_failure(record: &RunRecord) -> Failure {
    let reasons = record.conclusion().map(|conclusion| conclusion.reasons).unwrap_or_default();
    Failure::new(record.exit_code.unwrap_or(Exit::Internal), reasons.join("; "))
}

fn compile(args: &Link, terminal: &Terminal) -> Result<Lab, Failure> {
    let text = LabText::of(args)?;
    match lab::parse("link", text.as_str(), Path::new("")) {
        Ok(lab) => {
            for line in lines(&text, &lab.warnings) {
                terminal.note(line);
            }
            Ok(lab)
        }
        Err(diagnostics) if terminal.json => {
            let error = |found: &lab::Diagnostic| {
                let option = text.option(found.position.0);
                json!({"code": found.code.as_str(), "option": option, "message": found.message,
                    "help": found.help})
            };
            let errors: Vec<Value> = diagnostics.list().iter().map(error).collect();
            let object = json!({"schema": "netarium.check/1", "ok": false, "errors": errors});
            terminal.error_object(&object);
            Err(Failure::silent(Exit::Usage))
        }
        Err(diagnostics) => Err(Failure::usage(lines(&text, &diagnostics).join("\n"))),
    }
}

/// Diagnostics with the options that caused them, instead of positions in a lab file.
fn lines(text: &LabText, found: &Diagnostics) -> Vec<String> {
    let line = |found: &lab::Diagnostic| {
        let option = text.option(found.position.0).unwrap_or("link");
        let help = found.help.as_ref().map(|help| format!("\nhelp: {help}"));
        format!("{option}: {}{}", found.message, help.unwrap_or_default())
    };
    found.list().iter().map(line).collect()
}

/// The parent of the run folder: temporary, unless --runs is given.
enum Runs {
    Kept(PathBuf),
    Temporary(TempDir),
}

impl Runs {
    fn of(args: &Link) -> Result<Self, Failure> {
        if let Some(runs) = &args.runs {
            return Ok(Self::Kept(runs.clone()));
        }
        let folder = tempfile::Builder::new().prefix("netarium-link-").tempdir();
        let failure = |e| Failure::machine(format!("cannot make a temporary folder: {e}"));
        folder.map(Self::Temporary).map_err(failure)
    }

    fn path(&self) -> &Path {
        match self {
            Self::Kept(path) => path,
            Self::Temporary(folder) => folder.path(),
        }
    }
}

/// The command line of this process.
fn repeat() -> String {
    let words = std::env::args().skip(1).map(|word| shell_word(&word));
    ["netarium".to_owned()].into_iter().chain(words).collect::<Vec<_>>().join(" ")
}

fn show(
    args: &Link,
    record: &RunRecord,
    status: Option<i32>,
    terminal: &Terminal,
) -> Result<(), Failure> {
    let folder = args.runs.as_ref();
    let folder = folder.map(|runs| runs.join(format!("{}-{}", record.name, record.id)));
    let object = terminal.json.then(|| summary(record, status, folder.as_deref()));
    let table = |color| report::link_table(record, &report::Layout { color, ..terminal.layout() });
    match (&args.output, object) {
        (Some(file), object) => {
            let text = object.map_or_else(|| table(false), |o| o.to_string());
            files::write(file, &(text + "\n"))?;
        }
        (None, Some(object)) => terminal.error_object(&object),
        (None, None) => terminal.note(terminal.rendered_note(table)),
    }
    if let Some(folder) = folder.filter(|_| !terminal.json) {
        terminal.note(format!("run folder: {}", folder.display()));
    }
    Ok(())
}

fn summary(record: &RunRecord, status: Option<i32>, folder: Option<&Path>) -> Value {
    let conclusion = record.conclusion();
    json!({
        "schema": "netarium.link/1",
        "exit_status": status,
        "outcome": conclusion.as_ref().map(|conclusion| conclusion.outcome),
        "reasons": conclusion.map(|conclusion| conclusion.reasons),
        "elapsed_s": record.elapsed_s,
        "links": record.links,
        "lateness": record.lateness,
        "verdict": record.verdict,
        "programs": record.programs,
        "folder": folder,
    })
}
