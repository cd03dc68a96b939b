//! Limits on places in a table, in total and per source address.
#![forbid(unsafe_code)]

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

    /// Assigns a place of `source` to `holder`.
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

    fn oldest(&self, source: IpAddr) -> Option<T> {
        self.held.get(&network(source))?.first().copied()
    }

    /// Number of taken places.
    pub const fn taken(&self) -> usize {
        self.taken
    }
}

/// Numbered holders of places, of which the lowest number is the oldest one. A new holder always
/// gets a place, if necessary that of an old one.
#[derive(Debug)]
pub struct Places<T> {
    quota: Quota<u64>,
    held: BTreeMap<u64, (IpAddr, T)>,
}

impl<T> Places<T> {
    /// At most `max` places in total, and `max_per_source` per source.
    pub fn new(max: usize, max_per_source: usize) -> Self {
        Self { quota: Quota::new(max, max_per_source), held: BTreeMap::new() }
    }

    /// Adds a holder, and returns the one that it replaces: the oldest of its source if that has
    /// reached its limit, otherwise the oldest of the source with clearly the most places,
    /// otherwise the oldest of all.
    pub fn insert(&mut self, source: IpAddr, number: u64, holder: T) -> Option<T> {
        let oldest = match self.quota.look(source) {
            Admission::Free => None,
            Admission::SourceFull(oldest) => oldest,
            Admission::InsteadOf(newest) => {
                self.held.get(&newest).and_then(|(source, _)| self.quota.oldest(*source))
            }
            Admission::Full => self.held.keys().next().copied(),
        };
        let replaced = oldest.and_then(|oldest| self.remove(oldest));
        self.quota.take(source, number);
        self.held.insert(number, (source, holder));
        replaced
    }

    /// Removes a holder; `None` if it has no place.
    pub fn remove(&mut self, number: u64) -> Option<T> {
        let (source, holder) = self.held.remove(&number)?;
        self.quota.give_back(source, number);
        Some(holder)
    }

    /// Removes the oldest holder.
    pub fn remove_oldest(&mut self) -> Option<T> {
        let oldest = *self.held.first_key_value()?.0;
        self.remove(oldest)
    }

    /// Removes the holders for which `retains` is false.
    pub fn retain(&mut self, retains: impl Fn(&T) -> bool) {
        self.held.retain(|number, (source, holder)| {
            let retained = retains(holder);
            if !retained {
                self.quota.give_back(*source, *number);
            }
            retained
        });
    }

    /// All holders, the oldest first.
    pub fn iter(&self) -> impl Iterator<Item = &T> {
        self.held.values().map(|(_, holder)| holder)
    }
}

/// The network that counts as one source: an IPv4 address, or the /64 of an IPv6 address, because
/// a host can choose any address in its /64 (RFC 8981).
fn network(source: IpAddr) -> IpAddr {
    match source.to_canonical() {
        IpAddr::V6(ip) => Ipv6Addr::from_bits(ip.to_bits() & !u128::from(u64::MAX)).into(),
        v4 @ IpAddr::V4(_) => v4,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn source(last: u8) -> IpAddr {
        IpAddr::from([10, 0, 0, last])
    }

    #[test]
    fn new_holder_replaces_the_oldest_of_the_source_with_the_most_places() {
        let mut places = Places::new(4, 3);
        for (number, last) in [(1, 1), (2, 0), (3, 0), (4, 0)] {
            assert_eq!(places.insert(source(last), number, number), None);
        }
        assert_eq!(places.insert(source(0), 5, 5), Some(2), "its limit");
        assert_eq!(places.insert(source(1), 6, 6), Some(3), "the other source has three");
        assert_eq!(places.insert(source(2), 7, 7), Some(1), "a source has two");
        assert_eq!(places.insert(source(3), 8, 8), Some(4), "a source has two");
        assert_eq!(places.iter().copied().collect::<Vec<_>>(), [5, 6, 7, 8]);
    }

    #[test]
    fn new_holder_replaces_the_oldest_of_all_if_each_source_has_few_places() {
        let mut places = Places::new(2, 2);
        for (number, last) in [(1, 1), (2, 0)] {
            assert_eq!(places.insert(source(last), number, number), None);
        }
        assert_eq!(places.insert(source(2), 3, 3), Some(1));
        places.retain(|holder| *holder != 2);
        assert_eq!(places.insert(source(3), 4, 4), None, "a place is free");
        assert_eq!(places.remove(2), None);
        assert_eq!((places.remove(4), places.remove_oldest()), (Some(4), Some(3)));
        assert_eq!(places.quota.taken(), 0);
    }
}
