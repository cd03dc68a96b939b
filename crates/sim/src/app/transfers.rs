//! Many transfers, each over a connection of its own.

use base::{Bytes, RandomStream, Time};
use record::Transfer;
use transport::workload::{Arrivals, Sizes};

use super::{News, Observed, Progress, Scope};
use crate::net::EndId;

/// Transfers under way, and when the next begins.
#[derive(Debug)]
pub(crate) struct Transfers {
    sizes: Sizes,
    arrivals: Arrivals,
    /// Transfers still to begin; `None`: without end.
    left: Option<u64>,
    next: Option<Time>,
    size_stream: RandomStream,
    time_stream: RandomStream,
    /// Those under way; a connection's tag is its place here.
    active: Vec<Active>,
    /// Delivered whole, their connections closing.
    closing: u32,
    /// What closed connections had counted.
    past: Observed,
}

#[derive(Clone, Copy, Debug)]
struct Active {
    connection: u32,
    start: Time,
    size: u64,
    missing: u64,
}

impl Transfers {
    pub(super) fn open(
        scope: &mut Scope<'_>,
        sizes: &Sizes,
        arrivals: &Arrivals,
        count: Option<u64>,
    ) -> Self {
        let mut app = Self {
            sizes: sizes.clone(),
            arrivals: arrivals.clone(),
            left: count,
            next: None,
            size_stream: scope.given.stream("sizes"),
            time_stream: scope.given.stream("arrivals"),
            active: Vec::new(),
            closing: 0,
            past: Observed::default(),
        };
        app.next = Some(scope.now() + app.arrivals.first(&mut app.time_stream));
        app
    }

    pub(super) fn deadline(&self) -> Option<Time> {
        self.next
    }

    pub(super) fn on_wake(&mut self, scope: &mut Scope<'_>) -> Progress {
        while let Some(next) = self.next.filter(|next| *next <= scope.now()) {
            self.begin(scope);
            self.left = self.left.map(|left| left - 1);
            let more = !self.arrivals.is_closed_loop() && self.left != Some(0);
            self.next = more.then(|| next + self.arrivals.gap(&mut self.time_stream));
        }
        self.progress(scope)
    }

    fn begin(&mut self, scope: &mut Scope<'_>) {
        let size = self.sizes.draw(&mut self.size_stream).max(1);
        let connection = scope.connect(self.active.len() as u32);
        self.active.push(Active { connection, start: scope.now(), size, missing: size });
        scope.tally.transfers_started += 1;
        scope.tally.sent += size;
        scope.write(connection, 0, size);
        scope.finish(connection, 0);
        scope.flush(EndId::new(connection, 0));
    }

    pub(super) fn on_news(&mut self, scope: &mut Scope<'_>, news: &News) -> Progress {
        let id = news.end.connection();
        let Some(tag) = scope.tag(id).map(|tag| *tag as usize) else { return Progress::Going };
        let mut over = false;
        if news.end.side() == 1 {
            scope.tally.received += news.bytes;
            let Some(active) = self.active.get_mut(tag) else { return Progress::Going };
            let missing = active.missing;
            active.missing = missing.saturating_sub(news.bytes);
            if missing > 0 && active.missing == 0 {
                self.complete(scope, tag);
                over = true;
            }
            if news.state.is_some_and(|state| state.finished) {
                scope.finish(id, 1);
            }
        }
        if news.is_closed() {
            over |= self.close_connection(scope, tag);
        }
        if over && self.arrivals.is_closed_loop() && self.left != Some(0) {
            self.next = Some(scope.now() + self.arrivals.gap(&mut self.time_stream));
            if self.next == Some(scope.now()) {
                return self.on_wake(scope);
            }
        }
        self.progress(scope)
    }

    /// All of a transfer has arrived.
    fn complete(&mut self, scope: &mut Scope<'_>, tag: usize) {
        let Active { connection, start, size, .. } = self.active[tag];
        let size = Bytes::new(size);
        let retransmits = scope.statistics(connection).map(|[client, _]| client.retransmits);
        let transfer = Transfer {
            flow: scope.given.id,
            start,
            size,
            completion: Some(scope.now().since(start)),
            ideal: Some(scope.given.ideal.completion(size)),
            retransmits,
        };
        scope.tally.transfer(&transfer);
        scope.transfers.push(transfer);
        self.closing += 1;
    }

    /// One end is closed: once both are (or the transfer failed), the connection is forgotten.
    /// Tells whether the transfer ended with it.
    fn close_connection(&mut self, scope: &mut Scope<'_>, tag: usize) -> bool {
        let Some(Active { connection, start, size, missing }) = self.active.get(tag).copied()
        else {
            return false;
        };
        let failed = missing > 0;
        if !failed && !scope.is_over(connection) {
            return false;
        }
        self.past.add(scope, connection);
        if failed {
            scope.transfers.push(Transfer {
                flow: scope.given.id,
                start,
                size: Bytes::new(size),
                completion: None,
                ideal: Some(scope.given.ideal.completion(Bytes::new(size))),
                retransmits: None,
            });
        } else {
            self.closing -= 1;
        }
        scope.forget(connection);
        self.active.swap_remove(tag);
        if let Some(moved) = self.active.get(tag)
            && let Some(entry) = scope.tag(moved.connection)
        {
            *entry = tag as u32;
        }
        failed
    }

    fn progress(&self, scope: &Scope<'_>) -> Progress {
        let none_left = self.next.is_none() && self.left == Some(0);
        if none_left && self.active.len() == self.closing as usize {
            return Progress::Done(scope.now());
        }
        Progress::Going
    }

    pub(super) fn observe(&mut self, scope: &mut Scope<'_>) {
        let mut observed = self.past;
        observed.count = 0;
        observed.srtt_nanos = 0;
        observed.window = Bytes::ZERO;
        for active in &self.active {
            observed.add(scope, active.connection);
        }
        observed.report(scope.tally);
    }

    pub(super) fn close(&mut self, scope: &mut Scope<'_>) {
        for active in self.active.drain(..) {
            if active.missing > 0 {
                let size = Bytes::new(active.size);
                scope.transfers.push(Transfer {
                    flow: scope.given.id,
                    start: active.start,
                    size,
                    completion: None,
                    ideal: Some(scope.given.ideal.completion(size)),
                    retransmits: None,
                });
            }
            scope.reset(active.connection);
        }
    }
}
