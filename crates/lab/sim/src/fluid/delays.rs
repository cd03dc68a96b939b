//! Queueing delays of packets, derived from the queue length over time.

use base::Histogram;

/// Steps by which a slope is approximated.
const STEPS: u32 = 8;

/// Waiting times of packets.
#[derive(Clone, Debug, Default)]
pub(super) struct Delays {
    histogram: Histogram,
    /// Fraction of a packet that is not counted yet.
    rest: f64,
}

impl Delays {
    /// Adds `packets` packets with delays spread evenly between `from` and `to`, in seconds.
    pub(super) fn add(&mut self, [from, to]: [f64; 2], packets: f64) {
        let steps = if from.to_bits() == to.to_bits() { 1 } else { STEPS };
        for step in 0..steps {
            self.rest += packets / f64::from(steps);
            if self.rest >= 1.0 {
                let part = (f64::from(step) + 0.5) / f64::from(steps);
                let nanos = (from + (to - from) * part) * 1e9;
                self.histogram.record_many(nanos.clamp(0.0, 1e18) as u64, self.rest as u64);
                self.rest = self.rest.fract();
            }
        }
    }

    /// Takes all delays recorded so far.
    pub(super) fn take(&mut self) -> Histogram {
        std::mem::take(&mut self.histogram)
    }
}
