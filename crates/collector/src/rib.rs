//! The routes of all peerings, as the router heard them: before any policy, at any time.
//!
//! # Problem
//!
//! A collector of hundreds of peerings holds hundreds of millions of routes: what a route costs
//! decides what it runs on. Nearly all of what routes say is said many times over: the same
//! prefixes by all peerings, the same attributes by all prefixes of an UPDATE, the same
//! communities in thousands of attribute sets.
//!
//! # Way
//!
//! | what | kept | bytes |
//! |---|---|---|
//! | a prefix | once for all peerings, numbered in the order of first sight | 12 (IPv4) |
//! | a route | in a page of 256 prefix numbers a peering; neighbours share announcements | 1 to 4 |
//! | an announcement: attribute set, time | once for all prefixes of an UPDATE | 12 |
//! | an attribute set | once; what varies and what many sets share apart | 20 and what it says |
//!
//! Everything counts its uses and is given back with the last. What is larger than what is in use
//! shrinks again.
//!
//! A snapshot ([`Rib::begin_snapshot`]) is written in steps while routes go on changing: whatever
//! changes before it was written leaves behind what it was.

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
mod search;
mod snapshot;
mod table;

#[cfg(test)]
mod tests;

use base::Time;
use bgp::{Family, MessageType};

use crate::{Event, Peering, PeeringId, Reason, Sender, Sink, State};

pub use diff::Change;
pub use query::{Destination, PathPattern, Query, Route, Scope, Tag, path_text};
pub use search::Search;

use announcements::Announcements;
use attributes::AttributeSets;
use peer::Peer;
use snapshot::Snapshot;
use table::Table;

/// All routes of all peerings.
#[derive(Debug, Default)]
pub struct Rib {
    tables: Vec<Table>,
    attributes: AttributeSets,
    announcements: Announcements,
    peers: Vec<Option<Box<Peer>>>,
    snapshot: Option<Box<Snapshot>>,
    /// When the first stale routes run out.
    deadline: Option<Time>,
    counts: Counts,
    /// Prefixes of the UPDATE that is read.
    numbers: Vec<u32>,
}

/// What a [`Rib`] has done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// UPDATEs that peers sent.
    pub updates: u64,
    /// Routes that they announced.
    pub announced: u64,
    /// Routes that they withdrew.
    pub withdrawn: u64,
    /// UPDATEs whose routes were taken for withdrawn (RFC 7606).
    pub treated_as_withdraw: u64,
    /// UPDATEs that say nothing that can be followed.
    pub ignored: u64,
}

/// What memory is used for, in bytes allocated.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Memory {
    /// Prefixes of all tables.
    pub prefixes: usize,
    /// Which announcement each peering's prefixes have.
    pub routes: usize,
    /// Announcements.
    pub announcements: usize,
    /// Attribute sets.
    pub attributes: usize,
    /// What a running snapshot keeps.
    pub snapshot: usize,
}

impl Memory {
    /// All of it.
    pub const fn total(&self) -> usize {
        self.prefixes + self.routes + self.announcements + self.attributes + self.snapshot
    }
}

/// A peering and its routes, in numbers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PeerRoutes {
    /// The peering, as it was with its last event.
    pub peering: Peering,
    /// Its session is established.
    pub established: bool,
    /// When that last changed.
    pub since: Time,
    /// The session was seen from its start, without a gap: the routes are all that there are.
    pub complete: bool,
    /// Routes by family, those with path identifiers apart (`true`), and how many are stale.
    pub routes: Vec<(Family, bool, usize, usize)>,
}

impl PeerRoutes {
    /// Routes of all families.
    pub fn total(&self) -> usize {
        self.routes.iter().map(|routes| routes.2).sum()
    }
}

impl Rib {
    /// Without routes.
    pub fn new() -> Self {
        Self::default()
    }

    /// Number of routes of all peerings.
    pub fn len(&self) -> usize {
        let tables = self.peers().flat_map(|peer| &peer.tables);
        tables.map(|table| table.routes.len()).sum()
    }

    /// Whether there is no route.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Number of distinct prefixes (with path identifiers: of paths) of all families.
    pub fn prefixes(&self) -> usize {
        self.tables.iter().map(Table::len).sum()
    }

    /// Number of distinct attribute sets.
    pub fn attribute_sets(&self) -> usize {
        self.attributes.len()
    }

    /// What it has done so far.
    pub const fn counts(&self) -> Counts {
        self.counts
    }

    /// Bytes allocated.
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

    /// The peerings that were met, in the order of their numbers.
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
        if of.stale_until.is_none() {
            return 0;
        }
        let mut stale = 0;
        of.routes.visit(|_, announcement| {
            stale += usize::from(self.announcements.get(announcement).generation != of.generation);
        });
        stale
    }

    /// Routes of a peering; 0 if it was not met.
    pub fn len_of(&self, peering: PeeringId) -> usize {
        let peer = self.peers.get(peering.index()).and_then(|peer| peer.as_deref());
        peer.map_or(0, |peer| peer.tables.iter().map(|table| table.routes.len()).sum())
    }

    /// Time passes: stale routes run out, even where nothing happens.
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
        // The peers of a snapshot have numbers by who is there.
        if self.snapshot.is_some() {
            self.peers[peering.id.index()] = Some(peer);
        }
    }
}
