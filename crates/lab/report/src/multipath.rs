//! Multipath flows: plots over time, a table, and lines for the terminal.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use run::RunRecord;
use run::record::{FlowSummary, PathSummary};
use run::table::Table;

use crate::axes::Axis;
use crate::figure::{Figure, Line, Style, average_chunks};
use crate::format;

/// Only the first flows are plotted.
const MAX_PLOTTED: usize = 8;
/// Further flows are only counted in the terminal.
const MAX_LINES: usize = 8;

fn flows(record: &RunRecord) -> impl Iterator<Item = &FlowSummary> {
    record.flows.iter().filter(|flow| !flow.paths.is_empty())
}

pub(crate) fn figures(record: &RunRecord, flow: Option<&Table>, subflow: Option<&Table>) -> String {
    let mut out = String::new();
    let (Some(flow_table), Some(subflow_table)) = (flow, subflow) else { return out };
    for flow in flows(record).take(MAX_PLOTTED) {
        let Some(rows) = Rows::new(flow, flow_table, subflow_table) else { continue };
        out.push_str(&rows.throughput(flow).html());
        out.extend(rows.rtts(flow).map(|figure| figure.html()));
        out.extend(rows.reordering(flow).map(|figure| figure.html()));
    }
    if out.is_empty() { out } else { format!("<div class=\"plots\">{out}</div>") }
}

#[derive(Clone, Debug, Default)]
struct Sample {
    seconds: f64,
    goodput: f64,
    /// By path, in Mbit/s.
    rates: Vec<f64>,
    /// By path: sum and number of RTTs, in ms.
    rtts: Vec<(f64, f64)>,
    /// Bytes out of order, in kB.
    reorder: Option<f64>,
}

/// Samples of one flow with their times in seconds.
struct Rows(Vec<(f64, Sample)>);

impl Rows {
    fn new(flow: &FlowSummary, flow_table: &Table, subflow_table: &Table) -> Option<Self> {
        let mut rows: BTreeMap<u64, Sample> = BTreeMap::new();
        let paths = flow.paths.len();
        let names = flow_table.texts("flow")?;
        let times = flow_table.integers("time_ns")?;
        let interval = flow_table.integers("interval_ns")?;
        let received = flow_table.integers("received_bytes")?;
        let reorder = flow_table.integers("reorder_bytes")?;
        // A flow that ends at a sampling time has a second sample with an interval of 0.
        let is_positive = |row: &usize| interval[*row].is_some_and(|interval| interval > 0);
        for row in (0..names.len()).filter(|row| names[*row] == flow.name).filter(is_positive) {
            let seconds = interval[row]? as f64 / 1e9;
            let goodput = received[row]? as f64 * 8e-6 / seconds;
            let (rates, rtts) = (vec![0.0; paths], vec![(0.0, 0.0); paths]);
            let reorder = reorder[row].map(|bytes| bytes as f64 / 1e3);
            rows.insert(times[row]?, Sample { seconds, goodput, rates, rtts, reorder });
        }
        let names = subflow_table.texts("flow")?;
        let links = subflow_table.texts("path")?;
        let times = subflow_table.integers("time_ns")?;
        let received = subflow_table.integers("received_bytes")?;
        let rtt = subflow_table.integers("rtt_ns")?;
        for row in (0..names.len()).filter(|row| names[*row] == flow.name) {
            let path = flow.paths.iter().position(|path| path.link == links[row]);
            let sample = times[row].and_then(|time| rows.get_mut(&time));
            let (Some(path), Some(sample)) = (path, sample) else { continue };
            sample.rates[path] += received[row]? as f64 * 8e-6 / sample.seconds;
            if let Some(rtt) = rtt[row] {
                let (sum, count) = &mut sample.rtts[path];
                (*sum, *count) = (*sum + rtt as f64 / 1e6, *count + 1.0);
            }
        }
        let rows: Vec<_> = rows.into_iter().map(|(time, row)| (time as f64 / 1e9, row)).collect();
        Some(Self(rows))
    }

    /// A value over time; NaN for missing values.
    fn line(&self, value: impl Fn(&Sample) -> Option<f64>) -> Vec<(f64, f64)> {
        let points: Vec<_> = self.0.iter().map(|(time, row)| (*time, value(row))).collect();
        average_chunks(&points)
    }

    /// The throughput of all paths, stacked.
    fn throughput(&self, flow: &FlowSummary) -> Figure {
        let y = Axis::linear("rate, Mbit/s").from(0.0);
        let title = format!("{}: throughput of its paths", flow.name);
        let mut figure = Figure::new(title, Axis::linear("time, s"), y);
        "Received data of each path (stacked), and goodput of the application"
            .clone_into(&mut figure.note);
        let mut below = self.line(|_| Some(0.0));
        for (at, path) in flow.paths.iter().enumerate() {
            let top = self.line(|row| Some(row.rates[..=at].iter().sum()));
            let spread = below.iter().zip(&top).map(|(low, high)| (low.1, high.1)).collect();
            figure.lines.push(Line::new(&path.link, top.clone()).spread(spread));
            below = top;
        }
        let goodput = self.line(|row| Some(row.goodput));
        figure.lines.push(Line::new("application", goodput).style(Style::Reference));
        figure
    }

    fn rtts(&self, flow: &FlowSummary) -> Option<Figure> {
        let y = Axis::linear("RTT, ms").from(0.0);
        let title = format!("{}: RTTs of its paths", flow.name);
        let mut figure = Figure::new(title, Axis::linear("time, s"), y);
        "Smoothed RTT of the sender's TCP".clone_into(&mut figure.note);
        for (at, path) in flow.paths.iter().enumerate() {
            let points = self.line(|row| {
                let (sum, count) = row.rtts[at];
                (count > 0.0).then(|| sum / count)
            });
            if points.iter().any(|(_, value)| value.is_finite()) {
                figure.lines.push(Line::new(&path.link, points));
            }
        }
        (!figure.lines.is_empty()).then_some(figure)
    }

    fn reordering(&self, flow: &FlowSummary) -> Option<Figure> {
        let points = self.line(|row| row.reorder);
        if !points.iter().any(|(_, value)| *value > 0.0) {
            return None;
        }
        let y = Axis::linear("data, kB").from(0.0);
        let title = format!("{}: data received out of order", flow.name);
        let mut figure = Figure::new(title, Axis::linear("time, s"), y);
        "At the receiver, maximum of each interval".clone_into(&mut figure.note);
        figure.lines.push(Line::new("out of order", points));
        Some(figure)
    }
}

pub(crate) fn path_rows(record: &RunRecord) -> (Vec<&'static str>, Vec<Vec<String>>) {
    let heads = vec!["flow", "path over", "subflows", "sent", "received", "rate", "retransmits"];
    let rows = flows(record).flat_map(|flow| {
        flow.paths.iter().map(|path| {
            vec![
                flow.name.clone(),
                path.link.clone(),
                format::count(path.subflows),
                format::bytes(path.sent_bytes),
                format::bytes(path.received_bytes),
                format::rate(rate(flow, path)),
                format::count(path.retransmits),
            ]
        })
    });
    (heads, rows.collect())
}

/// Mean rate of received data of a path while the flow ran.
fn rate(flow: &FlowSummary, path: &PathSummary) -> f64 {
    let all = flow.received_bytes.max(1) as f64;
    flow.goodput_bit_per_s * path.received_bytes as f64 / all
}

pub(crate) fn lines(record: &RunRecord) -> Vec<(&'static str, String)> {
    let mut lines = Vec::new();
    for (index, flow) in flows(record).take(MAX_LINES).enumerate() {
        lines.push((if index == 0 { "paths" } else { "" }, line(flow)));
    }
    let more = flows(record).count().saturating_sub(MAX_LINES);
    if more > 0 {
        lines.push(("", format!("{} more in run.json", format::plural(more, "multipath flow"))));
    }
    lines
}

fn line(flow: &FlowSummary) -> String {
    let path = |path: &PathSummary| format!("{} {}", path.link, format::rate(rate(flow, path)));
    let paths: Vec<String> = flow.paths.iter().map(path).collect();
    let mut text = format!("{}: {}", flow.name, paths.join(", "));
    if let Some(gap) = flow.gap_s {
        let _ = write!(text, "; longest gap {}", format::seconds(gap));
    }
    if let Some(bytes) = flow.reinjected_bytes.filter(|bytes| *bytes > 0) {
        let _ = write!(text, "; {} reinjected on another path", format::bytes(bytes));
    }
    if let Some(bytes) = flow.reorder_max_bytes {
        let _ = write!(text, "; at most {} out of order", format::bytes(bytes));
    }
    if let Some(bytes) = flow.buffered_max_bytes.filter(|bytes| *bytes > 0) {
        let _ = write!(text, "; at most {} unread", format::bytes(bytes));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flow() -> FlowSummary {
        let path = |link: &str, received_bytes| PathSummary {
            link: link.to_owned(),
            subflows: 1,
            received_bytes,
            ..PathSummary::default()
        };
        FlowSummary {
            name: "bulk".to_owned(),
            goodput_bit_per_s: 8e6,
            received_bytes: 4_000_000,
            paths: vec![path("left", 3_000_000), path("right", 1_000_000)],
            gap_s: Some(0.25),
            reinjected_bytes: Some(2000),
            ..FlowSummary::default()
        }
    }

    #[test]
    fn path_rate_is_its_share_of_the_goodput() {
        let record = RunRecord { flows: vec![flow()], ..RunRecord::default() };
        let text = "bulk: left 6 Mbit/s, right 2 Mbit/s; longest gap 250 ms; 2 kB reinjected on \
                    another path";
        assert_eq!(lines(&record), [("paths", text.to_owned())]);
        assert_eq!(path_rows(&record).1[1][5], "2 Mbit/s");
    }

    #[test]
    fn throughput_bands_are_stacked() {
        let sample = |rates: [f64; 2]| Sample { rates: rates.to_vec(), ..Sample::default() };
        let rows = Rows(vec![(0.1, sample([3.0, 1.0])), (0.2, sample([2.0, 0.0]))]);
        let figure = rows.throughput(&flow());
        let spreads: Vec<_> = figure.lines.iter().map(|line| line.spread.clone()).collect();
        assert_eq!(spreads[0], [(0.0, 3.0), (0.0, 2.0)]);
        assert_eq!(spreads[1], [(3.0, 4.0), (2.0, 2.0)]);
        assert!(figure.html().contains("left") && figure.html().contains("application"));
    }
}
