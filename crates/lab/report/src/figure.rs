//! Plots of points over any axes, also for the figures of papers.

use std::fmt::Write as _;

use run::record::EventRecord;
use serde::{Deserialize, Deserializer, Serialize};

use crate::axes::{Area, Axis, Frame, HEIGHT, WIDTHS, entry, mark_entry};
use crate::document::{PLOT_STYLE, STYLE};
use crate::format::{escape, number};

/// Number of line styles, which are distinguishable for colour-blind readers.
pub(crate) const LINES: usize = 8;

/// Points closer than this, in drawn units, are drawn as one.
const MIN_POINT_DISTANCE: f64 = 0.2;

/// A plot with its axes and lines.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Figure {
    pub title: String,
    /// A line below the title; may be empty.
    #[serde(default)]
    pub note: String,
    /// The horizontal axis.
    pub x: Axis,
    /// The vertical axis.
    pub y: Axis,
    /// The lines, in the order of the legend.
    pub lines: Vec<Line>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Line {
    /// Its name in the legend.
    pub label: String,
    #[serde(default)]
    pub style: Style,
    /// The points. A point that is not finite interrupts the line.
    #[serde(deserialize_with = "points")]
    pub points: Vec<(f64, f64)>,
    /// The spread of values at each point, from low to high, drawn as a band; may be empty.
    #[serde(default, skip_serializing_if = "Vec::is_empty", deserialize_with = "points")]
    pub spread: Vec<(f64, f64)>,
    /// The number of its colour; by default the next one.
    #[serde(skip)]
    pub(crate) colour: Option<usize>,
}

/// Reads points. JSON has no NaN: such values were written as `null`.
fn points<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<(f64, f64)>, D::Error> {
    let points = Vec::<(Option<f64>, Option<f64>)>::deserialize(from)?;
    let number = |value: Option<f64>| value.unwrap_or(f64::NAN);
    Ok(points.into_iter().map(|(x, y)| (number(x), number(y))).collect())
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Style {
    /// Straight lines between points.
    #[default]
    Line,
    /// Each value holds until the next point.
    Steps,
    Dots,
    /// A reference: a thin line without colour.
    Reference,
    /// Only the band of the spread.
    Band,
}

/// Maximum number of points returned by [`average_chunks`].
const MAX_AVERAGED_POINTS: usize = 600;

/// Averages neighbouring points so that a plot has a limited number; NaN for missing values.
pub(crate) fn average_chunks(points: &[(f64, Option<f64>)]) -> Vec<(f64, f64)> {
    let size = points.len().div_ceil(MAX_AVERAGED_POINTS).max(1);
    let mean = |chunk: &[(f64, Option<f64>)]| {
        let values: Vec<f64> = chunk.iter().filter_map(|(_, value)| *value).collect();
        (chunk[chunk.len() - 1].0, values.iter().sum::<f64>() / values.len() as f64)
    };
    points.chunks(size).map(mean).collect()
}

impl Line {
    pub fn new(label: impl Into<String>, points: Vec<(f64, f64)>) -> Self {
        Self { label: label.into(), points, ..Self::default() }
    }

    /// The same line with a band from low to high at each of its points.
    #[must_use]
    pub fn spread(mut self, spread: Vec<(f64, f64)>) -> Self {
        self.spread = spread;
        self
    }

    /// The same line with this style.
    #[must_use]
    pub fn style(mut self, style: Style) -> Self {
        self.style = style;
        self
    }
}

impl Figure {
    pub fn new(title: impl Into<String>, x: Axis, y: Axis) -> Self {
        Self { title: title.into(), x, y, ..Self::default() }
    }

    /// The same plot with this line added.
    #[must_use]
    pub fn line(mut self, line: Line) -> Self {
        self.lines.push(line);
        self
    }

    /// The plot as an HTML figure for a [`crate::Document`], drawn for wide and narrow pages.
    pub fn html(&self) -> String {
        self.over_time(&[], "")
    }

    /// The plot with marks at events, and data for the tooltip as JSON.
    pub(crate) fn over_time(&self, events: &[EventRecord], data: &str) -> String {
        let lines = self.lines.iter().zip(self.classes());
        let mut legend: String = lines
            .map(|(line, class)| entry(22, &sample(line.style, &class), &line.label))
            .collect();
        if !events.is_empty() {
            legend += &mark_entry("event", "event");
        }
        let label = format!("{}: {} over {}", self.title, self.y.title, self.x.title);
        Frame { title: &self.title, note: &self.note, legend, label: &label, data }
            .html(|out, width| self.draw(out, width, events))
    }

    /// The plot as an SVG file, with title and legend.
    pub fn svg(&self) -> String {
        let width = WIDTHS[0].1;
        let top = 30.0 + 16.0 * self.lines.len() as f64;
        let height = HEIGHT + top;
        let mut out = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" \
             width=\"{width}\" height=\"{height}\"><style>{PLOT_STYLE}svg{{font-family:sans-serif}}\
             </style><rect width=\"{width}\" height=\"{height}\" style=\"fill:var(--card)\"/>\
             <text class=\"name\" x=\"12\" y=\"20\">{}</text>",
            escape(&self.title)
        );
        for (index, (line, class)) in self.lines.iter().zip(self.classes()).enumerate() {
            let y = 36.0 + 16.0 * index as f64;
            let _ = write!(
                out,
                "<g transform=\"translate(12 {y})\">{}<text x=\"28\" y=\"8\">{}</text></g>",
                sample(line.style, &class),
                escape(&line.label)
            );
        }
        let _ = write!(out, "<g transform=\"translate(0 {top})\">");
        self.draw(&mut out, width, &[]);
        out.push_str("</g></svg>\n");
        with_literal_colours(&out)
    }

    /// All points as CSV: plot, line, x, y, and if any line has a band: low, high.
    pub fn csv(figures: &[Self]) -> String {
        let lines = || figures.iter().flat_map(|figure| &figure.lines);
        let bands = lines().any(|line| !line.spread.is_empty());
        let mut out = String::from("plot,line,x,y");
        out.push_str(if bands { ",low,high\n" } else { "\n" });
        let quote = |text: &str| format!("\"{}\"", text.replace('"', "\"\""));
        for figure in figures {
            let plot = quote(&figure.title);
            for line in &figure.lines {
                let label = quote(&line.label);
                for (index, (x, y)) in line.points.iter().enumerate() {
                    let _ = write!(out, "{plot},{label},{x},{y}");
                    let _ = match line.spread.get(index) {
                        Some((low, high)) => writeln!(out, ",{low},{high}"),
                        None => writeln!(out, "{}", if bands { ",," } else { "" }),
                    };
                }
            }
        }
        out
    }

    /// CSS classes of the lines: a colour and dash for each; references are counted separately.
    fn classes(&self) -> Vec<String> {
        let (mut lines, mut references, mut bands) = (0, 0, 0);
        let mut class = |style: Style, colour: Option<usize>| {
            if style == Style::Reference {
                references += 1;
                return format!("line r{}", (references - 1) % 3);
            }
            if style == Style::Band {
                bands += 1;
                return format!("line s{}", LINES - 1 - (bands - 1) % LINES);
            }
            lines += 1;
            let dots = if style == Style::Dots { " dots" } else { "" };
            format!("line s{}{dots}", colour.unwrap_or(lines - 1) % LINES)
        };
        self.lines.iter().map(|line| class(line.style, line.colour)).collect()
    }

    fn draw(&self, out: &mut String, width: f64, events: &[EventRecord]) {
        let points = self.lines.iter().flat_map(|line| line.points.iter());
        let x =
            self.x.range(points.clone().map(|point| point.0), if width > 400.0 { 6 } else { 4 });
        let spread = self.lines.iter().flat_map(|line| &line.spread);
        let ends = spread.flat_map(|(low, high)| [*low, *high]);
        let y = self.y.range(points.map(|point| point.1).chain(ends), 5);
        let area = Area::of(width);
        let at_x = |value: f64| area.x(x.position(value));
        let at_y = |value: f64| area.y(y.position(value));
        let titles = [&*escape(&self.x.title), &*escape(&self.y.title)];
        area.axes(out, x.labels(), y.labels(), titles);
        for event in events.iter().filter(|event| x.position(event.at_s) <= 1.0) {
            let (x, Area { y0, y1, .. }) = (at_x(event.at_s), area);
            let (time, text) = (number(event.at_s), escape(&event.text));
            let _ = write!(
                out,
                "<path class=\"event\" d=\"M{x:.1} {y0}V{y1}\">\
                 <title>{time} s: {text}</title></path>"
            );
        }
        // A nested element clips at the ends of a fixed axis, with a margin for dots.
        let (left, top) = (area.x0 - 3.0, area.y1 - 3.0);
        let (wide, high) = (area.x1 - area.x0 + 6.0, area.y0 - area.y1 + 6.0);
        let _ = write!(
            out,
            "<svg x=\"{left}\" y=\"{top}\" width=\"{wide}\" height=\"{high}\" \
             viewBox=\"{left} {top} {wide} {high}\">"
        );
        let position =
            |(a, b): (f64, f64)| (x.is_drawable(a) && y.is_drawable(b)).then(|| (at_x(a), at_y(b)));
        let banded = self.lines.iter().zip(self.classes()).filter(|(l, _)| !l.spread.is_empty());
        for (line, class) in banded {
            let band = band(line, position);
            let colour = colour(&class);
            let _ =
                write!(out, "<path class=\"band\" style=\"fill:var(--{colour})\" d=\"{band}\"/>");
        }
        let drawn = self.lines.iter().zip(self.classes());
        for (line, class) in drawn.filter(|(line, _)| line.style != Style::Band) {
            let path = path(line, position);
            let _ = write!(
                out,
                "<path class=\"{class}\" d=\"{path}\"><title>{}</title></path>",
                escape(&line.label)
            );
        }
        out.push_str("</svg>");
    }
}

/// Replaces CSS variables by the page's light colours: only browsers support variables.
fn with_literal_colours(text: &str) -> String {
    let palette = STYLE.split_once('}').map_or("", |(root, _)| root);
    let value = |name: &str| {
        let mut pairs = palette.split([';', '{']).filter_map(|pair| pair.trim().split_once(':'));
        pairs.find(|(key, _)| *key == name).map_or("#000", |(_, value)| value)
    };
    let mut parts = text.split("var(");
    let mut out = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let (name, rest) = part.split_once(')').unwrap_or((part, ""));
        out.push_str(value(name));
        out.push_str(rest);
    }
    out
}

/// The symbol of a line in the legend.
fn sample(style: Style, class: &str) -> String {
    let path = match style {
        Style::Band => {
            let colour = colour(class);
            return format!(
                "<path class=\"band\" style=\"fill:var(--{colour})\" d=\"M0 0h22v8h-22Z\"/>"
            );
        }
        Style::Dots => "M11 4h.01",
        Style::Line | Style::Steps | Style::Reference => "M1 4H21",
    };
    format!("<path class=\"{class}\" d=\"{path}\"/>")
}

/// The colour in a CSS class, used to fill a band.
fn colour(class: &str) -> &str {
    class.split(' ').find(|word| word.starts_with('s')).unwrap_or("ink")
}

fn path(line: &Line, position: impl Fn((f64, f64)) -> Option<(f64, f64)>) -> String {
    let mut path = String::new();
    let mut last: Option<(f64, f64)> = None;
    let count = line.points.len();
    for (index, point) in line.points.iter().enumerate() {
        let Some((x, y)) = position(*point) else {
            last = None;
            continue;
        };
        let close = last.is_some_and(|(a, b)| {
            (x - a).abs() < MIN_POINT_DISTANCE && (y - b).abs() < MIN_POINT_DISTANCE
        });
        if close && index + 1 < count {
            continue;
        }
        let _ = match (line.style, last) {
            (Style::Dots, _) | (_, None) => write!(path, "M{x:.1} {y:.1}h.01"),
            (Style::Steps, Some(_)) => write!(path, "H{x:.1}V{y:.1}"),
            (_, Some(_)) => write!(path, "L{x:.1} {y:.1}"),
        };
        last = Some((x, y));
    }
    path
}

/// The outline of a line's band, interrupted where an end is not drawable.
fn band(line: &Line, position: impl Fn((f64, f64)) -> Option<(f64, f64)>) -> String {
    let mut path = String::new();
    let mut part: Vec<[(f64, f64); 2]> = Vec::new();
    let close = |part: &mut Vec<[(f64, f64); 2]>, path: &mut String| {
        let forward = part.iter().map(|ends| ends[0]);
        let back = part.iter().rev().map(|ends| ends[1]);
        for (index, (x, y)) in forward.chain(back).enumerate() {
            let _ = write!(path, "{}{x:.1} {y:.1}", if index == 0 { 'M' } else { 'L' });
        }
        if !part.is_empty() {
            path.push('Z');
        }
        part.clear();
    };
    for ((x, _), (low, high)) in line.points.iter().zip(&line.spread) {
        match (position((*x, *low)), position((*x, *high))) {
            (Some(low), Some(high)) => part.push([low, high]),
            _ => close(&mut part, &mut path),
        }
    }
    close(&mut part, &mut path);
    path
}

#[cfg(test)]
mod tests {
    use super::*;

    fn figure(points: Vec<(f64, f64)>) -> Figure {
        Figure::new("A & B", Axis::linear("time in s"), Axis::linear("rate in Mbit/s"))
            .line(Line::new("ours", points))
            .line(Line::new("limit", vec![(0.0, 9.5), (60.0, 9.5)]).style(Style::Reference))
    }

    #[test]
    fn escapes_markup_and_interrupts_lines_at_gaps() {
        let gap = figure(vec![(0.0, 1.0), (1.0, 2.0), (2.0, f64::NAN), (3.0, 4.0), (4.0, 1.0)]);
        let html = gap.html();
        assert!(html.contains("A &amp; B") && !html.contains("NaN"));
        let path = path(&gap.lines[0], |(x, y)| y.is_finite().then_some((x, y)));
        assert_eq!(path.matches('M').count(), 2, "{path}");
    }

    #[test]
    fn steps_are_horizontal_then_vertical() {
        let line = Line::new("", vec![(0.0, 1.0), (5.0, 3.0)]).style(Style::Steps);
        assert_eq!(path(&line, Some), "M0.0 1.0h.01H5.0V3.0");
    }

    #[test]
    fn svg_and_csv_files_are_complete() {
        let svg = figure(vec![(0.0, 9.0), (60.0, 9.4)]).svg();
        assert!(svg.starts_with("<svg xmlns=") && svg.contains("ours"));
        assert!(svg.contains(".s0{stroke:#0072b2}") && svg.contains("style=\"fill:#fff\""));
        let csv = Figure::csv(&[figure(vec![(0.0, 9.25)])]);
        assert_eq!(csv.lines().nth(1), Some("\"A & B\",\"ours\",0,9.25"));
    }

    #[test]
    fn exported_file_has_literal_colours_for_all_styles() {
        let styles = [Style::Line, Style::Dots, Style::Steps, Style::Reference, Style::Band];
        let mut all = figure(vec![(0.0, 1.0)]);
        all.lines = styles
            .into_iter()
            .cycle()
            .take(50)
            .map(|style| Line::new("l", vec![(0.0, 1.0)]).spread(vec![(0.0, 2.0)]).style(style))
            .collect();
        let svg = all.svg();
        assert!(!svg.contains("var(") && !svg.contains("--"), "{svg}");
        // No variable has the fallback colour.
        assert!(!svg.contains("#000"), "{svg}");
    }

    #[test]
    fn bands_are_in_svg_and_csv() {
        let points = vec![(0.0, 1.0), (1.0, 2.0), (2.0, f64::NAN), (3.0, 4.0)];
        let spread = vec![(0.5, 1.5), (1.0, 30.0), (f64::NAN, f64::NAN), (3.0, 5.0)];
        let mut with = figure(vec![(0.0, 1.0)]);
        with.lines[0] = Line::new("ours", points).spread(spread);
        let outline = band(&with.lines[0], |(x, y)| y.is_finite().then_some((x, y)));
        assert_eq!(outline, "M0.0 0.5L1.0 1.0L1.0 30.0L0.0 1.5ZM3.0 3.0L3.0 5.0Z");
        let svg = with.svg();
        assert!(svg.contains("class=\"band\" style=\"fill:#0072b2\"") && svg.contains(">30<"));
        let csv = Figure::csv(&[with]);
        let rows: Vec<&str> = csv.lines().collect();
        assert_eq!(rows[0], "plot,line,x,y,low,high");
        assert_eq!(rows[1], "\"A & B\",\"ours\",0,1,0.5,1.5");
        assert_eq!(rows[5], "\"A & B\",\"limit\",0,9.5,,");
    }

    #[test]
    fn gaps_round_trip_through_json() {
        let gap = figure(vec![(0.0, 1.0), (1.0, f64::NAN), (2.0, 3.0)]);
        let text = serde_json::to_string(&gap).unwrap();
        let read: Figure = serde_json::from_str(&text).unwrap();
        assert_eq!(read.html(), gap.html());
        assert!(read.lines[0].points[1].1.is_nan());
    }

    #[test]
    fn many_points_are_reduced() {
        let points = (0..100_000).map(|i| (f64::from(i) / 1e5, f64::from(i) / 1e5)).collect();
        let path = path(&Line::new("", points), |(x, y)| Some((x * 500.0, y * 200.0)));
        assert!(path.len() < 100_000, "{}", path.len());
    }
}
