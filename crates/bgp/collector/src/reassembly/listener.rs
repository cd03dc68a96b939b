//! Delivers the messages and gaps of one direction, and counts them.

use base::Time;
use bgp::MessageType;
use bgp::capability::Capability;

use crate::{ConnectionId, End, Hole, Receiver};

#[derive(Debug)]
pub(super) enum Last {
    Message(Time, Box<[u8]>),
    Hole(Hole),
}

pub(super) struct Listener<'a, R> {
    pub(super) receiver: &'a mut R,
    pub(super) id: ConnectionId,
    pub(super) from: End,
    pub(super) messages: u64,
    pub(super) skipped: u64,
    pub(super) foreign: u64,
    pub(super) extended: Option<bool>,
    /// The other direction has held bytes.
    pub(super) is_other_held: bool,
    pub(super) last_messages: &'a mut Vec<Last>,
}

impl<R: Receiver> Listener<'_, R> {
    #[inline]
    pub(super) fn message(&mut self, time: Time, bytes: &[u8]) {
        self.messages += 1;
        let kind = bytes.get(18);
        if kind == Some(&MessageType::OPEN.0) {
            self.extended = Some(offers_extended(bytes));
        }
        let is_last = kind == Some(&MessageType::NOTIFICATION.0) && self.is_other_held;
        if is_last || !self.last_messages.is_empty() {
            self.last_messages.push(Last::Message(time, bytes.into()));
            return;
        }
        self.receiver.message(time, self.id, self.from, bytes);
    }

    pub(super) fn hole(&mut self, hole: &Hole) {
        self.skipped += hole.skipped;
        if !self.last_messages.is_empty() {
            self.last_messages.push(Last::Hole(*hole));
            return;
        }
        self.receiver.hole(self.id, self.from, hole);
    }
}

/// Whether an OPEN offers extended messages (RFC 8654).
#[cold]
fn offers_extended(message: &[u8]) -> bool {
    bgp::open::Open::parse(&message[bgp::HEADER..])
        .is_ok_and(|open| open.capabilities().any(|one| matches!(one, Capability::ExtendedMessage)))
}
