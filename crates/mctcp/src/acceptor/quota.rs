//! Who may hold how much of what a listener has not much of.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv6Addr};

use super::ConnectionId;

/// Places for connections, shared out among the addresses from which they come.
#[derive(Clone, Debug)]
pub(super) struct Quota {
    most: usize,
    most_per_source: usize,
    taken: usize,
    held: BTreeMap<IpAddr, BTreeSet<ConnectionId>>,
}

/// Whether there is a place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Admission {
    Free,
    /// If this connection leaves its own.
    InsteadOf(ConnectionId),
    Full,
}

impl Quota {
    pub(super) fn new(most: usize, most_per_source: usize) -> Self {
        Self { most, most_per_source, taken: 0, held: BTreeMap::new() }
    }

    /// Looks for a place for a connection from `source`. Where all are taken, the newest of the
    /// source with the most makes room for one that has clearly fewer: whoever takes many places
    /// keeps out itself alone.
    pub(super) fn look(&self, source: IpAddr) -> Admission {
        let own = self.held.get(&network(source)).map_or(0, BTreeSet::len);
        if own >= self.most_per_source {
            return Admission::Full;
        }
        if self.taken < self.most {
            return Admission::Free;
        }
        let greatest = self.held.values().max_by_key(|held| held.len());
        match greatest.filter(|held| held.len() > own + 1).and_then(BTreeSet::last) {
            Some(&newest) => Admission::InsteadOf(newest),
            None => Admission::Full,
        }
    }

    pub(super) fn take(&mut self, source: IpAddr, connection: ConnectionId) {
        let new = self.held.entry(network(source)).or_default().insert(connection);
        self.taken += usize::from(new);
    }

    pub(super) fn give_back(&mut self, source: IpAddr, connection: ConnectionId) {
        let source = network(source);
        let Some(held) = self.held.get_mut(&source) else { return };
        self.taken -= usize::from(held.remove(&connection));
        if held.is_empty() {
            self.held.remove(&source);
        }
    }
}

/// What counts as one source: an IPv4 address, or the 64 bits of an IPv6 network in which a host
/// chooses its addresses (RFC 8981).
fn network(source: IpAddr) -> IpAddr {
    match source.to_canonical() {
        IpAddr::V6(ip) => Ipv6Addr::from_bits(ip.to_bits() & !u128::from(u64::MAX)).into(),
        v4 @ IpAddr::V4(_) => v4,
    }
}
