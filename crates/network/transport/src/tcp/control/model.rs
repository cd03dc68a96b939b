//! Filters and meters that both versions of BBR use. Rates are in bytes/s.

use base::{Bandwidth, Span, Time};

use super::RateSample;

/// The maximum of the last `N` periods, including the current one. Periods advance only with
/// updates, so the last value never expires without one.
#[derive(Clone, Debug)]
pub(super) struct WindowedMax<const N: usize> {
    /// The maximum of each period, by its number modulo `N`.
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
    /// The round ends when a segment is delivered that was sent after this
    /// many bytes were delivered.
    next: u64,
    pub(super) count: u64,
    /// Whether the last acknowledgement began a round.
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

/// The excess of acknowledged over expected data (ACK aggregation).
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

    /// `newly` bytes were delivered in this round while `bw` was expected; at most `most` can be
    /// extra. `long`: keep ten rounds instead of one.
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

/// The delivery rate of a sample; zero without one.
pub(super) fn delivery_rate(rate: &RateSample) -> f64 {
    let seconds = rate.interval.as_secs_f64();
    if seconds > 0.0 { rate.delivered.count() as f64 / seconds } else { 0.0 }
}

/// Converts bytes/s to a bandwidth, at least 8 bit/s.
pub(super) fn bandwidth(rate: f64) -> Bandwidth {
    Bandwidth::from_bits_per_sec((rate * 8.0).max(8.0) as u64)
}

/// Bytes sent at `rate` in `span`.
pub(super) fn volume(rate: f64, span: Span) -> f64 {
    rate * span.as_secs_f64()
}

/// Maximum window: the largest possible receive window (RFC 7323).
pub(super) const MAX_VALUE: f64 = (1u64 << 30) as f64;
