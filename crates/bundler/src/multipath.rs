//! Whether the paths of a bundle are out of balance: load balancing by flow hash over paths whose
//! queues differ, which one rate cannot control (the Bundler paper, §5.3).
//!
//! A congestion ACK counts as out of order if the packet it tells of reached the receivebox after
//! one that had been sent later. Sent and received times decide, each by its own box's clock, not
//! the order in which the ACKs come back: reordering on the way back is none of the bundle's.
//!
//! //= deviation: packets sent closer together than a tolerance are in order either way. Members
//! of a load-balancing group differ by some milliseconds of propagation, which is harmless; queues
//! that differ for long do so by more. The prototype only logged the fraction; when to return to
//! control is defined here.

use std::collections::VecDeque;

use base::{Ratio, Span, Time};

/// How many of the newest ACKs are looked at.
const WINDOW: usize = 200;

/// Fewer say nothing.
const ENOUGH: usize = 100;

/// Older ones say nothing.
const AGE: Span = Span::from_secs(10);

/// Out of balance above this percentage ...
const ENTER_PERCENT: usize = 5;

/// ... and in balance again below this ...
const LEAVE_PERCENT: usize = 2;

/// ... for this long.
const LEAVE_AFTER: Span = Span::from_secs(10);

/// The tolerance is this at least, ...
const TOLERANCE: Span = Span::from_millis(8);

/// ... and this fraction of the least round trip.
const TOLERANCE_OF_ROUND_TRIP: u64 = 8;

/// Watches the order of congestion ACKs.
#[derive(Debug, Default)]
pub struct Multipath {
    /// (received at, sent at) in the order of the former.
    acks: VecDeque<(Time, Time)>,
    late: usize,
    imbalanced: bool,
    /// Since when the fraction has been below the lower threshold.
    balanced_since: Option<Time>,
}

impl Multipath {
    /// Nothing seen yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// An ACK for a packet sent at `sent_at` (the sendbox's clock) and received at `received_at`
    /// (the receivebox's), on a path of this least round trip.
    pub fn observe(&mut self, now: Time, sent_at: Time, received_at: Time, min_rtt: Span) {
        let place = self.acks.partition_point(|(received, _)| *received <= received_at);
        self.acks.insert(place, (received_at, sent_at));
        let newest = self.acks.back().map_or(Time::ZERO, |(received, _)| *received);
        while self.acks.len() > WINDOW
            || self.acks.front().is_some_and(|(received, _)| newest.since(*received) > AGE)
        {
            self.acks.pop_front();
        }
        let share = Span::from_nanos(min_rtt.as_nanos() / TOLERANCE_OF_ROUND_TRIP);
        self.count(TOLERANCE.max(share));
        self.conclude(now);
    }

    /// Forgets what was seen: another receivebox, whose clock is another.
    pub fn restart(&mut self) {
        self.acks.clear();
        self.late = 0;
        self.balanced_since = None;
    }

    /// The fraction of ACKs out of order among the newest.
    pub fn fraction(&self) -> Ratio {
        let all = self.acks.len().max(1) as u64;
        Ratio::from_parts_per_billion(self.late as u64 * 1_000_000_000 / all)
    }

    /// Whether the paths are out of balance.
    pub fn imbalanced(&self) -> bool {
        self.imbalanced
    }

    fn count(&mut self, tolerance: Span) {
        let mut last = Time::ZERO;
        self.late = 0;
        for (_, sent) in &self.acks {
            self.late += usize::from(*sent + tolerance < last);
            last = last.max(*sent);
        }
    }

    fn conclude(&mut self, now: Time) {
        if self.acks.len() < ENOUGH {
            return;
        }
        if self.late * 100 > ENTER_PERCENT * self.acks.len() {
            self.imbalanced = true;
        }
        if self.late * 100 >= LEAVE_PERCENT * self.acks.len() {
            self.balanced_since = None;
            return;
        }
        let since = *self.balanced_since.get_or_insert(now);
        if now.since(since) >= LEAVE_AFTER {
            self.imbalanced = false;
        }
    }
}
