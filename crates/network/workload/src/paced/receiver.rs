//! The receiver of a paced flow.

use base::{Span, Time};

use crate::Datagrams;
use crate::datagram::{EndMessage, Header};
use crate::sequence::{Arrived, Sequence};

/// A sequence number this far ahead of the newest one counts as damaged.
const MAX_SEQUENCE_JUMP: u64 = 1 << 32;

#[derive(Debug)]
pub(super) struct Receiver {
    pub(super) damaged: u64,
    pub(super) sequence: Sequence,
    max_delay: Span,
    pub(super) last_arrival: Time,
    /// The announcement of a sender on another host.
    pub(super) announced: Option<Announced>,
    /// Whether the last announcement is not answered yet.
    pub(super) owes_reply: bool,
}

/// The number of sent datagrams, and the send time of the last one.
#[derive(Clone, Copy, Debug)]
pub(super) struct Announced {
    count: u64,
    pub(super) last: Time,
}

impl Receiver {
    pub(super) fn new(now: Time) -> Self {
        Self {
            damaged: 0,
            sequence: Sequence::new(),
            max_delay: Span::ZERO,
            last_arrival: now,
            announced: None,
            owes_reply: false,
        }
    }

    /// Handles a payload if it is an announcement of a sender on another host;
    /// returns whether it is.
    pub(super) fn take_announcement(&mut self, payload: &[u8]) -> bool {
        let Some(EndMessage::Sent { count, last }) = EndMessage::decode(payload) else {
            return false;
        };
        (self.announced, self.owes_reply) = (Some(Announced { count, last }), true);
        true
    }

    /// `limit`: sequence numbers from here on were not sent, if known.
    pub(super) fn on_payload(
        &mut self,
        payload: &[u8],
        limit: Option<u64>,
        at: Time,
    ) -> Option<Span> {
        let limit = limit.unwrap_or_else(|| self.sequence.next().saturating_add(MAX_SEQUENCE_JUMP));
        let header = Header::decode(payload).filter(|header| header.sequence < limit);
        let Some(header) = header else {
            self.damaged += 1;
            return None;
        };
        let delay = Span::from_nanos(at.as_nanos().saturating_sub(header.sent));
        self.on_datagram(header.sequence, at, delay).then_some(delay)
    }

    pub(super) fn on_datagram(&mut self, sequence: u64, at: Time, delay: Span) -> bool {
        if self.sequence.arrive(sequence) == Arrived::Duplicate {
            return false;
        }
        self.max_delay = self.max_delay.max(delay);
        self.last_arrival = at;
        true
    }

    /// Whether all announced datagrams have arrived.
    pub(super) fn is_complete(&self) -> bool {
        self.announced.is_some_and(|announced| self.sequence.distinct() >= announced.count)
    }

    /// The maximum expected delay: twice the longest delay so far.
    pub(super) fn max_wait(&self) -> Span {
        self.max_delay + self.max_delay
    }

    pub(super) fn count(&self, counts: &mut Datagrams) {
        counts.received = self.sequence.distinct();
        counts.lost = self.sequence.missing();
        counts.reordered = self.sequence.reordered();
        counts.duplicates = self.sequence.duplicates();
        counts.damaged = self.damaged;
    }
}
