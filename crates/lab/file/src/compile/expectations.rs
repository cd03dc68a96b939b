//! `[[expect]]`: parses texts with the plan's names and times.

use super::Compiler;
use crate::code::Code;
use crate::diagnostic::suggest;
use crate::expect::{self, Names, ParseError};
use crate::fields::EXPECT;
use crate::tree::{At, Value};

impl Compiler<'_> {
    pub(super) fn read_expectations(&mut self) {
        for (_, table) in self.entries("expect") {
            let Some(value) = table.get(EXPECT.that) else { continue };
            let Some(text) = value.text() else { continue };
            let names = Names {
                flows: self.plan.flows.iter().map(|flow| flow.name.as_str()).collect(),
                links: self.plan.links.iter().map(|link| link.name.as_str()).collect(),
                programs: self.plan.programs.iter().map(|p| p.name.as_str()).collect(),
                bundles: self.plan.bundles.iter().map(|b| b.name.as_str()).collect(),
            };
            match expect::parse(text, &names) {
                Ok(expectation) => {
                    if let Some((from, _)) = expectation.metric.window
                        && from.since(base::Time::ZERO) >= self.plan.duration
                    {
                        let end = self.plan.duration;
                        let message = format!("the run ends at {end}, before the window");
                        self.sink.report(Code::Schedule, &value.at, message);
                    }
                    self.plan.expectations.push(expectation);
                }
                Err(error) => self.refuse_expectation(value, text, &error),
            }
        }
    }

    fn refuse_expectation(&mut self, value: &Value, text: &str, error: &ParseError) {
        let (part, code, message, help) = match error {
            ParseError::NoComparison => (
                0..text.len(),
                Code::BadExpectation,
                "this compares nothing".to_owned(),
                "a metric, then one of >=, <=, >, <, ==, !=, then a value".to_owned(),
            ),
            ParseError::Subject(at) => (
                at.clone(),
                Code::BadExpectation,
                "an expectation begins with what it is about".to_owned(),
                "`flow.NAME`, `link.NAME.up`, `link.NAME.down`, `program.NAME`, `bundle.NAME`, \
                 `run` or `control`"
                    .to_owned(),
            ),
            ParseError::Name { at, kind, name, known } => (
                at.clone(),
                Code::UnknownName,
                format!("there is not a {kind} `{name}`"),
                suggest(name, known.iter().map(String::as_str), &format!("{kind}s")),
            ),
            ParseError::Direction(at) => (
                at.clone(),
                Code::UnknownMetric,
                "a link has two directions".to_owned(),
                "continue with `up` (from the first end) or `down`".to_owned(),
            ),
            ParseError::Number(at) => (
                at.clone(),
                Code::BadExpectation,
                "subflows have numbers".to_owned(),
                "`subflow.0` is the flow's first; `path.LINK` is all that run over a link"
                    .to_owned(),
            ),
            ParseError::Measure { at, word, known } => (
                at.clone(),
                Code::UnknownMetric,
                format!("unknown metric `{word}`"),
                suggest(word, known.iter().copied(), "metrics"),
            ),
            ParseError::Statistic { at, word, known } if known.is_empty() => (
                at.clone(),
                Code::UnknownMetric,
                format!("this metric is one number, it has no `{word}`"),
                "leave it out".to_owned(),
            ),
            ParseError::Statistic { at, word, known } => (
                at.clone(),
                Code::UnknownMetric,
                format!("this metric has no `{word}`"),
                suggest(word, known.iter().copied(), "statistics"),
            ),
            ParseError::Value { at, error } => {
                (at.clone(), Code::Quantity, error.to_string(), error.help())
            }
            ParseError::Plain { at, wanted } => (
                at.clone(),
                Code::BadExpectation,
                "this value does not fit the metric".to_owned(),
                format!("write {wanted}"),
            ),
            ParseError::Window(at) => (
                at.clone(),
                Code::BadExpectation,
                "this is not a window of a run".to_owned(),
                "write `between 5 s and 10 s`, the later time last".to_owned(),
            ),
        };
        let at = self.part(value, text, part);
        self.sink.report(code, &at, message).help(help);
    }

    /// The position of a part of a text, if the file contains the text without escapes.
    fn part(&self, value: &Value, text: &str, part: At) -> At {
        let written = self.input.text.get(value.at.clone()).unwrap_or_default();
        match written.find(text).filter(|_| !text.is_empty()) {
            Some(skip) => {
                let start = value.at.start + skip;
                let end = (start + part.end).max(start + part.start + 1);
                start + part.start..end.min(value.at.end)
            }
            None => value.at.clone(),
        }
    }
}
