//! Bulk TCP: as fast as possible or at an offered rate, over one or several connections.

use base::Time;
use workload::Transport;
use workload::bulk::{BulkFlow, even_part};

use super::{ConnectionEvent, Observed, Progress, Scope};
use crate::net::EndId;

/// Minimum send buffer of a connection if several connections share the payload.
const MIN_SEND_BUFFER: u64 = 128 << 10;

/// The connections of a flow.
#[derive(Debug)]
pub(crate) struct Bulk {
    connections: Vec<Stream>,
    flow: BulkFlow,
}

#[derive(Clone, Copy, Debug)]
struct Stream {
    connection: u32,
    written: u64,
    received: u64,
}

impl Bulk {
    pub(super) fn open(scope: &mut Scope<'_>, flow: BulkFlow, streams: u32) -> Self {
        let mut app = Self { connections: Vec::with_capacity(streams as usize), flow };
        scope.tally.start_gap_measurement(scope.net.now);
        for tag in 0..streams {
            let connection = scope.open(tag);
            scope.hold(connection, app.flow.is_paused());
            app.connections.push(Stream { connection, written: 0, received: 0 });
            if app.flow.is_unlimited() {
                scope.write_unlimited(connection, 0);
            } else if !app.flow.is_offered() {
                app.refill(scope, tag as usize);
            }
            scope.flush(EndId::new(connection, 0));
        }
        app
    }

    pub(super) fn next_wake(&self) -> Option<Time> {
        self.flow.next_wake(true)
    }

    pub(super) fn on_wake(&mut self, scope: &mut Scope<'_>) -> Progress {
        if self.flow.on_wake(scope.net.now) {
            let progress = self.hold(scope);
            if progress != Progress::Going {
                return progress;
            }
        }
        self.offer_more(scope);
        Progress::Going
    }

    /// Pauses or resumes the receiver's reads.
    fn hold(&mut self, scope: &mut Scope<'_>) -> Progress {
        let paused = self.flow.is_paused();
        let ends: Vec<_> = self.connections.iter().map(|s| EndId::new(s.connection, 1)).collect();
        for end in ends {
            scope.hold(end.connection(), paused);
            let bytes = scope.take_waiting(end.connection());
            scope.flush(end);
            let progress = self.on_event(scope, &ConnectionEvent { end, bytes, state: None });
            if progress != Progress::Going {
                return progress;
            }
        }
        Progress::Going
    }

    fn offer_more(&mut self, scope: &mut Scope<'_>) {
        if !self.flow.is_offered() {
            return;
        }
        let bytes = self.flow.writable(scope.net.now);
        if bytes == 0 {
            return;
        }
        let streams = self.connections.len() as u64;
        for (place, stream) in (0..).zip(&mut self.connections) {
            let share = even_part(bytes, streams, place);
            scope.write(stream.connection, 0, share);
            stream.written += share;
        }
        scope.tally.sent += bytes;
        self.flow.on_written(bytes);
        if self.flow.is_written() {
            self.connections.iter().for_each(|stream| scope.finish(stream.connection, 0));
        }
        for stream in &self.connections {
            scope.flush(EndId::new(stream.connection, 0));
        }
    }

    /// Fills a connection's send buffer: with all remaining payload if it is the only
    /// connection, otherwise up to [`MIN_SEND_BUFFER`] plus twice its congestion window, like a
    /// kernel's send buffer autotuning.
    fn refill(&mut self, scope: &mut Scope<'_>, index: usize) {
        let alone = self.connections.len() == 1;
        let stream = &mut self.connections[index];
        let bytes = if alone {
            self.flow.left()
        } else {
            let Some([client, _]) = scope.statistics(stream.connection) else { return };
            let wanted = MIN_SEND_BUFFER + 2 * client.cwnd.count();
            wanted.saturating_sub(stream.written - stream.received).min(self.flow.left())
        };
        if bytes == 0 {
            return;
        }
        scope.write(stream.connection, 0, bytes);
        stream.written += bytes;
        scope.tally.sent += bytes;
        self.flow.on_written(bytes);
        if self.flow.is_written() {
            for stream in &self.connections {
                scope.finish(stream.connection, 0);
                scope.flush(EndId::new(stream.connection, 0));
            }
        }
    }

    pub(super) fn on_event(&mut self, scope: &mut Scope<'_>, event: &ConnectionEvent) -> Progress {
        if event.end.side() == 1 && event.bytes > 0 {
            let index =
                scope.tag_mut(event.end.connection()).map_or(usize::MAX, |tag| *tag as usize);
            scope.tally.received += event.bytes;
            scope.tally.on_bytes_received(scope.net.now);
            if let Some(stream) = self.connections.get_mut(index) {
                stream.received += event.bytes;
            }
            if self.flow.on_received(event.bytes) {
                return Progress::Done(scope.net.now);
            }
            let is_supplied = self.flow.is_unlimited() || self.flow.is_offered();
            if !is_supplied && !self.flow.is_written() {
                self.refill(scope, index);
                scope.flush(EndId::new(event.end.connection(), 0));
            }
        }
        if event.is_closed() {
            return Progress::Failed("its connection was aborted");
        }
        Progress::Going
    }

    pub(super) fn observe(&mut self, scope: &mut Scope<'_>) {
        let mut observed = Observed::default();
        for stream in &mut self.connections {
            observed.add(scope, stream.connection);
            if self.flow.is_unlimited() {
                let sent = scope.sent(stream.connection);
                scope.tally.sent += sent.saturating_sub(stream.written);
                stream.written = stream.written.max(sent);
            }
        }
        observed.report(scope.tally);
    }

    pub(super) fn close(&mut self, scope: &mut Scope<'_>) {
        scope.tally.stop_gap_measurement(scope.net.now);
        for stream in self.connections.drain(..) {
            scope.reset(stream.connection);
        }
    }
}
