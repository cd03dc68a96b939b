//! The OPEN of another connection while a session is established.
//!
//! Either the end of the session was not captured, or the session continues and the router rejects
//! the connection (RFC 4271 §6.8). The next messages decide: only an accepted connection has a
//! KEEPALIVE. Until then all input of the pair is held, so that the inferred end of the old session
//! precedes the first message of the new one.

use std::collections::VecDeque;

use base::Time;
use bgp::MessageType;

use super::Sessions;
use super::connection::Received;
use super::peering::{Raw, Slot};
use crate::{Close, ConnectionId, End, Sink, State};

#[derive(Debug)]
pub(super) struct Contest {
    challenger: ConnectionId,
    pub(super) since: u64,
    pub(super) input: VecDeque<Raw>,
    /// Bytes of messages in `input`.
    pub(super) bytes: usize,
}

impl Raw {
    const fn time(&self) -> Time {
        match self {
            Self::Message(received, ..) => received.time,
            Self::Hole(_, _, hole) => hole.time,
            Self::Closed(time, ..) => *time,
        }
    }

    const fn connection(&self) -> ConnectionId {
        match self {
            Self::Message(_, id, ..) | Self::Hole(id, ..) | Self::Closed(_, id, _) => *id,
        }
    }
}

impl Slot {
    /// Queues input of a contested pair.
    pub(super) fn queue(&mut self, raw: Raw) {
        let Some(contest) = &mut self.contest else { return };
        if let Raw::Message(_, _, _, bytes) = &raw {
            contest.bytes += bytes.len();
        }
        contest.input.push_back(raw);
    }
}

impl<S: Sink> Sessions<S> {
    /// Queues a message if its pair is contested, and decides if it is the evidence; otherwise
    /// returns false.
    pub(super) fn contest(
        &mut self,
        at: usize,
        received: Received,
        id: ConnectionId,
        from: End,
        bytes: &[u8],
    ) -> bool {
        let kind = MessageType(bytes[18]);
        if self.challenges(at, id, kind) {
            self.resolve(at, false);
            self.begin_contest(at, received.elapsed, id);
        }
        let slot = &mut self.slots[at];
        let Some(contest) = &slot.contest else { return false };
        let is_its = contest.challenger == id;
        slot.queue(Raw::Message(received, id, from, bytes.into()));
        let is_accepted = is_its
            && matches!(
                kind,
                MessageType::KEEPALIVE | MessageType::UPDATE | MessageType::ROUTE_REFRESH
            );
        if is_accepted || kind == MessageType::NOTIFICATION {
            self.resolve(at, is_accepted);
        }
        true
    }

    /// Whether a message is the first one of a connection beside that of an established session.
    fn challenges(&self, at: usize, id: ConnectionId, kind: MessageType) -> bool {
        let slot = &self.slots[at];
        let conn = self.connections.get(id.index()).and_then(Option::as_ref);
        kind == MessageType::OPEN
            && slot.state == State::Established
            && slot.leader.is_some_and(|leader| leader != id)
            && slot.contest.as_ref().is_none_or(|contest| contest.challenger != id)
            && conn.is_some_and(|conn| !conn.admitted && !conn.dead)
    }

    fn begin_contest(&mut self, at: usize, since: u64, challenger: ConnectionId) {
        let slot = &mut self.slots[at];
        let input = VecDeque::new();
        slot.contest = Some(Box::new(Contest { challenger, since, input, bytes: 0 }));
        let leader = slot.leader.and_then(|id| self.connections[id.index()].as_mut());
        if let Some(leader) = leader {
            leader.fast = false;
        }
        self.check_at = self.check_at.min(self.place_by(since));
    }

    /// Processes the held input of a contested pair: if the router accepted the challenger, that of
    /// the old session and its end first, and otherwise all in the order of time.
    pub(super) fn resolve(&mut self, at: usize, is_accepted: bool) {
        let Some(contest) = self.slots[at].contest.take() else { return };
        let Contest { challenger, input, .. } = *contest;
        let (mut new, mut old): (VecDeque<Raw>, VecDeque<Raw>) =
            input.into_iter().partition(|raw| raw.connection() == challenger);
        while let Some(next) = old.front() {
            let is_next = |first: &Raw| is_accepted || next.time() <= first.time();
            let from = if new.front().is_none_or(is_next) { &mut old } else { &mut new };
            if let Some(raw) = from.pop_front() {
                self.replay(at, raw);
            }
        }
        let slot = &self.slots[at];
        if let (true, Some(leader), Some(first)) = (is_accepted, slot.leader, new.front()) {
            let time = slot.end_time(first.time());
            self.replay(at, Raw::Closed(time, leader, Close::Replaced));
        }
        for raw in new {
            self.replay(at, raw);
        }
    }
}
