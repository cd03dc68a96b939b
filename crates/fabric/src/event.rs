//! The event queue: a total order by (time, sequence).

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use base::Time;

/// Pending events, earliest first, equals in the order in which they were added.
#[derive(Debug)]
pub struct EventQueue<T> {
    heap: BinaryHeap<Reverse<(Time, u64, T)>>,
    sequence: u64,
}

impl<T: Ord> Default for EventQueue<T> {
    fn default() -> Self {
        Self { heap: BinaryHeap::new(), sequence: 0 }
    }
}

impl<T: Copy + Ord> EventQueue<T> {
    /// Adds an event; `at` is not before the last one that was taken.
    pub fn push(&mut self, at: Time, event: T) {
        self.heap.push(Reverse((at, self.sequence, event)));
        self.sequence += 1;
    }

    /// When the earliest is due.
    pub fn next_time(&self) -> Option<Time> {
        self.heap.peek().map(|Reverse((at, _, _))| *at)
    }

    /// Takes the earliest if it is due by `until`.
    pub fn pop_until(&mut self, until: Time) -> Option<(Time, T)> {
        if self.next_time()? > until {
            return None;
        }
        self.heap.pop().map(|Reverse((at, _, event))| (at, event))
    }

    /// Bytes of memory in use.
    pub fn memory(&self) -> u64 {
        (self.heap.capacity() * size_of::<(Time, u64, T)>()) as u64
    }
}
