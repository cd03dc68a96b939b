//! The offset between the clocks of two machines, and its max error, measured with datagrams.
//!
//! An exchange (RFC 5905 §8) returns the remote clock's time at some moment between request and
//! reply. The offset that follows from it is wrong by at most half the RTT, even if the delays of
//! the two directions differ. [`OffsetFilter`] turns each exchange into an interval that contains
//! the offset. It extrapolates each interval to the present with the estimated skew, widens it by
//! the error of the skew, and intersects all intervals. The estimate is the value of a line
//! fitted through the exchanges with the shortest RTTs (RFC 5905 §10 prefers them too). An
//! interval that is disjoint from the others proves that a clock was set; the filter then
//! discards all earlier exchanges.
//!
//! [`Pinger`] schedules the exchanges, makes and reads the datagrams, and keeps statistics of loss
//! and RTT for each path.

mod datagram;
mod path;
mod pinger;

use std::collections::VecDeque;

use base::{Span, Time};

pub use path::{MAX_EGRESS_LEAD, PathStatistics, egress_lead, is_significant_change};
pub use pinger::Pinger;

/// A secret that one agent sends to one other agent over an authenticated link. It authenticates
/// the requests of the first agent and the replies of the second one.
pub type Secret = [u8; 32];

const MAX_EXCHANGE_AGE: Span = Span::from_secs(40);

const MAX_EXCHANGES: usize = 256;

/// Max skew of two clocks, in parts per billion: ±100 ppm each, more than any quartz.
const MAX_SKEW: f64 = 200_000.0;

/// Max change of the skew within [`MAX_EXCHANGE_AGE`], in parts per billion (temperature).
const MAX_SKEW_CHANGE: f64 = 1_000.0;

/// Max age in ns of a clock value that a system call has just returned.
const CLOCK_READ_TIME: f64 = 200.0;

/// Timestamps of a request and its reply (RFC 5905 §8): `sent` and `returned` by the local clock,
/// `received` and `answered` by the remote clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Exchange {
    /// The request was sent.
    pub sent: Time,
    /// The request was received.
    pub received: Time,
    /// The reply was sent.
    pub answered: Time,
    /// The reply was received.
    pub returned: Time,
}

/// The offset of a remote clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Offset {
    /// The remote clock minus the local clock, in nanoseconds.
    pub nanos: i64,
    /// Max error of the offset.
    pub bound: Span,
    /// The rate at which the offset grows, in parts per billion.
    pub skew: i64,
}

impl Offset {
    /// Converts a time of the local clock to the remote clock.
    pub fn to_remote(&self, own: Time) -> Time {
        Time::from_nanos(own.as_nanos().saturating_add_signed(self.nanos))
    }

    /// Converts a time of the remote clock to the local clock.
    pub fn to_own(&self, remote: Time) -> Time {
        Time::from_nanos(remote.as_nanos().saturating_add_signed(self.nanos.saturating_neg()))
    }
}

/// An exchange as a point, in nanoseconds. Offsets are relative to that of the first point.
#[derive(Clone, Copy, Debug)]
struct Point {
    at: Time,
    offset: f64,
    half_rtt: f64,
}

/// An estimated skew and its max error, in parts per billion.
#[derive(Clone, Copy, Debug)]
struct Skew {
    rate: f64,
    error: f64,
}

/// Estimates the offset of one remote clock.
#[derive(Debug, Default)]
pub struct OffsetFilter {
    points: VecDeque<Point>,
    /// The offset of the first exchange. Offsets between machines may be years, and the difference
    /// to this base keeps the precision of `f64`.
    base: i128,
    steps: u64,
}

impl OffsetFilter {
    /// Adds an exchange. Returns false and ignores it if its timestamps contradict each other.
    pub fn add(&mut self, exchange: Exchange) -> bool {
        let [sent, received, answered, returned] =
            [exchange.sent, exchange.received, exchange.answered, exchange.returned]
                .map(|time| i128::from(time.as_nanos()));
        let rtt = (returned - sent) - (answered - received);
        if returned < sent || answered < received || rtt < 0 {
            return false;
        }
        let twice = (received - sent) + (answered - returned);
        if self.points.is_empty() {
            self.base = twice / 2;
        }
        let at = Time::from_nanos(i128::midpoint(sent, returned) as u64);
        let offset = (twice - 2 * self.base) as f64 / 2.0;
        let point = Point { at, offset, half_rtt: rtt as f64 / 2.0 + CLOCK_READ_TIME };
        if self.contradicts(point) {
            self.points.clear();
            self.steps += 1;
            self.base = twice / 2;
            self.points.push_back(Point { offset: (twice - 2 * self.base) as f64 / 2.0, ..point });
            return true;
        }
        let old = |one: &Point| at.since(one.at) > MAX_EXCHANGE_AGE;
        while self.points.len() >= MAX_EXCHANGES || self.points.front().is_some_and(old) {
            self.points.pop_front();
        }
        self.points.push_back(point);
        true
    }

    /// The offset at `now` of the local clock; `None` before the first exchange.
    pub fn offset(&self, now: Time) -> Option<Offset> {
        let skew = self.skew();
        let (low, high) = self.interval(now, skew)?;
        let estimate = self.line(now, skew).clamp(low, high);
        let bound = (estimate - low).max(high - estimate);
        let nanos = self.base + estimate.round() as i128;
        Some(Offset {
            nanos: i64::try_from(nanos).unwrap_or(if nanos < 0 { i64::MIN } else { i64::MAX }),
            bound: Span::from_nanos(bound.ceil() as u64),
            skew: skew.rate.round() as i64,
        })
    }

    /// How often a clock was set, or its machine suspended.
    pub const fn steps(&self) -> u64 {
        self.steps
    }

    /// Whether a new exchange is disjoint from the current interval.
    fn contradicts(&self, point: Point) -> bool {
        let Some((low, high)) = self.interval(point.at, self.skew()) else { return false };
        point.offset + point.half_rtt < low || point.offset - point.half_rtt > high
    }

    /// The intersection of the intervals of all exchanges, or the shortest interval if they
    /// do not intersect.
    fn interval(&self, now: Time, skew: Skew) -> Option<(f64, f64)> {
        let at_now = |point: &Point| {
            let age = signed(now, point.at);
            let error = point.half_rtt + skew.error * age.abs() / 1e9;
            (point.offset + skew.rate * age / 1e9, error)
        };
        let (best, error) =
            self.points.iter().map(at_now).min_by(|one, other| one.1.total_cmp(&other.1))?;
        let meet = |(low, high): (f64, f64), (offset, error): (f64, f64)| {
            (low.max(offset - error), high.min(offset + error))
        };
        let all = (f64::NEG_INFINITY, f64::INFINITY);
        let (low, high) = self.points.iter().map(at_now).fold(all, meet);
        Some(if low <= high { (low, high) } else { (best - error, best + error) })
    }

    /// Exchanges whose RTT is close to the shortest one.
    fn shortest(&self) -> impl Iterator<Item = &Point> {
        let least = self.points.iter().map(|point| point.half_rtt).fold(f64::INFINITY, f64::min);
        self.points.iter().filter(move |point| point.half_rtt <= 1.25 * least + 5_000.0)
    }

    /// The skew. The intervals of two exchanges limit it; within these limits it is the slope of
    /// the least-squares line.
    fn skew(&self) -> Skew {
        let unknown = Skew { rate: 0.0, error: MAX_SKEW };
        let (Some(first), Some(last)) = (self.points.front(), self.points.back()) else {
            return unknown;
        };
        let middle = first.at + Span::from_nanos(last.at.since(first.at).as_nanos() / 2);
        let least = |early: bool| {
            let half = self.points.iter().filter(move |point| (point.at < middle) == early);
            half.min_by(|one, other| one.half_rtt.total_cmp(&other.half_rtt))
        };
        let (Some(early), Some(late)) = (least(true), least(false)) else { return unknown };
        let apart = signed(late.at, early.at) / 1e9;
        if apart <= 0.0 {
            return unknown;
        }
        let rate = (late.offset - early.offset) / apart;
        let error = (early.half_rtt + late.half_rtt) / apart;
        let low = (rate - error).max(-MAX_SKEW);
        let high = (rate + error).min(MAX_SKEW);
        if low > high {
            return unknown;
        }
        let rate = self.slope(first.at).unwrap_or(rate).clamp(low, high);
        Skew { rate, error: (rate - low).max(high - rate) + MAX_SKEW_CHANGE }
    }

    /// The slope of the least-squares line through the exchanges with short RTTs.
    fn slope(&self, origin: Time) -> Option<f64> {
        let at = |point: &Point| signed(point.at, origin) / 1e9;
        let (mean_at, mean_offset, _) = self.means(origin);
        let (mut product, mut square) = (0.0, 0.0);
        for point in self.shortest() {
            let away = at(point) - mean_at;
            product += away * (point.offset - mean_offset);
            square += away * away;
        }
        (square > 0.0).then(|| product / square)
    }

    fn means(&self, origin: Time) -> (f64, f64, f64) {
        let (mut ats, mut offsets, mut count) = (0.0, 0.0, 0.0);
        for point in self.shortest() {
            ats += signed(point.at, origin) / 1e9;
            offsets += point.offset;
            count += 1.0;
        }
        (ats / f64::max(count, 1.0), offsets / f64::max(count, 1.0), count)
    }

    /// The value at `now` of the line through the exchanges with short RTTs.
    fn line(&self, now: Time, skew: Skew) -> f64 {
        let (at, offset, _) = self.means(now);
        offset - skew.rate * at
    }
}

/// `later - earlier` in ns; negative if `later` is earlier.
fn signed(later: Time, earlier: Time) -> f64 {
    if later >= earlier {
        later.since(earlier).as_nanos() as f64
    } else {
        -(earlier.since(later).as_nanos() as f64)
    }
}

#[cfg(test)]
mod tests;
