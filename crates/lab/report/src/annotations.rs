//! Failures of runs as workflow commands of GitHub Actions, which shows them beside the lines of
//! the lab file.

use std::fmt::Write as _;

use run::RunRecord;
use run::record::Status;

use crate::{format, terminal};

/// A lab file: its path from the root of the repository, and its text.
#[derive(Clone, Copy, Debug)]
pub struct LabSource<'a> {
    /// The path, as shown by GitHub.
    pub path: &'a str,
    /// The text, in which the lines of annotations are found.
    pub text: &'a str,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Severity {
    /// `::error`
    Error,
    /// `::warning`
    Warning,
}

/// One annotation: a line of text.
pub fn annotation(
    severity: Severity,
    place: Option<(&str, u32, u32)>,
    title: &str,
    message: &str,
) -> String {
    let command = match severity {
        Severity::Error => "error",
        Severity::Warning => "warning",
    };
    let mut out = format!("::{command} ");
    if let Some((file, line, column)) = place {
        let _ = write!(out, "file={},line={},", property(file), line.max(1));
        if column > 0 {
            let _ = write!(out, "col={column},");
        }
    }
    let _ = write!(out, "title={}::{}", property(title), data(message));
    out
}

/// Annotations of a run: its failed expectations and programs, an error, and a result that is not
/// trusted (a warning).
pub fn annotations(record: &RunRecord, lab: Option<LabSource<'_>>) -> Vec<String> {
    let at = |text: &str| lab.map(|lab| (lab.path, line_of(lab.text, text), 0));
    let mut list = Vec::new();
    if record.status != Status::Finished {
        let reasons = record.conclusion().map(|found| found.reasons).unwrap_or_default();
        let reason = reasons.first().map_or("the run did not reach its end", String::as_str);
        let title = format!("lab {}", record.name);
        list.push(annotation(Severity::Error, at(""), &title, reason));
    }
    for program in record.programs.iter().filter(|program| !program.as_expected) {
        let title = format!("program {} on {}", program.name, program.node);
        let mut message = terminal::program_end(program);
        for line in &program.last_stderr {
            message.push('\n');
            message.push_str(line);
        }
        let place = [&*program.command, &program.name].into_iter().find_map(|text| {
            let lab = lab?;
            lab.text.contains(text).then(|| (lab.path, line_of(lab.text, text), 0))
        });
        list.push(annotation(Severity::Error, place.or_else(|| at("")), &title, &message));
    }
    for failed in record.expectations.iter().filter(|e| e.outcome.is_failure()) {
        let measured = failed.measured.as_deref().unwrap_or("nothing");
        let message = format!("expected {}, measured {measured}", failed.text);
        let title = format!("expectation of lab {}", record.name);
        list.push(annotation(Severity::Error, at(&failed.text), &title, &message));
    }
    if let Some(verdict) = record.verdict.as_ref().filter(|verdict| !verdict.trusted) {
        let title = format!("lab {}: result not trusted", record.name);
        list.push(annotation(Severity::Warning, at(""), &title, &verdict.reasons.join("; ")));
    }
    list
}

/// The first line that contains a text, from 1; 1 if no line does.
fn line_of(source: &str, text: &str) -> u32 {
    source.lines().position(|line| line.contains(text)).map_or(1, |at| at as u32 + 1)
}

/// The message of a workflow command, in which line breaks are escaped.
fn data(text: &str) -> String {
    let text = format::visible(text);
    text.replace('%', "%25").replace('\r', "%0D").replace('\n', "%0A")
}

/// The value of a property of a workflow command.
fn property(text: &str) -> String {
    data(text).replace(':', "%3A").replace(',', "%2C")
}

#[cfg(test)]
mod tests {
    use run::record::{ExpectationRecord, ProgramEnd, ProgramSummary, Verdict};

    use super::*;

    #[test]
    fn output_of_programs_cannot_write_commands() {
        let end = Some(ProgramEnd::Exit(1));
        let last_stderr = vec!["50 %\r".to_owned(), "::error::x".to_owned()];
        let program = ProgramSummary {
            name: "web".to_owned(),
            node: "server".to_owned(),
            command: "./web -p 80".to_owned(),
            end,
            last_stderr,
            ..ProgramSummary::default()
        };
        let text = "[[program]]\nname = \"web\"\nrun = \"./web -p 80\"\n";
        let record = RunRecord {
            name: "a:b,c".to_owned(),
            status: Status::Finished,
            programs: vec![program],
            verdict: Some(Verdict {
                trusted: false,
                machine_fit: false,
                reasons: vec!["late".to_owned()],
            }),
            expectations: vec![ExpectationRecord {
                text: "x > 1".to_owned(),
                outcome: run::record::Outcome::Unmeasured,
                measured: None,
            }],
            ..RunRecord::default()
        };
        let lab = LabSource { path: "labs/a.toml", text };
        let expected = [
            "::error file=labs/a.toml,line=3,title=program web on server::exit 1 \
             (unexpected)%0A50 %25\u{fffd}%0A::error::x",
            "::error file=labs/a.toml,line=1,title=expectation of lab a%3Ab%2Cc::expected x > 1, \
             measured nothing",
            "::warning file=labs/a.toml,line=1,title=lab a%3Ab%2Cc%3A result not trusted::late",
        ];
        assert_eq!(annotations(&record, Some(lab)), expected);
        let without = annotation(Severity::Error, None, "t", "m");
        assert_eq!(without, "::error title=t::m");
    }
}
