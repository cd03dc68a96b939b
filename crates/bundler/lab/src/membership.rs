//! Determines the bundles of packets.

use std::collections::BTreeMap;

use base::{IfaceId, NodeId};
use fabric::Fabric;

/// Nodes and interfaces of gateways.
#[derive(Clone, Debug)]
pub(crate) struct Places {
    pub(crate) nodes: Vec<NodeId>,
    /// The interfaces of each node that is an end of a bundle.
    pub(crate) ifaces: BTreeMap<NodeId, Vec<IfaceId>>,
}

impl Places {
    fn peer(&self, iface: IfaceId) -> NodeId {
        self.nodes[iface.index() ^ 1]
    }

    pub(crate) fn of(&self, node: NodeId) -> &[IfaceId] {
        self.ifaces.get(&node).map_or(&[], Vec::as_slice)
    }
}

/// The bundles of one sendbox by destination. They are computed on first use after each change of
/// routes, and cached.
#[derive(Clone, Debug)]
pub(crate) struct Membership {
    node: NodeId,
    receiveboxes: Vec<NodeId>,
    /// The cached bundle of each destination interface.
    known: Vec<u32>,
    /// For each bundle the interfaces that lead to its receivebox, once computed.
    towards: Vec<Option<Vec<IfaceId>>>,
}

const UNKNOWN: u32 = u32::MAX;
const NONE: u32 = u32::MAX - 1;

impl Membership {
    pub(crate) fn new(node: NodeId, receiveboxes: Vec<NodeId>) -> Self {
        Self { node, towards: vec![None; receiveboxes.len()], receiveboxes, known: Vec::new() }
    }

    /// Clears the cache after a change of routes.
    pub(crate) fn forget(&mut self) {
        self.known.clear();
        self.towards.fill(None);
    }

    /// The bundle, by its index among those of the sendbox, of packets that arrive at `came` and
    /// are addressed to `to`.
    pub(crate) fn find<B: Clone + 'static>(
        &mut self,
        fabric: &Fabric<B>,
        places: &Places,
        came: IfaceId,
        to: IfaceId,
    ) -> Option<usize> {
        if self.known.is_empty() {
            self.known.resize(places.nodes.len(), UNKNOWN);
        }
        let known = &mut self.known[to.index()];
        if *known == UNKNOWN {
            let at = farthest(fabric, places, self.node, &self.receiveboxes, to);
            *known = at.map_or(NONE, |at| at as u32);
        }
        if *known == NONE {
            return None;
        }
        let at = *known as usize;
        let receivebox = self.receiveboxes[at];
        let towards = self.towards[at].get_or_insert_with(|| {
            let ends = places.of(receivebox).iter();
            ends.flat_map(|end| fabric.next_hops(self.node, *end)).copied().collect()
        });
        (!towards.contains(&came)).then_some(at)
    }
}

/// The bundle with the most distant receivebox, among those whose receivebox is on all paths to
/// `to`.
fn farthest<B: Clone + 'static>(
    fabric: &Fabric<B>,
    places: &Places,
    from: NodeId,
    receiveboxes: &[NodeId],
    to: IfaceId,
) -> Option<usize> {
    let path = first_path(fabric, places, from, to);
    let within = receiveboxes.iter().enumerate().filter_map(|(at, receivebox)| {
        // Packets to the gateway itself are excluded.
        let hop = path.iter().position(|node| node == receivebox)?;
        (hop + 1 < path.len()).then_some((hop, at))
    });
    let all_pass = |(_, at): &(usize, usize)| passes(fabric, places, from, receiveboxes[*at], to);
    // Of several at the same hop, the first by name.
    within.filter(all_pass).max_by_key(|(hop, at)| (*hop, usize::MAX - at)).map(|(_, at)| at)
}

/// The nodes of one shortest path, from the next hop to the last node; empty without a path.
fn first_path<B: Clone + 'static>(
    fabric: &Fabric<B>,
    places: &Places,
    from: NodeId,
    to: IfaceId,
) -> Vec<NodeId> {
    let dest = places.nodes[to.index()];
    let (mut node, mut path) = (from, Vec::new());
    while node != dest {
        let Some(way) = fabric.next_hops(node, to).first() else { return Vec::new() };
        node = places.peer(*way);
        if path.contains(&node) {
            return Vec::new();
        }
        path.push(node);
    }
    path
}

/// Whether every shortest path passes a node.
fn passes<B: Clone + 'static>(
    fabric: &Fabric<B>,
    places: &Places,
    from: NodeId,
    through: NodeId,
    to: IfaceId,
) -> bool {
    let dest = places.nodes[to.index()];
    let (mut seen, mut open) = (vec![from], vec![from]);
    while let Some(node) = open.pop() {
        if node == dest {
            return false;
        }
        for way in fabric.next_hops(node, to) {
            let next = places.peer(*way);
            if next != through && !seen.contains(&next) {
                seen.push(next);
                open.push(next);
            }
        }
    }
    true
}

/// Sets of bundles, each with a number that packets have as their tag.
#[derive(Clone, Debug)]
pub(crate) struct Tags {
    sets: Vec<Vec<u32>>,
    joined: BTreeMap<(u32, u32), u32>,
}

impl Default for Tags {
    fn default() -> Self {
        Self { sets: vec![Vec::new()], joined: BTreeMap::new() }
    }
}

impl Tags {
    /// The tag of a packet with this tag that has also passed the sendbox of `bundle`.
    pub(crate) fn join(&mut self, tag: u32, bundle: u32) -> u32 {
        if let Some(joined) = self.joined.get(&(tag, bundle)) {
            return *joined;
        }
        let mut set = self.sets[tag as usize].clone();
        if let Err(place) = set.binary_search(&bundle) {
            set.insert(place, bundle);
        }
        let known = self.sets.iter().position(|other| *other == set);
        let joined = known.unwrap_or_else(|| {
            self.sets.push(set);
            self.sets.len() - 1
        }) as u32;
        self.joined.insert((tag, bundle), joined);
        joined
    }

    pub(crate) fn bundles(&self, tag: u32) -> &[u32] {
        self.sets.get(tag as usize).map_or(&[], Vec::as_slice)
    }
}
