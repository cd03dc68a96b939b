//! The end that sends.

use std::collections::VecDeque;
use std::os::fd::{AsFd, OwnedFd};

use base::{Span, Time};
use outcome::Datagrams;
use rustix::io::Errno;
use sys::socket::{self, BATCH, Interest};

use super::super::datagram::{FAREWELL, Farewell, Header, LENGTH};
use super::super::pace::Pace;
use super::super::traffic::Scope;
use super::{SENDER, SILENCE};

/// Datagrams sent before others get their turn.
const TURN: u64 = 4 * BATCH as u64;

/// An end that is not answered is announced again after these times.
const SOONEST: Span = Span::from_millis(50);
const LATEST: Span = Span::from_millis(400);

/// What sends datagrams, and knows how many.
pub(super) struct Sending {
    socket: OwnedFd,
    pace: Pace,
    /// Payload to send before the end.
    left: Option<u64>,
    pub(super) sent: u64,
    /// How many had been sent at these times: a millisecond apart at least, and not older than
    /// what decides on the overdue.
    marks: VecDeque<(Time, u64)>,
    refused: u64,
    pub(super) last_sent: Time,
    /// Sending is over.
    pub(super) finished: bool,
    /// The receiver is on another machine.
    far: Option<Leave>,
}

/// How far a sender has come with taking leave of its receiver.
#[derive(Debug)]
struct Leave {
    /// The next announcement, and how long until that after it.
    next: Option<Time>,
    pause: Span,
    /// Until when an answer is waited for.
    until: Time,
    /// The receiver is done; its last datagram came then.
    last_arrival: Option<Time>,
}

impl Sending {
    pub(super) fn start(
        socket: OwnedFd,
        pace: Pace,
        left: Option<u64>,
        is_far: bool,
        scope: &Scope<'_>,
    ) -> sys::Result<Self> {
        let now = scope.now();
        let far = is_far.then_some(Leave {
            next: None,
            pause: SOONEST,
            until: Time::ZERO,
            last_arrival: None,
        });
        scope.add(&socket, SENDER, if is_far { Interest::Read } else { Interest::Nothing })?;
        Ok(Self {
            socket,
            pace,
            left,
            sent: 0,
            marks: VecDeque::new(),
            refused: 0,
            last_sent: now,
            finished: false,
            far,
        })
    }

    /// Sends what is due, but no more than a turn.
    pub(super) fn send(&mut self, scope: &mut Scope<'_>, grace: Span) {
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
            let stamp = scope.now().as_nanos();
            let mut heads = [[0; LENGTH]; BATCH];
            let heads = &mut heads[..count as usize];
            for (head, sequence) in heads.iter_mut().zip(self.sent..) {
                *head = Header { sequence, sent: stamp }.encode();
            }
            let used = if let Ok(Some(taken)) = self.submit(heads, &scope.payload[..rest]) {
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
            if self.left == Some(0) {
                self.finished = true;
                self.take_leave(now);
            }
        }
        if self.marks.back().is_none_or(|(at, _)| now.since(*at) >= Span::from_millis(1)) {
            self.marks.push_back((now, self.sent));
            while self.marks.get(1).is_some_and(|(at, _)| now.since(*at) >= grace) {
                self.marks.pop_front();
            }
        }
    }

    /// The flow's time is over: nothing more is sent.
    pub(super) fn expire(&mut self, now: Time) {
        self.pace.give_up(now);
        self.finished = true;
        self.take_leave(now);
    }

    fn submit<const N: usize>(&self, heads: &[[u8; N]], rest: &[u8]) -> sys::Result<Option<usize>> {
        let sent = socket::send_datagrams(self.socket.as_fd(), heads, rest);
        let refused = Some(Errno::CONNREFUSED.raw_os_error());
        match sent {
            // It tells of an earlier datagram: the receiver's machine is not as far.
            Err(error) if error.errno() == refused => {
                socket::send_datagrams(self.socket.as_fd(), heads, rest)
            }
            other => other,
        }
    }

    /// Sending is over: tells a receiver on another machine, when it is time to.
    pub(super) fn take_leave(&mut self, now: Time) {
        let Some(far) = &mut self.far else { return };
        if far.last_arrival.is_some() || far.next.is_some_and(|next| next > now) {
            return;
        }
        far.until = far.until.max(self.last_sent + SILENCE);
        far.next = Some(now + far.pause);
        far.pause = (far.pause + far.pause).min(LATEST);
        let head = Farewell::Sent { count: self.sent, last: self.last_sent }.encode();
        // It is said again until it is answered.
        let _ = self.submit(&[head], &[]);
    }

    /// Takes what a receiver on another machine answers, and errors of what was sent earlier: that
    /// is among the lost.
    pub(super) fn listen(&mut self, scope: &Scope<'_>) {
        let _ = socket::pending_error(self.socket.as_fd());
        let (Some(far), now) = (&mut self.far, scope.now()) else { return };
        let _ = socket::receive_datagrams::<FAREWELL>(self.socket.as_fd(), |arrival| {
            match Farewell::decode(&arrival.head[..arrival.length.min(FAREWELL)]) {
                Some(Farewell::Waiting { longest }) => {
                    far.until = far.until.max(now + SILENCE + longest);
                }
                Some(Farewell::Over { last }) => far.last_arrival = Some(last),
                _ => {}
            }
        });
    }

    /// What a receiver on another machine has said, once it is done.
    pub(super) fn last_arrival(&self) -> Option<Time> {
        self.far.as_ref()?.last_arrival
    }

    /// Until when its answer is waited for.
    pub(super) fn patience_ends(&self) -> Option<Time> {
        self.far.as_ref().map(|far| far.until)
    }

    /// When there is something to do.
    pub(super) fn next(&self) -> Option<Time> {
        match &self.far {
            _ if !self.finished => self.pace.next(),
            Some(far) => far.next,
            None => None,
        }
    }

    /// How many datagrams had been sent `grace` before `now`.
    pub(super) fn due_by(&self, now: Time, grace: Span) -> u64 {
        if now.since(self.last_sent) >= grace {
            return self.sent;
        }
        let mark = self.marks.iter().rev().find(|(at, _)| now.since(*at) >= grace);
        mark.map_or(0, |(_, sent)| *sent)
    }

    pub(super) fn count(&self, datagrams: &mut Datagrams) {
        datagrams.sent = self.sent;
        datagrams.refused = self.refused;
        datagrams.skipped = self.pace.skipped();
    }
}
