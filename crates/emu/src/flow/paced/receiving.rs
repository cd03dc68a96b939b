//! The end that receives.

use std::os::fd::{AsFd, OwnedFd};

use base::{Span, Time};
use outcome::{Arrived, Datagrams, Sequence};
use sys::socket::{self, BATCH};

use super::super::datagram::{FAREWELL, Farewell, Header, LENGTH};
use super::super::traffic::Scope;
use super::SILENCE;

/// A number that is so far ahead of all before cannot be right.
const AHEAD: u64 = 1 << 32;

/// What receives datagrams, and knows which.
pub(super) struct Receiving {
    socket: OwnedFd,
    damaged: u64,
    sequence: Sequence,
    max_delay: Span,
    pub(super) last_arrival: Time,
    /// What a sender on another machine has said of all that it sent.
    pub(super) told: Option<Told>,
    /// It waits for an answer.
    asked: bool,
    /// What comes now does not count any more.
    pub(super) closed: bool,
}

/// How much was sent, and when the last of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Told {
    count: u64,
    pub(super) last: Time,
}

impl Receiving {
    pub(super) fn start(socket: OwnedFd, now: Time) -> Self {
        Self {
            socket,
            damaged: 0,
            sequence: Sequence::new(),
            max_delay: Span::ZERO,
            last_arrival: now,
            told: None,
            asked: false,
            closed: false,
        }
    }

    /// Takes what has arrived, up to so many batches. `sent`: how much can have, where that is
    /// known.
    pub(super) fn receive(&mut self, scope: &mut Scope<'_>, batches: usize, sent: Option<u64>) {
        let clock = scope.clock;
        for _ in 0..batches {
            let tally = &mut *scope.tally;
            let Self { sequence, damaged, max_delay, last_arrival, told, asked, .. } = self;
            let closed = self.closed;
            let got = socket::receive_datagrams::<FAREWELL>(self.socket.as_fd(), |arrival| {
                let head = &arrival.head[..arrival.length.min(FAREWELL)];
                if let (None, Some(Farewell::Sent { count, last })) = (sent, Farewell::decode(head))
                {
                    (*told, *asked) = (Some(Told { count, last }), true);
                    return;
                }
                if closed {
                    return;
                }
                let most = sent.unwrap_or_else(|| sequence.next().saturating_add(AHEAD));
                let header = Header::decode(&head[..head.len().min(LENGTH)]);
                let Some(header) = header.filter(|header| header.sequence < most) else {
                    *damaged += 1;
                    return;
                };
                if sequence.arrive(header.sequence) == Arrived::Again {
                    return;
                }
                let at = clock.time_at(arrival.at).as_nanos();
                let delay = at.saturating_sub(header.sent);
                tally.received += arrival.length as u64;
                tally.record_delay(delay);
                *max_delay = (*max_delay).max(Span::from_nanos(delay));
                *last_arrival = Time::from_nanos(at);
            });
            // An error message of the network (RFC 1122, 4.1.3.3) is no reason to end.
            if !matches!(got, Ok(BATCH..)) {
                break;
            }
        }
    }

    /// Answers a sender on another machine that has taken leave.
    pub(super) fn answer(&mut self, is_over: bool) {
        if !std::mem::take(&mut self.asked) {
            return;
        }
        if is_over {
            self.tell_over();
        } else {
            self.tell(Farewell::Waiting { longest: SILENCE.max(self.longest()) });
        }
    }

    pub(super) fn tell_over(&self) {
        if self.told.is_some() {
            self.tell(Farewell::Over { last: self.last_arrival });
        }
    }

    fn tell(&self, farewell: Farewell) {
        // A lost answer is asked for again.
        let _ = socket::send_datagrams(self.socket.as_fd(), &[farewell.encode()], &[]);
    }

    /// Whether all has arrived that was sent, as far as that is known.
    pub(super) fn has_all(&self) -> bool {
        self.told.is_some_and(|told| self.sequence.distinct() >= told.count)
    }

    pub(super) fn distinct(&self) -> u64 {
        self.sequence.distinct()
    }

    /// One more than the newest that arrived.
    pub(super) fn next(&self) -> u64 {
        self.sequence.next()
    }

    /// Twice the longest delay seen.
    pub(super) fn longest(&self) -> Span {
        self.max_delay + self.max_delay
    }

    pub(super) fn count(&self, datagrams: &mut Datagrams) {
        datagrams.received = self.sequence.distinct();
        datagrams.lost = self.sequence.missing();
        datagrams.reordered = self.sequence.late();
        datagrams.duplicates = self.sequence.again();
        datagrams.damaged = self.damaged;
        datagrams.overrun = socket::dropped_on_arrival(self.socket.as_fd()).unwrap_or(0);
    }
}
