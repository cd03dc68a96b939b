//! By how much the clocks of two machines differ, and how surely, from datagrams that go to the
//! other one and back.
//!
//! An exchange (RFC 5905 §8) gives the other clock's time at some moment in between, so that what
//! it says of the offset is wrong by at most half the round trip, however the two ways differ.
//! [`OffsetFilter`] takes each exchange as an interval that holds the offset, carries it on to now
//! by the rate at which the clocks drift apart, widened by what that rate may be wrong by, and
//! intersects all of them; the estimate within is that of a straight line through the exchanges
//! with the shortest round trips (as RFC 5905 §10 prefers them). An interval that meets no other
//! one proves that a clock was set: what was known before is forgotten.
//!
//! [`Pinger`] asks: it knows when, makes the datagrams, and keeps loss and round trips of each
//! path.

mod datagram;
mod path;
mod pinger;

use std::collections::VecDeque;

use base::{Span, Time};

pub use path::{MOST_LEAD, PathStatistics, is_news, lead};
pub use pinger::Pinger;

/// What an agent sends to one other agent, over a link that is authenticated and carries it to no
/// third one: it authenticates the questions of the first and the answers of the second.
pub type Secret = [u8; 32];

/// How long exchanges are of use.
const MEMORY: Span = Span::from_secs(40);

/// Exchanges kept at most.
const MOST: usize = 256;

/// By how much the rates of two clocks may differ, in parts per billion: ±100 ppm each, more than
/// any quartz.
const MOST_SKEW: f64 = 200_000.0;

/// By how much a rate may wander within [`MEMORY`], in parts per billion (temperature).
const WANDER: f64 = 1_000.0;

/// Whoever reads a clock gets a value that is this old.
const READING: f64 = 200.0;

/// Time stamps of a datagram and its answer (RFC 5905 §8): `sent` and `returned` by the own clock,
/// `received` and `answered` by the other one's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Exchange {
    /// When it was sent.
    pub sent: Time,
    /// When it came to the other machine.
    pub received: Time,
    /// When that answered.
    pub answered: Time,
    /// When the answer was back.
    pub returned: Time,
}

/// What another clock shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Offset {
    /// The other clock less the own one, in nanoseconds.
    pub nanos: i64,
    /// By how much that may be wrong.
    pub bound: Span,
    /// How fast it grows, in parts per billion.
    pub skew: i64,
}

impl Offset {
    /// What the other clock shows when the own one shows `own`.
    pub fn there(&self, own: Time) -> Time {
        Time::from_nanos(own.as_nanos().saturating_add_signed(self.nanos))
    }

    /// What the own clock shows when the other one shows `there`.
    pub fn here(&self, there: Time) -> Time {
        Time::from_nanos(there.as_nanos().saturating_add_signed(self.nanos.saturating_neg()))
    }
}

/// An exchange as a point; nanoseconds, offsets less that of the first point.
#[derive(Clone, Copy, Debug)]
struct Point {
    at: Time,
    offset: f64,
    half_trip: f64,
}

/// A rate and by how much it may be wrong, in parts per billion.
#[derive(Clone, Copy, Debug)]
struct Skew {
    rate: f64,
    error: f64,
}

/// The offset of one other clock.
#[derive(Debug, Default)]
pub struct OffsetFilter {
    points: VecDeque<Point>,
    /// The offset of the first exchange: offsets between machines may be years, for which the
    /// numbers that are reckoned with are too coarse.
    base: i128,
    steps: u64,
}

impl OffsetFilter {
    /// Adds an exchange. False: its stamps contradict each other, it is of no use.
    pub fn add(&mut self, exchange: Exchange) -> bool {
        let [sent, received, answered, returned] =
            [exchange.sent, exchange.received, exchange.answered, exchange.returned]
                .map(|time| i128::from(time.as_nanos()));
        let trip = (returned - sent) - (answered - received);
        if returned < sent || answered < received || trip < 0 {
            return false;
        }
        let twice = (received - sent) + (answered - returned);
        if self.points.is_empty() {
            self.base = twice / 2;
        }
        let at = Time::from_nanos(i128::midpoint(sent, returned) as u64);
        let offset = (twice - 2 * self.base) as f64 / 2.0;
        let point = Point { at, offset, half_trip: trip as f64 / 2.0 + READING };
        if self.contradicts(point) {
            self.points.clear();
            self.steps += 1;
            self.base = twice / 2;
            self.points.push_back(Point { offset: (twice - 2 * self.base) as f64 / 2.0, ..point });
            return true;
        }
        let old = |one: &Point| at.since(one.at) > MEMORY;
        while self.points.len() >= MOST || self.points.front().is_some_and(old) {
            self.points.pop_front();
        }
        self.points.push_back(point);
        true
    }

    /// The offset now, by the own clock; `None` before the first exchange.
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

    /// How often a clock was found to have been set, or its machine to have stood still.
    pub const fn steps(&self) -> u64 {
        self.steps
    }

    /// Whether no offset that is within the bounds so far fits a new exchange.
    fn contradicts(&self, point: Point) -> bool {
        let Some((low, high)) = self.interval(point.at, self.skew()) else { return false };
        point.offset + point.half_trip < low || point.offset - point.half_trip > high
    }

    /// What all exchanges together leave possible; where they contradict each other, what the
    /// surest says.
    fn interval(&self, now: Time, skew: Skew) -> Option<(f64, f64)> {
        let at_now = |point: &Point| {
            let age = signed(now, point.at);
            let error = point.half_trip + skew.error * age.abs() / 1e9;
            (point.offset + skew.rate * age / 1e9, error)
        };
        let (surest, error) =
            self.points.iter().map(at_now).min_by(|one, other| one.1.total_cmp(&other.1))?;
        let meet = |(low, high): (f64, f64), (offset, error): (f64, f64)| {
            (low.max(offset - error), high.min(offset + error))
        };
        let all = (f64::NEG_INFINITY, f64::INFINITY);
        let (low, high) = self.points.iter().map(at_now).fold(all, meet);
        Some(if low <= high { (low, high) } else { (surest - error, surest + error) })
    }

    /// Exchanges whose round trip is little longer than the shortest.
    fn quick(&self) -> impl Iterator<Item = &Point> {
        let least = self.points.iter().map(|point| point.half_trip).fold(f64::INFINITY, f64::min);
        self.points.iter().filter(move |point| point.half_trip <= 1.25 * least + 5_000.0)
    }

    /// How fast the clocks drift apart. Two exchanges leave possible what connects their intervals;
    /// within that, the slope of the line of least squares is taken.
    fn skew(&self) -> Skew {
        let unknown = Skew { rate: 0.0, error: MOST_SKEW };
        let (Some(first), Some(last)) = (self.points.front(), self.points.back()) else {
            return unknown;
        };
        let middle = first.at + Span::from_nanos(last.at.since(first.at).as_nanos() / 2);
        let least = |early: bool| {
            let half = self.points.iter().filter(move |point| (point.at < middle) == early);
            half.min_by(|one, other| one.half_trip.total_cmp(&other.half_trip))
        };
        let (Some(early), Some(late)) = (least(true), least(false)) else { return unknown };
        let apart = signed(late.at, early.at) / 1e9;
        if apart <= 0.0 {
            return unknown;
        }
        let rate = (late.offset - early.offset) / apart;
        let error = (early.half_trip + late.half_trip) / apart;
        let low = (rate - error).max(-MOST_SKEW);
        let high = (rate + error).min(MOST_SKEW);
        if low > high {
            return unknown;
        }
        let rate = self.slope(first.at).unwrap_or(rate).clamp(low, high);
        Skew { rate, error: (rate - low).max(high - rate) + WANDER }
    }

    /// The slope of the line of least squares through the quick exchanges.
    fn slope(&self, origin: Time) -> Option<f64> {
        let at = |point: &Point| signed(point.at, origin) / 1e9;
        let (mean_at, mean_offset, _) = self.means(origin);
        let (mut product, mut square) = (0.0, 0.0);
        for point in self.quick() {
            let away = at(point) - mean_at;
            product += away * (point.offset - mean_offset);
            square += away * away;
        }
        (square > 0.0).then(|| product / square)
    }

    fn means(&self, origin: Time) -> (f64, f64, f64) {
        let (mut ats, mut offsets, mut count) = (0.0, 0.0, 0.0);
        for point in self.quick() {
            ats += signed(point.at, origin) / 1e9;
            offsets += point.offset;
            count += 1.0;
        }
        (ats / f64::max(count, 1.0), offsets / f64::max(count, 1.0), count)
    }

    /// The line through the quick exchanges, now.
    fn line(&self, now: Time, skew: Skew) -> f64 {
        let (at, offset, _) = self.means(now);
        offset - skew.rate * at
    }
}

/// From `earlier` to `later`, or back.
fn signed(later: Time, earlier: Time) -> f64 {
    if later >= earlier {
        later.since(earlier).as_nanos() as f64
    } else {
        -(earlier.since(later).as_nanos() as f64)
    }
}

#[cfg(test)]
mod tests;
