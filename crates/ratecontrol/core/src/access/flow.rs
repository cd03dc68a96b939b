//! The record of one flow: its session, queue and end.

use base::{Bandwidth, Span, Time};

use super::policy::{Policy, Seen};
use super::shaper::Shaper;
use super::usage::Usage;
use crate::SessionId;

#[derive(Debug)]
pub(super) struct Flow<K, P> {
    pub(super) key: K,
    /// The session of the flow, while it has one.
    pub(super) session: Option<SessionId>,
    /// Deadline of its timer entry.
    pub(super) armed: Option<Time>,
    phase: Phase,
    /// Initial sequence number of the SYN.
    initial: Option<u32>,
    /// Whether a FIN was sent in this direction, and received from the other.
    closed: [bool; 2],
    last_seen: Time,
    shaper: Shaper<P>,
    usage: Usage,
    /// Rate for data, once it is assigned.
    rate: Option<Bandwidth>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Open,
    /// This direction has sent its FIN; wait for that of the other until this time.
    Closing(Time),
    /// RST, or FIN in both directions: leave at the next step.
    Closed,
    /// The session has left. Until this time late packets are recognised.
    Departed(Time),
}

/// Next step of a flow.
#[derive(Debug)]
pub(super) enum Step<P> {
    /// Send a packet with this number of bytes.
    Release(u32, P),
    /// Request another rate.
    Change(Bandwidth),
    Leave,
    /// Delete the record.
    Forget,
    /// Nothing until this time.
    Wait(Time),
}

impl<K, P> Flow<K, P> {
    pub(super) fn new(now: Time, key: K, policy: &Policy) -> Self {
        Self {
            key,
            session: None,
            armed: None,
            phase: Phase::Open,
            initial: None,
            closed: [false; 2],
            last_seen: now,
            shaper: Shaper::new(now, policy.initial),
            usage: Usage::new(now),
            rate: None,
        }
    }

    /// Processes a SYN; returns whether it opens another connection than the known one.
    pub(super) fn reopen(&mut self, now: Time, initial: u32, policy: &Policy) -> bool {
        let known = self.initial.replace(initial);
        let ended = matches!(self.phase, Phase::Closed | Phase::Departed(_));
        // If no SYN was seen before, this one belongs to the flow.
        if !ended && known.is_none_or(|known| known == initial) {
            return false;
        }
        self.phase = Phase::Open;
        self.closed = [false; 2];
        self.rate = None;
        self.usage = Usage::new(now);
        self.shaper.set_rate(now, Some(policy.initial));
        true
    }

    /// Queues a packet; returns it if the queue is full.
    pub(super) fn enqueue(
        &mut self,
        now: Time,
        policy: &Policy,
        seen: Seen,
        packet: P,
        room: u64,
    ) -> Option<P> {
        self.last_seen = now;
        self.usage.stir(now);
        self.shaper.push(policy, seen, packet, room)
    }

    /// Processes a FIN or RST of the other direction.
    pub(super) fn hear(&mut self, seen: Seen) {
        self.closed[1] |= seen.fin;
        if seen.rst || self.closed == [true; 2] {
            self.close();
        }
    }

    fn close(&mut self) {
        if !matches!(self.phase, Phase::Departed(_)) {
            self.phase = Phase::Closed;
        }
    }

    /// Processes a sent packet. Its flags take effect only now, because earlier data may
    /// have been queued.
    fn sent(&mut self, now: Time, policy: &Policy, seen: Seen) {
        self.usage.count(seen.bytes);
        self.closed[0] |= seen.fin;
        if seen.rst || self.closed == [true; 2] {
            self.close();
        } else if seen.fin && self.phase == Phase::Open {
            self.phase = Phase::Closing(now + policy.linger);
        }
    }

    /// Sets the rate for data.
    pub(super) fn assign(&mut self, now: Time, rate: Bandwidth) {
        // A rate of 0 would keep packets, and the record, forever.
        let rate = rate.max(Bandwidth::from_bits_per_sec(1));
        self.rate = Some(rate);
        self.shaper.set_rate(now, Some(rate));
    }

    /// The flow has no session, and passes unshaped.
    pub(super) fn release_from_control(&mut self, now: Time) {
        (self.session, self.rate) = (None, None);
        self.shaper.set_rate(now, None);
    }

    /// The next step at `now`.
    pub(super) fn step(&mut self, now: Time, policy: &Policy) -> Step<P> {
        if let Some((seen, packet)) = self.shaper.pop(now) {
            self.sent(now, policy, seen);
            return Step::Release(seen.bytes, packet);
        }
        if let Some(step) = self.end(now, policy) {
            return step;
        }
        if self.session.is_some() {
            if !self.shaper.is_empty()
                && self.shaper.wait(now) >= policy.min_wait
                && let Some(demand) = self.usage.press()
            {
                return Step::Change(demand);
            }
            if self.usage.next(policy).is_some_and(|at| at <= now)
                && let Some(demand) = self.usage.judge(now, policy, self.rate)
            {
                return Step::Change(demand);
            }
        }
        Step::Wait(self.deadline(policy))
    }

    /// The next step concerning the end of the flow.
    fn end(&mut self, now: Time, policy: &Policy) -> Option<Step<P>> {
        let silent = self.last_seen + policy.idle <= now;
        let over = match self.phase {
            // Packets sent before the end are still queued.
            _ if !self.shaper.is_empty() => false,
            Phase::Open => silent,
            Phase::Closing(until) => until <= now || silent,
            Phase::Closed => true,
            Phase::Departed(until) => return (until <= now).then_some(Step::Forget),
        };
        if !over {
            return None;
        }
        // After an idle timeout there are no late packets.
        let until = if self.phase == Phase::Open { now } else { now + policy.linger };
        self.phase = Phase::Departed(until);
        Some(Step::Leave)
    }

    fn deadline(&self, policy: &Policy) -> Time {
        let end = match self.phase {
            Phase::Open | Phase::Closed => self.last_seen + policy.idle,
            Phase::Closing(until) => until.min(self.last_seen + policy.idle),
            Phase::Departed(until) => until,
        };
        if let Some(release) = self.shaper.next() {
            // The end waits for queued packets.
            return self.judged(policy).map_or(release, |judge| judge.min(release));
        }
        self.judged(policy).map_or(end, |judge| judge.min(end))
    }

    fn judged(&self, policy: &Policy) -> Option<Time> {
        let window = policy.window.max(Span::from_nanos(1));
        let policy = Policy { window, ..*policy };
        self.session.and_then(|_| self.usage.next(&policy))
    }
}
