//! Which end of a peering is the router.
//!
//! Decided once, by the first of these that says something:
//! 1. a configured router address (the earlier one of the list if both are);
//! 2. what an earlier run learned;
//! 3. an end that takes part in more peerings of the same mirror than the other: a mirror is a
//!    router's;
//! 4. once both ends spoke: the end with port 179, or else the one that was spoken to first;
//! 5. if only one end speaks: the one spoken to, for clones are of what comes to the router. That
//!    is so after an OPEN and one more message of the same end, after some messages in mid-stream
//!    or some time.
//!
//! Until then what reassembly says of the pair is kept, at most [`MESSAGES`] and [`BYTES`].

use std::net::IpAddr;

use base::Time;

use super::Sessions;
use super::peering::{Pair, Raw};
use crate::{Connection, End, Peering, Receiver, Sink};

/// The most messages and bytes that wait for a place.
const MESSAGES: usize = 8;
const BYTES: usize = 64 << 10;
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

impl<S: Sink> Sessions<S> {
    /// Gives the pair its place, if that can be decided or must be; goes on with what waited.
    pub(super) fn place(&mut self, at: usize, force: bool) -> bool {
        let Some(local) = self.router(at, force) else { return false };
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
        slot.placed = true;
        slot.raw_bytes = 0;
        for raw in std::mem::take(&mut slot.raw) {
            match raw {
                Raw::Message(heard, id, from, bytes) => {
                    self.process(heard.time, id, from, &bytes);
                    self.quicken(id);
                }
                Raw::Hole(id, from, hole) => self.hole(id, from, &hole),
                Raw::Closed(time, id, close) => self.close(time, id, close),
            }
        }
        true
    }

    fn router(&self, at: usize, force: bool) -> Option<IpAddr> {
        let slot = &self.slots[at];
        let Pair { mirror, low, high } = slot.pair;
        let rank = |address| self.settings.routers.iter().position(|one| *one == address);
        match (rank(low), rank(high)) {
            (Some(one), Some(two)) => return Some(if one < two { low } else { high }),
            (Some(_), None) => return Some(low),
            (None, Some(_)) => return Some(high),
            (None, None) => {}
        }
        if let Some(learned) = self.learned.get(&slot.pair) {
            return Some(learned.local);
        }
        let peerings = |address| self.addresses.get(&(mirror, address)).copied().unwrap_or(0);
        match peerings(low).cmp(&peerings(high)) {
            std::cmp::Ordering::Greater => return Some(low),
            std::cmp::Ordering::Less => return Some(high),
            std::cmp::Ordering::Equal => {}
        }
        self.by_speech(at, force)
    }

    /// By who speaks to whom.
    fn by_speech(&self, at: usize, force: bool) -> Option<IpAddr> {
        let slot = &self.slots[at];
        let said = |raw: &Raw| match raw {
            Raw::Message(_, id, from, bytes) => Some((*id, *from, bytes[18])),
            _ => None,
        };
        let mut messages = slot.raw.iter().filter_map(said);
        let (id, first, kind) = messages.next()?;
        let ends = self.connections[id.index()].as_ref()?.connection.ends;
        let address = |end: End| ends[end.index()].ip();
        let (mut count, mut both, mut more) = (1, false, false);
        for (_, from, next) in messages {
            count += 1;
            both |= from != first;
            more |= next != 1 && next != 3;
        }
        let enough =
            force || both || kind == 1 && more || count >= MESSAGES || slot.raw_bytes >= BYTES;
        let listens = |end: End| ends[end.index()].port() == BGP;
        let end = match (both, listens(End::Low), listens(End::High)) {
            (true, true, false) => End::Low,
            (true, false, true) => End::High,
            _ => first.other(),
        };
        enough.then(|| address(end))
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
