//! Samples from the run's tables on a common time grid.

use std::collections::BTreeMap;

use run::table::Table;
use run::{DropReason, RunFolder, RunRecord};

use crate::Error;

/// Maximum number of points of a plot.
const MAX_POINTS: usize = 300;

/// The tables of a run.
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

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct CompletedTransfer {
    pub(crate) flow: String,
    pub(crate) bytes: f64,
    pub(crate) seconds: f64,
    /// Completion time divided by that on an empty network, if known.
    pub(crate) slowdown: Option<f64>,
}

/// Equal steps of time from the run's start; the last one ends with the run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Grid {
    pub(crate) step_s: f64,
    pub(crate) points: usize,
    /// End of the last step.
    pub(crate) end_s: f64,
}

/// A line of a plot: a value for each step of the grid.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Series {
    pub(crate) name: String,
    /// The number of colour and dash, the same in every plot.
    pub(crate) style: usize,
    pub(crate) values: Vec<Option<f64>>,
}

/// How the samples of a step are aggregated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fold {
    /// Sum divided by the step's length. A sample counts in each step by the share of its interval;
    /// 0 without samples.
    PerSecond,
    /// Maximum; 0 without samples.
    Max,
    /// Mean; a gap without samples.
    Mean,
}

/// One column of a table, with the key of the line that each value belongs to.
pub(crate) struct Columns {
    keys: Vec<String>,
    /// Start and end of each sample's interval, in seconds.
    intervals: Vec<(f64, f64)>,
    values: Vec<Option<u64>>,
}

impl Grid {
    /// Steps of whole sampling intervals over the whole run.
    pub(crate) fn of(record: &RunRecord) -> Self {
        let interval = if record.interval_s > 0.0 { record.interval_s } else { 0.1 };
        let samples = (record.elapsed_s.max(interval) / interval - 1e-6).ceil().max(1.0);
        let step_s = interval * (samples / MAX_POINTS as f64).ceil();
        let points = (record.elapsed_s.max(interval) / step_s - 1e-6).ceil() as usize;
        let points = points.clamp(1, MAX_POINTS);
        let end_s = if record.elapsed_s > 0.0 { record.elapsed_s } else { step_s };
        Self { step_s, points, end_s }
    }

    /// This number of equal steps over the whole run.
    pub(crate) fn with_points(record: &RunRecord, points: usize) -> Self {
        let end_s = Self::of(record).end_s;
        Self { step_s: end_s / points as f64, points, end_s }
    }

    /// The step that contains a time.
    fn step(self, seconds: f64) -> usize {
        ((seconds / self.step_s).max(0.0) as usize).min(self.points - 1)
    }

    /// Start and end of a step.
    pub(crate) fn bounds(self, step: usize) -> (f64, f64) {
        let start = step as f64 * self.step_s;
        (start, if step + 1 == self.points { self.end_s } else { start + self.step_s })
    }

    /// The steps that overlap an interval, and the share of the interval in each; the sum is 1.
    fn shares(self, (start, end): (f64, f64)) -> impl Iterator<Item = (usize, f64)> {
        let (first, last) = (self.step(start), self.step(end));
        let length = end - start;
        (first..=last).map(move |step| {
            if first == last {
                return (step, 1.0);
            }
            let (from, to) = self.bounds(step);
            // Time outside the grid counts in the first or last step.
            let from = if step == first { start } else { from };
            let to = if step == last { end } else { to };
            (step, (to - from) / length)
        })
    }
}

impl Samples {
    pub(crate) fn read(folder: &RunFolder) -> Result<Self, Error> {
        let read = |name| {
            let path = folder.file(name);
            // A link is an error.
            if path.symlink_metadata().is_ok() { Table::read(&path).map(Some) } else { Ok(None) }
        };
        Ok(Self {
            links: read("links.parquet")?,
            flows: read("flows.parquet")?,
            transfers: read("transfers.parquet")?,
            shares: read(run::sample::shares::FILE)?,
            control: read(run::sample::control::FILE)?,
            sessions: read(run::sample::control::SESSIONS_FILE)?,
            bundles: read(run::sample::bundle::FILE)?,
            subflows: read(run::sample::subflow::FILE)?,
        })
    }

    pub(crate) fn transfers(&self) -> Vec<CompletedTransfer> {
        let rows = |table: &Table| {
            let flows = table.texts("flow")?.into_iter();
            let sizes = table.integers("size_bytes")?.into_iter();
            let times = table.integers("completion_ns")?.into_iter();
            let slowdowns = table.integers("slowdown_milli")?.into_iter();
            let rows = flows.zip(sizes).zip(times.zip(slowdowns));
            let row = |((flow, bytes), (ns, milli)): ((String, _), (Option<u64>, Option<u64>))| {
                let bytes: Option<u64> = bytes;
                Some(CompletedTransfer {
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

    /// The shares of emulated flows, keyed by their end nodes.
    pub(crate) fn shares(&self) -> Option<Columns> {
        let table = self.shares.as_ref()?;
        let ends = table.texts("from")?.into_iter().zip(table.texts("to")?);
        Columns::new(table, ends.map(|(from, to)| format!("{from} → {to}")).collect(), "share_bps")
    }

    /// Dropped packets per second over all links, one series for each reason that occurred.
    /// Packets whose TTL expired are not drops.
    pub(crate) fn drops(&self, grid: Grid) -> Vec<Series> {
        let reasons = DropReason::ALL.iter().filter(|r| **r != DropReason::TtlExceeded);
        let reasons = reasons.filter_map(|reason| {
            let mut columns = self.link(reason.column())?;
            columns.keys.fill(reason.as_str().to_owned());
            columns.series(grid, Fold::PerSecond, 1.0).pop()
        });
        reasons.filter(|s| s.values.iter().flatten().any(|v| *v > 0.0)).collect()
    }
}

/// The name of a link direction in plots.
pub(crate) fn link_key(link: &str, direction: &str) -> String {
    let arrow = if direction == "up" { "→" } else { "←" };
    format!("{link} {arrow}")
}

impl Columns {
    fn new(table: &Table, keys: Vec<String>, column: &str) -> Option<Self> {
        let seconds = |ns: Option<u64>| ns.unwrap_or_default() as f64 / 1e9;
        let times = table.integers("time_ns")?.into_iter().zip(table.integers("interval_ns")?);
        let interval = |(end, length)| ((seconds(end) - seconds(length)).max(0.0), seconds(end));
        let values = table.integers(column)?;
        Some(Self { keys, intervals: times.map(interval).collect(), values })
    }

    /// A series for each key, sorted by name. Values are multiplied by `scale`.
    pub(crate) fn series(&self, grid: Grid, fold: Fold, scale: f64) -> Vec<Series> {
        let mut sums: BTreeMap<&str, Vec<(f64, u32)>> = BTreeMap::new();
        for ((key, interval), value) in self.keys.iter().zip(&self.intervals).zip(&self.values) {
            let Some(value) = value.map(|value| value as f64) else { continue };
            let steps = sums.entry(key).or_insert_with(|| vec![(0.0, 0); grid.points]);
            if fold == Fold::PerSecond {
                grid.shares(*interval).for_each(|(step, share)| steps[step].0 += value * share);
                continue;
            }
            let (sum, count) = &mut steps[grid.step(f64::midpoint(interval.0, interval.1))];
            *sum = if fold == Fold::Max { sum.max(value) } else { *sum + value };
            *count += 1;
        }
        let value = |(step, (sum, count)): (usize, &(f64, u32))| match fold {
            Fold::PerSecond => {
                let (start, end) = grid.bounds(step);
                Some(sum * scale / (end - start))
            }
            Fold::Max => Some(sum * scale),
            Fold::Mean => (*count > 0).then(|| sum * scale / f64::from(*count)),
        };
        let series = |(name, steps): (&str, Vec<(f64, u32)>)| Series {
            name: name.to_owned(),
            style: 0,
            values: steps.iter().enumerate().map(value).collect(),
        };
        sums.into_iter().map(series).collect()
    }
}

/// Assigns each series the style of its position in `order`, so that plots use the same styles.
pub(crate) fn styled(mut series: Vec<Series>, order: &[String]) -> Vec<Series> {
    for (index, series) in series.iter_mut().enumerate() {
        series.style = order.iter().position(|name| *name == series.name).unwrap_or(index);
    }
    series
}

/// The `max` series with the largest sums, largest first, and the number of omitted series.
pub(crate) fn largest(mut series: Vec<Series>, max: usize) -> (Vec<Series>, usize) {
    let total = |s: &Series| s.values.iter().flatten().sum::<f64>();
    series.retain(|s| s.values.iter().any(Option::is_some));
    series.sort_by(|a, b| total(b).total_cmp(&total(a)).then_with(|| a.name.cmp(&b.name)));
    let omitted = series.len().saturating_sub(max);
    series.truncate(max);
    (series, omitted)
}

/// Changes styles so that the lines of a plot have different ones of `styles` styles. The first
/// line with a style keeps it, so that its style is the same in all plots.
pub(crate) fn assign_distinct_styles(series: &mut [Series], styles: usize) {
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
    use proptest::prelude::*;

    use super::*;

    /// Samples with intervals of 0.5 s that end at these times.
    fn columns(rows: &[(&str, f64, Option<u64>)]) -> Columns {
        Columns {
            keys: rows.iter().map(|r| r.0.to_owned()).collect(),
            intervals: rows.iter().map(|r| (r.1 - 0.5, r.1)).collect(),
            values: rows.iter().map(|r| r.2).collect(),
        }
    }

    #[test]
    fn grid_steps_are_whole_intervals() {
        let run =
            |elapsed_s, interval_s| RunRecord { elapsed_s, interval_s, ..RunRecord::default() };
        assert_eq!(Grid::of(&run(30.0, 0.1)), Grid { step_s: 0.1, points: 300, end_s: 30.0 });
        assert_eq!(Grid::of(&run(31.0, 0.1)), Grid { step_s: 0.2, points: 155, end_s: 31.0 });
        assert_eq!(Grid::of(&run(0.0, 0.0)).points, 1);
    }

    #[test]
    fn folds_to_rate_maximum_and_mean() {
        let grid = Grid { step_s: 0.5, points: 2, end_s: 1.0 };
        let rows = [("a", 0.5, Some(4)), ("a", 0.499, Some(2)), ("a", 1.0, None)];
        let fold = |fold| columns(&rows).series(grid, fold, 1.0)[0].values.clone();
        assert_eq!(fold(Fold::PerSecond), [Some(12.0), Some(0.0)]);
        assert_eq!(fold(Fold::Max), [Some(4.0), Some(0.0)]);
        assert_eq!(fold(Fold::Mean), [Some(3.0), None]);
    }

    proptest! {
        /// A link that carries at most its rate, sampled at uneven intervals until the end of the
        /// run, which lies anywhere within a step.
        #[test]
        fn rates_do_not_exceed_the_link_and_sums_are_conserved(
            loads in prop::collection::vec((0.2f64..1.3, 0.0f64..=1.0), 1..700),
            last in 0.01f64..1.0,
        ) {
            const RATE: f64 = 1_250_000.0;
            let interval_s = 0.1;
            let (mut at, mut intervals, mut values) = (0.0, Vec::new(), Vec::new());
            for (index, (length, load)) in loads.iter().enumerate() {
                let length = if index + 1 == loads.len() { last } else { *length } * interval_s;
                intervals.push((at, at + length));
                values.push(Some((RATE * length * load) as u64));
                at += length;
            }
            let record = RunRecord { elapsed_s: at, interval_s, ..RunRecord::default() };
            let grid = Grid::of(&record);
            let total: u64 = values.iter().flatten().sum();
            let keys = vec!["link".to_owned(); values.len()];
            let columns = Columns { keys, intervals, values };
            let series = columns.series(grid, Fold::PerSecond, 1.0).remove(0).values;
            let mut sum = 0.0;
            for (step, rate) in series.iter().enumerate() {
                let (rate, (start, end)) = (rate.unwrap(), grid.bounds(step));
                prop_assert!(rate <= RATE * (1.0 + 1e-6), "{} in step {}", rate, step);
                sum += rate * (end - start);
            }
            prop_assert!((sum - total as f64).abs() <= 1e-6 * total as f64 + 1e-6);
        }
    }

    #[test]
    fn partial_last_sample_does_not_exceed_the_links_rate() {
        // 10 Mbit/s for 10.028 s, sampled every 100 ms: the last sample covers 28 ms.
        let ends = (1..=100).map(|n| f64::from(n) * 0.1).chain([10.028]);
        let ends: Vec<f64> = ends.collect();
        let starts = std::iter::once(0.0).chain(ends.iter().copied());
        let intervals: Vec<(f64, f64)> = starts.zip(ends.iter().copied()).collect();
        let bytes = |(start, end): &(f64, f64)| Some(((end - start) * 1.25e6).round() as u64);
        let values = intervals.iter().map(bytes).collect();
        let columns = Columns { keys: vec!["link".to_owned(); ends.len()], intervals, values };
        let record = RunRecord { elapsed_s: 10.028, interval_s: 0.1, ..RunRecord::default() };
        let series = columns.series(Grid::of(&record), Fold::PerSecond, 8e-6).remove(0).values;
        assert_eq!(series.len(), 101);
        for rate in series.into_iter().flatten() {
            assert!((rate - 10.0).abs() < 1e-3, "{rate} Mbit/s");
        }
    }

    #[test]
    fn largest_series_come_first() {
        let series =
            |name: &str, value| Series { name: name.to_owned(), style: 0, values: vec![value] };
        let all = vec![series("a", Some(1.0)), series("b", Some(3.0)), series("c", None)];
        let (series, omitted) = largest(all, 1);
        assert_eq!((series[0].name.as_str(), omitted), ("b", 1));
    }

    #[test]
    fn lines_of_a_plot_have_distinct_styles() {
        let mut series: Vec<Series> = [9, 1, 0, 8, 17]
            .map(|style| Series { name: String::new(), style, values: Vec::new() })
            .into();
        assign_distinct_styles(&mut series, 8);
        let styles: Vec<usize> = series.iter().map(|line| line.style).collect();
        assert_eq!(styles, [1, 2, 0, 3, 4]);
    }
}
