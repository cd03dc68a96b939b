//! Which end of a peering is the router.
//!
//! Certain evidence:
//! 1. a configured router address (the earlier one in the list if both ends are configured);
//! 2. the result of an earlier run, unless it was guessed;
//! 3. an end that takes part in more peerings of the same mirror than the other: a mirror is a
//!    router's.
//!
//! Otherwise it is guessed. The neighbour is the end that sends more routes. Without routes the
//! router is the end with port 179 if both ends sent messages, and otherwise the end that received
//! them, since clones are those of incoming traffic. The order of the first messages is no
//! evidence. Before a guess all messages are held, until [`COMPARE`] after the first route or,
//! without a route, after the first message, up to [`MESSAGES`] and [`BYTES`].
//!
//! After a guess the messages of both ends are retained, within the limits for held messages. If
//! evidence contradicts the guess, the peering is removed, and the messages are processed again
//! from the view of the other end ([`Sessions::reverse`]). If they are no longer retained, only
//! later messages have the other view. Either is reported as [`GapCause::Guessed`], as are the
//! routes of a presumed router, which a guess omits from the archive. If both directions of a
//! session were captured, and one end sent routes, they do not show whether this end is the router:
//! at the end of the input the guess is reported too, unless the address or the BGP identifier of
//! the presumed router takes part in more peerings than that of the peer.

use std::cmp::Ordering;
use std::collections::HashMap;
use std::net::IpAddr;

use base::{Span, Time};

use super::Sessions;
use super::peering::{Pair, Raw, Slot};
use crate::{Connection, End, Event, Gap, GapCause, Peering, PeeringId, Reason};
use crate::{Sender, Sink, State};

/// Maximum number of messages and bytes that wait for a place.
const MESSAGES: usize = 256;
const BYTES: usize = 256 << 10;
/// Time for which routes of both ends are compared.
const COMPARE: Span = Span::from_secs(1);
const BGP: u16 = 179;

/// The router's end of a connection. If both ends have the same address, it is the listening end.
pub(super) fn router_end(peering: &Peering, connection: &Connection) -> End {
    let [low, high] = connection.ends;
    if low.ip() == high.ip() {
        return if low.port() == BGP { End::Low } else { End::High };
    }
    if low.ip() == peering.local { End::Low } else { End::High }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Basis {
    Certain,
    Guess,
}

impl<S: Sink> Sessions<S> {
    /// Places the pair, if possible or due; then processes the held input.
    pub(super) fn place(&mut self, at: usize, force: bool) -> bool {
        let Some((local, basis)) = self.router(at, force) else { return false };
        self.orient(at, local);
        let slot = &mut self.slots[at];
        slot.placed = true;
        slot.raw_bytes = 0;
        let waited = std::mem::take(&mut slot.raw);
        slot.guessed = basis == Basis::Guess;
        if slot.guessed {
            slot.kept = Some(Vec::new());
            self.guesses.insert((slot.pair.mirror, slot.peering.peer), at as u32);
        }
        for raw in waited {
            match &raw {
                Raw::Message(received, id, from, bytes) => {
                    if !self.collide(at, *received, *id, *from, bytes) {
                        self.replay(at, raw);
                    }
                }
                Raw::Hole(..) | Raw::Closed(..) => self.other(at, raw),
            }
        }
        true
    }

    fn orient(&mut self, at: usize, local: IpAddr) {
        let slot = &mut self.slots[at];
        let Pair { mirror, low, high } = slot.pair;
        let peer = if local == low { high } else { low };
        (slot.peering.peer, slot.peering.local) = (peer, local);
        slot.peering.peer_as = self.settings.asn(peer);
        slot.peering.local_as = self.settings.asn(local);
        if let Some(learned) = self.learned.get(&Pair::new(mirror, low, high)) {
            let facts = &mut slot.peering;
            if learned.peer == peer {
                (facts.peer_as, facts.peer_id) = (learned.peer_as, learned.peer_id);
                (facts.local_as, facts.local_id) = (learned.local_as, learned.local_id);
                slot.earlier = Some([learned.from_peer, learned.from_local]);
                slot.hold = learned.hold;
            }
        }
    }

    /// Processes output of reassembly for a pair with a known router.
    pub(super) fn replay(&mut self, at: usize, raw: Raw) {
        self.keep(at, || raw.clone());
        match raw {
            Raw::Message(received, id, from, bytes) => {
                self.process(received.time, id, from, &bytes);
                self.update_fast_path(id);
            }
            Raw::Hole(id, from, hole) => self.hole_of(id, from, &hole),
            Raw::Closed(time, id, close) => self.close(time, id, close),
        }
    }

    /// Retains events for a possible reversal of the guess.
    pub(super) fn keep(&mut self, at: usize, raw: impl FnOnce() -> Raw) {
        let slot = &mut self.slots[at];
        let Some(kept) = &mut slot.kept else { return };
        let raw = raw();
        if let Raw::Message(_, _, _, bytes) = &raw {
            slot.raw_bytes += bytes.len();
        }
        kept.push(raw);
        let settings = &self.settings;
        if kept.len() > settings.wait_messages || slot.raw_bytes > settings.wait_bytes {
            self.stop_keeping(at);
        }
    }

    /// Ends the retention: the retained input is too large, or its connection has ended.
    pub(super) fn stop_keeping(&mut self, at: usize) {
        let slot = &mut self.slots[at];
        if slot.kept.take().is_some() {
            slot.raw_bytes = 0;
        }
    }

    /// Ends the guess: the router's end is certain, or the peering is removed.
    pub(super) fn end_guess(&mut self, at: usize) {
        self.stop_keeping(at);
        let slot = &mut self.slots[at];
        if std::mem::take(&mut slot.guessed) {
            self.guesses.remove(&(slot.pair.mirror, slot.peering.peer));
        }
    }

    /// Reverses a guess, or reports the routes that it omits, if the routes require it.
    pub(super) fn review(&mut self, at: usize) {
        let slot = &self.slots[at];
        let (peer, local) = (slot.peering.peer, slot.peering.local);
        if self.peerings_of(&slot.pair, local) > self.peerings_of(&slot.pair, peer) {
            return self.end_guess(at);
        }
        let slot = &mut self.slots[at];
        if slot.guess_reported || slot.routes.of(&slot.pair, local) == 0 {
            return;
        }
        if slot.kept.is_some() && slot.routes.of(&slot.pair, peer) == 0 {
            return self.reverse(at);
        }
        self.report_guess(at);
    }

    /// Reports guesses that nothing has confirmed: the routes of the peer may be the router's.
    /// Sessions with one captured direction are not reported here.
    pub(super) fn report_unconfirmed(&mut self, slots: impl Iterator<Item = usize>) {
        // A router may have another address in each session, but has one BGP identifier (RFC 4271).
        let mut known: HashMap<_, u32> = HashMap::new();
        for slot in self.slots.iter().filter(|slot| !slot.gone) {
            for id in [slot.peering.peer_id, slot.peering.local_id] {
                *known.entry((slot.pair.mirror, id)).or_default() += u32::from(id != 0);
            }
        }
        for at in slots {
            let slot = &self.slots[at];
            let Peering { peer, local, .. } = slot.peering;
            let by_address = [local, peer].map(|end| self.peerings_of(&slot.pair, end));
            let by_id = [slot.peering.local_id, slot.peering.peer_id]
                .map(|id| known.get(&(slot.pair.mirror, id)).copied().unwrap_or(0).max(1));
            let is_confirmed = by_address[0] > by_address[1] || by_id[0] > by_id[1];
            let is_open = slot.guessed && !slot.guess_reported && !slot.gone && !is_confirmed;
            if is_open && slot.routes.sent == [true; 2] && slot.routes.of(&slot.pair, peer) > 0 {
                self.report_guess(at);
            }
        }
    }

    fn report_guess(&mut self, at: usize) {
        let slot = &mut self.slots[at];
        slot.guess_reported = true;
        let (since, until) = (slot.received.time, slot.last.max(slot.received.time));
        let (from, cause) = (Sender::Local, GapCause::Guessed);
        slot.tell(
            &mut self.sink,
            Event::Gap(Gap { since, until, from, cause, missing: 0, skipped: 0 }),
        );
    }

    /// Whether another peering of the mirror has the presumed neighbour as an end.
    pub(super) fn compare_peerings(&mut self, pair: &Pair) {
        for end in [pair.low, pair.high] {
            let Some(at) = self.guesses.get(&(pair.mirror, end)).map(|at| *at as usize) else {
                continue;
            };
            let slot = &self.slots[at];
            let (peer, local) = (slot.peering.peer, slot.peering.local);
            if self.peerings_of(pair, peer) > self.peerings_of(pair, local) {
                self.reverse(at);
                self.end_guess(at);
            }
        }
    }

    fn peerings_of(&self, pair: &Pair, address: IpAddr) -> u32 {
        self.addresses.get(&(pair.mirror, address)).copied().unwrap_or(0)
    }

    /// Reverses a wrong guess: removes the peering, and processes the retained messages, or else
    /// later ones only, from the view of the other end.
    fn reverse(&mut self, at: usize) {
        self.settle_collision(at);
        let time = self.last_time(at);
        let slot = &mut self.slots[at];
        let kept = slot.kept.take();
        self.guesses.remove(&(slot.pair.mirror, slot.peering.peer));
        slot.release(&mut self.sink, time);
        slot.change(&mut self.sink, time, State::Idle, Reason::Forgotten);
        if kept.is_some() {
            self.sink.reverse_peering(&slot.peering);
        } else {
            self.sink.forget_peering(&slot.peering);
        }
        let (local, since) = (slot.peering.peer, slot.received.time);
        let Pair { mirror, low, high } = slot.pair;
        let peering = Peering::new(PeeringId(self.next_id), mirror, low, high);
        self.next_id += 1;
        let fresh = Slot::new(slot.pair, peering, slot.received);
        let old = std::mem::replace(slot, fresh);
        (slot.placed, slot.guessed) = (true, true);
        if kept.is_none() {
            slot.earlier = old.reading().map(|[from_peer, from_local]| [from_local, from_peer]);
            slot.hold = old.hold;
        }
        (slot.routes, slot.live) = (old.routes, old.live);
        for id in &slot.live {
            if let Some(conn) = self.connections[id.index()].as_mut() {
                if kept.is_some() { conn.begin_again() } else { conn.exchange_ends() }
            }
        }
        self.orient(at, local);
        self.guesses.insert((self.slots[at].pair.mirror, self.slots[at].peering.peer), at as u32);
        let wrong = match kept {
            Some(kept) => self.repeat(at, local, kept),
            None => self.slots[at].routes.of(&self.slots[at].pair, local),
        };
        let (from, cause, until) = (Sender::Local, GapCause::Guessed, time);
        let gap = Gap { since, until, from, cause, missing: 0, skipped: wrong };
        self.slots[at].tell(&mut self.sink, Event::Gap(gap));
        self.slots[at].guess_reported = true;
    }

    /// Processes retained input again; returns the bytes of the messages of the router `local`.
    fn repeat(&mut self, at: usize, local: IpAddr, kept: Vec<Raw>) -> u64 {
        for raw in &kept {
            let Raw::Message(_, id, ..) = raw else { continue };
            if let Some(conn) = self.connections[id.index()].as_mut() {
                conn.notified = false;
            }
        }
        let wrong = kept.iter().map(|raw| self.sent_by(local, raw)).sum();
        self.slots[at].kept = Some(Vec::new());
        for raw in kept {
            self.replay(at, raw);
        }
        wrong
    }

    /// Bytes of a message that `end` sent.
    fn sent_by(&self, end: IpAddr, raw: &Raw) -> u64 {
        let Raw::Message(_, id, from, bytes) = raw else { return 0 };
        let conn = self.connections.get(id.index()).and_then(Option::as_ref);
        let is_its = conn.is_some_and(|c| c.connection.ends[from.index()].ip() == end);
        if is_its { bytes.len() as u64 } else { 0 }
    }

    fn router(&self, at: usize, force: bool) -> Option<(IpAddr, Basis)> {
        let slot = &self.slots[at];
        let Pair { low, high, .. } = slot.pair;
        let rank = |address| self.settings.routers.iter().position(|one| *one == address);
        let configured = match (rank(low), rank(high)) {
            (Some(one), Some(two)) => Some(if one < two { low } else { high }),
            (Some(_), None) => Some(low),
            (None, Some(_)) => Some(high),
            (None, None) => None,
        };
        let learned = self.learned.get(&slot.pair).filter(|learned| !learned.is_guess);
        let learned = || learned.map(|learned| learned.local);
        let shared =
            || match self.peerings_of(&slot.pair, low).cmp(&self.peerings_of(&slot.pair, high)) {
                Ordering::Greater => Some(low),
                Ordering::Less => Some(high),
                Ordering::Equal => None,
            };
        let certain = configured.or_else(learned).or_else(shared);
        certain.map(|local| (local, Basis::Certain)).or_else(|| {
            let full = slot.raw.len() >= MESSAGES || slot.raw_bytes >= BYTES;
            let local = self.guess(slot).filter(|_| force || full);
            local.map(|local| (local, Basis::Guess))
        })
    }

    fn guess(&self, slot: &Slot) -> Option<IpAddr> {
        let Pair { low, high, .. } = slot.pair;
        match slot.routes.bytes[0].cmp(&slot.routes.bytes[1]) {
            Ordering::Greater => return Some(high),
            Ordering::Less => return Some(low),
            Ordering::Equal => {}
        }
        let said = |raw: &Raw| match raw {
            Raw::Message(_, id, from, _) => Some((*id, *from)),
            _ => None,
        };
        let mut messages = slot.raw.iter().filter_map(said);
        let (id, first) = messages.next()?;
        let ends = self.connections[id.index()].as_ref()?.connection.ends;
        let both = messages.any(|(_, from)| from != first);
        let listens = |end: End| ends[end.index()].port() == BGP;
        let end = match (both, listens(End::Low), listens(End::High)) {
            (true, true, false) => End::Low,
            (true, false, true) => End::High,
            _ => first.other(),
        };
        Some(ends[end.index()].ip())
    }

    /// Deadline at which a slot is placed in any case.
    pub(super) fn place_at(slot: &Slot) -> u64 {
        slot.routes.since.unwrap_or(slot.waiting) + COMPARE.as_nanos()
    }

    /// Deadline at which a pair first seen at `elapsed` is placed in any case.
    pub(super) fn place_by(&self, elapsed: u64) -> u64 {
        elapsed + self.settings.wait.as_nanos()
    }

    /// Time of the last event of a slot, for reports that have no time.
    pub(super) fn last_time(&self, at: usize) -> Time {
        let slot = &self.slots[at];
        slot.last.max(slot.received.time)
    }
}
