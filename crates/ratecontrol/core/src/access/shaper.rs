//! A queue from which packets leave at a rate.

use std::collections::VecDeque;

use base::{Bandwidth, Span, Time};

use super::policy::{Policy, Seen};

/// Packets of one flow, spaced so that each leaves when the transmission time of the previous one
/// has passed. Credit is not accumulated: an idle flow starts with one packet.
#[derive(Debug)]
pub(super) struct Shaper<P> {
    waiting: VecDeque<(Seen, P)>,
    bytes: u64,
    /// `None`: packets leave at once.
    rate: Option<Bandwidth>,
    /// Remaining transmission of sent packets in 10⁻⁹ bit, at `settled`.
    debt: u128,
    settled: Time,
}

impl<P> Shaper<P> {
    pub(super) fn new(now: Time, rate: Bandwidth) -> Self {
        Self { waiting: VecDeque::new(), bytes: 0, rate: Some(rate), debt: 0, settled: now }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Sets the rate; `None`: packets leave at once.
    pub(super) fn set_rate(&mut self, now: Time, rate: Option<Bandwidth>) {
        self.settle(now);
        self.rate = rate;
    }

    fn settle(&mut self, now: Time) {
        // At most 2⁶⁴ · 2⁶⁴.
        let paid = self.rate.map_or(u128::MAX, |rate| {
            u128::from(rate.bits_per_sec()) * u128::from(now.since(self.settled).as_nanos())
        });
        self.debt = self.debt.saturating_sub(paid);
        self.settled = self.settled.max(now);
    }

    /// Queues a packet; returns it if its queue, or `room`, is too small.
    pub(super) fn push(&mut self, policy: &Policy, seen: Seen, packet: P, room: u64) -> Option<P> {
        let bytes = u64::from(seen.bytes);
        let by_time = self.rate.map_or(u64::MAX, |rate| rate.bytes_in(policy.queue).count());
        let limit = by_time.max(policy.queue_least.count()).min(policy.queue_most.count());
        if bytes > room || (!self.waiting.is_empty() && self.bytes + bytes > limit) {
            return Some(packet);
        }
        self.bytes += bytes;
        self.waiting.push_back((seen, packet));
        None
    }

    /// Queueing time of a packet that arrives now.
    pub(super) fn wait(&mut self, now: Time) -> Span {
        self.settle(now);
        let bits = self.debt + u128::from(self.bytes) * 8_000_000_000;
        self.time_for(bits)
    }

    fn time_for(&self, bits: u128) -> Span {
        let Some(rate) = self.rate else { return Span::ZERO };
        let rate = u128::from(rate.bits_per_sec());
        match bits.checked_div(rate) {
            Some(nanos) => {
                let more = u128::from(nanos * rate < bits);
                Span::from_nanos(u64::try_from(nanos + more).unwrap_or(u64::MAX))
            }
            None if bits == 0 => Span::ZERO,
            None => Span::MAX,
        }
    }

    /// Time at which the first packet may leave.
    pub(super) fn next(&self) -> Option<Time> {
        (!self.waiting.is_empty()).then(|| self.settled + self.time_for(self.debt))
    }

    /// Removes the first packet, if it may leave now.
    pub(super) fn pop(&mut self, now: Time) -> Option<(Seen, P)> {
        if self.next()? > now {
            return None;
        }
        self.settle(now);
        let (seen, packet) = self.waiting.pop_front()?;
        self.bytes -= u64::from(seen.bytes);
        self.debt += u128::from(seen.bytes) * 8_000_000_000;
        Some((seen, packet))
    }
}
