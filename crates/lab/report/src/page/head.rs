//! The start of the page: outcome, failed programs, headline numbers.

use std::fmt::Write as _;

use base::Distribution;
use run::RunRecord;
use run::record::{Clock, FlowSummary, LinkSummary, ProgramSummary, RunOutcome, Status};

use crate::format::{self, escape};
use crate::terminal;

/// Further failed programs are in the table of programs.
const MAX_FAILED_PROGRAMS: usize = 20;
/// With more flows, only the sum of their goodputs is shown.
const MAX_GOODPUTS: usize = 3;

/// The outcome with its reasons, the failed programs and the headline numbers.
pub(super) fn render(record: &RunRecord) -> String {
    let mut out = String::new();
    outcome(&mut out, record);
    for program in failed(record).take(MAX_FAILED_PROGRAMS) {
        failed_program(&mut out, program);
    }
    if let Some(more) = failed(record).count().checked_sub(MAX_FAILED_PROGRAMS).filter(|n| *n > 0) {
        let _ = write!(out, "<p>{} are in the table of programs.</p>", more_programs(more));
    }
    tiles(&mut out, record);
    out
}

fn more_programs(more: usize) -> String {
    format!("{} more failed programs", format::count(more as u64))
}

fn failed(record: &RunRecord) -> impl Iterator<Item = &ProgramSummary> {
    record.programs.iter().filter(|program| !program.as_expected)
}

/// The outcome with its reasons, and the name of the run.
fn outcome(out: &mut String, record: &RunRecord) {
    let conclusion = record.conclusion();
    let (class, mark, word) = match conclusion.as_ref().map(|conclusion| conclusion.outcome) {
        Some(RunOutcome::Passed) => ("good", "✓", "Passed"),
        Some(RunOutcome::Untrusted) => ("warn", "!", "Untrusted"),
        Some(RunOutcome::Failed) => ("bad", "✗", "Failed"),
        None => ("open", "?", "Running"),
    };
    let _ = write!(
        out,
        "<header class=\"verdict {class}\"><span class=\"mark\" aria-hidden=\"true\">{mark}</span>\
         <div><h1><strong>{word}</strong> {}</h1>",
        escape(&record.name)
    );
    let mut reasons = conclusion.map(|conclusion| conclusion.reasons).unwrap_or_default();
    if !reasons.is_empty() {
        let _ = write!(out, "<p class=\"reason\">{}</p>", escape(&reasons.remove(0)));
    }
    let verdict = record.verdict.iter().filter(|_| class != "warn");
    let against = verdict.clone().filter(|verdict| !verdict.trusted);
    reasons.extend(against.flat_map(|v| &v.reasons).map(|reason| format!("untrusted: {reason}")));
    if class == "good" {
        // One reason; the others are among the details of the run.
        let first = verdict.filter_map(|verdict| verdict.reasons.first());
        reasons.extend(first.map(|reason| format!("trusted: {reason}")));
    }
    let failure = record.conclusion().and_then(|conclusion| conclusion.reasons.into_iter().next());
    let warnings = record.warnings.iter().filter(|warning| failure.as_ref() != Some(warning));
    reasons.extend(warnings.map(|warning| format!("warning: {warning}")));
    if !reasons.is_empty() {
        out.push_str("<ul>");
        for reason in &reasons {
            let _ = write!(out, "<li>{}</li>", escape(reason));
        }
        out.push_str("</ul>");
    }
    let _ = write!(out, "<p class=\"run\">Netarium run {}", escape(&record.id));
    out.push_str(if record.clock == Clock::Virtual { " · virtual clock" } else { "" });
    let _ = write!(out, " · {}", format::utc(record.started_unix_ms));
    if record.status != Status::Finished {
        let _ = write!(out, " · Status: {}", format::status(record.status));
    }
    for value in &record.sweep {
        let _ = write!(out, " · {} = {}", escape(&value.parameter), escape(&value.value));
    }
    out.push_str("</p></div></header>");
}

/// A failed program with its command and the last lines of its standard error.
fn failed_program(out: &mut String, program: &ProgramSummary) {
    let at = program.ended_s.map(|at| format!(" at {}", format::seconds(at))).unwrap_or_default();
    let _ = write!(
        out,
        "<div class=\"failure\"><p><strong>{}</strong> on {}: {}{at}</p><pre>$ {}",
        escape(&program.name),
        escape(&program.node),
        format::program_exit(program),
        escape(&program.command)
    );
    for line in &program.last_stderr {
        let _ = write!(out, "\n{}", escape(line));
    }
    out.push_str("</pre></div>");
}

fn tiles(out: &mut String, record: &RunRecord) {
    let tile = |out: &mut String, name: &str, value: &str, note: &str| {
        let (value, note) = (escape(value), escape(note));
        let _ = write!(out, "<div><dt>{name}</dt><dd>{value}<small>{note}</small></dd></div>");
    };
    out.push_str("<dl class=\"tiles\">");
    if !record.flows.is_empty() {
        let sum = record.flows.iter().map(|flow| flow.goodput_bit_per_s).sum();
        tile(out, "goodput", &format::rate(sum), &goodputs(record));
    }
    if let Some((what, flow, delay)) = highest_delay(record) {
        let note = format!("p99 of {flow}; p50 {}", format::nanos(delay.p50_ns));
        tile(out, what, &format::nanos(delay.p99_ns), &note);
    }
    loss(&mut |name, value, note| tile(out, name, value, note), record);
    let planned = format!("of {} planned", format::seconds(record.planned_s));
    tile(out, "duration", &format::seconds(record.elapsed_s), &planned);
    let size = format::plural(record.topology.links.len(), "link");
    let nodes = format::plural(record.topology.nodes.len(), "node");
    tile(out, "network", &nodes, &size);
    if let Some(d) = record.lateness.distribution {
        let note = format!("p99.9; median {}", format::nanos(d.p50_ns));
        tile(out, "lateness", &format::nanos(d.p999_ns), &note);
    }
    if let Some(took) = &record.simulation {
        let note = format!("real time; {} events/s", format::large(took.events_per_s));
        tile(out, "speed", &format::times(took.speed_factor), &note);
    }
    out.push_str("</dl>");
}

/// The goodput of each of a few flows, or the number of flows.
fn goodputs(record: &RunRecord) -> String {
    match record.flows.as_slice() {
        [flow] => flow.name.clone(),
        flows if flows.len() <= MAX_GOODPUTS => {
            let one = |flow: &FlowSummary| {
                format!("{} {}", flow.name, format::rate(flow.goodput_bit_per_s))
            };
            flows.iter().map(one).collect::<Vec<_>>().join(", ")
        }
        flows => format!("sum of {}", format::plural(flows.len(), "flow")),
    }
}

/// The flow with the highest p99 of the RTT, or without RTTs, of another delay.
fn highest_delay(record: &RunRecord) -> Option<(&'static str, &str, Distribution)> {
    let rtts = record.flows.iter().filter_map(|flow| Some(("RTT", flow, flow.rtt?)));
    let others = record.flows.iter().filter_map(|flow| {
        let (what, delay) = terminal::delay(flow)?;
        Some((what, flow, delay))
    });
    let p99 = |(_, _, delay): &(&str, &FlowSummary, Distribution)| delay.p99_ns;
    let (what, flow, delay) = rtts.max_by_key(p99).or_else(|| others.max_by_key(p99))?;
    Some((what, &flow.name, delay))
}

/// Packets that links dropped, and datagrams that never arrived.
fn loss(tile: &mut dyn FnMut(&str, &str, &str), record: &RunRecord) {
    let sum = |pick: fn(&LinkSummary) -> u64| record.links.iter().map(pick).sum::<u64>();
    let (dropped, expired) = (sum(LinkSummary::dropped), sum(LinkSummary::expired));
    let all = record.links.iter().map(|link| link.sent_packets).sum::<u64>() + dropped;
    let share = dropped as f64 / all.max(1) as f64;
    let mut note = format!("{} of {} packets", format::count(dropped), format::count(all));
    if expired > 0 {
        let _ = write!(note, "; TTL of {} expired", format::count(expired));
    }
    tile("dropped on links", &format::share(share), &note);
    let sum = |pick: fn(&FlowSummary) -> Option<u64>| record.flows.iter().filter_map(pick).sum();
    let (lost, sent): (u64, u64) = (sum(|f| f.lost_datagrams), sum(|f| f.sent_datagrams));
    if sent > 0 {
        let share = lost as f64 / sent as f64;
        let note = format!("{} of {} datagrams", format::count(lost), format::count(sent));
        tile("lost datagrams", &format::share(share), &note);
    }
}
