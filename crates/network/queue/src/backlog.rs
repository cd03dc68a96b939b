//! Building blocks of disciplines: a list of packets, limits, classes, ECN marking.

use std::collections::VecDeque;

use crate::{Ecn, QueueLimit, Queued};

/// A list of packets with its total bytes.
#[derive(Debug)]
pub(crate) struct Backlog {
    pub(crate) entries: VecDeque<Queued>,
    pub(crate) bytes: u64,
}

impl Backlog {
    pub(crate) const fn new() -> Self {
        Self { entries: VecDeque::new(), bytes: 0 }
    }

    #[inline]
    pub(crate) fn push(&mut self, entry: Queued) {
        self.bytes += u64::from(entry.size);
        self.entries.push_back(entry);
    }

    #[inline]
    pub(crate) fn pop(&mut self) -> Option<Queued> {
        let entry = self.entries.pop_front()?;
        self.bytes -= u64::from(entry.size);
        Some(entry)
    }

    #[inline]
    pub(crate) fn pop_last(&mut self) -> Option<Queued> {
        let entry = self.entries.pop_back()?;
        self.bytes -= u64::from(entry.size);
        Some(entry)
    }

    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    #[inline]
    pub(crate) fn drain(&mut self) -> Vec<Queued> {
        self.bytes = 0;
        self.entries.drain(..).collect()
    }
}

/// Whether one more packet of `size` would exceed the limit of a queue with this content.
#[inline]
pub(crate) fn full(limit: QueueLimit, packets: usize, bytes: u64, size: u32) -> bool {
    match limit {
        QueueLimit::Packets(most) => packets >= most as usize,
        QueueLimit::Bytes(most) => bytes + u64::from(size) > most.count(),
    }
}

#[inline]
pub(crate) fn over(limit: QueueLimit, packets: usize, bytes: u64) -> bool {
    match limit {
        QueueLimit::Packets(most) => packets > most as usize,
        QueueLimit::Bytes(most) => bytes > most.count(),
    }
}

/// The class of a DSCP among `classes`, 0 with the highest priority: the eight class selectors (RFC
/// 2474 §4.2.2) are spread evenly, so that CS0 is in the last class and CS7 in the first.
pub(crate) fn class_of(dscp: u8, classes: usize) -> usize {
    (7 - usize::from(dscp >> 3).min(7)) * classes / 8
}

/// Marks a packet if it is ECN-capable; returns whether it was marked.
pub(crate) fn mark(entry: &mut Queued, enabled: bool) -> bool {
    if !enabled || entry.ecn == Ecn::NotCapable {
        return false;
    }
    entry.ecn = Ecn::Marked;
    true
}
