//! Paths of very many pairs, without a table for every destination.

use base::{IfaceId, NodeId};
use topology::shortest::Search;

use super::{Ground, Place, other_end};
use crate::plan::Plan;

/// A pair of nodes, and what its packets hash to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pair {
    /// Where the path begins.
    pub from: NodeId,
    /// Where it ends.
    pub to: NodeId,
    /// Decides between equal ways, as a packet's flow hash does: see [`flow_hash`].
    pub hash: u32,
}

/// Paths of many pairs, by the pairs' positions.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Paths {
    /// Where each begins and ends in `links`.
    spans: Vec<(u32, u32)>,
    links: Vec<u32>,
}

/// The hash of a flow from its name and those of its ends (FNV-1a), so that neither addresses nor
/// the order of the lab file matter.
pub fn flow_hash(from: &str, to: &str, name: &str) -> u32 {
    let mut hash = 0x811c_9dc5_u32;
    for byte in [from, to, name].into_iter().flat_map(|part| part.bytes().chain([0])) {
        hash = (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193);
    }
    hash
}

impl Paths {
    /// The paths of `pairs` while link *l* is in service iff `link_up[l]`.
    ///
    /// Every pair has the path of packets with its hash: at each router one of the equally short
    /// ways is chosen as [`fabric::ecmp`] does. Pairs are worked through by the router that they
    /// end at, one search for each, so that memory grows with the network and the paths only.
    ///
    /// # Panics
    /// If `link_up` is shorter than the plan's list of links, or the paths have 2³² links or more
    /// in all.
    pub fn compute(plan: &Plan, link_up: &[bool], pairs: &[Pair]) -> Self {
        let ground = Ground::of(plan, link_up);
        let mut search = Search::new(&ground.graph);
        let mut paths = Self { spans: vec![(0, 0); pairs.len()], links: Vec::new() };
        let mut open: Vec<u32> = (0..pairs.len() as u32).collect();
        // A host may be reached through the first of its interfaces that leads there.
        for candidate in 0.. {
            let mut legs: Vec<Leg> = Vec::with_capacity(open.len());
            for &index in &open {
                let pair = pairs[index as usize];
                let node = &plan.nodes[pair.to.index()];
                match ground.leg(index, pair, node.ifaces.get(candidate).copied()) {
                    Found::Leg(leg) => legs.push(leg),
                    Found::Link(link) => paths.put(index, &[link.0]),
                    Found::Nothing => {}
                }
            }
            legs.sort_unstable_by_key(|leg| (leg.root, leg.index));
            let mut walk = Walk::default();
            for group in legs.chunk_by(|a, b| a.root == b.root) {
                search.aim(group[0].root);
                for leg in group {
                    if walk.go(&ground, &search, leg, pairs[leg.index as usize].hash) {
                        paths.put(leg.index, &walk.links);
                    }
                }
            }
            open.retain(|index| {
                let pair = pairs[*index as usize];
                let more = plan.nodes[pair.to.index()].ifaces.len() > candidate + 1;
                more && pair.from != pair.to && paths.path(*index as usize).is_empty()
            });
            if open.is_empty() {
                break;
            }
        }
        paths
    }

    /// The directed links of a pair's path in order, each with the number of the interface that
    /// sends into it (twice its link's, one more for the way from the second end to the first);
    /// empty where there is no way.
    ///
    /// # Panics
    /// If there is no such pair.
    pub fn path(&self, pair: usize) -> &[u32] {
        let (start, end) = self.spans[pair];
        &self.links[start as usize..end as usize]
    }

    /// All paths, in the order of the pairs.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &[u32]> {
        self.spans.iter().map(|(start, end)| &self.links[*start as usize..*end as usize])
    }

    fn put(&mut self, pair: u32, path: &[u32]) {
        let start = self.links.len();
        self.links.extend_from_slice(path);
        let ends = [start, self.links.len()]
            .map(|at| u32::try_from(at).expect("fewer than 2³² links fit in memory"));
        self.spans[pair as usize] = (ends[0], ends[1]);
    }
}

/// A pair's way between the nodes that forward.
#[derive(Clone, Copy)]
struct Leg {
    /// The row at which it ends, and at which it begins.
    root: u32,
    start: u32,
    /// The pair's position.
    index: u32,
    /// A single-homed host's first link, and a host's last.
    first: Option<IfaceId>,
    last: Option<IfaceId>,
}

/// What an interface of the destination makes of a pair.
enum Found {
    Leg(Leg),
    /// They are neighbours, and nobody forwards.
    Link(IfaceId),
    Nothing,
}

impl Ground {
    /// The way of a pair that enters its destination through `dest`.
    fn leg(&self, index: u32, pair: Pair, dest: Option<IfaceId>) -> Found {
        let Some(dest) = dest.filter(|_| pair.from != pair.to) else { return Found::Nothing };
        let end = self.ifaces[dest.index()];
        let (root, last) = match self.nodes[pair.to.index()] {
            Place::Core { row, transit: true } => (row, None),
            _ if !end.up => return Found::Nothing,
            _ if pair.from == end.peer => return Found::Link(other_end(dest)),
            _ => match self.nodes[end.peer.index()] {
                Place::Core { row, transit: true } => (row, Some(other_end(dest))),
                _ => return Found::Nothing,
            },
        };
        let (start, first) = match self.nodes[pair.from.index()] {
            Place::Core { row, .. } => (row, None),
            Place::Leaf(iface) => {
                let own = self.ifaces[iface.index()];
                match self.nodes[own.peer.index()] {
                    Place::Core { row, transit } if own.up && (transit || row == root) => {
                        (row, Some(iface))
                    }
                    _ => return Found::Nothing,
                }
            }
        };
        Found::Leg(Leg { root, start, index, first, last })
    }
}

/// The walk along one leg.
#[derive(Default)]
struct Walk {
    links: Vec<u32>,
    ways: Vec<u32>,
}

impl Walk {
    /// Whether the leg leads to its end; then `links` are the path.
    fn go(&mut self, ground: &Ground, search: &Search<'_>, leg: &Leg, hash: u32) -> bool {
        self.links.clear();
        self.links.extend(leg.first.map(|iface| iface.0));
        let mut row = leg.start;
        // What is left of the way falls with each step, so this ends.
        while row != leg.root {
            search.next_hops(row, &mut self.ways);
            let Some(&first) = self.ways.first() else { return false };
            let node = ground.ifaces[first as usize].node;
            let way = self.ways[fabric::ecmp(hash, node, self.ways.len())];
            self.links.push(way);
            let Place::Core { row: next, .. } =
                ground.nodes[ground.ifaces[way as usize].peer.index()]
            else {
                return false;
            };
            row = next;
        }
        self.links.extend(leg.last.map(|iface| iface.0));
        true
    }
}

#[cfg(test)]
mod tests;
