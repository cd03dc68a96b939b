//! Forwarding tables of a plan: equal-cost shortest paths towards every interface.
//!
//! A host's addresses are distinct destinations, each entered through its own link; a router is
//! reached by the shortest path to the router, whichever of its addresses is meant. Tables are
//! per point of attachment, so a thousand hosts on one switch share one table. Tables towards
//! nodes that no host hangs on are computed when first asked for.

use std::sync::OnceLock;

use base::{IfaceId, NodeId, Span};
use fabric::Forwarding;
use topology::shortest::{Adjacency, Arc, PathsTo};

use crate::plan::{Metric, Plan, Role, Routing};

mod paths;

pub use paths::{Pair, Paths, flow_hash};

/// Shortest paths while a given set of links is in service.
#[derive(Debug)]
pub struct Routes {
    ground: Ground,
    /// Every interface at its own position, for sets of one.
    own: Vec<IfaceId>,
    towards: Vec<OnceLock<Table>>,
}

/// What routes are computed on: single-homed hosts are cut off.
#[derive(Debug)]
struct Ground {
    nodes: Vec<Place>,
    ifaces: Vec<End>,
    graph: Adjacency,
}

/// Where a node stands.
#[derive(Clone, Copy, Debug)]
enum Place {
    /// Has a row in the tables.
    Core { row: u32, transit: bool },
    /// A host with this one interface.
    Leaf(IfaceId),
}

/// An interface and what it leads to.
#[derive(Clone, Copy, Debug)]
struct End {
    node: NodeId,
    /// The node at the other end of the link.
    peer: NodeId,
    up: bool,
    /// The link's delay away from here.
    delay: Span,
}

/// Next hops of every core node towards one core node.
#[derive(Debug)]
struct Table {
    rows: Box<[Row]>,
    shared: Vec<IfaceId>,
}

#[derive(Clone, Copy, Debug)]
enum Row {
    None,
    One(IfaceId),
    /// A range of `shared`.
    Many(u32, u32),
}

impl Routes {
    /// Routes of `plan` while link *l* is in service iff `link_up[l]`.
    ///
    /// With `routing = "none"` only direct neighbours are known: programs do the rest.
    ///
    /// # Panics
    /// If `link_up` is shorter than the plan's list of links.
    pub fn compute(plan: &Plan, link_up: &[bool]) -> Self {
        let ground = Ground::of(plan, link_up);
        let mut routes = Self {
            own: (0..ground.ifaces.len()).map(IfaceId::at).collect(),
            towards: (0..ground.graph.len()).map(|_| OnceLock::new()).collect(),
            ground,
        };
        routes.fill(plan);
        routes
    }

    /// Computes the tables that hosts' traffic will ask for.
    fn fill(&mut self, plan: &Plan) {
        for iface in plan.ifaces.iter().filter(|i| plan.nodes[i.node.index()].kind == Role::Host) {
            let peer = self.ground.ifaces[iface_index(plan, iface)].peer;
            if let Place::Core { row, transit: true } = self.ground.nodes[peer.index()] {
                self.table(row);
            }
        }
    }

    fn table(&self, row: u32) -> &Table {
        self.towards[row as usize]
            .get_or_init(|| Table::from_paths(&self.ground.graph.paths_to(row), self.towards.len()))
    }

    /// The interfaces of `node` that lead to interface `dest` at equal cost, ascending; empty
    /// where there is no way and where `dest` is the node's own.
    pub fn next(&self, node: NodeId, dest: IfaceId) -> &[IfaceId] {
        let end = self.ground.ifaces[dest.index()];
        if node == end.node {
            return &[];
        }
        let root = match self.ground.nodes[end.node.index()] {
            Place::Core { row, transit: true } => row,
            _ if !end.up => return &[],
            _ if node == end.peer => return self.one(other_end(dest)),
            _ => match self.ground.nodes[end.peer.index()] {
                Place::Core { row, transit: true } => row,
                _ => return &[],
            },
        };
        match self.ground.nodes[node.index()] {
            Place::Core { row, .. } => self.table(root).next(row, &self.own),
            Place::Leaf(iface) => {
                let own = self.ground.ifaces[iface.index()];
                let Place::Core { row, transit } = self.ground.nodes[own.peer.index()] else {
                    return &[];
                };
                let arrives =
                    row == root || (transit && !self.table(root).next(row, &self.own).is_empty());
                if own.up && arrives { self.one(iface) } else { &[] }
            }
        }
    }

    /// The path from `from` to interface `to`, as the interfaces that send into its links; `None`
    /// where there is no way, empty where `to` is its own. `pick` chooses among equal ways.
    pub fn path(
        &self,
        from: NodeId,
        to: IfaceId,
        mut pick: impl FnMut(NodeId, &[IfaceId]) -> IfaceId,
    ) -> Option<Vec<IfaceId>> {
        let dest = self.ground.ifaces[to.index()].node;
        let (mut node, mut path) = (from, Vec::new());
        while node != dest {
            let way = match self.next(node, to) {
                [] => return None,
                [only] => *only,
                several => pick(node, several),
            };
            path.push(way);
            node = self.ground.ifaces[way.index()].peer;
            // No shortest path visits a node twice.
            if path.len() > self.ground.nodes.len() {
                return None;
            }
        }
        Some(path)
    }

    /// The sum of the links' delays on the (first) path from `from` to interface `to`, without
    /// jitter and queues; `None` where there is no way.
    pub fn path_delay(&self, from: NodeId, to: IfaceId) -> Option<Span> {
        let path = self.path(from, to, |_, ways| ways[0])?;
        let delays = path.iter().map(|iface| self.ground.ifaces[iface.index()].delay);
        Some(delays.fold(Span::ZERO, Span::saturating_add))
    }

    fn one(&self, iface: IfaceId) -> &[IfaceId] {
        std::slice::from_ref(&self.own[iface.index()])
    }
}

impl Ground {
    /// The ground while link *l* is in service iff `link_up[l]`.
    fn of(plan: &Plan, link_up: &[bool]) -> Self {
        let ifaces: Vec<End> = plan
            .ifaces
            .iter()
            .map(|iface| {
                let link = &plan.links[iface.link.index()];
                let side = iface.sends.index();
                End {
                    node: iface.node,
                    peer: link.ends[1 - side],
                    up: link_up[iface.link.index()],
                    delay: link.directions[side].delay,
                }
            })
            .collect();
        let mut rows = 0;
        let nodes: Vec<Place> = plan
            .nodes
            .iter()
            .map(|node| {
                let transit = node.kind != Role::Host && plan.routing != Routing::None;
                match node.ifaces[..] {
                    [only] if node.kind == Role::Host => Place::Leaf(only),
                    _ => {
                        rows += 1;
                        Place::Core { row: rows - 1, transit }
                    }
                }
            })
            .collect();
        Self { graph: graph(plan, &nodes, &ifaces, rows as usize), nodes, ifaces }
    }
}

impl Forwarding for Routes {
    fn next(&self, node: NodeId, dest: IfaceId) -> &[IfaceId] {
        Self::next(self, node, dest)
    }
}

impl Table {
    fn from_paths(paths: &PathsTo, rows: usize) -> Self {
        let mut shared = Vec::new();
        let rows = (0..rows as u32)
            .map(|node| match *paths.next_hops(node) {
                [] => Row::None,
                [one] => Row::One(IfaceId(one)),
                ref many => {
                    let start = shared.len() as u32;
                    shared.extend(many.iter().map(|id| IfaceId(*id)));
                    Row::Many(start, shared.len() as u32)
                }
            })
            .collect();
        Self { rows, shared }
    }

    fn next<'a>(&'a self, row: u32, own: &'a [IfaceId]) -> &'a [IfaceId] {
        match self.rows[row as usize] {
            Row::None => &[],
            Row::One(iface) => std::slice::from_ref(&own[iface.index()]),
            Row::Many(start, end) => &self.shared[start as usize..end as usize],
        }
    }
}

/// The core of the network: what has more than one interface, or forwards.
fn graph(plan: &Plan, nodes: &[Place], ifaces: &[End], rows: usize) -> Adjacency {
    let mut graph = Adjacency::new(rows);
    for place in nodes {
        if let Place::Core { row, transit } = *place {
            graph.set_transit(row, transit);
        }
    }
    for (index, end) in ifaces.iter().enumerate().filter(|(_, end)| end.up) {
        let (from, to) = (nodes[end.node.index()], nodes[end.peer.index()]);
        if let (Place::Core { row: from, .. }, Place::Core { row: to, .. }) = (from, to) {
            let metric = plan.links[index / 2].metric;
            let cost = match plan.routing {
                // A hop decides between equal delays; 1,024 hops would outweigh 1 ns.
                Routing::Shortest(Metric::Delay) => {
                    end.delay.as_nanos().saturating_mul(1024).saturating_add(1)
                }
                Routing::Shortest(Metric::Metric) => u64::from(metric),
                Routing::Shortest(Metric::Hops) | Routing::None => 1,
            };
            graph.add(from, Arc { to, cost, id: index as u32 });
        }
    }
    graph
}

/// The interface at the other end of the same link.
const fn other_end(iface: IfaceId) -> IfaceId {
    IfaceId(iface.0 ^ 1)
}

fn iface_index(plan: &Plan, iface: &crate::plan::Iface) -> usize {
    let link = &plan.links[iface.link.index()];
    debug_assert!(link.ends[iface.sends.index()] == iface.node);
    2 * iface.link.index() + iface.sends.index()
}

#[cfg(test)]
mod tests;
