//! Paths of packets, link by link, as hosts and routers choose them.

use std::sync::Arc;

use base::{Bandwidth, IfaceId, NodeId};
use fabric::{LinkConfig, Rate, ecmp};
use lab::plan::{Plan, Role, Traffic};
use lab::routes::Routes;
use ratecontrol::SessionId;

use crate::app::FlowParameters;
use crate::net::{Leg, Net, first_hop};

/// The maximum rate of a session; also the capacity of links without a rate.
const UNLIMITED: Bandwidth = Bandwidth::from_bits_per_sec(ratecontrol::MAX_RATE);

/// The capacity that rate control shares on one direction of a link.
pub(crate) fn capacity(config: &LinkConfig) -> Bandwidth {
    let rate = match &config.rate {
        Rate::Constant(rate) => *rate,
        Rate::Trace(trace) => trace.mean().max(Bandwidth::from_bits_per_sec(1)),
        Rate::Unlimited => UNLIMITED,
    };
    rate.min(UNLIMITED)
}

/// The flow that a session belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Owner {
    Flow(u32),
    /// A plain flow, by its access router and the session number there.
    AccessRouter(NodeId, SessionId),
}

/// A session's ends and demand.
#[derive(Clone, Debug)]
pub(super) struct Wanted {
    pub(super) owner: Owner,
    /// Start of the path: a host's egress interface, or the access router of the host.
    pub(super) from: Origin,
    /// The destination interface of its data.
    pub(super) to: IfaceId,
    /// ECMP hash of its packets.
    pub(super) hash: u32,
    pub(super) demand: Bandwidth,
}

#[derive(Clone, Copy, Debug)]
pub(super) enum Origin {
    /// The sending side of a flow.
    Flow(u32),
    /// A router that forwards.
    Router(NodeId),
}

/// Whether a flow is itself under rate control.
pub(super) fn is_controlled(parameters: &FlowParameters) -> bool {
    matches!(parameters.spec.traffic, Traffic::Controlled { .. })
}

/// Nodes and interfaces of the network.
#[derive(Debug)]
pub(super) struct Places {
    ifaces: Vec<NodeId>,
    names: Vec<String>,
    /// For each interface: whether it leads to hosts, directly or through a switch with hosts only.
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

    /// Bytes on the wire per packet, beyond layer 3.
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

    /// Whether an interface leads to hosts, so that packets received through it have
    /// passed no router.
    pub(super) fn serves(&self, iface: IfaceId) -> bool {
        self.serves[iface.index()]
    }

    /// The unique name of a directed link.
    pub(super) fn name(&self, link: u32) -> String {
        let direction = base::Direction::BOTH[link as usize % 2];
        format!("{}/{}", self.names[link as usize / 2], direction.as_str())
    }

    /// The links of a session's path, if there is one.
    pub(super) fn path(&self, net: &Net, wanted: &Wanted) -> Option<Arc<[u32]>> {
        match wanted.from {
            Origin::Flow(flow) => {
                let leg = &net.legs[flow as usize][0];
                self.path_of_leg(&net.routes, leg, wanted.to, wanted.hash)
            }
            Origin::Router(node) => {
                self.walk(&net.routes, node, wanted.to, wanted.hash, Vec::new())
            }
        }
    }

    /// The path from one side of a flow.
    pub(super) fn path_of_leg(
        &self,
        routes: &Routes,
        leg: &Leg,
        to: IfaceId,
        hash: u32,
    ) -> Option<Arc<[u32]>> {
        let (mut links, mut node) = (Vec::new(), leg.node);
        if !leg.router {
            // A host without a route drops its packets.
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
