//! The mean round trip of a link's traffic.

use base::Span;

/// Maximum round trip in seconds; longer ones count as this.
const MAX_SECONDS: f64 = 1e4;
/// Minimum round trip in seconds.
const SHORTEST: f64 = 1e-9;

/// Moving average of the round trips in packets, without state per session.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MeanRoundTrip {
    /// The average, in seconds.
    mean: f64,
    /// Sum in the current interval, in seconds.
    sum: f64,
    count: u64,
    /// Whether any packet has reported a round trip.
    known: bool,
}

impl MeanRoundTrip {
    /// Number of stored values.
    pub(crate) const NUMBERS: u64 = 3;

    /// The state before any packet: `mean` seconds.
    pub(crate) const fn new(mean: f64) -> Self {
        Self { mean, sum: 0.0, count: 0, known: false }
    }

    /// The average in seconds; positive.
    pub(crate) const fn mean(&self) -> f64 {
        self.mean
    }

    /// Adds the round trip of a packet; zero if its session has none yet.
    pub(crate) fn add(&mut self, round_trip: Span) {
        if round_trip.is_positive() {
            self.sum += round_trip.as_secs_f64();
            self.count += 1;
        }
    }

    /// Ends an interval. `gain` returns the weight of the new mean, given it and the old one.
    pub(crate) fn close(&mut self, gain: impl FnOnce(f64, f64) -> f64) {
        if self.count == 0 {
            return;
        }
        let sample = (self.sum / self.count as f64).clamp(SHORTEST, MAX_SECONDS);
        // The first mean replaces the default.
        let gain = if self.known { gain(sample, self.mean).clamp(0.0, 1.0) } else { 1.0 };
        self.mean += gain * (sample - self.mean);
        self.sum = 0.0;
        self.count = 0;
        self.known = true;
    }
}
