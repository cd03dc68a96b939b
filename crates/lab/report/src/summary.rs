//! Metrics of one run or of several runs of one lab: the file `summary.json` of a set of runs, and
//! stored baselines.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use base::statistics::Sample;
use lab::expect::Quantity;
use run::record::{Clock, RunOutcome};
use run::{Exit, RunRecord};
use serde::{Deserialize, Serialize};

use crate::format;

/// The value of [`Summary::schema`].
pub const SCHEMA: &str = "netarium.summary/1";

pub(crate) const CONFIDENCE: f64 = 0.95;

/// Further metrics of a set are only counted.
const MAX_ROWS: usize = 60;

/// Maximum size of a file in bytes; a metric takes about 150.
const MAX_BYTES: u64 = 64 << 20;

/// Metrics of one run or of several runs of one lab.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Summary {
    /// Always [`SCHEMA`].
    pub schema: String,
    pub version: String,
    pub name: String,
    pub clock: Clock,
    /// Hash of the resolved lab without its seed.
    pub lab: String,
    pub seeds: Vec<u64>,
    pub outcome: Option<RunOutcome>,
    /// The runs of a set; empty for a single run and in a stored baseline.
    #[serde(default)]
    pub runs: Vec<SetRun>,
    pub metrics: BTreeMap<String, MetricSummary>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SetRun {
    /// Name of its folder in the folder of the set.
    pub folder: String,
    pub seed: u64,
    pub outcome: Option<RunOutcome>,
    pub exit_code: Option<Exit>,
}

/// A metric over the runs that measured it.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "MetricFields", into = "MetricFields")]
pub struct MetricSummary {
    pub unit: Unit,
    pub sample: Sample,
}

/// A metric in a file. The interval is derived from the other values and ignored when read.
#[derive(Serialize, Deserialize)]
struct MetricFields {
    unit: Unit,
    n: u64,
    mean: f64,
    #[serde(default)]
    sd: f64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    low: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    high: Option<f64>,
}

impl TryFrom<MetricFields> for MetricSummary {
    type Error = String;

    fn try_from(fields: MetricFields) -> Result<Self, String> {
        let MetricFields { unit, n, mean, sd, .. } = fields;
        if n == 0 {
            return Err("invalid n = 0: expected at least 1".to_owned());
        }
        if !mean.is_finite() {
            return Err(format!("invalid mean = {mean}: expected a finite number"));
        }
        if !(sd.is_finite() && sd >= 0.0) {
            return Err(format!("invalid sd = {sd}: expected at least 0"));
        }
        Ok(Self { unit, sample: Sample { count: n, mean, deviation: sd } })
    }
}

impl From<MetricSummary> for MetricFields {
    fn from(metric: MetricSummary) -> Self {
        let Sample { count: n, mean, deviation: sd } = metric.sample;
        let (low, high) = metric.sample.interval(CONFIDENCE).unzip();
        Self { unit: metric.unit, n, mean, sd, low, high }
    }
}

/// The unit of a metric's values in files.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Unit {
    #[serde(rename = "bit/s")]
    Rate,
    #[serde(rename = "s")]
    Seconds,
    #[serde(rename = "B")]
    Data,
    /// 1 is the whole.
    #[serde(rename = "share")]
    Share,
    #[serde(rename = "count")]
    Count,
    /// 1 or 0.
    #[serde(rename = "boolean")]
    Truth,
}

impl Unit {
    /// The unit of a quantity, and the size of the quantity's base unit in it.
    fn of(quantity: Quantity) -> (Self, f64) {
        match quantity {
            Quantity::Rate => (Self::Rate, 1.0),
            Quantity::Time => (Self::Seconds, 1e9),
            Quantity::Data => (Self::Data, 1.0),
            Quantity::Share => (Self::Share, 1.0),
            Quantity::Count => (Self::Count, 1.0),
            Quantity::Truth => (Self::Truth, 1.0),
        }
    }

    /// The name in files.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Rate => "bit/s",
            Self::Seconds => "s",
            Self::Data => "B",
            Self::Share => "share",
            Self::Count => "count",
            Self::Truth => "boolean",
        }
    }

    pub(crate) fn text(self, value: f64) -> String {
        match self {
            Self::Rate => format::rate(value),
            Self::Seconds => format::seconds(value),
            Self::Data => format::with_unit(value, format::DATA),
            Self::Share => format::share(value),
            Self::Count | Self::Truth if value.fract() == 0.0 && value >= 0.0 => {
                format::count(value as u64)
            }
            Self::Count | Self::Truth => format::number(value),
        }
    }
}

/// An error of a summary in a file.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SummaryError {
    #[error("cannot read {}: {source}", path.display())]
    Read { path: PathBuf, source: std::io::Error },
    #[error("{} is larger than {} bytes, the maximum for a summary", path.display(), MAX_BYTES)]
    TooLarge { path: PathBuf },
    #[error("{}:{}:{}: {}", path.display(), source.line(), source.column(), reason(source))]
    Invalid { path: PathBuf, source: serde_json::Error },
    #[error("{}: expected the schema {SCHEMA}, found `{found}`", path.display())]
    Schema { path: PathBuf, found: String },
}

/// The text of an error without its position, which is beside the path.
fn reason(error: &serde_json::Error) -> String {
    let text = error.to_string();
    text.rsplit_once(" at line ").map_or(&*text, |(text, _)| text).to_owned()
}

impl Summary {
    /// The summary of some runs of one lab, whose resolved file is `lab`; `None` without runs.
    pub fn of(records: &[RunRecord], lab: &str) -> Option<Self> {
        let first = records.first()?;
        let mut values: BTreeMap<String, (Unit, Vec<f64>)> = BTreeMap::new();
        for metric in records.iter().flat_map(run::metrics) {
            let (unit, size) = Unit::of(metric.quantity);
            let entry = values.entry(metric.name).or_insert_with(|| (unit, Vec::new()));
            entry.1.push(metric.value / size);
        }
        let metrics = values.into_iter().filter_map(|(name, (unit, values))| {
            Some((name, MetricSummary { unit, sample: Sample::of(&values)? }))
        });
        let outcome = |record: &RunRecord| record.conclusion().map(|end| end.outcome);
        let run = |record: &RunRecord| SetRun {
            folder: format!("{}-{}", record.name, record.id),
            seed: record.seed,
            outcome: outcome(record),
            exit_code: record.exit_code,
        };
        let outcomes: Option<Vec<_>> = records.iter().map(outcome).collect();
        let rank = |outcome: &RunOutcome| match outcome {
            RunOutcome::Failed => 0,
            RunOutcome::Untrusted => 1,
            RunOutcome::Passed => 2,
        };
        let runs = if records.len() > 1 { records.iter().map(run).collect() } else { Vec::new() };
        Some(Self {
            schema: SCHEMA.to_owned(),
            version: first.version.clone(),
            name: first.name.clone(),
            clock: first.clock,
            lab: run::hash_text(base::fnv::hash(without_seed(lab).as_bytes())),
            seeds: records.iter().map(|record| record.seed).collect(),
            outcome: outcomes.and_then(|all| all.into_iter().min_by_key(rank)),
            runs,
            metrics: metrics.collect(),
        })
    }

    pub fn read(path: &Path) -> Result<Self, SummaryError> {
        use std::io::Read as _;
        let mut text = Vec::new();
        let read = lab::open_regular(path)
            .and_then(|file| file.take(MAX_BYTES + 1).read_to_end(&mut text));
        read.map_err(|source| SummaryError::Read { path: path.to_owned(), source })?;
        if text.len() as u64 > MAX_BYTES {
            return Err(SummaryError::TooLarge { path: path.to_owned() });
        }
        let invalid = |source| SummaryError::Invalid { path: path.to_owned(), source };
        let head: Head = serde_json::from_slice(&text).map_err(invalid)?;
        if head.schema != SCHEMA {
            return Err(SummaryError::Schema { path: path.to_owned(), found: head.schema });
        }
        serde_json::from_slice(&text).map_err(invalid)
    }

    /// The file's text: one line per field, run and metric, for small differences in a repository.
    pub fn to_json(&self) -> serde_json::Result<String> {
        let mut out = String::from("{\n");
        let mut field = |name: &str, value: String| {
            let _ = writeln!(out, "  \"{name}\": {value},");
        };
        field("schema", serde_json::to_string(&self.schema)?);
        field("version", serde_json::to_string(&self.version)?);
        field("name", serde_json::to_string(&self.name)?);
        field("clock", serde_json::to_string(&self.clock)?);
        field("lab", serde_json::to_string(&self.lab)?);
        field("seeds", serde_json::to_string(&self.seeds)?);
        field("outcome", serde_json::to_string(&self.outcome)?);
        if !self.runs.is_empty() {
            let runs = self.runs.iter().map(serde_json::to_string);
            let runs = runs.collect::<Result<Vec<_>, _>>()?.join(",\n    ");
            field("runs", format!("[\n    {runs}\n  ]"));
        }
        let metric = |(name, metric): (&String, &MetricSummary)| {
            let name = serde_json::to_string(name)?;
            Ok(format!("    {name}: {}", serde_json::to_string(metric)?))
        };
        let metrics = self.metrics.iter().map(metric).collect::<serde_json::Result<Vec<_>>>()?;
        let _ = write!(out, "  \"metrics\": {{\n{}\n  }}\n}}\n", metrics.join(",\n"));
        Ok(out)
    }

    /// Removes all but the chosen metrics, and the list of runs.
    #[must_use]
    pub fn baseline(mut self, chosen: &BTreeSet<String>) -> Self {
        self.metrics.retain(|name, _| chosen.contains(name));
        self.runs.clear();
        self
    }

    pub fn count(&self) -> usize {
        self.seeds.len()
    }
}

/// The first thing to check of a file.
#[derive(Deserialize)]
struct Head {
    schema: String,
}

/// A resolved lab without comments and without its seed.
fn without_seed(lab: &str) -> String {
    let mut section = "";
    let mut out = String::with_capacity(lab.len());
    for line in lab.lines() {
        if line.starts_with('[') {
            section = line;
        }
        let is_seed = section == "[lab]" && line.starts_with("seed = ");
        if !is_seed && !line.starts_with('#') {
            out.push_str(line);
            out.push('\n');
        }
    }
    out
}

/// Whether a metric is compared and shown without being chosen: not the lateness of the machine,
/// and of distributions only mean, p50 and p99.
pub(crate) fn is_default(name: &str) -> bool {
    let (rest, statistic) = name.rsplit_once('.').unwrap_or(("", name));
    let measure = rest.rsplit('.').next().unwrap_or_default();
    let only_max = matches!(measure, "queue" | "gap" | "reorder" | "backlog");
    let is_chosen = match statistic {
        "min" | "p90" | "p999" => false,
        "max" => only_max,
        _ => true,
    };
    is_chosen && !name.starts_with("run.lateness.")
}

/// The metrics of a set for a terminal: mean and 95 % confidence interval, in at most 80 columns.
pub fn table(summary: &Summary) -> String {
    let heads = ["metric", "mean", "95 % interval", "n"];
    let chosen = summary.metrics.iter().filter(|(name, _)| is_default(name));
    let rows = chosen.map(|(name, metric)| {
        let text = |value| metric.unit.text(value);
        let interval = match metric.sample.interval(CONFIDENCE) {
            Some((low, high)) if low >= high => "constant".to_owned(),
            Some((low, high)) => format!("{} … {}", text(low), text(high)),
            None => "–".to_owned(),
        };
        let count = metric.sample.count.to_string();
        vec![name.clone(), text(metric.sample.mean), interval, count]
    });
    let rows: Vec<_> = rows.collect();
    let shown = &rows[..rows.len().min(MAX_ROWS)];
    let mut out = crate::columns::fitted(&heads, shown, 1..4);
    out.push('\n');
    if rows.len() > shown.len() {
        let _ = writeln!(out, "… {} more in summary.json", rows.len() - shown.len());
    }
    out
}

#[cfg(test)]
pub(crate) mod tests;
