//! The subcommand `doctor`.

use base::Span;
use emu::doctor::{Facts, Finding, Level, choose, findings, prediction};
use serde_json::{Value, json};

use crate::args::Doctor;
use crate::terminal::{Style, Terminal};
use crate::{Failure, Verdict};
use run::Exit;

const TIMER_MEASUREMENT: Span = Span::from_secs(5);

pub(crate) fn doctor(args: &Doctor, terminal: &Terminal) -> Verdict {
    let facts = Facts::collect()
        .map_err(|e| Failure::machine(format!("cannot examine this machine: {e}")))?;
    let mut findings = findings(&facts);
    if !args.quick {
        terminal.note("measuring the timers of this machine for 5 s");
        let effects = emu::doctor::measure(TIMER_MEASUREMENT)
            .map_err(|e| Failure::machine(format!("cannot measure the timers: {e}")))?;
        findings.push(prediction(&effects));
    }
    if terminal.json {
        terminal.object(&object(&facts, &findings))?;
    } else {
        let mut sorted: Vec<&Finding> = findings.iter().collect();
        sorted.sort_by_key(|finding| std::cmp::Reverse(finding.level));
        let lines: Vec<String> = sorted.into_iter().map(|f| line(f, terminal)).collect();
        terminal.data(lines.join("\n"))?;
        terminal.note(advice(&findings));
    }
    let bad = findings.iter().any(|finding| finding.level == Level::Bad);
    Ok(if bad { Exit::Machine } else { Exit::Ok })
}

fn line(finding: &Finding, terminal: &Terminal) -> String {
    let (style, mark) = match finding.level {
        Level::Good => (Style::Good, "ok  "),
        Level::Weak => (Style::Warn, "weak"),
        Level::Bad => (Style::Bad, "BAD "),
    };
    let width = terminal.layout().width;
    let text = report::hanging("      ", &finding.text, width);
    let mut text = format!("{}{}", terminal.paint(style, mark), &text[mark.len()..]);
    if let Some(fix) = &finding.fix {
        // In one line, so that a command can be copied.
        text.push_str("\n      ");
        text.push_str(&terminal.paint(Style::Dim, "fix: "));
        text.push_str(fix);
    }
    text
}

fn advice(findings: &[Finding]) -> &'static str {
    let worst = findings.iter().map(|finding| finding.level).max();
    match worst {
        Some(Level::Bad) => {
            "\nLabs with real programs cannot run on this machine; fix the lines marked BAD."
        }
        Some(Level::Weak) => "\nLabs can run on this machine. Next: netarium new dumbbell",
        _ => "\nAll checks passed. Next: netarium new dumbbell",
    }
}

fn object(facts: &Facts, findings: &[Finding]) -> Value {
    let level = |level| match level {
        Level::Good => "good",
        Level::Weak => "weak",
        Level::Bad => "bad",
    };
    let findings: Vec<Value> = findings
        .iter()
        .map(|f| json!({"id": f.id, "level": level(f.level), "text": f.text, "fix": f.fix}))
        .collect();
    let engine = choose(facts, None).ok().map(|choice| {
        let rejected: Vec<Value> = choice
            .rejected
            .iter()
            .map(|(engine, reason)| json!({"name": engine.as_str(), "reason": reason}))
            .collect();
        json!({"name": choice.engine.as_str(), "why": choice.why, "rejected": rejected})
    });
    json!({
        "schema": "netarium.doctor/1",
        "version": env!("CARGO_PKG_VERSION"),
        "engine": engine,
        "findings": findings,
        "facts": facts,
    })
}
