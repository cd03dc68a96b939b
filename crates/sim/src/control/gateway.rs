//! Access routers: those whose [`AccessRouter`] acts for the hosts behind them.
//!
//! The path of a session begins at its router and ends at the last router before the destination,
//! which bounces control packets and answers for its link to the host: hosts know nothing. The
//! host's own link to its router is no part of the path, since nobody could hold its packets back;
//! a flow that it limits uses less than its rate, and its demand follows.

use std::collections::{BTreeMap, BTreeSet};

use base::{Bandwidth, IfaceId, NodeId, Time};
use fabric::Packet;
use lab::plan::{Control as Spec, Plan, Role};
use ratecontrol::SessionId;
use ratecontrol::access::{AccessRouter, Action, Policy, Seen};
use transport::tcp::Flags;

use super::route::Places;
use crate::Result;
use crate::given::Placed;
use crate::net::{Body, Net};

/// Marks flows of datagrams; the others are ends of connections.
const DATAGRAMS: u32 = 1 << 31;

type Router = AccessRouter<u32, Packet<Body>>;

struct Gateway {
    router: Router,
    /// Sessions by the router's own numbers.
    sessions: BTreeMap<SessionId, u32>,
}

/// All access routers of a lab.
pub(super) struct Gateways {
    all: BTreeMap<NodeId, Gateway>,
    /// Flows that are under rate control by themselves, which a router knows by their Joins.
    controlled: BTreeSet<u32>,
}

impl Gateways {
    pub(super) fn try_new(plan: &Plan, spec: &Spec, flows: &[Placed]) -> Result<Self> {
        let mut all = BTreeMap::new();
        for node in spec.access.iter().filter(|node| plan.nodes[node.index()].kind == Role::Router)
        {
            let router = Router::try_new(&spec.settings, Policy::default())?;
            all.insert(*node, Gateway { router, sessions: BTreeMap::new() });
        }
        let controlled = flows.iter().filter(|(given, _)| super::is_controlled(given));
        Ok(Self { all, controlled: controlled.map(|(given, _)| given.flow).collect() })
    }

    pub(super) fn contains(&self, node: NodeId) -> bool {
        !self.all.is_empty() && self.all.contains_key(&node)
    }

    /// A packet has come to a router through `iface`. Gives where it goes and what tells it from
    /// others, if the router has taken it; what needs nothing of it is sent on.
    pub(super) fn take(
        &mut self,
        net: &mut Net,
        places: &Places,
        node: NodeId,
        iface: IfaceId,
        mut packet: Packet<Body>,
    ) -> Option<(IfaceId, u32)> {
        let plain = !self.is_controlled(&packet.body);
        let (gateway, to) = (self.all.get_mut(&node)?, packet.to?);
        // What the lab's routers do with packets that have gone too far.
        packet.ttl = packet.ttl.checked_sub(1).filter(|ttl| *ttl > 0)?;
        let seen = seen(&packet, places.overhead());
        let next = net.routes.next(node, to).first().copied();
        if next.is_some_and(|next| places.serves(next))
            && let Some(back) = key(&packet.body, true)
        {
            gateway.router.returning(net.now, back, seen);
        }
        if places.serves(iface)
            && plain
            && let Some(key) = key(&packet.body, false)
        {
            let hash = packet.flow;
            gateway.router.packet(net.now, key, seen, packet);
            return Some((to, hash));
        }
        net.fabric.originate(net.now, node, packet);
        // A FIN or RST may have ended the session of the other direction.
        Some((to, 0))
    }

    fn is_controlled(&self, body: &Body) -> bool {
        matches!(body, Body::Datagram { flow, .. } if self.controlled.contains(flow))
    }

    pub(super) fn enter(&mut self, node: NodeId, local: SessionId, session: u32) {
        if let Some(gateway) = self.all.get_mut(&node) {
            gateway.sessions.insert(local, session);
        }
    }

    pub(super) fn session(&self, node: NodeId, local: SessionId) -> Option<u32> {
        self.all.get(&node)?.sessions.get(&local).copied()
    }

    pub(super) fn forget(&mut self, node: NodeId, local: SessionId) -> Option<u32> {
        self.all.get_mut(&node)?.sessions.remove(&local)
    }

    pub(super) fn refuse(&mut self, now: Time, node: NodeId, local: SessionId) {
        if let Some(gateway) = self.all.get_mut(&node) {
            gateway.sessions.remove(&local);
            gateway.router.refuse(now, local);
        }
    }

    pub(super) fn assigned(&mut self, now: Time, node: NodeId, local: SessionId, rate: Bandwidth) {
        if let Some(gateway) = self.all.get_mut(&node) {
            gateway.router.assigned(now, local, rate);
        }
    }

    pub(super) fn poll(&mut self, node: NodeId) -> Option<Action<u32, Packet<Body>>> {
        self.all.get_mut(&node)?.router.poll()
    }

    pub(super) fn next_wake(&self) -> Option<Time> {
        self.all.values().filter_map(|gateway| gateway.router.next_wake()).min()
    }

    /// Wakes those whose time has come; whom.
    pub(super) fn due(&mut self, now: Time) -> Vec<NodeId> {
        let due = |gateway: &Gateway| gateway.router.next_wake().is_some_and(|at| at <= now);
        let mut woken = Vec::new();
        for (node, gateway) in self.all.iter_mut().filter(|(_, gateway)| due(gateway)) {
            gateway.router.on_wake(now);
            woken.push(*node);
        }
        woken
    }

    /// What routers did to packets, for a reader of the results.
    pub(super) fn warnings(&self, plan: &Plan) -> Vec<String> {
        let mut warnings = Vec::new();
        for (node, gateway) in &self.all {
            let (name, counters) = (&plan.nodes[node.index()].name, gateway.router.counters());
            if counters.unshaped > 0 {
                warnings.push(format!(
                    "access router `{name}`: {} packets passed unshaped, with more than {} flows \
                     at once",
                    counters.unshaped,
                    Policy::default().flows
                ));
            }
            if counters.dropped > 0 {
                warnings.push(format!(
                    "access router `{name}`: {} packets were dropped at their flow's shaper",
                    counters.dropped
                ));
            }
        }
        warnings
    }

    /// Bytes of records and of packets that wait.
    pub(super) fn memory(&self) -> u64 {
        self.all.values().map(|gateway| gateway.router.memory()).sum()
    }
}

/// What a router reads in a packet.
fn seen(packet: &Packet<Body>, overhead: u32) -> Seen {
    let bytes = packet.last + overhead;
    match &packet.body {
        Body::Segment { segment, .. } => {
            let has = |flag| segment.flags.contains(flag);
            let syn = has(Flags::SYN).then_some(segment.seq);
            Seen { bytes, syn, fin: has(Flags::FIN), rst: has(Flags::RST) }
        }
        _ => Seen { bytes, ..Seen::default() },
    }
}

/// The flow of a packet, or the opposite direction's; control packets have none.
fn key(body: &Body, opposite: bool) -> Option<u32> {
    match body {
        // The body names the receiving end.
        Body::Segment { end, .. } => {
            Some(if opposite { end.number() } else { end.peer().number() })
        }
        Body::Datagram { flow, .. } if !opposite => Some(flow | DATAGRAMS),
        _ => None,
    }
}
