//! Limits on places in a table, in total and per source address.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv6Addr};

/// Places for connections or sessions, shared among their source addresses.
#[derive(Clone, Debug)]
pub struct Quota<T> {
    max: usize,
    max_per_source: usize,
    taken: usize,
    held: BTreeMap<IpAddr, BTreeSet<T>>,
}

/// Availability of a place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Admission<T> {
    /// A place is free.
    Free,
    /// A place is free if this holder is evicted.
    InsteadOf(T),
    /// All places are taken, and no source has clearly more of them than this one.
    Full,
    /// The source has reached its limit. Contains its oldest holder; `None` if the limit is 0.
    SourceFull(Option<T>),
}

impl<T: Copy + Ord> Quota<T> {
    /// At most `max` places in total, and `max_per_source` per source.
    pub fn new(max: usize, max_per_source: usize) -> Self {
        Self { max, max_per_source, taken: 0, held: BTreeMap::new() }
    }

    /// Checks for a place for a new holder from `source`. If all are taken, the newest holder of
    /// the source with the most places is evicted for a source that has clearly fewer: a source
    /// that takes many places excludes only itself.
    pub fn look(&self, source: IpAddr) -> Admission<T> {
        let held = self.held.get(&network(source));
        let own = held.map_or(0, BTreeSet::len);
        if own >= self.max_per_source {
            return Admission::SourceFull(held.and_then(BTreeSet::first).copied());
        }
        if self.taken < self.max {
            return Admission::Free;
        }
        let greatest = self.held.values().max_by_key(|held| held.len());
        match greatest.filter(|held| held.len() > own + 1).and_then(BTreeSet::last) {
            Some(&newest) => Admission::InsteadOf(newest),
            None => Admission::Full,
        }
    }

    /// Takes a place.
    pub fn take(&mut self, source: IpAddr, holder: T) {
        let new = self.held.entry(network(source)).or_default().insert(holder);
        self.taken += usize::from(new);
    }

    /// Releases a place, if it was taken.
    pub fn give_back(&mut self, source: IpAddr, holder: T) {
        let source = network(source);
        let Some(held) = self.held.get_mut(&source) else { return };
        self.taken -= usize::from(held.remove(&holder));
        if held.is_empty() {
            self.held.remove(&source);
        }
    }

    /// Number of taken places.
    pub const fn taken(&self) -> usize {
        self.taken
    }
}

/// The network that counts as one source: an IPv4 address, or the 64-bit network of an IPv6
/// address, in which a host can choose its addresses (RFC 8981).
fn network(source: IpAddr) -> IpAddr {
    match source.to_canonical() {
        IpAddr::V6(ip) => Ipv6Addr::from_bits(ip.to_bits() & !u128::from(u64::MAX)).into(),
        v4 @ IpAddr::V4(_) => v4,
    }
}
