//! FIFO queues: drop-tail, drop-head, and a policer before a drop-tail queue.

use base::{Bandwidth, Bytes, Time};

use crate::backlog::{Backlog, full};
use crate::{DropReason, Queue, QueueLimit, Queued, Verdicts};

/// The packet that is dropped when the queue is full.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Full {
    /// The arriving packet is dropped.
    DropTail,
    /// The oldest packet is dropped.
    DropHead,
}

/// A list with a limit: drop-tail or drop-head.
#[derive(Debug)]
pub struct Fifo {
    backlog: Backlog,
    limit: QueueLimit,
    when_full: Full,
}

impl Fifo {
    pub(crate) const fn new(limit: QueueLimit, when_full: Full) -> Self {
        Self { backlog: Backlog::new(), limit, when_full }
    }

    /// Changes the limit. Packets beyond the new limit stay queued.
    pub const fn set_limit(&mut self, limit: QueueLimit) {
        self.limit = limit;
    }
}

impl Queue for Fifo {
    #[inline]
    fn enqueue(&mut self, _now: Time, entry: Queued, verdicts: &mut Verdicts) {
        while full(self.limit, self.backlog.len(), self.backlog.bytes, entry.size) {
            let oldest = match self.when_full {
                Full::DropTail => None,
                Full::DropHead => self.backlog.pop(),
            };
            let Some(oldest) = oldest else {
                return verdicts.drop(entry, DropReason::QueueFull);
            };
            verdicts.drop(oldest, DropReason::QueueFull);
        }
        self.backlog.push(entry);
    }

    #[inline]
    fn dequeue(&mut self, _now: Time, _verdicts: &mut Verdicts) -> Option<Queued> {
        self.backlog.pop()
    }

    #[inline]
    fn packets(&self) -> usize {
        self.backlog.len()
    }

    #[inline]
    fn bytes(&self) -> u64 {
        self.backlog.bytes
    }

    fn drain(&mut self) -> Vec<Queued> {
        self.backlog.drain()
    }

    fn set_limit(&mut self, limit: QueueLimit) {
        self.limit = limit;
    }

    fn restore(&mut self, entries: Vec<Queued>) {
        for entry in entries {
            self.backlog.push(entry);
        }
    }
}

/// A token bucket before a drop-tail queue; it drops packets that exceed the bucket.
#[derive(Debug)]
pub(crate) struct Policer {
    rate: Bandwidth,
    burst: u64,
    /// Tokens in bits × 10⁹, so that refilling by the nanosecond is exact.
    tokens: u128,
    refilled: Time,
    queue: Fifo,
}

const BIT: u128 = 1_000_000_000;

impl Policer {
    pub(crate) fn new(rate: Bandwidth, burst: Bytes, limit: QueueLimit) -> Self {
        Self {
            rate,
            burst: burst.count(),
            tokens: u128::from(burst.count()) * 8 * BIT,
            refilled: Time::ZERO,
            queue: Fifo::new(limit, Full::DropTail),
        }
    }
}

impl Queue for Policer {
    fn enqueue(&mut self, now: Time, entry: Queued, verdicts: &mut Verdicts) {
        let elapsed = now.since(self.refilled).as_nanos();
        self.refilled = now;
        let refill = u128::from(elapsed) * u128::from(self.rate.bits_per_sec());
        self.tokens = (self.tokens + refill).min(u128::from(self.burst) * 8 * BIT);
        let cost = u128::from(entry.size) * 8 * BIT;
        if cost > self.tokens {
            return verdicts.drop(entry, DropReason::Policed);
        }
        self.tokens -= cost;
        self.queue.enqueue(now, entry, verdicts);
    }

    fn dequeue(&mut self, now: Time, verdicts: &mut Verdicts) -> Option<Queued> {
        self.queue.dequeue(now, verdicts)
    }

    fn packets(&self) -> usize {
        self.queue.packets()
    }

    fn bytes(&self) -> u64 {
        Queue::bytes(&self.queue)
    }

    fn drain(&mut self) -> Vec<Queued> {
        self.queue.drain()
    }

    fn set_limit(&mut self, limit: QueueLimit) {
        self.queue.set_limit(limit);
    }

    fn restore(&mut self, entries: Vec<Queued>) {
        self.queue.restore(entries);
    }
}
