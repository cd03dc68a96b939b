//! The frame, the axes and the ticks of all plots.

use std::fmt::Write as _;

use serde::{Deserialize, Serialize};

use crate::format::{bytes, escape, number, seconds};

/// Widths of the drawings for wide pages and for phones. The style sheet selects one.
pub(crate) const WIDTHS: [(&str, f64); 2] = [("wide", 560.0), ("narrow", 350.0)];
pub(crate) const HEIGHT: f64 = 230.0;

/// A plot as an HTML figure, drawn for wide and narrow pages.
pub(crate) struct Frame<'a> {
    pub(crate) title: &'a str,
    /// A line below the title.
    pub(crate) note: &'a str,
    /// Entries of the legend, see [`entry`].
    pub(crate) legend: String,
    /// The content for screen readers.
    pub(crate) label: &'a str,
    /// Data for the tooltip as JSON; may be empty.
    pub(crate) data: &'a str,
}

impl Frame<'_> {
    pub(crate) fn html(&self, draw: impl Fn(&mut String, f64)) -> String {
        let mut out = format!(
            "<figure class=\"plot\"><figcaption><h3>{}</h3><p>{}</p></figcaption>\
             <ul class=\"legend\">{}</ul>",
            escape(self.title),
            escape(self.note),
            self.legend
        );
        for (class, width) in WIDTHS {
            let _ = write!(
                out,
                "<svg class=\"{class}\" viewBox=\"0 0 {width} {HEIGHT}\" role=\"img\" \
                 aria-label=\"{}\"",
                escape(self.label)
            );
            if !self.data.is_empty() {
                let Area { x0, x1, y0, y1 } = Area::of(width);
                let _ = write!(
                    out,
                    " data-x0=\"{x0}\" data-x1=\"{x1}\" data-y0=\"{y0}\" data-y1=\"{y1}\""
                );
            }
            out.push('>');
            draw(&mut out, width);
            if !self.data.is_empty() {
                out.push_str("<path class=\"cross\" d=\"\"/>");
            }
            out.push_str("</svg>");
        }
        if !self.data.is_empty() {
            // Prevents `</script>` in a name from ending the element.
            let data = self.data.replace('<', "\\u003c");
            let _ = write!(out, "<script type=\"application/json\">{data}</script>");
        }
        out + "</figure>"
    }
}

/// An entry of the legend: a symbol of this width, and its name.
pub(crate) fn entry(width: u32, symbol: &str, name: &str) -> String {
    let height = if width > 12 { 8 } else { 12 };
    format!(
        "<li><svg width=\"{width}\" height=\"{height}\" aria-hidden=\"true\">{symbol}</svg>{}</li>",
        escape(name)
    )
}

/// A vertical line of this CSS class in the legend.
pub(crate) fn mark_entry(class: &str, name: &str) -> String {
    entry(10, &format!("<path class=\"{class}\" d=\"M5 0V12\"/>"), name)
}

/// The plotted area between the axes: left, right, bottom and top.
#[derive(Clone, Copy)]
pub(crate) struct Area {
    pub(crate) x0: f64,
    pub(crate) x1: f64,
    pub(crate) y0: f64,
    pub(crate) y1: f64,
}

impl Area {
    /// The area of a drawing of this width.
    pub(crate) fn of(width: f64) -> Self {
        Self { x0: 52.0, x1: width - 12.0, y0: HEIGHT - 36.0, y1: 12.0 }
    }

    /// The x coordinate of a position from 0 (left) to 1 (right).
    pub(crate) fn x(self, position: f64) -> f64 {
        self.x0 + (self.x1 - self.x0) * position
    }

    /// The y coordinate of a position from 0 (bottom) to 1 (top).
    pub(crate) fn y(self, position: f64) -> f64 {
        self.y0 - (self.y0 - self.y1) * position
    }

    /// Draws both axes from positions with labels, and titles.
    pub(crate) fn axes(
        self,
        out: &mut String,
        x: impl Iterator<Item = (f64, String)>,
        y: impl Iterator<Item = (f64, String)>,
        [x_title, y_title]: [&str; 2],
    ) {
        let Self { x0, x1, y0, y1 } = self;
        for (position, label) in y {
            let y = self.y(position);
            let _ = write!(
                out,
                "<path class=\"grid\" d=\"M{x0} {y:.1}H{x1}\"/>\
                 <text x=\"{:.1}\" y=\"{:.1}\" class=\"end\">{label}</text>",
                x0 - 6.0,
                y + 4.0
            );
        }
        for (position, label) in x {
            let x = self.x(position);
            let _ = write!(
                out,
                "<path class=\"tick\" d=\"M{x:.1} {y0}v4\"/>\
                 <text x=\"{x:.1}\" y=\"{}\" class=\"mid\">{label}</text>",
                y0 + 16.0
            );
        }
        let _ = write!(
            out,
            "<path class=\"axis\" d=\"M{x0} {y0}H{x1}\"/>\
             <text class=\"mid title\" x=\"{}\" y=\"{}\">{x_title}</text>\
             <text class=\"mid title\" \
             transform=\"translate(12 {}) rotate(-90)\">{y_title}</text>",
            f64::midpoint(x0, x1),
            y0 + 32.0,
            f64::midpoint(y1, y0)
        );
    }
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Axis {
    /// The quantity and its unit: `RTT in ms`.
    pub title: String,
    #[serde(default)]
    pub scale: Scale,
    /// Start of the axis; by default at or below the smallest value.
    #[serde(default)]
    pub from: Option<f64>,
    /// End of the axis; by default at or above the largest value.
    #[serde(default)]
    pub to: Option<f64>,
    #[serde(skip)]
    pub(crate) unit: Unit,
}

/// The unit in the labels of an axis.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Unit {
    /// No unit: it is in the title.
    #[default]
    None,
    Seconds,
    Bytes,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Scale {
    #[default]
    Linear,
    /// Values up to 0 are not drawn.
    Log,
}

impl Axis {
    /// A linear axis that fits its values.
    pub fn linear(title: &str) -> Self {
        Self { title: title.to_owned(), ..Self::default() }
    }

    /// A logarithmic axis that fits its values.
    pub fn log(title: &str) -> Self {
        Self { title: title.to_owned(), scale: Scale::Log, ..Self::default() }
    }

    /// The same axis with a fixed start.
    #[must_use]
    pub fn from(mut self, from: f64) -> Self {
        self.from = Some(from);
        self
    }

    /// The same axis with a fixed end.
    #[must_use]
    pub fn to(mut self, to: f64) -> Self {
        self.to = Some(to);
        self
    }

    /// The range of the axis for these values, with about `wanted` ticks.
    pub(crate) fn range(&self, values: impl Iterator<Item = f64> + Clone, wanted: usize) -> Range {
        match self.scale {
            Scale::Linear => self.linear_range(values, wanted),
            Scale::Log => {
                let ends = [self.from, self.to].into_iter().flatten();
                let log = Log::around(values.chain(ends)).unwrap_or(Log { first: 0.0, last: 1.0 });
                let end = |fixed: Option<f64>, fitted| {
                    fixed.filter(|value| *value > 0.0).map_or(fitted, f64::log10)
                };
                let log = Log { first: end(self.from, log.first), last: end(self.to, log.last) };
                let ticks = log.ticks(wanted);
                Range { low: log.first, high: log.last, log: Some(log), unit: self.unit, ticks }
            }
        }
    }

    fn linear_range(&self, values: impl Iterator<Item = f64>, wanted: usize) -> Range {
        let finite = values.filter(|value| value.is_finite());
        let (min, max) = finite.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), value| {
            (low.min(value), high.max(value))
        });
        let (min, max) = if min <= max { (min, max) } else { (0.0, 1.0) };
        // The axis includes 0, unless the values would be too close together.
        let near_zero = min > 0.0 && min < max * 0.6;
        let low = self.from.unwrap_or(if near_zero { 0.0 } else { min });
        let high = self.to.unwrap_or(max).max(low);
        let span = if high > low { high - low } else { low.abs().max(1.0) };
        let (step, _) = ticks(span, wanted);
        let first = self.from.unwrap_or((low / step + 1e-9).floor() * step);
        let last = match self.to {
            Some(to) if to > first => to,
            // A value slightly above a tick needs no further tick.
            _ => (((low + span) / step - 0.05).ceil() * step).max(low + span),
        };
        let start = (first / step - 1e-6).ceil();
        let count = ((last - start * step) / step + 1e-6).floor().max(0.0) as usize;
        let ticks = (0..=count.min(50)).map(|index| (start + index as f64) * step).collect();
        Range { low: first, high: last, log: None, unit: self.unit, ticks }
    }
}

pub(crate) struct Range {
    low: f64,
    high: f64,
    log: Option<Log>,
    unit: Unit,
    ticks: Vec<f64>,
}

impl Range {
    /// The position of a value: 0 at the start of the axis, 1 at its end.
    pub(crate) fn position(&self, value: f64) -> f64 {
        let value = if self.log.is_some() { value.max(1e-300).log10() } else { value };
        (value - self.low) / (self.high - self.low)
    }

    pub(crate) fn is_drawable(&self, value: f64) -> bool {
        value.is_finite() && (self.log.is_none() || value > 0.0)
    }

    /// Positions and labels of the ticks.
    pub(crate) fn labels(&self) -> impl Iterator<Item = (f64, String)> {
        self.ticks.iter().map(|tick| (self.position(*tick), self.label(*tick)))
    }

    /// A label with enough digits to distinguish the ticks.
    fn label(&self, value: f64) -> String {
        let step = match (self.unit, self.log, self.ticks.as_slice()) {
            (Unit::Seconds, ..) => return seconds(value),
            (Unit::Bytes, ..) => return bytes(value as u64),
            (Unit::None, None, [first, second, ..]) => second - first,
            _ => return number(value),
        };
        if value.abs() < step * 1e-6 {
            return "0".to_owned();
        }
        let digits = (1.0 - step.log10().floor()).clamp(0.0, 12.0) as usize;
        let text = format!("{value:.digits$}");
        if text.contains('.') {
            text.trim_end_matches('0').trim_end_matches('.').to_owned()
        } else {
            text
        }
    }
}

/// Ticks at round numbers from 0 to at least `max`: their distance and number.
fn ticks(max: f64, wanted: usize) -> (f64, usize) {
    let raw = max / wanted as f64;
    let power = 10f64.powf(raw.log10().floor());
    let step = [1.0, 2.0, 2.5, 5.0, 10.0]
        .into_iter()
        .map(|m| m * power)
        .find(|step| *step >= raw * 0.999)
        .unwrap_or(power * 10.0);
    (step, (max / step - 1e-6).ceil() as usize)
}

/// A logarithmic axis: log10 of its ends.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Log {
    pub(crate) first: f64,
    pub(crate) last: f64,
}

impl Log {
    /// An axis for all positive values, with a margin.
    pub(crate) fn around(values: impl Iterator<Item = f64>) -> Option<Self> {
        let (mut low, mut high) = (f64::INFINITY, f64::NEG_INFINITY);
        for value in values.filter(|value| *value > 0.0) {
            low = low.min(value.log10());
            high = high.max(value.log10());
        }
        let wide = (high - low).max(0.3);
        (high >= low).then_some(Self { first: low - wide * 0.04, last: low + wide * 1.04 })
    }

    pub(crate) fn position(self, value: f64) -> f64 {
        ((value.max(1e-300).log10() - self.first) / (self.last - self.first)).clamp(0.0, 1.0)
    }

    /// Ticks at round values, at most `max`: powers of ten, with steps between if they fit.
    pub(crate) fn ticks(self, max: usize) -> Vec<f64> {
        let decades = self.first.floor() as i32..=self.last.ceil() as i32;
        let within = |factors: &[f64], skip: i32| -> Vec<f64> {
            let powers = decades.clone().filter(|power| power % skip == 0);
            let all = powers.flat_map(|p| factors.iter().map(move |f| f * 10f64.powi(p)));
            all.filter(|v| (self.first..=self.last).contains(&v.log10())).collect()
        };
        let candidates =
            [within(&[1.0, 2.0, 3.0, 5.0, 7.0], 1), within(&[1.0, 2.0, 5.0], 1), within(&[1.0], 1)];
        let fits = candidates.into_iter().find(|ticks| ticks.len() <= max);
        fits.unwrap_or_else(|| within(&[1.0], 1 + decades.clone().count() as i32 / max as i32))
    }
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
    fn log_ticks_are_round_and_limited() {
        let axis = Log::around([0.001, 0.004].into_iter()).unwrap();
        assert_eq!(axis.ticks(7), [0.001, 0.002, 0.003]);
        let axis = Log { first: 2.5, last: 8.2 };
        assert_eq!(axis.ticks(7), [1e3, 1e4, 1e5, 1e6, 1e7, 1e8]);
        assert!(axis.ticks(3).len() <= 3);
        assert_eq!(Log::around([0.0].into_iter()), None);
        let one = Log::around([5.0].into_iter()).unwrap();
        assert!(!one.ticks(5).is_empty(), "{one:?}");
    }

    #[test]
    fn axis_has_round_ends_around_its_values() {
        let axis = Axis::linear("");
        let range = axis.range([9.1, 9.42].into_iter(), 5);
        assert!(range.low <= 9.1 && range.low > 8.9 && range.high >= 9.42 && range.high < 9.6);
        let range = axis.range([2.0, 10.0].into_iter(), 5);
        assert!(range.low.abs() < 1e-12 && (range.high - 10.0).abs() < 1e-9);
        let range = Axis::linear("").from(-1.0).to(1.0).range([0.0].into_iter(), 4);
        assert!((range.position(0.0) - 0.5).abs() < 1e-12);
        assert_eq!(range.label(range.ticks[1]), "-0.5");
        let one = axis.range([5.0].into_iter(), 4);
        assert!(one.position(5.0).is_finite() && !one.ticks.is_empty());
    }

    #[test]
    fn labels_of_close_ticks_differ() {
        let range = Axis::linear("").range([200.01, 200.09].into_iter(), 4);
        let labels: Vec<_> = range.ticks.iter().map(|tick| range.label(*tick)).collect();
        let mut different = labels.clone();
        different.dedup();
        assert_eq!(labels, different);
    }

    #[test]
    fn log_axis_omits_values_up_to_zero() {
        let range = Axis::log("").range([0.0, 1.0, 100.0].into_iter(), 5);
        assert!(!range.is_drawable(0.0) && range.is_drawable(1.0));
        assert!((range.position(10.0) - 0.5).abs() < 1e-9);
    }
}
