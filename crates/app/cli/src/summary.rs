//! The subcommand `report`: tables and pages of finished runs, and documents for CI.

use std::path::Path;

use report::{LabSource, Severity};
use run::{Exit, RunFolder, RunRecord};
use serde_json::json;

use crate::args::report::{Format, Report};
use crate::results::{self, open};
use crate::terminal::Terminal;
use crate::{Failure, Verdict};

pub(crate) fn report(args: &Report, terminal: &Terminal) -> Verdict {
    let runs = args.runs.iter().map(|run| open(run)).collect::<Result<Vec<_>, _>>()?;
    let Some(format) = args.format else {
        for (folder, record) in &runs {
            page(folder, record, terminal)?;
        }
        return Ok(Exit::Ok);
    };
    if terminal.json {
        return Err(Failure::usage("`--json` and `--format` exclude each other"));
    }
    let text = match format {
        Format::Markdown => report::markdown(&runs)
            .map_err(|e| Failure::machine(format!("cannot read the run: {e}")))?,
        Format::Junit => report::junit(&runs.iter().map(|(_, r)| r).collect::<Vec<_>>()),
        Format::Github => github(&runs, args.lab.as_deref())?,
    };
    terminal.document(&text)?;
    Ok(Exit::Ok)
}

/// The tables of a run, and its `report.html`.
fn page(folder: &RunFolder, record: &RunRecord, terminal: &Terminal) -> Result<(), Failure> {
    let html = report::write_html(folder)
        .map_err(|e| Failure::machine(format!("cannot write the report: {e}")))?;
    if terminal.json {
        let record = serde_json::to_value(record.document()).map_err(std::io::Error::from)?;
        terminal.object(&json!({
            "schema": "netarium.report/1",
            "report": html,
            "run": record,
        }))?;
    } else {
        terminal.data(results::table(record, folder, terminal))?;
        results::print_log(folder, terminal);
        terminal.note(format!("report: {}", html.display()));
    }
    Ok(())
}

fn github(runs: &[(RunFolder, RunRecord)], lab: Option<&Path>) -> Result<String, Failure> {
    let read = |path: &Path| {
        let text = lab::read_text(path)
            .map_err(|e| Failure::usage(format!("cannot read {}: {e}", path.display())))?;
        Ok::<_, Failure>((path.display().to_string(), text))
    };
    let lab = lab.map(read).transpose()?;
    let lab = lab.as_ref().map(|(path, text)| LabSource { path, text });
    let lines = runs.iter().flat_map(|(_, record)| report::annotations(record, lab));
    Ok(lines.map(|line| line + "\n").collect())
}

/// The errors and warnings of a lab file as annotations of GitHub Actions.
pub(crate) fn github_check(found: &lab::Diagnostics) -> String {
    let line = |diagnostic: &lab::Diagnostic| {
        let is_warning = diagnostic.code.is_warning();
        let severity = if is_warning { Severity::Warning } else { Severity::Error };
        let (line, column) = diagnostic.position;
        let mut message = diagnostic.message.clone();
        if let Some(help) = &diagnostic.help {
            message.push_str("\nhelp: ");
            message.push_str(help);
        }
        let place = Some((found.source_name(), line, column));
        report::annotation(severity, place, diagnostic.code.as_str(), &message) + "\n"
    };
    found.list().iter().map(line).collect()
}
