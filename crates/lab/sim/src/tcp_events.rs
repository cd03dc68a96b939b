//! Records of the variables of TCP senders, with each change.

use std::collections::HashMap;

use base::{Bytes, FlowId, Time};
use run::RecorderHandle;
use run::sample::tcp::TcpEvent;
use transport::tcp::Statistics;

use crate::net::EndId;

/// Writes the TCP events of selected flows.
#[derive(Debug)]
pub(crate) struct TcpEvents {
    recorder: RecorderHandle,
    /// The identifier in the original plan of each recorded flow of the sorted plan.
    flows: Vec<Option<FlowId>>,
    /// Number of connections of each flow.
    opened: HashMap<FlowId, u32>,
    /// The current connection of each slot.
    connections: HashMap<u32, Known>,
}

/// A connection with its last events.
#[derive(Debug)]
struct Known {
    /// Distinguishes it from other connections in the same slot.
    hash: u32,
    number: u32,
    last: [Option<TcpEvent>; 2],
}

impl TcpEvents {
    pub(crate) fn new(recorder: RecorderHandle, flows: Vec<Option<FlowId>>) -> Self {
        Self { recorder, flows, opened: HashMap::new(), connections: HashMap::new() }
    }

    /// Whether the events of a flow are recorded.
    pub(crate) fn records(&self, flow: u32) -> bool {
        self.flows[flow as usize].is_some()
    }

    /// Records an end that has sent data, if a variable has changed. `hash` identifies its
    /// connection.
    pub(crate) fn record(
        &mut self,
        at: Time,
        flow: u32,
        end: EndId,
        hash: u32,
        statistics: &Statistics,
    ) {
        let Some(flow) = self.flows[flow as usize].filter(|_| statistics.sent > 0) else { return };
        let opened = &mut self.opened;
        let mut first = || {
            let count = opened.entry(flow).or_default();
            *count += 1;
            Known { hash, number: *count - 1, last: [None; 2] }
        };
        let known = self.connections.entry(end.connection()).or_insert_with(&mut first);
        if known.hash != hash {
            *known = first();
        }
        let last = &mut known.last[end.side()];
        let event = TcpEvent {
            at: last.map_or(at, |last| last.at),
            flow,
            connection: known.number,
            is_client: end.side() == 0,
            cwnd: statistics.cwnd,
            ssthresh: Some(statistics.ssthresh).filter(|threshold| *threshold < Bytes::MAX),
            rtt: statistics.rtt,
            srtt: statistics.srtt,
            in_flight: statistics.in_flight,
            acked: statistics.acked,
            retransmits: statistics.retransmits,
            timeouts: statistics.timeouts,
        };
        if *last != Some(event) {
            let event = TcpEvent { at, ..event };
            *last = Some(event);
            self.recorder.tcp(event);
        }
    }
}
