//! Bundles: plots over time, lines for the terminal, and a table for the page.

use std::fmt::Write as _;

use run::RunRecord;
use run::record::BundleSummary;
use run::table::Table;

use crate::axes::Axis;
use crate::figure::{Figure, Line, Style, average_chunks};
use crate::format;

/// Only the first bundles are plotted.
const MAX_PLOTTED: usize = 8;
/// Further bundles are only counted in the terminal.
const MAX_LINES: usize = 8;
/// The shaded states and their labels. The normal state, `delay`, is not shaded.
const SHADED: &[(&str, &str)] = &[
    ("learning", "learning: no pacing"),
    ("pass-through", "pass-through: no pacing, elastic cross traffic"),
    ("disabled", "disabled"),
    ("fail-open", "fail-open: no feedback from the receivebox"),
    ("stopped", "stopped: no sendbox"),
];

pub(crate) fn figures(record: &RunRecord, samples: Option<&Table>) -> String {
    let mut out = String::new();
    let Some(names) = samples.and_then(|table| table.texts("bundle")) else { return out };
    let Some(table) = samples else { return out };
    for bundle in record.bundles.iter().take(MAX_PLOTTED) {
        let rows: Vec<usize> = names
            .iter()
            .enumerate()
            .filter(|(_, name)| **name == bundle.name)
            .map(|(row, _)| row)
            .collect();
        let rows = Rows { table, rows };
        out.extend(rates(record, bundle, &rows).map(|figure| figure.html()));
        out.extend(queues(record, bundle, &rows).map(|figure| figure.html()));
    }
    if out.is_empty() { out } else { format!("<div class=\"plots\">{out}</div>") }
}

/// One bundle's rows of the table.
struct Rows<'a> {
    table: &'a Table,
    rows: Vec<usize>,
}

impl Rows<'_> {
    /// A column of integers over time; NaN for missing values.
    fn integers(&self, column: &str, scale: f64) -> Option<Vec<(f64, f64)>> {
        let values = self.table.integers(column)?;
        self.over_time(|row| values[row].map(|value| value as f64 * scale))
    }

    /// Send rate of each interval in Mbit/s.
    fn throughput(&self) -> Option<Vec<(f64, f64)>> {
        let bytes = self.table.integers("sent_bytes")?;
        let interval = self.table.integers("interval_ns")?;
        self.over_time(|row| Some(bytes[row]? as f64 * 8e3 / interval[row]?.max(1) as f64))
    }

    fn over_time(&self, value: impl Fn(usize) -> Option<f64>) -> Option<Vec<(f64, f64)>> {
        let times = self.table.integers("time_ns")?;
        let point = |row: &usize| (times[*row].unwrap_or(0) as f64 / 1e9, value(*row));
        let points: Vec<(f64, Option<f64>)> = self.rows.iter().map(point).collect();
        Some(average_chunks(&points))
    }
}

fn has_values(points: &[(f64, f64)]) -> bool {
    points.iter().any(|(_, value)| value.is_finite())
}

fn rates(record: &RunRecord, bundle: &BundleSummary, rows: &Rows<'_>) -> Option<Figure> {
    let mut lines = vec![
        Line::new("pacing rate", rows.integers("rate_bps", 1e-6)?),
        Line::new("sent by the sendbox", rows.throughput()?),
        Line::new("received by the receivebox", rows.integers("receive_rate_bps", 1e-6)?),
    ];
    if bundle.mode == "dry-run" {
        lines.push(Line::new("proposed rate", rows.integers("proposed_bps", 1e-6)?));
    }
    let capacity = Line::new("measured capacity", rows.integers("capacity_bps", 1e-6)?);
    lines.push(capacity.style(Style::Reference));
    lines.retain(|line| has_values(&line.points));
    let title = format!("{}: rates", bundle.name);
    let y = Axis::linear("rate, Mbit/s").from(0.0);
    let note = "With the bundle's overhead; shaded while the sendbox does not control the queue";
    shaded(record, bundle, Figure::new(title, Axis::linear("time, s"), y), lines, note)
}

fn queues(record: &RunRecord, bundle: &BundleSummary, rows: &Rows<'_>) -> Option<Figure> {
    let mut lines = vec![
        Line::new("in the network", rows.integers("queueing_ns", 1e-6)?),
        Line::new("at the sendbox", rows.integers("waiting_ns", 1e-6)?),
    ];
    lines.retain(|line| has_values(&line.points));
    let title = format!("{}: queueing delay", bundle.name);
    let y = Axis::linear("time, ms").from(0.0);
    let note = "In the network between the gateways, and of the last packet sent at the sendbox";
    shaded(record, bundle, Figure::new(title, Axis::linear("time, s"), y), lines, note)
}

/// Adds lines to the figure, and bands while the bundle was in a shaded state.
fn shaded(
    record: &RunRecord,
    bundle: &BundleSummary,
    figure: Figure,
    lines: Vec<Line>,
    note: &str,
) -> Option<Figure> {
    let values = lines.iter().flat_map(|line| line.points.iter().map(|point| point.1));
    let top = values.filter(|value| value.is_finite()).fold(0.0, f64::max);
    if top <= 0.0 {
        return None;
    }
    let mut figure = figure;
    figure.lines = lines;
    note.clone_into(&mut figure.note);
    let intervals = state_intervals(bundle, record.elapsed_s);
    for (state, label) in SHADED {
        let (mut points, mut spread) = (Vec::new(), Vec::new());
        for (_, from, to) in intervals.iter().filter(|(is, ..)| is == state) {
            // Points without a value are the edges of the band.
            for at in [*from, *to, f64::NAN] {
                points.push((at, f64::NAN));
                spread.push((0.0, top));
            }
        }
        if !points.is_empty() {
            figure.lines.push(Line::new(*label, points).spread(spread).style(Style::Band));
        }
    }
    Some(figure)
}

fn state_intervals(bundle: &BundleSummary, end: f64) -> Vec<(&str, f64, f64)> {
    let begins = std::iter::once(("learning", 0.0))
        .chain(bundle.transitions.iter().map(|change| (change.to.as_str(), change.at_s)));
    let ends = bundle.transitions.iter().map(|change| change.at_s).chain([end]);
    begins
        .zip(ends)
        .filter(|((_, from), to)| to > from)
        .map(|((state, from), to)| (state, from, to))
        .collect()
}

pub(crate) fn lines(record: &RunRecord) -> Vec<(&'static str, String)> {
    let mut lines = Vec::new();
    for (index, bundle) in record.bundles.iter().take(MAX_LINES).enumerate() {
        lines.push((if index == 0 { "bundle" } else { "" }, line(bundle)));
    }
    let more = record.bundles.len().saturating_sub(MAX_LINES);
    if more > 0 {
        lines.push(("", format!("{} more in run.json", format::plural(more, "bundle"))));
    }
    lines
}

fn line(bundle: &BundleSummary) -> String {
    let mut text = format!(
        "{}: {} by {} and {}",
        bundle.name,
        format::rate(bundle.throughput_bit_per_s),
        bundle.scheduler,
        bundle.control
    );
    if bundle.mode != "enforce" {
        let _ = write!(text, " ({})", bundle.mode);
    }
    if let Some(queueing) = bundle.queueing_mean_ns {
        let _ = write!(text, "; queued {} in the network", format::seconds(queueing / 1e9));
    }
    let _ = write!(text, "; {} at the sendbox", format::seconds(bundle.waiting_mean_ns / 1e9));
    if bundle.dropped_packets > 0 {
        let _ = write!(text, " ({} dropped)", format::count(bundle.dropped_packets));
    }
    let _ = write!(text, "; {}", states(bundle));
    let changes = bundle.transitions.len();
    if changes > 0 {
        let _ = write!(text, "; {}", format::plural(changes, "change"));
    }
    text
}

/// The shares of the states, largest first.
fn states(bundle: &BundleSummary) -> String {
    let mut states: Vec<(&str, f64)> =
        bundle.time.iter().map(|(state, share)| (state.as_str(), *share)).collect();
    states.sort_by(|a, b| b.1.total_cmp(&a.1));
    let texts: Vec<String> =
        states.iter().map(|(state, share)| format!("{} {state}", format::share(*share))).collect();
    texts.join(", ")
}

/// The table of state changes for the page.
pub(crate) fn changes(record: &RunRecord) -> (Vec<&'static str>, Vec<Vec<String>>) {
    let mut all: Vec<(f64, Vec<String>)> = Vec::new();
    for bundle in &record.bundles {
        for change in &bundle.transitions {
            let cells = vec![
                format::seconds(change.at_s),
                bundle.name.clone(),
                change.to.clone(),
                change.why.clone(),
            ];
            all.push((change.at_s, cells));
        }
    }
    all.sort_by(|a, b| a.0.total_cmp(&b.0));
    let rows = all.into_iter().map(|(_, cells)| cells).collect();
    (vec!["time", "bundle", "new state", "why"], rows)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use run::record::BundleTransition;

    use super::*;

    fn bundle() -> BundleSummary {
        let change =
            |at_s, to: &str| BundleTransition { at_s, to: to.to_owned(), why: "test".to_owned() };
        BundleSummary {
            name: "a-b".to_owned(),
            control: "copa".to_owned(),
            scheduler: "sfq".to_owned(),
            mode: "enforce".to_owned(),
            time: BTreeMap::from([("delay".to_owned(), 0.9), ("learning".to_owned(), 0.1)]),
            transitions: vec![change(1.0, "delay"), change(9.0, "fail-open")],
            throughput_bit_per_s: 91e6,
            queueing_mean_ns: Some(4.2e6),
            waiting_mean_ns: 12e6,
            dropped_packets: 7,
            ..BundleSummary::default()
        }
    }

    #[test]
    fn lines_summarise_bundles() {
        assert!(lines(&RunRecord::default()).is_empty());
        let record = RunRecord { bundles: vec![bundle(); 10], ..RunRecord::default() };
        let lines = lines(&record);
        assert_eq!(lines.len(), MAX_LINES + 1);
        let text = &lines[0].1;
        let parts = ["91 Mbit/s", "4.2 ms in the network", "12 ms at", "(7 dropped)", "90 % delay"];
        for part in parts {
            assert!(text.contains(part), "{part}: {text}");
        }
        assert!(text.ends_with("10 % learning; 2 changes"), "{text}");
        assert_eq!(changes(&record).1.len(), 20);
    }

    #[test]
    fn state_intervals_have_no_gaps() {
        let bundle = bundle();
        let expected = [("learning", 0.0, 1.0), ("delay", 1.0, 9.0), ("fail-open", 9.0, 10.0)];
        assert_eq!(state_intervals(&bundle, 10.0), expected);
        assert_eq!(state_intervals(&bundle, 9.0).len(), 2);
    }

    #[test]
    fn shades_all_states_except_delay() {
        let record = RunRecord { elapsed_s: 10.0, ..RunRecord::default() };
        let figure = Figure::new("", Axis::linear(""), Axis::linear(""));
        let line = Line::new("rate", vec![(0.0, 3.0), (10.0, 5.0)]);
        let figure = shaded(&record, &bundle(), figure, vec![line], "").unwrap();
        let labels: Vec<&str> = figure.lines.iter().map(|line| line.label.as_str()).collect();
        let shades = ["learning: no pacing", "fail-open: no feedback from the receivebox"];
        assert_eq!(labels, ["rate", shades[0], shades[1]]);
        assert_eq!(figure.lines[1].points[..2].iter().map(|p| p.0 as u64).max(), Some(1));
        assert_eq!(figure.lines[1].spread[0], (0.0, 5.0));
        // Each band is in the legend, and in the wide and the narrow drawing.
        assert_eq!(figure.html().matches("class=\"band\"").count(), 6);
    }
}
