//! Differences between the routes at two instants.

use bgp::nlri::Nlri;

use super::Rib;
use super::peer::Peer;
use super::query::Route;
use super::table::Key;
use crate::{MirrorId, Peering};

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    Added(Route),
    Removed(Route),
    /// A route with changed attributes: old and new.
    Changed(Route, Route),
}

/// The peering of `other` that corresponds to `peer`: the one with the same addresses and
/// mirror, or, if a table dump omits the router's address or the mirror, the only one with
/// the same neighbour.
fn same<'a>(peer: &Peer, other: &'a Rib) -> Option<&'a Peer> {
    let of = &peer.peering;
    let is_same_mirror = |known: MirrorId| known == of.mirror;
    let is_unknown_mirror = |known: MirrorId| {
        known.archive() == of.mirror.archive()
            && (known.interface() == 0 || of.mirror.interface() == 0)
    };
    same_peer(of, other, is_same_mirror).or_else(|| same_peer(of, other, is_unknown_mirror))
}

fn same_peer<'a>(
    of: &Peering,
    other: &'a Rib,
    is_mirror: impl Fn(MirrorId) -> bool,
) -> Option<&'a Peer> {
    let mut all = other.peers().filter(|known| {
        let known = &known.peering;
        known.peer == of.peer && known.peer_as == of.peer_as && is_mirror(known.mirror)
    });
    let first = all.next()?;
    match all.next() {
        None => Some(first),
        Some(second) => {
            [first, second].into_iter().chain(all).find(|known| known.peering.local == of.local)
        }
    }
}

/// Number in `rib` of the prefix that has `number` in table `at` of `from`.
fn counterpart(from: &Rib, at: usize, number: u32, rib: &Rib) -> Option<(usize, u32)> {
    let table = &from.tables[at];
    let place = rib
        .tables
        .iter()
        .position(|other| (other.family, other.add_path) == (table.family, table.add_path))?;
    let found = match table.key(number)? {
        Key::Prefix(Nlri { path_id, prefix }) => {
            rib.tables[place].find(&Nlri { path_id, prefix }, number)
        }
        Key::Other(path_id, key) => rib.tables[place].find_key(path_id, key),
    };
    Some((place, found?))
}

impl Rib {
    /// Calls `each` for each route that differs in `later`, peering by peering. Times are ignored:
    /// a route that was announced again without a change is equal.
    pub fn diff(&self, later: &Self, each: &mut impl FnMut(Change)) {
        for peer in self.peers() {
            let after = same(peer, later);
            for (at, of) in peer.tables.iter().enumerate() {
                of.routes.visit(|number, announcement| {
                    let place = counterpart(self, at, number, later);
                    let now = after.zip(place).and_then(|(after, (at, number))| {
                        let now = after.tables.get(at)?.routes.get(number)?;
                        Some((after, at, number, now))
                    });
                    let Some((after, there, then, now)) = now else {
                        each_some(self.route(peer, at, number), Change::Removed, each);
                        return;
                    };
                    if self.set_of(announcement) != later.set_of(now) {
                        let both = self.route(peer, at, number);
                        if let Some((old, new)) = both.zip(later.route(after, there, then)) {
                            // The encodings with two and with four octets may mean the same.
                            if old.attributes != new.attributes {
                                each(Change::Changed(old, new));
                            }
                        }
                    }
                });
            }
        }
        for peer in later.peers() {
            let before = same(peer, self);
            for (at, of) in peer.tables.iter().enumerate() {
                of.routes.visit(|number, _| {
                    let place = counterpart(later, at, number, self);
                    let old = before.zip(place).and_then(|(before, (at, number))| {
                        before.tables.get(at)?.routes.get(number)
                    });
                    if old.is_none() {
                        each_some(later.route(peer, at, number), Change::Added, each);
                    }
                });
            }
        }
    }
}

fn each_some(
    route: Option<Route>,
    change: impl Fn(Route) -> Change,
    each: &mut impl FnMut(Change),
) {
    if let Some(route) = route {
        each(change(route));
    }
}
