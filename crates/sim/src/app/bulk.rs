//! Bulk TCP: as fast as it goes or at the rate that is offered, over one or several connections.

use base::{Bandwidth, Bytes, Span, Time};
use lab::plan::{Pause, Pausing};

use super::{News, Observed, Progress, Scope};
use crate::net::EndId;

/// What a connection of several is given at least when it takes more of what they share.
const SHARE: u64 = 128 << 10;

/// An application that offers payload at a rate writes this much at once …
const PIECE: Bytes = Bytes::new(16 << 10);
/// … but at such intervals.
const TICKS: [Span; 2] = [Span::from_millis(1), Span::from_millis(10)];

/// The connections of a flow.
#[derive(Debug)]
pub(crate) struct Bulk {
    connections: Vec<Stream>,
    size: Option<u64>,
    /// Payload that no connection has been given yet.
    remaining: u64,
    received: u64,
    offer: Option<Offer>,
    /// When the receiver does not read.
    pausing: Pausing,
}

#[derive(Clone, Copy, Debug)]
struct Stream {
    connection: u32,
    written: u64,
    received: u64,
}

/// What an application offers that does not send as fast as it goes.
#[derive(Clone, Copy, Debug)]
struct Offer {
    rate: Bandwidth,
    began: Time,
    tick: Span,
    next: Time,
    /// Payload offered so far.
    bytes: u64,
}

impl Offer {
    fn begin(now: Time, rate: Bandwidth) -> Self {
        let tick = rate.time_for(PIECE).clamp(TICKS[0], TICKS[1]);
        Self { rate, began: now, tick, next: now, bytes: 0 }
    }

    /// What is to be written now; sets the time of the next piece.
    fn take(&mut self, now: Time, most: u64) -> u64 {
        self.next = now + self.tick;
        // The piece of the tick that begins now.
        let due = self.rate.bytes_in(self.next.since(self.began)).count();
        let bytes = due.saturating_sub(self.bytes).min(most);
        self.bytes += bytes;
        bytes
    }
}

impl Bulk {
    pub(super) fn open(
        scope: &mut Scope<'_>,
        size: Option<Bytes>,
        streams: u32,
        rate: Option<Bandwidth>,
        pause: Option<Pause>,
    ) -> Self {
        let size = size.map(Bytes::count);
        let mut app = Self {
            connections: Vec::with_capacity(streams as usize),
            size,
            remaining: size.unwrap_or(if rate.is_some() { u64::MAX } else { 0 }),
            received: 0,
            offer: rate.map(|rate| Offer::begin(scope.now(), rate)),
            pausing: Pausing::begin(pause, scope.now()),
        };
        scope.tally.begin_waiting(scope.net.now);
        for tag in 0..streams {
            let connection = scope.connect(tag);
            scope.hold(connection, app.pausing.is_paused());
            app.connections.push(Stream { connection, written: 0, received: 0 });
            if app.offer.is_some() {
                // Its first piece follows at once.
            } else if size.is_none() {
                scope.write_unlimited(connection, 0);
            } else {
                app.refill(scope, tag as usize);
            }
            scope.flush(EndId::new(connection, 0));
        }
        app
    }

    pub(super) fn deadline(&self) -> Option<Time> {
        let offer = self.offer.filter(|_| self.remaining > 0).map(|offer| offer.next);
        [offer, self.pausing.deadline()].into_iter().flatten().min()
    }

    /// The application offers its next piece, or begins or ends its pause.
    pub(super) fn on_wake(&mut self, scope: &mut Scope<'_>) -> Progress {
        if self.pausing.advance(scope.now()) {
            let progress = self.hold(scope);
            if progress != Progress::Going {
                return progress;
            }
        }
        self.offer_more(scope);
        Progress::Going
    }

    /// The receiver reads no more, or again.
    fn hold(&mut self, scope: &mut Scope<'_>) -> Progress {
        let paused = self.pausing.is_paused();
        let ends: Vec<_> = self.connections.iter().map(|s| EndId::new(s.connection, 1)).collect();
        for end in ends {
            scope.hold(end.connection(), paused);
            let bytes = scope.take_waiting(end.connection());
            scope.flush(end);
            let progress = self.on_news(scope, &News { end, bytes, state: None });
            if progress != Progress::Going {
                return progress;
            }
        }
        Progress::Going
    }

    fn offer_more(&mut self, scope: &mut Scope<'_>) {
        let now = scope.now();
        let Some(offer) = self.offer.as_mut().filter(|offer| offer.next <= now) else {
            return;
        };
        let bytes = offer.take(now, self.remaining);
        let streams = self.connections.len() as u64;
        for (place, stream) in (0..).zip(&mut self.connections) {
            // Shares differ by a byte at most.
            let share = bytes / streams + u64::from(place < bytes % streams);
            scope.write(stream.connection, 0, share);
            stream.written += share;
        }
        scope.tally.sent += bytes;
        self.remaining -= bytes;
        if self.remaining == 0 {
            self.connections.iter().for_each(|stream| scope.finish(stream.connection, 0));
        }
        for stream in &self.connections {
            scope.flush(EndId::new(stream.connection, 0));
        }
    }

    /// Keeps a connection supplied: with all there is if it is the only one, otherwise with twice
    /// what it has in flight, as much as a kernel's send buffer would take.
    fn refill(&mut self, scope: &mut Scope<'_>, index: usize) {
        let alone = self.connections.len() == 1;
        let stream = &mut self.connections[index];
        let bytes = if alone {
            self.remaining
        } else {
            let Some([client, _]) = scope.statistics(stream.connection) else { return };
            let wanted = SHARE + 2 * client.cwnd.count();
            wanted.saturating_sub(stream.written - stream.received).min(self.remaining)
        };
        if bytes == 0 {
            return;
        }
        scope.write(stream.connection, 0, bytes);
        stream.written += bytes;
        scope.tally.sent += bytes;
        self.remaining -= bytes;
        if self.remaining == 0 {
            for stream in &self.connections {
                scope.finish(stream.connection, 0);
                scope.flush(EndId::new(stream.connection, 0));
            }
        }
    }

    pub(super) fn on_news(&mut self, scope: &mut Scope<'_>, news: &News) -> Progress {
        if news.end.side() == 1 && news.bytes > 0 {
            let index = scope.tag(news.end.connection()).map_or(usize::MAX, |tag| *tag as usize);
            self.received += news.bytes;
            scope.tally.received += news.bytes;
            scope.tally.heard(scope.net.now);
            if let Some(stream) = self.connections.get_mut(index) {
                stream.received += news.bytes;
            }
            if self.size.is_some_and(|size| self.received >= size) {
                return Progress::Done(scope.now());
            }
            if self.remaining > 0 && self.offer.is_none() {
                self.refill(scope, index);
                scope.flush(EndId::new(news.end.connection(), 0));
            }
        }
        if news.is_closed() {
            return Progress::Failed("its connection was given up");
        }
        Progress::Going
    }

    pub(super) fn observe(&mut self, scope: &mut Scope<'_>) {
        let mut observed = Observed::default();
        for stream in &mut self.connections {
            observed.add(scope, stream.connection);
            if self.size.is_none() && self.offer.is_none() {
                let sent = scope.sent(stream.connection);
                scope.tally.sent += sent.saturating_sub(stream.written);
                stream.written = stream.written.max(sent);
            }
        }
        observed.report(scope.tally);
    }

    pub(super) fn close(&mut self, scope: &mut Scope<'_>) {
        scope.tally.end_waiting(scope.net.now);
        for stream in self.connections.drain(..) {
            scope.reset(stream.connection);
        }
    }
}
