//! UDP: numbered datagrams by a source's schedule, or at the rate that rate control assigns.

use std::collections::VecDeque;

use base::{Bandwidth, Span, Time};
use lab::plan::Traffic;
use outcome::{Arrived, Datagrams, Sequence, Tally};
use transport::workload::Source;

use super::assigned::Assigned;
use super::{Progress, Scope};
use crate::net::mix;

/// After the last datagram was sent, silence for so long means that nothing more will come.
const SILENCE: Span = Span::from_secs(2);

/// A datagram that was sent this long ago and has not arrived is lost, unless delays of half of
/// that or more have been seen.
const OVERDUE: Span = Span::from_secs(1);

/// How finely it is known when datagrams were sent.
const MARK: Span = Span::from_millis(1);

/// When datagrams are sent.
#[derive(Debug)]
enum Law {
    Own(Source),
    Assigned(Assigned),
}

impl Law {
    fn next(&mut self) -> Option<(Time, u32)> {
        match self {
            Self::Own(source) => source.next(),
            Self::Assigned(assigned) => assigned.next(),
        }
    }
}

/// A sender and its receiver.
#[derive(Debug)]
pub(crate) struct Paced {
    law: Law,
    /// Tells this run's datagrams from those of earlier ones.
    hash: u32,
    due: Option<(Time, u32)>,
    sent: u64,
    damaged: u64,
    sequence: Sequence,
    /// How many datagrams had been sent by when, of the recent past.
    marks: VecDeque<(Time, u64)>,
    max_delay: Span,
    last_sent: Time,
    last_arrival: Time,
    expired: bool,
    closed_at: Option<Time>,
}

impl Paced {
    pub(super) fn open(scope: &mut Scope<'_>) -> Self {
        *scope.opened += 1;
        let hash = mix(scope.given.hash, *scope.opened);
        let now = scope.now();
        let mut law = match &scope.given.spec.traffic {
            Traffic::Paced { rate, packet, size, pattern } => {
                let stream = scope.given.stream("datagrams");
                Law::Own(Source::new(pattern.clone(), *rate, *packet, *size, now, stream))
            }
            Traffic::Controlled { demand, packet, size } => {
                let flow = scope.given.flow;
                let headers = scope.net.datagram_headers(flow);
                let demand = demand.unwrap_or(Bandwidth::MAX);
                scope.net.with_control(|control, net| control.join(net, flow, hash, demand));
                Law::Assigned(Assigned::new(now, *packet, *size, headers))
            }
            _ => unreachable!("only flows of datagrams are opened as such"),
        };
        let due = law.next();
        Self {
            law,
            hash,
            due,
            sent: 0,
            damaged: 0,
            sequence: Sequence::new(),
            marks: VecDeque::new(),
            max_delay: Span::ZERO,
            last_sent: now,
            last_arrival: now,
            expired: false,
            closed_at: None,
        }
    }

    /// Whether a packet is of this run.
    pub(crate) const fn owns(&self, hash: u32) -> bool {
        self.hash == hash
    }

    pub(super) fn deadline(&self) -> Time {
        self.next_send().unwrap_or_else(|| self.patience_ends())
    }

    fn next_send(&self) -> Option<Time> {
        self.due.map(|(at, _)| at)
    }

    pub(super) fn on_wake(&mut self, scope: &mut Scope<'_>) -> Progress {
        let now = scope.now();
        while let Some((_, payload)) = self.due.filter(|(at, _)| *at <= now) {
            scope.net.send_datagram(scope.given.flow, 0, self.hash, self.sent, payload);
            scope.tally.sent += u64::from(payload);
            self.sent += 1;
            self.last_sent = now;
            self.remember(now);
            self.due = self.law.next();
        }
        if self.due.is_none() {
            self.leave(scope);
        }
        if self.due.is_none() && now >= self.patience_ends() {
            let end = self.last_sent.max(self.last_arrival);
            self.closed_at = Some(Time::MAX);
            return if self.expired { Progress::Cut(end) } else { Progress::Done(end) };
        }
        self.progress()
    }

    fn remember(&mut self, now: Time) {
        if self.marks.back().is_none_or(|(at, _)| now.since(*at) >= MARK) {
            let grace = self.grace();
            while self.marks.get(1).is_some_and(|(at, _)| now.since(*at) > grace) {
                self.marks.pop_front();
            }
            self.marks.push_back((now, self.sent));
        }
    }

    /// A datagram has arrived.
    pub(crate) fn on_datagram(
        &mut self,
        now: Time,
        tally: &mut Tally,
        sequence: u64,
        payload: u32,
        delay: Span,
    ) -> Progress {
        if self.sequence.arrive(sequence) == Arrived::Again {
            return Progress::Going;
        }
        tally.received += u64::from(payload);
        tally.record_delay(delay.as_nanos());
        self.max_delay = self.max_delay.max(delay);
        self.last_arrival = now;
        self.progress()
    }

    /// A datagram has arrived damaged.
    pub(crate) fn on_damaged(&mut self) {
        self.damaged += 1;
    }

    fn progress(&self) -> Progress {
        let end = self.last_sent.max(self.last_arrival);
        let all = self.due.is_none() && self.sequence.distinct() >= self.sent;
        match (all, self.expired) {
            (false, _) => Progress::Going,
            (true, false) => Progress::Done(end),
            (true, true) => Progress::Cut(end),
        }
    }

    /// When the flow gives up waiting for what is missing.
    fn patience_ends(&self) -> Time {
        let span = SILENCE.max(self.max_delay + self.max_delay);
        self.last_sent.max(self.last_arrival) + span
    }

    fn grace(&self) -> Span {
        OVERDUE.max(self.max_delay + self.max_delay)
    }

    /// Sent, newer than all that arrived, and overdue at `now`.
    fn overdue(&self, now: Time) -> u64 {
        let grace = self.grace();
        let old = self.marks.iter().rev().find(|(at, _)| now.since(*at) >= grace);
        let old = old.map_or(0, |(_, sent)| *sent);
        let old = if now.since(self.last_sent) >= grace { self.sent } else { old };
        old.saturating_sub(self.sequence.next())
    }

    pub(super) fn expire(&mut self, scope: &mut Scope<'_>) -> Progress {
        self.expired = self.due.is_some();
        self.due = None;
        self.leave(scope);
        self.progress()
    }

    pub(super) fn observe(&self, tally: &mut Tally) {
        let tail = self.closed_at.map_or(0, |at| self.overdue(at));
        tally.observe_datagrams(Datagrams {
            sent: self.sent,
            received: self.sequence.distinct(),
            lost: self.sequence.missing() + tail,
            reordered: self.sequence.late(),
            duplicates: self.sequence.again(),
            damaged: self.damaged,
            ..Datagrams::default()
        });
    }

    /// Rate control says what data may use; `None`: nothing, for now.
    pub(super) fn on_rate(&mut self, now: Time, rate: Option<Bandwidth>) {
        if let (Law::Assigned(assigned), Some(due)) = (&mut self.law, &mut self.due) {
            due.0 = assigned.set_rate(now, rate);
        }
    }

    /// Nothing more will be sent: a session's share is others' from now on.
    fn leave(&self, scope: &mut Scope<'_>) {
        if let Law::Assigned(_) = self.law {
            let flow = scope.given.flow;
            scope.net.with_control(|control, net| control.leave(net, flow));
        }
    }

    pub(super) fn close(&mut self, scope: &mut Scope<'_>) {
        self.leave(scope);
    }

    /// From now on nothing is waited for.
    pub(super) fn cease(&mut self, now: Time) {
        self.closed_at = self.closed_at.or(Some(now));
    }
}
