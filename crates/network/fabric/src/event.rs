//! The event queue: a total order by time, first in first out at equal times.
//!
//! A radix queue (R. Ahuja et al., "Faster algorithms for the shortest path problem", 1990) whose
//! buckets are those of a hierarchical timing wheel (G. Varghese and A. Lauck, 1987), with the
//! sorted bottom of a ladder queue (W. T. Tang et al., 2005) in front:
//!
//! ```text
//! push ─┬─ up to the horizon ──→ front: sorted, ← pop
//!       └─ beyond ──→ wheel: 128 buckets a level, by the highest digit
//!                     (base 128) in which time and horizon differ
//! ```
//!
//! If the front is empty, the first bucket moves to it and the horizon to the bucket's end; a large
//! bucket is first distributed to the level below. The position of an event depends only on its
//! time and the horizon, and buckets are lists: events of equal times keep their order of insertion
//! without a sequence number.

use base::Time;

mod front;
#[cfg(test)]
mod tests;
mod wheel;

use front::{Entry, Front};
use wheel::Wheel;

/// Buckets of up to this many events move to the front as a whole.
const SMALL: usize = 64;
/// Further buckets move to the front until it holds this many events.
const FILL: usize = 8;
/// Above this size, the front returns its later part to the wheel.
const FULL: usize = 96;

/// Pending events, earliest first, equal times in the order of insertion.
///
/// Cost: constant in the number of pending events (each moves down at most once per level); memory
/// is reused, and proportional to the maximum number of pending events.
#[derive(Debug)]
pub struct EventQueue<T> {
    front: Front<T>,
    wheel: Wheel<T>,
    /// Every event up to this time is in the front, every later one in the wheel.
    horizon: u64,
    /// The time last returned; equal to the horizon in all digits above the lowest level in use.
    taken: u64,
    /// Time of the earliest event, if there is one.
    next: u64,
    len: usize,
}

impl<T> Default for EventQueue<T> {
    fn default() -> Self {
        Self {
            front: Front::default(),
            wheel: Wheel::default(),
            horizon: 0,
            taken: 0,
            next: u64::MAX,
            len: 0,
        }
    }
}

impl<T: Copy> EventQueue<T> {
    /// Adds an event; `at` must not be before the last returned event.
    #[inline]
    pub fn push(&mut self, at: Time, event: T) {
        let at = at.as_nanos();
        self.len += 1;
        self.next = self.next.min(at);
        let entry = Entry { at, event };
        if at > self.horizon {
            self.wheel.put(entry, self.horizon);
        } else {
            self.front.insert(entry);
            if self.front.len() > FULL && self.horizon > self.taken {
                self.narrow();
            }
        }
    }

    /// The due time of the earliest event.
    #[inline]
    pub fn next_time(&self) -> Option<Time> {
        (self.len > 0).then(|| Time::from_nanos(self.next))
    }

    /// Removes and returns the earliest event if it is due by `until`.
    #[inline]
    pub fn pop_until(&mut self, until: Time) -> Option<(Time, T)> {
        if self.len == 0 || self.next > until.as_nanos() {
            return None;
        }
        if self.front.is_empty() {
            self.load();
        }
        let Entry { at, event } = self.front.take()?;
        self.len -= 1;
        self.taken = at;
        self.next = self.front.first().or_else(|| self.wheel.first()).unwrap_or(u64::MAX);
        Some((Time::from_nanos(at), event))
    }

    /// Some of the next events in order, for prefetching; possibly none.
    pub fn upcoming(&self) -> impl ExactSizeIterator<Item = &T> {
        self.front.iter()
    }

    /// Number of pending events.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether none is pending.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Bytes of memory in use.
    pub fn memory(&self) -> u64 {
        self.front.memory() + self.wheel.memory()
    }

    /// Moves the next events from the wheel to the empty front, and advances the horizon.
    /// Called only when an event is removed: a later push may still be earlier than the
    /// events in the wheel.
    #[inline(never)]
    fn load(&mut self) {
        while let Some(bucket) = self.wheel.lowest() {
            let size = self.wheel.size(bucket);
            let instant = self.wheel.instant(bucket);
            if size > SMALL && !instant {
                if !self.front.is_empty() {
                    return;
                }
                self.horizon = bucket.start(self.horizon);
                self.wheel.spread(bucket, self.horizon, &mut self.front);
                // Events at its start are already in the front.
                if !self.front.is_empty() {
                    return;
                }
                continue;
            }
            let held = self.front.len();
            if held > 0 && held + size > FILL {
                return;
            }
            self.horizon = bucket.end(self.horizon);
            self.wheel.empty(bucket, &mut self.front);
            if !instant {
                self.front.sort_from(held);
            }
        }
    }

    /// Lowers the horizon so that the later half of the front returns to the wheel. A front with a
    /// single time stays: there the next event is always the last.
    #[cold]
    fn narrow(&mut self) {
        let middle = self.front.middle();
        let lower = wheel::horizon_between(self.taken, middle);
        if lower < self.horizon {
            self.horizon = lower;
            self.front.split(lower, |entry| self.wheel.put(entry, lower));
        }
    }
}
