//! Bulk traffic: payload as fast as the network accepts it or at an application's rate, over one or
//! several connections, and the detection of complete delivery.

mod offer;

use base::{Bandwidth, Bytes, Time};

use crate::pause::{Pause, Pausing};
use offer::Offer;

/// A bulk flow, without its connections.
#[derive(Clone, Debug)]
pub struct BulkFlow {
    size: Option<u64>,
    written: u64,
    received: u64,
    /// Number of connections whose receiver has not reached the end of the stream.
    open: u32,
    offer: Option<Offer>,
    pausing: Pausing,
}

impl BulkFlow {
    /// A flow over `connections` that starts now, with a total `size` (`None`: without end),
    /// offered at a rate (`None`: all at once), with a pause of the receiver.
    pub fn open(
        (size, rate): (Option<Bytes>, Option<Bandwidth>),
        pause: Option<Pause>,
        connections: u32,
        now: Time,
    ) -> Self {
        Self {
            size: size.map(Bytes::count),
            written: 0,
            received: 0,
            open: connections,
            offer: rate.map(|rate| Offer::new(rate, now)),
            pausing: Pausing::begin(pause, now),
        }
    }

    /// Payload that may be written now; [`u64::MAX`]: unlimited.
    pub fn writable(&mut self, now: Time) -> u64 {
        let left = self.left();
        self.offer
            .as_mut()
            .map_or(left, |offer| offer.advance(now).saturating_sub(self.written).min(left))
    }

    /// Payload that is not written yet; [`u64::MAX`]: without end.
    pub fn left(&self) -> u64 {
        self.size.map_or(u64::MAX, |size| size.saturating_sub(self.written))
    }

    /// Whether all payload is written.
    pub fn is_written(&self) -> bool {
        self.left() == 0
    }

    /// Whether an application limits the rate.
    pub const fn is_offered(&self) -> bool {
        self.offer.is_some()
    }

    /// Whether neither an application nor a size limits the flow.
    pub const fn is_unlimited(&self) -> bool {
        self.size.is_none() && self.offer.is_none()
    }

    /// Counts payload accepted by a connection.
    pub const fn on_written(&mut self, bytes: u64) {
        self.written += bytes;
    }

    /// Counts received payload; returns whether everything has arrived.
    pub fn on_received(&mut self, bytes: u64) -> bool {
        self.received += bytes;
        self.size.is_some_and(|size| self.received >= size)
    }

    /// The receiver of a connection has reached the end of the stream; returns whether it
    /// was the last one.
    pub const fn on_end(&mut self) -> bool {
        self.open = self.open.saturating_sub(1);
        self.open == 0
    }

    /// Whether the receivers of all connections have reached the end of the stream.
    pub const fn has_ended(&self) -> bool {
        self.open == 0
    }

    /// Payload bytes written so far.
    pub const fn written(&self) -> u64 {
        self.written
    }

    /// Payload bytes received so far.
    pub const fn received(&self) -> u64 {
        self.received
    }

    pub const fn is_paused(&self) -> bool {
        self.pausing.is_paused()
    }

    /// The next deadline, at which [`Self::on_wake`] must be called; `is_idle`: all payload offered
    /// so far is written.
    pub fn next_wake(&self, is_idle: bool) -> Option<Time> {
        let offer = self.offer.as_ref().filter(|_| is_idle && !self.is_written());
        [offer.map(Offer::next), self.pausing.deadline()].into_iter().flatten().min()
    }

    /// Handles the deadline; returns whether more payload is offered or the receiver's
    /// pause starts or ends.
    pub fn on_wake(&mut self, now: Time) -> bool {
        self.pausing.advance(now)
    }
}

/// Part `index` of `total` in `parts` parts that differ by at most 1 byte.
pub fn even_part(total: u64, parts: u64, index: u64) -> u64 {
    total / parts + u64::from(index < total % parts)
}
