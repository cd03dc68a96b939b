//! Plots over time with events and the data for the tooltip, and other plots of run reports.

use run::record::EventRecord;

use crate::axes::Axis;
use crate::figure::{Figure, Line};
use crate::format::{self, Step, number};
use crate::series::{Grid, Series};

mod curves;
mod histogram;

pub(crate) use curves::{completion, slowdown};
pub(crate) use histogram::lateness;

/// Values over time.
pub(crate) struct Plot<'a> {
    pub(crate) title: &'a str,
    /// A line below the title.
    pub(crate) note: String,
    pub(crate) steps: &'a [Step],
    pub(crate) grid: Grid,
    pub(crate) series: Vec<Series>,
    pub(crate) events: &'a [EventRecord],
}

impl Plot<'_> {
    /// The plot as an HTML figure; empty without data.
    pub(crate) fn render(&self) -> String {
        if self.series.is_empty() {
            return String::new();
        }
        let values = self.series.iter().flat_map(|series| series.values.iter().flatten());
        let (size, unit) = format::step(values.fold(0.0, |a: f64, b| a.max(*b)), self.steps);
        // A value covers a step and is drawn in its middle.
        let middle = |index| {
            let (start, end) = self.grid.bounds(index);
            f64::midpoint(start, end)
        };
        let line = |series: &Series| {
            let values = series.values.iter().map(|value| value.map_or(f64::NAN, |v| v / size));
            let points = values.enumerate().map(|(index, value)| (middle(index), value));
            Line { colour: Some(series.style), ..Line::new(&*series.name, points.collect()) }
        };
        let figure = Figure {
            title: self.title.to_owned(),
            note: self.note.clone(),
            x: Axis::linear("time in s").from(0.0).to(self.grid.end_s),
            y: Axis::linear(unit).from(0.0),
            lines: self.series.iter().map(line).collect(),
        };
        figure.over_time(self.events, &self.data(size, unit))
    }

    /// The data for the tooltip: step, unit, names, and rounded values.
    fn data(&self, size: f64, unit: &str) -> String {
        let round = |v: &Option<f64>| v.map(|v| number(v / size));
        let series: Vec<_> = self
            .series
            .iter()
            .map(|s| (s.name.as_str(), s.values.iter().map(round).collect::<Vec<_>>()))
            .collect();
        let step = self.grid.step_s;
        serde_json::json!({ "step": step, "unit": unit, "series": series }).to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn interrupts_lines_at_gaps_and_escapes_names() {
        let values = vec![Some(1.0), Some(2.0), None, Some(1.0)];
        let plot = Plot {
            title: "Rates",
            note: String::new(),
            steps: format::RATE,
            grid: Grid { step_s: 1.0, points: 4, end_s: 4.0 },
            series: vec![Series { name: "</script><b>".to_owned(), style: 0, values }],
            events: &[],
        };
        let html = plot.render();
        assert!(!html.contains("<b>"), "{html}");
        let line = html.split("<path class=\"line s0\" d=\"").nth(2).unwrap();
        let line = line.split('"').next().unwrap();
        assert_eq!(line.matches('M').count(), 2, "{line}");
        assert!(html.contains("data-x0=") && html.contains("class=\"cross\""), "{html}");
    }
}
