//! Bulk TCP: as fast as it goes, over one or several connections.

use base::Bytes;
use outcome::Tally;

use super::{News, Observed, Progress, Scope};
use crate::net::{EndId, Net};

/// What a connection of several is given at least when it takes more of what they share.
const SHARE: u64 = 128 << 10;

/// The connections of a flow.
#[derive(Debug)]
pub(crate) struct Bulk {
    connections: Vec<Stream>,
    size: Option<u64>,
    /// Payload that no connection has been given yet.
    remaining: u64,
    received: u64,
}

#[derive(Clone, Copy, Debug)]
struct Stream {
    connection: u32,
    written: u64,
    received: u64,
}

impl Bulk {
    pub(super) fn open(scope: &mut Scope<'_>, size: Option<Bytes>, streams: u32) -> Self {
        let size = size.map(Bytes::count);
        let mut app = Self {
            connections: Vec::with_capacity(streams as usize),
            size,
            remaining: size.unwrap_or(0),
            received: 0,
        };
        for tag in 0..streams {
            let connection = scope.connect(tag);
            app.connections.push(Stream { connection, written: 0, received: 0 });
            if size.is_none() {
                if let Some(connection) = scope.net.connection(connection) {
                    connection.ends[0].tcp.write_unlimited();
                }
            } else {
                app.refill(scope, tag as usize);
            }
            scope.net.flush(EndId::new(connection, 0));
        }
        app
    }

    /// Keeps a connection supplied: with all there is if it is the only one, otherwise with twice
    /// what it has in flight, as much as a kernel's send buffer would take.
    fn refill(&mut self, scope: &mut Scope<'_>, index: usize) {
        let alone = self.connections.len() == 1;
        let stream = &mut self.connections[index];
        let Some(connection) = scope.net.connection(stream.connection) else { return };
        let tcp = &mut connection.ends[0].tcp;
        let wanted = SHARE + 2 * tcp.statistics().cwnd.count();
        let missing = wanted.saturating_sub(stream.written - stream.received);
        let bytes = if alone { self.remaining } else { missing.min(self.remaining) };
        if bytes == 0 {
            return;
        }
        tcp.write(bytes);
        stream.written += bytes;
        scope.tally.sent += bytes;
        self.remaining -= bytes;
        if self.remaining == 0 {
            for stream in &self.connections {
                scope.finish(stream.connection, 0);
                scope.net.flush(EndId::new(stream.connection, 0));
            }
        }
    }

    pub(super) fn on_news(&mut self, scope: &mut Scope<'_>, news: &News) -> Progress {
        if news.end.side() == 1 && news.bytes > 0 {
            let entry = scope.net.connection(news.end.connection());
            let index = entry.map_or(usize::MAX, |entry| entry.tag as usize);
            self.received += news.bytes;
            scope.tally.received += news.bytes;
            if let Some(stream) = self.connections.get_mut(index) {
                stream.received += news.bytes;
            }
            if self.size.is_some_and(|size| self.received >= size) {
                return Progress::Done(scope.now());
            }
            if self.remaining > 0 {
                self.refill(scope, index);
                scope.net.flush(EndId::new(news.end.connection(), 0));
            }
        }
        if news.is_closed() {
            return Progress::Failed("its connection was given up");
        }
        Progress::Going
    }

    pub(super) fn observe(&mut self, net: &mut Net, tally: &mut Tally) {
        let mut observed = Observed::default();
        for stream in &mut self.connections {
            observed.add(net, stream.connection);
            if self.size.is_none()
                && let Some(connection) = net.connection(stream.connection)
            {
                let tcp = &connection.ends[0].tcp;
                let sent = tcp.acked() + tcp.statistics().in_flight.count();
                tally.sent += sent.saturating_sub(stream.written);
                stream.written = stream.written.max(sent);
            }
        }
        observed.report(tally);
    }

    pub(super) fn close(&mut self, scope: &mut Scope<'_>) {
        for stream in self.connections.drain(..) {
            scope.reset(stream.connection);
        }
    }
}
