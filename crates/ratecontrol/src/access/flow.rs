//! The record of one flow: whether it is a session, what waits of it, when it ends.

use base::{Bandwidth, Span, Time};

use super::shaper::Shaper;
use super::usage::Usage;
use super::{Policy, Seen};
use crate::SessionId;

/// A flow.
#[derive(Debug)]
pub(super) struct Flow<K, P> {
    pub(super) key: K,
    /// The session that it is, while it is one.
    pub(super) session: Option<SessionId>,
    /// When its entry among the timers is due.
    pub(super) armed: Option<Time>,
    phase: Phase,
    /// Initial sequence number of the SYN that was seen.
    initial: Option<u32>,
    /// FIN seen: of this direction as it was sent on, and of the other.
    closed: [bool; 2],
    last_seen: Time,
    shaper: Shaper<P>,
    usage: Usage,
    /// What data may use, once it was assigned.
    rate: Option<Bandwidth>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Open,
    /// This direction has sent its FIN; the other is waited for until then.
    Closing(Time),
    /// RST, or FIN both ways: to leave as soon as it is noticed.
    Closed,
    /// It has left. Until then what comes late is known as such.
    Departed(Time),
}

/// What a flow has to do.
#[derive(Debug)]
pub(super) enum Step<P> {
    /// Send a packet of so many bytes on.
    Release(u32, P),
    /// Ask for another rate.
    Change(Bandwidth),
    /// Leave.
    Leave,
    /// Its record may go.
    Forget,
    /// Nothing before then.
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

    /// A SYN has come. Whether it opens another connection than the one that was known.
    pub(super) fn reopen(&mut self, now: Time, initial: u32, policy: &Policy) -> bool {
        let known = self.initial.replace(initial);
        let ended = matches!(self.phase, Phase::Closed | Phase::Departed(_));
        // Without a SYN before it, the flow has begun with this one.
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

    /// Queues a packet; gives it back if there is no room.
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

    /// A FIN or RST of the other direction.
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

    /// A packet is sent on, and counts only now: data before it may have waited.
    fn sent(&mut self, now: Time, policy: &Policy, seen: Seen) {
        self.usage.count(seen.bytes);
        self.closed[0] |= seen.fin;
        if seen.rst || self.closed == [true; 2] {
            self.close();
        } else if seen.fin && self.phase == Phase::Open {
            self.phase = Phase::Closing(now + policy.linger);
        }
    }

    /// Data may use this from now on.
    pub(super) fn assign(&mut self, now: Time, rate: Bandwidth) {
        // A rate of nothing would keep packets, and the record, for ever.
        let rate = rate.max(Bandwidth::from_bits_per_sec(1));
        self.rate = Some(rate);
        self.shaper.set_rate(now, Some(rate));
    }

    /// It is no session, and passes unshaped.
    pub(super) fn release_from_control(&mut self, now: Time) {
        (self.session, self.rate) = (None, None);
        self.shaper.set_rate(now, None);
    }

    /// The next thing to do at `now`.
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
                && self.shaper.wait(now) >= policy.patience
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

    /// What there is to do about its end.
    fn end(&mut self, now: Time, policy: &Policy) -> Option<Step<P>> {
        let silent = self.last_seen + policy.idle <= now;
        let over = match self.phase {
            // What was sent before the end is still on its way.
            _ if !self.shaper.is_empty() => false,
            Phase::Open => silent,
            Phase::Closing(until) => until <= now || silent,
            Phase::Closed => true,
            Phase::Departed(until) => return (until <= now).then_some(Step::Forget),
        };
        if !over {
            return None;
        }
        // After silence nothing comes late.
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
            // Its end waits for its packets.
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
