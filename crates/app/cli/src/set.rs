//! Sets of runs of one lab: `run --repeat` and `sim --seeds`.

use std::path::{Path, PathBuf};

use lab::Lab;
use lab::plan::Plan;
use report::summary::{self, Summary};
use run::record::RunOutcome;
use run::{Exit, RunFolder, RunRecord};

use crate::terminal::{Style, Terminal};
use crate::{Failure, Verdict, repeat, results};

/// The file of a set with its metrics.
const SUMMARY_FILE: &str = "summary.json";

/// A set in progress: a folder with a folder for each run.
pub(crate) struct Set {
    pub(crate) folder: PathBuf,
    /// The command that repeats the set.
    repeat: String,
}

impl Set {
    /// Creates the folder of a set of runs of `plan`.
    pub(crate) fn create(runs: &Path, plan: &Plan, repeat: String) -> Result<Self, Failure> {
        let folder = RunFolder::create(runs, &plan.name).map_err(Failure::machine)?;
        Ok(Self { folder: folder.path().to_owned(), repeat })
    }

    /// Writes and shows the summary of the completed runs.
    pub(crate) fn finish(&self, records: &[RunRecord], terminal: &Terminal) -> Verdict {
        let lab = records.first().and_then(|first| {
            let folder = results::folder_of(&self.folder, first).ok()?;
            folder.read_start(RunFolder::RESOLVED_LAB, u64::MAX).ok()?
        });
        let lab = String::from_utf8_lossy(lab.as_deref().unwrap_or_default());
        let Some(summary) = Summary::of(records, &lab) else {
            self.remove_if_empty();
            return Ok(Exit::Interrupted);
        };
        let text = summary.to_json().map_err(std::io::Error::from)?;
        let file = self.folder.join(SUMMARY_FILE);
        run::files::replace(&file, text.as_bytes())
            .map_err(|e| Failure::machine(format!("cannot write {}: {e}", file.display())))?;
        if terminal.json {
            let mut value = serde_json::to_value(&summary).map_err(std::io::Error::from)?;
            value["folder"] = self.folder.display().to_string().into();
            terminal.object(&value)?;
        } else {
            let (word, counts) = outcome(&summary);
            terminal.data(format!("outcome  {word}: {counts}\n\n{}", summary::table(&summary)))?;
        }
        let folder = repeat::quote_path(&self.folder);
        terminal.note(format!("set of runs: {folder}; compare with: netarium diff {folder} OTHER"));
        terminal.note(format!("repeat: {}", terminal.paint_note(Style::Strong, &self.repeat)));
        let exits = records.iter().map(|record| record.exit_code.unwrap_or(Exit::Internal));
        Ok(exits.max().unwrap_or_default())
    }

    /// Removes the folder of a set without runs.
    pub(crate) fn remove_if_empty(&self) {
        // A folder with files remains.
        let _ = std::fs::remove_dir(&self.folder);
    }
}

/// The outcome in one word, and the number of runs with each outcome.
fn outcome(summary: &Summary) -> (&'static str, String) {
    let count = |outcome| summary.runs.iter().filter(|run| run.outcome == Some(outcome)).count();
    let counts = [RunOutcome::Failed, RunOutcome::Untrusted, RunOutcome::Passed]
        .map(|outcome| (count(outcome), outcome.as_str()));
    let counts = counts.into_iter().filter(|(count, _)| *count > 0);
    let counts: Vec<String> = counts.map(|(count, word)| format!("{count} {word}")).collect();
    let word = summary.outcome.unwrap_or(RunOutcome::Failed).as_str();
    (word, format!("{} runs, {}", summary.count(), counts.join(", ")))
}

/// The only plan of a lab. A set has runs of one plan.
pub(crate) fn only_plan<'a>(lab: &'a Lab, option: &str) -> Result<&'a Plan, Failure> {
    match &*lab.plans {
        [plan] => Ok(plan),
        plans => {
            let message = format!(
                "{option} repeats one run, but the swept values of the lab give {} runs",
                plans.len()
            );
            Err(Failure::usage(message)
                .help("choose values with --set, or use `netarium sweep LAB --repeat N`"))
        }
    }
}

/// The folder and summary of a set, if the path is that of a set or of its summary.
pub(crate) fn open(path: &Path) -> Result<Option<(PathBuf, Summary)>, Failure> {
    let folder = if path.ends_with(SUMMARY_FILE) { path.parent().unwrap_or(path) } else { path };
    let file = folder.join(SUMMARY_FILE);
    if !file.is_file() {
        return Ok(None);
    }
    let summary = Summary::read(&file).map_err(Failure::usage)?;
    Ok(Some((folder.to_owned(), summary)))
}
