//! Joins the samples of the two ends of a flow that were on different agents.

use base::Span;

use crate::FlowSample;

impl FlowSample {
    /// The number of the sampling period that ended with this sample. Samples are taken slightly
    /// after the end of a period. Samples of the two ends match if their periods are equal.
    pub fn period(&self, interval: Span) -> u64 {
        self.at.as_nanos() / interval.as_nanos().max(1)
    }

    /// Joins the samples of both ends to that of one agent with both ends. Each end has counters
    /// that the other does not have.
    #[must_use]
    pub fn join(self, other: Self) -> Self {
        let sum = |a: Option<u64>, b: Option<u64>| a.map_or(b, |a| Some(a + b.unwrap_or(0)));
        let mut joined = other;
        joined.at = joined.at.max(self.at);
        joined.interval = joined.interval.max(self.interval);
        joined.sent_bytes += self.sent_bytes;
        joined.received_bytes += self.received_bytes;
        joined.rtt = joined.rtt.or(self.rtt);
        joined.cwnd_bytes = joined.cwnd_bytes.or(self.cwnd_bytes);
        joined.retransmits = sum(joined.retransmits, self.retransmits);
        joined.delay = joined.delay.or(self.delay);
        joined.lost = sum(joined.lost, self.lost);
        joined.latency = joined.latency.or(self.latency);
        joined.responses = sum(joined.responses, self.responses);
        joined.gap = joined.gap.max(self.gap);
        joined.reinjected_bytes = sum(joined.reinjected_bytes, self.reinjected_bytes);
        joined.reorder_bytes = joined.reorder_bytes.max(self.reorder_bytes);
        joined
    }
}

#[cfg(test)]
mod tests {
    use base::{FlowId, Time};

    use super::*;

    fn at(micros: u64) -> FlowSample {
        let (at, interval) = (Time::from_nanos(micros * 1000), Span::from_millis(100));
        FlowSample::empty(at, interval, FlowId(1))
    }

    #[test]
    fn samples_match_if_their_periods_are_equal() {
        let interval = Span::from_millis(100);
        assert_eq!(at(300_010).period(interval), at(309_999).period(interval));
        assert_ne!(at(299_999).period(interval), at(300_010).period(interval));
    }

    #[test]
    fn joined_sample_has_the_counters_of_both_ends() {
        let (mut sender, mut receiver) = (at(100_100), at(100_300));
        (sender.sent_bytes, receiver.received_bytes) = (500, 400);
        (sender.rtt, sender.retransmits) = (Some(Span::from_millis(3)), Some(2));
        (receiver.gap, receiver.retransmits) = (Some(Span::from_millis(7)), Some(0));
        let joined = sender.clone().join(receiver.clone());
        assert_eq!(joined, receiver.join(sender));
        assert_eq!((joined.sent_bytes, joined.received_bytes), (500, 400));
        assert_eq!((joined.at, joined.retransmits), (at(100_300).at, Some(2)));
        assert_eq!(
            (joined.rtt, joined.gap),
            (Some(Span::from_millis(3)), Some(Span::from_millis(7)))
        );
        assert_eq!((joined.lost, joined.delay), (None, None));
    }
}
