//! Forwarding tables of a plan: equal-cost shortest paths to every interface.
//!
//! The addresses of a host are distinct destinations, each reached through its own link; all
//! addresses of a router are reached by the shortest path to the router. Tables are per attachment
//! point, so a thousand hosts on one switch share one table. Tables are computed on first use:
//! traffic of a few hosts in a large network needs only a few.

use std::sync::OnceLock;

use base::{IfaceId, NodeId, Span};
use fabric::Forwarding;
use topology::shortest::{Adjacency, Arc, PathsTo};

use crate::plan::{Metric, Plan, Role, Routing};

mod paths;

pub use paths::{Pair, Paths, flow_hash};

/// Shortest paths for a given set of links that are up.
#[derive(Debug)]
pub struct Routes {
    ground: Ground,
    /// Every interface at its own index, for slices of length one.
    own: Vec<IfaceId>,
    towards: Vec<OnceLock<Table>>,
}

/// The graph of the route computation, without single-homed hosts.
#[derive(Debug)]
struct Ground {
    nodes: Vec<Place>,
    ifaces: Vec<End>,
    graph: Adjacency,
}

/// The position of a node in the graph.
#[derive(Clone, Copy, Debug)]
enum Place {
    /// A node with a row in the tables.
    Core { row: u32, transit: bool },
    /// A single-homed host with this interface.
    Leaf(IfaceId),
}

/// An interface and its link.
#[derive(Clone, Copy, Debug)]
struct End {
    node: NodeId,
    /// The node at the other end of the link.
    peer: NodeId,
    up: bool,
    /// The link's delay in the sending direction.
    delay: Span,
}

/// Next hops from every core node to one core node.
#[derive(Debug)]
struct Table {
    rows: Box<[Row]>,
    shared: Vec<IfaceId>,
}

#[derive(Clone, Copy, Debug)]
enum Row {
    None,
    One(IfaceId),
    /// A range of the table's `shared`.
    Many(u32, u32),
}

impl Routes {
    /// Computes routes of `plan` if link *l* is up iff `link_up[l]`.
    ///
    /// With `routing = "none"` routes exist between direct neighbours only:
    /// programs set the others.
    ///
    /// # Panics
    /// If `link_up` is shorter than the plan's list of links.
    pub fn compute(plan: &Plan, link_up: &[bool]) -> Self {
        let ground = Ground::of(plan, link_up);
        Self {
            own: (0..ground.ifaces.len()).map(IfaceId::at).collect(),
            towards: (0..ground.graph.len()).map(|_| OnceLock::new()).collect(),
            ground,
        }
    }

    /// Computes the tables that traffic between any hosts of `plan` needs, so that no packet on the
    /// wall clock waits for one.
    pub fn fill(&self, plan: &Plan) {
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

    /// The interfaces of `node` on equal-cost paths to interface `dest`, ascending; empty without a
    /// route, or if `dest` is on the node itself.
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

    /// Whether packets that leave a host through its interface `own` reach interface `to`.
    pub fn leads(&self, own: IfaceId, to: IfaceId) -> bool {
        let End { peer, up, .. } = self.ground.ifaces[own.index()];
        let forwards = matches!(self.ground.nodes[peer.index()], Place::Core { transit: true, .. });
        up && (peer == self.ground.ifaces[to.index()].node
            || (forwards && !self.next(peer, to).is_empty()))
    }

    /// The path from `from` to interface `to`, as the egress interfaces of its links;
    /// `None` without a route, empty if `to` is on the node itself. `pick` selects one of
    /// several equal-cost next hops.
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

    /// The sum of the links' delays on the first path from `from` to interface `to`, without jitter
    /// and queueing; `None` without a route.
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
    /// The graph if link *l* is up iff `link_up[l]`.
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

/// The core of the network: nodes that forward or have several interfaces.
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
                // A hop breaks ties between equal delays; 1,024 hops count as 1 ns.
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
