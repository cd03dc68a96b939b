//! Adapters from streams of the fluid engine to the traffic state machines.
//!
//! A connection has the number of its client-to-server stream.

use base::{RandomStream, Time};
use run::FlowCounters;
use workload::{Event, Progress, Report, Side, Transport, Workload};

use super::flow::Scope;
use super::net::{Net, Notification};

impl Transport for Scope<'_> {
    fn now(&self) -> Time {
        self.net.now
    }

    fn random(&self, purpose: &str) -> RandomStream {
        self.parameters.stream(purpose)
    }

    fn connect(&mut self, tag: u32, payload: Option<u64>) -> u32 {
        self.tally.sent += payload.unwrap_or(0);
        let hash = self.new_hash();
        let [there, _] = self.net.connect(self.parameters.flow, hash, tag, payload.is_none());
        self.net.send_when_ready(there, payload.unwrap_or(0) as f64);
        there
    }

    fn tag(&mut self, connection: u32) -> Option<u32> {
        Some(self.net.stream(connection).1)
    }

    fn set_tag(&mut self, connection: u32, tag: u32) {
        self.net.set_tag(connection, tag);
    }

    fn request(&mut self, connection: u32, _number: u32, bytes: u64) {
        self.tally.sent += bytes;
        self.net.send(connection, bytes as f64);
    }

    fn respond(&mut self, connection: u32, bytes: u64) {
        let back = self.net.ends_of(connection)[1];
        self.net.send(back, bytes as f64);
    }

    fn release(&mut self, connection: u32) -> bool {
        *self.past += self.net.lost(connection);
        self.reset(connection);
        true
    }

    fn reset(&mut self, connection: u32) {
        for stream in self.net.ends_of(connection) {
            self.net.close(stream);
        }
    }

    fn retransmits(&mut self, connection: u32) -> Option<u64> {
        Some(self.net.lost(connection))
    }

    fn report(&mut self, report: Report) {
        let ideal = Some(&*self.parameters.ideal);
        self.transfers.extend(self.tally.report(self.parameters.id, ideal, report));
    }
}

/// Passes a notification to a state machine, and schedules its next deadline.
pub(super) fn on_notification<W: Workload>(
    flow: &mut W,
    scope: &mut Scope<'_>,
    notification: Notification,
) -> Progress {
    let (before, now) = (flow.next_wake(), scope.net.now);
    let progress = match notification {
        Notification::Ready { stream } => {
            let ready = Event { established: true, ..Event::new(stream, Side::Client, now) };
            flow.on_event(scope, &ready)
        }
        Notification::Arrived { stream } => {
            let [connection, back] = scope.net.ends_of(stream);
            let side =
                if stream == back && connection != back { Side::Client } else { Side::Server };
            if side == W::RECEIVER {
                scope.tally.received += scope.net.arrived(stream, true);
            }
            // Everything that was sent has arrived.
            let arrived = Event { bytes: u64::MAX, ..Event::new(connection, side, now) };
            flow.on_event(scope, &arrived)
        }
        _ => flow.on_wake(scope),
    };
    let next = flow.next_wake().filter(|_| progress == Progress::Going);
    if let Some(at) = next.filter(|_| next != before) {
        scope.wake(at);
    }
    progress
}

/// Updates the counters of received and lost data.
pub(super) fn observe<W: Workload>(flow: &W, past: u64, net: &mut Net, tally: &mut FlowCounters) {
    tally.retransmits = past;
    for connection in flow.connections() {
        let [there, back] = net.ends_of(connection);
        tally.received +=
            net.arrived(if W::RECEIVER == Side::Server { there } else { back }, false);
        tally.retransmits += net.lost(there);
        if back != there {
            tally.retransmits += net.lost(back);
        }
    }
    if let Some(connection) = flow.connections().next() {
        let (rtt, window) = net.observe(connection);
        tally.srtt = Some(rtt);
        tally.window_bytes = Some(window);
    }
}
