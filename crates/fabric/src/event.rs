//! The event queue: a total order by (time, sequence).

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use base::Time;

/// What happens.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Event {
    /// The packet in transmission on a link direction has left.
    Transmitted(u32),
    /// The first packet in flight on a link direction arrives.
    Arrival(u32),
}

/// Pending events, earliest first, equals in the order in which they were added.
#[derive(Debug, Default)]
pub(crate) struct EventQueue {
    heap: BinaryHeap<Reverse<(Time, u64, Event)>>,
    sequence: u64,
}

impl EventQueue {
    pub(crate) fn push(&mut self, at: Time, event: Event) {
        self.heap.push(Reverse((at, self.sequence, event)));
        self.sequence += 1;
    }

    pub(crate) fn next_time(&self) -> Option<Time> {
        self.heap.peek().map(|Reverse((at, _, _))| *at)
    }

    pub(crate) fn pop_until(&mut self, until: Time) -> Option<(Time, Event)> {
        if self.next_time()? > until {
            return None;
        }
        self.heap.pop().map(|Reverse((at, _, event))| (at, event))
    }
}
