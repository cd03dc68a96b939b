//! BGP sessions from the messages on their connections: which end is the router, the state, and how
//! messages are encoded.
//!
//! # Problem
//!
//! A tap shows only the bytes on the wire, and often one direction. States follow from the captured
//! messages (`machine`, `collision`). Silence is measured by a clock that may be set during the
//! capture (`clock`, `expiry`). Events are those of the router, which may be either end of the
//! connection (`perspective`). The encoding of AS numbers and prefixes is known if both OPENs were
//! captured. Otherwise it is inferred from the bytes, which are held until then (`inference`,
//! `structure`).
//!
//! A peering starts with the first message of a pair of addresses, not with a SYN, so that other
//! traffic leaves no state. Every message is delivered exactly once and in order, and messages
//! before a decision are held within the limits of [`Settings`]. Only messages after a NOTIFICATION
//! are not delivered, because no end processes them.
//!
//! An established session with both OPENs captured costs a few comparisons per message.

mod clock;
mod collision;
mod connection;
mod expiry;
mod inference;
mod machine;
mod peering;
mod perspective;
mod structure;

use std::collections::HashMap;
use std::net::IpAddr;

use base::{Span, Time};
use bgp::{Asn, Message, Negotiated};

use crate::{
    Close, Confidence, Connection, ConnectionId, End, Event, Hole, MirrorId, Peering, PeeringId,
    Receiver, Sink, State,
};
use clock::Clock;
use connection::{Conn, NOWHERE, Received};
use peering::{Pair, Raw, Slot};

#[derive(Clone, Debug)]
pub struct Settings {
    pub routers: Vec<IpAddr>,
    /// AS numbers of routers and neighbours, for sessions without captured OPENs.
    pub systems: Vec<(IpAddr, Asn)>,
    pub hold: Span,
    /// Maximum time for which messages wait for a decision on their encoding or on
    /// the router's end.
    pub wait: Span,
    pub wait_messages: usize,
    pub wait_bytes: usize,
    pub wait_bytes_in_all: usize,
    /// Maximum number of peerings; above it the least used sixteenth is removed.
    pub peerings: usize,
    /// Check each UPDATE for readability, even if that cannot change a decision.
    pub check: bool,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            routers: Vec::new(),
            systems: Vec::new(),
            hold: Span::from_secs(180),
            wait: Span::from_secs(30),
            wait_messages: 1024,
            wait_bytes: 1 << 20,
            wait_bytes_in_all: 64 << 20,
            peerings: 1 << 16,
            check: false,
        }
    }
}

impl Settings {
    fn asn(&self, address: IpAddr) -> Asn {
        self.systems.iter().find(|(one, _)| *one == address).map_or(Asn::ZERO, |(_, asn)| *asn)
    }
}

/// Parameters of a peering, saved across restarts of the collector, for sessions that
/// were already established.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Learned {
    pub mirror: MirrorId,
    pub peer: IpAddr,
    pub local: IpAddr,
    /// The neighbour's AS, [`Asn::ZERO`] if unknown.
    pub peer_as: Asn,
    /// The router's AS, [`Asn::ZERO`] if unknown.
    pub local_as: Asn,
    /// The neighbour's BGP identifier, 0 if unknown.
    pub peer_id: u32,
    /// The router's BGP identifier, 0 if unknown.
    pub local_id: u32,
    pub from_peer: Negotiated,
    pub from_local: Negotiated,
    pub confidence: Confidence,
    /// The router's end was guessed.
    pub is_guess: bool,
    pub hold: Option<Span>,
}

#[derive(Debug)]
pub struct Sessions<S> {
    settings: Settings,
    sink: S,
    clock: Clock,
    check_at: u64,
    connections: Vec<Option<Conn>>,
    slots: Vec<Slot>,
    free: Vec<u32>,
    pairs: HashMap<Pair, u32>,
    addresses: HashMap<(MirrorId, IpAddr), u32>,
    mirrors: Vec<u64>,
    mirror_numbers: HashMap<MirrorId, u32>,
    learned: HashMap<Pair, Learned>,
    /// Slots with a guessed router, by mirror and presumed peer.
    guesses: HashMap<(MirrorId, IpAddr), u32>,
    uncounted: usize,
    late_messages: u64,
    next_id: u32,
}

impl<S: Sink> Sessions<S> {
    pub fn new(settings: Settings, sink: S) -> Self {
        let mut clock = Clock::new();
        clock.set_hold(settings.hold);
        Self {
            settings,
            sink,
            clock,
            check_at: u64::MAX,
            connections: Vec::new(),
            slots: Vec::new(),
            free: Vec::new(),
            pairs: HashMap::new(),
            addresses: HashMap::new(),
            mirrors: Vec::new(),
            mirror_numbers: HashMap::new(),
            learned: HashMap::new(),
            guesses: HashMap::new(),
            uncounted: 0,
            late_messages: 0,
            next_id: 0,
        }
    }

    pub const fn sink(&self) -> &S {
        &self.sink
    }

    pub const fn sink_mut(&mut self) -> &mut S {
        &mut self.sink
    }

    /// Returns the sink; call [`Sessions::finish`] before.
    pub fn into_sink(self) -> S {
        self.sink
    }

    /// Sets the parameters of a peering from an earlier run, before its first message.
    pub fn learn(&mut self, learned: Learned) {
        let pair = Pair::new(learned.mirror, learned.peer, learned.local);
        self.learned.insert(pair, learned);
    }

    /// Parameters of all peerings, in the order of their numbers.
    pub fn learned(&self) -> impl Iterator<Item = Learned> {
        let mut slots: Vec<&Slot> = self.slots.iter().filter(|slot| !slot.gone).collect();
        slots.sort_unstable_by_key(|slot| slot.peering.id);
        slots.into_iter().filter_map(|slot| {
            let facts = &slot.peering;
            let [from_peer, from_local] = slot.reading()?;
            let confidence = match (facts.certain, slot.reading_reported) {
                (true, _) => Confidence::Proved,
                (false, true) => slot.inference.confidence(),
                (false, false) => Confidence::Likely,
            };
            Some(Learned {
                mirror: facts.mirror,
                peer: facts.peer,
                local: facts.local,
                peer_as: facts.peer_as,
                local_as: facts.local_as,
                peer_id: facts.peer_id,
                local_id: facts.local_id,
                from_peer,
                from_local,
                confidence,
                is_guess: slot.guessed,
                hold: slot.hold,
            })
        })
    }

    /// All peerings and their states, in the order of their numbers.
    pub fn peerings(&self) -> impl Iterator<Item = (&Peering, State)> {
        let mut slots: Vec<&Slot> =
            self.slots.iter().filter(|slot| slot.placed && !slot.gone).collect();
        slots.sort_unstable_by_key(|slot| slot.peering.id);
        slots.into_iter().map(|slot| (&slot.peering, slot.state))
    }

    /// Number of messages after a NOTIFICATION of either end. No end processes them, so the sink
    /// does not receive them.
    pub const fn late_messages(&self) -> u64 {
        self.late_messages
    }

    /// Advances the time of the capture, or of the clock in live operation, to `now`.
    pub fn advance(&mut self, now: Time) {
        if self.clock.observe(now) >= self.check_at {
            self.check();
        }
    }

    /// Earliest deadline of the held messages, by the time of the capture. No session is considered
    /// silent before it.
    pub fn held_until(&self) -> Option<Time> {
        let waiting = self.slots.iter().filter(|slot| !slot.gone && slot.is_waiting());
        let due = waiting.map(|slot| self.due_at(slot)).min()?;
        Some(self.clock.time_of(due))
    }

    /// Ends the input: held messages are delivered. Sessions keep their state.
    pub fn finish(&mut self) {
        for at in 0..self.slots.len() {
            self.settle(at);
        }
        self.report_unconfirmed(0..self.slots.len());
    }

    fn receive(&mut self, received: Received, id: ConnectionId, from: End, bytes: &[u8]) {
        let Some(at) = self.join(id, received) else { return };
        self.count_routes(at, received, id, from, bytes);
        let slot = &mut self.slots[at];
        if !slot.placed {
            slot.raw_bytes += bytes.len();
            slot.raw.push(Raw::Message(received, id, from, bytes.into()));
            self.place(at, false);
            self.bound(at, bytes.len());
            return;
        }
        if self.collide(at, received, id, from, bytes) {
            self.bound(at, bytes.len());
            return;
        }
        self.keep(at, || Raw::Message(received, id, from, bytes.into()));
        self.process(received.time, id, from, bytes);
        if self.slots[at].guessed {
            self.review(at);
        }
        self.bound(at, bytes.len());
        self.update_fast_path(id);
    }

    /// Counts routes of a pair whose router is uncertain.
    fn count_routes(
        &mut self,
        at: usize,
        received: Received,
        id: ConnectionId,
        from: End,
        bytes: &[u8],
    ) {
        let slot = &mut self.slots[at];
        if let Some(Some(conn)) = self.connections.get(id.index())
            && (!slot.placed || slot.guessed)
        {
            let sender = conn.connection.ends[from.index()].ip();
            slot.routes.count(received.elapsed, &slot.pair, sender, bytes);
            if !slot.placed {
                self.check_at = self.check_at.min(Self::place_at(&self.slots[at]));
            }
        }
    }

    /// Counts `bytes` more held bytes of a slot, and enforces the limits.
    fn bound(&mut self, at: usize, bytes: usize) {
        let (settings, slot) = (&self.settings, &self.slots[at]);
        if !slot.is_waiting() {
            return;
        }
        let (events, held) = slot.holds();
        let mut full = events >= settings.wait_messages || held >= settings.wait_bytes;
        self.uncounted += bytes;
        // The sum visits all slots, so it is computed only after many more bytes.
        if self.uncounted > settings.wait_bytes_in_all / 16 {
            self.uncounted = 0;
            let all: usize = self.slots.iter().map(|slot| slot.holds().1).sum();
            full |= all > settings.wait_bytes_in_all;
        }
        if full {
            self.settle(at);
        }
    }

    /// The slot of a connection; a new one with its first message.
    fn join(&mut self, id: ConnectionId, received: Received) -> Option<usize> {
        let conn = self.connections.get(id.index())?.as_ref()?;
        if conn.slot != NOWHERE {
            return Some(conn.slot as usize);
        }
        let [low, high] = conn.connection.ends;
        let pair = Pair::new(conn.connection.mirror, low.ip(), high.ip());
        let at = match self.pairs.get(&pair) {
            Some(at) => *at,
            None => self.create(pair, received),
        };
        let next = self.mirrors.len() as u32;
        let mirror = *self.mirror_numbers.entry(pair.mirror).or_insert(next);
        if mirror == next {
            self.mirrors.push(received.elapsed);
        }
        let conn = self.connections[id.index()].as_mut()?;
        (conn.slot, conn.mirror) = (at, mirror);
        if !conn.dead {
            self.slots[at as usize].live.push(id);
        }
        self.note_hold(None);
        Some(at as usize)
    }

    fn create(&mut self, pair: Pair, received: Received) -> u32 {
        if self.pairs.len() >= self.settings.peerings {
            self.evict();
        }
        let peering = Peering::new(PeeringId(self.next_id), pair.mirror, pair.low, pair.high);
        self.next_id += 1;
        let slot = Slot::new(pair, peering, received);
        self.check_at = self.check_at.min(Self::place_at(&slot));
        let at = self.free.pop().unwrap_or(self.slots.len() as u32);
        match self.slots.get_mut(at as usize) {
            Some(free) => *free = slot,
            None => self.slots.push(slot),
        }
        self.pairs.insert(pair, at);
        for address in [pair.low, pair.high] {
            *self.addresses.entry((pair.mirror, address)).or_default() += 1;
        }
        self.compare_peerings(&pair);
        at
    }

    /// Processes a gap or an end of a connection with a slot.
    fn other(&mut self, at: usize, raw: Raw) {
        let slot = &mut self.slots[at];
        if !slot.placed {
            slot.raw.push(raw);
        } else if slot.collision.is_none() {
            self.replay(at, raw);
        } else {
            let is_end = matches!(raw, Raw::Closed(..));
            slot.queue(raw);
            if is_end {
                self.resolve_collision(at, false);
            }
        }
        self.bound(at, 0);
    }

    /// Determines whether the next message of `id` may take the fast path.
    fn update_fast_path(&mut self, id: ConnectionId) {
        let Some(conn) = self.connections[id.index()].as_mut() else { return };
        let slot = &self.slots[conn.slot as usize];
        conn.fast = slot.placed
            && slot.leader == Some(id)
            && slot.peering.certain
            && conn.state == State::Established
            && conn.spoke == [true; 2]
            && !slot.is_waiting()
            && (!slot.guessed || slot.kept.is_none() && slot.guess_reported)
            && !self.settings.check
            && !slot.has_path_ids()
            && !slot.is_unchecked();
    }
}

impl<S: Sink> Receiver for Sessions<S> {
    fn opened(&mut self, time: Time, id: ConnectionId, connection: &Connection) {
        let elapsed = self.clock.observe(time);
        self.ended(time, id);
        if self.connections.len() <= id.index() {
            self.connections.resize_with(id.index() + 1, || None);
        }
        self.connections[id.index()] = Some(Conn::new(time, elapsed, *connection));
    }

    #[inline]
    fn message(&mut self, time: Time, id: ConnectionId, from: End, bytes: &[u8]) {
        let elapsed = self.clock.observe(time);
        let received = Received { time, elapsed };
        if elapsed < self.check_at
            && let Some(Some(conn)) = self.connections.get_mut(id.index())
            && conn.fast
            && let Some(message) = Message::split(bytes)
            && matches!(message.kind().0, 2 | 4)
        {
            conn.received = received;
            self.mirrors[conn.mirror as usize] = elapsed;
            let slot = &mut self.slots[conn.slot as usize];
            slot.last = time;
            let event = Event::Message { time, from: conn.sender(from), message };
            self.sink.event(&slot.peering, &event);
            return;
        }
        if elapsed >= self.check_at {
            self.check();
        }
        if bytes.len() < bgp::HEADER {
            return;
        }
        if let Some(Some(conn)) = self.connections.get_mut(id.index()) {
            conn.received = received;
        }
        self.receive(received, id, from, bytes);
        if let Some(Some(conn)) = self.connections.get(id.index()) {
            self.mirrors[conn.mirror as usize] = elapsed;
        }
    }

    fn hole(&mut self, id: ConnectionId, from: End, hole: &Hole) {
        let Some(Some(conn)) = self.connections.get_mut(id.index()) else { return };
        if conn.slot == NOWHERE {
            conn.remember(from, hole);
        } else {
            let at = conn.slot as usize;
            self.other(at, Raw::Hole(id, from, *hole));
        }
    }

    fn closed(&mut self, time: Time, id: ConnectionId, _from: End, close: Close) {
        self.advance(time);
        let Some(Some(conn)) = self.connections.get(id.index()) else { return };
        if conn.slot != NOWHERE {
            self.other(conn.slot as usize, Raw::Closed(time, id, close));
        }
    }

    fn ended(&mut self, _time: Time, id: ConnectionId) {
        let Some(Some(conn)) = self.connections.get(id.index()) else { return };
        let at = conn.slot as usize;
        if conn.slot != NOWHERE {
            if self.slots[at].is_waiting() {
                self.settle(at);
            }
            self.last_words(id);
            self.stop_keeping(at);
            let slot = &mut self.slots[at];
            slot.live.retain(|live| *live != id);
            if slot.leader == Some(id) {
                slot.leader = slot.live.first().copied();
            }
        }
        self.connections[id.index()] = None;
    }
}

#[cfg(test)]
mod tests;
