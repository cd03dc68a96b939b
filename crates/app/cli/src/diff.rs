//! `diff`.

use std::path::Path;

use report::diff::{Change, Choice, ChoiceError, Side};
use report::summary::Summary;
use run::{Exit, RunFolder};
use serde_json::{Value, json};

use crate::args::diff::Diff;
use crate::terminal::Terminal;
use crate::{Failure, Verdict, files, results, set};

/// Maximum size of a resolved lab that is read to name its differences.
const MAX_LAB_BYTES: u64 = 256 << 20;

pub(crate) fn diff(args: &Diff, terminal: &Terminal) -> Verdict {
    if let Some(file) = &args.save {
        return save(args, file, terminal);
    }
    let (first, second) = match (&args.baseline, &args.after) {
        (Some(file), _) => (stored(file)?, open(&args.before)?),
        (None, Some(after)) => (open(&args.before)?, open(after)?),
        (None, None) => return Err(Failure::usage("a second run is missing")),
    };
    let choice = Choice { metrics: args.metric.clone(), tolerances: args.tolerance.clone() };
    let diff = report::diff::compare(&first, &second, &choice).map_err(|e| failure(&e))?;
    if terminal.json {
        terminal.object(&json!({
            "schema": "netarium.diff/1",
            "changes": diff.changes.iter().map(as_json).collect::<Vec<_>>(),
            "beyond_tolerance": diff.changed().map(|c| &*c.metric).collect::<Vec<_>>(),
            "only_first": diff.only_first,
            "only_second": diff.only_second,
            "notes": diff.notes,
        }))?;
    } else {
        terminal.data(diff.text(args.all))?;
    }
    let is_gate = args.baseline.is_some() || !args.tolerance.is_empty();
    Ok(if is_gate && !diff.is_unchanged() { Exit::Expectation } else { Exit::Ok })
}

fn as_json(change: &Change) -> Value {
    // JSON has no infinity: a change from 0 is null.
    let relative = Some(change.relative()).filter(|share| share.is_finite());
    let mut value = json!({
        "metric": change.metric,
        "unit": change.unit,
        "first": change.first.mean,
        "second": change.second.mean,
        "relative": relative,
        "changed": change.changed,
    });
    if let (Some(p_value), Some((low, high))) = (change.p_value, change.interval()) {
        value["n"] = json!([change.first.count, change.second.count]);
        value["p"] = p_value.into();
        value["difference"] = json!({"low": low, "high": high});
    }
    value
}

fn save(args: &Diff, file: &Path, terminal: &Terminal) -> Verdict {
    let summary = open(&args.before)?.summary;
    let chosen = if args.metric.is_empty() {
        report::diff::default_names(&summary)
    } else {
        let names = summary.metrics.keys().cloned().collect();
        report::diff::select(&args.metric, &names).map_err(|e| failure(&e))?
    };
    let baseline = summary.baseline(&chosen);
    let text = baseline.to_json().map_err(std::io::Error::from)?;
    files::write(file, &text)?;
    if terminal.json {
        terminal.object(&json!({
            "schema": "netarium.baseline/1",
            "file": file,
            "metrics": chosen,
        }))?;
    } else {
        terminal.note(format!("wrote {}: {} metrics", file.display(), chosen.len()));
    }
    Ok(Exit::Ok)
}

fn failure(error: &ChoiceError) -> Failure {
    let failure = Failure::usage(error);
    match error {
        ChoiceError::Unmatched { help, .. } => failure.help(help),
        _ => failure.help("name the metrics: --tolerance 'PATTERN=LIMIT'"),
    }
}

fn stored(file: &Path) -> Result<Side, Failure> {
    let failure = |error| {
        Failure::usage(error)
            .help(format!("`netarium diff --save {} RUN` writes a baseline", file.display()))
    };
    let summary = Summary::read(file).map_err(failure)?;
    Ok(Side { summary, lab: None, is_stored: true })
}

/// Opens a run, a set of runs or a stored summary.
fn open(path: &Path) -> Result<Side, Failure> {
    if let Some((folder, summary)) = set::open(path)? {
        let first = summary.runs.first().map(|run| folder.join(&run.folder));
        let lab = first.and_then(|run| resolved(&RunFolder::open(&run).ok()?));
        return Ok(Side { summary, lab, is_stored: false });
    }
    let is_in_run = path.parent().is_some_and(|folder| folder.join("run.json").is_file());
    if path.is_file() && !is_in_run {
        return stored(path);
    }
    let (folder, record) = results::open(path)?;
    let lab = resolved(&folder);
    let summary = Summary::of(&[record], lab.as_deref().unwrap_or_default());
    let summary = summary.ok_or_else(|| Failure::usage("a run has no record"))?;
    Ok(Side { summary, lab, is_stored: false })
}

fn resolved(folder: &RunFolder) -> Option<String> {
    let lab = folder.read_start(RunFolder::RESOLVED_LAB, MAX_LAB_BYTES).ok()??;
    Some(String::from_utf8_lossy(&lab).into_owned())
}
