//! The streams of a flow: operations and status.

use std::sync::Arc;

use base::{Span, Time};
use mctcp::Counted;
use mctcp::driver::{Driver, StreamEvent, SubflowStatus};
use run::FlowCounters;
use transport::tcp::Statistics;

use super::Shape;
use super::link::{Link, Wire};
use crate::app::{ConnectionEvent, FlowParameters};
use crate::net::{EndId, Net, State};

#[derive(Debug)]
pub(crate) struct Streams {
    shape: Arc<Shape>,
    flow: u32,
    hash: u32,
    driver: Driver<Counted, Link>,
    /// Number of subflows opened before the current run.
    before: u32,
    /// Removed subflows of the current run that were not observed yet.
    gone: Vec<run::Subflow>,
}

impl Streams {
    pub(crate) fn new(parameters: &FlowParameters, shape: &Arc<Shape>) -> Self {
        Self {
            driver: Driver::new(&shape.setup, parameters.stream("sessions")),
            shape: Arc::clone(shape),
            flow: parameters.flow,
            hash: parameters.hash,
            before: 0,
            gone: Vec::new(),
        }
    }

    /// Calls the driver with the network.
    fn call<R>(
        &mut self,
        net: &mut Net,
        call: impl FnOnce(&mut Driver<Counted, Link>, &mut Wire<'_>) -> R,
    ) -> R {
        let Self { flow, hash, ref shape, .. } = *self;
        call(&mut self.driver, &mut Wire { net, shape, flow, hash, gone: &mut self.gone })
    }

    pub(crate) fn driver(&mut self) -> &mut Driver<Counted, Link> {
        &mut self.driver
    }

    pub(crate) fn is_over(&self, id: u32) -> bool {
        self.driver.is_over(id)
    }

    pub(crate) fn flush(&mut self, net: &mut Net, id: u32) {
        self.call(net, |driver, wire| driver.flush(wire, id));
    }

    pub(crate) fn reset(&mut self, net: &mut Net, id: u32) {
        self.call(net, |driver, wire| driver.reset(wire, id));
    }

    pub(crate) fn next_wake(&self) -> Option<Time> {
        self.driver.next_wake()
    }

    pub(crate) fn on_wake(&mut self, net: &mut Net) {
        self.call(net, |driver, wire| driver.on_wake(wire));
    }

    /// Handles an event of a TCP connection's end.
    pub(crate) fn on_tcp(&mut self, net: &mut Net, event: &ConnectionEvent) {
        let (connection, side) = (event.end.connection(), event.end.side());
        let Some(key) = net.connection(connection).map(|connection| connection.tag) else { return };
        let Some(subflow) = self.driver.subflow_mut(key) else { return };
        if subflow.link.connection == connection {
            let state = event.state.unwrap_or_default();
            subflow.link.arrive(side, event.bytes, state);
            self.call(net, |driver, wire| driver.on_event(wire, key, side, state.established));
        }
    }

    /// Ends the current run of the flow: resets the remaining streams.
    pub(crate) fn end_run(&mut self, net: &mut Net, tally: &mut FlowCounters) {
        let opened = self.call(net, |driver, wire| driver.end_run(wire));
        self.observe(net, tally);
        self.driver.clear_past();
        self.before = opened;
    }

    /// The next event for the application; connection numbers are stream numbers.
    pub(crate) fn take_event(&mut self) -> Option<ConnectionEvent> {
        let StreamEvent { stream, side, bytes, state } = self.driver.take_event()?;
        let state = state.map(|state| State {
            established: state.established,
            finished: state.finished,
            closed: state.closed,
        });
        Some(ConnectionEvent { end: EndId::new(stream, side), bytes, state })
    }

    /// Payload that the client's session has sent.
    pub(crate) fn sent(&self, id: u32) -> u64 {
        self.driver.sent(id)
    }

    /// TCP statistics summed over the connections of a stream; the RTT is their mean.
    pub(crate) fn statistics(&self, net: &Net, id: u32) -> Option<[Statistics; 2]> {
        let (subflows, past) = self.driver.subflows(id)?;
        let mut sums = [Statistics::default(); 2];
        let mut srtt = [(0, 0); 2];
        for subflow in subflows {
            let Some(ends) = net.statistics(subflow.link.connection) else { continue };
            for side in [0, 1] {
                let (sum, end) = (&mut sums[side], &ends[side]);
                if let Some(span) = end.srtt.filter(|_| subflow.is_up(side)) {
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
        sums[0].retransmits += past[0];
        sums[0].timeouts += past[1];
        Some(sums)
    }

    /// Adds the counters of subflows and sessions to `tally`.
    pub(crate) fn observe(&mut self, net: &Net, tally: &mut FlowCounters) {
        let current = self.driver.streams().into_iter().filter_map(|id| self.driver.subflows(id));
        for known in current.flat_map(|(subflows, _)| subflows) {
            let ends = net.statistics(known.link.connection).unwrap_or_default();
            self.gone.push(subflow(&self.shape, &ends, self.driver.status(known)));
        }
        for known in self.gone.drain(..) {
            tally.observe_subflow(run::Subflow { id: known.id - self.before, ..known });
        }
        let sum = self.driver.statistics();
        tally.observe_reinjected(sum.reinjected);
        tally.observe_reorder(sum.reorder_peak);
        tally.observe_buffered(sum.buffered);
    }
}

/// A subflow for the flow's counters.
pub(super) fn subflow(
    shape: &Shape,
    ends: &[Statistics; 2],
    status: SubflowStatus,
) -> run::Subflow {
    run::Subflow {
        id: status.number,
        path: shape.way(status.path).link,
        sent: status.sent,
        received: status.received,
        retransmits: ends.iter().map(|end| end.retransmits).sum(),
        srtt: ends[0].srtt,
        window_bytes: status.up.then_some(ends[0].cwnd.count()),
        state: status.state,
    }
}
