//! Routes of all peerings before any policy, at any time.
//!
//! # Problem
//!
//! A collector of hundreds of peerings holds hundreds of millions of routes, so the memory
//! per route determines the hardware. Most content is repeated: the same prefixes in all
//! peerings, the same attributes for all prefixes of an UPDATE, the same communities in
//! thousands of attribute sets.
//!
//! # Structure
//!
//! | entry | storage | bytes |
//! |---|---|---|
//! | prefix | once for all peerings, numbered in the order of first sight | 12 (IPv4) |
//! | route | in a page of 256 prefix numbers per peering; neighbours share announcements | 1 to 4 |
//! | announcement: attribute set, time | once for all prefixes of an UPDATE | 12 |
//! | attribute set | once; varying attributes and shared ones are separate | 20 and its content |
//!
//! All entries are reference-counted and freed with the last use. Tables shrink when
//! they are sparse.
//!
//! A snapshot ([`Rib::begin_snapshot`]) is written in steps while routes change: before a change to
//! an unwritten route, its old state is saved. So `snapshot` and this file depend on each other.

mod announcements;
mod attributes;
mod change;
mod column;
mod diff;
mod index;
mod interner;
mod keys;
mod peer;
mod query;
mod routes;
mod snapshot;
mod table;

#[cfg(test)]
mod tests;

use base::Time;
use bgp::{Family, MessageType};

use crate::{Event, Peering, PeeringId, Reason, Sender, Sink, State};

pub use diff::Change;
pub use query::{
    Destination, PathPattern, Query, Route, Scope, Search, Tag, path_text, segments_text,
};

use announcements::Announcements;
use attributes::AttributeSets;
use peer::Peer;
use snapshot::Snapshot;
use table::Table;

#[derive(Debug, Default)]
pub struct Rib {
    tables: Vec<Table>,
    attributes: AttributeSets,
    announcements: Announcements,
    peers: Vec<Option<Box<Peer>>>,
    snapshot: Option<Box<Snapshot>>,
    deadline: Option<Time>,
    counts: Counts,
    numbers: Vec<u32>,
    reports_removals: bool,
    removals: Vec<Vec<u8>>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    pub updates: u64,
    pub announced: u64,
    pub withdrawn: u64,
    /// UPDATEs whose routes were treated as withdrawn (RFC 7606).
    pub treated_as_withdraw: u64,
    pub ignored: u64,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Memory {
    pub prefixes: usize,
    pub routes: usize,
    pub announcements: usize,
    pub attributes: usize,
    pub snapshot: usize,
}

impl Memory {
    pub const fn total(&self) -> usize {
        self.prefixes + self.routes + self.announcements + self.attributes + self.snapshot
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PeerRoutes {
    pub peering: Peering,
    pub established: bool,
    pub since: Time,
    /// The session was captured from its start without a gap, so no route is missing.
    pub complete: bool,
    /// By family, and with (`true`) or without path identifiers: number of routes, and of stale
    /// routes among them.
    pub routes: Vec<(Family, bool, usize, usize)>,
}

impl PeerRoutes {
    pub fn total(&self) -> usize {
        self.routes.iter().map(|routes| routes.2).sum()
    }
}

impl Rib {
    pub fn new() -> Self {
        Self::default()
    }

    /// A table that also reports the routes that it removes without a message of the peer.
    pub fn with_removals() -> Self {
        Self { reports_removals: true, ..Self::default() }
    }

    /// UPDATEs that withdraw the routes that the last event removed although the peer did not
    /// withdraw them: the end of an enhanced route refresh.
    pub fn take_removals(&mut self) -> Vec<Vec<u8>> {
        std::mem::take(&mut self.removals)
    }

    pub fn len(&self) -> usize {
        let tables = self.peers().flat_map(|peer| &peer.tables);
        tables.map(|table| table.routes.len()).sum()
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Number of distinct prefixes (with path identifiers: of paths) of all families.
    pub fn prefixes(&self) -> usize {
        self.tables.iter().map(Table::len).sum()
    }

    pub fn attribute_sets(&self) -> usize {
        self.attributes.len()
    }

    pub const fn counts(&self) -> Counts {
        self.counts
    }

    pub fn memory(&self) -> Memory {
        let peers = self.peers().map(|peer| {
            size_of::<Peer>()
                + peer.tables.capacity() * size_of::<peer::PeerTable>()
                + peer.tables.iter().map(|table| table.routes.memory()).sum::<usize>()
        });
        Memory {
            prefixes: self.tables.iter().map(|table| size_of::<Table>() + table.memory()).sum(),
            routes: peers.sum::<usize>() + self.peers.capacity() * size_of::<Option<Box<Peer>>>(),
            announcements: self.announcements.memory(),
            attributes: self.attributes.memory(),
            snapshot: self.snapshot.as_ref().map_or(0, |snapshot| snapshot.memory()),
        }
    }

    fn peers(&self) -> impl Iterator<Item = &Peer> {
        self.peers.iter().flatten().map(|peer| &**peer)
    }

    /// All peerings, in the order of their numbers.
    pub fn peerings(&self) -> impl Iterator<Item = PeerRoutes> {
        self.peers().map(|peer| {
            let tables = self.tables.iter().zip(&peer.tables);
            let full = tables.filter(|(_, of)| of.routes.len() > 0);
            PeerRoutes {
                peering: peer.peering,
                established: peer.established,
                since: peer.since,
                complete: peer.complete,
                routes: full
                    .map(|(table, of)| {
                        (table.family, table.add_path, of.routes.len(), self.stale(of))
                    })
                    .collect(),
            }
        })
    }

    fn stale(&self, of: &peer::PeerTable) -> usize {
        if of.stale.is_none() {
            return 0;
        }
        let mut stale = 0;
        of.routes.visit(|_, announcement| {
            stale += usize::from(self.announcements.get(announcement).generation != of.generation);
        });
        stale
    }

    /// Number of routes of a peering; 0 if it is unknown.
    pub fn len_of(&self, peering: PeeringId) -> usize {
        let peer = self.peers.get(peering.index()).and_then(|peer| peer.as_deref());
        peer.map_or(0, |peer| peer.tables.iter().map(|table| table.routes.len()).sum())
    }

    /// Advances the time: stale routes expire even without events.
    pub fn advance(&mut self, now: Time) {
        if self.deadline.is_some_and(|deadline| deadline <= now) {
            self.expire(now);
        }
    }

    fn state(&mut self, peer: &mut Peer, time: Time, old: State, new: State, why: Reason) {
        match (old, new) {
            (_, State::Established) => {
                peer.complete = why == Reason::Seen;
                self.restarted(peer, time);
            }
            (State::Established, _) => self.lost(peer, time, why),
            _ => {}
        }
        let established = new == State::Established;
        if peer.established != established {
            peer.established = established;
            peer.since = time;
        }
    }
}

impl Sink for Rib {
    fn event(&mut self, peering: &Peering, event: &Event<'_>) {
        let at = peering.id.index();
        if at >= self.peers.len() {
            self.peers.resize_with(at + 1, || None);
        }
        let time = match event {
            Event::Message { time, .. } | Event::State { time, .. } => *time,
            Event::Gap(gap) => gap.until,
            Event::Reading(reading) => reading.time,
        };
        self.advance(time);
        let met = self.peers[at].take();
        let mut peer = met.unwrap_or_else(|| Box::new(Peer::new(*peering, time)));
        peer.peering = *peering;
        match *event {
            Event::Message { time, from, message } => match (message.kind(), from) {
                (MessageType::UPDATE, Sender::Peer) => self.update(&mut peer, time, message.body()),
                (MessageType::ROUTE_REFRESH, Sender::Peer) => {
                    self.refresh(&mut peer, message.body());
                }
                (MessageType::OPEN, _) => peer.open(from, message),
                _ => {}
            },
            Event::State { time, old, new, reason } => {
                self.state(&mut peer, time, old, new, reason);
            }
            Event::Gap(gap) => peer.complete &= gap.from == Sender::Local,
            Event::Reading(_) => {}
        }
        self.peers[at] = Some(peer);
    }

    fn forget_peering(&mut self, peering: &Peering) {
        let Some(mut peer) = self.peers.get_mut(peering.id.index()).and_then(Option::take) else {
            return;
        };
        for at in 0..peer.tables.len() {
            self.clear(&mut peer, at);
        }
        // While a snapshot is being written, the numbers of its peers must not change.
        if self.snapshot.is_some() {
            self.peers[peering.id.index()] = Some(peer);
        }
    }
}
