//! FIFO queues: drop-tail, drop-head, and a policer before a drop-tail queue.

use base::{Bandwidth, Bytes, Time};

use crate::backlog::{Backlog, Load};
use crate::{DropReason, Queue, Queued, Verdicts};

/// The packet that is dropped when the queue is full.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Full {
    /// The arriving packet is dropped.
    DropTail,
    /// The oldest packet is dropped.
    DropHead,
}

/// A list: drop-tail or drop-head.
#[derive(Debug)]
pub(crate) struct Fifo {
    backlog: Backlog,
    when_full: Full,
}

impl Fifo {
    pub(crate) fn new(when_full: Full) -> Self {
        Self { backlog: Backlog::default(), when_full }
    }
}

impl Queue for Fifo {
    #[inline]
    fn enqueue(&mut self, _now: Time, entry: Queued, load: &mut Load, verdicts: &mut Verdicts) {
        while load.is_full(entry.size) {
            let oldest = match self.when_full {
                Full::DropTail => None,
                Full::DropHead => self.backlog.pop(load),
            };
            let Some(oldest) = oldest else {
                return verdicts.drop(entry, DropReason::QueueFull);
            };
            verdicts.drop(oldest, DropReason::QueueFull);
        }
        self.backlog.push(entry, load);
    }

    #[inline]
    fn dequeue(&mut self, _now: Time, load: &mut Load, _: &mut Verdicts) -> Option<Queued> {
        self.backlog.pop(load)
    }

    fn push(&mut self, entry: Queued, load: &mut Load) {
        self.backlog.push(entry, load);
    }

    fn drain(&mut self) -> Vec<Queued> {
        self.backlog.drain()
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
    pub(crate) fn new(rate: Bandwidth, burst: Bytes) -> Self {
        Self {
            rate,
            burst: burst.count(),
            tokens: u128::from(burst.count()) * 8 * BIT,
            refilled: Time::ZERO,
            queue: Fifo::new(Full::DropTail),
        }
    }
}

impl Queue for Policer {
    fn enqueue(&mut self, now: Time, entry: Queued, load: &mut Load, verdicts: &mut Verdicts) {
        let elapsed = now.since(self.refilled).as_nanos();
        self.refilled = now;
        let refill = u128::from(elapsed) * u128::from(self.rate.bits_per_sec());
        self.tokens = (self.tokens + refill).min(u128::from(self.burst) * 8 * BIT);
        let cost = u128::from(entry.size) * 8 * BIT;
        if cost > self.tokens {
            return verdicts.drop(entry, DropReason::Policed);
        }
        self.tokens -= cost;
        self.queue.enqueue(now, entry, load, verdicts);
    }

    fn dequeue(&mut self, now: Time, load: &mut Load, verdicts: &mut Verdicts) -> Option<Queued> {
        self.queue.dequeue(now, load, verdicts)
    }

    fn push(&mut self, entry: Queued, load: &mut Load) {
        self.queue.push(entry, load);
    }

    fn drain(&mut self) -> Vec<Queued> {
        self.queue.drain()
    }
}
