//! How long packets waited, counted from how a queue went.

use base::Histogram;

/// Steps that a slope is cut into.
const STEPS: u32 = 8;

/// Waiting times of packets.
#[derive(Clone, Debug, Default)]
pub(super) struct Delays {
    histogram: Histogram,
    /// Packets that make no whole one yet.
    rest: f64,
}

impl Delays {
    /// So many packets waited for times that are spread evenly between two, in seconds.
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

    /// All so far; it begins anew.
    pub(super) fn take(&mut self) -> Histogram {
        std::mem::take(&mut self.histogram)
    }
}
