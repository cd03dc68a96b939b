//! When the next datagram of a constant-rate flow is due.

use base::{Bandwidth, Bytes, Span, Time};

/// Behind its schedule by more than this, a flow does not catch up but goes on from now.
const PATIENCE: Span = Span::from_millis(100);

/// A schedule of equal datagrams at an exact long-run rate. Slot *n* is due *n* datagram times
/// after the start, computed from the start each time so that no rounding adds up.
#[derive(Debug)]
pub(super) struct Pace {
    rate: Bandwidth,
    packet: Bytes,
    start: Time,
    /// Slots used since `start`.
    used: u64,
    skipped: u64,
}

impl Pace {
    pub(super) fn new(rate: Bandwidth, packet: Bytes, start: Time) -> Self {
        Self { rate, packet, start, used: 0, skipped: 0 }
    }

    /// When the next slot is due.
    pub(super) fn next(&self) -> Time {
        let bytes = u128::from(self.used) * u128::from(self.packet.count());
        let nanos = (bytes * 8_000_000_000).div_ceil(u128::from(self.rate.bits_per_sec()));
        self.start + Span::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
    }

    /// How many slots are due at `now`. When the caller comes far too late, all but the last are
    /// given up (and counted), because sending them in one burst would overload what a constant
    /// rate is meant to load evenly.
    pub(super) fn due(&mut self, now: Time) -> u64 {
        let next = self.next();
        if now < next {
            return 0;
        }
        let elapsed = u128::from(now.since(self.start).as_nanos());
        let bits = elapsed * u128::from(self.rate.bits_per_sec()) / 1_000_000_000;
        let passed = bits / 8 / u128::from(self.packet.count()) + 1;
        let passed = u64::try_from(passed).unwrap_or(u64::MAX);
        let due = passed.saturating_sub(self.used).max(1);
        if now.since(next) > PATIENCE && due > 1 {
            self.use_slots(due - 1);
            self.skipped += due - 1;
            return 1;
        }
        due
    }

    /// Marks slots as used.
    pub(super) fn use_slots(&mut self, count: u64) {
        self.used += count;
    }

    /// How many slots fall into a span.
    pub(super) fn slots_in(&self, span: Span) -> u64 {
        self.rate.bytes_in(span).count().div_ceil(self.packet.count())
    }

    /// Slots given up so far.
    pub(super) const fn skipped(&self) -> u64 {
        self.skipped
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_thousand_a_second() {
        let mut pace = Pace::new(Bandwidth::from_mbits_per_sec(8), Bytes::new(1000), Time::ZERO);
        assert_eq!(pace.due(Time::ZERO), 1);
        pace.use_slots(1);
        assert_eq!(pace.next(), Time::from_nanos(1_000_000));
        assert_eq!(pace.due(Time::from_nanos(999_999)), 0);
        assert_eq!(pace.due(Time::from_nanos(3_500_000)), 3);
    }

    #[test]
    fn a_long_pause_is_not_made_up_for() {
        let mut pace = Pace::new(Bandwidth::from_mbits_per_sec(8), Bytes::new(1000), Time::ZERO);
        assert_eq!(pace.due(Time::from_nanos(1_000_000_000)), 1);
        assert_eq!(pace.skipped(), 1000);
        pace.use_slots(1);
        assert_eq!(pace.next(), Time::from_nanos(1_001_000_000));
    }

    proptest! {
        #[test]
        fn no_slot_is_early_and_none_is_forgotten(
            rate in 1_000_u64..100_000_000_000,
            packet in 16_u64..65_507,
            steps in prop::collection::vec(0_u64..50_000_000, 1..50),
        ) {
            let rate = Bandwidth::from_bits_per_sec(rate);
            let mut pace = Pace::new(rate, Bytes::new(packet), Time::ZERO);
            let (mut now, mut sent) = (Time::ZERO, 0_u64);
            for step in steps {
                now += Span::from_nanos(step);
                let due = pace.due(now);
                pace.use_slots(due);
                sent += due;
                // The first leaves at once, the others follow at the rate.
                let allowed = rate.bytes_in(now.since(Time::ZERO)).count() / packet + 1;
                prop_assert!(sent <= allowed, "{sent} sent, {allowed} allowed");
                prop_assert!(pace.next() > now);
                prop_assert_eq!(sent + pace.skipped(), allowed);
            }
        }
    }
}
