//! Phases of a run between the starts and ends of its streams, and what each stream got in them.

use crate::{Moments, moments};

/// Samples are compared in steps of so many seconds.
const SECOND: f64 = 1.0;
/// Lets a step that ends with its phase count, whatever binary fractions make of it.
const ROUNDING: f64 = 1e-6;

/// A time in which the same streams are under way.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Phase {
    /// When it begins, in seconds.
    pub(super) from: f64,
    /// When the next stream starts or ends.
    pub(super) to: f64,
    /// The streams that are under way, by their numbers.
    pub(super) streams: Vec<usize>,
}

/// What a stream got in a phase.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Got {
    /// Its mean rate.
    pub(super) mean: f64,
    /// Its rates in whole seconds; without any where the phase is too short.
    pub(super) seconds: Moments,
}

/// The phases in which any stream (from its start to its end, in seconds) is under way, each
/// without its first `settle` seconds; those that have less than `least` seconds left are not
/// among them.
pub(super) fn phases(streams: &[(f64, f64)], settle: f64, least: f64) -> Vec<Phase> {
    let mut cuts: Vec<f64> = streams.iter().flat_map(|(start, end)| [*start, *end]).collect();
    cuts.sort_by(f64::total_cmp);
    let phase = |cut: &[f64]| {
        let middle = f64::midpoint(cut[0], cut[1]);
        let under_way = |(start, end): &(f64, f64)| *start < middle && middle < *end;
        let streams = (0..streams.len()).filter(|index| under_way(&streams[*index])).collect();
        Phase { from: cut[0] + settle, to: cut[1], streams }
    };
    let counts = |phase: &Phase| !phase.streams.is_empty() && phase.to - phase.from >= least;
    cuts.windows(2).map(phase).filter(counts).collect()
}

impl Phase {
    /// What a stream got, from its rates in equal steps of `step` seconds (the middle of each, and
    /// the rate); `None` without a whole step in the phase.
    pub(super) fn got(&self, rates: &[(f64, f64)], step: f64) -> Option<Got> {
        let inside = |(middle, _): &&(f64, f64)| {
            *middle - step / 2.0 >= self.from - ROUNDING
                && *middle + step / 2.0 <= self.to + ROUNDING
        };
        let rates: Vec<f64> = rates.iter().filter(inside).map(|(_, rate)| *rate).collect();
        if rates.is_empty() {
            return None;
        }
        let steps = (SECOND / step).round().max(1.0) as usize;
        let seconds: Vec<f64> =
            rates.chunks_exact(steps).map(|of| of.iter().sum::<f64>() / of.len() as f64).collect();
        Some(Got { mean: moments(&rates).mean, seconds: moments(&seconds) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The figure's own: three streams come, and go in the same order.
    const STREAMS: [(f64, f64); 3] = [(0.0, 115.0), (5.0, 125.0), (10.0, 127.5)];

    #[test]
    fn phases_lie_between_starts_and_ends() {
        let of = phases(&STREAMS, 1.0, 1.0);
        let seen: Vec<_> = of.iter().map(|p| (p.from, p.to, p.streams.as_slice())).collect();
        assert_eq!(
            seen,
            [
                (1.0, 5.0, &[0][..]),
                (6.0, 10.0, &[0, 1]),
                (11.0, 115.0, &[0, 1, 2]),
                (116.0, 125.0, &[1, 2]),
                (126.0, 127.5, &[2]),
            ]
        );
    }

    #[test]
    fn phases_that_are_too_short_are_left_out() {
        let kept = |least| phases(&STREAMS, 1.0, least).len();
        assert_eq!((kept(1.5), kept(1.6), kept(9.1), kept(200.0)), (5, 4, 1, 0));
        // Two streams start at the same moment; a gap has no streams.
        let gap = phases(&[(0.0, 4.0), (0.0, 4.0), (6.0, 8.0)], 0.0, 0.5);
        let streams: Vec<_> = gap.iter().map(|phase| phase.streams.clone()).collect();
        assert_eq!(streams, [vec![0, 1], vec![2]]);
        assert_eq!(phases(&[], 1.0, 1.0), []);
    }

    #[test]
    fn only_whole_steps_of_a_phase_count() {
        // 4 in the first two seconds, then 1 and 3 in turn, each for half a second.
        let rate = |at: f64| match at {
            at if at < 2.0 => 4.0,
            at if at.fract() < 0.5 => 1.0,
            _ => 3.0,
        };
        let rates: Vec<(f64, f64)> =
            (0..40).map(|i| 0.05 + 0.1 * f64::from(i)).map(|at| (at, rate(at))).collect();
        let phase = |from, to| Phase { from, to, streams: vec![0] };
        let late = phase(2.0, 4.0).got(&rates, 0.1).unwrap();
        assert!((late.mean - 2.0).abs() < 1e-9, "{late:?}");
        assert!(late.seconds.count == 2 && late.seconds.deviation < 1e-9, "{late:?}");
        let all = phase(0.0, 4.0).got(&rates, 0.1).unwrap();
        assert!((all.mean - 3.0).abs() < 1e-9 && (all.seconds.deviation - 1.0).abs() < 1e-9);
        assert!((all.seconds.min - 2.0).abs() < 1e-9 && (all.seconds.max - 4.0).abs() < 1e-9);
        // Steps that reach over its borders do not count.
        let inner = phase(1.95, 2.45).got(&rates, 0.1).unwrap();
        assert!((inner.mean - 1.0).abs() < 1e-9 && inner.seconds.count == 0, "{inner:?}");
        assert_eq!(phase(0.98, 1.05).got(&rates, 0.1), None);
    }
}
