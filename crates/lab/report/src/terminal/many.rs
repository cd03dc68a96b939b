//! Tables of several runs.

use std::fmt::Write as _;

use run::RunRecord;
use run::record::{FlowSummary, Outcome, RunOutcome};

use crate::columns::Grid;
use crate::format;
use crate::layout::{Layout, Tone};

use super::outcome::{headline, outcome_word};
use super::{MAX_ROWS, delay};

/// With more flows, the table of a sweep has columns for their sum only.
const MAX_SWEEP_FLOWS: usize = 3;

/// One of several labs that ran in parallel.
#[derive(Clone, Debug)]
pub struct LabRow {
    pub name: String,
    /// Its record; `None` if it did not start.
    pub record: Option<RunRecord>,
    /// How it ended, in a few words.
    pub ended: String,
}

/// The table of a sweep: one row per run with the sweep's values, flows, expectations and outcome.
/// Runs that did not pass come first.
pub(crate) fn render_sweep(records: &[RunRecord], layout: &Layout) -> String {
    let Some(first) = records.first() else { return String::new() };
    let mut heads: Vec<String> = first.sweep.iter().map(|value| value.parameter.clone()).collect();
    let numbers = heads.len();
    heads.extend(flow_heads(first));
    let numbers = numbers..heads.len();
    heads.extend(["expected", "outcome", "run"].map(str::to_owned));
    let row = |record: &RunRecord| {
        let passed = record.expectations.iter().filter(|e| e.outcome == Outcome::Passed).count();
        let mut cells: Vec<String> = record.sweep.iter().map(|value| value.value.clone()).collect();
        cells.extend(flow_cells(record));
        cells.push(match record.expectations.len() {
            0 => "–".to_owned(),
            all => format!("{passed} of {all}"),
        });
        cells.push(outcome_word(record).to_owned());
        cells.push(format!("{}-{}", record.name, record.id));
        cells
    };
    let mut records: Vec<&RunRecord> = records.iter().collect();
    records.sort_by_key(|record| passed(record));
    let failed = records.iter().filter(|record| !passed(record)).count();
    let rows: Vec<Vec<String>> = records.into_iter().map(row).collect();
    let mut ranks = vec![0; first.sweep.len()];
    // Of each flow, the goodput stays longer than the delay.
    let ranks_of_flows = (0..numbers.len()).map(|at| if at % 2 == 0 { 2 } else { 3 });
    ranks.extend(ranks_of_flows);
    ranks.extend([4, 0, 1]);
    let heads: Vec<&str> = heads.iter().map(String::as_str).collect();
    let shown = if layout.detail { rows.len() } else { MAX_ROWS };
    let grid = Grid { heads: &heads, rows: &rows[..rows.len().min(shown)], numbers, ranks: &ranks };
    let mut out = painted(&grid, failed, layout);
    if rows.len() > shown {
        let _ = writeln!(out, "… and {} more (-v shows all)", rows.len() - shown);
    }
    out
}

/// The table of parallel labs: one row per lab with goodput, delay, expectations, outcome and run
/// folder, and below the reasons of failures. Labs that did not pass come first.
pub(crate) fn render_labs(labs: &[LabRow], layout: &Layout) -> String {
    let heads =
        ["lab", "duration", "goodput", "highest p99", "expected", "outcome", "ended", "run"];
    let row = |lab: &LabRow| {
        let mut cells = vec!["–".to_owned(); heads.len()];
        cells[0].clone_from(&lab.name);
        cells[6].clone_from(&lab.ended);
        let Some(record) = &lab.record else { return cells };
        cells[1] = format::seconds(record.elapsed_s);
        if !record.flows.is_empty() {
            cells[2] = format::rate(record.flows.iter().map(|f| f.goodput_bit_per_s).sum());
        }
        let p99 = record.flows.iter().filter_map(|flow| delay(flow).map(|(_, d)| d.p99_ns)).max();
        cells[3] = p99.map_or_else(|| "–".to_owned(), format::nanos);
        if !record.expectations.is_empty() {
            let passed =
                record.expectations.iter().filter(|e| e.outcome == Outcome::Passed).count();
            cells[4] = format!("{passed} of {}", record.expectations.len());
        }
        outcome_word(record).clone_into(&mut cells[5]);
        cells[7] = format!("{}-{}", record.name, record.id);
        cells
    };
    let has_passed = |lab: &LabRow| lab.record.as_ref().is_some_and(passed);
    let mut labs: Vec<&LabRow> = labs.iter().collect();
    labs.sort_by_key(|lab| has_passed(lab));
    let failed = labs.iter().filter(|lab| !has_passed(lab)).count();
    let rows: Vec<Vec<String>> = labs.iter().copied().map(row).collect();
    let ranks = [0, 4, 2, 3, 3, 0, 1, 1];
    let grid = Grid { heads: &heads, rows: &rows, numbers: 1..4, ranks: &ranks };
    let mut out = painted(&grid, failed, layout);
    out.push('\n');
    for lab in &labs[..failed] {
        let conclusion = lab.record.as_ref().and_then(RunRecord::conclusion);
        if let Some(conclusion) = conclusion {
            out.push_str(&headline(&format!("{}:", lab.name), &conclusion, layout));
        }
    }
    out.truncate(out.trim_end().len());
    out.push('\n');
    out
}

fn passed(record: &RunRecord) -> bool {
    record.conclusion().is_some_and(|conclusion| conclusion.outcome == RunOutcome::Passed)
}

/// A table whose first rows are of failures.
fn painted(grid: &Grid<'_>, failed: usize, layout: &Layout) -> String {
    let lines = grid.lines(layout.table_width()).into_iter().enumerate();
    let lines = lines.map(|(at, line)| {
        let is_failed = (1..=failed).contains(&at);
        if is_failed { layout.paint(Tone::Bad, &line) } else { line }
    });
    lines.map(|line| line + "\n").collect()
}

/// Headings of a sweep's flow columns: two per flow, or, with many flows, some for all flows.
fn flow_heads(record: &RunRecord) -> Vec<String> {
    if record.flows.len() > MAX_SWEEP_FLOWS {
        let all = format!("goodput of {}", record.flows.len());
        let others = ["min", "max", "highest p99"].map(str::to_owned);
        return std::iter::once(all).chain(others).collect();
    }
    let heads = record.flows.iter().flat_map(|flow| {
        let what = delay(flow).map_or("delay", |(what, _)| what);
        [format!("{} goodput", flow.name), format!("{what} p99")]
    });
    heads.collect()
}

fn flow_cells(record: &RunRecord) -> Vec<String> {
    let nanos = |ns: Option<u64>| ns.map_or_else(|| "–".to_owned(), format::nanos);
    let p99 = |flow: &FlowSummary| delay(flow).map(|(_, delay)| delay.p99_ns);
    if record.flows.len() > MAX_SWEEP_FLOWS {
        let rates = || record.flows.iter().map(|flow| flow.goodput_bit_per_s);
        return vec![
            format::rate(rates().sum()),
            format::rate(rates().fold(f64::INFINITY, f64::min)),
            format::rate(rates().fold(0.0, f64::max)),
            nanos(record.flows.iter().filter_map(p99).max()),
        ];
    }
    let cells = record.flows.iter();
    cells.flat_map(|flow| [format::rate(flow.goodput_bit_per_s), nanos(p99(flow))]).collect()
}
