//! On-off traffic: a source that sends at its rate in on periods, and nothing in off periods.
//!
//! The sum of many sources with Pareto periods and a tail index between 1 and 2 is self-similar
//! (W. Willinger et al., "Self-similarity through high-variability", 1997).

use base::{RandomStream, Span};

use crate::traffic::{exponential_span, pareto};

/// More periods than this between two datagrams are replaced by their mean.
const MAX_SAMPLED_PERIODS: u64 = 100_000;

/// Lengths of the periods; the first one is on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OnOff {
    /// Length, or mean length, of an on period.
    pub on: Span,
    /// Length, or mean length, of an off period.
    pub off: Span,
    pub lengths: Lengths,
}

/// The distribution of the lengths of periods.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lengths {
    Constant,
    Exponential,
    Pareto {
        /// Tail index in thousandths (1500 = 1.5), above 1000.
        shape_milli: u32,
    },
}

impl Lengths {
    /// Samples the length of a period.
    pub fn draw(self, mean: Span, random: &mut RandomStream) -> Span {
        match self {
            Self::Constant => mean,
            Self::Exponential => exponential_span(mean, random),
            Self::Pareto { shape_milli } => {
                let nanos = pareto(mean.as_nanos() as f64, shape_milli, random);
                Span::from_nanos(nanos.round() as u64)
            }
        }
    }
}

/// The periods of a source up to its next datagram.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Periods {
    on_off: OnOff,
    /// Off time so far, and on time until the next off period, unless the lengths are constant.
    off: u64,
    on_until: u64,
}

impl Periods {
    pub(crate) fn new(on_off: OnOff, random: &mut RandomStream) -> Self {
        let on = on_off.lengths.draw(on_off.on, random);
        Self { on_off, off: 0, on_until: on.as_nanos() }
    }

    /// Total off time when the on time is `due`, which does not decrease from call to call.
    pub(crate) fn off_time(&mut self, due: u64, random: &mut RandomStream) -> u64 {
        let OnOff { on, off, lengths } = self.on_off;
        if lengths == Lengths::Constant {
            return (due / on.as_nanos()).saturating_mul(off.as_nanos());
        }
        // Sampling each period would take very long.
        let many = due.saturating_sub(self.on_until) / on.as_nanos().max(1);
        if many > MAX_SAMPLED_PERIODS {
            self.off = self.off.saturating_add(many.saturating_mul(off.as_nanos()));
            self.on_until += many * on.as_nanos();
        }
        while due >= self.on_until && self.on_until < u64::MAX {
            let off = lengths.draw(off, random);
            self.off = self.off.saturating_add(off.as_nanos());
            let on = lengths.draw(on, random);
            self.on_until = self.on_until.saturating_add(on.as_nanos().max(1));
        }
        self.off
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pareto_periods_have_the_mean_and_the_tail() {
        let mut random = RandomStream::new(1, "periods");
        let lengths = Lengths::Pareto { shape_milli: 1_500 };
        let mean = Span::from_millis(300);
        let draw = |_| lengths.draw(mean, &mut random).as_secs_f64();
        let all: Vec<f64> = (0..200_000).map(draw).collect();
        // The smallest length is a third of the mean: 0.1 s. Pr(X > 1 s) = (0.1 / 1)^1.5 = 3.16 %.
        let smallest = all.iter().copied().fold(f64::INFINITY, f64::min);
        let beyond = all.iter().filter(|length| **length > 1.0).count() as f64 / 200_000.0;
        let sampled_mean = all.iter().sum::<f64>() / 200_000.0;
        assert!((0.1..0.1001).contains(&smallest), "{smallest}");
        assert!((beyond / 0.0316 - 1.0).abs() < 0.05, "{beyond}");
        assert!((sampled_mean / 0.3 - 1.0).abs() < 0.1, "{sampled_mean}");
    }
}
