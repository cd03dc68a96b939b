//! A summary of runs in Markdown, for the job summary of a CI run.
//!
//! Names, expectations and output of programs come from outside. They are only written as code
//! (spans and fenced blocks), in which Markdown, HTML, links and mentions have no effect.

use std::fmt::Write as _;

use run::record::{Clock, Outcome, RunOutcome};
use run::{RunFolder, RunRecord};

use crate::series::{Fold, Grid, Samples, Series, link_key};
use crate::{Error, format, terminal};

/// Further runs are only listed in the first table.
const MAX_RUNS: usize = 20;
/// Maximum number of rows of the first table.
const MAX_LISTED_RUNS: usize = 200;
/// Further rows of a table are only counted.
const MAX_ROWS: usize = 12;
/// Lines of the standard error of a program that failed.
const MAX_STDERR_LINES: usize = 10;
/// Longer texts are cut.
const MAX_TEXT_CHARS: usize = 300;
/// Points of a sparkline.
const POINTS: usize = 24;

/// The summary of finished runs, failures first.
///
/// # Errors
/// If a table of a run cannot be read.
pub fn markdown(runs: &[(RunFolder, RunRecord)]) -> Result<String, Error> {
    let mut runs: Vec<_> = runs.iter().collect();
    // Stable: runs of the same outcome keep their order.
    runs.sort_by_key(|(_, record)| record.conclusion().map(|found| severity(found.outcome)));
    let mut out = String::new();
    if runs.len() > 1 {
        overview(&mut out, runs.iter().map(|(_, record)| record));
    }
    for (folder, record) in runs.iter().take(MAX_RUNS) {
        details(&mut out, folder, record)?;
    }
    if runs.len() > MAX_RUNS {
        let _ = writeln!(out, "{} more runs have no details here.", runs.len() - MAX_RUNS);
    }
    Ok(out)
}

const fn severity(outcome: RunOutcome) -> u8 {
    match outcome {
        RunOutcome::Failed => 0,
        RunOutcome::Untrusted => 1,
        RunOutcome::Passed => 2,
    }
}

fn mark(record: &RunRecord) -> &'static str {
    match record.conclusion().map(|found| found.outcome) {
        Some(RunOutcome::Passed) => "✅",
        Some(RunOutcome::Untrusted) => "⚠️",
        Some(RunOutcome::Failed) => "❌",
        None => "⏳",
    }
}

fn overview<'a>(out: &mut String, records: impl Iterator<Item = &'a RunRecord> + Clone) {
    let of = |outcome| {
        let found = records.clone().filter_map(RunRecord::conclusion);
        found.filter(|found| found.outcome == outcome).count()
    };
    let (failed, untrusted) = (of(RunOutcome::Failed), of(RunOutcome::Untrusted));
    let (passed, total) = (of(RunOutcome::Passed), records.clone().count());
    let worst = records.clone().next().map_or("", mark);
    let _ = writeln!(
        out,
        "## {worst} {passed} of {total} runs passed, {failed} failed, {untrusted} not trusted\n"
    );
    let row = |record: &RunRecord| {
        let sweep: Vec<String> =
            record.sweep.iter().map(|s| format!("{} = {}", s.parameter, s.value)).collect();
        vec![
            format!("{} {}", mark(record), terminal::outcome_word(record)),
            cell(&record.name),
            if sweep.is_empty() { "–".to_owned() } else { cell(&sweep.join(", ")) },
            record.seed.to_string(),
            expected(record),
            cell(&format!("{}-{}", record.name, record.id)),
        ]
    };
    let heads = ["outcome", "lab", "values", "seed", "expectations", "run"];
    let rows: Vec<Vec<String>> = records.map(row).collect();
    table(out, &heads, &rows, MAX_LISTED_RUNS);
}

fn expected(record: &RunRecord) -> String {
    let passed = record.expectations.iter().filter(|e| e.outcome == Outcome::Passed).count();
    match record.expectations.len() {
        0 => "–".to_owned(),
        all => format!("{passed} of {all}"),
    }
}

fn details(out: &mut String, folder: &RunFolder, record: &RunRecord) -> Result<(), Error> {
    let (mark, word) = (mark(record), terminal::outcome_word(record));
    let _ = writeln!(out, "### {mark} {}: {word}\n", code(&record.name));
    let reasons = record.conclusion().map(|found| found.reasons).unwrap_or_default();
    for reason in &reasons {
        let _ = writeln!(out, "- {}", code(reason));
    }
    if !reasons.is_empty() {
        out.push('\n');
    }
    programs(out, record);
    expectations(out, record);
    let samples = Samples::read(folder)?;
    let grid = Grid::with_points(record, POINTS);
    flows(out, record, &samples, grid);
    links(out, record, &samples, grid);
    let clock = match record.clock {
        Clock::Wall => "wall clock",
        Clock::Virtual => "virtual clock",
    };
    let _ = writeln!(
        out,
        "{clock}, {}, seed {}; repeat: {}\n",
        format::seconds(record.elapsed_s),
        record.seed,
        code(&record.repeat)
    );
    Ok(())
}

/// The programs that failed, each with the end of its standard error.
fn programs(out: &mut String, record: &RunRecord) {
    for program in record.programs.iter().filter(|p| !p.as_expected).take(MAX_ROWS) {
        let (name, node) = (code(&program.name), code(&program.node));
        let end = terminal::program_end(program);
        let _ = writeln!(out, "program {name} on {node}: {end}\n");
        let skipped = program.last_stderr.len().saturating_sub(MAX_STDERR_LINES);
        if program.last_stderr.len() > skipped {
            out.push_str(&fenced(&program.last_stderr[skipped..]));
        }
    }
}

/// The table of expectations, failures first.
fn expectations(out: &mut String, record: &RunRecord) {
    let mut list: Vec<_> = record.expectations.iter().collect();
    list.sort_by_key(|e| e.outcome == Outcome::Passed);
    let rows = list.into_iter().map(|e| {
        let result = match e.outcome {
            Outcome::Passed => "✅ passed",
            Outcome::Failed => "❌ failed",
            Outcome::Unmeasured => "❌ not measured",
            Outcome::Undecided => "⚠️ undecided",
        };
        let measured = e.measured.as_deref().map_or_else(|| "–".to_owned(), cell);
        vec![result.to_owned(), cell(&e.text), measured]
    });
    table(out, &["result", "expectation", "measured"], &rows.collect::<Vec<_>>(), MAX_ROWS);
}

fn flows(out: &mut String, record: &RunRecord, samples: &Samples, grid: Grid) {
    let series = samples.flow("received_bytes");
    let series = series.map(|c| c.series(grid, Fold::PerSecond, 8.0)).unwrap_or_default();
    // One scale for all flows, so that they can be compared.
    let top = series.iter().map(highest).fold(0.0, f64::max);
    let (_, rows) = terminal::flow_rows(record);
    let rows = rows.into_iter().map(|cells| {
        vec![
            cell(&cells[0]),
            cell(&cells[1]),
            cells[2].clone(),
            sparkline(series.iter().find(|line| line.name == cells[0]), top),
            cells[7].clone(),
            cells[8].clone(),
        ]
    });
    let over = format!("goodput over time, up to {}", format::rate(top));
    let heads = ["flow", "kind", "goodput", &over, "delay p99", "lost or retransmitted"];
    table(out, &heads, &rows.collect::<Vec<_>>(), MAX_ROWS);
}

fn links(out: &mut String, record: &RunRecord, samples: &Samples, grid: Grid) {
    let series = samples.link("sent_bytes");
    let series = series.map(|c| c.series(grid, Fold::PerSecond, 8.0)).unwrap_or_default();
    let (_, rows) = terminal::link_rows(record);
    let rows = terminal::busy_links(record).into_iter().zip(rows).map(|(link, cells)| {
        let key = link_key(&link.name, &link.direction);
        let line = series.iter().find(|line| line.name == key);
        // The scale of a limited link is its rate, of others their maximum.
        let topology = record.topology.links.iter().find(|other| other.name == link.name);
        let rate = topology.and_then(|l| l.rate_bit_per_s[usize::from(link.direction != "up")]);
        let top = rate.map_or_else(|| line.map_or(0.0, highest), |rate| rate as f64);
        vec![
            cell(&cells[0]),
            cell(&cells[1]),
            cells[3].clone(),
            sparkline(line, top),
            cells[4].clone(),
            cells[7].clone(),
        ]
    });
    let heads =
        ["link", "direction", "utilisation", "utilisation over time", "dropped", "queue max"];
    table(out, &heads, &rows.collect::<Vec<_>>(), MAX_ROWS);
}

fn highest(line: &Series) -> f64 {
    line.values.iter().flatten().copied().fold(0.0, f64::max)
}

/// One character per point, from an empty to a full block; `top` is the full block.
fn sparkline(line: Option<&Series>, top: f64) -> String {
    const BLOCKS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
    let Some(line) = line else { return "–".to_owned() };
    let block = |value: &Option<f64>| {
        let share = value.filter(|_| top > 0.0).map_or(0.0, |value| value / top);
        BLOCKS[((share * 8.0).ceil() as usize).clamp(1, 8) - 1]
    };
    line.values.iter().map(block).collect()
}

/// Writes a table. Cells must not contain bars or line breaks.
fn table(out: &mut String, heads: &[&str], rows: &[Vec<String>], max: usize) {
    if rows.is_empty() {
        return;
    }
    let _ = writeln!(out, "| {} |\n|{}", heads.join(" | "), " --- |".repeat(heads.len()));
    for row in rows.iter().take(max) {
        let _ = writeln!(out, "| {} |", row.join(" | "));
    }
    out.push('\n');
    if rows.len() > max {
        let _ = writeln!(out, "{} more rows are in the report.\n", rows.len() - max);
    }
}

/// A code span in a cell of a table. Parsers disagree on escaped bars in code: bars are replaced.
fn cell(text: &str) -> String {
    code(&text.replace('|', "¦"))
}

/// A code span of one line, delimited by more backticks than the text has in a row.
fn code(text: &str) -> String {
    let text = shortened(&text.replace(['\n', '\t'], " "));
    let delimiter = "`".repeat(longest_run(&text) + 1);
    if text.trim().is_empty() {
        "–".to_owned()
    } else if text.starts_with('`') || text.ends_with('`') {
        // One space on each side is not part of the span.
        format!("{delimiter} {text} {delimiter}")
    } else {
        format!("{delimiter}{text}{delimiter}")
    }
}

/// A fenced block, delimited by more backticks than the lines have in a row.
fn fenced(lines: &[String]) -> String {
    let lines: Vec<String> = lines.iter().map(|line| shortened(&line.replace('\n', " "))).collect();
    let longest = lines.iter().map(|line| longest_run(line)).max().unwrap_or(0);
    let fence = "`".repeat(longest.max(2) + 1);
    format!("{fence}text\n{}\n{fence}\n\n", lines.join("\n"))
}

fn shortened(text: &str) -> String {
    let text = format::visible(text);
    if text.chars().count() <= MAX_TEXT_CHARS {
        return text;
    }
    text.chars().take(MAX_TEXT_CHARS).chain(['…']).collect()
}

/// The largest number of backticks in a row.
fn longest_run(text: &str) -> usize {
    text.split(|c| c != '`').map(str::len).max().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn code_spans_hold_any_text() {
        assert_eq!(code("a*b*"), "`a*b*`");
        assert_eq!(code("a`b``c"), "```a`b``c```");
        assert_eq!(code("`x`"), "`` `x` ``");
        assert_eq!(code(" \n"), "–");
        assert_eq!(code("one\ntwo\u{1b}[31m\u{202e}"), "`one two\u{fffd}[31m\u{fffd}`");
        assert_eq!(cell("a|b"), "`a¦b`");
        assert_eq!(code(&"x".repeat(1000)).chars().count(), MAX_TEXT_CHARS + 3);
    }

    #[test]
    fn fences_are_longer_than_those_in_the_output() {
        let lines = ["````".to_owned(), "<img src=x>\n# head".to_owned()];
        assert_eq!(fenced(&lines), "`````text\n````\n<img src=x> # head\n`````\n\n");
        assert_eq!(fenced(&["x".to_owned()]), "```text\nx\n```\n\n");
    }

    #[test]
    fn sparklines_scale_to_the_top() {
        let values = vec![Some(0.0), None, Some(1.0), Some(50.0), Some(100.0), Some(120.0)];
        let line = Series { name: String::new(), style: 0, values };
        assert_eq!(sparkline(Some(&line), 100.0), "▁▁▁▄██");
        assert_eq!(sparkline(Some(&line), 0.0), "▁▁▁▁▁▁");
        assert_eq!(sparkline(None, 1.0), "–");
    }
}
