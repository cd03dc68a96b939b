//! The one outcome of a run: every output takes it from here.

use serde::{Deserialize, Serialize};

use super::{Outcome, ProgramEnd, RunRecord, Status};

/// Reasons of one kind before the rest is only counted.
const MAX_REASONS: usize = 5;

/// The outcome of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum RunOutcome {
    /// A program, an expectation or the run itself failed, or the run did not reach its end.
    Failed,
    /// Nothing failed, but the machine distorted the results.
    Untrusted,
    /// Nothing failed, and the numbers are those of the lab.
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

/// The outcome of a run that has ended, and why.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Conclusion {
    /// The outcome.
    pub outcome: RunOutcome,
    /// Why it is not `passed`, the most serious reason first.
    pub reasons: Vec<String>,
    /// The exit code that goes with the most serious reason.
    pub exit_code: u8,
}

/// `run.json`: the record, after the outcome that follows from it.
#[derive(Serialize)]
struct Document<'a> {
    #[serde(flatten)]
    conclusion: Option<Stated>,
    #[serde(flatten)]
    record: &'a RunRecord,
}

#[derive(Serialize)]
struct Stated {
    outcome: RunOutcome,
    reasons: Vec<String>,
}

impl RunRecord {
    /// The outcome of the run; `None` while it is running.
    ///
    /// Failures come before distrust: an error of the run, an interruption, a program, an
    /// expectation, then the machine.
    pub fn conclusion(&self) -> Option<Conclusion> {
        let mut reasons = Vec::new();
        let mut code = None;
        let mut add = |exit_code, found: Vec<String>| {
            if !found.is_empty() {
                code = code.or(Some(exit_code));
                reasons.extend(shortened(found));
            }
        };
        let reason = self.failure.as_ref().map(|failure| failure.text.clone());
        match self.status {
            Status::Running => return None,
            Status::Finished => {}
            Status::Interrupted => {
                let (at, of) = (self.elapsed_s, self.planned_s);
                add(130, vec![format!("interrupted at {at:.1} s of {of:.1} s")]);
            }
            Status::Killed => {
                add(
                    self.exit_code.unwrap_or(70),
                    vec![reason.unwrap_or_else(|| "the run was killed".to_owned())],
                );
            }
            Status::Failed => {
                let error = reason.or_else(|| self.warnings.last().cloned());
                let error = error.unwrap_or_else(|| "the run ended with an error".to_owned());
                add(self.exit_code.unwrap_or(70), vec![error]);
            }
        }
        add(5, self.failed_programs());
        add(1, self.failed_expectations());
        let failed = code;
        let untrusted = match &self.verdict {
            Some(verdict) if verdict.trusted => Vec::new(),
            Some(verdict) if verdict.reasons.is_empty() => vec!["no reason was recorded".into()],
            Some(verdict) => verdict.reasons.clone(),
            None if failed.is_some() => Vec::new(),
            None => vec!["the machine's part in the results was not measured".to_owned()],
        };
        let is_untrusted = !untrusted.is_empty();
        reasons.extend(shortened(untrusted));
        let (outcome, exit_code) = match failed {
            Some(code) => (RunOutcome::Failed, code),
            None if is_untrusted => (RunOutcome::Untrusted, 3),
            None => (RunOutcome::Passed, 0),
        };
        Some(Conclusion { outcome, reasons, exit_code })
    }

    /// The record as it is written to `run.json` and printed by `--json`: `outcome` and `reasons`
    /// come first.
    pub fn document(&self) -> impl Serialize + '_ {
        let conclusion = self.conclusion();
        let stated = |c: Conclusion| Stated { outcome: c.outcome, reasons: c.reasons };
        Document { conclusion: conclusion.map(stated), record: self }
    }

    fn failed_programs(&self) -> Vec<String> {
        let failed = self.programs.iter().filter(|program| !program.as_expected);
        let reason = |program: &super::ProgramSummary| {
            let end = match program.end {
                None if program.started_s.is_none() => "never started".to_owned(),
                None => "has no recorded end".to_owned(),
                Some(ProgramEnd::Exit(status)) => format!("exited with status {status}"),
                Some(ProgramEnd::Signal(signal)) => format!("was ended by signal {signal}"),
                Some(ProgramEnd::OutOfMemory) => "was ended by the kernel's OOM killer".to_owned(),
                Some(ProgramEnd::Stopped) => "was still running when the lab stopped it".to_owned(),
            };
            format!("program {} on {} {end}", program.name, program.node)
        };
        failed.map(reason).collect()
    }

    fn failed_expectations(&self) -> Vec<String> {
        let failed = self.expectations.iter().filter(|e| e.outcome != Outcome::Passed);
        let reason = |e: &super::ExpectationRecord| match &e.measured {
            Some(measured) => format!("expected {}, measured {measured}", e.text),
            None => format!("expected {}, which could not be measured", e.text),
        };
        failed.map(reason).collect()
    }
}

/// The first reasons, and the number of the others.
fn shortened(mut reasons: Vec<String>) -> Vec<String> {
    let more = reasons.len().saturating_sub(MAX_REASONS);
    if more > 0 {
        reasons.truncate(MAX_REASONS);
        reasons.push(format!("{more} more"));
    }
    reasons
}

#[cfg(test)]
mod tests {
    use super::super::{ExpectationRecord, ProgramSummary, Verdict};
    use super::*;

    fn finished(trusted: bool) -> RunRecord {
        let verdict = Verdict { trusted, reasons: vec!["packets left late".to_owned()] };
        RunRecord { status: Status::Finished, verdict: Some(verdict), ..RunRecord::default() }
    }

    fn crash() -> ProgramSummary {
        let end = Some(ProgramEnd::Signal(11));
        ProgramSummary { name: "web".into(), end, as_expected: false, ..Default::default() }
    }

    fn missed() -> ExpectationRecord {
        let measured = Some("1 Mbit/s".to_owned());
        ExpectationRecord { text: "x > 2 Mbit/s".into(), outcome: Outcome::Failed, measured }
    }

    fn decided(record: &RunRecord) -> (&'static str, u8) {
        let conclusion = record.conclusion().expect("it has ended");
        assert_eq!(conclusion.reasons.is_empty(), conclusion.outcome == RunOutcome::Passed);
        (conclusion.outcome.as_str(), conclusion.exit_code)
    }

    #[test]
    fn failures_precede_distrust_and_distrust_precedes_passing() {
        assert_eq!(decided(&finished(true)), ("passed", 0));
        assert_eq!(decided(&finished(false)), ("untrusted", 3));
        for trusted in [true, false] {
            let mut record = finished(trusted);
            record.expectations.push(missed());
            assert_eq!(decided(&record), ("failed", 1));
            record.programs.push(crash());
            assert_eq!(decided(&record), ("failed", 5));
            record.status = Status::Interrupted;
            assert_eq!(decided(&record), ("failed", 130));
        }
    }

    #[test]
    fn reasons_name_program_expectation_and_distrust_in_this_order() {
        let mut record = finished(false);
        record.programs.push(crash());
        record.expectations.push(missed());
        let reasons = record.conclusion().expect("it has ended").reasons;
        let expected = ["web on  was ended by signal 11", "measured 1 Mbit/s", "left late"];
        assert!(reasons.iter().zip(expected).all(|(r, part)| r.contains(part)), "{reasons:?}");
    }

    #[test]
    fn error_gives_its_message_and_exit_code() {
        let mut record = finished(true);
        record.status = Status::Failed;
        record.warnings = vec!["slow".to_owned(), "disk full".to_owned()];
        record.exit_code = Some(4);
        assert_eq!(decided(&record), ("failed", 4));
        assert_eq!(record.conclusion().expect("it has ended").reasons, ["disk full"]);
    }

    #[test]
    fn run_without_verdict_is_not_passed() {
        let mut record = finished(true);
        record.verdict = None;
        assert_eq!(decided(&record), ("untrusted", 3));
    }

    #[test]
    fn running_run_has_no_outcome() {
        assert_eq!(RunRecord::default().conclusion(), None);
        let text = serde_json::to_string(&RunRecord::default().document()).expect("JSON");
        assert!(text.starts_with("{\"schema\""), "{text}");
    }

    #[test]
    fn document_begins_with_outcome_and_reads_back() {
        let mut record = finished(true);
        record.programs.push(crash());
        let text = serde_json::to_string(&record.document()).expect("JSON");
        assert!(text.starts_with("{\"outcome\":\"failed\",\"reasons\":[\"program web"), "{text}");
        assert_eq!(serde_json::from_str::<RunRecord>(&text).expect("JSON"), record);
    }
}
