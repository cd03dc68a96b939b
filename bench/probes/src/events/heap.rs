//! Heaps with a sequence number, so that events with equal times stay in order.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::Queue;

/// The binary heap of the standard library.
#[derive(Default)]
pub(crate) struct Binary {
    heap: BinaryHeap<Reverse<(u64, u64, u32)>>,
    sequence: u64,
}

impl Queue for Binary {
    fn add(&mut self, at: u64, event: u32) {
        self.heap.push(Reverse((at, self.sequence, event)));
        self.sequence += 1;
    }

    fn take(&mut self) -> Option<(u64, u32)> {
        self.heap.pop().map(|Reverse((at, _, event))| (at, event))
    }
}

const ARITY: usize = 4;

/// Four children per node: half the levels, and siblings are usually in one or two cache lines.
#[derive(Default)]
pub(crate) struct Quaternary {
    heap: Vec<(u64, u64, u32)>,
    sequence: u64,
}

impl Queue for Quaternary {
    fn add(&mut self, at: u64, event: u32) {
        let entry = (at, self.sequence, event);
        self.sequence += 1;
        let mut hole = self.heap.len();
        self.heap.push(entry);
        while hole > 0 {
            let parent = (hole - 1) / ARITY;
            if self.heap[parent].0 <= at {
                break;
            }
            self.heap[hole] = self.heap[parent];
            hole = parent;
        }
        self.heap[hole] = entry;
    }

    fn take(&mut self) -> Option<(u64, u32)> {
        let last = self.heap.pop()?;
        let Some(&(at, _, event)) = self.heap.first() else { return Some((last.0, last.2)) };
        // The hole moves down to a leaf, because the last element usually belongs there.
        let mut hole = 0;
        loop {
            let child = hole * ARITY + 1;
            let Some(least) = (child..(child + ARITY).min(self.heap.len()))
                .min_by_key(|n| (self.heap[*n].0, self.heap[*n].1))
            else {
                break;
            };
            self.heap[hole] = self.heap[least];
            hole = least;
        }
        while hole > 0 {
            let parent = (hole - 1) / ARITY;
            if (self.heap[parent].0, self.heap[parent].1) <= (last.0, last.1) {
                break;
            }
            self.heap[hole] = self.heap[parent];
            hole = parent;
        }
        self.heap[hole] = last;
        Some((at, event))
    }
}
