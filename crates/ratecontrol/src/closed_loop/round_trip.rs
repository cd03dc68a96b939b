//! The mean round trip of a link's traffic.

use base::Span;

/// Round trips beyond this change nothing any more, in seconds.
const LONGEST: f64 = 1e4;
/// And below this, in seconds.
const SHORTEST: f64 = 1e-9;

/// The moving average of the round trips that packets report, without state for sessions.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MeanRoundTrip {
    /// The average, in seconds.
    mean: f64,
    /// Of the interval so far, in seconds.
    sum: f64,
    count: u64,
    /// Whether any packet has reported one.
    known: bool,
}

impl MeanRoundTrip {
    /// Numbers that it keeps.
    pub(crate) const NUMBERS: u64 = 3;

    /// Before any packet: `mean` seconds.
    pub(crate) const fn new(mean: f64) -> Self {
        Self { mean, sum: 0.0, count: 0, known: false }
    }

    /// The average, in seconds; positive.
    pub(crate) const fn mean(&self) -> f64 {
        self.mean
    }

    /// A packet reports a round trip; zero if its session knows none.
    pub(crate) fn add(&mut self, round_trip: Span) {
        if round_trip.is_positive() {
            self.sum += round_trip.as_secs_f64();
            self.count += 1;
        }
    }

    /// An interval ends. `gain` says how much of the new mean to take, given it and the old one.
    pub(crate) fn close(&mut self, gain: impl FnOnce(f64, f64) -> f64) {
        if self.count == 0 {
            return;
        }
        let sample = (self.sum / self.count as f64).clamp(SHORTEST, LONGEST);
        // The first is all that is known.
        let gain = if self.known { gain(sample, self.mean).clamp(0.0, 1.0) } else { 1.0 };
        self.mean += gain * (sample - self.mean);
        self.sum = 0.0;
        self.count = 0;
        self.known = true;
    }
}
