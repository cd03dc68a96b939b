//! Paced UDP: numbered, stamped datagrams, spaced by the flow's pattern.
//!
//! A sender whose receiver is on another machine says when all is sent, until it is answered: its
//! receiver would not know what is still to come.

mod receiving;
mod sending;

use std::os::fd::AsFd;

use base::{Span, Time};
use lab::plan::{Flow, Traffic};
use outcome::{Datagrams, Tally};
use sys::socket::{self, Readiness};
use transport::workload::Source;

use super::meeting::{DOOR, Meeting};
use super::pace::Pace;
use super::traffic::{Endpoints, Progress, Scope};
use super::{Placed, enter};
use receiving::Receiving;
use sending::Sending;

/// Socket buffers asked for.
pub(super) const BUFFER: usize = 4 << 20;

/// Batches received before others get their turn: more than a turn sends, or a burst that makes
/// up for a pause would overrun the receiver.
const RECEIVE_TURN: usize = 16;

/// After the last datagram was sent, silence for so long means that nothing more will come.
const SILENCE: Span = Span::from_secs(2);

/// A datagram that was sent this long ago and has not arrived is lost, unless delays of half of
/// that or more have been seen.
const OVERDUE: Span = Span::from_secs(1);

const SENDER: u32 = 1;

/// Slot 0 receives, slot 1 sends.
pub(super) struct Paced {
    sending: Option<Sending>,
    receiving: Option<Receiving>,
    /// When the flow's duration was over, if that ended it.
    expired: Option<Time>,
    /// When it ended; the last moment of all if it had time to end.
    closed_at: Option<Time>,
}

impl Paced {
    pub(super) fn open(placed: &Placed, meeting: Meeting, scope: &Scope<'_>) -> sys::Result<Self> {
        let Flow { traffic, dscp, name, duration, .. } = &placed.flow;
        let Traffic::Paced { rate, packet, size, pattern } = traffic else {
            unreachable!("the driver opens paced flows with this")
        };
        let Meeting { door, to, mut from } = meeting;
        let mut sending = None;
        if let Some(netns) = &placed.netns[0] {
            enter(netns)?;
            let (sender, at) = socket::udp_at(from, *dscp, BUFFER)?;
            from = at;
            socket::set_peer(sender.as_fd(), to)?;
            // What the kernel refuses has to be sent again, so the source has no end of its own.
            let (start, random) = (scope.now(), scope.random(name, "datagrams"));
            let source = Source::new(pattern.clone(), *rate, *packet, None, start, random);
            let size = size.map(base::Bytes::count);
            let end = duration.map_or(Time::MAX, |duration| start + duration);
            let pace = Pace::new(source, end);
            sending = Some(Sending::start(sender, pace, size, door.is_none(), scope)?);
        }
        let mut receiving = None;
        if let (Some(receiver), Some(netns)) = (door, &placed.netns[1]) {
            enter(netns)?;
            socket::set_peer(receiver.as_fd(), from)?;
            socket::set_arrival_stamps(receiver.as_fd())?;
            receiving = Some(Receiving::start(receiver, scope.now()));
        }
        Ok(Self { sending, receiving, expired: None, closed_at: None })
    }

    /// How long a datagram may be on its way.
    fn grace(&self) -> Span {
        self.receiving.as_ref().map_or(OVERDUE, |receiving| OVERDUE.max(receiving.longest()))
    }

    fn receive(&mut self, scope: &mut Scope<'_>, batches: usize) {
        if let Some(receiving) = &mut self.receiving {
            let sent = self.sending.as_ref().map(|sending| sending.sent);
            receiving.receive(scope, batches, sent);
        }
    }

    /// When the last datagram was sent, if that is over and known, and when one last arrived.
    fn end(&self) -> Option<Time> {
        let sent = match (&self.sending, &self.receiving) {
            (Some(sending), _) => sending.finished.then_some(sending.last_sent),
            (None, Some(receiving)) => receiving.told.map(|told| told.last).or(self.expired),
            (None, None) => None,
        };
        let arrived = self.receiving.as_ref().map(|receiving| receiving.last_arrival);
        let heard = self.sending.as_ref().and_then(Sending::last_arrival);
        Some(sent?.max(arrived.or(heard).unwrap_or(Time::ZERO)))
    }

    fn progress(&self) -> Progress {
        let Some(end) = self.end() else { return Progress::Going };
        let all = match (&self.sending, &self.receiving) {
            (Some(sending), Some(receiving)) => receiving.distinct() >= sending.sent,
            (Some(sending), None) => sending.last_arrival().is_some(),
            (None, Some(receiving)) => receiving.has_all(),
            (None, None) => true,
        };
        if all { self.over(end) } else { Progress::Going }
    }

    fn over(&self, end: Time) -> Progress {
        if self.expired.is_some() { Progress::Cut(end) } else { Progress::Done(end) }
    }

    /// When the flow gives up waiting for what is missing.
    fn patience_ends(&self) -> Option<Time> {
        let end = self.end()?;
        let wait = self.receiving.as_ref().map_or(Span::ZERO, Receiving::longest);
        let answer = self.sending.as_ref().and_then(Sending::patience_ends);
        Some((end + SILENCE.max(wait)).max(answer.unwrap_or(Time::ZERO)))
    }
}

impl Endpoints for Paced {
    fn on_ready(
        &mut self,
        scope: &mut Scope<'_>,
        slot: u32,
        _readiness: Readiness,
    ) -> sys::Result<Progress> {
        if slot == DOOR {
            self.receive(scope, RECEIVE_TURN);
        } else if let Some(sending) = &mut self.sending {
            sending.listen(scope);
        }
        let progress = self.progress();
        if let Some(receiving) = &mut self.receiving {
            let is_over = progress != Progress::Going || self.closed_at.is_some();
            receiving.answer(is_over);
        }
        Ok(progress)
    }

    fn on_wake(&mut self, scope: &mut Scope<'_>) -> sys::Result<Progress> {
        let grace = self.grace();
        if let Some(sending) = &mut self.sending {
            if sending.finished {
                sending.take_leave(scope.now());
            } else {
                sending.send(scope, grace);
            }
        }
        if self.patience_ends().is_some_and(|end| end <= scope.now()) {
            self.receive(scope, usize::MAX);
            if let Some(end) = self.end()
                && self.patience_ends().is_some_and(|end| end <= scope.now())
            {
                self.closed_at = Some(Time::MAX);
                if let Some(receiving) = &mut self.receiving {
                    receiving.tell_over();
                }
                return Ok(self.over(end));
            }
        }
        Ok(self.progress())
    }

    fn deadline(&self) -> Option<Time> {
        let next = self.sending.as_ref().and_then(Sending::next);
        [next, self.patience_ends()].into_iter().flatten().min()
    }

    fn expire(&mut self, scope: &mut Scope<'_>) -> Progress {
        let is_finished = self.sending.as_ref().is_some_and(|sending| sending.finished)
            || self.receiving.as_ref().is_some_and(|receiving| receiving.told.is_some());
        if !is_finished {
            self.expired = Some(scope.now());
        }
        if let Some(sending) = &mut self.sending {
            sending.expire(scope.now());
        }
        self.progress()
    }

    fn observe(&mut self, tally: &mut Tally) {
        let mut datagrams = Datagrams::default();
        if let Some(sending) = &self.sending {
            sending.count(&mut datagrams);
        }
        if let Some(receiving) = &self.receiving {
            receiving.count(&mut datagrams);
            // Sent, newer than all that arrived, and overdue.
            let due = self.sending.as_ref().and(self.edge()).unwrap_or(0);
            datagrams.lost += due.saturating_sub(receiving.next());
        }
        tally.observe_datagrams(datagrams);
    }

    fn edge(&self) -> Option<u64> {
        let at = self.closed_at?;
        match (&self.sending, &self.receiving) {
            (Some(sending), _) => Some(sending.due_by(at, self.grace())),
            (None, Some(receiving)) => Some(receiving.next()),
            (None, None) => None,
        }
    }

    fn close(&mut self, scope: &mut Scope<'_>) {
        self.receive(scope, usize::MAX);
        if let Some(receiving) = &mut self.receiving {
            receiving.closed = true;
        }
        let ended = self.progress() != Progress::Going;
        let now = if ended { Time::MAX } else { scope.now() };
        self.closed_at = Some(self.closed_at.unwrap_or(now));
    }
}
