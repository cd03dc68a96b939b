//! Status of streams and subflows.

use base::Span;
use mctcp::session::SubflowState;
use run::FlowCounters;
use transport::tcp::Statistics;

use super::Streams;
use crate::net::Net;

impl Streams {
    /// Payload that the client's session has sent.
    pub(crate) fn sent(&self, id: u32) -> u64 {
        let session = self.all.get(id).and_then(|stream| stream.sessions[0].as_ref());
        session.map_or(0, |session| session.statistics().sent)
    }

    /// TCP statistics summed over the connections of a stream; the RTT is their mean.
    pub(crate) fn statistics(&self, net: &Net, id: u32) -> Option<[Statistics; 2]> {
        let stream = self.all.get(id)?;
        let mut sums = [Statistics::default(); 2];
        let mut srtt = [(0, 0); 2];
        for subflow in stream.subflows.iter().filter_map(|at| self.subflows.get(*at)) {
            let Some(ends) = net.statistics(subflow.connection) else { continue };
            for side in [0, 1] {
                let (sum, end) = (&mut sums[side], &ends[side]);
                if let Some(span) = end.srtt.filter(|_| subflow.sides[side].up) {
                    srtt[side].0 += span.as_nanos();
                    srtt[side].1 += 1;
                    sum.cwnd += end.cwnd;
                }
                sum.in_flight += end.in_flight;
                sum.retransmits += end.retransmits;
                sum.timeouts += end.timeouts;
            }
        }
        for side in [0, 1] {
            let (sum, count) = srtt[side];
            sums[side].srtt = u64::checked_div(sum, count).map(Span::from_nanos);
        }
        sums[0].retransmits += stream.past[0];
        sums[0].timeouts += stream.past[1];
        Some(sums)
    }

    /// Adds the counters of subflows and sessions to `tally`.
    pub(crate) fn observe(&mut self, net: &Net, tally: &mut FlowCounters) {
        self.gone.subflows.drain(..).for_each(|subflow| tally.observe_subflow(subflow));
        let (mut again, mut waiting) = (self.gone.reinjected, self.gone.reorder);
        let mut kept = 0;
        for id in self.all.keys() {
            let Some(stream) = self.all.get(id) else { continue };
            for session in stream.sessions.iter().flatten() {
                let statistics = session.statistics();
                again += statistics.reinjected;
                waiting = waiting.max(statistics.reorder_peak);
                kept = kept.max(statistics.buffered);
            }
            for at in &stream.subflows {
                tally.observe_subflow(self.subflow_status(net, *at));
            }
        }
        tally.observe_reinjected(again);
        tally.observe_reorder(waiting);
        tally.observe_buffered(kept);
    }

    pub(super) fn subflow_status(&self, net: &Net, at: u32) -> run::Subflow {
        let subflow = self.subflows.get(at).expect("streams list subflows there are");
        let ends = net.statistics(subflow.connection).unwrap_or_default();
        let sum = |of: fn(&Statistics) -> u64| ends.iter().map(of).sum();
        let pipes = [&subflow.sides[0].pipe, &subflow.sides[1].pipe];
        let up = subflow.sides[0].up;
        run::Subflow {
            id: subflow.number - self.before,
            path: self.shape.way(subflow.path).link,
            sent: pipes.iter().map(|pipe| pipe.sent).sum(),
            received: pipes.iter().map(|pipe| pipe.received).sum(),
            retransmits: sum(|end| end.retransmits),
            srtt: ends[0].srtt,
            window_bytes: up.then_some(ends[0].cwnd.count()),
            state: self.state(subflow),
        }
    }

    fn state(&self, subflow: &super::Subflow) -> &'static str {
        let Some(id) = subflow.sides[0].id else { return "connecting" };
        let session = self.all.get(subflow.stream).and_then(|s| s.sessions[0].as_ref());
        let state = session.and_then(|session| session.subflows().find(|known| known.id == id));
        match state.map(|known| known.state) {
            Some(SubflowState::Opening) => "connecting",
            Some(SubflowState::Active) => "active",
            Some(SubflowState::Stale) => "stale",
            Some(SubflowState::Draining) => "closing",
            None => "closed",
        }
    }
}
