//! Paced UDP: numbered, stamped datagrams, spaced by the flow's pattern.

use std::collections::VecDeque;
use std::os::fd::{AsFd, OwnedFd};

use base::{Span, Time};
use lab::plan::{Flow, Traffic};
use outcome::{Arrived, Datagrams, Sequence, Tally};
use sys::clock;
use sys::socket::{self, BATCH, Interest, Readiness};

use super::datagram::{Header, LENGTH};
use super::pace::Pace;
use super::traffic::{Endpoints, Progress, Scope};
use super::{Placed, enter};
use transport::workload::Source;

/// Socket buffers asked for.
const BUFFER: usize = 4 << 20;

/// Datagrams sent before others get their turn.
const TURN: u64 = 4 * BATCH as u64;

/// Batches received before others get their turn: more than a turn sends, or a burst that makes
/// up for a pause would overrun the receiver.
const RECEIVE_TURN: usize = 16;

/// After the last datagram was sent, silence for so long means that nothing more will come.
const SILENCE: Span = Span::from_secs(2);

/// A datagram that was sent this long ago and has not arrived is lost, unless delays of half of
/// that or more have been seen.
const OVERDUE: Span = Span::from_secs(1);

const SENDER: u32 = 1;
const RECEIVER: u32 = 2;

/// Slot 1 sends, slot 2 receives.
pub(super) struct Paced {
    sender: OwnedFd,
    receiver: OwnedFd,
    pace: Pace,
    /// Payload to send before the end.
    left: Option<u64>,
    sent: u64,
    /// How many had been sent at these times: a millisecond apart at least, and not older than
    /// what decides on the overdue.
    marks: VecDeque<(Time, u64)>,
    refused: u64,
    damaged: u64,
    sequence: Sequence,
    max_delay: Span,
    last_sent: Time,
    last_arrival: Time,
    /// Sending is over.
    finished: bool,
    expired: bool,
    closed_at: Option<Time>,
}

impl Paced {
    pub(super) fn open(placed: &Placed, scope: &Scope<'_>) -> sys::Result<Self> {
        let Flow { traffic: Traffic::Paced { rate, packet, size, pattern }, dscp, .. } =
            &placed.flow
        else {
            unreachable!("the driver opens paced flows with this")
        };
        enter(&placed.netns[1])?;
        let (receiver, to) = socket::udp(placed.addresses[1], 0, BUFFER)?;
        socket::set_arrival_stamps(receiver.as_fd())?;
        enter(&placed.netns[0])?;
        let (sender, from) = socket::udp(placed.addresses[0], *dscp, BUFFER)?;
        socket::set_peer(sender.as_fd(), to)?;
        enter(&placed.netns[1])?;
        socket::set_peer(receiver.as_fd(), from)?;
        scope.add(&sender, SENDER, Interest::Nothing)?;
        scope.add(&receiver, RECEIVER, Interest::Read)?;
        let now = scope.now();
        // What the kernel refuses has to be sent again, so the source has no end of its own.
        let random = scope.random(&placed.flow.name, "datagrams");
        let source = Source::new(pattern.clone(), *rate, *packet, None, now, random);
        Ok(Self {
            sender,
            receiver,
            pace: Pace::new(source),
            left: size.map(base::Bytes::count),
            sent: 0,
            marks: VecDeque::new(),
            refused: 0,
            damaged: 0,
            sequence: Sequence::new(),
            max_delay: Span::ZERO,
            last_sent: now,
            last_arrival: now,
            finished: false,
            expired: false,
            closed_at: None,
        })
    }

    /// Sends what is due, but no more than a turn.
    fn send(&mut self, scope: &mut Scope<'_>) {
        let now = scope.now();
        let mut turn = TURN;
        while turn > 0 && !self.finished {
            let Some((due, payload)) = self.pace.due(now, turn.min(BATCH as u64)) else { break };
            let payload = u64::from(payload);
            // The last one may be shorter, so it goes alone.
            let (count, payload) = match self.left {
                Some(left) if left < payload => (1, left),
                Some(left) => (due.min(left / payload), payload),
                None => (due, payload),
            };
            let rest = (payload as usize).saturating_sub(LENGTH);
            let stamp = clock::monotonic();
            let mut heads = [[0; LENGTH]; BATCH];
            let heads = &mut heads[..count as usize];
            for (head, sequence) in heads.iter_mut().zip(self.sent..) {
                *head = Header { sequence, sent: stamp }.encode();
            }
            let sent = socket::send_datagrams(self.sender.as_fd(), heads, &scope.payload[..rest]);
            let used = if let Ok(Some(taken)) = sent {
                let taken = taken as u64;
                scope.tally.sent += taken * (LENGTH + rest) as u64;
                self.sent += taken;
                self.left = self.left.map(|left| left.saturating_sub(taken * payload));
                self.last_sent = now;
                taken
            } else {
                // No route, no buffer: the pattern does not wait, the slot is lost.
                self.refused += 1;
                1
            };
            self.pace.use_due(used);
            turn = turn.saturating_sub(used.max(1));
            self.finished = self.left == Some(0);
        }
        if self.marks.back().is_none_or(|(at, _)| now.since(*at) >= Span::from_millis(1)) {
            self.marks.push_back((now, self.sent));
            let grace = self.grace();
            while self.marks.get(1).is_some_and(|(at, _)| now.since(*at) >= grace) {
                self.marks.pop_front();
            }
        }
    }

    /// Takes what has arrived, up to so many batches.
    fn receive(&mut self, scope: &mut Scope<'_>, batches: usize) {
        for _ in 0..batches {
            let (tally, origin) = (&mut *scope.tally, scope.origin);
            let (sequence, sent) = (&mut self.sequence, self.sent);
            let (damaged, max_delay) = (&mut self.damaged, &mut self.max_delay);
            let last_arrival = &mut self.last_arrival;
            let got = socket::receive_datagrams::<LENGTH>(self.receiver.as_fd(), |arrival| {
                let header = Header::decode(&arrival.head[..arrival.length.min(LENGTH)]);
                let header = header.filter(|header| header.sequence < sent);
                let Some(header) = header else {
                    *damaged += 1;
                    return;
                };
                if sequence.arrive(header.sequence) == Arrived::Again {
                    return;
                }
                let delay = arrival.at.saturating_sub(header.sent);
                tally.received += arrival.length as u64;
                tally.record_delay(delay);
                *max_delay = (*max_delay).max(Span::from_nanos(delay));
                *last_arrival = Time::from_nanos(arrival.at.saturating_sub(origin));
            });
            // An error message of the network (RFC 1122, 4.1.3.3) is no reason to end.
            if !matches!(got, Ok(BATCH..)) {
                break;
            }
        }
    }

    fn progress(&self) -> Progress {
        let end = self.last_sent.max(self.last_arrival);
        if !self.finished {
            return Progress::Going;
        }
        let all = self.sequence.distinct() >= self.sent;
        match (self.expired, all) {
            (false, true) => Progress::Done(end),
            (true, true) => Progress::Cut(end),
            _ => Progress::Going,
        }
    }

    /// When the flow gives up waiting for what is missing.
    fn patience_ends(&self) -> Time {
        let span = SILENCE.max(self.max_delay + self.max_delay);
        self.last_sent.max(self.last_arrival) + span
    }

    /// How long a datagram may be on its way.
    fn grace(&self) -> Span {
        OVERDUE.max(self.max_delay + self.max_delay)
    }

    /// Sent, newer than all that arrived, and overdue at `now`.
    fn overdue(&self, now: Time) -> u64 {
        let grace = self.grace();
        let old = if now.since(self.last_sent) >= grace {
            self.sent
        } else {
            let mark = self.marks.iter().rev().find(|(at, _)| now.since(*at) >= grace);
            mark.map_or(0, |(_, sent)| *sent)
        };
        old.saturating_sub(self.sequence.next())
    }
}

impl Endpoints for Paced {
    fn on_ready(
        &mut self,
        scope: &mut Scope<'_>,
        slot: u32,
        _readiness: Readiness,
    ) -> sys::Result<Progress> {
        if slot == SENDER {
            // Such as an ICMP error for a datagram sent earlier: it is among the lost.
            let _ = socket::pending_error(self.sender.as_fd());
        } else {
            self.receive(scope, RECEIVE_TURN);
        }
        Ok(self.progress())
    }

    fn on_wake(&mut self, scope: &mut Scope<'_>) -> sys::Result<Progress> {
        if !self.finished {
            self.send(scope);
        } else if scope.now() >= self.patience_ends() {
            self.receive(scope, usize::MAX);
            if scope.now() >= self.patience_ends() {
                let end = self.last_sent.max(self.last_arrival);
                self.closed_at = Some(Time::MAX);
                return Ok(if self.expired { Progress::Cut(end) } else { Progress::Done(end) });
            }
        }
        Ok(self.progress())
    }

    fn deadline(&self) -> Option<Time> {
        if self.finished { Some(self.patience_ends()) } else { self.pace.next() }
    }

    fn expire(&mut self, _scope: &mut Scope<'_>) -> Progress {
        self.expired = !self.finished;
        self.finished = true;
        self.progress()
    }

    fn observe(&mut self, tally: &mut Tally) {
        let tail = self.closed_at.map_or(0, |at| self.overdue(at));
        tally.observe_datagrams(Datagrams {
            sent: self.sent,
            received: self.sequence.distinct(),
            lost: self.sequence.missing() + tail,
            reordered: self.sequence.late(),
            duplicates: self.sequence.again(),
            damaged: self.damaged,
            refused: self.refused,
            skipped: self.pace.skipped(),
            overrun: socket::dropped_on_arrival(self.receiver.as_fd()).unwrap_or(0),
        });
    }

    fn close(&mut self, scope: &mut Scope<'_>) {
        self.receive(scope, usize::MAX);
        self.closed_at = Some(self.closed_at.unwrap_or(scope.now()));
    }
}
