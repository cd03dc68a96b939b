//! `doctor`.

use emu::doctor::{Facts, Finding, Level, choose, findings};
use serde_json::{Value, json};

use crate::exit::Exit;
use crate::terminal::{Style, Terminal};
use crate::{Failure, Verdict};

pub(crate) fn doctor(terminal: &Terminal) -> Verdict {
    let facts = Facts::collect()
        .map_err(|e| Failure::machine(format!("the machine could not be examined: {e}")))?;
    let findings = findings(&facts);
    if terminal.json {
        terminal.object(&object(&facts, &findings))?;
    } else {
        let lines: Vec<String> = findings.iter().map(|f| line(f, terminal)).collect();
        terminal.data(lines.join("\n"))?;
        terminal.talk(advice(&findings));
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
    let mut text = format!("{}  {}", terminal.paint(style, mark), finding.text);
    if let Some(mend) = &finding.mend {
        text.push_str("\n      ");
        text.push_str(&terminal.paint(Style::Dim, "mend: "));
        text.push_str(mend);
    }
    text
}

fn advice(findings: &[Finding]) -> &'static str {
    let worst = findings.iter().map(|finding| finding.level).max();
    match worst {
        Some(Level::Bad) => "\nLabs with real programs cannot run here yet; mend what is BAD.",
        Some(Level::Weak) => "\nLabs run here. Next: netarium new dumbbell",
        _ => "\nAll is well. Next: netarium new dumbbell",
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
        .map(|f| json!({"id": f.id, "level": level(f.level), "text": f.text, "mend": f.mend}))
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
