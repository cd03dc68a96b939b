//! Finds a message boundary where none is known: after a gap, at the start of a capture, and after
//! bytes that are not a message.
//!
//! # Problem
//!
//! A remote AS chooses the bytes of attributes. An attribute can contain whole messages, one
//! after the other, and the last one can end exactly where the enclosing message ends. Without
//! the header of the enclosing message, no byte distinguishes an embedded message from a real
//! one. Two facts cannot be forged: no message exceeds the maximum length, and an idle sender has
//! finished its message.
//!
//! # Method
//!
//! The first message boundary is within the maximum length. So each valid header there starts a
//! chain: its length leads to the next header, and so on. A chain ends where the next header is
//! invalid; two chains that meet continue as one. The real boundaries are one of the chains. When
//! all positions were tried and one chain is left, its next boundary is real, and messages are
//! delivered from there on. No earlier bytes are delivered, so none have to be stored.
//!
//! A boundary of a chain is also real if the sender was idle there.
//!
//! A capture may start with a message. Its first bytes are held, and delivered as
//! *unconfirmed* if the stream ends before a real boundary is found: a capture of a few
//! messages has no other evidence.

use std::collections::BTreeSet;

use base::Time;
use bgp::{HEADER, MARKER, MessageType};

/// Bytes from the start of a capture, and their times.
#[derive(Debug, Default)]
pub(super) struct Held {
    pub(super) bytes: Vec<u8>,
    times: Vec<(usize, Time)>,
}

impl Held {
    /// Time of the byte before `end`.
    pub(super) fn time(&self, end: usize) -> Time {
        let at = self.times.partition_point(|(until, _)| *until < end);
        self.times.get(at).map_or(Time::ZERO, |(_, time)| *time)
    }
}

#[derive(Debug)]
pub(super) struct Resync {
    max: u64,
    seen: u64,
    tail: Vec<u8>,
    tried: u64,
    chains: BTreeSet<u64>,
    held: Option<Held>,
    dropped: u64,
}

impl Resync {
    /// A search before the first byte. `hold`: the capture starts here.
    pub(super) fn new(max: usize, hold: bool) -> Self {
        Self {
            max: max as u64,
            seen: 0,
            tail: Vec::new(),
            tried: 0,
            chains: BTreeSet::new(),
            held: hold.then(Held::default),
            dropped: 0,
        }
    }

    pub(super) fn memory(&self) -> usize {
        let held = self.held.as_ref().map_or(0, |held| held.bytes.capacity());
        self.tail.capacity() + held + self.chains.len() * 16
    }

    pub(super) const fn skipped(&self) -> u64 {
        self.dropped + self.seen
    }

    /// Whether the following bytes `next` start a message if the sender was idle before.
    pub(super) fn is_boundary(&self, next: &[u8]) -> bool {
        (self.seen == 0 || self.chains.contains(&self.seen)) && is_beginning(next)
    }

    /// Searches the next bytes. When a boundary is found: the number of bytes before it,
    /// and the rest.
    pub(super) fn data(&mut self, time: Time, bytes: &[u8]) -> Option<(u64, Vec<u8>)> {
        self.hold(time, bytes);
        self.tail.extend_from_slice(bytes);
        self.seen += bytes.len() as u64;
        let first = self.seen - self.tail.len() as u64;
        // Headers before this position are complete.
        let last = (self.seen + 1).saturating_sub(HEADER as u64);
        let length = |at: u64| {
            let header = self.tail.get((at - first) as usize..)?.first_chunk()?;
            header_length(header).filter(|length| *length <= self.max)
        };
        let limit = last.min(self.max);
        for at in self.tried..limit {
            self.chains.extend(length(at).map(|length| at + length));
        }
        self.tried = self.tried.max(limit);
        let complete = self.tried == self.max;
        while let Some(at) = self.chains.first().copied()
            && at < last
            && !(complete && self.chains.len() == 1)
        {
            self.chains.remove(&at);
            self.chains.extend(length(at).map(|length| at + length));
        }
        if complete && self.chains.is_empty() {
            self.restart(last);
        }
        let found = self.chains.first().copied();
        let found = found.filter(|at| complete && self.chains.len() == 1 && *at <= self.seen);
        if let Some(at) = found {
            return Some((self.dropped + at, self.tail.split_off((at - first) as usize)));
        }
        self.tail.drain(..self.tail.len() - self.tail.len().min(HEADER - 1));
        None
    }

    fn hold(&mut self, time: Time, bytes: &[u8]) {
        let Some(held) = &mut self.held else { return };
        held.bytes.extend_from_slice(bytes);
        held.times.push((held.bytes.len(), time));
        if held.bytes.len() as u64 > self.max || !is_beginning(&held.bytes) {
            self.held = None;
        }
    }

    /// No chain is left: these bytes are not BGP. Restarts at `position`.
    fn restart(&mut self, position: u64) {
        self.dropped += position;
        self.seen -= position;
        (self.tried, self.held) = (0, None);
    }

    /// Ends the stream: returns the held bytes.
    pub(super) fn end(self) -> Held {
        self.held.unwrap_or_default()
    }
}

/// Whether a message may start with these bytes.
pub(super) fn is_beginning(bytes: &[u8]) -> bool {
    match bytes.first_chunk() {
        Some(header) => header_length(header).is_some(),
        None => bytes.iter().zip(MARKER).all(|(byte, marker)| *byte == marker),
    }
}

/// Length of a message with this header, if it is valid.
fn header_length(header: &[u8; HEADER]) -> Option<u64> {
    if header[..MARKER.len()] != MARKER {
        return None;
    }
    let length = usize::from(u16::from_be_bytes([header[16], header[17]]));
    let fits = match MessageType(header[18]) {
        MessageType::OPEN => length >= 29,
        MessageType::UPDATE | MessageType::ROUTE_REFRESH => length >= 23,
        MessageType::NOTIFICATION => length >= 21,
        MessageType::KEEPALIVE => length == HEADER,
        _ => false,
    };
    fits.then_some(length as u64)
}
