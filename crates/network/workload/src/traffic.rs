//! Parameters of traffic: sizes, arrivals, think times, patterns of datagrams.
//!
//! `on_off` draws its periods by the distributions of this module, whose patterns include it.

#[cfg(test)]
mod tests;

use std::sync::Arc;

use base::{Bytes, RandomStream, Span};

use crate::{Error, OnOff};

/// Amounts of data, sampled independently.
#[derive(Clone, Debug, PartialEq)]
pub enum Sizes {
    /// A constant size.
    Fixed(Bytes),
    /// Exponential with this mean.
    Exponential(Bytes),
    /// Pareto with this mean.
    Pareto {
        /// Mean of the distribution, before truncation.
        mean: Bytes,
        /// Tail index in thousandths (1200 = 1.2), above 1000.
        shape_milli: u32,
        /// Larger samples are truncated to this.
        limit: Option<Bytes>,
    },
    /// An empirical distribution.
    Table(Arc<SizeTable>),
}

/// Points of a cumulative distribution of sizes, linearly interpolated between them.
#[derive(Clone, Debug, PartialEq)]
pub struct SizeTable {
    /// Sizes, strictly rising, each with the share of transfers of at most this size (in parts per
    /// billion, not decreasing, the last 1,000,000,000). At least one point.
    pub points: Vec<(Bytes, u32)>,
}

/// The start times of a flow's transfers.
#[derive(Clone, Debug, PartialEq)]
pub enum Arrivals {
    /// An open loop: a Poisson process with this mean time between starts.
    Poisson(Span),
    /// An open loop: this time between starts.
    Every(Span),
    /// A closed loop: each transfer starts a think time after the previous one has completed.
    Closed(Think),
}

/// The time between a response and the next request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Think {
    /// A constant time, which may be zero.
    Fixed(Span),
    /// Exponential with this mean.
    Exponential(Span),
}

/// The send times of a datagram source.
#[derive(Clone, Debug, PartialEq)]
pub enum Pattern {
    /// Constant spacing of datagrams.
    Constant,
    /// A Poisson process of the same mean rate.
    Poisson,
    /// Sends at the flow's rate in on periods, and nothing in off periods.
    OnOff(OnOff),
    /// Datagrams of a trace, repeated forever: times from the start of a period (not decreasing)
    /// and payloads. The flow's rate and packet size are ignored.
    Trace(Arc<DatagramTrace>),
}

/// Datagrams of one period.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DatagramTrace {
    /// Time from the start of the period, and payload. At least one.
    pub datagrams: Vec<(Span, Bytes)>,
    /// The trace repeats after this time: at least the last datagram's time, and positive.
    pub period: Span,
}

/// The largest payload of a UDP datagram over IPv4.
pub(crate) const MAX_DATAGRAM: u64 = 65_507;

/// The value of a share of 100 %.
const WHOLE: u32 = 1_000_000_000;

impl Sizes {
    /// Samples a size: at least 1 B unless it is constant.
    pub fn draw(&self, random: &mut RandomStream) -> u64 {
        match self {
            Self::Fixed(size) => size.count(),
            Self::Exponential(mean) => exponential(mean.count() as f64, random).max(1),
            Self::Pareto { mean, shape_milli, limit } => {
                let size = pareto(mean.count() as f64, *shape_milli, random);
                let limit = limit.map_or(u64::MAX, Bytes::count);
                (size.round() as u64).min(limit).max(1)
            }
            Self::Table(table) => table.draw(random).max(1),
        }
    }

    /// The mean in bytes of samples (without rounding to whole bytes).
    pub fn mean(&self) -> f64 {
        match self {
            Self::Fixed(size) | Self::Exponential(size) => size.count() as f64,
            Self::Pareto { mean, shape_milli, limit } => {
                let (mean, shape) = (mean.count() as f64, shape(*shape_milli));
                let smallest = mean * (shape - 1.0) / shape;
                match limit.map(|limit| limit.count() as f64) {
                    // Pr(X > x) = (smallest / x)^shape, integrated up to the limit.
                    Some(limit) if limit > smallest => {
                        mean - smallest * (smallest / limit).powf(shape - 1.0) / (shape - 1.0)
                    }
                    Some(limit) => limit,
                    None => mean,
                }
            }
            Self::Table(table) => table.mean(),
        }
    }
}

/// A tail index; without a mean (1 or less) the scale would be undefined.
fn shape(milli: u32) -> f64 {
    f64::from(milli.max(1001)) / 1000.0
}

/// Samples a Pareto distribution with this mean.
pub(crate) fn pareto(mean: f64, shape_milli: u32, random: &mut RandomStream) -> f64 {
    let shape = shape(shape_milli);
    let smallest = mean * (shape - 1.0) / shape;
    smallest * (1.0 - random.unit()).powf(-1.0 / shape)
}

/// Samples an exponential distribution with this mean, rounded to an integer.
pub(crate) fn exponential(mean: f64, random: &mut RandomStream) -> u64 {
    (-(1.0 - random.unit()).ln() * mean).round() as u64
}

pub(crate) fn exponential_span(mean: Span, random: &mut RandomStream) -> Span {
    Span::from_nanos(exponential(mean.as_nanos() as f64, random))
}

impl SizeTable {
    /// The distribution with these points, each a size and the share (in parts per billion) of
    /// transfers of at most this size.
    pub fn try_new(points: Vec<(Bytes, u32)>) -> Result<Self, Error> {
        let Some(&(largest, parts_per_billion)) = points.last() else {
            return Err(Error::Empty);
        };
        for (index, pair) in points.windows(2).enumerate() {
            let entry = index + 2;
            if pair[1].0 <= pair[0].0 {
                return Err(Error::SizeNotRising { entry });
            }
            if pair[1].1 < pair[0].1 {
                return Err(Error::ShareFalls { entry });
            }
        }
        if parts_per_billion != WHOLE {
            return Err(Error::ShareNotWhole { parts_per_billion });
        }
        if largest == Bytes::ZERO {
            return Err(Error::NoSize);
        }
        Ok(Self { points })
    }

    fn draw(&self, random: &mut RandomStream) -> u64 {
        let share = random.unit() * f64::from(WHOLE);
        let above = self.points.partition_point(|point| f64::from(point.1) <= share);
        let (size, upper) = self.points[above.min(self.points.len() - 1)];
        let Some(&(smaller, lower)) = above.checked_sub(1).and_then(|i| self.points.get(i)) else {
            return size.count();
        };
        let part = (share - f64::from(lower)) / f64::from(upper - lower).max(1.0);
        let step = size.saturating_sub(smaller).count() as f64;
        smaller.count() + (part * step).round() as u64
    }

    fn mean(&self) -> f64 {
        let (first, share) = self.points[0];
        let mut sum = first.count() as f64 * f64::from(share);
        for pair in self.points.windows(2) {
            let middle = f64::midpoint(pair[0].0.count() as f64, pair[1].0.count() as f64);
            sum += middle * f64::from(pair[1].1 - pair[0].1);
        }
        sum / f64::from(WHOLE)
    }
}

impl Arrivals {
    /// Time from the flow's start to the start of its first transfer.
    pub fn first(&self, random: &mut RandomStream) -> Span {
        match self {
            Self::Poisson(mean) => exponential_span(*mean, random),
            Self::Every(_) | Self::Closed(_) => Span::ZERO,
        }
    }

    /// Time between starts in an open loop; from a completion to the next start in a closed loop.
    pub fn gap(&self, random: &mut RandomStream) -> Span {
        match self {
            Self::Poisson(mean) => exponential_span(*mean, random),
            Self::Every(gap) => *gap,
            Self::Closed(think) => think.draw(random),
        }
    }

    /// Whether a transfer waits for the previous one.
    pub const fn is_closed_loop(&self) -> bool {
        matches!(self, Self::Closed(_))
    }
}

impl Think {
    /// Samples a think time.
    pub fn draw(&self, random: &mut RandomStream) -> Span {
        match self {
            Self::Fixed(span) => *span,
            Self::Exponential(mean) => exponential_span(*mean, random),
        }
    }
}

impl DatagramTrace {
    /// The trace of these datagrams (time from the start, payload), repeated after `period`.
    pub fn try_new(datagrams: Vec<(Span, Bytes)>, period: Span) -> Result<Self, Error> {
        let Some(&(last, _)) = datagrams.last() else { return Err(Error::Empty) };
        for (index, (_, size)) in datagrams.iter().enumerate() {
            if !(1..=MAX_DATAGRAM).contains(&size.count()) {
                return Err(Error::DatagramSize { entry: index + 1, size: size.count() });
            }
        }
        let falls = datagrams.windows(2).position(|pair| pair[1].0 < pair[0].0);
        if let Some(index) = falls {
            return Err(Error::MomentFalls { entry: index + 2 });
        }
        if period < last || period == Span::ZERO {
            return Err(Error::PeriodTooShort { period, last });
        }
        Ok(Self { datagrams, period })
    }
}
