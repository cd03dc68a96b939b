//! When the next datagrams of a flow are due.

use base::{Span, Time};
use transport::workload::Source;

/// Behind its schedule by more than this, a flow does not catch up but goes on from now.
const PATIENCE: Span = Span::from_millis(100);

/// The datagrams of a source, one after the other, on a clock that may come late.
#[derive(Debug)]
pub(super) struct Pace {
    source: Source,
    /// No datagram is due from then on.
    end: Time,
    /// The next one that is neither used nor due: when, and its payload.
    ahead: Option<(Time, u32)>,
    /// Due and not yet used: so many of one payload.
    due: (u64, u32),
    skipped: u64,
}

impl Pace {
    pub(super) fn new(source: Source, end: Time) -> Self {
        let mut pace = Self { source, end, ahead: None, due: (0, 0), skipped: 0 };
        pace.step();
        pace
    }

    /// When the next datagram is due; `None`: there will be no more.
    pub(super) fn next(&self) -> Option<Time> {
        if self.due.0 > 0 { Some(Time::ZERO) } else { self.ahead.map(|(at, _)| at) }
    }

    /// How many datagrams of one payload are due at `now`, up to `most`, and that payload. When
    /// the caller comes far too late, all but the last are given up (and counted), because
    /// sending them in one burst would overload what the flow is meant to load evenly.
    pub(super) fn due(&mut self, now: Time, most: u64) -> Option<(u64, u32)> {
        if self.due.0 == 0 {
            let (first, payload) = self.take(now)?;
            self.due = (1, payload);
            if now.since(first) > PATIENCE {
                while let Some((_, payload)) = self.take(now) {
                    self.due = (1, payload);
                    self.skipped += 1;
                }
            }
        }
        while self.due.0 < most && self.ahead.is_some_and(|ahead| ahead.1 == self.due.1) {
            if self.take(now).is_none() {
                break;
            }
            self.due.0 += 1;
        }
        Some((self.due.0.min(most), self.due.1))
    }

    fn take(&mut self, now: Time) -> Option<(Time, u32)> {
        let taken = self.ahead.filter(|(at, _)| *at <= now)?;
        self.step();
        Some(taken)
    }

    fn step(&mut self) {
        self.ahead = self.source.next().filter(|(at, _)| *at < self.end);
    }

    /// Counts all datagrams that are due and not sent as skipped.
    pub(super) fn give_up(&mut self, now: Time) {
        self.skipped += std::mem::take(&mut self.due.0);
        while self.take(now).is_some() {
            self.skipped += 1;
        }
    }

    /// Marks due datagrams as used.
    pub(super) fn use_due(&mut self, count: u64) {
        self.due.0 = self.due.0.saturating_sub(count);
    }

    /// Datagrams given up so far.
    pub(super) const fn skipped(&self) -> u64 {
        self.skipped
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use base::{Bandwidth, Bytes, RandomStream};
    use proptest::prelude::*;
    use transport::workload::{DatagramTrace, Pattern};

    use super::*;

    fn pace(pattern: Pattern, rate: Bandwidth, packet: u64) -> Pace {
        let random = RandomStream::new(1, "pace");
        let source = Source::new(pattern, rate, Bytes::new(packet), None, Time::ZERO, random);
        Pace::new(source, Time::MAX)
    }

    fn constant() -> Pace {
        pace(Pattern::Constant, Bandwidth::from_mbits_per_sec(8), 1000)
    }

    #[test]
    fn a_thousand_a_second() {
        let mut pace = constant();
        assert_eq!(pace.due(Time::ZERO, 64), Some((1, 1000)));
        pace.use_due(1);
        assert_eq!(pace.next(), Some(Time::from_nanos(1_000_000)));
        assert_eq!(pace.due(Time::from_nanos(999_999), 64), None);
        assert_eq!(pace.due(Time::from_nanos(3_500_000), 64), Some((3, 1000)));
        pace.use_due(2);
        assert_eq!(pace.due(Time::from_nanos(3_500_000), 64), Some((1, 1000)));
    }

    #[test]
    fn a_long_pause_is_not_made_up_for() {
        let mut pace = constant();
        assert_eq!(pace.due(Time::from_nanos(1_000_000_000), 64), Some((1, 1000)));
        assert_eq!(pace.skipped(), 1000);
        pace.use_due(1);
        assert_eq!(pace.next(), Some(Time::from_nanos(1_001_000_000)));
    }

    #[test]
    fn what_was_not_sent_before_the_end_is_given_up() {
        let mut pace = constant();
        pace.end = Time::from_nanos(50_000_000);
        assert_eq!(pace.due(Time::from_nanos(19_500_000), 64), Some((20, 1000)));
        pace.use_due(12);
        pace.give_up(Time::from_nanos(60_000_000));
        assert_eq!((pace.skipped(), pace.next()), (38, None));
    }

    #[test]
    fn datagrams_of_a_trace_keep_their_sizes() {
        let at = Span::from_millis;
        let datagrams =
            [(0, 100), (0, 100), (1, 200)].map(|(ms, size)| (at(ms), Bytes::new(size))).to_vec();
        let trace = Arc::new(DatagramTrace { datagrams, period: at(10) });
        let mut pace = pace(Pattern::Trace(trace), Bandwidth::ZERO, 0);
        let now = Time::from_nanos(10_000_000);
        assert_eq!(pace.due(now, 64), Some((2, 100)));
        pace.use_due(2);
        assert_eq!(pace.due(now, 64), Some((1, 200)));
        pace.use_due(1);
        assert_eq!(pace.due(now, 1), Some((1, 100)));
    }

    proptest! {
        #[test]
        fn no_datagram_is_early_and_none_is_forgotten(
            rate in 1_000_u64..1_000_000_000,
            packet in 16_u64..65_507,
            steps in prop::collection::vec(0_u64..50_000_000, 1..50),
        ) {
            let rate = Bandwidth::from_bits_per_sec(rate);
            let mut pace = pace(Pattern::Constant, rate, packet);
            let (mut now, mut sent) = (Time::ZERO, 0_u64);
            for step in steps {
                now += Span::from_nanos(step);
                while let Some((due, _)) = pace.due(now, 64) {
                    pace.use_due(due);
                    sent += due;
                }
                // The first leaves at once, the others follow at the rate.
                let allowed = rate.bytes_in(now.since(Time::ZERO)).count() / packet + 1;
                prop_assert!(sent <= allowed, "{sent} sent, {allowed} allowed");
                prop_assert!(pace.next().is_some_and(|next| next > now));
                prop_assert_eq!(sent + pace.skipped(), allowed);
            }
        }
    }
}
