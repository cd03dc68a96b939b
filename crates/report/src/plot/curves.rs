//! Curves over a logarithmic axis: completion times of transfers, and slowdown by size.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use super::{HEIGHT, LINES, MARGIN, WIDTHS, axis_x, axis_y, escape, titles};
use crate::format::{bytes, number, seconds};
use crate::series::Transferred;

/// Points of a distribution's curve.
const POINTS: usize = 200;

/// Size classes in a factor of ten.
const CLASSES: f64 = 4.0;

/// An axis of powers of ten: log10 of its ends.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Log {
    pub(crate) first: f64,
    pub(crate) last: f64,
}

impl Log {
    /// From the smallest to the largest of positive values, a little beyond both.
    pub(crate) fn around(values: impl Iterator<Item = f64>) -> Option<Self> {
        let (mut low, mut high) = (f64::INFINITY, f64::NEG_INFINITY);
        for value in values.filter(|value| *value > 0.0) {
            low = low.min(value.log10());
            high = high.max(value.log10());
        }
        let wide = (high - low).max(0.3);
        (high >= low).then_some(Self { first: low - wide * 0.04, last: low + wide * 1.04 })
    }

    pub(crate) fn place(self, value: f64) -> f64 {
        ((value.max(1e-300).log10() - self.first) / (self.last - self.first)).clamp(0.0, 1.0)
    }

    /// Round values within: powers of ten, with 2 and 5 where there are few, at most `most`.
    pub(crate) fn ticks(self, most: usize) -> Vec<f64> {
        let decades = self.first.floor() as i32..=self.last.ceil() as i32;
        let within = |factors: &[f64], skip: i32| -> Vec<f64> {
            let powers = decades.clone().filter(|power| power % skip == 0);
            let all = powers.flat_map(|p| factors.iter().map(move |f| f * 10f64.powi(p)));
            all.filter(|v| (self.first..=self.last).contains(&v.log10())).collect()
        };
        let candidates =
            [within(&[1.0, 2.0, 3.0, 5.0, 7.0], 1), within(&[1.0, 2.0, 5.0], 1), within(&[1.0], 1)];
        let fits = candidates.into_iter().find(|ticks| ticks.len() <= most);
        fits.unwrap_or_else(|| within(&[1.0], 1 + decades.clone().count() as i32 / most as i32))
    }
}

struct Curve {
    name: String,
    style: usize,
    points: Vec<(f64, f64)>,
}

/// What a figure shows.
struct Figure<'a> {
    title: &'a str,
    note: String,
    curves: Vec<Curve>,
    x: Log,
    x_title: &'a str,
    x_text: fn(f64) -> String,
    y_title: &'a str,
    /// Place from the bottom, 0 to 1, and label.
    y_ticks: Vec<(f64, String)>,
    y_place: &'a dyn Fn(f64) -> f64,
}

/// How long transfers took, as shares; nothing without transfers. `flows` gives the styles.
pub(crate) fn completion(transfers: &[Transferred], flows: &[String]) -> String {
    let mut by_flow: BTreeMap<&str, Vec<f64>> = BTreeMap::new();
    for transfer in transfers {
        by_flow.entry(&transfer.flow).or_default().push(transfer.seconds);
    }
    let Some(x) = Log::around(transfers.iter().map(|transfer| transfer.seconds)) else {
        return String::new();
    };
    let mut by_flow: Vec<_> = by_flow.into_iter().collect();
    by_flow.sort_by_key(|(_, times)| std::cmp::Reverse(times.len()));
    let left_out = by_flow.len().saturating_sub(LINES);
    let curve = |(name, mut times): (&str, Vec<f64>)| {
        times.sort_by(f64::total_cmp);
        let last = times.len() - 1;
        let steps = POINTS.min(times.len());
        let point = |step: usize| {
            let rank = if steps > 1 { step * last / (steps - 1) } else { last };
            (times[rank], (rank + 1) as f64 / times.len() as f64)
        };
        let style = flows.iter().position(|flow| flow == name).unwrap_or(0);
        Curve { name: name.to_owned(), style, points: (0..steps).map(point).collect() }
    };
    let curves = by_flow.into_iter().take(LINES).map(curve).collect();
    let mut note = format!("Share of {} transfers that took no longer", transfers.len());
    if left_out > 0 {
        let _ = write!(note, "; {left_out} flows with fewer are not shown");
    }
    let ticks = [0.0, 0.25, 0.5, 0.75, 1.0].map(|share| (share, number(share * 100.0)));
    let (x_title, y_title) = ("completion time (logarithmic)", "%");
    Figure {
        title: "Completion of transfers",
        note,
        curves,
        x,
        x_title,
        x_text: seconds,
        y_title,
        y_ticks: ticks.to_vec(),
        y_place: &|share| share,
    }
    .render()
}

/// How much longer transfers took than on an empty network, by their size; nothing where that is
/// not known, or all are of one size.
pub(crate) fn slowdown(transfers: &[Transferred]) -> String {
    let mut classes: BTreeMap<i64, Vec<(f64, f64)>> = BTreeMap::new();
    for transfer in transfers {
        if let Some(slowdown) = transfer.slowdown.filter(|_| transfer.bytes > 0.0) {
            let class = (transfer.bytes.log10() * CLASSES).floor() as i64;
            classes.entry(class).or_default().push((slowdown, transfer.bytes));
        }
    }
    if classes.len() < 2 {
        return String::new();
    }
    let quantiles = [("median", 0.5), ("99 %", 0.99), ("mean", f64::NAN)];
    let mut curves: Vec<Curve> = quantiles
        .iter()
        .enumerate()
        .map(|(style, (name, _))| Curve { name: (*name).to_owned(), style, points: Vec::new() })
        .collect();
    for values in classes.values_mut() {
        values.sort_by(|a, b| a.0.total_cmp(&b.0));
        let count = values.len() as f64;
        let size = 10f64.powf(values.iter().map(|(_, bytes)| bytes.log10()).sum::<f64>() / count);
        for (curve, (_, quantile)) in curves.iter_mut().zip(quantiles) {
            let value = if quantile.is_nan() {
                values.iter().map(|(slowdown, _)| slowdown).sum::<f64>() / count
            } else {
                values[((count - 1.0) * quantile).round() as usize].0
            };
            curve.points.push((size, value));
        }
    }
    let all = || curves.iter().flat_map(|curve| &curve.points);
    let (Some(x), Some(y)) =
        (Log::around(all().map(|p| p.0)), Log::around(all().map(|p| p.1).chain([1.0])))
    else {
        return String::new();
    };
    let ticks = y.ticks(7).into_iter().map(|tick| (y.place(tick), number(tick)));
    Figure {
        title: "Slowdown by size",
        note: "Completion time over that of the same transfer alone; 1 is the best".to_owned(),
        x,
        x_title: "size (logarithmic)",
        x_text: |size| bytes(size as u64),
        y_title: "slowdown (logarithmic)",
        y_ticks: ticks.collect(),
        y_place: &|slowdown| y.place(slowdown),
        curves,
    }
    .render()
}

impl Figure<'_> {
    fn render(&self) -> String {
        let mut out = format!(
            "<figure class=\"plot\"><figcaption><h3>{}</h3><p>{}</p></figcaption>\
             <ul class=\"legend\">",
            escape(self.title),
            escape(&self.note)
        );
        for curve in &self.curves {
            let _ = write!(
                out,
                "<li><svg width=\"22\" height=\"8\" aria-hidden=\"true\">\
                 <path class=\"line s{}\" d=\"M1 4H21\"/></svg>{}</li>",
                curve.style % LINES,
                escape(&curve.name)
            );
        }
        out.push_str("</ul>");
        for (class, width) in WIDTHS {
            self.svg(&mut out, class, width);
        }
        out + "</figure>"
    }

    fn svg(&self, out: &mut String, class: &str, width: f64) {
        let (x0, x1) = (MARGIN.left, width - MARGIN.right);
        let (y0, y1) = (HEIGHT - MARGIN.bottom, MARGIN.top);
        let _ = write!(
            out,
            "<svg class=\"{class}\" viewBox=\"0 0 {width} {HEIGHT}\" role=\"img\" \
             aria-label=\"{}: {} over {}\">",
            escape(self.title),
            self.y_title,
            self.x_title
        );
        let x = |value: f64| x0 + (x1 - x0) * self.x.place(value);
        let y = |place: f64| y0 - (y0 - y1) * place;
        for (place, label) in &self.y_ticks {
            axis_y(out, x0, x1, y(*place), label);
        }
        for tick in self.x.ticks(if width > 400.0 { 7 } else { 5 }) {
            axis_x(out, x(tick), y0, &(self.x_text)(tick));
        }
        titles(out, [x0, x1, y0], self.y_title, self.x_title);
        for curve in &self.curves {
            let mut path = String::new();
            for (index, (at, value)) in curve.points.iter().enumerate() {
                let command = if index == 0 { 'M' } else { 'L' };
                let place = y((self.y_place)(*value));
                let _ = write!(path, "{command}{:.1} {place:.1}", x(*at));
            }
            if curve.points.len() == 1 {
                // A lone point would be invisible.
                path.push_str("h.1");
            }
            let class = curve.style % LINES;
            let _ = write!(out, "<path class=\"line s{class}\" d=\"{path}\"/>");
        }
        out.push_str("</svg>");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn transfer(bytes: f64, seconds: f64, slowdown: f64) -> Transferred {
        Transferred { flow: "a".to_owned(), bytes, seconds, slowdown: Some(slowdown) }
    }

    #[test]
    fn ticks_are_round_and_few() {
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
    fn figures_need_something_to_show() {
        assert_eq!(completion(&[], &[]), "");
        let one = [transfer(1e3, 0.1, 2.0), transfer(1e3, 0.2, 3.0)];
        assert_eq!(slowdown(&one), "", "one size makes no curve");
        assert!(completion(&one, &["a".to_owned()]).contains("Share of 2 transfers"));
        let two = [transfer(1e3, 0.1, 2.0), transfer(1e6, 0.2, 3.0)];
        assert!(slowdown(&two).contains("Slowdown by size"));
    }
}
