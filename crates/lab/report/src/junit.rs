//! Runs as `JUnit` XML, for the test report of a CI run: a suite for each run, with a test for
//! each expectation, each program, and the run itself, which must be complete and trusted.

use std::fmt::Write as _;

use run::RunRecord;
use run::record::{Clock, Outcome, Status};

use crate::{format, terminal};

/// The kind of a test that did not pass, and its text.
struct Problem {
    /// `error`: the run did not reach its end. `failure`: it did, and the test failed.
    element: &'static str,
    kind: &'static str,
    message: String,
    detail: String,
}

struct Test {
    class: &'static str,
    name: String,
    seconds: f64,
    problem: Option<Problem>,
}

/// The `JUnit` XML of finished runs.
pub fn junit(records: &[&RunRecord]) -> String {
    let suites: Vec<(&RunRecord, Vec<Test>)> =
        records.iter().map(|record| (*record, tests(record))).collect();
    let all = suites.iter().flat_map(|(_, tests)| tests);
    let seconds: f64 = records.iter().map(|record| record.elapsed_s).sum();
    let mut out = "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n".to_owned();
    let _ = writeln!(out, "<testsuites name=\"netarium\" {}>", counts(all, seconds));
    for (record, tests) in &suites {
        suite(&mut out, record, tests);
    }
    out.push_str("</testsuites>\n");
    out
}

fn counts<'a>(tests: impl Iterator<Item = &'a Test>, seconds: f64) -> String {
    let (mut total, mut failures, mut errors) = (0, 0, 0);
    for test in tests {
        total += 1;
        match test.problem.as_ref().map(|problem| problem.element) {
            Some("failure") => failures += 1,
            Some(_) => errors += 1,
            None => {}
        }
    }
    format!(
        "tests=\"{total}\" failures=\"{failures}\" errors=\"{errors}\" skipped=\"0\" \
         time=\"{seconds:.3}\""
    )
}

fn suite(out: &mut String, record: &RunRecord, tests: &[Test]) {
    let sweep = record.sweep.iter().map(|s| format!(" {}={}", s.parameter, s.value));
    let name = xml(&format!("{}{}", record.name, sweep.collect::<String>()));
    let started = format::utc(record.started_unix_ms).replace(" UTC", "").replace(' ', "T");
    let counts = counts(tests.iter(), record.elapsed_s);
    let _ = writeln!(out, "  <testsuite name=\"{name}\" {counts} timestamp=\"{started}\">");
    let clock = match record.clock {
        Clock::Wall => "wall",
        Clock::Virtual => "virtual",
    };
    let run = format!("{}-{}", record.name, record.id);
    let (version, seed) = (record.version.clone(), record.seed.to_string());
    let properties = [
        ("netarium", version),
        ("clock", clock.to_owned()),
        ("seed", seed),
        ("run", run),
        ("repeat", record.repeat.clone()),
    ];
    out.push_str("    <properties>\n");
    for (name, value) in properties {
        let _ = writeln!(out, "      <property name=\"{name}\" value=\"{}\"/>", xml(&value));
    }
    out.push_str("    </properties>\n");
    for test in tests {
        // Viewers group tests by class.
        let class = xml(&format!("{}.{}", record.name, test.class));
        let (name, seconds) = (xml(&test.name), test.seconds);
        let head = format!("    <testcase classname=\"{class}\" name=\"{name}\"");
        let Some(Problem { element, kind, message, detail }) = &test.problem else {
            let _ = writeln!(out, "{head} time=\"{seconds:.3}\"/>");
            continue;
        };
        let (message, detail) = (xml(message), xml(detail));
        let _ = writeln!(
            out,
            "{head} time=\"{seconds:.3}\">\n      <{element} type=\"{kind}\" \
             message=\"{message}\">{detail}</{element}>\n    </testcase>"
        );
    }
    out.push_str("  </testsuite>\n");
}

fn tests(record: &RunRecord) -> Vec<Test> {
    let mut tests: Vec<Test> = record
        .expectations
        .iter()
        .map(|e| {
            let message = match (&e.measured, e.outcome) {
                (Some(measured), Outcome::Undecided) => {
                    format!("undecided: measured {measured}, too close for this machine")
                }
                (Some(measured), _) => format!("measured {measured}"),
                (None, Outcome::Unmeasured) => "nothing was measured".to_owned(),
                (None, _) => "the expectation does not hold".to_owned(),
            };
            let failed = e.outcome != Outcome::Passed;
            let detail = format!("expected {}, {message}", e.text);
            let problem = Problem { element: "failure", kind: "expectation", message, detail };
            Test {
                class: "expectations",
                name: e.text.clone(),
                seconds: 0.0,
                problem: failed.then_some(problem),
            }
        })
        .collect();
    tests.extend(record.programs.iter().map(|program| {
        let problem = Problem {
            element: "failure",
            kind: "program",
            message: format!("{} on {}", terminal::program_end(program), program.node),
            detail: program.last_stderr.join("\n"),
        };
        let seconds =
            program.ended_s.zip(program.started_s).map_or(0.0, |(end, start)| end - start);
        Test {
            class: "programs",
            name: program.name.clone(),
            seconds: seconds.max(0.0),
            problem: (!program.as_expected).then_some(problem),
        }
    }));
    tests.push(Test {
        class: "run",
        name: "complete and trusted".to_owned(),
        seconds: record.elapsed_s,
        problem: run_problem(record),
    });
    tests
}

/// Why a run has no result, or none that can be trusted.
fn run_problem(record: &RunRecord) -> Option<Problem> {
    if record.status != Status::Finished {
        let reason = record.failure.as_ref().map(|failure| failure.text.clone());
        let message = reason.or_else(|| record.warnings.last().cloned());
        let detail = record.warnings.join("\n");
        let message = message.unwrap_or_else(|| format::status(record.status).to_owned());
        return Some(Problem { element: "error", kind: "run", message, detail });
    }
    let reasons = match &record.verdict {
        Some(verdict) if verdict.trusted => return None,
        Some(verdict) => verdict.reasons.join("; "),
        None => "the effect of the machine on the results was not measured".to_owned(),
    };
    let message = format!("not trusted: {reasons}");
    Some(Problem { element: "failure", kind: "untrusted", detail: message.clone(), message })
}

/// Text of an element or an attribute. XML 1.0 permits no control characters, also not escaped.
fn xml(text: &str) -> String {
    format::escape(&format::visible(text))
}
