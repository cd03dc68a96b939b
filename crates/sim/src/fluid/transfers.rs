//! Many transfers, each over a connection of its own.

use base::{Bytes, RandomStream, Time};
use lab::plan::Traffic;
use outcome::Tally;
use record::Transfer;
use transport::workload::{Arrivals, Sizes};

use super::flow::{Progress, Scope};
use super::net::{Net, News};

/// Transfers under way, and when the next begins.
pub(super) struct Transfers {
    sizes: Sizes,
    arrivals: Arrivals,
    /// Transfers still to begin; `None`: without end.
    left: Option<u64>,
    /// When the next begins, of an open loop.
    next: Time,
    /// Whether one is to begin later.
    awaited: bool,
    size_stream: RandomStream,
    time_stream: RandomStream,
    /// Those under way; a stream's tag is its place here.
    active: Vec<Active>,
    /// Segments that those which are over had to send again.
    again: u64,
}

#[derive(Clone, Copy)]
struct Active {
    stream: u32,
    start: Time,
    size: u64,
}

impl Transfers {
    pub(super) fn open(scope: &mut Scope<'_>) -> Self {
        let Traffic::Transfers { sizes, arrivals, count, .. } = &scope.given.spec.traffic else {
            unreachable!("only flows of transfers are opened as such")
        };
        let mut app = Self {
            sizes: sizes.clone(),
            arrivals: arrivals.clone(),
            left: *count,
            next: scope.now(),
            awaited: true,
            size_stream: scope.random("sizes"),
            time_stream: scope.random("arrivals"),
            active: Vec::new(),
            again: 0,
        };
        app.next = scope.now() + app.arrivals.first(&mut app.time_stream);
        scope.wake(app.next);
        app
    }

    pub(super) fn on_news(&mut self, scope: &mut Scope<'_>, news: News) -> Progress {
        match news {
            News::Wake { .. } => self.on_wake(scope),
            News::Ready { stream } => {
                let (_, tag) = scope.net.stream(stream);
                scope.net.send(stream, self.active[tag as usize].size as f64);
            }
            News::Arrived { stream } => self.complete(scope, stream),
            _ => {}
        }
        if !self.awaited && self.active.is_empty() {
            return Progress::Done(scope.now());
        }
        Progress::Going
    }

    fn on_wake(&mut self, scope: &mut Scope<'_>) {
        self.awaited = false;
        if self.left == Some(0) {
            return;
        }
        self.left = self.left.map(|left| left - 1);
        let size = self.sizes.draw(&mut self.size_stream).max(1);
        let [stream, _] = scope.connect(self.active.len() as u32, false);
        self.active.push(Active { stream, start: scope.now(), size });
        scope.tally.transfers_started += 1;
        scope.tally.sent += size;
        if !self.arrivals.is_closed_loop() && self.left != Some(0) {
            self.next += self.arrivals.gap(&mut self.time_stream);
            self.awaited = true;
            scope.wake(self.next);
        }
    }

    /// All of a transfer has arrived.
    fn complete(&mut self, scope: &mut Scope<'_>, stream: u32) {
        let (_, tag) = scope.net.stream(stream);
        let Active { start, size, .. } = self.active.swap_remove(tag as usize);
        if let Some(moved) = self.active.get(tag as usize) {
            scope.net.set_tag(moved.stream, tag);
        }
        scope.tally.received += scope.net.arrived(stream, true);
        let (size, again) = (Bytes::new(size), scope.net.lost(stream));
        self.again += again;
        let transfer = Transfer {
            flow: scope.given.id,
            start,
            size,
            completion: Some(scope.now().since(start)),
            ideal: Some(scope.given.ideal.completion(size)),
            retransmits: Some(again),
        };
        scope.net.close(stream);
        scope.tally.transfer(&transfer);
        scope.transfers.push(transfer);
        if self.arrivals.is_closed_loop() && self.left != Some(0) {
            let at = scope.now() + self.arrivals.gap(&mut self.time_stream);
            self.awaited = true;
            scope.wake(at);
        }
    }

    pub(super) fn observe(&mut self, net: &mut Net, tally: &mut Tally) {
        tally.retransmits = self.again;
        for active in &self.active {
            tally.received += net.arrived(active.stream, false);
            tally.retransmits += net.lost(active.stream);
        }
        if let Some(active) = self.active.first() {
            let (rtt, window) = net.observe(active.stream);
            tally.srtt = Some(rtt);
            tally.window_bytes = Some(window);
        }
    }

    pub(super) fn close(&mut self, scope: &mut Scope<'_>) {
        for active in self.active.drain(..) {
            let size = Bytes::new(active.size);
            scope.transfers.push(Transfer {
                flow: scope.given.id,
                start: active.start,
                size,
                completion: None,
                ideal: Some(scope.given.ideal.completion(size)),
                retransmits: None,
            });
            scope.net.close(active.stream);
        }
    }
}
