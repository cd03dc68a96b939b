//! Samples from the run's tables, on one time grid that all plots share.

use std::collections::BTreeMap;

use record::table::Table;
use record::{DropReason, RunFolder, RunRecord};

use crate::Error;

/// Points that a plot can show.
const POINTS: usize = 300;

/// The tables of a run; empty where a run has none.
pub(crate) struct Samples {
    links: Option<Table>,
    pub(crate) flows: Option<Table>,
    transfers: Option<Table>,
    shares: Option<Table>,
    pub(crate) control: Option<Table>,
    pub(crate) sessions: Option<Table>,
    pub(crate) bundles: Option<Table>,
    pub(crate) subflows: Option<Table>,
}

/// A transfer that was delivered whole.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Transferred {
    pub(crate) flow: String,
    pub(crate) bytes: f64,
    pub(crate) seconds: f64,
    /// Over the time on an empty network, where that is known.
    pub(crate) slowdown: Option<f64>,
}

/// Equal steps of time from the run's start.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Grid {
    pub(crate) step_s: f64,
    /// The nominal sampling interval.
    pub(crate) interval_s: f64,
    pub(crate) points: usize,
}

/// A line of a plot: a value for each step of the grid.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Series {
    pub(crate) name: String,
    /// Which colour and dash, the same in every plot.
    pub(crate) style: usize,
    pub(crate) values: Vec<Option<f64>>,
}

/// How the samples within a step become one value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fold {
    /// Their sum over the step's length; no samples are zero.
    PerSecond,
    /// The largest; no samples are zero.
    Max,
    /// The mean; no samples leave a gap.
    Mean,
}

/// One column of a table, by the key that tells the lines of a plot apart.
pub(crate) struct Columns {
    keys: Vec<String>,
    times_ns: Vec<u64>,
    values: Vec<Option<u64>>,
}

impl Grid {
    /// Steps of whole sampling intervals over the whole run.
    pub(crate) fn of(record: &RunRecord) -> Self {
        let interval = if record.interval_s > 0.0 { record.interval_s } else { 0.1 };
        let samples = (record.elapsed_s.max(interval) / interval - 1e-6).ceil().max(1.0);
        let step_s = interval * (samples / POINTS as f64).ceil();
        let points = (record.elapsed_s.max(interval) / step_s - 1e-6).ceil() as usize;
        Self { step_s, interval_s: interval, points: points.clamp(1, POINTS) }
    }

    pub(crate) fn end_s(self) -> f64 {
        self.step_s * self.points as f64
    }

    /// The step that a sample whose interval ends at `time_ns` belongs to: the one that holds the
    /// interval's middle, for samples are taken a little late.
    fn step(self, time_ns: u64) -> usize {
        let middle = time_ns as f64 / 1e9 - self.interval_s / 2.0;
        let position = (middle / self.step_s).max(0.0) as usize;
        position.min(self.points - 1)
    }
}

impl Samples {
    pub(crate) fn read(folder: &RunFolder) -> Result<Self, Error> {
        let read = |name| {
            let path = folder.file(name);
            if path.is_file() { Table::read(&path).map(Some) } else { Ok(None) }
        };
        Ok(Self {
            links: read("links.parquet")?,
            flows: read("flows.parquet")?,
            transfers: read("transfers.parquet")?,
            shares: read(record::shares::FILE)?,
            control: read(record::control::FILE)?,
            sessions: read(record::control::SESSIONS_FILE)?,
            bundles: read(record::bundle::FILE)?,
            subflows: read(record::subflow::FILE)?,
        })
    }

    /// Transfers that were delivered whole.
    pub(crate) fn transfers(&self) -> Vec<Transferred> {
        let rows = |table: &Table| {
            let flows = table.texts("flow")?.into_iter();
            let sizes = table.integers("size_bytes")?.into_iter();
            let took = table.integers("completion_ns")?.into_iter();
            let slowdowns = table.integers("slowdown_milli")?.into_iter();
            let rows = flows.zip(sizes).zip(took.zip(slowdowns));
            let row = |((flow, bytes), (ns, milli)): ((String, _), (Option<u64>, Option<u64>))| {
                let bytes: Option<u64> = bytes;
                Some(Transferred {
                    flow,
                    bytes: bytes? as f64,
                    seconds: ns? as f64 / 1e9,
                    slowdown: milli.map(|milli| milli as f64 / 1e3),
                })
            };
            Some(rows.filter_map(row).collect())
        };
        self.transfers.as_ref().and_then(rows).unwrap_or_default()
    }

    /// A column of the flow samples, keyed by the flow.
    pub(crate) fn flow(&self, column: &str) -> Option<Columns> {
        let table = self.flows.as_ref()?;
        Columns::new(table, table.texts("flow")?, column)
    }

    /// A column of the link samples, keyed by link and direction.
    pub(crate) fn link(&self, column: &str) -> Option<Columns> {
        let table = self.links.as_ref()?;
        let directions = table.texts("direction")?;
        let names = table.texts("link")?.into_iter().zip(directions);
        Columns::new(table, names.map(|(link, d)| link_key(&link, &d)).collect(), column)
    }

    /// The shares of emulated flows, keyed by the nodes that they run between.
    pub(crate) fn shares(&self) -> Option<Columns> {
        let table = self.shares.as_ref()?;
        let ends = table.texts("from")?.into_iter().zip(table.texts("to")?);
        Columns::new(table, ends.map(|(from, to)| format!("{from} → {to}")).collect(), "share_bps")
    }

    /// Dropped packets per second over all links, one series for each reason that occurred.
    pub(crate) fn drops(&self, grid: Grid) -> Vec<Series> {
        let reasons = DropReason::ALL.iter().filter_map(|reason| {
            let mut columns = self.link(reason.column())?;
            columns.keys.fill(reason.as_str().to_owned());
            columns.series(grid, Fold::PerSecond, 1.0).pop()
        });
        reasons.filter(|s| s.values.iter().flatten().any(|v| *v > 0.0)).collect()
    }
}

/// How a direction of a link is called in plots.
pub(crate) fn link_key(link: &str, direction: &str) -> String {
    let arrow = if direction == "up" { "→" } else { "←" };
    format!("{link} {arrow}")
}

impl Columns {
    fn new(table: &Table, keys: Vec<String>, column: &str) -> Option<Self> {
        let times_ns = table.integers("time_ns")?.into_iter().map(Option::unwrap_or_default);
        let values = table.integers(column)?;
        Some(Self { keys, times_ns: times_ns.collect(), values })
    }

    /// A series for each key, by name; values are multiplied by `scale`.
    pub(crate) fn series(&self, grid: Grid, fold: Fold, scale: f64) -> Vec<Series> {
        let mut sums: BTreeMap<&str, Vec<(f64, u32)>> = BTreeMap::new();
        for ((key, time), value) in self.keys.iter().zip(&self.times_ns).zip(&self.values) {
            let Some(value) = value else { continue };
            let steps = sums.entry(key).or_insert_with(|| vec![(0.0, 0); grid.points]);
            let (sum, count) = &mut steps[grid.step(*time)];
            *sum = if fold == Fold::Max { sum.max(*value as f64) } else { *sum + *value as f64 };
            *count += 1;
        }
        let value = |(sum, count): &(f64, u32)| match fold {
            Fold::PerSecond => Some(sum * scale / grid.step_s),
            Fold::Max => Some(sum * scale),
            Fold::Mean => (*count > 0).then(|| sum * scale / f64::from(*count)),
        };
        sums.into_iter()
            .map(|(name, steps)| Series {
                name: name.to_owned(),
                style: 0,
                values: steps.iter().map(value).collect(),
            })
            .collect()
    }
}

/// Gives each series the style of its place in `order`, which all plots of its kind share.
pub(crate) fn styled(mut series: Vec<Series>, order: &[String]) -> Vec<Series> {
    for (index, series) in series.iter_mut().enumerate() {
        series.style = order.iter().position(|name| *name == series.name).unwrap_or(index);
    }
    series
}

/// The `keep` series with the largest sums, largest first, and how many were left out.
pub(crate) fn largest(mut series: Vec<Series>, keep: usize) -> (Vec<Series>, usize) {
    let total = |s: &Series| s.values.iter().flatten().sum::<f64>();
    series.retain(|s| s.values.iter().any(Option::is_some));
    series.sort_by(|a, b| total(b).total_cmp(&total(a)).then_with(|| a.name.cmp(&b.name)));
    let left_out = series.len().saturating_sub(keep);
    series.truncate(keep);
    (series, left_out)
}

/// Gives the lines of one plot different styles, of which there are `styles`. The first to have a
/// style keeps it, so that lines look alike in all plots where they can.
pub(crate) fn told_apart(series: &mut [Series], styles: usize) {
    let mut free = vec![true; styles];
    let mut others = Vec::new();
    for line in series {
        line.style %= styles;
        if std::mem::take(&mut free[line.style]) {
            continue;
        }
        others.push(line);
    }
    let mut free = (0..styles).filter(|style| free[*style]);
    for line in others {
        line.style = free.next().unwrap_or(line.style);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn columns(rows: &[(&str, u64, Option<u64>)]) -> Columns {
        Columns {
            keys: rows.iter().map(|r| r.0.to_owned()).collect(),
            times_ns: rows.iter().map(|r| r.1).collect(),
            values: rows.iter().map(|r| r.2).collect(),
        }
    }

    #[test]
    fn grids_are_whole_intervals() {
        let run =
            |elapsed_s, interval_s| RunRecord { elapsed_s, interval_s, ..RunRecord::default() };
        assert_eq!(Grid::of(&run(30.0, 0.1)), Grid { step_s: 0.1, interval_s: 0.1, points: 300 });
        assert_eq!(Grid::of(&run(31.0, 0.1)), Grid { step_s: 0.2, interval_s: 0.1, points: 155 });
        assert_eq!(Grid::of(&run(0.0, 0.0)).points, 1);
    }

    #[test]
    fn folding_sums_maximises_and_averages() {
        let grid = Grid { step_s: 0.5, interval_s: 0.5, points: 2 };
        let half = 500_000_000;
        let rows = [("a", half, Some(4)), ("a", half - 1, Some(2)), ("a", 2 * half, None)];
        let fold = |fold| columns(&rows).series(grid, fold, 1.0)[0].values.clone();
        assert_eq!(fold(Fold::PerSecond), [Some(12.0), Some(0.0)]);
        assert_eq!(fold(Fold::Max), [Some(4.0), Some(0.0)]);
        assert_eq!(fold(Fold::Mean), [Some(3.0), None]);
    }

    #[test]
    fn the_largest_come_first() {
        let series =
            |name: &str, value| Series { name: name.to_owned(), style: 0, values: vec![value] };
        let all = vec![series("a", Some(1.0)), series("b", Some(3.0)), series("c", None)];
        let (kept, left_out) = largest(all, 1);
        assert_eq!((kept[0].name.as_str(), left_out), ("b", 1));
    }

    #[test]
    fn lines_of_a_plot_differ() {
        let mut series: Vec<Series> = [9, 1, 0, 8, 17]
            .map(|style| Series { name: String::new(), style, values: Vec::new() })
            .into();
        told_apart(&mut series, 8);
        let styles: Vec<usize> = series.iter().map(|line| line.style).collect();
        assert_eq!(styles, [1, 2, 0, 3, 4]);
    }
}
