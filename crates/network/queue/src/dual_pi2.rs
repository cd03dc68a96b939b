//! `DualPI2` (RFC 9332, appendix A): a queue for L4S traffic beside one for classic traffic, with
//! coupled marking.
//!
//! Packets with ECT(1) or CE are in the L queue, others in the C queue. A PI controller on the
//! longer delay of the two computes a base probability p′: classic packets are dropped or marked
//! with p′², L4S packets are marked with at least 2 p′, so that a scalable flow gets about the rate
//! of a classic one. Decisions are deterministic: they occur when the sum of the probabilities
//! reaches one (`recur` of appendix A). The scheduler is weighted round robin.

use base::{Span, Time};

use crate::backlog::{Backlog, Load, mark};
use crate::{DropReason, Ecn, Queue, Queued, Verdicts};

/// `DualPI2`'s parameters.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Parameters {
    /// Target delay of the C queue.
    pub(crate) target: Span,
    /// Delay of the L queue at which each packet is marked.
    pub(crate) step: Span,
    pub(crate) ecn: bool,
}

/// Interval of the controller, and the maximum round-trip time for which it is stable (appendix
/// A.1).
const UPDATE: Span = Span::from_millis(16);
const MAX_RTT_SECONDS: f64 = 0.1;
/// Gains in Hz: 0.1 · `UPDATE` / `MAX_RTT`², and 0.3 / `MAX_RTT`.
const ALPHA: f64 = 0.1 * 0.016 / (MAX_RTT_SECONDS * MAX_RTT_SECONDS);
const BETA: f64 = 0.3 / MAX_RTT_SECONDS;
/// Factor from p′ to the probability of L4S marks (§2.1).
const COUPLING: f64 = 2.0;
/// Maximum classic probability: the traffic does not respond above it (appendix A.1).
const MAX_CLASSIC: f64 = 0.25;
/// Bytes of the L queue up to which no packet is marked for its delay (appendix A.1, `Th_len`).
const SHORT_QUEUE: u64 = 1538;
/// Weights of the scheduler: at least a tenth of the rate is for the C queue (§2.5.1
/// requires a bounded priority).
const WEIGHTS: [i64; 2] = [9, 1];
/// Intervals after which the base probability is 0 without a queue: 1 / (α · 15 ms).
const IDLE_INTERVALS: u64 = 500;

/// The two queues.
#[derive(Debug)]
pub(crate) struct DualPi2 {
    parameters: Parameters,
    l4s: Backlog,
    classic: Backlog,
    /// Base probability p′.
    base: f64,
    /// Longer delay of the two queues at the last update, in seconds.
    last_delay: f64,
    next_update: Option<Time>,
    /// Sums of the probabilities: of classic signals, of L4S marks, of drops of L4S packets.
    sums: [f64; 3],
    /// Bytes by which the L queue is ahead of its share, times the other queue's weight.
    ahead: i64,
}

/// Adds a probability to its sum; true when the sum reaches one.
fn recurs(sum: &mut f64, probability: f64) -> bool {
    *sum += probability;
    let due = *sum >= 1.0;
    if due {
        *sum -= 1.0;
    }
    due
}

fn delay(backlog: &Backlog, now: Time) -> f64 {
    backlog.entries.front().map_or(0.0, |head| now.since(head.since).as_secs_f64())
}

impl DualPi2 {
    pub(crate) fn new(parameters: Parameters) -> Self {
        Self {
            parameters,
            l4s: Backlog::default(),
            classic: Backlog::default(),
            base: 0.0,
            last_delay: 0.0,
            next_update: None,
            sums: [0.0; 3],
            ahead: 0,
        }
    }

    /// Makes up for the updates since the last packet.
    fn catch_up(&mut self, now: Time) {
        let next = *self.next_update.get_or_insert(now + UPDATE);
        if now < next {
            return;
        }
        let missed = now.since(next).as_nanos() / UPDATE.as_nanos() + 1;
        let delay = delay(&self.classic, now).max(delay(&self.l4s, now));
        let target = self.parameters.target.as_secs_f64();
        for _ in 0..missed.min(IDLE_INTERVALS) {
            self.base += ALPHA * (delay - target) + BETA * (delay - self.last_delay);
            self.base = self.base.clamp(0.0, 1.0);
            self.last_delay = delay;
        }
        self.next_update = Some(next + UPDATE * missed);
    }

    /// Whether the L queue is next. It is ahead while its delay is low, and the C queue gets its
    /// share.
    fn serves_l4s(&mut self) -> bool {
        match (self.l4s.entries.front(), self.classic.entries.front()) {
            (Some(head), Some(_)) if self.ahead <= 0 => {
                self.ahead += WEIGHTS[1] * i64::from(head.size);
                true
            }
            (Some(_), Some(head)) => {
                self.ahead -= WEIGHTS[0] * i64::from(head.size);
                false
            }
            (l4s, _) => {
                self.ahead = 0;
                l4s.is_some()
            }
        }
    }

    /// The next packet of the L queue, or `None` if it was dropped.
    fn signal_l4s(
        &mut self,
        now: Time,
        load: &mut Load,
        verdicts: &mut Verdicts,
    ) -> Option<Queued> {
        let mut entry = self.l4s.pop(load)?;
        let classic = self.base * self.base;
        let is_overloaded = classic >= MAX_CLASSIC;
        if is_overloaded && recurs(&mut self.sums[2], classic) {
            verdicts.drop(entry, DropReason::Early);
            return None;
        }
        let is_late = now.since(entry.since) > self.parameters.step && self.l4s.bytes > SHORT_QUEUE;
        let coupled = (COUPLING * self.base).min(1.0);
        let probability = if is_late { 1.0 } else { coupled };
        if recurs(&mut self.sums[1], probability) && mark(&mut entry, self.parameters.ecn) {
            verdicts.marked += 1;
        }
        Some(entry)
    }

    /// The next packet of the C queue, or `None` if it was dropped.
    fn signal_classic(&mut self, load: &mut Load, verdicts: &mut Verdicts) -> Option<Queued> {
        let mut entry = self.classic.pop(load)?;
        let classic = self.base * self.base;
        if recurs(&mut self.sums[0], classic) {
            let may_mark = self.parameters.ecn && classic < MAX_CLASSIC;
            if !mark(&mut entry, may_mark) {
                verdicts.drop(entry, DropReason::Early);
                return None;
            }
            verdicts.marked += 1;
        }
        Some(entry)
    }
}

impl Queue for DualPi2 {
    fn enqueue(&mut self, now: Time, entry: Queued, load: &mut Load, verdicts: &mut Verdicts) {
        self.catch_up(now);
        if load.is_full(entry.size) {
            return verdicts.drop(entry, DropReason::QueueFull);
        }
        self.push(entry, load);
    }

    fn dequeue(&mut self, now: Time, load: &mut Load, verdicts: &mut Verdicts) -> Option<Queued> {
        self.catch_up(now);
        while load.packets > 0 {
            let entry = if self.serves_l4s() {
                self.signal_l4s(now, load, verdicts)
            } else {
                self.signal_classic(load, verdicts)
            };
            if entry.is_some() {
                return entry;
            }
        }
        None
    }

    fn push(&mut self, entry: Queued, load: &mut Load) {
        let is_l4s = matches!(entry.ecn, Ecn::L4s | Ecn::Marked);
        if is_l4s { &mut self.l4s } else { &mut self.classic }.push(entry, load);
    }

    fn drain(&mut self) -> Vec<Queued> {
        let mut entries = self.l4s.drain();
        entries.extend(self.classic.drain());
        entries
    }
}
