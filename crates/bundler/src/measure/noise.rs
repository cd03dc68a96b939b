//! Variation of the delay that no queue explains.

use base::Span;

/// Weight of a sample, once there are many.
const WEIGHT: f64 = 1.0 / 128.0;
/// Samples before the estimate counts.
const MIN_SAMPLES: u32 = 8;
/// A step of the delay counts for at most this, in seconds: routes change.
const MAX_STEP: f64 = 0.05;

/// Estimates the standard deviation of delay that differs from packet to packet.
///
/// A queue grows and drains over many packets, so that two successive changes of the delay have
/// the same sign more often than not. Independent noise of variance σ² makes their product -σ² in
/// the mean (Roll, *A Simple Implicit Measure of the Effective Bid-Ask Spread*, 1984).
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Noise {
    last: Option<i64>,
    /// The last change, in seconds.
    change: Option<f64>,
    /// Mean of the products, negated, in s².
    variance: f64,
    samples: u32,
}

impl Noise {
    /// A packet took `one_way` ns; packets come in the order in which they left.
    pub(super) fn observe(&mut self, one_way: i64) {
        let Some(last) = self.last.replace(one_way) else { return };
        let change = one_way.saturating_sub(last) as f64 / 1e9;
        let change = change.clamp(-MAX_STEP, MAX_STEP);
        let Some(before) = self.change.replace(change) else { return };
        self.samples = self.samples.saturating_add(1);
        let weight = WEIGHT.max(1.0 / f64::from(self.samples));
        self.variance += weight * (-change * before - self.variance);
    }

    /// The receiver's clock has started anew.
    pub(super) fn forget_last(&mut self) {
        (self.last, self.change) = (None, None);
    }

    /// The standard deviation.
    pub(super) fn deviation(&self) -> Span {
        if self.samples < MIN_SAMPLES {
            return Span::ZERO;
        }
        Span::from_nanos((self.variance.max(0.0).sqrt() * 1e9) as u64)
    }
}
