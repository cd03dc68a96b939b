//! The ways of packets, link by link, as hosts and routers choose them.

use std::sync::Arc;

use base::{Bandwidth, IfaceId, NodeId};
use fabric::{LinkConfig, Rate, ecmp};
use lab::plan::{Plan, Role};
use lab::routes::Routes;

use super::{From, Wanted};
use crate::net::{Leg, Net, first_hop};

/// The most that a session can be assigned, which stands for links without a rate too.
const UNLIMITED: Bandwidth = Bandwidth::from_bits_per_sec(ratecontrol::MOST_RATE);

/// What rate control shares of one direction of a link.
pub(crate) fn capacity(config: &LinkConfig) -> Bandwidth {
    let rate = match &config.rate {
        Rate::Constant(rate) => *rate,
        Rate::Trace(trace) => trace.mean().max(Bandwidth::from_bits_per_sec(1)),
        Rate::Unlimited => UNLIMITED,
    };
    rate.min(UNLIMITED)
}

/// Where everything is.
#[derive(Debug)]
pub(super) struct Places {
    /// The node at each interface.
    ifaces: Vec<NodeId>,
    names: Vec<String>,
    /// For each interface: whether it leads to hosts, directly or by a switch of hosts only.
    serves: Vec<bool>,
    overhead: u32,
}

impl Places {
    pub(super) fn new(plan: &Plan) -> Self {
        Self {
            ifaces: plan.ifaces.iter().map(|iface| iface.node).collect(),
            names: plan.links.iter().map(|link| link.name.clone()).collect(),
            serves: (0..plan.ifaces.len()).map(|iface| serves(plan, iface)).collect(),
            overhead: plan.overhead.count() as u32,
        }
    }

    /// Bytes that each packet costs on a wire beyond layer 3.
    pub(super) const fn overhead(&self) -> u32 {
        self.overhead
    }

    pub(super) fn node(&self, iface: IfaceId) -> NodeId {
        self.ifaces[iface.index()]
    }

    /// The node at the other end of an interface's link.
    pub(super) fn peer(&self, iface: IfaceId) -> NodeId {
        self.ifaces[iface.index() ^ 1]
    }

    /// Whether an interface leads to hosts, and packets that come through it have met no router.
    pub(super) fn serves(&self, iface: IfaceId) -> bool {
        self.serves[iface.index()]
    }

    /// A direction's name, which no other has.
    pub(super) fn name(&self, link: u32) -> String {
        let direction = base::Direction::BOTH[link as usize % 2];
        format!("{}/{}", self.names[link as usize / 2], direction.as_str())
    }

    /// The links of a session's path, while there is one.
    pub(super) fn path(&self, net: &Net, wanted: &Wanted) -> Option<Arc<[u32]>> {
        match wanted.from {
            From::Flow(flow) => {
                let leg = &net.legs[flow as usize][0];
                self.path_of_leg(&net.routes, leg, wanted.to, wanted.hash)
            }
            From::Router(node) => self.walk(&net.routes, node, wanted.to, wanted.hash, Vec::new()),
        }
    }

    /// The path from a side of a flow.
    pub(super) fn path_of_leg(
        &self,
        routes: &Routes,
        leg: &Leg,
        to: IfaceId,
        hash: u32,
    ) -> Option<Arc<[u32]>> {
        let (mut links, mut node) = (Vec::new(), leg.node);
        if !leg.router {
            // A host without a route sends into nothing.
            routes.next(leg.node, to).first()?;
            let out = first_hop(routes, leg, hash);
            links.push(out.0);
            node = self.peer(out);
        }
        self.walk(routes, node, to, hash, links)
    }

    fn walk(
        &self,
        routes: &Routes,
        mut node: NodeId,
        to: IfaceId,
        hash: u32,
        mut links: Vec<u32>,
    ) -> Option<Arc<[u32]>> {
        // No path visits a node twice.
        for _ in 0..=self.ifaces.len() {
            if node == self.node(to) {
                return Some(links.into());
            }
            let out = match routes.next(node, to) {
                [] => return None,
                [only] => *only,
                several => several[ecmp(hash, node, several.len())],
            };
            links.push(out.0);
            node = self.peer(out);
        }
        None
    }
}

fn serves(plan: &Plan, iface: usize) -> bool {
    let peer = plan.ifaces[iface ^ 1].node;
    let node = &plan.nodes[peer.index()];
    let is_host = |of: &IfaceId| {
        let beyond = plan.ifaces[of.index() ^ 1].node;
        of.index() == iface ^ 1 || plan.nodes[beyond.index()].kind == Role::Host
    };
    node.kind == Role::Host || (node.kind == Role::Switch && node.ifaces.iter().all(is_host))
}
