//! The event queue: a total order by time, first in first out among equal times.
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
//! When the front is empty, the first bucket moves to it and the horizon to the bucket's end; a
//! large bucket is spread over the level below first. Where an event lies depends only on its time
//! and the horizon, and buckets are lists: equal times stay in the order in which they came
//! without a sequence number.

use base::Time;

mod front;
#[cfg(test)]
mod tests;
mod wheel;

use front::Front;
use wheel::Wheel;

/// Buckets of up to this many events go to the front as they are.
const SMALL: usize = 64;
/// Buckets follow one another into the front until it holds this many.
const FILL: usize = 8;
/// A front beyond this gives its later part back to the wheel.
const FULL: usize = 96;

/// An event and its time in nanoseconds.
#[derive(Clone, Copy, Debug)]
struct Entry<T> {
    at: u64,
    event: T,
}

/// Pending events, earliest first, equals in the order in which they were added.
///
/// Cost: constant in the number of pending events (each moves down at most once a level); memory
/// is reused, and grows only beyond the most that was ever pending.
#[derive(Debug)]
pub struct EventQueue<T> {
    front: Front<T>,
    wheel: Wheel<T>,
    /// Every event up to here is in front, every later one in the wheel.
    horizon: u64,
    /// The time last taken; shares with the horizon all digits above the lowest level in use.
    taken: u64,
    /// The earliest, if there is one.
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
    /// Adds an event; `at` is not before the last one that was taken.
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

    /// When the earliest is due.
    #[inline]
    pub fn next_time(&self) -> Option<Time> {
        (self.len > 0).then(|| Time::from_nanos(self.next))
    }

    /// Takes the earliest if it is due by `until`.
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

    /// The next events, in order; some of them, and none right after the last of the known was
    /// taken. For reading ahead what they need.
    pub fn upcoming(&self) -> impl ExactSizeIterator<Item = &T> {
        self.front.iter()
    }

    /// How many events are pending.
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

    /// Moves the next events from the wheel to the empty front, and the horizon with them. Only
    /// the taker does so: a push may still come before what the wheel holds.
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
                // Those at its very start are in front already.
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

    /// Lowers the horizon so that the later half of the front, and what else is beyond, returns to
    /// the wheel. A front of one time only stays: there the next event is always the last.
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
