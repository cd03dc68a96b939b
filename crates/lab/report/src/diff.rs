//! The difference of two runs, sets of runs or stored baselines.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::str::FromStr;

use base::statistics::{MeanTest, Sample, holm};
use base::{Bandwidth, Bytes, Ratio, Span};
use run::record::{Clock, RunOutcome};

use crate::summary::{self, MetricSummary, Summary, Unit};
use crate::{columns, format};

mod labs;

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
    /// The test whether the means differ; `None` if neither sample has a variance.
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
    pub fn changed(&self) -> impl Iterator<Item = &Change> {
        self.changes.iter().filter(|change| change.changed)
    }

    /// Whether all chosen metrics are in both sides and none of them changed.
    pub fn is_unchanged(&self) -> bool {
        self.changed().next().is_none() && self.only_first.is_empty() && self.only_second.is_empty()
    }

    /// A table of at most 80 columns: the changed metrics, or `all`, and the notes.
    pub fn text(&self, all: bool) -> String {
        render_table(self, all)
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
                limits.push(find_tolerance(&choice.tolerances, &name, a.unit)?);
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

/// A tolerated difference of some metrics: `5 %`, `flow.*.goodput.mean=-5 %`, `*.delay.p99=2 ms`.
#[derive(Clone, Debug, PartialEq)]
pub struct Tolerance {
    text: String,
    /// A name or pattern; `None` for all metrics.
    metric: Option<String>,
    pub limit: Limit,
    direction: Direction,
}

/// The largest tolerated difference.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Limit {
    /// Of the first mean.
    Share(f64),
    /// In the unit of the metric.
    Absolute(f64, Unit),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Direction {
    Both,
    /// Only an increase is a change.
    Increase,
    /// Only a decrease is a change.
    Decrease,
}

/// The text is not a tolerance.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "expected a share such as '5 %', a value such as '2 ms', or METRIC= and one of them; with a \
     sign (-5 %, +2 ms), only a decrease or an increase is a change"
)]
pub struct ToleranceError;

impl FromStr for Tolerance {
    type Err = ToleranceError;

    fn from_str(text: &str) -> Result<Self, ToleranceError> {
        let (metric, limit) = match text.split_once('=') {
            Some((metric, _)) if metric.trim().is_empty() => return Err(ToleranceError),
            Some((metric, limit)) => (Some(metric.trim().to_owned()), limit),
            None => (None, text),
        };
        let limit = limit.trim();
        let (direction, number) = match limit.split_at_checked(1) {
            Some(("-", rest)) => (Direction::Decrease, rest.trim_start()),
            Some(("+", rest)) => (Direction::Increase, rest.trim_start()),
            _ => (Direction::Both, limit),
        };
        let value = Limit::read(number).ok_or(ToleranceError)?;
        Ok(Self { text: limit.to_owned(), metric, limit: value, direction })
    }
}

impl Limit {
    fn read(text: &str) -> Option<Self> {
        if let Ok(share) = text.parse::<Ratio>() {
            return Some(Self::Share(share.as_f64()));
        }
        if let Ok(span) = text.parse::<Span>() {
            return Some(Self::Absolute(span.as_secs_f64(), Unit::Seconds));
        }
        if let Ok(rate) = text.parse::<Bandwidth>() {
            return Some(Self::Absolute(rate.bits_per_sec() as f64, Unit::Rate));
        }
        if let Ok(bytes) = text.parse::<Bytes>() {
            return Some(Self::Absolute(bytes.count() as f64, Unit::Data));
        }
        let count = text.parse::<f64>().ok().filter(|count| count.is_finite() && *count >= 0.0)?;
        Some(Self::Absolute(count, Unit::Count))
    }
}

impl Tolerance {
    /// The largest tolerated difference from a mean.
    fn margin(&self, mean: f64) -> f64 {
        match self.limit {
            Limit::Share(share) => share * mean.abs(),
            Limit::Absolute(value, _) => value,
        }
    }

    /// Whether a difference in this direction can be a change.
    fn counts(&self, difference: f64) -> bool {
        match self.direction {
            Direction::Both => true,
            Direction::Increase => difference > 0.0,
            Direction::Decrease => difference < 0.0,
        }
    }
}

fn find_tolerance<'a>(
    tolerances: &'a [Tolerance],
    metric: &str,
    unit: Unit,
) -> Result<Option<&'a Tolerance>, ChoiceError> {
    let named = |t: &&Tolerance| t.metric.as_ref().is_some_and(|pattern| is_match(pattern, metric));
    let of_all = || tolerances.iter().rfind(|tolerance| tolerance.metric.is_none());
    let Some(found) = tolerances.iter().rfind(named).or_else(of_all) else { return Ok(None) };
    match found.limit {
        Limit::Absolute(_, expected) if expected != unit => Err(ChoiceError::Unit {
            tolerance: found.text.clone(),
            metric: metric.to_owned(),
            unit,
        }),
        _ => Ok(Some(found)),
    }
}

fn render_table(diff: &Diff, all: bool) -> String {
    let shown: Vec<&Change> = diff.changes.iter().filter(|c| all || c.changed).collect();
    let mut out = String::new();
    if !shown.is_empty() {
        let has_tests = shown.iter().any(|change| change.p_value.is_some());
        let [first, second] = &diff.heads;
        let mut heads = vec!["metric", first, second, "change"];
        heads.extend(has_tests.then_some("p"));
        let rows: Vec<_> = shown.iter().map(|change| table_row(change, has_tests)).collect();
        let _ = writeln!(out, "{}\n", columns::fitted(&heads, &rows, 1..heads.len()));
    }
    for (which, names) in [("first", &diff.only_first), ("second", &diff.only_second)] {
        for name in names {
            let _ = writeln!(out, "{name}: in the {which} run only");
        }
    }
    let changed = match diff.changed().count() {
        0 => "none changed".to_owned(),
        count => format!("{} changed", format::count(count as u64)),
    };
    let compared = format::plural(diff.changes.len(), "metric");
    let _ = writeln!(out, "{compared} compared, {changed}");
    for note in &diff.notes {
        let _ = writeln!(out, "note: {note}");
    }
    out
}

fn table_row(change: &Change, has_tests: bool) -> Vec<String> {
    let text = |value| change.unit.text(value);
    let mut row = vec![
        change.metric.clone(),
        text(change.first.mean),
        text(change.second.mean),
        relative(change),
    ];
    row.extend(has_tests.then(|| match change.p_value {
        None => "–".to_owned(),
        Some(p_value) if p_value < 0.001 => "<0.001".to_owned(),
        Some(p_value) => format!("{p_value:.3}"),
    }));
    row
}

/// The relative change, with half of its interval.
fn relative(change: &Change) -> String {
    let relative = change.relative();
    if !relative.is_finite() {
        return "from 0".to_owned();
    }
    let percent = relative * 100.0;
    let digits = if percent.abs() < 0.05 && relative != 0.0 { 4 } else { 1 };
    let interval = change.interval().filter(|_| change.first.mean != 0.0);
    match interval {
        Some((low, high)) => {
            let half = (high - low) / 2.0 / change.first.mean.abs() * 100.0;
            format!("{percent:+.1} ±{half:.1} %")
        }
        None if relative == 0.0 => "0 %".to_owned(),
        None => format!("{percent:+.digits$} %"),
    }
}

#[cfg(test)]
mod tests;
