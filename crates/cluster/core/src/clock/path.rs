//! Statistics of the path between two machines, from pings.

use base::{Histogram, Span, Time};

/// RTTs are kept for one to two of these periods.
const PERIOD: Span = Span::from_secs(30);

const MIN_EGRESS_LEAD: Span = Span::from_millis(1);

/// No terrestrial path takes longer, and a longer lead would need more memory at the receiver.
pub const MAX_EGRESS_LEAD: Span = Span::from_millis(250);

/// The *egress lead time* of a path: how long before its due time a packet is handed to the trunk.
///
/// It is the min one-way delay plus four times the difference between the p99 and the min, at least
/// 1 ms and at most [`MAX_EGRESS_LEAD`].
pub fn egress_lead(rtts: &Histogram) -> Span {
    let [min, p99] = [rtts.min(), rtts.percentile(0.99)].map(|rtt| rtt / 2);
    let lead = min.saturating_add(4 * p99.saturating_sub(min));
    Span::from_nanos(lead).clamp(MIN_EGRESS_LEAD, MAX_EGRESS_LEAD)
}

/// Whether the new egress lead time differs enough from the current one to replace it. A lead that
/// is slightly too long does no harm, and one that is too short delays packets.
pub fn is_significant_change(current: Span, new: Span) -> bool {
    let (current, new) = (current.as_nanos(), new.as_nanos());
    new > current + current / 10 || new < current / 2
}

/// Loss and RTTs of one path.
#[derive(Clone, Debug, Default)]
pub struct PathStatistics {
    pub answered: u64,
    /// Pings without an answer within the timeout.
    pub lost: u64,
    rtts: Histogram,
    previous: Histogram,
    since: Time,
}

impl PathStatistics {
    /// RTTs (ns) of the last 30 to 60 s.
    pub fn rtts(&self) -> Histogram {
        let mut both = self.previous.clone();
        both.merge(&self.rtts);
        both
    }

    /// The ratio of unanswered pings.
    pub fn loss(&self) -> f64 {
        let all = self.answered + self.lost;
        if all == 0 { 0.0 } else { self.lost as f64 / all as f64 }
    }

    pub(super) fn record_answer(&mut self, now: Time, rtt: Span) {
        if now.since(self.since) > PERIOD {
            self.since = now;
            self.previous = std::mem::take(&mut self.rtts);
        }
        self.answered += 1;
        self.rtts.record(rtt.as_nanos());
    }

    pub(super) fn record_loss(&mut self) {
        self.lost += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rtts(micros: impl IntoIterator<Item = u64>) -> Histogram {
        let mut histogram = Histogram::default();
        for rtt in micros {
            histogram.record(Span::from_micros(rtt).as_nanos());
        }
        histogram
    }

    #[test]
    fn egress_lead_covers_delay_and_jitter() {
        assert_eq!(egress_lead(&Histogram::default()), MIN_EGRESS_LEAD);
        assert_eq!(egress_lead(&rtts([100, 120, 300])), MIN_EGRESS_LEAD);
        // A delay of 50 ms with up to 1 ms of jitter: not four times 51 ms.
        let wide = egress_lead(&rtts((0..100).map(|at| 100_000 + 20 * at)));
        assert!(wide > Span::from_micros(53_700) && wide < Span::from_micros(54_100), "{wide}");
        assert_eq!(egress_lead(&rtts([200, 4_000_000])), MAX_EGRESS_LEAD);
    }

    #[test]
    fn only_large_changes_of_egress_lead_are_significant() {
        let significant = |current, new| {
            is_significant_change(Span::from_micros(current), Span::from_micros(new))
        };
        for (current, new) in [(1_000, 1_200), (5_000, 1_000), (0, 1_000)] {
            assert!(significant(current, new), "{current} {new}");
        }
        for (current, new) in [(1_000, 1_050), (5_000, 4_000), (1_000, 1_000)] {
            assert!(!significant(current, new), "{current} {new}");
        }
    }

    #[test]
    fn forgets_rtts_after_two_periods() {
        let mut path = PathStatistics::default();
        for second in 0..100 {
            let rtt = if second < 10 { 9_000 } else { 200 };
            path.record_answer(Time::from_nanos(second * 1_000_000_000), Span::from_micros(rtt));
        }
        path.record_loss();
        assert_eq!(path.rtts().max(), 200_000);
        assert_eq!((path.answered, path.lost), (100, 1));
        assert!((path.loss() - 1.0 / 101.0).abs() < 1e-9);
    }
}
