//! Tables and summaries for the terminal.

mod many;
mod outcome;

use std::fmt::Write as _;
use std::ops::Range;

use base::Distribution;
use run::RunRecord;
use run::record::{Clock, FlowSummary, HostEffect, LinkSummary, Outcome, ProgramSummary, Slowdown};

use crate::columns::Grid;
use crate::layout::{Layout, hanging};
use crate::{bundle, cluster, control, format, multipath};

pub use many::LabRow;
pub(crate) use many::{render_labs, render_sweep};
pub(crate) use outcome::{outcome_word, render as outcome_lines};

/// Further rows of a table are only counted.
const MAX_ROWS: usize = 20;

pub(crate) fn render(record: &RunRecord, layout: &Layout) -> String {
    let mut out = outcome::render(record, layout);
    out.push('\n');
    let mut table = |rows: Rows, numbers, ranks: &[u8]| {
        grid(&mut out, &Table { rows: &rows, numbers, ranks }, layout);
    };
    table(flow_rows(record), FLOW_NUMBERS, &[0, 3, 0, 4, 2, 0, 2, 0, 1, 5]);
    table(transfer_rows(record), 1..9, &[0, 1, 3, 2, 0, 3, 2, 0, 3]);
    table(link_rows(record), LINK_NUMBERS, &[0, 0, 0, 0, 0, 3, 4, 2, 1, 2]);
    let programs = record.programs.iter().filter(|program| program.as_expected);
    table(rows_of_programs(programs), PROGRAM_NUMBERS, &[0, 2, 0, 3, 4, 1]);
    table(passed_expectations(record), 0..0, &[0, 0]);
    for (name, value) in lines(record, layout) {
        let _ = writeln!(out, "{}", hanging(&format!("{name:8} "), &value, layout.width));
    }
    out.truncate(out.trim_end().len());
    out.push('\n');
    out
}

/// Names and values of the lines below the tables.
fn lines(record: &RunRecord, layout: &Layout) -> Vec<(&'static str, String)> {
    let mut lines = Vec::new();
    if layout.detail && record.clock == Clock::Wall {
        lines.push(("engine", format!("{}: {}", record.engine.name, record.engine.why)));
        let rejected = record.engine.rejected.iter();
        lines.extend(rejected.map(|e| ("", format!("not {}: {}", e.name, e.reason))));
    }
    if let (true, Some(d)) = (layout.detail, record.lateness.distribution) {
        let text = format!(
            "{} at p50, {} at p99.9, max {} ({} packets)",
            format::nanos(d.p50_ns),
            format::nanos(d.p999_ns),
            format::nanos(d.max_ns),
            format::count(d.count)
        );
        lines.push(("lateness", text));
    }
    lines.extend(bundle::lines(record));
    lines.extend(multipath::lines(record));
    lines.extend(cluster::lines(record));
    lines.extend(control::lines(record));
    lines.extend(simulation(record));
    lines
}

/// Trace hash and cost of a simulation.
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
            "{}, {} per second",
            format::count(took.events),
            format::large(took.events_per_s)
        );
        if took.packet_hops > 0 {
            let _ = write!(
                text,
                "; {} packet hops, {} per second",
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

/// Headings and rows of a table.
type Rows = (Vec<&'static str>, Vec<Vec<String>>);

/// The most relevant delay of a flow, and what it measures.
pub(crate) fn delay(flow: &FlowSummary) -> Option<(&'static str, Distribution)> {
    [
        ("datagrams", flow.delay),
        ("responses", flow.latency),
        ("transfers", flow.completion),
        ("RTT", flow.rtt),
    ]
    .into_iter()
    .find_map(|(what, delay)| Some((what, delay?)))
}

/// Numeric columns of the flow table.
pub(crate) const FLOW_NUMBERS: Range<usize> = 2..10;

/// The flow table: headings and rows, flows with an error first.
pub(crate) fn flow_rows(record: &RunRecord) -> Rows {
    let heads = vec![
        "flow",
        "kind",
        "goodput",
        "received",
        "completion",
        "delay of",
        "p50",
        "p99",
        "losses",
        "machine",
    ];
    let mut flows: Vec<&FlowSummary> = record.flows.iter().collect();
    flows.sort_by_key(|flow| flow.error.is_none());
    let rows = flows.into_iter().map(|flow| {
        let delay = delay(flow);
        let lost = flow.lost_datagrams.map(|n| format!("{} datagrams", format::count(n)));
        let resent = flow.retransmits.map(|n| format!("{} retransmits", format::count(n)));
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
            flow.host_effect.as_ref().map_or_else(|| "–".to_owned(), host_effect),
        ]
    });
    (heads, rows.collect())
}

/// Maximum effect of the host on goodput, p50 and p99.
fn host_effect(effect: &HostEffect) -> String {
    format!(
        "−{}, +{}, +{}",
        format::share(effect.goodput_share),
        format::nanos(effect.p50_ns),
        format::nanos(effect.p99_ns)
    )
}

/// The table of flows with transfers: headings and rows.
pub(crate) fn transfer_rows(record: &RunRecord) -> Rows {
    let heads = vec![
        "transfers",
        "completed",
        "completion mean",
        "completion p50",
        "completion p99",
        "slowdown mean",
        "slowdown p50",
        "slowdown p99",
        "slowdown max",
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

/// Numeric columns of the link table.
pub(crate) const LINK_NUMBERS: Range<usize> = 2..9;

/// The link table: headings and rows.
pub(crate) fn link_rows(record: &RunRecord) -> Rows {
    let heads = vec![
        "link",
        "direction",
        "mean rate",
        "utilisation",
        "dropped",
        "expired",
        "marked",
        "queue max",
        "wait p99",
        "cause of drops",
    ];
    let rows = busy_links(record).into_iter().map(|link| {
        vec![
            link.name.clone(),
            format!("{} → {}", link.from, link.to),
            format::rate(link.throughput_bit_per_s),
            link.utilisation.map_or_else(|| "–".to_owned(), format::share),
            format::count(link.dropped()),
            nonzero(link.expired()),
            nonzero(link.marks),
            format::bytes(link.queue_max_bytes),
            link.queue_delay.map_or_else(|| "–".to_owned(), |d| format::nanos(d.p99_ns)),
            causes(link),
        ]
    });
    (heads, rows.collect())
}

/// Links with packets: those that dropped any come first, then by utilisation.
pub(crate) fn busy_links(record: &RunRecord) -> Vec<&LinkSummary> {
    let mut links: Vec<_> = record.links.iter().filter(|link| link.packets() > 0).collect();
    links.sort_by(|a, b| {
        let loses = |l: &LinkSummary| l.dropped() + l.expired() > 0;
        let used = |l: &LinkSummary| l.utilisation.unwrap_or(0.0);
        let by_use = used(b).total_cmp(&used(a)).then(b.sent_bytes.cmp(&a.sent_bytes));
        loses(b).cmp(&loses(a)).then(by_use)
    });
    links
}

fn nonzero(count: u64) -> String {
    if count == 0 { "–".to_owned() } else { format::count(count) }
}

/// Why a link dropped packets; with the number for each of several reasons.
pub(crate) fn causes(link: &LinkSummary) -> String {
    let drops: Vec<_> = link.causes().collect();
    match drops.as_slice() {
        [] => "–".to_owned(),
        [(reason, _)] => (*reason).to_owned(),
        drops => {
            let text = drops.iter().map(|(reason, n)| format!("{} {reason}", format::count(*n)));
            text.collect::<Vec<_>>().join(", ")
        }
    }
}

/// Numeric columns of the program table.
pub(crate) const PROGRAM_NUMBERS: Range<usize> = 3..5;

/// The program table: headings and rows, failed programs first.
pub(crate) fn program_rows(record: &RunRecord) -> Rows {
    let mut programs: Vec<&ProgramSummary> = record.programs.iter().collect();
    programs.sort_by_key(|program| program.as_expected);
    rows_of_programs(programs.into_iter())
}

fn rows_of_programs<'a>(programs: impl Iterator<Item = &'a ProgramSummary>) -> Rows {
    let heads = vec!["program", "node", "ended", "at", "restarts", "command"];
    let rows = programs.map(|program| {
        vec![
            program.name.clone(),
            program.node.clone(),
            program_end(program),
            program.ended_s.map_or_else(|| "–".to_owned(), format::seconds),
            nonzero(program.restarts.into()),
            program.command.clone(),
        ]
    });
    (heads, rows.collect())
}

/// How a program ended, and whether the lab expected it.
pub(crate) fn program_end(program: &ProgramSummary) -> String {
    let end = format::program_exit(program);
    if program.as_expected { end } else { format!("{end} (unexpected)") }
}

/// Expectations that were met, with the measured values.
fn passed_expectations(record: &RunRecord) -> Rows {
    let passed = record.expectations.iter().filter(|e| e.outcome == Outcome::Passed);
    let row = |e: &run::record::ExpectationRecord| {
        vec![e.text.clone(), e.measured.clone().unwrap_or_default()]
    };
    (vec!["expectation met", "measured"], passed.map(row).collect())
}

struct Table<'a> {
    rows: &'a Rows,
    /// Columns of numbers.
    numbers: Range<usize>,
    /// See [`Grid::ranks`].
    ranks: &'a [u8],
}

/// Writes a table and an empty line, unless it has no rows.
fn grid(out: &mut String, table: &Table<'_>, layout: &Layout) {
    let (heads, rows) = table.rows;
    if rows.is_empty() {
        return;
    }
    let max = if layout.detail { rows.len() } else { MAX_ROWS };
    let shown = &rows[..rows.len().min(max)];
    let numbers = table.numbers.clone();
    let grid = Grid { heads, rows: shown, numbers, ranks: table.ranks };
    for line in grid.lines(layout.table_width()) {
        let _ = writeln!(out, "{line}");
    }
    if rows.len() > shown.len() {
        let _ = writeln!(out, "{}", layout.omitted(rows.len() - shown.len()));
    }
    out.push('\n');
}
