//! The outcome of a run with its failures and the effect of the machine: the first lines.

use std::fmt::Write as _;

use run::RunRecord;
use run::record::{Conclusion, ProgramSummary, RunOutcome, Status, Verdict};

use crate::format;
use crate::layout::{Layout, Tone, clean, hanging, shorten, wrap};

/// Width of the names of lines.
const LABEL: usize = 9;
/// Further failed programs are only counted.
const MAX_PROGRAMS: usize = 10;
/// Further failed expectations are only counted.
const MAX_EXPECTATIONS: usize = 20;
/// The last lines of standard error of a failed program.
const MAX_STDERR_LINES: usize = 5;
/// Further reasons against trust are only counted.
const MAX_REASONS: usize = 4;

/// The outcome in one word, as in JSON.
pub(crate) fn outcome_word(record: &RunRecord) -> &'static str {
    record.conclusion().map_or("running", |conclusion| conclusion.outcome.as_str())
}

pub(super) fn tone(outcome: RunOutcome) -> Tone {
    match outcome {
        RunOutcome::Passed => Tone::Good,
        RunOutcome::Untrusted => Tone::Warn,
        RunOutcome::Failed => Tone::Bad,
    }
}

/// Outcome and headline reason, failed programs, failed expectations, warnings, trust.
pub(crate) fn render(record: &RunRecord, layout: &Layout) -> String {
    let Some(conclusion) = record.conclusion() else {
        return with_warnings("outcome  running\n".to_owned(), record, &[], layout);
    };
    let mut out = headline("outcome", &conclusion, layout);
    if matches!(record.status, Status::Interrupted | Status::Killed) {
        let _ = writeln!(out, "{}the results so far are kept", " ".repeat(LABEL));
    }
    programs(&mut out, record, layout);
    expectations(&mut out, record, &conclusion, layout);
    let mut out = with_warnings(out, record, &conclusion.reasons, layout);
    if let Some(verdict) = &record.verdict {
        trust(&mut out, verdict, conclusion.outcome, layout);
    }
    out
}

/// The outcome after a label, with the most serious reason.
pub(super) fn headline(label: &str, conclusion: &Conclusion, layout: &Layout) -> String {
    let word = conclusion.outcome.as_str();
    let reason = conclusion.reasons.first().map(|reason| format!(": {reason}"));
    let label = format!("{label:width$} ", width = LABEL - 1);
    let text = hanging(&label, &format!("{word}{}", reason.unwrap_or_default()), layout.width);
    text.replacen(word, &layout.paint(tone(conclusion.outcome), word), 1) + "\n"
}

/// The failed programs with command, end and last lines of standard error.
fn programs(out: &mut String, record: &RunRecord, layout: &Layout) {
    let failed: Vec<_> = record.programs.iter().filter(|program| !program.as_expected).collect();
    if failed.is_empty() {
        return;
    }
    let _ = writeln!(out, "\nfailed programs ({} of {})", failed.len(), record.programs.len());
    let shown = if layout.detail { failed.len() } else { MAX_PROGRAMS };
    for program in failed.iter().take(shown) {
        failed_program(out, program, layout);
    }
    if failed.len() > shown {
        let _ = writeln!(out, "  {}", layout.omitted(failed.len() - shown));
    }
}

fn failed_program(out: &mut String, program: &ProgramSummary, layout: &Layout) {
    let at = program.ended_s.map(|at| format!(" at {}", format::seconds(at)));
    let text = format!("{} on {}: {}", program.name, program.node, format::program_exit(program));
    let text = shorten(&clean(&(text + &at.unwrap_or_default())), layout.width - 2);
    let _ = writeln!(out, "  {}", layout.paint(Tone::Bad, &text));
    let (width, lines) =
        if layout.detail { (usize::MAX, usize::MAX) } else { (layout.width - 6, MAX_STDERR_LINES) };
    let line = |text: &str| shorten(&clean(text), width);
    let _ = writeln!(out, "    $ {}", line(&program.command));
    let omitted = program.last_stderr.len().saturating_sub(lines);
    for text in &program.last_stderr[omitted..] {
        let _ = writeln!(out, "    | {}", line(text));
    }
}

/// Failed expectations, except the headline.
fn expectations(out: &mut String, record: &RunRecord, conclusion: &Conclusion, layout: &Layout) {
    let mut failed = record.failed_expectations();
    let total = failed.len();
    failed.retain(|text| conclusion.reasons.first() != Some(text));
    if failed.is_empty() {
        return;
    }
    let which = if failed.len() < total { "other failed" } else { "failed" };
    let (count, all) = (failed.len(), record.expectations.len());
    let _ = writeln!(out, "\n{which} expectations ({count} of {all})");
    let shown = if layout.detail { failed.len() } else { MAX_EXPECTATIONS };
    for text in failed.iter().take(shown) {
        let lines = wrap(text, layout.width - 4);
        let _ = writeln!(out, "  {}", layout.paint(Tone::Bad, &lines.join("\n    ")));
    }
    if failed.len() > shown {
        let _ = writeln!(out, "  {}", layout.omitted(failed.len() - shown));
    }
}

/// Adds the warnings, without those among the reasons of the outcome.
fn with_warnings(
    mut out: String,
    record: &RunRecord,
    reasons: &[String],
    layout: &Layout,
) -> String {
    let mut warnings = record.warnings.iter().filter(|warning| !reasons.contains(warning));
    if let Some(first) = warnings.next() {
        out.push('\n');
        for warning in std::iter::once(first).chain(warnings) {
            let _ = writeln!(out, "{}", hanging("warning: ", warning, layout.width));
        }
    }
    out
}

/// The effect of the machine on the results. The first reason of an untrusted run is its headline.
fn trust(out: &mut String, verdict: &Verdict, outcome: RunOutcome, layout: &Layout) {
    let headlines = usize::from(outcome == RunOutcome::Untrusted);
    let reasons = &verdict.reasons[headlines.min(verdict.reasons.len())..];
    let max = match (layout.detail, verdict.trusted) {
        (true, _) => reasons.len(),
        (false, true) => 1,
        (false, false) => MAX_REASONS,
    };
    let indent = " ".repeat(LABEL);
    let (mut label, mut word) = ("trust    ", "");
    match (outcome, verdict.trusted) {
        (RunOutcome::Untrusted, _) => label = &indent,
        (_, true) => word = "trusted: ",
        (_, false) => word = "untrusted: ",
    }
    if outcome == RunOutcome::Failed {
        out.push('\n');
    }
    for reason in reasons.iter().take(max) {
        let text = format!("{word}{reason}");
        let _ = writeln!(out, "{}", hanging(label, &text, layout.width));
        label = &indent;
        word = "";
    }
    if reasons.is_empty() && !word.is_empty() {
        let _ = writeln!(out, "{label}{}", word.trim_end_matches(": "));
    }
    if !verdict.trusted && reasons.len() > max {
        let _ = writeln!(out, "{indent}{}", layout.omitted(reasons.len() - max));
    }
}
