//! BGP sessions, from the messages on their connections: which end is the router, in which state
//! it is, how its messages are to be read.
//!
//! # Problem
//!
//! A tap shows what went by, and often one direction only; the two speakers know more. States
//! follow from the messages that are seen (`machine`), silence is measured by a clock that may be
//! set while the capture runs (`clock`, `expiry`), the view is that of the router, wherever it
//! stands (`perspective`), and how AS numbers and prefixes are encoded is a fact if both OPENs were
//! seen and else is inferred from the bytes, which wait for that (`inference`, `structure`).
//!
//! A peering begins with the first message of a pair of addresses, not with a SYN: what is not BGP
//! leaves nothing behind. Every message goes on exactly once, those of both directions as they
//! came, and what goes before a decision is held no longer than [`Settings`] say.
//!
//! An established session of which both OPENs were seen costs a few comparisons a message.

mod clock;
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
use connection::{Conn, Heard, NOWHERE};
use peering::{Pair, Raw, Slot};

/// What sessions are told beforehand, and their limits.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Addresses of routers.
    pub routers: Vec<IpAddr>,
    /// AS numbers of routers and neighbours, where the OPEN may not be seen.
    pub systems: Vec<(IpAddr, Asn)>,
    /// Hold time of sessions whose OPENs were not seen.
    pub hold: Span,
    /// The longest that messages wait for a decision how to read them or which end is the router.
    pub wait: Span,
    /// The most messages of one peering that wait.
    pub wait_messages: usize,
    /// The most bytes of one peering that wait.
    pub wait_bytes: usize,
    /// The most bytes that wait in all.
    pub wait_bytes_in_all: usize,
    /// The most peerings; the least used sixteenth is forgotten when there are more.
    pub peerings: usize,
    /// Whether each UPDATE is checked to be readable, also where that cannot change anything.
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

/// What is known of a peering, to be kept over restarts of the collector: a session that is met in
/// the middle after that is read as before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Learned {
    /// The stream of clones that shows it.
    pub mirror: MirrorId,
    /// The neighbour's address.
    pub peer: IpAddr,
    /// The router's address.
    pub local: IpAddr,
    /// The neighbour's AS, [`Asn::ZERO`] if unknown.
    pub peer_as: Asn,
    /// The router's AS, [`Asn::ZERO`] if unknown.
    pub local_as: Asn,
    /// The neighbour's BGP identifier, 0 if unknown.
    pub peer_id: u32,
    /// The router's BGP identifier, 0 if unknown.
    pub local_id: u32,
    /// How messages from the neighbour are read.
    pub from_peer: Negotiated,
    /// How messages from the router are read.
    pub from_local: Negotiated,
    /// How sure that is.
    pub confidence: Confidence,
    /// The hold time, if an OPEN told.
    pub hold: Option<Span>,
}

/// All sessions; see the module.
#[derive(Debug)]
pub struct Sessions<S> {
    settings: Settings,
    sink: S,
    clock: Clock,
    /// Elapsed time at which something may be due.
    check_at: u64,
    connections: Vec<Option<Conn>>,
    slots: Vec<Slot>,
    free: Vec<u32>,
    pairs: HashMap<Pair, u32>,
    /// In how many peerings an address takes part.
    addresses: HashMap<(MirrorId, IpAddr), u32>,
    /// Elapsed time when a mirror last showed a message.
    mirrors: Vec<u64>,
    mirror_numbers: HashMap<MirrorId, u32>,
    learned: HashMap<Pair, Learned>,
    /// Slots whose router was guessed, by the presumed neighbour.
    guesses: HashMap<(MirrorId, IpAddr), u32>,
    /// Bytes that were held since all were last counted.
    uncounted: usize,
    next_id: u32,
}

impl<S: Sink> Sessions<S> {
    /// No sessions yet.
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
            next_id: 0,
        }
    }

    /// Who is told.
    pub const fn sink(&self) -> &S {
        &self.sink
    }

    /// Who is told, to be asked or changed.
    pub const fn sink_mut(&mut self) -> &mut S {
        &mut self.sink
    }

    /// Gives the sink back; call [`Sessions::finish`] before.
    pub fn into_sink(self) -> S {
        self.sink
    }

    /// What an earlier run knew of a peering; before its first message.
    pub fn learn(&mut self, learned: Learned) {
        let pair = Pair::new(learned.mirror, learned.peer, learned.local);
        self.learned.insert(pair, learned);
    }

    /// What is known of all peerings, in the order of their numbers.
    pub fn learned(&self) -> impl Iterator<Item = Learned> {
        let mut slots: Vec<&Slot> = self.slots.iter().filter(|slot| !slot.gone).collect();
        slots.sort_unstable_by_key(|slot| slot.peering.id);
        slots.into_iter().filter_map(|slot| {
            let facts = &slot.peering;
            let [from_peer, from_local] = slot.reading()?;
            let confidence = match (facts.certain, slot.told) {
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

    /// The capture, or in live operation the clock, has come to `now`.
    pub fn advance(&mut self, now: Time) {
        if self.clock.observe(now) >= self.check_at {
            self.check();
        }
    }

    /// When messages that are held back are due, by the time of the capture; `None` if none are. No
    /// silence is inferred before that time.
    pub fn held_until(&self) -> Option<Time> {
        let waiting = self.slots.iter().filter(|slot| !slot.gone && slot.is_waiting());
        let due = waiting.map(|slot| self.due_at(slot)).min()?;
        Some(self.clock.time_of(due))
    }

    /// The input is over: what waits goes on. Sessions stay as they are.
    pub fn finish(&mut self) {
        for at in 0..self.slots.len() {
            self.settle(at);
        }
    }

    /// A message that is not just passed on.
    fn receive(&mut self, heard: Heard, id: ConnectionId, from: End, bytes: &[u8]) {
        let Some(at) = self.join(id, heard) else { return };
        self.count_routes(at, heard, id, from, bytes);
        let slot = &mut self.slots[at];
        if !slot.placed {
            slot.raw_bytes += bytes.len();
            slot.raw.push(Raw::Message(heard, id, from, bytes.into()));
            self.place(at, false);
            self.bound(at, bytes.len());
            return;
        }
        self.keep(at, || Raw::Message(heard, id, from, bytes.into()));
        self.process(heard.time, id, from, bytes);
        if self.slots[at].guessed {
            self.review(at);
        }
        self.bound(at, bytes.len());
        self.quicken(id);
    }

    /// Counts routes of a pair of which it is not certain which end is the router.
    fn count_routes(&mut self, at: usize, heard: Heard, id: ConnectionId, from: End, bytes: &[u8]) {
        let slot = &mut self.slots[at];
        if let Some(Some(conn)) = self.connections.get(id.index())
            && (!slot.placed || slot.guessed)
        {
            let sender = conn.connection.ends[from.index()].ip();
            slot.routes.count(heard.elapsed, &slot.pair, sender, bytes);
            if !slot.placed {
                self.check_at = self.check_at.min(Self::place_at(&self.slots[at]));
            }
        }
    }

    /// Keeps what waits at a slot, `bytes` more than before, within the limits.
    fn bound(&mut self, at: usize, bytes: usize) {
        let (settings, slot) = (&self.settings, &self.slots[at]);
        if slot.placed && !slot.is_holding() {
            return;
        }
        let (events, held) = slot.holds();
        let mut full = events >= settings.wait_messages || held >= settings.wait_bytes;
        self.uncounted += bytes;
        // Counting is for all slots: now and then is enough.
        if self.uncounted > settings.wait_bytes_in_all / 16 {
            self.uncounted = 0;
            let all: usize = self.slots.iter().map(|slot| slot.holds().1).sum();
            full |= all > settings.wait_bytes_in_all;
        }
        if full {
            self.settle(at);
        }
    }

    /// As [`Self::bound`], for something that is no message.
    fn bound_of(&mut self, id: ConnectionId) {
        let Some(Some(conn)) = self.connections.get(id.index()) else { return };
        if conn.slot != NOWHERE {
            self.bound(conn.slot as usize, 0);
        }
    }

    /// The slot of a connection; a new one with its first message.
    fn join(&mut self, id: ConnectionId, heard: Heard) -> Option<usize> {
        let conn = self.connections.get(id.index())?.as_ref()?;
        if conn.slot != NOWHERE {
            return Some(conn.slot as usize);
        }
        let [low, high] = conn.connection.ends;
        let pair = Pair::new(conn.connection.mirror, low.ip(), high.ip());
        let at = match self.pairs.get(&pair) {
            Some(at) => *at,
            None => self.create(pair, heard),
        };
        let next = self.mirrors.len() as u32;
        let mirror = *self.mirror_numbers.entry(pair.mirror).or_insert(next);
        if mirror == next {
            self.mirrors.push(heard.elapsed);
        }
        let conn = self.connections[id.index()].as_mut()?;
        (conn.slot, conn.mirror) = (at, mirror);
        if !conn.dead {
            self.slots[at as usize].live.push(id);
        }
        self.note_hold(None);
        Some(at as usize)
    }

    fn create(&mut self, pair: Pair, heard: Heard) -> u32 {
        if self.pairs.len() >= self.settings.peerings {
            self.evict();
        }
        let peering = Peering::new(PeeringId(self.next_id), pair.mirror, pair.low, pair.high);
        self.next_id += 1;
        let slot = Slot::new(pair, peering, heard);
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

    fn hole_of(&mut self, id: ConnectionId, from: End, hole: &Hole) {
        let Some(Some(conn)) = self.connections.get_mut(id.index()) else { return };
        match self.slots.get_mut(conn.slot as usize) {
            None => conn.remember(from, hole),
            Some(slot) if !slot.placed => slot.raw.push(Raw::Hole(id, from, *hole)),
            Some(_) if !conn.spoke[from.index()] => conn.remember(from, hole),
            Some(_) => self.tell_hole(id, from, hole),
        }
    }

    /// Says whether the next message of `id` may go by the short way.
    fn quicken(&mut self, id: ConnectionId) {
        let Some(conn) = self.connections[id.index()].as_mut() else { return };
        let slot = &self.slots[conn.slot as usize];
        conn.fast = slot.placed
            && slot.leader == Some(id)
            && slot.peering.certain
            && conn.state == State::Established
            && conn.spoke == [true; 2]
            && !slot.is_holding()
            && (!slot.guessed || slot.kept.is_none() && slot.guess_reported)
            && !self.settings.check;
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
        let heard = Heard { time, elapsed };
        if elapsed < self.check_at
            && let Some(Some(conn)) = self.connections.get_mut(id.index())
            && conn.fast
            && let Some(message) = Message::split(bytes)
            && matches!(message.kind().0, 2 | 4)
        {
            conn.heard = heard;
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
            conn.heard = heard;
        }
        self.receive(heard, id, from, bytes);
        if let Some(Some(conn)) = self.connections.get(id.index()) {
            self.mirrors[conn.mirror as usize] = elapsed;
        }
    }

    fn hole(&mut self, id: ConnectionId, from: End, hole: &Hole) {
        let Some(Some(conn)) = self.connections.get(id.index()) else { return };
        if conn.slot != NOWHERE {
            self.keep(conn.slot as usize, || Raw::Hole(id, from, *hole));
        }
        self.hole_of(id, from, hole);
        self.bound_of(id);
    }

    fn closed(&mut self, time: Time, id: ConnectionId, _from: End, close: Close) {
        self.advance(time);
        let Some(Some(conn)) = self.connections.get(id.index()) else { return };
        match self.slots.get_mut(conn.slot as usize) {
            None => {}
            Some(slot) if !slot.placed => slot.raw.push(Raw::Closed(time, id, close)),
            Some(_) => {
                self.keep(conn.slot as usize, || Raw::Closed(time, id, close));
                self.close(time, id, close);
            }
        }
        self.bound_of(id);
    }

    fn ended(&mut self, _time: Time, id: ConnectionId) {
        let Some(Some(conn)) = self.connections.get(id.index()) else { return };
        let at = conn.slot as usize;
        if conn.slot != NOWHERE {
            if !self.slots[at].placed || self.slots[at].is_holding() {
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
