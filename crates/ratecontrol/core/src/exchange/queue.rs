//! The event queue, in the order of time, then of scheduling.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use base::Time;

/// A queue of events. The heap moves only keys, not events.
pub(super) struct Queue<E> {
    keys: BinaryHeap<Reverse<(Time, u64, u32)>>,
    events: Vec<Option<E>>,
    free: Vec<u32>,
    scheduled: u64,
}

impl<E> Queue<E> {
    pub(super) fn new() -> Self {
        Self { keys: BinaryHeap::new(), events: Vec::new(), free: Vec::new(), scheduled: 0 }
    }

    pub(super) fn push(&mut self, at: Time, event: E) {
        let slot = self.free.pop().unwrap_or_else(|| {
            self.events.push(None);
            self.events.len() as u32 - 1
        });
        self.events[slot as usize] = Some(event);
        self.keys.push(Reverse((at, self.scheduled, slot)));
        self.scheduled += 1;
    }

    /// Time of the next event.
    pub(super) fn peek(&self) -> Option<Time> {
        self.keys.peek().map(|Reverse((at, ..))| *at)
    }

    pub(super) fn pop(&mut self) -> Option<E> {
        let Reverse((_, _, slot)) = self.keys.pop()?;
        self.free.push(slot);
        self.events[slot as usize].take()
    }
}
