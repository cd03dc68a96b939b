//! Packets that stay on their link: link-local addresses, multicast and broadcast.
//!
//! A link is what two ends of a wire share, or all wires that switches join.

use base::{IfaceId, NodeId};
use queue::Slot;

use crate::NodeKind;
use crate::link::Link;
use crate::network::{Fabric, Refusal, What};

impl<B: Clone + 'static> Fabric<B> {
    /// Handles a packet of link scope at a router or switch; `from` is `None` for packets that the
    /// router itself sends.
    pub(crate) fn route_on_link(&mut self, node: NodeId, from: Option<IfaceId>, slot: Slot) {
        let is_router = self.nodes[node.index()].is_router();
        match (self.packets.get(slot).to, from) {
            (Some(to), _) if self.at[to.index()] == node => self.put_out(slot, What::Local(node)),
            (Some(to), None) if self.at[to.index() ^ 1] == node => {
                let neighbour = IfaceId::at(to.index() ^ 1);
                self.send(neighbour, slot, neighbour);
            }
            (Some(_), Some(here)) if is_router => self.refuse(node, here, slot, Refusal::NoRoute),
            (Some(to), _) => self.forward_to(node, from, to, slot),
            (None, Some(here)) if !is_router => self.flood(node, here, slot),
            // Emulated routers are members of no multicast group.
            (None, _) => {
                self.packets.take(slot);
            }
        }
    }

    /// Sends a copy through each interface of a switch but the one that received the packet.
    fn flood(&mut self, node: NodeId, from: IfaceId, slot: Slot) {
        for at in 0..self.at.len() {
            if self.at[at] == node && at != from.index() && !self.not_flooded[at / 2] {
                let copy = self.packets.copy(slot);
                self.send(IfaceId::at(at), copy, from);
            }
        }
        self.packets.take(slot);
    }
}

/// The links between switches outside of a spanning tree of the links that are up: packets that
/// cross the others reach every switch once, as with IEEE 802.1D.
pub(crate) fn off_tree(nodes: &[NodeKind], at: &[NodeId], links: &[Link]) -> Vec<bool> {
    // Towards the representative of each node's tree.
    let mut parents: Vec<usize> = (0..nodes.len()).collect();
    let root = |parents: &[usize], mut node: usize| {
        while parents[node] != node {
            node = parents[node];
        }
        node
    };
    at.chunks_exact(2)
        .zip(links.chunks_exact(2))
        .map(|(ends, directions)| {
            let is_switch = |end: &NodeId| nodes[end.index()] == NodeKind::Switch;
            if !ends.iter().all(is_switch) || !directions[0].up {
                return false;
            }
            let [a, b] = [ends[0], ends[1]].map(|end| root(&parents, end.index()));
            parents[a.max(b)] = a.min(b);
            a == b
        })
        .collect()
}
