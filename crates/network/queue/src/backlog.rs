//! Building blocks of disciplines: a list of packets, limits, classes, ECN marking.

use std::collections::VecDeque;

use crate::{Ecn, QueueLimit, Queued};

/// The content of a queue, over all its lists, and its limit.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Load {
    pub(crate) limit: QueueLimit,
    pub(crate) packets: usize,
    pub(crate) bytes: u64,
}

impl Load {
    /// Whether one more packet of `size` would exceed the limit.
    #[inline]
    pub(crate) fn is_full(&self, size: u32) -> bool {
        match self.limit {
            QueueLimit::Packets(max) => self.packets >= max as usize,
            QueueLimit::Bytes(max) => self.bytes + u64::from(size) > max.count(),
        }
    }

    pub(crate) fn is_over(&self) -> bool {
        match self.limit {
            QueueLimit::Packets(max) => self.packets > max as usize,
            QueueLimit::Bytes(max) => self.bytes > max.count(),
        }
    }

    #[inline]
    fn add(&mut self, entry: &Queued) {
        self.packets += 1;
        self.bytes += u64::from(entry.size);
    }

    #[inline]
    fn remove(&mut self, entry: &Queued) {
        self.packets -= 1;
        self.bytes -= u64::from(entry.size);
    }

    pub(crate) fn clear(&mut self) {
        (self.packets, self.bytes) = (0, 0);
    }
}

/// A list of packets with its total bytes. `load` is that of its queue.
#[derive(Debug, Default)]
pub(crate) struct Backlog {
    pub(crate) entries: VecDeque<Queued>,
    pub(crate) bytes: u64,
}

impl Backlog {
    #[inline]
    pub(crate) fn push(&mut self, entry: Queued, load: &mut Load) {
        load.add(&entry);
        self.bytes += u64::from(entry.size);
        self.entries.push_back(entry);
    }

    #[inline]
    pub(crate) fn pop(&mut self, load: &mut Load) -> Option<Queued> {
        let entry = self.entries.pop_front()?;
        load.remove(&entry);
        self.bytes -= u64::from(entry.size);
        Some(entry)
    }

    #[inline]
    pub(crate) fn pop_last(&mut self, load: &mut Load) -> Option<Queued> {
        let entry = self.entries.pop_back()?;
        load.remove(&entry);
        self.bytes -= u64::from(entry.size);
        Some(entry)
    }

    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Removes all packets; the caller clears the load.
    pub(crate) fn drain(&mut self) -> Vec<Queued> {
        self.bytes = 0;
        self.entries.drain(..).collect()
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
