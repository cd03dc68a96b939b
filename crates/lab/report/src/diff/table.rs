//! The difference of two runs as a table.

use std::fmt::Write as _;

use super::{Change, Diff};
use crate::{columns, format};

pub(super) fn render(diff: &Diff, all: bool) -> String {
    let shown: Vec<&Change> = diff.changes.iter().filter(|c| all || c.changed).collect();
    let mut out = String::new();
    if !shown.is_empty() {
        let has_tests = shown.iter().any(|change| change.p_value.is_some());
        let [first, second] = &diff.heads;
        let mut heads = vec!["metric", first, second, "change"];
        heads.extend(has_tests.then_some("p"));
        let rows: Vec<_> = shown.iter().map(|change| row(change, has_tests)).collect();
        let _ = writeln!(out, "{}\n", columns::fitted(&heads, &rows, 1..heads.len()));
    }
    for (which, names) in [("first", &diff.only_first), ("second", &diff.only_second)] {
        for name in names {
            let _ = writeln!(out, "{name}: in the {which} run only");
        }
    }
    let changed = match diff.changed().count() {
        0 => "none changed".to_owned(),
        count => format!("{} changed", format::count(count as u64)),
    };
    let compared = format::plural(diff.changes.len(), "metric");
    let _ = writeln!(out, "{compared} compared, {changed}");
    for note in &diff.notes {
        let _ = writeln!(out, "note: {note}");
    }
    out
}

fn row(change: &Change, has_tests: bool) -> Vec<String> {
    let text = |value| change.unit.text(value);
    let mut row = vec![
        change.metric.clone(),
        text(change.first.mean),
        text(change.second.mean),
        relative(change),
    ];
    row.extend(has_tests.then(|| match change.p_value {
        None => "–".to_owned(),
        Some(p_value) if p_value < 0.001 => "<0.001".to_owned(),
        Some(p_value) => format!("{p_value:.3}"),
    }));
    row
}

/// The relative change, with half of its interval.
fn relative(change: &Change) -> String {
    let relative = change.relative();
    if !relative.is_finite() {
        return "from 0".to_owned();
    }
    let percent = relative * 100.0;
    let digits = if percent.abs() < 0.05 && relative != 0.0 { 4 } else { 1 };
    let interval = change.interval().filter(|_| change.first.mean != 0.0);
    match interval {
        Some((low, high)) => {
            let half = (high - low) / 2.0 / change.first.mean.abs() * 100.0;
            format!("{percent:+.1} ±{half:.1} %")
        }
        None if relative == 0.0 => "0 %".to_owned(),
        None => format!("{percent:+.digits$} %"),
    }
}
