//! The transmitter's clock: the end of a transmission that starts now.

use std::sync::Arc;

use base::{Bandwidth, Span, Time};

use crate::config::{Rate, Trace};

/// A transmitter with a rate.
#[derive(Debug)]
pub(crate) enum Pacer {
    Unlimited,
    Constant {
        rate: Bandwidth,
        /// Remainder of the integer division, in units of 1/rate ns, so that the
        /// long-term rate is exact.
        remainder: u64,
    },
    Trace {
        trace: Arc<Trace>,
        /// The next unused opportunity: index, and start of its period.
        next: usize,
        period_start: Time,
        /// Bytes left of the opportunity at `credit_at`.
        credit: u32,
        credit_at: Time,
    },
}

impl Pacer {
    pub(crate) fn new(rate: &Rate) -> Self {
        match rate {
            Rate::Unlimited => Self::Unlimited,
            Rate::Constant(rate) => Self::Constant { rate: *rate, remainder: 0 },
            Rate::Trace(trace) => Self::Trace {
                trace: Arc::clone(trace),
                next: 0,
                period_start: Time::ZERO,
                credit: 0,
                credit_at: Time::ZERO,
            },
        }
    }

    pub(crate) const fn is_unlimited(&self) -> bool {
        matches!(self, Self::Unlimited)
    }

    /// The end of the transmission of a packet of `wire` bytes that starts at `now`.
    pub(crate) fn finish(&mut self, now: Time, wire: u32) -> Time {
        match self {
            Self::Unlimited => now,
            Self::Constant { rate, remainder } => {
                let per_second = rate.bits_per_sec().max(1);
                let work = u64::from(wire) * 8 * 1_000_000_000;
                // 64 bits are sufficient for 2.3 GB of wire bytes; a rate near 2⁶⁴
                // bit/s uses 128 bits.
                let (nanos, rest) = if let Some(work) = work.checked_add(*remainder) {
                    (work / per_second, work % per_second)
                } else {
                    let work = u128::from(work) + u128::from(*remainder);
                    let per_second = u128::from(per_second);
                    ((work / per_second) as u64, (work % per_second) as u64)
                };
                *remainder = rest;
                now + Span::from_nanos(nanos)
            }
            Self::Trace { .. } => self.take_opportunities(now, wire),
        }
    }

    fn take_opportunities(&mut self, now: Time, need: u32) -> Time {
        let Self::Trace { trace, next, period_start, credit, credit_at } = self else {
            return now;
        };
        if *credit_at != now {
            *credit = 0;
        }
        let mut at = now;
        if *credit < need {
            skip_missed(trace, next, period_start, now);
        }
        while *credit < need {
            at = *period_start + trace.opportunities[*next];
            *credit = credit.saturating_add(Trace::OPPORTUNITY.count() as u32);
            *next += 1;
            if *next == trace.opportunities.len() {
                *next = 0;
                *period_start += trace.period;
            }
        }
        *credit -= need;
        *credit_at = at;
        at
    }

    /// Continues a packet that would have ended at `end` at another rate from `now` on. Traces
    /// complete the current packet as planned.
    pub(crate) fn resume(&self, now: Time, end: Time, new: &Self) -> Time {
        match (self, new) {
            (Self::Constant { rate: old, .. }, Self::Constant { rate: new, .. }) => {
                let left = u128::from(end.since(now).as_nanos()) * u128::from(old.bits_per_sec());
                let nanos = left / u128::from(new.bits_per_sec().max(1));
                now + Span::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
            }
            (_, Self::Unlimited) => now,
            _ => end,
        }
    }
}

/// Opportunities that pass while the queue is empty are lost. Those at `now` are not; at the end of
/// a period they may be the last ones of it.
fn skip_missed(trace: &Trace, next: &mut usize, period_start: &mut Time, now: Time) {
    let passed = now.since(*period_start).as_nanos().saturating_sub(1);
    let behind = passed / trace.period.as_nanos().max(1);
    if behind > 0 {
        *period_start += trace.period * behind;
        *next = 0;
    }
    let offset = now.since(*period_start);
    let first = trace.opportunities.partition_point(|at| *at < offset);
    *next = (*next).max(first);
    if *next >= trace.opportunities.len() {
        *next = 0;
        *period_start += trace.period;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn division_remainder_keeps_the_rate_exact() {
        // 64 B at 100 Gbit/s last 5.12 ns: truncation alone would err by 2.4 %.
        let mut pacer = Pacer::new(&Rate::Constant("100 Gbit/s".parse().unwrap()));
        let end = (0..1_000_000).fold(Time::ZERO, |now, _| pacer.finish(now, 64));
        assert_eq!(end.as_nanos(), 5_120_000);
    }

    #[test]
    fn trace_gives_one_packet_an_opportunity() {
        let ms = |n: u64| Span::from_millis(n);
        let trace = Trace { opportunities: vec![ms(1), ms(1), ms(4)], period: ms(5) };
        let mut pacer = Pacer::new(&Rate::Trace(Arc::new(trace)));
        let mut at = Time::ZERO;
        let mut ends = Vec::new();
        for _ in 0..5 {
            at = pacer.finish(at, 1504);
            ends.push(at.as_nanos() / 1_000_000);
        }
        assert_eq!(ends, [1, 1, 4, 6, 6]);
        // Idle from 6 to 17 ms: earlier opportunities are lost, the next is at 19.
        assert_eq!(pacer.finish(Time::from_nanos(17_000_000), 1504).as_nanos(), 19_000_000);
        // Small packets share one opportunity.
        let at = Time::from_nanos(20_500_000);
        let first = pacer.finish(at, 504);
        assert_eq!(pacer.finish(first, 504), first);
    }

    #[test]
    fn all_opportunities_at_the_end_of_a_period_are_used() {
        // The file of a constant rate has k lines "1": k × 1,504 B in each millisecond.
        for k in [1, 2, 4, 10, 1_000] {
            let ms = Span::from_millis(1);
            let trace = Trace { opportunities: vec![ms; k], period: ms };
            let mut pacer = Pacer::new(&Rate::Trace(Arc::new(trace)));
            let packets = 100 * k;
            let end = (0..packets).fold(Time::ZERO, |now, _| pacer.finish(now, 1504));
            assert_eq!(end.as_nanos(), 100_000_000, "{k}");
        }
    }

    /// The ends of transmission of packets, given by arrival and size, as Mahimahi's
    /// `LinkQueue` computes them: each opportunity sends up to 1,504 B of the packets that wait.
    fn ends_in_mahimahi(trace: &Trace, packets: &[(Time, u32)]) -> Vec<Time> {
        let mut ends = Vec::new();
        let mut left = packets.first().map_or(0, |(_, size)| *size);
        for period in 0.. {
            for offset in &trace.opportunities {
                let at = Time::ZERO + trace.period * period + *offset;
                let mut bytes = 1504;
                while bytes > 0 {
                    let Some((arrival, _)) = packets.get(ends.len()) else { return ends };
                    if *arrival > at {
                        break;
                    }
                    let sent = left.min(bytes);
                    (left, bytes) = (left - sent, bytes - sent);
                    if left == 0 {
                        ends.push(at);
                        left = packets.get(ends.len()).map_or(0, |(_, size)| *size);
                    }
                }
            }
        }
        ends
    }

    proptest! {
        #[test]
        fn traces_send_as_mahimahi_does(
            mut offsets in prop::collection::vec(0u64..8, 1..12),
            spare in 0u64..3,
            packets in prop::collection::vec((0u64..40, 20u32..4_000), 1..60),
        ) {
            offsets.sort_unstable();
            let period = Span::from_millis((offsets[offsets.len() - 1] + spare).max(1));
            let opportunities = offsets.into_iter().map(Span::from_millis).collect();
            let trace = Trace { opportunities, period };
            // Gaps of up to 3 periods between the arrivals.
            let mut arrival = Time::ZERO;
            let packets: Vec<(Time, u32)> = packets.into_iter().map(|(gap, size)| {
                arrival += Span::from_micros(if gap < 24 { 0 } else { gap * 500 });
                (arrival, size)
            }).collect();
            let mut pacer = Pacer::new(&Rate::Trace(Arc::new(trace.clone())));
            let mut idle_from = Time::ZERO;
            let ends: Vec<Time> = packets.iter().map(|(arrival, size)| {
                idle_from = pacer.finish(idle_from.max(*arrival), *size);
                idle_from
            }).collect();
            prop_assert_eq!(ends, ends_in_mahimahi(&trace, &packets));
        }

        #[test]
        fn a_constant_rate_is_never_exceeded(
            rate in 1_000u64..200_000_000_000,
            sizes in prop::collection::vec(64u32..9_038, 1..200),
        ) {
            let mut pacer =
                Pacer::new(&Rate::Constant(Bandwidth::from_bits_per_sec(rate)));
            let end = sizes.iter().fold(Time::ZERO, |now, size| pacer.finish(now, *size));
            let bits: u64 = sizes.iter().map(|size| u64::from(*size) * 8).sum();
            let exact = u128::from(bits) * 1_000_000_000 / u128::from(rate);
            prop_assert!(u128::from(end.as_nanos()).abs_diff(exact) <= 1);
        }
    }
}
