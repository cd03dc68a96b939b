//! The rate at which an application offers payload.

use base::{Bandwidth, Bytes, Span, Time};

/// Preferred amount of payload offered at a time.
const PIECE: Bytes = Bytes::new(16 << 10);
/// Bounds of the interval between two offers.
const INTERVALS: [Span; 2] = [Span::from_millis(1), Span::from_millis(10)];

/// Payload offered at a constant rate from a start time on. Payload that could not be written in
/// time is added to later payload, so the mean rate does not drift.
#[derive(Clone, Copy, Debug)]
pub(super) struct Offer {
    rate: Bandwidth,
    start: Time,
    interval: Span,
    next: Time,
    offered: u64,
}

impl Offer {
    pub(super) fn new(rate: Bandwidth, start: Time) -> Self {
        let interval = rate.time_for(PIECE).clamp(INTERVALS[0], INTERVALS[1]);
        Self { rate, start, interval, next: start, offered: 0 }
    }

    /// All payload offered so far. The payload of an interval is offered at its start.
    pub(super) fn advance(&mut self, now: Time) -> u64 {
        if self.next <= now {
            self.next = now + self.interval;
            let offered = self.rate.bytes_in(self.next.since(self.start)).count();
            self.offered = self.offered.max(offered);
        }
        self.offered
    }

    /// The time of the next offer.
    pub(super) const fn next(&self) -> Time {
        self.next
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(micros: u64) -> Time {
        Time::ZERO + Span::from_micros(micros)
    }

    #[test]
    fn mean_rate_is_exact_with_late_wakes() {
        let mut offer = Offer::new(Bandwidth::from_mbits_per_sec(10), at(500));
        let (mut now, mut offered) = (at(500), 0);
        while now < at(1_000_500) {
            let before = offered;
            offered = offer.advance(now);
            assert!(offered >= before + 12_500, "{before} {offered}");
            // Every wake-up is late.
            now = offer.next() + Span::from_micros(300);
        }
        assert!((1_250_000..1_275_000).contains(&offered), "{offered}");
    }

    #[test]
    fn offers_an_interval_ahead_and_only_once() {
        let mut offer = Offer::new(Bandwidth::from_mbits_per_sec(8), at(0));
        assert_eq!(offer.advance(at(0)), 10_000);
        assert_eq!((offer.advance(at(9_999)), offer.next()), (10_000, at(10_000)));
        assert_eq!(offer.advance(at(1_000_000)), 1_010_000);
    }
}
