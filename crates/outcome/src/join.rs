//! One result of a flow from those of its two halves, whose ends were on different machines.

use crate::flow::{FlowResult, Half, Outcome, Transfers};

impl FlowResult {
    /// What one observer of both ends would have said. The opening half knows when the flow ran
    /// and how it ended; amounts are counted by one half each.
    ///
    /// Results that are no two halves of one flow are not joined: the first is given back.
    #[must_use]
    pub fn join(self, other: Self) -> Self {
        let (opening, accepting) = match (self.half, other.half) {
            (Half::Opening, Half::Accepting) => (self, other),
            (Half::Accepting, Half::Opening) => (other, self),
            _ => return self,
        };
        let mut joined = opening;
        joined.half = Half::Whole;
        joined.outcome = outcome(joined.outcome, accepting.outcome);
        joined.started = joined.started.or(accepting.started);
        joined.sent_bytes += accepting.sent_bytes;
        joined.received_bytes += accepting.received_bytes;
        joined.retransmits = sum(joined.retransmits, accepting.retransmits);
        joined.timeouts = sum(joined.timeouts, accepting.timeouts);
        joined.responses = sum(joined.responses, accepting.responses);
        joined.gap = joined.gap.max(accepting.gap);
        joined.reinjected = sum(joined.reinjected, accepting.reinjected);
        joined.reorder = joined.reorder.max(accepting.reorder);
        joined.buffered = joined.buffered.max(accepting.buffered);
        if let (Some(datagrams), Some(others)) = (&mut joined.datagrams, accepting.datagrams) {
            *datagrams += others;
            datagrams.lost += lost_at_ends(&joined.edges, &accepting.edges);
        }
        joined.edges.clear();
        joined.transfers = transfers(joined.transfers, accepting.transfers);
        joined.rtt.merge(&accepting.rtt);
        joined.delay.merge(&accepting.delay);
        joined.latency.merge(&accepting.latency);
        joined.goodput.merge(&accepting.goodput);
        joined.paths.extend(accepting.paths);
        joined
    }
}

/// Where both failed, the opening half may have done so because of the other.
fn outcome(opening: Outcome, accepting: Outcome) -> Outcome {
    match (opening, accepting) {
        (Outcome::Failed(why), Outcome::Failed(cause)) if why != cause => {
            Outcome::Failed(format!("{why} (its other end: {cause})"))
        }
        (opening, _) => opening,
    }
}

fn sum(a: Option<u64>, b: Option<u64>) -> Option<u64> {
    a.map_or(b, |a| Some(a + b.unwrap_or(0)))
}

/// Datagrams that nothing newer followed and that should have arrived, over all runs.
fn lost_at_ends(sent: &[(u16, u64)], newest: &[(u16, u64)]) -> u64 {
    let arrived = |run| newest.iter().find(|(of, _)| *of == run).map_or(0, |(_, next)| *next);
    sent.iter().map(|(run, due)| due.saturating_sub(arrived(*run))).sum()
}

fn transfers(a: Option<Transfers>, b: Option<Transfers>) -> Option<Transfers> {
    let (Some(mut a), Some(b)) = (a.clone(), b.clone()) else { return a.or(b) };
    a.started += b.started;
    a.completed += b.completed;
    a.completion.merge(&b.completion);
    a.slowdown.merge(&b.slowdown);
    Some(a)
}

#[cfg(test)]
mod tests {
    use base::{Bandwidth, Bytes, FlowId, Span, Time};
    use lab::plan::Traffic;
    use transport::workload::Pattern;

    use super::*;
    use crate::{Course, Datagrams, Tally};

    fn paced() -> Traffic {
        let rate = Bandwidth::from_mbits_per_sec(1);
        Traffic::Paced { rate, packet: Bytes::new(100), size: None, pattern: Pattern::Constant }
    }

    fn result(half: Half, tally: Tally, outcome: Outcome, edges: &[(u16, u64)]) -> FlowResult {
        let course = Course {
            outcome,
            started: Some(Time::from_nanos(5)),
            ended: Some(Time::from_nanos(9)),
            active: Span::from_nanos(4),
            completion: None,
        };
        let mut result = tally.into_result(FlowId(3), "f".to_owned(), &paced(), course);
        (result.half, result.edges) = (half, edges.to_vec());
        result
    }

    /// Run 1: ten sent, the last four lost; run 2: five sent, of which the newest was on its way.
    fn halves(outcome: Outcome) -> [FlowResult; 2] {
        let (mut opening, mut accepting) = (Tally::default(), Tally::default());
        (opening.sent, accepting.received) = (1500, 900);
        opening.observe_datagrams(Datagrams { sent: 15, refused: 2, ..Datagrams::default() });
        let counted = Datagrams { received: 9, lost: 1, reordered: 1, ..Datagrams::default() };
        accepting.observe_datagrams(counted);
        (0..9).for_each(|_| accepting.record_delay(1000));
        let accepted = Outcome::Failed("connection reset".to_owned());
        [
            result(Half::Opening, opening, outcome, &[(1, 10), (2, 3)]),
            result(Half::Accepting, accepting, accepted, &[(2, 4), (1, 6)]),
        ]
    }

    #[test]
    fn halves_make_one_whole_in_either_order() {
        let [opening, accepting] = halves(Outcome::Stopped);
        let joined = opening.clone().join(accepting.clone());
        assert_eq!(joined, accepting.join(opening));
        assert_eq!((joined.half, &joined.outcome), (Half::Whole, &Outcome::Stopped));
        assert_eq!((joined.sent_bytes, joined.received_bytes), (1500, 900));
        let datagrams = Datagrams {
            sent: 15,
            received: 9,
            lost: 5,
            reordered: 1,
            refused: 2,
            ..Datagrams::default()
        };
        assert_eq!(joined.datagrams, Some(datagrams));
        assert_eq!((joined.delay.count(), joined.edges.len()), (9, 0));
    }

    #[test]
    fn the_cause_of_a_failure_may_be_at_the_other_end() {
        let [opening, accepting] = halves(Outcome::Failed("refused".to_owned()));
        let joined = accepting.join(opening).outcome;
        let both = "refused (its other end: connection reset)";
        assert_eq!(joined, Outcome::Failed(both.to_owned()));
    }

    #[test]
    fn only_halves_are_joined() {
        let [opening, accepting] = halves(Outcome::Completed);
        let whole = opening.clone().join(accepting.clone());
        assert_eq!(whole.clone().join(accepting), whole);
        assert_eq!(opening.clone().join(opening.clone()), opening);
    }
}
