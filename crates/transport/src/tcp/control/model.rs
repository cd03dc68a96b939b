//! What both versions of BBR measure a path with. Rates are in bytes a second.

use base::{Bandwidth, Span, Time};

use super::RateSample;

/// The largest value seen in the last `N` periods, the current one included. Time passes only
/// with updates: what nothing has replaced is remembered.
#[derive(Clone, Debug)]
pub(super) struct WindowedMax<const N: usize> {
    /// The largest of each period, by its number modulo `N`.
    periods: [f64; N],
    last: u64,
    max: f64,
}

impl<const N: usize> WindowedMax<N> {
    pub(super) const fn new() -> Self {
        Self { periods: [0.0; N], last: 0, max: 0.0 }
    }

    pub(super) fn update(&mut self, period: u64, value: f64) {
        let slots = N as u64;
        let current = (period % slots) as usize;
        let passed = period.saturating_sub(self.last).min(slots);
        if passed > 0 {
            for back in 0..passed {
                self.periods[((period - back) % slots) as usize] = 0.0;
            }
            self.last = period;
            self.periods[current] = value;
            self.max = self.periods.iter().copied().fold(0.0, f64::max);
        } else if value > self.periods[current] {
            self.periods[current] = value;
            self.max = self.max.max(value);
        }
    }

    /// Forgets all.
    pub(super) fn clear(&mut self) {
        (self.periods, self.max) = ([0.0; N], 0.0);
    }

    pub(super) fn get(&self) -> f64 {
        self.max
    }
}

/// Packet-timed round trips.
#[derive(Clone, Debug, Default)]
pub(super) struct Rounds {
    /// The round ends when a segment is delivered that was sent after this was delivered.
    next: u64,
    pub(super) count: u64,
    /// Whether the last acknowledgement began one.
    pub(super) start: bool,
}

impl Rounds {
    pub(super) fn update(&mut self, rate: &RateSample) {
        self.start = rate.prior_delivered.count() >= self.next;
        if self.start {
            self.next = rate.total_delivered.count();
            self.count += 1;
        }
    }

    /// Begins a round at this count of delivered bytes.
    pub(super) fn begin(&mut self, delivered: u64) {
        self.next = delivered;
    }
}

/// How much more than expected acknowledgements tell at once.
#[derive(Clone, Debug)]
pub(super) struct Aggregation {
    since: Time,
    delivered: f64,
    max: WindowedMax<10>,
}

impl Aggregation {
    pub(super) const fn new() -> Self {
        Self { since: Time::ZERO, delivered: 0.0, max: WindowedMax::new() }
    }

    pub(super) fn restart(&mut self, now: Time) {
        (self.since, self.delivered) = (now, 0.0);
    }

    /// `newly` bytes were delivered in this round while `bw` was expected; no more than `most` can
    /// be extra. `long`: remember ten rounds rather than one.
    pub(super) fn update(
        &mut self,
        now: Time,
        newly: f64,
        bw: f64,
        most: f64,
        (round, long): (&Rounds, bool),
    ) {
        if round.start && !long {
            self.max.clear();
        }
        let mut expected = bw * now.since(self.since).as_secs_f64();
        if self.delivered <= expected {
            self.restart(now);
            expected = 0.0;
        }
        self.delivered += newly;
        self.max.update(round.count, (self.delivered - expected).min(most));
    }

    pub(super) fn extra(&self) -> f64 {
        self.max.get()
    }
}

/// The delivery rate of a sample; zero if it tells none.
pub(super) fn delivery_rate(rate: &RateSample) -> f64 {
    let seconds = rate.interval.as_secs_f64();
    if seconds > 0.0 { rate.delivered.count() as f64 / seconds } else { 0.0 }
}

/// A rate in bytes a second as a bandwidth, at least 8 bit/s.
pub(super) fn bandwidth(rate: f64) -> Bandwidth {
    Bandwidth::from_bits_per_sec((rate * 8.0).max(8.0) as u64)
}

/// What `rate` sends in `span`.
pub(super) fn volume(rate: f64, span: Span) -> f64 {
    rate * span.as_secs_f64()
}

/// No window grows beyond what a receive window can be (RFC 7323).
pub(super) const LARGEST: f64 = (1u64 << 30) as f64;
