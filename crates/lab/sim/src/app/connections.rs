//! Adapters from simulated TCP and MCTCP connections to the traffic state machines.

use base::{RandomStream, Time};
use workload::{Progress, Report, Side, Transport, Workload};

use super::{ConnectionEvent, Observed, Scope};
use crate::net::EndId;

impl Transport for Scope<'_> {
    fn now(&self) -> Time {
        self.net.now
    }

    fn random(&self, purpose: &str) -> RandomStream {
        self.parameters.stream(purpose)
    }

    fn connect(&mut self, tag: u32, payload: Option<u64>) -> u32 {
        let connection = self.open(tag);
        if let Some(bytes) = payload {
            self.tally.sent += bytes;
            self.write(connection, 0, bytes);
            self.finish(connection, 0);
        }
        self.flush(EndId::new(connection, 0));
        connection
    }

    fn tag(&mut self, connection: u32) -> Option<u32> {
        self.tag_mut(connection).map(|tag| *tag)
    }

    fn set_tag(&mut self, connection: u32, tag: u32) {
        if let Some(known) = self.tag_mut(connection) {
            *known = tag;
        }
    }

    fn request(&mut self, connection: u32, _number: u32, bytes: u64) {
        self.tally.sent += bytes;
        self.write(connection, 0, bytes);
        self.flush(EndId::new(connection, 0));
    }

    /// The event loop flushes the end of an event afterwards.
    fn respond(&mut self, connection: u32, bytes: u64) {
        self.write(connection, 1, bytes);
    }

    fn finish(&mut self, connection: u32) {
        Scope::finish(self, connection, 1);
    }

    fn release(&mut self, _connection: u32) -> bool {
        false
    }

    fn is_over(&mut self, connection: u32) -> bool {
        if let Some(streams) = &self.streams {
            return streams.is_over(connection);
        }
        let entry = self.net.connection(connection);
        entry.is_none_or(|entry| entry.ends.iter().all(|end| end.tcp.is_closed()))
    }

    fn forget(&mut self, connection: u32) {
        let mut past = self.past.as_deref().copied().unwrap_or_default();
        past.add(self, connection);
        **self.past.get_or_insert_default() = past;
        match &mut self.streams {
            Some(streams) => streams.driver().forget(connection),
            None => self.net.close(connection),
        }
    }

    fn reset(&mut self, connection: u32) {
        if let Some(streams) = &mut self.streams {
            return streams.reset(self.net, connection);
        }
        if let Some(entry) = self.net.connection(connection) {
            entry.ends[0].tcp.abort();
            self.net.flush(EndId::new(connection, 0));
        }
        self.net.close(connection);
    }

    fn retransmits(&mut self, connection: u32) -> Option<u64> {
        self.statistics(connection).map(|[client, _]| client.retransmits)
    }

    fn report(&mut self, report: Report) {
        let ideal = Some(&*self.parameters.ideal);
        self.transfers.extend(self.tally.report(self.parameters.id, ideal, report));
    }
}

/// Passes an event of a connection to its state machine.
pub(super) fn on_event<W: Workload>(
    flow: &mut W,
    scope: &mut Scope<'_>,
    event: &ConnectionEvent,
) -> Progress {
    let side = if event.end.side() == 0 { Side::Client } else { Side::Server };
    let connection = event.end.connection();
    if side == W::RECEIVER && scope.tag_mut(connection).is_some() {
        scope.tally.received += event.bytes;
    }
    let state = event.state.unwrap_or_default();
    let event = workload::Event {
        bytes: event.bytes,
        established: state.established,
        finished: state.finished,
        closed: state.closed,
        ..workload::Event::new(connection, side, scope.net.now)
    };
    flow.on_event(scope, &event)
}

/// Updates the counters from the current and the closed connections.
pub(super) fn observe(flow: &impl Workload, scope: &mut Scope<'_>) {
    let past = scope.past.as_deref().copied().unwrap_or_default();
    let Observed { retransmits, timeouts, .. } = past;
    let mut observed = Observed { retransmits, timeouts, ..Observed::default() };
    for connection in flow.connections() {
        observed.add(scope, connection);
    }
    observed.report(scope.tally);
}
