//! What came of a run over time.

use base::Direction;

use crate::{Result, Run, quantile};

/// The flow in all labs that carries the stream.
pub(super) const BULK: &str = "bulk";

/// Payload that arrived between two times, in Mbit/s.
pub(super) fn goodput(run: &Run, from: f64, until: f64) -> Result<f64> {
    let step = run.record.interval_s;
    let rates = run.flow_rate(BULK, step)?;
    Ok(between(&rates, step, from, until) / 1e6)
}

/// Payload that arrived over time, in Mbit/s.
pub(super) fn course(run: &Run, step: f64) -> Result<Vec<(f64, f64)>> {
    let rates = run.flow_rate(BULK, step)?;
    Ok(rates.into_iter().map(|(at, rate)| (at, rate / 1e6)).collect())
}

/// What left a link towards its second end over time, in Mbit/s of wire.
pub(super) fn link_course(run: &Run, link: &str, step: f64) -> Result<Vec<(f64, f64)>> {
    let rates = run.link_rate(link, Direction::Up, step)?;
    Ok(rates.into_iter().map(|(at, rate)| (at, rate / 1e6)).collect())
}

/// The mean of a rate between two times; steps that a run did not reach count as nothing.
fn between(rates: &[(f64, f64)], step: f64, from: f64, until: f64) -> f64 {
    let within = rates.iter().filter(|(at, _)| *at > from && *at < until);
    within.map(|(_, rate)| rate * step).sum::<f64>() / (until - from)
}

/// The longest time in s without a byte at the receiver that was not over at `from` and had begun
/// at `until`.
pub(super) fn gap(run: &Run, from: f64, until: f64) -> Result<f64> {
    let samples = run.flow_samples(BULK, "gap_ns")?;
    let within = samples.into_iter().filter(|(at, _)| *at > from && *at <= until);
    Ok(within.map(|(_, ns)| ns as f64 / 1e9).fold(0.0, f64::max))
}

/// The end of the first sampling interval after `from` in which a byte arrived.
pub(super) fn first_byte(run: &Run, from: f64) -> Result<Option<f64>> {
    let samples = run.flow_samples(BULK, "received_bytes")?;
    let interval = run.record.interval_s;
    let later = samples.into_iter().filter(|(at, bytes)| *at - interval >= from && *bytes > 0);
    Ok(later.map(|(at, _)| at).next())
}

/// Whether the stream stood still when the run ended: nothing for so many seconds, and not all of
/// it had arrived.
pub(super) fn stalled(run: &Run, seconds: f64) -> Result<bool> {
    let flow = run.flow(BULK)?;
    if flow.completion_s.is_some() {
        return Ok(false);
    }
    let end = run.record.elapsed_s;
    let samples = run.flow_samples(BULK, "received_bytes")?;
    let last = samples.into_iter().filter(|(_, bytes)| *bytes > 0).map(|(at, _)| at);
    Ok(end - last.fold(0.0, f64::max) >= seconds)
}

/// The most bytes that waited at the receiver for earlier ones, in kB.
pub(super) fn reordered_kb(run: &Run) -> Result<f64> {
    Ok(run.flow(BULK)?.reorder_max_bytes.map_or(f64::NAN, |bytes| bytes as f64 / 1e3))
}

/// Bytes sent again over another path, in % of those that arrived.
pub(super) fn reinjected(run: &Run) -> Result<f64> {
    let flow = run.flow(BULK)?;
    let again = flow.reinjected_bytes.map_or(f64::NAN, |bytes| bytes as f64);
    Ok(again / (flow.received_bytes.max(1) as f64) * 100.0)
}

/// The values of some runs: the median, with the least and the largest.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Middle {
    pub(super) median: f64,
    pub(super) min: f64,
    pub(super) max: f64,
}

impl Middle {
    pub(super) fn of(values: &[f64]) -> Self {
        let nan = f64::NAN;
        let finite = values.iter().all(|value| !value.is_nan()) && !values.is_empty();
        if !finite {
            return Self { median: nan, min: nan, max: nan };
        }
        let at = |share| quantile(values, share).unwrap_or(nan);
        Self { median: at(0.5), min: at(0.0), max: at(1.0) }
    }

    pub(super) fn read(runs: &[Run], read: impl Fn(&Run) -> Result<f64>) -> Result<Self> {
        let values: Vec<f64> = runs.iter().map(read).collect::<Result<_>>()?;
        Ok(Self::of(&values))
    }

    /// `9.53 (9.51 to 9.56)`.
    pub(super) fn text(self) -> String {
        if self.median.is_nan() {
            return "–".to_owned();
        }
        format!("{} ({} to {})", number(self.median), number(self.min), number(self.max))
    }
}

/// Three digits or so.
pub(super) fn number(value: f64) -> String {
    match value {
        _ if !value.is_finite() => "–".to_owned(),
        _ if value.abs() >= 100.0 => format!("{value:.0}"),
        _ if value.abs() >= 20.0 => format!("{value:.1}"),
        _ if value.abs() >= 0.1 || value == 0.0 => format!("{value:.2}"),
        _ => format!("{value:.4}"),
    }
}

/// Points in order.
pub(super) type Points = Vec<(f64, f64)>;

/// The mean of several courses, with the least and the largest value at each point.
pub(super) fn mean_course(courses: &[Points]) -> (Points, Points) {
    let length = courses.iter().map(Vec::len).min().unwrap_or(0);
    let point = |at: usize| {
        let values = || courses.iter().map(|course| course[at].1);
        let mean = values().sum::<f64>() / courses.len() as f64;
        let low = values().fold(f64::INFINITY, f64::min);
        let high = values().fold(f64::NEG_INFINITY, f64::max);
        ((courses[0][at].0, mean), (low, high))
    };
    (0..length).map(point).unzip()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn means_count_what_a_run_did_not_reach_as_nothing() {
        let rates = [(0.5, 8.0), (1.5, 10.0), (2.5, 12.0)];
        assert!((between(&rates, 1.0, 1.0, 3.0) - 11.0).abs() < 1e-9);
        assert!((between(&rates, 1.0, 1.0, 5.0) - 5.5).abs() < 1e-9);
    }

    #[test]
    fn the_middle_is_a_value_that_there_is() {
        let middle = Middle::of(&[3.0, 1.0, 2.0, 9.0, 4.0]);
        assert_eq!((middle.median, middle.min, middle.max), (3.0, 1.0, 9.0));
        assert!(Middle::of(&[]).median.is_nan() && Middle::of(&[1.0, f64::NAN]).median.is_nan());
        assert_eq!(middle.text(), "3.00 (1.00 to 9.00)");
    }

    #[test]
    fn courses_are_averaged_as_far_as_all_of_them_go() {
        let courses = [vec![(0.5, 1.0), (1.5, 2.0), (2.5, 9.0)], vec![(0.5, 3.0), (1.5, 6.0)]];
        let (mean, spread) = mean_course(&courses);
        assert_eq!(mean, [(0.5, 2.0), (1.5, 4.0)]);
        assert_eq!(spread, [(1.0, 3.0), (2.0, 6.0)]);
    }
}
