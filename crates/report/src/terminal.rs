//! The summary for a terminal.

use std::fmt::Write as _;
use std::ops::Range;

use base::Distribution;
use record::RunRecord;
use record::run::{FlowSummary, Outcome, ProgramEnd, RunOutcome, Slowdown, Status};

use crate::{LabRow, bundle, cluster, control, format, multipath};

/// Rows of a section before the rest is only counted.
const ROWS: usize = 20;

/// Flows that have columns of their own in the table of a sweep.
const SWEEP_FLOWS: usize = 3;

pub(crate) fn render(record: &RunRecord) -> String {
    let mut out = format!("outcome  {}\n", outcome_line(record));
    flows(&mut out, record);
    transfers(&mut out, record);
    links(&mut out, record);
    programs(&mut out, record);
    expectations(&mut out, record);
    for (at, warning) in record.warnings.iter().enumerate() {
        // The last one says why a run failed.
        let fatal = record.status == Status::Failed && at + 1 == record.warnings.len();
        let _ = writeln!(out, "{}: {warning}", if fatal { "error" } else { "warning" });
    }
    if record.status != Status::Finished {
        let _ = writeln!(out, "status   {}", status(record.status));
    }
    if let Some(d) = record.lateness.distribution {
        let _ = writeln!(
            out,
            "lateness {} at p50, {} at p99.9, {} at most ({} packets)",
            format::nanos(d.p50_ns),
            format::nanos(d.p999_ns),
            format::nanos(d.max_ns),
            format::count(d.count)
        );
    }
    let ours = bundle::lines(record).into_iter().chain(multipath::lines(record));
    let ours = ours.chain(cluster::lines(record));
    for (name, value) in ours.chain(control::lines(record)).chain(simulation(record)) {
        let _ = writeln!(out, "{name:8} {value}");
    }
    match &record.verdict {
        Some(verdict) => {
            let word = if verdict.trusted { "trusted" } else { "NOT TRUSTED" };
            let _ = writeln!(out, "verdict  {word}: {}", verdict.reasons.join("; "));
        }
        None => out.push_str("verdict  none yet\n"),
    }
    out
}

/// What repeats exactly, and what simulating took.
pub(crate) fn simulation(record: &RunRecord) -> Vec<(&'static str, String)> {
    let mut lines = Vec::new();
    if let Some(took) = &record.simulation {
        let text = format!(
            "{} of virtual time in {}: {} real time",
            format::seconds(record.elapsed_s),
            format::seconds(took.wall_s),
            format::times(took.speed_factor)
        );
        lines.push(("clock", text));
        let mut text = format!(
            "{}, {} a second",
            format::count(took.events),
            format::large(took.events_per_s)
        );
        if took.packet_hops > 0 {
            let _ = write!(
                text,
                "; {} packet-hops, {} a second",
                format::count(took.packet_hops),
                format::large(took.packet_hops as f64 / took.wall_s.max(1e-9))
            );
        }
        lines.push(("events", text));
        lines.extend(took.peak_memory_bytes.map(|bytes| ("memory", format::bytes(bytes))));
        lines.push(("seed", record.seed.to_string()));
    }
    lines.extend(record.trace_hash.clone().map(|hash| ("trace", hash)));
    lines
}

/// The outcome in a word.
pub(crate) fn outcome_word(record: &RunRecord) -> &'static str {
    match record.conclusion().map(|conclusion| conclusion.outcome) {
        Some(RunOutcome::Passed) => "passed",
        Some(RunOutcome::Untrusted) => "NOT TRUSTED",
        Some(RunOutcome::Failed) => "FAILED",
        None => "running",
    }
}

fn outcome_line(record: &RunRecord) -> String {
    let word = outcome_word(record);
    let reasons = record.conclusion().map(|conclusion| conclusion.reasons).unwrap_or_default();
    if reasons.is_empty() { word.to_owned() } else { format!("{word}: {}", reasons.join("; ")) }
}

pub(crate) fn status(status: Status) -> &'static str {
    match status {
        Status::Running => "running",
        Status::Finished => "finished",
        Status::Interrupted => "interrupted; results so far are kept",
        Status::Killed => "killed; what had been written is kept",
        Status::Failed => "failed",
        _ => "unknown",
    }
}

/// The delay that says most about a flow, and of what it is.
fn delay(flow: &FlowSummary) -> Option<(&'static str, Distribution)> {
    [
        ("datagrams", flow.delay),
        ("responses", flow.latency),
        ("transfers", flow.completion),
        ("round trip", flow.rtt),
    ]
    .into_iter()
    .find_map(|(what, delay)| Some((what, delay?)))
}

/// Columns of the flow table that have numbers.
pub(crate) const FLOW_NUMBERS: std::ops::Range<usize> = 2..9;

/// Cells of the flow table below its heading.
pub(crate) fn flow_rows(record: &RunRecord) -> (Vec<&'static str>, Vec<Vec<String>>) {
    let heads = vec![
        "flow",
        "kind",
        "goodput",
        "received",
        "took",
        "delay of",
        "p50",
        "p99",
        "lost or resent",
    ];
    let rows = record.flows.iter().map(|flow| {
        let delay = delay(flow);
        let lost = flow.lost_datagrams.map(|n| format!("{} datagrams", format::count(n)));
        let resent = flow.retransmits.map(|n| format!("{} resent", format::count(n)));
        vec![
            flow.name.clone(),
            match &flow.error {
                Some(error) => format!("{}: {error}", flow.kind),
                None => flow.kind.clone(),
            },
            format::rate(flow.goodput_bit_per_s),
            format::bytes(flow.received_bytes),
            flow.completion_s.map_or_else(|| "–".to_owned(), format::seconds),
            delay.map_or("–", |(what, _)| what).to_owned(),
            delay.map_or_else(|| "–".to_owned(), |(_, d)| format::nanos(d.p50_ns)),
            delay.map_or_else(|| "–".to_owned(), |(_, d)| format::nanos(d.p99_ns)),
            lost.or(resent).unwrap_or_else(|| "–".to_owned()),
        ]
    });
    (heads, rows.collect())
}

/// Cells of the table of flows that are many transfers.
pub(crate) fn transfer_rows(record: &RunRecord) -> (Vec<&'static str>, Vec<Vec<String>>) {
    let heads = vec![
        "transfers",
        "completed",
        "took mean",
        "p50",
        "p99",
        "slowdown mean",
        "p50",
        "p99",
        "at most",
    ];
    let rows = record.flows.iter().filter_map(|flow| {
        let completed = flow.transfers_completed?;
        let started = flow.transfers_started.unwrap_or(completed);
        let took = |pick: fn(&Distribution) -> f64| {
            let ns = flow.completion.as_ref().map(pick);
            ns.map_or_else(|| "–".to_owned(), |ns| format::seconds(ns / 1e9))
        };
        let slowdown = |pick: fn(&Slowdown) -> f64| {
            flow.slowdown.as_ref().map_or_else(|| "–".to_owned(), |s| format::times(pick(s)))
        };
        Some(vec![
            flow.name.clone(),
            format!("{} of {}", format::count(completed), format::count(started)),
            took(|d| d.mean_ns),
            took(|d| d.p50_ns as f64),
            took(|d| d.p99_ns as f64),
            slowdown(|s| s.mean),
            slowdown(|s| s.p50),
            slowdown(|s| s.p99),
            slowdown(|s| s.max),
        ])
    });
    (heads, rows.collect())
}

/// Cells of the link table: the busiest direction first.
pub(crate) fn link_rows(record: &RunRecord) -> (Vec<&'static str>, Vec<Vec<String>>) {
    let heads =
        vec!["link", "way", "mean rate", "used", "dropped", "marked", "queue max", "wait p99"];
    let mut links: Vec<_> =
        record.links.iter().filter(|l| l.sent_packets + l.dropped() > 0).collect();
    links.sort_by(|a, b| {
        let used = |l: &record::run::LinkSummary| l.utilisation.unwrap_or(0.0);
        used(b).total_cmp(&used(a)).then(b.sent_bytes.cmp(&a.sent_bytes))
    });
    let rows = links.into_iter().map(|link| {
        let reasons: Vec<_> =
            link.drops.iter().map(|(r, n)| format!("{} {r}", format::count(*n))).collect();
        vec![
            link.name.clone(),
            format!("{} → {}", link.from, link.to),
            format::rate(link.throughput_bit_per_s),
            link.utilisation.map_or_else(|| "–".to_owned(), format::share),
            if reasons.is_empty() { "0".to_owned() } else { reasons.join(", ") },
            format::count(link.marks),
            format::bytes(link.queue_max_bytes),
            link.queue_delay.map_or_else(|| "–".to_owned(), |d| format::nanos(d.p99_ns)),
        ]
    });
    (heads, rows.collect())
}

/// Cells of the program table.
pub(crate) fn program_rows(record: &RunRecord) -> (Vec<&'static str>, Vec<Vec<String>>) {
    let heads = vec!["program", "node", "ended", "at", "restarts", "command"];
    let rows = record.programs.iter().map(|program| {
        let end = match program.end {
            None if program.started_s.is_none() => "never started".to_owned(),
            None => "–".to_owned(),
            Some(ProgramEnd::Exit(status)) => format!("exit {status}"),
            Some(ProgramEnd::Signal(signal)) => format!("signal {signal}"),
            Some(ProgramEnd::OutOfMemory) => "killed: out of memory".to_owned(),
            Some(ProgramEnd::Stopped) => "stopped by the lab".to_owned(),
        };
        vec![
            program.name.clone(),
            program.node.clone(),
            if program.as_expected { end } else { format!("{end} (unexpected)") },
            program.ended_s.map_or_else(|| "–".to_owned(), format::seconds),
            program.restarts.to_string(),
            program.command.clone(),
        ]
    });
    (heads, rows.collect())
}

/// One row a run: what the sweep chose, what the flows got, what was expected and whether to trust
/// it.
pub(crate) fn render_sweep(records: &[RunRecord]) -> String {
    let Some(first) = records.first() else { return String::new() };
    let mut heads: Vec<String> = first.sweep.iter().map(|value| value.parameter.clone()).collect();
    let numbers = heads.len();
    heads.extend(flow_heads(first));
    let numbers = numbers..heads.len();
    heads.extend(["expected", "outcome", "run"].map(str::to_owned));
    let row = |record: &RunRecord| {
        let held = record.expectations.iter().filter(|e| e.outcome == Outcome::Passed).count();
        let mut cells: Vec<String> = record.sweep.iter().map(|value| value.value.clone()).collect();
        cells.extend(flow_cells(record));
        cells.push(format!("{held} of {}", record.expectations.len()));
        cells.push(outcome_word(record).to_owned());
        cells.push(format!("{}-{}", record.name, record.id));
        cells
    };
    let rows: Vec<Vec<String>> = records.iter().map(row).collect();
    let heads: Vec<&str> = heads.iter().map(String::as_str).collect();
    let mut out = String::new();
    grid(&mut out, &heads, &rows, numbers);
    out
}

/// One row a lab of those that ran at once: what its flows got, what was expected, whether to
/// trust it, how it ended and where its results are; below, why some are not to be trusted.
pub(crate) fn render_labs(labs: &[LabRow]) -> String {
    let heads = ["lab", "ran", "goodput", "highest p99", "expected", "outcome", "ended", "run"];
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
            let held = record.expectations.iter().filter(|e| e.outcome == Outcome::Passed).count();
            cells[4] = format!("{held} of {}", record.expectations.len());
        }
        outcome_word(record).clone_into(&mut cells[5]);
        cells[7] = format!("{}-{}", record.name, record.id);
        cells
    };
    let rows: Vec<Vec<String>> = labs.iter().map(row).collect();
    let mut out = String::new();
    grid_of(rows.len(), &mut out, &heads, &rows, 1..4);
    for lab in labs {
        let bad = |r: &&RunRecord| r.conclusion().is_some_and(|c| c.outcome != RunOutcome::Passed);
        if let Some(record) = lab.record.as_ref().filter(bad) {
            let _ = writeln!(out, "{}: {}", lab.name, outcome_line(record));
        }
    }
    out
}

/// Names of a sweep's columns about flows: two for each of a few, or some about all of them.
fn flow_heads(record: &RunRecord) -> Vec<String> {
    if record.flows.len() > SWEEP_FLOWS {
        let all = format!("goodput of {}", record.flows.len());
        let others = ["least", "most", "highest p99"].map(str::to_owned);
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
    if record.flows.len() > SWEEP_FLOWS {
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

fn flows(out: &mut String, record: &RunRecord) {
    let (heads, rows) = flow_rows(record);
    grid(out, &heads, &rows, FLOW_NUMBERS);
}

fn transfers(out: &mut String, record: &RunRecord) {
    let (heads, rows) = transfer_rows(record);
    grid(out, &heads, &rows, 1..9);
}

fn links(out: &mut String, record: &RunRecord) {
    let (heads, rows) = link_rows(record);
    grid(out, &heads, &rows, 2..8);
}

fn programs(out: &mut String, record: &RunRecord) {
    let (heads, rows) = program_rows(record);
    grid(out, &heads, &rows, 3..5);
    for program in record.programs.iter().filter(|p| !p.as_expected) {
        for line in &program.last_stderr {
            let _ = writeln!(out, "  {}: {line}", program.name);
        }
    }
}

fn expectations(out: &mut String, record: &RunRecord) {
    if record.expectations.is_empty() {
        return;
    }
    for expectation in &record.expectations {
        let word = match expectation.outcome {
            Outcome::Passed => "held  ",
            Outcome::Failed => "FAILED",
            Outcome::Unmeasured => "FAILED (not measured)",
        };
        let measured = expectation.measured.as_deref().map(|m| format!("  [{m}]"));
        let _ = writeln!(out, "{word} {}{}", expectation.text, measured.unwrap_or_default());
    }
    out.push('\n');
}

/// Writes aligned columns; those in `numbers` to the right.
fn grid(out: &mut String, heads: &[&str], rows: &[Vec<String>], numbers: Range<usize>) {
    grid_of(ROWS, out, heads, rows, numbers);
}

/// The same with another number of rows at most.
fn grid_of(
    most: usize,
    out: &mut String,
    heads: &[&str],
    rows: &[Vec<String>],
    numbers: Range<usize>,
) {
    if rows.is_empty() {
        return;
    }
    let shown = &rows[..rows.len().min(most)];
    let width = |text: &str| text.chars().count();
    let mut widths: Vec<usize> = heads.iter().map(|h| width(h)).collect();
    for row in shown {
        for (most, cell) in widths.iter_mut().zip(row) {
            *most = (*most).max(width(cell));
        }
    }
    let mut line = |cells: &[&str]| {
        let mut text = String::new();
        for (index, (cell, most)) in cells.iter().zip(&widths).enumerate() {
            let fill = " ".repeat(most - width(cell));
            let gap = if index > 0 { "  " } else { "" };
            let (before, after) =
                if numbers.contains(&index) { (&*fill, "") } else { ("", &*fill) };
            let _ = write!(text, "{gap}{before}{cell}{after}");
        }
        let _ = writeln!(out, "{}", text.trim_end());
    };
    line(heads);
    for row in shown {
        line(&row.iter().map(String::as_str).collect::<Vec<_>>());
    }
    if rows.len() > shown.len() {
        let _ = writeln!(out, "… and {} more, see the report", rows.len() - shown.len());
    }
    out.push('\n');
}
