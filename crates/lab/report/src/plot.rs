//! SVG plots over time, with legends and the data for the tooltip.

use std::fmt::Write as _;

use run::record::{EventRecord, Lateness};

use crate::format::{self, Step, escape, number};
use crate::series::{Grid, Series};

mod axes;
mod curves;
mod histogram;

pub(crate) use axes::{Area, HEIGHT, Log, WIDTHS, ticks};
pub(crate) use curves::{completion, slowdown};
pub(crate) use histogram::lateness;

/// Number of line styles, which are distinguishable for colour-blind readers.
pub(crate) const LINES: usize = 8;

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
        let highest = self
            .series
            .iter()
            .flat_map(|s| s.values.iter().flatten())
            .fold(0.0, |a: f64, b| a.max(*b));
        let (size, unit) = format::step(highest, self.steps);
        let (tick, count) = ticks(if highest > 0.0 { highest / size } else { 1.0 }, 4);
        let scale = Scale { size, unit, tick, count };
        let mut out = format!(
            "<figure class=\"plot\"><figcaption><h3>{}</h3><p>{}</p></figcaption>{}",
            escape(self.title),
            escape(&self.note),
            self.legend()
        );
        for (class, width) in WIDTHS {
            self.svg(&mut out, class, width, &scale);
        }
        let _ = write!(out, "<script type=\"application/json\">{}</script>", self.data(&scale));
        out.push_str("</figure>");
        out
    }

    fn legend(&self) -> String {
        let mut out = String::from("<ul class=\"legend\">");
        for series in &self.series {
            let _ = write!(
                out,
                "<li><svg width=\"22\" height=\"8\" aria-hidden=\"true\">\
                 <path class=\"line s{}\" d=\"M1 4H21\"/></svg>{}</li>",
                series.style % LINES,
                escape(&series.name)
            );
        }
        if !self.events.is_empty() {
            out.push_str(
                "<li><svg width=\"10\" height=\"12\" aria-hidden=\"true\">\
                 <path class=\"event\" d=\"M5 0V12\"/></svg>event</li>",
            );
        }
        out + "</ul>"
    }

    fn svg(&self, out: &mut String, class: &str, width: f64, scale: &Scale) {
        let area = Area::of(width);
        let Area { x0, x1, y0, y1 } = area;
        let end = self.grid.end_s;
        let x = |s: f64| area.x(s / end);
        let top = scale.tick * scale.count as f64;
        let y = |v: f64| area.y(v / top);
        let _ = write!(
            out,
            "<svg class=\"{class}\" viewBox=\"0 0 {width} {HEIGHT}\" role=\"img\" \
             aria-label=\"{} in {} over time in seconds\" \
             data-x0=\"{x0}\" data-x1=\"{x1}\" data-y0=\"{y0}\" data-y1=\"{y1}\">",
            escape(self.title),
            scale.unit
        );
        let label = |value: f64, end: f64| (value / end, number(value));
        let levels = (0..=scale.count).map(|index| label(scale.tick * index as f64, top));
        let (step, count) = ticks(end, if width > 400.0 { 6 } else { 4 });
        let times = (0..=count).map(|index| step * index as f64);
        let times = times.filter(|time| *time <= end * 1.0001).map(|time| label(time, end));
        area.axes(out, times, levels, ["time in s", scale.unit]);
        for event in self.events.iter().filter(|e| e.at_s <= end) {
            let _ = write!(
                out,
                "<path class=\"event\" d=\"M{:.1} {y0}V{y1}\"><title>{} s: {}</title></path>",
                x(event.at_s),
                number(event.at_s),
                escape(&event.text)
            );
        }
        for series in &self.series {
            let path = self.path(series, x, |v| y(v / scale.size));
            let class = series.style % LINES;
            let _ = write!(out, "<path class=\"line s{class}\" d=\"{path}\"/>");
        }
        out.push_str("<path class=\"cross\" d=\"\"/></svg>");
    }

    fn path(&self, series: &Series, x: impl Fn(f64) -> f64, y: impl Fn(f64) -> f64) -> String {
        let mut path = String::new();
        let mut is_drawing = false;
        for (index, value) in series.values.iter().enumerate() {
            let Some(value) = value else {
                is_drawing = false;
                continue;
            };
            // A value covers a step and is drawn in its middle.
            let (start, end) = self.grid.bounds(index);
            let at = x(f64::midpoint(start, end));
            let command = if is_drawing { 'L' } else { 'M' };
            let _ = write!(path, "{command}{at:.1} {:.1}", y(*value));
            let is_isolated =
                !is_drawing && series.values.get(index + 1).is_none_or(Option::is_none);
            if is_isolated {
                // Makes an isolated point visible.
                let _ = write!(path, "h.1");
            }
            is_drawing = true;
        }
        path
    }

    /// The data for the tooltip: step, unit, names, and rounded values.
    fn data(&self, scale: &Scale) -> String {
        let round = |v: &Option<f64>| v.map(|v| number(v / scale.size));
        let series: Vec<_> = self
            .series
            .iter()
            .map(|s| (s.name.as_str(), s.values.iter().map(round).collect::<Vec<_>>()))
            .collect();
        let data = serde_json::json!({
            "step": self.grid.step_s, "unit": scale.unit, "series": series,
        });
        // Prevents `</script>` in a name from ending the element.
        data.to_string().replace('<', "\\u003c")
    }
}

/// The vertical axis: size and name of the unit, distance of ticks in this unit, and their number.
struct Scale {
    size: f64,
    unit: &'static str,
    tick: f64,
    count: usize,
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
        let path = plot.path(&plot.series[0], |x| x, |y| y);
        assert_eq!(path, "M0.5 1.0L1.5 2.0M3.5 1.0h.1");
    }
}
