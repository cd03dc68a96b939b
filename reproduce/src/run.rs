//! A run that a figure is made of.

use base::Direction;
use run::record::{FlowSummary, LinkSummary};
use run::table::Table;
use run::{RunFolder, RunRecord};
use std::collections::BTreeMap;

use crate::statistics::{Counted, rates};
use crate::{Clock, Error, Model, Result};

/// What is read of a program's output.
const OUTPUT_LIMIT: u64 = 64 << 20;

/// A run: its record, and what is sampled in its folder.
#[derive(Clone, Debug)]
pub struct Run {
    /// The job's name.
    pub name: String,
    /// The clock it followed.
    pub clock: Clock,
    /// How its network was modelled; `None` where the lab says it.
    pub model: Option<Model>,
    /// How often it was made until it was trusted, or given up.
    pub tries: u32,
    /// Its summary.
    pub record: RunRecord,
    /// Where everything is.
    pub folder: RunFolder,
}

impl Run {
    /// Clock and model, to tell runs of one lab apart: `wall, hop`.
    pub fn label(&self) -> String {
        label(self.clock, self.model)
    }

    /// Whether no reason against its numbers was found.
    pub fn trusted(&self) -> bool {
        self.record.verdict.as_ref().is_some_and(|verdict| verdict.trusted)
    }

    /// A built-in flow over the whole run.
    pub fn flow(&self, name: &str) -> Result<&FlowSummary> {
        let found = self.record.flows.iter().find(|flow| flow.name == name);
        found.ok_or_else(|| self.missing(format!("flow {name}")))
    }

    /// A direction of a link over the whole run.
    pub fn link(&self, name: &str, direction: Direction) -> Result<&LinkSummary> {
        let is = |link: &&LinkSummary| link.name == name && link.direction == word(direction);
        let found = self.record.links.iter().find(is);
        found.ok_or_else(|| self.missing(format!("link {name} {}", word(direction))))
    }

    /// What a program wrote to standard output.
    pub fn output(&self, program: &str) -> Result<String> {
        let name = format!("programs/{program}/stdout");
        let bytes = self.folder.read_start(&name, OUTPUT_LIMIT)?;
        let bytes = bytes.ok_or_else(|| self.missing(format!("program {program}")))?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }

    /// One of the run's tables: `flows`, `links`, `transfers`, `shares`, `control`,
    /// `sessions`.
    pub fn table(&self, name: &str) -> Result<Table> {
        let path = self.folder.file(&format!("{name}.parquet"));
        if !path.is_file() {
            return Err(self.missing(format!("table {name}")));
        }
        Ok(Table::read(&path)?)
    }

    /// Payload that a flow's receiver got, in steps of so many seconds from the run's start: the
    /// middle of each step in seconds, and bit/s. Steps no shorter than the lab's `interval`.
    pub fn flow_rate(&self, flow: &str, step_s: f64) -> Result<Vec<(f64, f64)>> {
        self.flow(flow)?;
        let table = self.table("flows")?;
        let is = rows_of(&table, "flow", flow);
        self.rate(&table, "received_bytes", &is, step_s)
    }

    /// Payload that a flow's sender sent, as [`Self::flow_rate`] has it.
    pub fn flow_sent_rate(&self, flow: &str, step_s: f64) -> Result<Vec<(f64, f64)>> {
        self.flow(flow)?;
        let table = self.table("flows")?;
        let is = rows_of(&table, "flow", flow);
        self.rate(&table, "sent_bytes", &is, step_s)
    }

    /// The rates of all flows by their names, as [`Self::flow_rate`] has them.
    pub fn flow_rates(&self, step_s: f64) -> Result<BTreeMap<String, Vec<(f64, f64)>>> {
        let table = self.table("flows")?;
        let flows = self.record.flows.iter();
        let mut samples: BTreeMap<String, Vec<Counted>> =
            flows.map(|flow| (flow.name.clone(), Vec::new())).collect();
        let names = table.texts("flow").unwrap_or_default();
        for (name, sample) in names.into_iter().zip(self.counted(&table, "received_bytes")?) {
            samples.entry(name).or_default().push(sample);
        }
        let end = self.record.elapsed_s;
        Ok(samples.into_iter().map(|(name, own)| (name, rates(&own, step_s, end))).collect())
    }

    /// Wire bytes that a link sent in one direction, as [`Self::flow_rate`] has them.
    pub fn link_rate(
        &self,
        link: &str,
        direction: Direction,
        step_s: f64,
    ) -> Result<Vec<(f64, f64)>> {
        self.link(link, direction)?;
        let table = self.table("links")?;
        let links = rows_of(&table, "link", link);
        let directions = rows_of(&table, "direction", word(direction));
        let is: Vec<bool> = links.iter().zip(directions).map(|(a, b)| *a && b).collect();
        self.rate(&table, "sent_bytes", &is, step_s)
    }

    /// A column of a flow's samples: the end of each interval in seconds, and the value; samples
    /// without one are left out.
    pub fn flow_samples(&self, flow: &str, column: &str) -> Result<Vec<(f64, u64)>> {
        let table = self.table("flows")?;
        let times = self.integers(&table, "time_ns")?;
        let values = self.integers(&table, column)?;
        let rows = rows_of(&table, "flow", flow).into_iter().zip(times.into_iter().zip(values));
        let of = rows.filter(|(is, _)| *is);
        Ok(of.filter_map(|(_, (t, v))| Some((t? as f64 / 1e9, v?))).collect())
    }

    /// Times from request to response of an RPC flow, in seconds and order: those that were the
    /// only ones in their sampling interval, whose recorded maximum is the time itself. A lab with
    /// `interval` below its round trip time has them all.
    pub fn round_trips(&self, flow: &str) -> Result<Vec<f64>> {
        let counts = self.flow_samples(flow, "responses")?;
        let alone: Vec<f64> = counts.iter().filter(|(_, n)| *n == 1).map(|(at, _)| *at).collect();
        let times = self.flow_samples(flow, "latency_max_ns")?;
        let single = |at: f64| alone.binary_search_by(|other| other.total_cmp(&at)).is_ok();
        let of = times.into_iter().filter(|(at, _)| single(*at));
        Ok(of.map(|(_, ns)| ns as f64 / 1e9).collect())
    }

    fn rate(
        &self,
        table: &Table,
        column: &str,
        wanted: &[bool],
        step_s: f64,
    ) -> Result<Vec<(f64, f64)>> {
        let rows = self.counted(table, column)?.into_iter().zip(wanted);
        let samples: Vec<Counted> = rows.filter(|(_, is)| **is).map(|(row, _)| row).collect();
        Ok(rates(&samples, step_s, self.record.elapsed_s))
    }

    /// A column of bytes in bits, row by row.
    fn counted(&self, table: &Table, column: &str) -> Result<Vec<Counted>> {
        let times = self.integers(table, "time_ns")?;
        let lengths = self.integers(table, "interval_ns")?;
        let counts = self.integers(table, column)?;
        let seconds = |ns: Option<u64>| ns.unwrap_or_default() as f64 / 1e9;
        let rows = times.into_iter().zip(lengths).zip(counts);
        let row = |((time, length), count): ((_, _), Option<u64>)| Counted {
            end: seconds(time),
            length: seconds(length),
            count: count.unwrap_or_default() as f64 * 8.0,
        };
        Ok(rows.map(row).collect())
    }

    /// The values of a column of integers.
    pub(crate) fn integers(&self, table: &Table, column: &str) -> Result<Vec<Option<u64>>> {
        table.integers(column).ok_or_else(|| self.missing(format!("column {column}")))
    }

    /// The values of a column of real numbers.
    pub(crate) fn reals(&self, table: &Table, column: &str) -> Result<Vec<Option<f64>>> {
        table.reals(column).ok_or_else(|| self.missing(format!("column {column}")))
    }

    pub(crate) fn missing(&self, what: String) -> Error {
        Error::Missing { run: self.folder.path().display().to_string(), what }
    }
}

/// Clock and model in words.
pub(crate) fn label(clock: Clock, model: Option<Model>) -> String {
    let clock = match clock {
        Clock::Wall => "wall",
        Clock::Virtual => "virtual",
    };
    model.map_or(clock.to_owned(), |model| format!("{clock}, {}", model.as_str()))
}

fn word(direction: Direction) -> &'static str {
    match direction {
        Direction::Up => "up",
        Direction::Down => "down",
    }
}

fn rows_of(table: &Table, column: &str, value: &str) -> Vec<bool> {
    let texts = table.texts(column).unwrap_or_default();
    texts.iter().map(|text| text == value).collect()
}
