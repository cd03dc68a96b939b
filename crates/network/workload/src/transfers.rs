//! Transfers, each over a separate connection.

use std::sync::Arc;

use base::{RandomStream, Span, Time};

use crate::{Arrivals, Completion, Event, Progress, Report, Side, Sizes, Transport, Workload};

/// Parameters of a flow of transfers.
#[derive(Clone, Debug, PartialEq)]
pub struct Transfers {
    /// Payload sizes of the transfers.
    pub sizes: Sizes,
    /// Start times of the transfers.
    pub arrivals: Arrivals,
    /// Number of transfers; `None`: until the end.
    pub count: Option<u64>,
}

/// The state of a flow of transfers.
#[derive(Debug)]
pub struct TransfersFlow {
    spec: Arc<Transfers>,
    /// Remaining transfers; `None`: without end.
    left: Option<u64>,
    /// Start of the next transfer; `None`: after another's end, or never.
    next: Option<Time>,
    sizes: RandomStream,
    arrivals: RandomStream,
    /// Active transfers; the index is the connection's tag.
    active: Vec<Active>,
    /// Number of completed transfers whose connections are closing.
    closing: usize,
    /// When the last one ended.
    last_end: Time,
    /// Further transfers are queued, and their waiting time counts.
    max_connections: usize,
}

#[derive(Clone, Copy, Debug)]
struct Active {
    connection: u32,
    start: Time,
    size: u64,
    missing: u64,
}

impl Active {
    fn report(&self, duration: Option<Span>, retransmits: Option<u64>) -> Report {
        let Self { start, size, .. } = *self;
        Report::Transfer(Completion { start, size, duration, retransmits })
    }
}

impl TransfersFlow {
    /// A flow whose first transfer starts later.
    pub fn open(spec: &Arc<Transfers>, transport: &mut impl Transport) -> Self {
        let mut arrivals = transport.random("arrivals");
        let first = transport.now() + spec.arrivals.first(&mut arrivals);
        Self {
            spec: Arc::clone(spec),
            left: spec.count,
            next: Some(first),
            sizes: transport.random("sizes"),
            arrivals,
            active: Vec::new(),
            closing: 0,
            last_end: transport.now(),
            max_connections: transport.max_connections(),
        }
    }

    fn start(&mut self, transport: &mut impl Transport, start: Time) {
        let size = self.spec.sizes.draw(&mut self.sizes).max(1);
        let connection = transport.connect(self.active.len() as u32, Some(size));
        self.active.push(Active { connection, start, size, missing: size });
        transport.report(Report::Started);
    }

    /// Handles a transfer whose data have all arrived.
    fn complete(&mut self, transport: &mut impl Transport, place: usize, at: Time) {
        let active = self.active[place];
        let retransmits = transport.retransmits(active.connection);
        transport.report(active.report(Some(at.since(active.start)), retransmits));
        self.last_end = self.last_end.max(at);
        if transport.release(active.connection) {
            self.remove(transport, place);
        } else {
            self.closing += 1;
        }
    }

    /// One end is closed: if both ends are closed or the transfer failed, the connection is
    /// removed. Returns whether the transfer failed.
    fn closed(&mut self, transport: &mut impl Transport, place: usize, at: Time) -> bool {
        let Some(active) = self.active.get(place).copied() else { return false };
        let failed = active.missing > 0;
        if !failed && !transport.is_over(active.connection) {
            return false;
        }
        if failed {
            transport.report(active.report(None, None));
            self.last_end = self.last_end.max(at);
        } else {
            self.closing -= 1;
        }
        transport.forget(active.connection);
        self.remove(transport, place);
        failed
    }

    fn remove(&mut self, transport: &mut impl Transport, place: usize) {
        self.active.swap_remove(place);
        if let Some(moved) = self.active.get(place) {
            transport.set_tag(moved.connection, place as u32);
        }
    }

    fn progress(&self) -> Progress {
        let none_left = self.next.is_none() && self.left == Some(0);
        if none_left && self.active.len() == self.closing {
            return Progress::Done(self.last_end);
        }
        Progress::Going
    }
}

impl Workload for TransfersFlow {
    const RECEIVER: Side = Side::Server;

    fn next_wake(&self) -> Option<Time> {
        self.next.filter(|_| self.active.len() < self.max_connections)
    }

    fn on_wake(&mut self, transport: &mut impl Transport) -> Progress {
        while let Some(start) = self.next_wake().filter(|next| *next <= transport.now()) {
            self.start(transport, start);
            self.left = self.left.map(|left| left.saturating_sub(1));
            let more = !self.spec.arrivals.is_closed_loop() && self.left != Some(0);
            self.next = more.then(|| start + self.spec.arrivals.gap(&mut self.arrivals));
        }
        self.progress()
    }

    fn on_event(&mut self, transport: &mut impl Transport, event: &Event) -> Progress {
        let Some(place) = transport.tag(event.connection) else { return Progress::Going };
        let place = place as usize;
        let mut ended = false;
        if event.side == Side::Server {
            let Some(active) = self.active.get_mut(place) else { return Progress::Going };
            let missing = active.missing;
            active.missing = missing.saturating_sub(event.bytes);
            if missing > 0 && active.missing == 0 {
                self.complete(transport, place, event.at);
                ended = true;
            }
            if event.finished {
                transport.finish(event.connection);
            }
        }
        if event.closed {
            ended |= self.closed(transport, place, event.at);
        }
        let is_closed_loop = self.spec.arrivals.is_closed_loop();
        if ended && is_closed_loop && self.left != Some(0) {
            let gap = self.spec.arrivals.gap(&mut self.arrivals);
            self.next = Some((event.at + gap).max(transport.now()));
        }
        // In an open loop, start a transfer that has waited for this end; those due now
        // have their own wake-up.
        let now = transport.now();
        let is_due = |next: Time| next < now || is_closed_loop && next == now;
        if ended && self.next_wake().is_some_and(is_due) {
            return self.on_wake(transport);
        }
        self.progress()
    }

    fn connections(&self) -> impl Iterator<Item = u32> {
        self.active.iter().map(|active| active.connection)
    }

    fn close(&mut self, transport: &mut impl Transport) {
        for active in std::mem::take(&mut self.active) {
            if active.missing > 0 {
                transport.report(active.report(None, None));
            }
            transport.reset(active.connection);
        }
        self.closing = 0;
    }
}
