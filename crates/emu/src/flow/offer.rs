//! The rate at which an application has something to write.

use base::{Bandwidth, Span, Time};

/// A write takes this much time's worth, but no less than a full segment and no more than 256 KiB.
const GRAIN: Span = Span::from_millis(1);
const LEAST: u64 = 1448;
const MOST: u64 = 256 << 10;

/// Payload that is offered at a constant rate from a start on. What could not be written in its
/// time is offered on top of what comes later: the mean rate does not drift.
#[derive(Clone, Copy, Debug)]
pub(super) struct Offer {
    rate: Bandwidth,
    start: Time,
    written: u64,
    grain: u64,
}

impl Offer {
    pub(super) fn new(rate: Bandwidth, start: Time) -> Self {
        let grain = bytes_in(rate, GRAIN).clamp(LEAST, MOST);
        Self { rate, start, written: 0, grain }
    }

    /// How much may be written now, of which the application still has `left`: zero until there
    /// is enough for a write.
    pub(super) fn room(&self, now: Time, left: u64) -> u64 {
        let room =
            bytes_in(self.rate, now.since(self.start)).saturating_sub(self.written).min(left);
        if room >= self.grain.min(left) { room } else { 0 }
    }

    pub(super) const fn wrote(&mut self, bytes: u64) {
        self.written += bytes;
    }

    /// When there is room for the next write.
    pub(super) fn next(&self, left: u64) -> Time {
        let bits = u128::from(self.written + self.grain.min(left)) * 8;
        let nanos = (bits * 1_000_000_000).div_ceil(u128::from(self.rate.bits_per_sec().max(1)));
        self.start + Span::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
    }
}

fn bytes_in(rate: Bandwidth, span: Span) -> u64 {
    let bits = u128::from(rate.bits_per_sec()) * u128::from(span.as_nanos()) / 1_000_000_000;
    u64::try_from(bits / 8).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(micros: u64) -> Time {
        Time::ZERO + Span::from_micros(micros)
    }

    #[test]
    fn the_rate_does_not_drift() {
        let mut offer = Offer::new(Bandwidth::from_mbits_per_sec(10), at(500));
        assert_eq!(offer.room(at(500), u64::MAX), 0);
        let mut now = at(500);
        let mut sum = 0;
        while now < at(1_000_500) {
            // Every wake-up is late.
            now = offer.next(u64::MAX) + Span::from_micros(300);
            let room = offer.room(now, u64::MAX);
            assert!(room >= LEAST, "{room}");
            offer.wrote(room);
            sum += room;
        }
        assert!((1_250_000..1_254_000).contains(&sum), "{sum}");
    }

    #[test]
    fn what_was_held_back_follows() {
        let mut offer = Offer::new(Bandwidth::from_mbits_per_sec(8), at(0));
        assert_eq!(offer.room(at(1_000_000), u64::MAX), 1_000_000);
        offer.wrote(400_000);
        assert_eq!(offer.room(at(1_000_000), u64::MAX), 600_000);
        // The rest of a stream may be less than a write.
        assert_eq!(offer.room(at(1_000_000), 10), 10);
        offer.wrote(600_000);
        assert_eq!(offer.next(10), at(1_000_010));
    }
}
