//! Plots as SVG: axes with units, legends, and the data for the hover read-out beside them.

use std::fmt::Write as _;

use record::run::{EventRecord, Lateness};

use crate::format::{self, Step, escape, number};
use crate::series::{Grid, Series};

mod curves;
mod histogram;

pub(crate) use curves::{Log, completion, slowdown};
pub(crate) use histogram::lateness;

/// Line colours and dashes that stay apart for colour-blind eyes.
pub(crate) const LINES: usize = 8;

/// Drawn widths: one for wide pages, one for phones; the style sheet shows the one that fits.
pub(crate) const WIDTHS: [(&str, f64); 2] = [("wide", 560.0), ("narrow", 350.0)];
pub(crate) const HEIGHT: f64 = 230.0;
pub(crate) const MARGIN: Margin = Margin { left: 52.0, right: 12.0, top: 12.0, bottom: 36.0 };

pub(crate) struct Margin {
    pub(crate) left: f64,
    pub(crate) right: f64,
    pub(crate) top: f64,
    pub(crate) bottom: f64,
}

/// Values over time.
pub(crate) struct Plot<'a> {
    pub(crate) title: &'a str,
    /// What exactly is shown, below the title.
    pub(crate) note: String,
    pub(crate) steps: &'a [Step],
    pub(crate) grid: Grid,
    pub(crate) series: Vec<Series>,
    pub(crate) events: &'a [EventRecord],
}

/// Round numbers from 0 to at least `max`: the step between them and their number.
pub(crate) fn ticks(max: f64, wanted: usize) -> (f64, usize) {
    let raw = max / wanted as f64;
    let power = 10f64.powf(raw.log10().floor());
    let step = [1.0, 2.0, 2.5, 5.0, 10.0]
        .into_iter()
        .map(|m| m * power)
        .find(|step| *step >= raw * 0.999)
        .unwrap_or(power * 10.0);
    (step, (max / step - 1e-6).ceil() as usize)
}

impl Plot<'_> {
    /// The plot as a figure; nothing without data.
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
        let (x0, x1) = (MARGIN.left, width - MARGIN.right);
        let (y0, y1) = (HEIGHT - MARGIN.bottom, MARGIN.top);
        let end = self.grid.end_s;
        let x = |s: f64| x0 + (x1 - x0) * s / end;
        let top = scale.tick * scale.count as f64;
        let y = |v: f64| y0 - (y0 - y1) * v / top;
        let _ = write!(
            out,
            "<svg class=\"{class}\" viewBox=\"0 0 {width} {HEIGHT}\" role=\"img\" \
             aria-label=\"{} in {} over time in seconds\" \
             data-x0=\"{x0}\" data-x1=\"{x1}\" data-y0=\"{y0}\" data-y1=\"{y1}\">",
            escape(self.title),
            scale.unit
        );
        for index in 0..=scale.count {
            let value = scale.tick * index as f64;
            axis_y(out, x0, x1, y(value), &number(value));
        }
        let (step, count) = ticks(end, if width > 400.0 { 6 } else { 4 });
        for index in 0..=count {
            let value = step * index as f64;
            if value <= end * 1.0001 {
                axis_x(out, x(value), y0, &number(value));
            }
        }
        titles(out, [x0, x1, y0], scale.unit, "time in s");
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
        let mut pen_down = false;
        for (index, value) in series.values.iter().enumerate() {
            let Some(value) = value else {
                pen_down = false;
                continue;
            };
            // A value stands for its step; it is drawn at the step's middle.
            let (start, end) = self.grid.bounds(index);
            let at = x(f64::midpoint(start, end));
            let command = if pen_down { 'L' } else { 'M' };
            let _ = write!(path, "{command}{at:.1} {:.1}", y(*value));
            let alone = !pen_down && series.values.get(index + 1).is_none_or(Option::is_none);
            if alone {
                // A lone point would be invisible.
                let _ = write!(path, "h.1");
            }
            pen_down = true;
        }
        path
    }

    /// For the read-out: step, unit, names, and values rounded to what the plot can show.
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
        // `</script>` in a name must not end the element.
        data.to_string().replace('<', "\\u003c")
    }
}

/// The vertical axis: the unit's size and name, the distance of ticks in it, and their number.
struct Scale {
    size: f64,
    unit: &'static str,
    tick: f64,
    count: usize,
}

pub(crate) fn axis_y(out: &mut String, x0: f64, x1: f64, y: f64, label: &str) {
    let _ = write!(
        out,
        "<path class=\"grid\" d=\"M{x0} {y:.1}H{x1}\"/>\
         <text x=\"{:.1}\" y=\"{:.1}\" class=\"end\">{label}</text>",
        x0 - 6.0,
        y + 4.0
    );
}

pub(crate) fn axis_x(out: &mut String, x: f64, y0: f64, label: &str) {
    let _ = write!(
        out,
        "<path class=\"tick\" d=\"M{x:.1} {y0}v4\"/>\
         <text x=\"{x:.1}\" y=\"{}\" class=\"mid\">{label}</text>",
        y0 + 16.0
    );
}

/// Titles of both axes; `place` is left, right and bottom of the plotted area.
pub(crate) fn titles(out: &mut String, [x0, x1, y0]: [f64; 3], vertical: &str, horizontal: &str) {
    let middle = f64::midpoint(MARGIN.top, y0);
    let _ = write!(
        out,
        "<path class=\"axis\" d=\"M{x0} {y0}H{x1}\"/>\
         <text class=\"mid title\" x=\"{}\" y=\"{}\">{horizontal}</text>\
         <text class=\"mid title\" \
         transform=\"translate(12 {middle}) rotate(-90)\">{vertical}</text>",
        f64::midpoint(x0, x1),
        y0 + 32.0
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_round_and_cover_the_data() {
        assert_eq!(ticks(9.4, 4), (2.5, 4));
        assert_eq!(ticks(1.0, 4), (0.25, 4));
        assert_eq!(ticks(30.0, 6), (5.0, 6));
        for max in [0.003, 0.7, 1.0, 17.0, 99.9, 123_456.0] {
            let (step, count) = ticks(max, 4);
            assert!(step * count as f64 >= max * 0.999 && count <= 5, "{max}: {step} × {count}");
        }
    }

    #[test]
    fn gaps_break_the_line_and_names_are_escaped() {
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
