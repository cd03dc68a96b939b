//! Paths of very many pairs of nodes, without a table for every destination.

use base::{IfaceId, NodeId};
use topology::shortest::Search;

use super::{Ground, Place, other_end};
use crate::plan::Plan;

/// A pair of nodes, and the ECMP hash of its packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pair {
    /// The first node of the path.
    pub from: NodeId,
    /// The last node of the path.
    pub to: NodeId,
    /// Selects among equal-cost next hops like the flow hash of a packet: see [`flow_hash`].
    pub hash: u32,
}

/// Paths of many pairs, by the index of the pair.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Paths {
    /// Start and end of each path in `links`.
    spans: Vec<(u32, u32)>,
    links: Vec<u32>,
}

/// The hash of a flow from its name and the names of its ends (FNV-1a), independent of addresses
/// and of the order of the lab file.
pub fn flow_hash(from: &str, to: &str, name: &str) -> u32 {
    let mut hash = 0x811c_9dc5_u32;
    for byte in [from, to, name].into_iter().flat_map(|part| part.bytes().chain([0])) {
        hash = (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193);
    }
    hash
}

impl Paths {
    /// Computes the paths of `pairs` if link *l* is up iff `link_up[l]`.
    ///
    /// Every pair has the path of packets with its hash: each router selects one of its equal-cost
    /// next hops as [`fabric::ecmp`] does. Pairs are processed by the router at their end, with one
    /// search for each, so that memory is proportional to the network and the paths only.
    ///
    /// # Panics
    /// If `link_up` is shorter than the plan's list of links, or if all paths together have
    /// 2³² links or more.
    pub fn compute(plan: &Plan, link_up: &[bool], pairs: &[Pair]) -> Self {
        let ground = Ground::of(plan, link_up);
        let mut search = Search::new(&ground.graph);
        let mut paths = Self { spans: vec![(0, 0); pairs.len()], links: Vec::new() };
        let mut open: Vec<u32> = (0..pairs.len() as u32).collect();
        // A host uses the first of its interfaces that can be reached.
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

    /// The directed links of a pair's path in order, as the numbers of their egress interfaces
    /// (twice the link's number, plus 1 in the direction from the second end to the first);
    /// empty without a route.
    ///
    /// # Panics
    /// If the index is out of range.
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

/// The part of a pair's path between forwarding nodes.
#[derive(Clone, Copy)]
struct Leg {
    /// The row at its end, and the row at its start.
    root: u32,
    start: u32,
    /// The index of the pair.
    index: u32,
    /// A single-homed host's first link, and a host's last link.
    first: Option<IfaceId>,
    last: Option<IfaceId>,
}

/// The path of a pair to one interface of the destination.
enum Found {
    Leg(Leg),
    /// The nodes are neighbours: no node forwards.
    Link(IfaceId),
    Nothing,
}

impl Ground {
    /// The path of a pair that reaches its destination through `dest`.
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

/// The traversal of one leg.
#[derive(Default)]
struct Walk {
    links: Vec<u32>,
    ways: Vec<u32>,
}

impl Walk {
    /// Whether the leg reaches its end; then `links` contains the path.
    fn go(&mut self, ground: &Ground, search: &Search<'_>, leg: &Leg, hash: u32) -> bool {
        self.links.clear();
        self.links.extend(leg.first.map(|iface| iface.0));
        let mut row = leg.start;
        // The remaining cost falls with each step, so the loop ends.
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
