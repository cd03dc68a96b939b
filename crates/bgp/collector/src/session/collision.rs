//! Connection collision (RFC 4271 §6.8): an OPEN on a second connection during a session.
//!
//! Either the end of the earlier session was not captured, or the speakers reject one of the two
//! connections. The next messages show which: only an accepted connection has KEEPALIVEs. Until
//! then all input of the pair is held, so that the inferred end of the earlier session precedes the
//! first message of the next one.

use std::collections::VecDeque;

use base::Time;
use bgp::MessageType;

use super::Sessions;
use super::connection::{Conn, Received};
use super::peering::{Collision, Raw, Slot};
use crate::{Close, ConnectionId, End, Sink, State};

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

impl Collision {
    /// Whether a message shows that the newer connection is accepted; `None` if it shows nothing.
    /// The last messages of an established session may be captured after those of the newer one.
    fn accepts(
        &mut self,
        id: ConnectionId,
        from: End,
        kind: MessageType,
        is_established: bool,
    ) -> Option<bool> {
        let is_newer = self.newer == id;
        match kind {
            MessageType::NOTIFICATION => Some(false),
            MessageType::KEEPALIVE if !is_established => {
                // Before the collision is resolved, one end may confirm both connections.
                let ends = &mut self.keepalives[usize::from(is_newer)];
                ends[from.index()] = true;
                (*ends == [true; 2]).then_some(is_newer)
            }
            MessageType::KEEPALIVE | MessageType::UPDATE | MessageType::ROUTE_REFRESH => {
                (is_newer || !is_established).then_some(is_newer)
            }
            _ => None,
        }
    }

    /// Whether only the newer connection has a KEEPALIVE.
    const fn is_newer_ahead(&self) -> bool {
        let [[a, b], [c, d]] = self.keepalives;
        !(a || b) && (c || d)
    }
}

impl Slot {
    /// Queues input of a pair with a collision.
    pub(super) fn queue(&mut self, raw: Raw) {
        let Some(collision) = &mut self.collision else { return };
        if let Raw::Message(_, _, _, bytes) = &raw {
            collision.bytes += bytes.len();
        }
        collision.input.push_back(raw);
    }
}

impl<S: Sink> Sessions<S> {
    /// If the pair of the message has a collision, queues the message, resolves the collision if
    /// the message shows the result, and returns true.
    pub(super) fn collide(
        &mut self,
        at: usize,
        received: Received,
        id: ConnectionId,
        from: End,
        bytes: &[u8],
    ) -> bool {
        let kind = MessageType(bytes[18]);
        if self.is_first_open(at, id, kind) {
            self.settle_collision(at);
            self.begin_collision(at, received, id);
        }
        let slot = &mut self.slots[at];
        let is_established = slot.state == State::Established;
        let Some(collision) = &mut slot.collision else { return false };
        let is_accepted = collision.accepts(id, from, kind, is_established);
        slot.queue(Raw::Message(received, id, from, bytes.into()));
        if let Some(is_accepted) = is_accepted {
            self.resolve_collision(at, is_accepted);
        }
        true
    }

    /// Whether a message is the first one of a connection beside that of a session.
    fn is_first_open(&self, at: usize, id: ConnectionId, kind: MessageType) -> bool {
        let slot = &self.slots[at];
        kind == MessageType::OPEN
            && slot.leader.is_some_and(|leader| leader != id)
            && slot.collision.as_ref().is_none_or(|collision| collision.newer != id)
            && self.conn(id).is_some_and(|conn| !conn.admitted && !conn.dead)
    }

    fn conn(&self, id: ConnectionId) -> Option<&Conn> {
        self.connections.get(id.index()).and_then(Option::as_ref)
    }

    fn begin_collision(&mut self, at: usize, received: Received, newer: ConnectionId) {
        let slot = &self.slots[at];
        let Some(leader) = slot.leader else { return };
        // An end does not open two connections at a time: the end of the earlier one was not
        // captured. An established session needs more evidence.
        let opener = |id| self.conn(id).and_then(|conn| conn.connection.opener);
        let is_reopened = opener(leader).is_some() && opener(leader) == opener(newer);
        if slot.state < State::Established && is_reopened {
            self.replace(at, received.time);
            return;
        }
        let slot = &mut self.slots[at];
        let (since, input, keepalives) = (received.elapsed, VecDeque::new(), [[false; 2]; 2]);
        slot.collision = Some(Box::new(Collision { newer, since, input, bytes: 0, keepalives }));
        if let Some(leader) = self.connections[leader.index()].as_mut() {
            leader.fast = false;
        }
        self.check_at = self.check_at.min(self.place_by(since));
    }

    /// Ends a session before the first message of the next one at `time`.
    fn replace(&mut self, at: usize, time: Time) {
        let slot = &self.slots[at];
        if let Some(leader) = slot.leader {
            self.replay(at, Raw::Closed(slot.end_time(time), leader, Close::Replaced));
        }
    }

    /// Resolves a collision without further evidence.
    pub(super) fn settle_collision(&mut self, at: usize) {
        let collision = self.slots[at].collision.as_ref();
        if let Some(is_accepted) = collision.map(|collision| collision.is_newer_ahead()) {
            self.resolve_collision(at, is_accepted);
        }
    }

    /// Processes the held input of a pair with a collision: if the newer connection is accepted,
    /// that of the earlier session and its end first, and otherwise all in the order of time.
    pub(super) fn resolve_collision(&mut self, at: usize, is_accepted: bool) {
        let Some(collision) = self.slots[at].collision.take() else { return };
        let Collision { newer, input, .. } = *collision;
        let (mut new, mut old): (VecDeque<Raw>, VecDeque<Raw>) =
            input.into_iter().partition(|raw| raw.connection() == newer);
        while let Some(next) = old.front() {
            let is_next = |first: &Raw| is_accepted || next.time() <= first.time();
            let from = if new.front().is_none_or(is_next) { &mut old } else { &mut new };
            if let Some(raw) = from.pop_front() {
                self.replay(at, raw);
            }
        }
        if let (true, Some(first)) = (is_accepted, new.front()) {
            self.replace(at, first.time());
        }
        for raw in new {
            self.replay(at, raw);
        }
    }
}
