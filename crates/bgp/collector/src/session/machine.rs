//! The states of a peering (RFC 4271 §8), as inferred from the wire.
//!
//! The state of a peering is the highest state of its connections. So the loser of a connection
//! collision (§6.8) causes no event, and only the end of the session leads to Idle. Two
//! established connections cannot coexist: if a second one is established, the end of the first
//! was not captured.

use base::Time;
use bgp::{Message, MessageType};

use super::Sessions;
use super::connection::{Offer, index, proves};
use super::inference::{self, Change};
use super::peering::Slot;
use super::structure::{self, Evidence};
use crate::{
    Close, ConnectionId, End, Event, Gap, GapCause, Hole, Limit, Reason, Sender, Sink, State,
};

impl<S: Sink> Sessions<S> {
    /// Processes a message of a connection with a placed peering.
    pub(super) fn process(&mut self, time: Time, id: ConnectionId, from: End, bytes: &[u8]) {
        let Some(message) = Message::split(bytes) else { return };
        let kind = message.kind();
        if let Some(conn) = &mut self.connections[id.index()] {
            let is_notification = kind == MessageType::NOTIFICATION;
            if conn.notified && !is_notification {
                self.late_messages += 1;
                return;
            }
            conn.notified |= is_notification;
        }
        self.admit(time, id, kind);
        self.first_words(time, id, from, kind);
        let Some(conn) = self.connections[id.index()].as_mut() else { return };
        let slot = &mut self.slots[conn.slot as usize];
        let sender = conn.sender(from);
        conn.spoke[from.index()] = true;
        let over = slot.end_time(time);
        let step = if conn.dead { None } else { proves(conn, sender, kind.0) };
        if kind == MessageType::OPEN && !conn.dead && !conn.open[index(sender)] {
            conn.open[index(sender)] = true;
            conn.offers[index(sender)] = Offer::parse(message.body()).map(Box::new);
            let hold = conn.hold();
            if slot.leader == Some(id) {
                slot.release(&mut self.sink, time);
                slot.agree(conn);
            }
            self.note_hold(hold);
        }
        if let Some((state, reason, true)) = step {
            self.raise(time, id, state, reason);
        }
        if kind == MessageType::UPDATE {
            self.update(time, id, sender, message);
        } else {
            self.pass(time, id, sender, message);
        }
        if let Some((state, reason, false)) = step {
            self.raise(time, id, state, reason);
        }
        if kind == MessageType::NOTIFICATION {
            let code = |at: usize| message.body().get(at).copied().unwrap_or(0);
            self.finish_session(over, id, Reason::Notification(sender, code(0), code(1)));
        }
    }

    fn pass(&mut self, time: Time, id: ConnectionId, sender: Sender, message: Message<'_>) {
        if let Some(conn) = &self.connections[id.index()] {
            self.slots[conn.slot as usize].message(&mut self.sink, time, sender, message);
        }
    }

    /// Processes an UPDATE: delivers it if its encoding is certain, otherwise holds it.
    fn update(&mut self, time: Time, id: ConnectionId, sender: Sender, message: Message<'_>) {
        let Some(conn) = &self.connections[id.index()] else { return };
        let slot = &mut self.slots[conn.slot as usize];
        let body = message.body();
        if conn.dead || slot.leader != Some(id) {
            slot.message(&mut self.sink, time, sender, message);
            return;
        }
        if slot.peering.certain {
            slot.message(&mut self.sink, time, sender, message);
            let is_peer = sender == Sender::Peer;
            if self.settings.check || slot.has_path_ids() || is_peer && slot.is_unchecked() {
                let evidence = structure::score_update(body);
                let evidence = evidence.as_ref();
                let is_readable =
                    check_readable(&mut self.sink, slot, time, sender, message, evidence);
                slot.checked += u32::from(is_peer && is_readable);
            }
            return;
        }
        if slot.inference.heard_length(message.bytes().len()) {
            slot.apply_inference();
        }
        if !slot.is_holding() && slot.inference.passes(sender, body) {
            slot.passed += 1;
            slot.message(&mut self.sink, time, sender, message);
            return;
        }
        let weighed = structure::score_update(body);
        let evidence = weighed.unwrap_or_default();
        let change = slot.inference.hear(sender, &evidence);
        let lacks = slot.inference.lacks(sender, &evidence);
        if slot.is_holding() || lacks {
            if !slot.is_holding() {
                slot.waiting = conn.received.elapsed;
                self.check_at = self.check_at.min(slot.waiting + self.settings.wait.as_nanos());
            }
            slot.last = time;
            slot.hold(time, sender, message);
            if !slot.inference.is_open() {
                slot.release(&mut self.sink, time);
            }
            return;
        }
        if !slot.reading_reported || change != Change::None {
            let passed = std::mem::take(&mut slot.passed);
            let otherwise = if change == Change::Refuted { passed } else { 0 };
            slot.read(&mut self.sink, time, otherwise);
        }
        slot.passed += 1;
        slot.message(&mut self.sink, time, sender, message);
        check_readable(&mut self.sink, slot, time, sender, message, weighed.as_ref());
    }

    /// Attaches a connection to its peering, at its first message.
    fn admit(&mut self, time: Time, id: ConnectionId, first: MessageType) {
        let Some(conn) = self.connections[id.index()].as_mut() else { return };
        if std::mem::replace(&mut conn.admitted, true) {
            return;
        }
        let slot = &mut self.slots[conn.slot as usize];
        conn.router = super::perspective::router_end(&slot.peering, &conn.connection);
        if conn.dead {
            return;
        }
        let opening = if first == MessageType::OPEN { conn.connection.opener } else { None };
        let alone = slot.live.iter().all(|other| *other == id);
        if slot.state != State::Idle && alone && first == MessageType::OPEN {
            slot.release(&mut self.sink, time);
            slot.change(&mut self.sink, time, State::Idle, Reason::Replaced);
        }
        if let Some(opener) = opening {
            let state = if opener == conn.router { State::Connect } else { State::Active };
            conn.state = state;
            if slot.state == State::Idle {
                let time = conn.opened.max(slot.last).min(time);
                slot.change(&mut self.sink, time, state, Reason::Seen);
            }
        }
        if slot.leader.is_none() {
            self.lead(time, id);
        }
    }

    fn lead(&mut self, time: Time, id: ConnectionId) {
        let Some(conn) = &self.connections[id.index()] else { return };
        let slot = &mut self.slots[conn.slot as usize];
        slot.release(&mut self.sink, time);
        slot.leader = Some(id);
        slot.begin();
        slot.agree(conn);
    }

    /// Reports the gap before the first message of an end.
    fn first_words(&mut self, time: Time, id: ConnectionId, from: End, kind: MessageType) {
        let Some(conn) = self.connections[id.index()].as_mut() else { return };
        if conn.spoke[from.index()] {
            return;
        }
        // An end may reject a connection with a NOTIFICATION before any OPEN.
        let refuses = kind == MessageType::NOTIFICATION && conn.connection.opener.is_some();
        let middle = kind != MessageType::OPEN && !refuses;
        let early = conn.early[from.index()].take().or_else(|| {
            let (since, missing, skipped) = (conn.opened.min(time), 0, 0);
            let (acknowledged, resynchronised, limit) = (false, true, None);
            let unconfirmed = 0;
            middle.then_some(Hole {
                time,
                since,
                missing,
                skipped,
                unconfirmed,
                acknowledged,
                resynchronised,
                limit,
            })
        });
        if let Some(hole) = early {
            self.tell_hole(id, from, &hole);
        }
    }

    /// Reports the gaps of ends without messages.
    pub(super) fn last_words(&mut self, id: ConnectionId) {
        for from in [End::Low, End::High] {
            let conn = self.connections[id.index()].as_mut();
            let admitted = conn.filter(|conn| conn.admitted);
            let early = admitted.and_then(|conn| conn.early[from.index()].take());
            if let Some(hole) = early {
                self.tell_hole(id, from, &hole);
            }
        }
    }

    /// Processes a gap of a connection with a placed peering; one before the first message of an
    /// end is reported with that message.
    pub(super) fn hole_of(&mut self, id: ConnectionId, from: End, hole: &Hole) {
        match self.connections.get_mut(id.index()) {
            Some(Some(conn)) if !conn.spoke[from.index()] => conn.remember(from, hole),
            _ => self.tell_hole(id, from, hole),
        }
    }

    fn tell_hole(&mut self, id: ConnectionId, from: End, hole: &Hole) {
        let Some(conn) = &self.connections[id.index()] else { return };
        let cause = if hole.limit == Some(Limit::Length) {
            GapCause::Cut
        } else if hole.limit == Some(Limit::End) {
            GapCause::End
        } else if hole.acknowledged {
            GapCause::Mirror
        } else if conn.connection.opener.is_none() && !conn.spoke[from.index()] {
            GapCause::Start
        } else {
            GapCause::Unknown
        };
        let gap = Gap {
            since: hole.since,
            until: hole.time,
            from: conn.sender(from),
            cause,
            missing: hole.missing,
            skipped: hole.skipped,
        };
        let slot = &mut self.slots[conn.slot as usize];
        slot.tell(&mut self.sink, Event::Gap(gap));
        if hole.unconfirmed > 0 {
            let (cause, skipped) = (GapCause::Unconfirmed, hole.unconfirmed);
            slot.tell(&mut self.sink, Event::Gap(Gap { cause, missing: 0, skipped, ..gap }));
        }
    }

    fn raise(&mut self, time: Time, id: ConnectionId, state: State, reason: Reason) {
        let Some(conn) = &self.connections[id.index()] else { return };
        if conn.state >= state {
            return;
        }
        if conn.state == State::OpenSent && state == State::Established {
            self.raise(time, id, State::OpenConfirm, reason);
        }
        let Some(conn) = &self.connections[id.index()] else { return };
        let slot = conn.slot as usize;
        if state == State::Established {
            let rivals = self.slots[slot].live.clone();
            for rival in rivals.into_iter().filter(|rival| *rival != id) {
                let other = self.connections[rival.index()].as_ref();
                if other.is_some_and(|other| other.admitted) {
                    self.finish_session(time, rival, Reason::Replaced);
                }
            }
            if self.slots[slot].leader != Some(id) {
                self.lead(time, id);
            }
        }
        if let Some(conn) = self.connections[id.index()].as_mut() {
            conn.state = state;
        }
        let slot = &mut self.slots[slot];
        if slot.state < state {
            slot.change(&mut self.sink, time, state, reason);
        }
    }

    /// Ends the session on a connection, if it is not ended.
    pub(super) fn finish_session(&mut self, time: Time, id: ConnectionId, reason: Reason) {
        self.last_words(id);
        let Some(conn) = self.connections[id.index()].as_mut() else { return };
        conn.fast = false;
        if std::mem::replace(&mut conn.dead, true) || !conn.admitted {
            return;
        }
        let reached = std::mem::replace(&mut conn.state, State::Idle);
        let slot_at = conn.slot as usize;
        let slot = &mut self.slots[slot_at];
        slot.live.retain(|live| *live != id);
        let led = slot.leader == Some(id);
        if led {
            slot.leader = None;
        }
        let state = |id: &ConnectionId| {
            self.connections[id.index()].as_ref().map_or(State::Idle, |conn| conn.state)
        };
        let heir = slot.live.iter().copied().max_by_key(state);
        let rest = heir.as_ref().map_or(State::Idle, state);
        if reached < slot.state {
            // The session is that of another connection, which may end with the input.
        } else if rest < slot.state && rest > State::Idle && slot.state < State::Established {
            slot.change(&mut self.sink, time, rest, Reason::Collision);
        } else if rest < slot.state {
            slot.release(&mut self.sink, time);
            slot.change(&mut self.sink, time, State::Idle, reason);
            slot.change(&mut self.sink, time, rest, Reason::Seen);
        }
        if let (true, Some(heir)) = (led, heir) {
            self.lead(time, heir);
        }
    }

    /// Processes the end of one direction of a connection with a placed peering.
    pub(super) fn close(&mut self, time: Time, id: ConnectionId, close: Close) {
        let Some(conn) = &self.connections[id.index()] else { return };
        let end = self.slots[conn.slot as usize].end_time(time);
        let hold = self.hold_of(conn);
        let over = hold.map(|hold| conn.received.time + hold).filter(|over| *over <= time);
        match (close, over) {
            (Close::Idle | Close::Replaced, Some(over)) => {
                let over = over.max(self.slots[conn.slot as usize].last);
                self.finish_session(over, id, Reason::HoldTimeExpired);
            }
            (Close::Finished, _) => self.finish_session(end, id, Reason::Finished),
            (Close::Reset, _) => self.finish_session(end, id, Reason::Reset),
            (Close::Replaced, None) => self.finish_session(time, id, Reason::Replaced),
            (Close::Idle | Close::Evicted, _) => {
                self.finish_session(time, id, Reason::Forgotten);
            }
            // The input ends before the end of the connection.
            (Close::Ended, _) => {}
        }
    }
}

/// Reports a delivered UPDATE that is undecodable. Returns whether it is decodable.
fn check_readable<S: Sink>(
    sink: &mut S,
    slot: &mut Slot,
    time: Time,
    from: Sender,
    message: Message<'_>,
    evidence: Option<&Evidence>,
) -> bool {
    let negotiated = match from {
        Sender::Peer => slot.peering.from_peer,
        Sender::Local => slot.peering.from_local,
    };
    if evidence.is_some_and(|evidence| inference::is_readable(evidence, negotiated)) {
        return true;
    }
    let (missing, skipped) = (0, message.bytes().len() as u64);
    let cause = GapCause::Undecodable;
    slot.tell(sink, Event::Gap(Gap { since: time, until: time, from, cause, missing, skipped }));
    false
}
