//! Joins the results of the two ends of a flow that were on different agents.

use crate::flow::{FlowEnds, FlowResult, Outcome, Transfers};

impl FlowResult {
    /// Joins two results to that of one agent with both ends. Times and outcome are from the
    /// opening end; each count is from one end.
    ///
    /// Returns the first result if they are not from the two ends of a flow.
    #[must_use]
    pub fn join(self, other: Self) -> Self {
        let (opening, accepting) = match (self.ends, other.ends) {
            (FlowEnds::Opening, FlowEnds::Accepting) => (self, other),
            (FlowEnds::Accepting, FlowEnds::Opening) => (other, self),
            _ => return self,
        };
        let mut joined = opening;
        joined.ends = FlowEnds::Both;
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
        // Each end knows only the waits of its host.
        joined.adjusted = None;
        joined.goodput.merge(&accepting.goodput);
        joined.paths.extend(accepting.paths);
        joined
    }
}

/// The outcome is that of the opening end. If both ends failed, it includes the error of the
/// accepting end, which may be the cause.
fn outcome(opening: Outcome, accepting: Outcome) -> Outcome {
    match (opening, accepting) {
        (Outcome::Failed(why), Outcome::Failed(cause)) if why != cause => {
            Outcome::Failed(format!("{why} (other end: {cause})"))
        }
        (opening, _) => opening,
    }
}

fn sum(a: Option<u64>, b: Option<u64>) -> Option<u64> {
    a.map_or(b, |a| Some(a + b.unwrap_or(0)))
}

/// Lost datagrams after the newest received one, over all runs.
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
    use workload::Pattern;

    use super::*;
    use crate::{Datagrams, FlowCounters, FlowLifetime};

    fn paced() -> Traffic {
        let rate = Bandwidth::from_mbits_per_sec(1);
        Traffic::Paced { rate, packet: Bytes::new(100), size: None, pattern: Pattern::Constant }
    }

    fn result(
        ends: FlowEnds,
        counters: FlowCounters,
        outcome: Outcome,
        edges: &[(u16, u64)],
    ) -> FlowResult {
        let lifetime = FlowLifetime {
            outcome,
            started: Some(Time::from_nanos(5)),
            ended: Some(Time::from_nanos(9)),
            active: Span::from_nanos(4),
            completion: None,
        };
        let mut result = counters.into_result(FlowId(3), "f".to_owned(), &paced(), lifetime);
        (result.ends, result.edges) = (ends, edges.to_vec());
        result
    }

    /// Run 1: ten sent, the last four lost. Run 2: five sent, the newest in flight at the end.
    fn ends(outcome: Outcome) -> [FlowResult; 2] {
        let (mut opening, mut accepting) = (FlowCounters::default(), FlowCounters::default());
        (opening.sent, accepting.received) = (1500, 900);
        opening.observe_datagrams(Datagrams { sent: 15, refused: 2, ..Datagrams::default() });
        let counted = Datagrams { received: 9, lost: 1, reordered: 1, ..Datagrams::default() };
        accepting.observe_datagrams(counted);
        (0..9).for_each(|_| accepting.record_delay(1000));
        let accepted = Outcome::Failed("connection reset".to_owned());
        [
            result(FlowEnds::Opening, opening, outcome, &[(1, 10), (2, 3)]),
            result(FlowEnds::Accepting, accepting, accepted, &[(2, 4), (1, 6)]),
        ]
    }

    #[test]
    fn joins_both_ends_in_either_order() {
        let [opening, accepting] = ends(Outcome::Stopped);
        let joined = opening.clone().join(accepting.clone());
        assert_eq!(joined, accepting.join(opening));
        assert_eq!((joined.ends, &joined.outcome), (FlowEnds::Both, &Outcome::Stopped));
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
    fn failure_names_the_error_of_both_ends() {
        let [opening, accepting] = ends(Outcome::Failed("refused".to_owned()));
        let joined = accepting.join(opening).outcome;
        let both = "refused (other end: connection reset)";
        assert_eq!(joined, Outcome::Failed(both.to_owned()));
    }

    #[test]
    fn whole_results_are_not_joined() {
        let [opening, accepting] = ends(Outcome::Completed);
        let whole = opening.clone().join(accepting.clone());
        assert_eq!(whole.clone().join(accepting), whole);
        assert_eq!(opening.clone().join(opening.clone()), opening);
    }
}
