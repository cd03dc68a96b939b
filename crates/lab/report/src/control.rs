//! Explicit rate control: plots over time, completion by size, and lines for the terminal.

use std::fmt::Write as _;

use run::RunRecord;
use run::record::RateControl;
use run::table::Table;

use crate::axes::Axis;
use crate::figure::{Figure, Line, Style};
use crate::format;

/// Maximum number of plotted completion times; with more sessions, every nth is plotted.
const MAX_DOTS: usize = 2000;

/// The figures of a run with explicit rate control.
pub(crate) fn figures(samples: Option<&Table>, sessions: Option<&Table>) -> String {
    let mut out = String::new();
    if let Some(table) = samples {
        let errors = [
            ("source", "Error at sources", "(assigned − fair) / fair, over sessions with a rate"),
            ("bottleneck", "Error at bottlenecks", "(sum of rates − capacity) / capacity"),
        ];
        for (prefix, title, text) in errors {
            out.extend(error(table, prefix, title, text).map(|figure| figure.html()));
        }
        out.extend(queue(table).map(|figure| figure.html()));
    }
    out.extend(sessions.and_then(completion).map(|figure| figure.html()));
    if out.is_empty() { out } else { format!("<div class=\"plots\">{out}</div>") }
}

fn times(table: &Table) -> Option<Vec<f64>> {
    let seconds = |at: Option<u64>| at.map_or(f64::NAN, |at| at as f64 / 1e9);
    Some(table.integers("time_ns")?.into_iter().map(seconds).collect())
}

fn error(table: &Table, prefix: &str, title: &str, text: &str) -> Option<Figure> {
    let at = times(table)?;
    let percents = |column: &str| -> Option<Vec<f64>> {
        let values = table.reals(&format!("{prefix}_error_{column}"))?;
        Some(
            values.into_iter().map(|value| value.map_or(f64::NAN, |value| value * 100.0)).collect(),
        )
    };
    let points = at.into_iter().zip(percents("mean")?).collect();
    let spread = percents("p10")?.into_iter().zip(percents("p90")?).collect();
    let line = Line::new("mean; band: 10th to 90th percentile", points).spread(spread);
    let mut figure =
        Figure::new(title, Axis::linear("time, s"), Axis::linear("error, %")).line(line);
    text.clone_into(&mut figure.note);
    let drawn = figure.lines.iter().flat_map(|line| &line.points).any(|(_, y)| y.is_finite());
    drawn.then_some(figure)
}

fn queue(table: &Table) -> Option<Figure> {
    let packets = table.integers("queue_max_packets")?.into_iter();
    let packets = packets.map(|packets| packets.map_or(f64::NAN, |packets| packets as f64));
    let points: Vec<(f64, f64)> = times(table)?.into_iter().zip(packets).collect();
    let mut figure =
        Figure::new("Largest queue", Axis::linear("time, s"), Axis::linear("packets").from(0.0))
            .line(Line::new("of any link", points));
    "In data packets".clone_into(&mut figure.note);
    Some(figure)
}

/// Completion times by size; `None` if no session with a size completed.
fn completion(table: &Table) -> Option<Figure> {
    let columns = ["start_ns", "size_bytes", "completed_ns"].map(|name| table.integers(name));
    let [Some(starts), Some(sizes), Some(ends)] = columns else { return None };
    let all: Vec<(f64, f64)> = starts
        .into_iter()
        .zip(sizes)
        .zip(ends)
        .filter_map(|((start, size), end)| {
            Some((size? as f64 / 1e3, end?.saturating_sub(start?) as f64 / 1e9))
        })
        .collect();
    let step = all.len().div_ceil(MAX_DOTS).max(1);
    let points: Vec<(f64, f64)> = all.iter().copied().step_by(step).collect();
    if points.is_empty() {
        return None;
    }
    let mut figure = Figure::new("Completion by size", Axis::log("size, kB"), Axis::log("time, s"))
        .line(Line::new("sessions", points).style(Style::Dots));
    figure.note = match step {
        1 => "From joining until the last byte was received".to_owned(),
        _ => format!("From joining until the last byte was received; 1 of {step} sessions"),
    };
    Some(figure)
}

/// Lines for the terminal and the page.
pub(crate) fn lines(record: &RunRecord) -> Vec<(&'static str, String)> {
    let Some(control) = &record.control else { return Vec::new() };
    vec![("control", sessions(control)), ("", convergence(control)), ("", costs(control))]
}

fn sessions(control: &RateControl) -> String {
    let mut text = format!(
        "{}: {} joined, {} present at the end",
        control.protocol,
        format::plural(control.joined as usize, "session"),
        format::count(control.present)
    );
    if control.completed > 0 {
        let _ = write!(text, ", {} completed", format::count(control.completed));
    }
    if control.rerouted > 0 {
        let _ = write!(text, ", {} rerouted", format::count(control.rerouted));
    }
    text
}

fn convergence(control: &RateControl) -> String {
    let error = control.error.map_or_else(|| "unknown".to_owned(), format::share);
    let convergence = control.convergence_s.map_or_else(
        || "did not stay below 1 %".to_owned(),
        |seconds| format!("below 1 % after {}", format::seconds(seconds)),
    );
    format!(
        "mean error {error} at the end, {convergence}; largest queue {} packets ({})",
        format::count(control.queue_max_packets),
        format::bytes(control.queue_max_bytes)
    )
}

fn costs(control: &RateControl) -> String {
    format!(
        "control packets: {} of bytes, {} lost; state per link: mean {} numbers ({}), max {} ({}); \
         per packet: {}, per session: {}; CPU time of the fair-rate oracle: {}",
        format::share(control.control_share),
        format::count(control.lost),
        format::number(control.link_numbers_mean),
        format::bytes(control.link_bytes_mean.round() as u64),
        format::count(control.link_numbers_max),
        format::bytes(control.link_bytes_max),
        format::bytes(control.packet_bytes),
        format::bytes(control.session_bytes.round() as u64),
        format::seconds(control.oracle_s)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_summarise_rate_control() {
        assert!(lines(&RunRecord::default()).is_empty());
        let control = RateControl {
            protocol: "slbn".to_owned(),
            joined: 1500,
            present: 900,
            error: Some(0.004),
            convergence_s: Some(0.25),
            link_numbers_mean: 3.0,
            ..RateControl::default()
        };
        let record = RunRecord { control: Some(control.clone()), ..RunRecord::default() };
        let text: String = lines(&record).into_iter().map(|(_, line)| line + "\n").collect();
        for part in ["slbn: 1500 sessions joined", "0.4 %", "below 1 % after 250 ms", "3 numbers"] {
            assert!(text.contains(part), "{text}");
        }
        let open = RateControl { convergence_s: None, ..control };
        assert!(convergence(&open).contains("did not stay below 1 %"));
    }
}
