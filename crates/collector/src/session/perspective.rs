//! Which end of a peering is the router.
//!
//! These are certain:
//! 1. a configured router address (the earlier one of the list if both are);
//! 2. what an earlier run learned;
//! 3. an end that takes part in more peerings of the same mirror than the other: a mirror is a
//!    router's.
//!
//! Otherwise it is guessed: the neighbour is the end that sends more routes; without routes the
//! router is the end with port 179 if both ends spoke, and else the end that was spoken to, since
//! clones are of what comes to the router. What the first messages were says nothing: a capture may
//! show them in any order. So before a guess all messages of both ends are held, until
//! [`COMPARE`] after the first route or, without one, after the first message; and at most
//! [`MESSAGES`] and [`BYTES`].
//!
//! After a guess both ends' messages are kept on, within the limits of what may wait. If evidence
//! contradicts the guess, the peering is forgotten, and the messages are read again from the other
//! end's view ([`Sessions::reverse`]). If the presumed router sends routes as well, they are
//! not archived because of a guess: that is reported as [`GapCause::Guessed`].

use std::cmp::Ordering;
use std::net::IpAddr;

use base::{Span, Time};

use super::Sessions;
use super::peering::{Pair, Raw, Slot};
use crate::{Connection, End, Event, Gap, GapCause, Peering, PeeringId, Reason};
use crate::{Sender, Sink, State};

/// The most messages and bytes that wait for a place.
const MESSAGES: usize = 256;
const BYTES: usize = 256 << 10;
/// How long routes of both ends are compared.
const COMPARE: Span = Span::from_secs(1);
/// The longest body of an UPDATE without routes (End-of-RIB of any family, RFC 4724 §2).
const END_OF_RIB: usize = 11;
/// Well-known port of BGP.
const BGP: u16 = 179;

/// The end of a connection that is the router's. Between two ports of one address it is the one
/// that listens.
pub(super) fn router_end(peering: &Peering, connection: &Connection) -> End {
    let [low, high] = connection.ends;
    if low.ip() == high.ip() {
        return if low.port() == BGP { End::Low } else { End::High };
    }
    if low.ip() == peering.local { End::Low } else { End::High }
}

/// How the router's end is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Basis {
    Certain,
    Guess,
}

/// What is known of the routes of a pair whose router is not certain.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Routes {
    /// Bytes of UPDATEs, of the lower and of the higher address.
    bytes: [u64; 2],
    /// When the first one came, in elapsed time.
    since: Option<u64>,
}

impl Routes {
    /// A message of one of the ends. Between two ports of one address nothing is compared.
    pub(super) fn count(&mut self, elapsed: u64, pair: &Pair, sender: IpAddr, message: &[u8]) {
        if message[18] == 2 && message.len() > bgp::HEADER + END_OF_RIB && pair.low != pair.high {
            self.bytes[usize::from(sender == pair.high)] += message.len() as u64;
            self.since.get_or_insert(elapsed);
        }
    }

    /// Of one end.
    fn of(&self, pair: &Pair, end: IpAddr) -> u64 {
        self.bytes[usize::from(end == pair.high)]
    }
}

impl<S: Sink> Sessions<S> {
    /// Gives the pair its place, if that can be decided or must be; goes on with what waited.
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
            self.keep(at, || raw.clone());
            self.read(raw);
        }
        true
    }

    /// Assigns the two sides.
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

    /// What reassembly said of a pair that has its place.
    fn read(&mut self, raw: Raw) {
        match raw {
            Raw::Message(heard, id, from, bytes) => {
                self.process(heard.time, id, from, &bytes);
                self.quicken(id);
            }
            Raw::Hole(id, from, hole) => self.hole_of(id, from, &hole),
            Raw::Closed(time, id, close) => self.close(time, id, close),
        }
    }

    /// Keeps what was said for the case that the guess is wrong.
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

    /// The guess stays: it is right, or what was kept is too much or too old.
    pub(super) fn stop_keeping(&mut self, at: usize) {
        let slot = &mut self.slots[at];
        if slot.kept.take().is_some() {
            slot.raw_bytes = 0;
            self.guesses.remove(&(slot.pair.mirror, slot.peering.peer));
        }
    }

    /// Turns a guess around, or reports what it leaves out, if the routes say so.
    pub(super) fn review(&mut self, at: usize) {
        let slot = &self.slots[at];
        let (peer, local) = (slot.peering.peer, slot.peering.local);
        if self.peerings_of(&slot.pair, local) > self.peerings_of(&slot.pair, peer) {
            self.stop_keeping(at);
            self.slots[at].guessed = false;
            return;
        }
        let slot = &mut self.slots[at];
        if slot.guess_reported || slot.routes.of(&slot.pair, local) == 0 {
            return;
        }
        if slot.kept.is_some() && slot.routes.of(&slot.pair, peer) == 0 {
            return self.reverse(at);
        }
        slot.guess_reported = true;
        let (since, until) = (slot.heard.time, slot.last.max(slot.heard.time));
        let (from, cause) = (Sender::Local, GapCause::Guessed);
        slot.tell(
            &mut self.sink,
            Event::Gap(Gap { since, until, from, cause, missing: 0, skipped: 0 }),
        );
    }

    /// Another peering of the same mirror has the presumed neighbour as one of its ends.
    pub(super) fn compare_peerings(&mut self, pair: &Pair) {
        for end in [pair.low, pair.high] {
            let Some(at) = self.guesses.get(&(pair.mirror, end)).map(|at| *at as usize) else {
                continue;
            };
            let slot = &self.slots[at];
            let (peer, local) = (slot.peering.peer, slot.peering.local);
            if self.peerings_of(pair, peer) > self.peerings_of(pair, local) {
                self.reverse(at);
                self.stop_keeping(at);
                self.slots[at].guessed = false;
            }
        }
    }

    fn peerings_of(&self, pair: &Pair, address: IpAddr) -> u32 {
        self.addresses.get(&(pair.mirror, address)).copied().unwrap_or(0)
    }

    /// The guess was wrong: forgets the peering and reads all that was kept from the view of the
    /// other end.
    fn reverse(&mut self, at: usize) {
        let time = self.last_time(at);
        let slot = &mut self.slots[at];
        let Some(kept) = slot.kept.take() else { return };
        self.guesses.remove(&(slot.pair.mirror, slot.peering.peer));
        slot.release(&mut self.sink, time);
        slot.change(&mut self.sink, time, State::Idle, Reason::Forgotten);
        self.sink.reverse_peering(&slot.peering);
        let (local, since) = (slot.peering.peer, slot.heard.time);
        let Pair { mirror, low, high } = slot.pair;
        let peering = Peering::new(PeeringId(self.next_id), mirror, low, high);
        self.next_id += 1;
        let fresh = Slot::new(slot.pair, peering, slot.heard);
        let old = std::mem::replace(slot, fresh);
        (slot.routes, slot.live) = (old.routes, old.live);
        (slot.placed, slot.guessed, slot.kept) = (true, true, Some(Vec::new()));
        for id in &slot.live {
            if let Some(conn) = self.connections[id.index()].as_mut() {
                conn.begin_again();
            }
        }
        self.orient(at, local);
        self.guesses.insert((self.slots[at].pair.mirror, self.slots[at].peering.peer), at as u32);
        let wrong = kept.iter().map(|raw| self.sent_by(local, raw)).sum();
        for raw in kept {
            self.keep(at, || raw.clone());
            self.read(raw);
        }
        let (from, cause, until) = (Sender::Local, GapCause::Guessed, time);
        let gap = Gap { since, until, from, cause, missing: 0, skipped: wrong };
        self.slots[at].tell(&mut self.sink, Event::Gap(gap));
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
        let learned = || self.learned.get(&slot.pair).map(|learned| learned.local);
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

    /// The router by routes and ports.
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

    /// When a slot without a place gets one whatever is known.
    pub(super) fn place_at(slot: &Slot) -> u64 {
        slot.routes.since.unwrap_or(slot.waiting) + COMPARE.as_nanos()
    }

    /// When a pair that came at `elapsed` gets its place whatever is known.
    pub(super) fn place_by(&self, elapsed: u64) -> u64 {
        elapsed + self.settings.wait.as_nanos()
    }

    /// The time of the last call about a slot, for what has to be told of it without one.
    pub(super) fn last_time(&self, at: usize) -> Time {
        let slot = &self.slots[at];
        slot.last.max(slot.heard.time)
    }
}
