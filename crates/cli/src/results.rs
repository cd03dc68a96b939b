//! Verbs about runs that are over.

use std::io;
use std::path::Path;

use base::Ratio;
use lab::Lab;
use lab::plan::Plan;
use record::run::Status;
use record::{RunFolder, RunRecord};
use serde_json::{Value, json};

use crate::args::{Diff, Report};
use crate::exit::Exit;
use crate::terminal::{Style, Terminal};
use crate::{Failure, Verdict};

/// A run, given its folder or a file in it.
pub(crate) fn open(run: &Path) -> Result<(RunFolder, RunRecord), Failure> {
    let folder = if run.is_file() { run.parent().unwrap_or(run) } else { run };
    let failure = |e: record::Error| {
        Failure::caused(Exit::Usage, &e).help("give a run folder, such as runs/dumbbell-1a2b3c")
    };
    let folder = RunFolder::open(folder).map_err(failure)?;
    let mut record = folder.read_record().map_err(failure)?;
    // The tables of a killed run are joined, where its folder can be written.
    if record.status == Status::Killed && folder.mark_killed().is_ok_and(|changed| changed) {
        record = folder.read_record().map_err(failure)?;
    }
    Ok((folder, record))
}

/// Has `run` run each of a lab's plans, one after the other until one is interrupted; several are
/// compared in a table at the end.
pub(crate) fn of_each(
    lab: &Lab,
    terminal: &Terminal,
    mut run: impl FnMut(&Plan) -> Result<RunRecord, Failure>,
) -> Verdict {
    let count = lab.plans.len();
    let mut worst = Exit::Ok;
    let mut records = Vec::new();
    for (number, plan) in lab.plans.iter().enumerate() {
        if count > 1 {
            let values = plan.sweep.iter().map(|(field, value)| format!("{field} = {value}"));
            let values: Vec<String> = values.collect();
            terminal.talk(format!("run {} of {count}: {}", number + 1, values.join(", ")));
        }
        let record = run(plan)?;
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

/// Shows a run that has just ended, and writes its report if wanted.
pub(crate) fn show(
    record: &RunRecord,
    folder: &RunFolder,
    wants_report: bool,
    terminal: &Terminal,
) -> Result<(), Failure> {
    let report = if wants_report { report::write_html(folder).map(Some) } else { Ok(None) };
    if terminal.json {
        let mut value = serde_json::to_value(record.document()).map_err(io::Error::from)?;
        value["folder"] = folder.path().display().to_string().into();
        terminal.object(&value)?;
    } else {
        terminal.data(report::table(record))?;
    }
    match report {
        Ok(Some(path)) => terminal.talk(format!("report: {}", path.display())),
        Ok(None) => {}
        Err(error) => terminal.error(format!("the report could not be written: {error}")),
    }
    terminal.talk(format!("repeat: {}", terminal.paint_talk(Style::Strong, &record.repeat)));
    Ok(())
}

pub(crate) fn report(args: &Report, terminal: &Terminal) -> Verdict {
    let (folder, record) = open(&args.run)?;
    let html = report::write_html(&folder)
        .map_err(|e| Failure::machine(format!("cannot write the report: {e}")))?;
    if terminal.json {
        let record = serde_json::to_value(record.document()).map_err(io::Error::from)?;
        terminal.object(&json!({
            "schema": "netarium.report/1",
            "report": html,
            "run": record,
        }))?;
    } else {
        terminal.data(report::table(&record))?;
        terminal.talk(format!("report: {}", html.display()));
    }
    Ok(Exit::Ok)
}

pub(crate) fn diff(args: &Diff, terminal: &Terminal) -> Verdict {
    let ((_, before), (_, after)) = (open(&args.before)?, open(&args.after)?);
    let diff = report::diff(&before, &after);
    let tolerance = args.tolerance.as_f64();
    let beyond: Vec<&str> = diff.beyond(tolerance).map(|change| &*change.metric).collect();
    if terminal.json {
        let changes: Vec<Value> = diff
            .changes
            .iter()
            .map(|c| {
                // JSON has no infinity: what grew from nothing has no relative change.
                let relative = Some(c.relative()).filter(|share| share.is_finite());
                json!({"metric": c.metric, "first": c.first, "second": c.second,
                    "relative": relative})
            })
            .collect();
        terminal.object(&json!({
            "schema": "netarium.diff/1",
            "changes": changes,
            "beyond_tolerance": beyond,
            "only_first": diff.only_first,
            "only_second": diff.only_second,
            "notes": diff.notes,
        }))?;
    } else {
        terminal.data(&diff)?;
    }
    if args.tolerance == Ratio::default() || beyond.is_empty() {
        return Ok(Exit::Ok);
    }
    terminal.talk(format!("beyond {}: {}", args.tolerance, beyond.join(", ")));
    Ok(Exit::Expectation)
}
