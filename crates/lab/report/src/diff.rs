//! The difference of two runs, sets of runs or stored baselines.

use std::collections::BTreeSet;

use base::statistics::{MeanTest, Sample, holm};
use run::record::{Clock, RunOutcome};

use crate::summary::{self, MetricSummary, Summary, Unit};

mod labs;
mod table;
mod tolerance;

pub use tolerance::{Limit, Tolerance, ToleranceError};

/// A difference is significant if its p-value, adjusted for the number of tests, is at most this.
const SIGNIFICANCE: f64 = 1.0 - summary::CONFIDENCE;

/// Values that differ by a smaller share are equal: decimal text may change the last digit.
const ROUNDING: f64 = 1e-12;

/// Notes of different labs name this many keys.
const MAX_KEYS: usize = 5;

#[derive(Clone, Debug)]
pub struct Side {
    pub summary: Summary,
    /// The resolved lab; `None` for a stored summary.
    pub lab: Option<String>,
    /// Whether it is a file, whose metrics are compared unless others are chosen.
    pub is_stored: bool,
}

#[derive(Clone, Debug, Default)]
pub struct Choice {
    /// Names and patterns with `*`. A name without its statistic stands for the mean or sum.
    /// Without any, the most relevant metrics are compared.
    pub metrics: Vec<String>,
    /// The last one with a matching metric applies, otherwise the last one for all metrics.
    pub tolerances: Vec<Tolerance>,
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ChoiceError {
    /// No run has a matching metric. `help` has similar names.
    #[error("no metric matches `{pattern}`")]
    Unmatched { pattern: String, help: String },
    #[error("tolerance `{tolerance}` does not fit {metric}, whose unit is {}", unit.name())]
    Unit { tolerance: String, metric: String, unit: Unit },
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Diff {
    /// Compared metrics, which both sides have.
    pub changes: Vec<Change>,
    /// Chosen metrics that only the first side has.
    pub only_first: Vec<String>,
    /// Chosen metrics that only the second side has.
    pub only_second: Vec<String>,
    /// Differences of seeds, labs and outcomes, which limit a comparison.
    pub notes: Vec<String>,
    /// Column headings of the first and the second side.
    heads: [String; 2],
}

#[derive(Clone, Debug, PartialEq)]
pub struct Change {
    /// The name, as in expectations: `flow.a-b.goodput.mean`.
    pub metric: String,
    pub unit: Unit,
    pub first: Sample,
    pub second: Sample,
    /// The test whether the means differ; `None` if there is no variance to test with.
    pub test: Option<MeanTest>,
    /// The p-value of the test, adjusted for the number of tests.
    pub p_value: Option<f64>,
    /// Whether the difference is significant and beyond the tolerance.
    pub changed: bool,
}

impl Change {
    pub fn difference(&self) -> f64 {
        self.second.mean - self.first.mean
    }

    /// The difference relative to the first mean; infinite if only that is 0.
    pub fn relative(&self) -> f64 {
        let difference = self.difference();
        if difference == 0.0 {
            0.0
        } else if self.first.mean == 0.0 {
            f64::INFINITY.copysign(difference)
        } else {
            difference / self.first.mean.abs()
        }
    }

    /// The 95 % confidence interval of the difference.
    pub fn interval(&self) -> Option<(f64, f64)> {
        let test = self.test.as_ref()?;
        let half = base::statistics::t_quantile(summary::CONFIDENCE, test.freedom) * test.error;
        Some((self.difference() - half, self.difference() + half))
    }
}

impl Diff {
    /// The metrics that changed.
    pub fn changed(&self) -> impl Iterator<Item = &Change> {
        self.changes.iter().filter(|change| change.changed)
    }

    /// Whether all chosen metrics are in both sides and none of them changed.
    pub fn is_unchanged(&self) -> bool {
        self.changed().next().is_none() && self.only_first.is_empty() && self.only_second.is_empty()
    }

    /// A table of at most 80 columns: the changed metrics, or `all`, and the notes.
    pub fn text(&self, all: bool) -> String {
        table::render(self, all)
    }
}

pub fn compare(first: &Side, second: &Side, choice: &Choice) -> Result<Diff, ChoiceError> {
    let chosen = chosen([first, second], choice)?;
    let mut diff = Diff { heads: ["before", "after"].map(str::to_owned), ..Diff::default() };
    if first.summary.clock != second.summary.clock {
        diff.heads = [first, second].map(|side| clock(side.summary.clock).to_owned());
    }
    let mut limits = Vec::new();
    for name in chosen {
        let [a, b] = [first, second].map(|side| side.summary.metrics.get(&name));
        match (a, b) {
            (Some(a), Some(b)) if a.unit == b.unit => {
                limits.push(tolerance::find(&choice.tolerances, &name, a.unit)?);
                diff.changes.push(change(name, a, b));
            }
            (Some(_), None) => diff.only_first.push(name),
            (None, Some(_)) => diff.only_second.push(name),
            (Some(a), Some(b)) => diff.notes.push(format!(
                "{name} is not compared: its unit is {} before and {} after",
                a.unit.name(),
                b.unit.name()
            )),
            (None, None) => {}
        }
    }
    judge(&mut diff.changes, &limits);
    diff.notes.extend(notes(first, second));
    Ok(diff)
}

fn chosen(sides: [&Side; 2], choice: &Choice) -> Result<BTreeSet<String>, ChoiceError> {
    let names = |side: &Side| side.summary.metrics.keys().cloned().collect::<BTreeSet<_>>();
    if choice.metrics.is_empty() {
        if let Some(stored) = sides.into_iter().find(|side| side.is_stored) {
            return Ok(names(stored));
        }
        // The virtual clock has no lateness.
        let all = sides.into_iter().flat_map(names);
        return Ok(all.filter(|name| summary::is_default(name)).collect());
    }
    select(&choice.metrics, &sides.into_iter().flat_map(names).collect())
}

/// The names that match any of the patterns.
pub fn select(
    patterns: &[String],
    names: &BTreeSet<String>,
) -> Result<BTreeSet<String>, ChoiceError> {
    let mut chosen = BTreeSet::new();
    for pattern in patterns {
        let mut matching = names.iter().filter(|name| is_match(pattern, name)).peekable();
        if matching.peek().is_none() {
            let help = lab::suggest(pattern, names.iter().map(String::as_str), "metrics");
            return Err(ChoiceError::Unmatched { pattern: pattern.clone(), help });
        }
        chosen.extend(matching.cloned());
    }
    Ok(chosen)
}

/// The names that are compared unless others are chosen.
pub fn default_names(summary: &Summary) -> BTreeSet<String> {
    summary.metrics.keys().filter(|name| summary::is_default(name)).cloned().collect()
}

fn is_match(pattern: &str, name: &str) -> bool {
    let short = name.strip_suffix(".mean").or_else(|| name.strip_suffix(".sum"));
    [Some(name), short].into_iter().flatten().any(|name| lab::matches_pattern(pattern, name))
}

fn change(metric: String, a: &MetricSummary, b: &MetricSummary) -> Change {
    let (first, second) = (a.sample, b.sample);
    let test = MeanTest::new(&first, &second);
    Change { metric, unit: a.unit, first, second, test, p_value: None, changed: false }
}

/// Decides for each metric whether it changed: by Holm's procedure over all metrics with a test,
/// and by the values alone for those without variance.
fn judge(changes: &mut [Change], limits: &[Option<&Tolerance>]) {
    let margin = |change: &Change, limit: Option<&Tolerance>| {
        limit.map_or(0.0, |tolerance| tolerance.margin(change.first.mean))
    };
    let tested: Vec<usize> = (0..changes.len()).filter(|at| changes[*at].test.is_some()).collect();
    let p_values: Vec<f64> = tested
        .iter()
        .filter_map(|at| {
            let (change, test) = (&changes[*at], changes[*at].test?);
            Some(test.p_value(change.difference(), margin(change, limits[*at])))
        })
        .collect();
    for (at, p_value) in tested.into_iter().zip(holm(&p_values)) {
        changes[at].p_value = Some(p_value);
    }
    for (change, limit) in changes.iter_mut().zip(limits.iter().copied()) {
        let difference = change.difference();
        let counts = limit.is_none_or(|tolerance| tolerance.counts(difference));
        let size = change.first.mean.abs().max(change.second.mean.abs());
        let is_beyond = difference.abs() > margin(change, limit) + ROUNDING * size;
        let is_significant = change.p_value.is_none_or(|p_value| p_value <= SIGNIFICANCE);
        change.changed = counts && is_beyond && is_significant;
    }
}

fn clock(clock: Clock) -> &'static str {
    match clock {
        Clock::Wall => "wall clock",
        Clock::Virtual => "virtual clock",
    }
}

fn notes(first: &Side, second: &Side) -> Vec<String> {
    let (a, b) = (&first.summary, &second.summary);
    let mut notes = Vec::new();
    if a.lab != b.lab {
        let keys = match (&first.lab, &second.lab) {
            (Some(a), Some(b)) => labs::differences(a, b),
            _ => Vec::new(),
        };
        match keys.len() {
            0 => notes.push("the labs differ".to_owned()),
            count => {
                notes.extend(
                    keys.into_iter().take(MAX_KEYS).map(|k| format!("the labs differ: {k}")),
                );
                let more = count.saturating_sub(MAX_KEYS);
                notes.extend((more > 0).then(|| format!("the labs differ in {more} more keys")));
            }
        }
    }
    if let ([one], [two]) = (&*a.seeds, &*b.seeds)
        && one != two
    {
        notes.push(format!("the seeds differ: {one} and {two}"));
    }
    if a.version != b.version {
        notes.push(format!("the versions of netarium differ: {} and {}", a.version, b.version));
    }
    if a.clock == Clock::Wall && b.clock == Clock::Wall && a.count() == 1 && b.count() == 1 {
        notes.push(
            "two single runs on the wall clock also differ by chance; compare sets of \
             `netarium run LAB --repeat 5`"
                .to_owned(),
        );
    }
    for (which, summary) in [("first", a), ("second", b)] {
        if summary.outcome != Some(RunOutcome::Passed) {
            let word = summary.outcome.map_or("still running", RunOutcome::as_str);
            let what = if summary.count() == 1 { "run" } else { "set of runs" };
            notes.push(format!("outcome of the {which} {what}: {word}"));
        }
    }
    notes
}

#[cfg(test)]
mod tests;
