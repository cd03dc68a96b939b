//! Maximum flows between sets of hosts.
//!
//! A host with one link counts as part of its router, which leaves the network of routers. Flows
//! are computed by Dinic's algorithm (1970).

use base::NodeId;
use lab::plan::Plan;

use super::atoms::is_placed;
use super::demand::{Demand, NO_LIMIT};

/// The vertices at which a host sends into the network and receives from it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Port {
    /// `enters` and `leaves` are the same vertex for a host with one link.
    enters: u32,
    leaves: u32,
    /// Maximum rates, bit/s.
    pub(super) send: u64,
    pub(super) receive: u64,
}

#[derive(Debug)]
pub(super) struct Network {
    ports: Vec<Option<Port>>,
    /// Arcs in pairs of opposite directions: head and capacity.
    heads: Vec<u32>,
    rates: Vec<u64>,
    /// By vertex: outgoing arcs.
    arcs: Vec<Vec<u32>>,
    /// By vertex: the arcs from the source and to the sink.
    source: Vec<u32>,
    sink: Vec<u32>,
    room: Vec<u64>,
    level: Vec<u32>,
    next: Vec<u32>,
    queue: Vec<u32>,
}

const NONE: u32 = u32::MAX;

impl Network {
    pub(super) fn of(plan: &Plan, demand: &Demand) -> Self {
        let mut network = Self {
            ports: vec![None; plan.nodes.len()],
            heads: Vec::new(),
            rates: Vec::new(),
            arcs: Vec::new(),
            source: Vec::new(),
            sink: Vec::new(),
            room: Vec::new(),
            level: Vec::new(),
            next: Vec::new(),
            queue: Vec::new(),
        };
        // Vertices at the ends of links: for sending and for receiving.
        let mut ends = vec![(NONE, NONE); plan.nodes.len()];
        let is_leaf = |node: NodeId| leaf_of(plan, node).is_some();
        for (index, end) in ends.iter_mut().enumerate() {
            let node = NodeId::at(index);
            if is_leaf(node) {
                continue;
            }
            let first = network.vertex();
            *end = (first, if is_placed(plan, node) { network.vertex() } else { first });
        }
        for (index, link) in plan.links.iter().enumerate() {
            if link.ends.iter().any(|end| is_leaf(*end)) {
                continue;
            }
            for (side, rate) in demand.links[index].iter().enumerate() {
                let [from, to] = [link.ends[side], link.ends[1 - side]];
                network.arc(ends[from.index()].0, ends[to.index()].1, *rate);
            }
        }
        let vertices = network.arcs.len() as u32;
        let [source, sink] = [network.vertex(), network.vertex()];
        for vertex in 0..vertices {
            let arc = network.arc(source, vertex, 0);
            network.source.push(arc);
            let arc = network.arc(vertex, sink, 0);
            network.sink.push(arc);
        }
        for index in 0..plan.nodes.len() {
            let node = NodeId::at(index);
            if !is_placed(plan, node) {
                continue;
            }
            let host = &demand.hosts[index];
            let (enters, leaves, [send, receive]) =
                if let Some((peer, link, side)) = leaf_of(plan, node) {
                    let vertex = ends[peer.index()].0;
                    let rates = demand.links[link];
                    (vertex, vertex, [rates[side], rates[1 - side]])
                } else {
                    (ends[index].0, ends[index].1, access(plan, demand, node))
                };
            let [send, receive] = [send.min(host.send), receive.min(host.receive)];
            let port = Port { enters, leaves, send, receive };
            network.ports[index] = Some(port);
        }
        network
    }

    /// The size of the graph: vertices and arcs.
    pub(super) fn size(&self) -> usize {
        self.arcs.len() + self.heads.len()
    }

    pub(super) fn port(&self, node: NodeId) -> Option<Port> {
        self.ports[node.index()]
    }

    fn vertex(&mut self) -> u32 {
        self.arcs.push(Vec::new());
        self.arcs.len() as u32 - 1
    }

    fn arc(&mut self, from: u32, to: u32, rate: u64) -> u32 {
        let arc = self.heads.len() as u32;
        for (from, to, rate) in [(from, to, rate), (to, from, 0)] {
            self.arcs[from as usize].push(self.heads.len() as u32);
            self.heads.push(to);
            self.rates.push(rate);
        }
        arc
    }

    /// Maximum flow in bit/s from nodes that `sends` selects to nodes that `receives` selects;
    /// `None`: unbounded.
    pub(super) fn flow(
        &mut self,
        sends: impl Fn(NodeId) -> bool,
        receives: impl Fn(NodeId) -> bool,
    ) -> Option<u64> {
        self.room.clone_from(&self.rates);
        for (index, port) in self.ports.iter().enumerate() {
            let Some(port) = port else { continue };
            if sends(NodeId::at(index)) {
                let room = &mut self.room[self.source[port.enters as usize] as usize];
                *room = room.saturating_add(port.send).min(NO_LIMIT);
            }
            if receives(NodeId::at(index)) {
                let room = &mut self.room[self.sink[port.leaves as usize] as usize];
                *room = room.saturating_add(port.receive).min(NO_LIMIT);
            }
        }
        let [source, sink] = [self.arcs.len() as u32 - 2, self.arcs.len() as u32 - 1];
        let mut flow = 0u64;
        while self.reaches(source, sink) {
            self.next.clear();
            self.next.resize(self.arcs.len(), 0);
            while let Some(more) = self.push(source, sink) {
                flow = flow.saturating_add(more);
                if flow >= NO_LIMIT {
                    return None;
                }
            }
        }
        Some(flow)
    }

    /// Computes the levels by a breadth-first search from the source over arcs that
    /// have residual capacity.
    fn reaches(&mut self, source: u32, sink: u32) -> bool {
        self.level.clear();
        self.level.resize(self.arcs.len(), NONE);
        self.level[source as usize] = 0;
        self.queue.clear();
        self.queue.push(source);
        let mut at = 0;
        while let Some(&vertex) = self.queue.get(at) {
            at += 1;
            for &arc in &self.arcs[vertex as usize] {
                let head = self.heads[arc as usize];
                if self.room[arc as usize] > 0 && self.level[head as usize] == NONE {
                    self.level[head as usize] = self.level[vertex as usize] + 1;
                    self.queue.push(head);
                }
            }
        }
        self.level[sink as usize] != NONE
    }

    /// Pushes flow along one more path of the present levels.
    fn push(&mut self, source: u32, sink: u32) -> Option<u64> {
        // The queue is unused here and stores the arcs of the path.
        self.queue.clear();
        let mut vertex = source;
        while vertex != sink {
            let place = self.next[vertex as usize] as usize;
            if let Some(&arc) = self.arcs[vertex as usize].get(place) {
                let head = self.heads[arc as usize];
                let is_next = self.level[head as usize] == self.level[vertex as usize] + 1;
                if is_next && self.level[head as usize] != NONE && self.room[arc as usize] > 0 {
                    self.queue.push(arc);
                    vertex = head;
                } else {
                    self.next[vertex as usize] += 1;
                }
            } else {
                // A dead end: go back and exclude this arc.
                let arc = self.queue.pop()?;
                vertex = self.heads[(arc ^ 1) as usize];
                self.next[vertex as usize] += 1;
            }
        }
        let least = self.queue.iter().map(|arc| self.room[*arc as usize]).min()?;
        for &arc in &self.queue {
            self.room[arc as usize] -= least;
            let back = &mut self.room[(arc ^ 1) as usize];
            *back = back.saturating_add(least);
        }
        Some(least)
    }
}

/// The forwarding node to which a host with one link is attached, the link, and the host's side.
fn leaf_of(plan: &Plan, node: NodeId) -> Option<(NodeId, usize, usize)> {
    let [iface] = plan.nodes[node.index()].ifaces[..] else { return None };
    let iface = &plan.ifaces[iface.index()];
    let side = iface.sends.index();
    let peer = plan.links[iface.link.index()].ends[1 - side];
    (is_placed(plan, node) && !is_placed(plan, peer)).then_some((peer, iface.link.index(), side))
}

/// The sum of the rates of a node's links: sending and receiving.
fn access(plan: &Plan, demand: &Demand, node: NodeId) -> [u64; 2] {
    let ifaces = plan.nodes[node.index()].ifaces.iter().map(|id| &plan.ifaces[id.index()]);
    ifaces.fold([0u64; 2], |[send, receive], iface| {
        let rates = demand.links[iface.link.index()];
        let side = iface.sends.index();
        let add = |sum: u64, rate: u64| sum.saturating_add(rate).min(NO_LIMIT);
        [add(send, rates[side]), add(receive, rates[1 - side])]
    })
}
