//! Round-trip time and retransmission timeout (RFC 6298).

use base::Span;

use super::packed::packed;

/// Maximum timeout, as in Linux.
const MAX_RTO: u64 = 120_000_000_000;

/// Estimates in nanoseconds.
#[derive(Clone, Debug)]
pub(super) struct RttEstimator {
    /// Smoothed RTT; 0: no sample yet.
    srtt: u64,
    rttvar: u64,
    min: u64,
    /// Timeout without back-off.
    rto: u64,
    /// Number of times that the timeout was doubled.
    pub(super) backoff: u8,
}

packed!(RttEstimator { srtt, rttvar, min, rto, backoff });

impl RttEstimator {
    pub(super) fn new(initial_rto: Span) -> Self {
        Self { srtt: 0, rttvar: 0, min: u64::MAX, rto: initial_rto.as_nanos(), backoff: 0 }
    }

    /// A sample of a segment that was sent once (Karn's algorithm).
    ///
    /// The lower bound applies to the deviation's part and not to the sum, as in Linux: otherwise a
    /// path with a steady RTT above the bound would time out at the slightest delay.
    pub(super) fn sample(&mut self, rtt: Span, min_rto: Span) {
        let rtt = rtt.as_nanos().max(1);
        self.min = self.min.min(rtt);
        if self.srtt == 0 {
            self.srtt = rtt;
            self.rttvar = rtt / 2;
        } else {
            self.rttvar = (3 * self.rttvar + self.srtt.abs_diff(rtt)) / 4;
            self.srtt = (7 * self.srtt + rtt) / 8;
        }
        self.rto = (self.srtt + (4 * self.rttvar).max(min_rto.as_nanos())).min(MAX_RTO);
    }

    /// Without a sample after a lost SYN, the timeout is 3 s (RFC 6298 §5.7).
    pub(super) fn fall_back(&mut self) {
        if self.srtt == 0 {
            self.rto = 3_000_000_000;
        }
    }

    /// Timeout including back-off.
    pub(super) fn rto(&self) -> Span {
        let factor = 1_u64 << self.backoff.min(16);
        Span::from_nanos(self.rto.saturating_mul(factor).min(MAX_RTO))
    }

    pub(super) fn back_off(&mut self) {
        self.backoff = self.backoff.saturating_add(1);
    }

    pub(super) fn srtt(&self) -> Option<Span> {
        (self.srtt > 0).then_some(Span::from_nanos(self.srtt))
    }

    pub(super) fn deviation(&self) -> Option<Span> {
        (self.srtt > 0).then_some(Span::from_nanos(self.rttvar))
    }

    pub(super) fn min(&self) -> Option<Span> {
        (self.min < u64::MAX).then_some(Span::from_nanos(self.min))
    }
}
