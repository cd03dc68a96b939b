//! The sender of a paced flow: schedule and counters.

use std::collections::VecDeque;

use base::{Bandwidth, Bytes, Span, Time};

use super::assigned::Assigned;
use crate::{Datagrams, Source};

/// A sender later than this skips datagrams instead of sending them in one burst.
const MAX_LATENESS: Span = Span::from_millis(100);

/// Resolution of recorded send times.
const MARK_INTERVAL: Span = Span::from_millis(1);

#[derive(Debug)]
enum Schedule {
    Own(Source),
    Assigned(Assigned),
}

/// The sender of a paced flow, on a clock that may be late.
#[derive(Debug)]
pub struct PacedSender {
    schedule: Schedule,
    /// Time from which no datagram is due.
    end: Time,
    /// The next datagram of the schedule: due time and payload.
    ahead: Option<(Time, u32)>,
    /// Number and payload of due datagrams, all of one payload size.
    due: (u64, u32),
    left: Option<u64>,
    sent: u64,
    refused: u64,
    skipped: u64,
    last_sent: Time,
    /// Number of datagrams sent at recent times.
    marks: VecDeque<(Time, u64)>,
    stopped: bool,
}

impl PacedSender {
    /// A sender of `size` in total (`None`: without end) on a source's schedule, from `now` on.
    pub fn new(source: Source, size: Option<Bytes>, duration: Option<Span>, now: Time) -> Self {
        Self::open(Schedule::Own(source), size, duration, now)
    }

    /// A sender at the rate that rate control assigns, initially none. Datagrams have a payload of
    /// `packet` and this many bytes of headers.
    pub fn controlled(
        (packet, headers): (Bytes, u32),
        size: Option<Bytes>,
        duration: Option<Span>,
        now: Time,
    ) -> Self {
        let assigned = Assigned::new(now, packet, headers);
        Self::open(Schedule::Assigned(assigned), size, duration, now)
    }

    fn open(schedule: Schedule, size: Option<Bytes>, duration: Option<Span>, now: Time) -> Self {
        let mut sender = Self {
            schedule,
            end: duration.map_or(Time::MAX, |duration| now + duration),
            ahead: None,
            due: (0, 0),
            left: size.map(Bytes::count),
            sent: 0,
            refused: 0,
            skipped: 0,
            last_sent: now,
            marks: VecDeque::new(),
            stopped: false,
        };
        sender.step();
        sender
    }

    /// The due time of the next datagram, if it is known.
    pub fn next_wake(&self) -> Option<Time> {
        if self.is_finished() {
            return None;
        }
        if self.due.0 > 0 { Some(Time::ZERO) } else { self.upcoming().map(|(at, _)| at) }
    }

    /// Whether all datagrams are sent.
    pub fn is_finished(&self) -> bool {
        let is_exhausted = self.due.0 == 0 && self.ahead.is_none();
        self.stopped || self.left == Some(0) || is_exhausted
    }

    /// Number of datagrams of one payload size that are due at `now`, up to `max`, and the payload
    /// size. If the caller is too late, all except the last are skipped and counted, because a
    /// burst would overload a path that the flow should load evenly.
    pub fn due(&mut self, now: Time, max: u64) -> Option<(u64, u32)> {
        if self.is_finished() {
            return None;
        }
        if self.due.0 == 0 {
            let (first, payload) = self.take(now)?;
            self.due = (1, payload);
            if now.since(first) > MAX_LATENESS {
                while let Some((_, payload)) = self.take(now) {
                    self.due = (1, payload);
                    self.skipped += 1;
                }
            }
        }
        while self.due.0 < max && self.upcoming().is_some_and(|next| next.1 == self.due.1) {
            if self.take(now).is_none() {
                break;
            }
            self.due.0 += 1;
        }
        let (count, payload) = (self.due.0.min(max), self.due.1);
        match self.left {
            // The last datagram may be smaller, so it is sent separately.
            Some(left) if left < u64::from(payload) => Some((1, left as u32)),
            Some(left) => Some((count.min(left / u64::from(payload.max(1))), payload)),
            None => Some((count, payload)),
        }
    }

    /// Records that `count` of the due datagrams were sent, with sequence numbers from
    /// [`Self::sent`].
    pub(crate) fn on_sent(&mut self, now: Time, count: u64, max_wait: Span) {
        self.sent += count;
        self.left = self.left.map(|left| left.saturating_sub(count * u64::from(self.due.1)));
        self.due.0 = self.due.0.saturating_sub(count);
        self.last_sent = now;
        match self.marks.back_mut() {
            Some(mark) if mark.0 == now => mark.1 = self.sent,
            Some(mark) if now.since(mark.0) < MARK_INTERVAL => {}
            _ => {
                while self.marks.get(1).is_some_and(|(at, _)| now.since(*at) > max_wait) {
                    self.marks.pop_front();
                }
                self.marks.push_back((now, self.sent));
            }
        }
    }

    /// Records that the transport rejected a datagram, which is not sent again.
    pub const fn on_refused(&mut self) {
        self.refused += 1;
        self.due.0 = self.due.0.saturating_sub(1);
    }

    /// Applies a new rate from rate control; `None` pauses the sender.
    pub fn set_rate(&mut self, now: Time, rate: Option<Bandwidth>) {
        if let (Schedule::Assigned(assigned), Some(ahead)) = (&mut self.schedule, &mut self.ahead) {
            ahead.0 = assigned.set_rate(now, rate);
        }
    }

    /// Stops sending: due datagrams are skipped.
    pub fn stop(&mut self, now: Time) {
        if !self.is_finished() {
            self.skipped += std::mem::take(&mut self.due.0);
            while self.take(now).is_some() {
                self.skipped += 1;
            }
        }
        self.stopped = true;
    }

    /// Number of datagrams sent.
    pub const fn sent(&self) -> u64 {
        self.sent
    }

    pub(super) const fn last_sent(&self) -> Time {
        self.last_sent
    }

    /// Number of datagrams that had been sent `age` before `now`.
    pub(super) fn sent_before(&self, now: Time, age: Span) -> u64 {
        if now.since(self.last_sent) >= age {
            return self.sent;
        }
        let mark = self.marks.iter().rev().find(|(at, _)| now.since(*at) >= age);
        mark.map_or(0, |(_, sent)| *sent)
    }

    pub(super) const fn count(&self, counts: &mut Datagrams) {
        (counts.sent, counts.refused, counts.skipped) = (self.sent, self.refused, self.skipped);
    }

    fn upcoming(&self) -> Option<(Time, u32)> {
        self.ahead.filter(|(at, _)| *at < self.end)
    }

    fn take(&mut self, now: Time) -> Option<(Time, u32)> {
        let taken = self.upcoming().filter(|(at, _)| *at <= now)?;
        self.step();
        Some(taken)
    }

    fn step(&mut self) {
        self.ahead = match &mut self.schedule {
            Schedule::Own(source) => source.next(),
            Schedule::Assigned(assigned) => Some(assigned.next()),
        };
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use base::RandomStream;
    use proptest::prelude::*;

    use super::*;
    use crate::{DatagramTrace, Pattern};

    fn sender(pattern: Pattern, rate: Bandwidth, packet: u64) -> PacedSender {
        let random = RandomStream::new(1, "datagrams");
        let source = Source::new(pattern, rate, Bytes::new(packet), Time::ZERO, random);
        PacedSender::new(source, None, None, Time::ZERO)
    }

    fn constant() -> PacedSender {
        sender(Pattern::Constant, Bandwidth::from_mbits_per_sec(8), 1000)
    }

    fn send(sender: &mut PacedSender, count: u64) {
        sender.on_sent(Time::ZERO, count, Span::ZERO);
    }

    #[test]
    fn sends_at_the_constant_rate() {
        let mut sender = constant();
        assert_eq!(sender.due(Time::ZERO, 64), Some((1, 1000)));
        send(&mut sender, 1);
        assert_eq!(sender.next_wake(), Some(Time::from_nanos(1_000_000)));
        assert_eq!(sender.due(Time::from_nanos(999_999), 64), None);
        assert_eq!(sender.due(Time::from_nanos(3_500_000), 64), Some((3, 1000)));
        send(&mut sender, 2);
        assert_eq!(sender.due(Time::from_nanos(3_500_000), 64), Some((1, 1000)));
    }

    #[test]
    fn skips_datagrams_after_a_long_pause() {
        let mut sender = constant();
        assert_eq!(sender.due(Time::from_nanos(1_000_000_000), 64), Some((1, 1000)));
        assert_eq!(sender.skipped, 1000);
        send(&mut sender, 1);
        assert_eq!(sender.next_wake(), Some(Time::from_nanos(1_001_000_000)));
    }

    #[test]
    fn skips_due_datagrams_at_the_end() {
        let mut sender = constant();
        sender.end = Time::from_nanos(50_000_000);
        assert_eq!(sender.due(Time::from_nanos(19_500_000), 64), Some((20, 1000)));
        send(&mut sender, 12);
        sender.stop(Time::from_nanos(60_000_000));
        assert_eq!((sender.skipped, sender.next_wake()), (38, None));
    }

    #[test]
    fn datagrams_of_a_trace_keep_their_sizes() {
        let at = Span::from_millis;
        let datagrams =
            [(0, 100), (0, 100), (1, 200)].map(|(ms, size)| (at(ms), Bytes::new(size))).to_vec();
        let trace = Arc::new(DatagramTrace { datagrams, period: at(10) });
        let mut sender = sender(Pattern::Trace(trace), Bandwidth::ZERO, 0);
        let now = Time::from_nanos(10_000_000);
        assert_eq!(sender.due(now, 64), Some((2, 100)));
        send(&mut sender, 2);
        assert_eq!(sender.due(now, 64), Some((1, 200)));
        send(&mut sender, 1);
        assert_eq!(sender.due(now, 1), Some((1, 100)));
    }

    proptest! {
        #[test]
        fn sends_or_skips_each_datagram_not_early(
            rate in 1_000_u64..1_000_000_000,
            packet in 16_u64..65_507,
            steps in prop::collection::vec(0_u64..50_000_000, 1..50),
        ) {
            let rate = Bandwidth::from_bits_per_sec(rate);
            let mut sender = sender(Pattern::Constant, rate, packet);
            let (mut now, mut sent) = (Time::ZERO, 0_u64);
            for step in steps {
                now += Span::from_nanos(step);
                while let Some((due, _)) = sender.due(now, 64) {
                    send(&mut sender, due);
                    sent += due;
                }
                // The first datagram is sent immediately, the others at the rate.
                let allowed = rate.bytes_in(now.since(Time::ZERO)).count() / packet + 1;
                prop_assert!(sent <= allowed, "{sent} sent, {allowed} allowed");
                prop_assert!(sender.next_wake().is_some_and(|next| next > now));
                prop_assert_eq!(sent + sender.skipped, allowed);
            }
        }
    }
}
