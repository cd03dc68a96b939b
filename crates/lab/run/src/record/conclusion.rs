//! The outcome of a run. All outputs use this one.

use serde::{Deserialize, Serialize};

use crate::Exit;

use super::{ProgramEnd, RunRecord, Status};

/// Maximum number of reasons of each kind; further reasons are only counted.
const MAX_REASONS: usize = 5;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum RunOutcome {
    /// A program, an expectation or the run itself failed, or the run did not reach its end.
    Failed,
    /// Nothing failed, but the host distorted the results.
    Untrusted,
    /// Nothing failed, and the results are trusted.
    Passed,
}

impl RunOutcome {
    /// As in JSON.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Failed => "failed",
            Self::Untrusted => "untrusted",
            Self::Passed => "passed",
        }
    }
}

/// The outcome of a run that has ended, and its reasons.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Conclusion {
    pub outcome: RunOutcome,
    /// The reasons for an outcome other than `passed`, most serious first. The reasons of a failed
    /// run are its failures; [`RunRecord::verdict`] contains the effect of the host.
    pub reasons: Vec<String>,
    /// The exit code of the most serious reason.
    pub exit_code: Exit,
}

/// `run.json`: the outcome, then the record.
#[derive(Serialize)]
struct Document<'a> {
    #[serde(flatten)]
    conclusion: Option<OutcomeFields>,
    #[serde(flatten)]
    record: &'a RunRecord,
}

#[derive(Serialize)]
struct OutcomeFields {
    outcome: RunOutcome,
    reasons: Vec<String>,
}

impl RunRecord {
    /// The outcome of the run; `None` while it is running.
    ///
    /// Reasons in order of precedence: an error of the run, an interruption, a program, an
    /// expectation, an untrusted result.
    pub fn conclusion(&self) -> Option<Conclusion> {
        let mut reasons = Vec::new();
        let mut code = None;
        let mut add = |exit_code, found: Vec<String>| {
            if !found.is_empty() {
                code = code.or(Some(exit_code));
                reasons.extend(truncate_reasons(found));
            }
        };
        let reason = self.failure.as_ref().map(|failure| failure.text.clone());
        match self.status {
            Status::Running => return None,
            Status::Finished => {}
            Status::Interrupted => {
                let (at, of) = (self.elapsed_s, self.planned_s);
                add(Exit::Interrupted, vec![format!("interrupted at {at:.1} s of {of:.1} s")]);
            }
            Status::Killed => {
                add(
                    self.exit_code.unwrap_or(Exit::Internal),
                    vec![reason.unwrap_or_else(|| "the run was killed".to_owned())],
                );
            }
            Status::Failed => {
                let error = reason.or_else(|| self.warnings.last().cloned());
                let error = error.unwrap_or_else(|| "the run ended with an error".to_owned());
                add(self.exit_code.unwrap_or(Exit::Internal), vec![error]);
            }
        }
        add(Exit::Program, self.failed_programs());
        add(Exit::Expectation, self.failed_expectations());
        if let Some(exit_code) = code {
            return Some(Conclusion { outcome: RunOutcome::Failed, reasons, exit_code });
        }
        let reasons = match &self.verdict {
            Some(verdict) if verdict.trusted => Vec::new(),
            Some(verdict) if verdict.reasons.is_empty() => vec!["no reason was recorded".into()],
            Some(verdict) => verdict.reasons.clone(),
            None => vec!["the effect of the machine on the results was not measured".to_owned()],
        };
        let (outcome, exit_code) = if reasons.is_empty() {
            (RunOutcome::Passed, Exit::Ok)
        } else {
            (RunOutcome::Untrusted, Exit::Untrusted)
        };
        Some(Conclusion { outcome, reasons: truncate_reasons(reasons), exit_code })
    }

    /// The record as it is written to `run.json` and printed by `--json`: `outcome` and
    /// `reasons` come first.
    pub fn document(&self) -> impl Serialize + '_ {
        let conclusion = self.conclusion();
        let fields = |c: Conclusion| OutcomeFields { outcome: c.outcome, reasons: c.reasons };
        Document { conclusion: conclusion.map(fields), record: self }
    }

    fn failed_programs(&self) -> Vec<String> {
        let failed = self.programs.iter().filter(|program| !program.as_expected);
        let reason = |program: &super::ProgramSummary| {
            let end = match program.end {
                None if program.started_s.is_none() => "never started".to_owned(),
                None => "has no recorded end".to_owned(),
                Some(ProgramEnd::Exit(status)) => format!("exited with status {status}"),
                Some(ProgramEnd::Signal(signal)) => format!("was killed by signal {signal}"),
                Some(ProgramEnd::OutOfMemory) => "was killed by the kernel's OOM killer".to_owned(),
                Some(ProgramEnd::Stopped) => "was still running when the lab stopped it".to_owned(),
            };
            format!("program {} on {} {end}", program.name, program.node)
        };
        failed.map(reason).collect()
    }

    /// Descriptions of the failed expectations with their measured values.
    pub fn failed_expectations(&self) -> Vec<String> {
        let failed = self.expectations.iter().filter(|e| e.outcome.is_failure());
        let reason = |e: &super::ExpectationRecord| match &e.measured {
            Some(measured) => format!("expected {}, measured {measured}", e.text),
            None => format!("expected {}, which could not be measured", e.text),
        };
        failed.map(reason).collect()
    }
}

/// The first reasons, and the number of the others.
fn truncate_reasons(mut reasons: Vec<String>) -> Vec<String> {
    let more = reasons.len().saturating_sub(MAX_REASONS);
    if more > 0 {
        reasons.truncate(MAX_REASONS);
        reasons.push(format!("{more} more"));
    }
    reasons
}

#[cfg(test)]
mod tests {
    use super::super::{ExpectationRecord, Outcome, ProgramSummary, Verdict};
    use super::*;

    fn finished(trusted: bool) -> RunRecord {
        let verdict = Verdict {
            trusted,
            machine_fit: trusted,
            reasons: vec!["packets left late".to_owned()],
        };
        RunRecord { status: Status::Finished, verdict: Some(verdict), ..RunRecord::default() }
    }

    fn crashed_program() -> ProgramSummary {
        let end = Some(ProgramEnd::Signal(11));
        ProgramSummary { name: "web".into(), end, as_expected: false, ..Default::default() }
    }

    fn failed_expectation() -> ExpectationRecord {
        let measured = Some("1 Mbit/s".to_owned());
        ExpectationRecord { text: "x > 2 Mbit/s".into(), outcome: Outcome::Failed, measured }
    }

    fn conclude(record: &RunRecord) -> (&'static str, u8) {
        let conclusion = record.conclusion().expect("it has ended");
        assert_eq!(conclusion.reasons.is_empty(), conclusion.outcome == RunOutcome::Passed);
        (conclusion.outcome.as_str(), conclusion.exit_code.code())
    }

    #[test]
    fn failed_precedes_untrusted_precedes_passed() {
        assert_eq!(conclude(&finished(true)), ("passed", 0));
        assert_eq!(conclude(&finished(false)), ("untrusted", 3));
        for trusted in [true, false] {
            let mut record = finished(trusted);
            record.expectations.push(failed_expectation());
            assert_eq!(conclude(&record), ("failed", 1));
            record.programs.push(crashed_program());
            assert_eq!(conclude(&record), ("failed", 5));
            record.status = Status::Interrupted;
            assert_eq!(conclude(&record), ("failed", 130));
        }
    }

    #[test]
    fn lists_failures_in_order_without_host_effect() {
        let mut record = finished(false);
        record.programs.push(crashed_program());
        record.expectations.push(failed_expectation());
        let reasons = record.conclusion().expect("it has ended").reasons;
        let expected = ["web on  was killed by signal 11", "measured 1 Mbit/s"];
        assert!(reasons.iter().zip(expected).all(|(r, part)| r.contains(part)), "{reasons:?}");
        assert_eq!(reasons.len(), expected.len(), "{reasons:?}");
        record.programs.clear();
        record.expectations.clear();
        assert_eq!(record.conclusion().expect("it has ended").reasons, ["packets left late"]);
    }

    #[test]
    fn error_gives_its_message_and_exit_code() {
        let mut record = finished(true);
        record.status = Status::Failed;
        record.warnings = vec!["slow".to_owned(), "disk full".to_owned()];
        record.exit_code = Some(Exit::Machine);
        assert_eq!(conclude(&record), ("failed", 4));
        assert_eq!(record.conclusion().expect("it has ended").reasons, ["disk full"]);
    }

    #[test]
    fn run_without_verdict_is_not_passed() {
        let mut record = finished(true);
        record.verdict = None;
        assert_eq!(conclude(&record), ("untrusted", 3));
    }

    #[test]
    fn running_run_has_no_outcome() {
        assert_eq!(RunRecord::default().conclusion(), None);
        let text = serde_json::to_string(&RunRecord::default().document()).expect("JSON");
        assert!(text.starts_with("{\"schema\""), "{text}");
    }

    #[test]
    fn document_begins_with_outcome_and_round_trips() {
        let mut record = finished(true);
        record.programs.push(crashed_program());
        let text = serde_json::to_string(&record.document()).expect("JSON");
        assert!(text.starts_with("{\"outcome\":\"failed\",\"reasons\":[\"program web"), "{text}");
        assert_eq!(serde_json::from_str::<RunRecord>(&text).expect("JSON"), record);
    }
}
