//! Subcommands for finished runs.

use std::io;
use std::path::Path;

use lab::plan::Plan;
use run::record::Status;
use run::{RunFolder, RunRecord};

use crate::set::Set;
use crate::terminal::{Style, Terminal};
use crate::{Failure, Verdict, repeat};
use run::Exit;

/// Opens a run by its folder or a file in it.
pub(crate) fn open(run: &Path) -> Result<(RunFolder, RunRecord), Failure> {
    let folder = if run.is_file() { run.parent().unwrap_or(run) } else { run };
    let failure = |e: run::Error| {
        Failure::caused(Exit::Usage, &e).help("give a run folder, such as runs/dumbbell-1a2b3c")
    };
    let folder = RunFolder::open(folder).map_err(failure)?;
    let mut record = folder.read_record().map_err(failure)?;
    // The tables of a killed run are in parts; joins them if its folder is writable.
    if record.status == Status::Killed && folder.mark_killed().is_ok_and(|changed| changed) {
        record = folder.read_record().map_err(failure)?;
    }
    Ok((folder, record))
}

pub(crate) fn folder_of(runs: &Path, record: &RunRecord) -> Result<RunFolder, Failure> {
    let name = format!("{}-{}", record.name, record.id);
    RunFolder::open(&runs.join(name)).map_err(Failure::machine)
}

/// Where and how runs are written and shown.
pub(crate) struct Output<'a> {
    /// The folder for run folders.
    pub(crate) runs: &'a Path,
    pub(crate) wants_report: bool,
    /// The set that the runs belong to; its summary is shown instead of the runs.
    pub(crate) set: Option<&'a Set>,
}

/// Runs plans with `run` one after the other, until one is interrupted. Several runs are compared
/// in a table.
pub(crate) fn of_each(
    plans: &[Plan],
    output: &Output,
    terminal: &Terminal,
    mut run: impl FnMut(&Plan) -> Result<RunRecord, Failure>,
) -> Verdict {
    let count = plans.len();
    let mut worst = Exit::Ok;
    let mut records = Vec::new();
    for (number, plan) in plans.iter().enumerate() {
        if count > 1 {
            let values = plan.sweep.iter().map(|(field, value)| format!("{field} = {value}"));
            let values: Vec<String> = values.collect();
            let colon = if values.is_empty() { "" } else { ": " };
            let values = values.join(", ");
            terminal.note(format!("run {} of {count}{colon}{values}", number + 1));
        }
        let record = run(plan)?;
        let folder = folder_of(output.runs, &record)?;
        match output.set {
            Some(_) => show_in_set(&record, &folder, output.wants_report, terminal),
            None => show(&record, &folder, output.wants_report, terminal)?,
        }
        let exit = record.exit_code.unwrap_or(Exit::Internal);
        worst = worst.max(exit);
        records.push(record);
        if exit == Exit::Interrupted {
            break;
        }
    }
    if let Some(set) = output.set {
        return set.finish(&records, terminal);
    }
    if records.len() > 1 && !terminal.json {
        terminal.data(terminal.rendered(|to| report::sweep_table(&records, to)))?;
    }
    Ok(worst)
}

/// Writes the report of a run of a set if requested, and notes an outcome other than `passed`.
pub(crate) fn show_in_set(
    record: &RunRecord,
    folder: &RunFolder,
    wants_report: bool,
    terminal: &Terminal,
) {
    if wants_report && let Err(error) = report::write_html(folder) {
        terminal.error(format!("cannot write the report: {error}"));
    }
    if let Some(conclusion) = record.conclusion().filter(|end| !end.reasons.is_empty()) {
        let (word, reasons) = (conclusion.outcome.as_str(), conclusion.reasons.join("; "));
        terminal.note(format!("{}-{} {word}: {reasons}", record.name, record.id));
    }
}

/// Shows a finished run, and writes its report if requested.
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
        terminal.data(table(record, folder, terminal))?;
    }
    print_log(folder, terminal);
    match report {
        Ok(Some(path)) => terminal.note(format!("report: {}", path.display())),
        Ok(None) => {}
        Err(error) => terminal.error(format!("cannot write the report: {error}")),
    }
    terminal.note(format!("repeat: {}", terminal.paint_note(Style::Strong, &record.repeat)));
    Ok(())
}

/// The tables of a run. Rows that they omit can be shown with the run's folder.
pub(crate) fn table(record: &RunRecord, folder: &RunFolder, terminal: &Terminal) -> String {
    let run = repeat::quote_path(folder.path());
    terminal.rendered(|layout| {
        report::table(record, &report::Layout { run: run.clone(), ..layout.clone() })
    })
}

/// With `-vv`, prints the log of the run.
pub(crate) fn print_log(folder: &RunFolder, terminal: &Terminal) {
    if terminal.shows_log() {
        match folder.read_start("log.jsonl", u64::MAX) {
            Ok(log) => String::from_utf8_lossy(&log.unwrap_or_default())
                .lines()
                .for_each(|line| terminal.error(format!("log: {line}"))),
            Err(error) => terminal.error(format!("cannot read the log of the run: {error}")),
        }
    }
}
