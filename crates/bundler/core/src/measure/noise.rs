//! Jitter: variation of the delay without queues.

use base::Span;

/// Minimum number of samples for an estimate.
const MIN_SAMPLES: u32 = 8;
/// Maximum step of the delay in seconds; larger ones are route changes.
const MAX_STEP: f64 = 0.05;

/// Estimates the standard deviation of the delay that varies from packet to packet.
///
/// A queue grows and drains over many packets, so two successive changes of the delay usually have
/// the same sign. Independent noise of variance σ² makes the mean of their product -σ² (Roll, *A
/// Simple Implicit Measure of the Effective Bid-Ask Spread*, 1984).
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Noise {
    last: Option<i64>,
    /// The last change, in seconds.
    change: Option<f64>,
    /// Negated mean of the products in s².
    variance: f64,
    samples: u32,
}

impl Noise {
    /// Adds the one-way delay of a packet in ns; packets must be in the order of sending.
    pub(super) fn observe(&mut self, one_way: i64, min_weight: f64) {
        let Some(last) = self.last.replace(one_way) else { return };
        let change = one_way.saturating_sub(last) as f64 / 1e9;
        let change = change.clamp(-MAX_STEP, MAX_STEP);
        let Some(before) = self.change.replace(change) else { return };
        self.samples = self.samples.saturating_add(1);
        let weight = min_weight.max(1.0 / f64::from(self.samples));
        self.variance += weight * (-change * before - self.variance);
    }

    /// Discards the last sample after a restart of the receiver's clock.
    pub(super) fn forget_last(&mut self) {
        (self.last, self.change) = (None, None);
    }

    pub(super) fn deviation(&self) -> Span {
        if self.samples < MIN_SAMPLES {
            return Span::ZERO;
        }
        Span::from_nanos((self.variance.max(0.0).sqrt() * 1e9) as u64)
    }
}
