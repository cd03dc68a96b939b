//! The axes of all plots.

use std::fmt::Write as _;

/// Widths of the drawings for wide pages and for phones. The style sheet selects one.
pub(crate) const WIDTHS: [(&str, f64); 2] = [("wide", 560.0), ("narrow", 350.0)];
pub(crate) const HEIGHT: f64 = 230.0;

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

/// Ticks at round numbers from 0 to at least `max`: their distance and number.
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
}
