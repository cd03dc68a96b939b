//! Access routers: routers whose [`AccessRouter`] manages the sessions of the hosts behind them.
//!
//! The path of a session starts at its access router and ends at the last router before the
//! destination, which returns control packets and acts for its link to the host: hosts take no part
//! in the protocol. The link from the sending host to its router is not on the path, since no
//! router could delay packets before it; a flow that this link limits uses less than its rate, and
//! its demand follows.

use std::collections::{BTreeMap, BTreeSet};

use base::{Bandwidth, IfaceId, NodeId, Time};
use fabric::Packet;
use lab::plan::{Control as Spec, Plan, Role};
use ratecontrol::SessionId;
use ratecontrol::access::{AccessRouter, Action, Policy, Seen};
use transport::tcp::Flags;

use super::route::{Places, is_controlled};
use crate::Result;
use crate::net::{Body, Net};
use crate::parameters::Placed;

/// Flag of datagram flows; other keys are connection ends.
const DATAGRAMS: u32 = 1 << 31;

type Router = AccessRouter<u32, Packet<Body>>;

struct Access {
    router: Router,
    /// Sessions by the router's numbers.
    sessions: BTreeMap<SessionId, u32>,
}

pub(super) struct AccessRouters {
    all: BTreeMap<NodeId, Access>,
    /// Controlled flows, which send their own Joins; routers do not manage them.
    controlled: BTreeSet<u32>,
}

impl AccessRouters {
    pub(super) fn try_new(plan: &Plan, spec: &Spec, flows: &[Placed]) -> Result<Self> {
        let mut all = BTreeMap::new();
        for node in spec.access.iter().filter(|node| plan.nodes[node.index()].kind == Role::Router)
        {
            let router = Router::try_new(&spec.settings, Policy::default())?;
            all.insert(*node, Access { router, sessions: BTreeMap::new() });
        }
        let controlled = flows.iter().filter(|(parameters, _)| is_controlled(parameters));
        Ok(Self { all, controlled: controlled.map(|(parameters, _)| parameters.flow).collect() })
    }

    pub(super) fn contains(&self, node: NodeId) -> bool {
        !self.all.is_empty() && self.all.contains_key(&node)
    }

    /// Handles a packet that an access router receives through `iface`: takes a plain flow's packet
    /// from a host, and forwards any other packet. Returns the destination of the packet and, if it
    /// was taken, its ECMP hash (otherwise 0).
    pub(super) fn take(
        &mut self,
        net: &mut Net,
        places: &Places,
        node: NodeId,
        iface: IfaceId,
        mut packet: Packet<Body>,
    ) -> Option<(IfaceId, u32)> {
        let plain = !self.is_controlled(&packet.body);
        let (access, to) = (self.all.get_mut(&node)?, packet.to?);
        // Routers drop packets whose TTL expires.
        packet.ttl = packet.ttl.checked_sub(1).filter(|ttl| *ttl > 0)?;
        let seen = seen(&packet, places.overhead());
        let next = net.routes.next(node, to).first().copied();
        if next.is_some_and(|next| places.serves(next))
            && let Some(back) = key(&packet.body, true)
        {
            access.router.returning(net.now, back, seen);
        }
        if places.serves(iface)
            && plain
            && let Some(key) = key(&packet.body, false)
        {
            let hash = packet.flow;
            access.router.packet(net.now, key, seen, packet);
            return Some((to, hash));
        }
        net.fabric.originate(net.now, node, packet);
        // A FIN or RST may have ended the session of the opposite direction.
        Some((to, 0))
    }

    fn is_controlled(&self, body: &Body) -> bool {
        matches!(body, Body::Datagram { flow, .. } if self.controlled.contains(flow))
    }

    pub(super) fn enter(&mut self, node: NodeId, local: SessionId, session: u32) {
        if let Some(access) = self.all.get_mut(&node) {
            access.sessions.insert(local, session);
        }
    }

    pub(super) fn session(&self, node: NodeId, local: SessionId) -> Option<u32> {
        self.all.get(&node)?.sessions.get(&local).copied()
    }

    pub(super) fn forget(&mut self, node: NodeId, local: SessionId) -> Option<u32> {
        self.all.get_mut(&node)?.sessions.remove(&local)
    }

    pub(super) fn refuse(&mut self, now: Time, node: NodeId, local: SessionId) {
        if let Some(access) = self.all.get_mut(&node) {
            access.sessions.remove(&local);
            access.router.refuse(now, local);
        }
    }

    pub(super) fn assigned(&mut self, now: Time, node: NodeId, local: SessionId, rate: Bandwidth) {
        if let Some(access) = self.all.get_mut(&node) {
            access.router.assigned(now, local, rate);
        }
    }

    pub(super) fn poll(&mut self, node: NodeId) -> Option<Action<u32, Packet<Body>>> {
        self.all.get_mut(&node)?.router.poll()
    }

    pub(super) fn next_wake(&self) -> Option<Time> {
        self.all.values().filter_map(|access| access.router.next_wake()).min()
    }

    /// Wakes the routers with expired deadlines and returns them.
    pub(super) fn due(&mut self, now: Time) -> Vec<NodeId> {
        let due = |access: &Access| access.router.next_wake().is_some_and(|at| at <= now);
        let mut woken = Vec::new();
        for (node, access) in self.all.iter_mut().filter(|(_, access)| due(access)) {
            access.router.on_wake(now);
            woken.push(*node);
        }
        woken
    }

    /// Warnings for the results about packets that routers dropped or passed unshaped.
    pub(super) fn warnings(&self, plan: &Plan) -> Vec<String> {
        let mut warnings = Vec::new();
        for (node, access) in &self.all {
            let (name, counters) = (&plan.nodes[node.index()].name, access.router.counters());
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

    /// Memory in bytes of session records and queued packets.
    pub(super) fn memory(&self) -> u64 {
        self.all.values().map(|access| access.router.memory()).sum()
    }
}

/// The header fields that an access router reads.
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

/// The flow key of a packet, or that of the opposite direction; control packets have none.
fn key(body: &Body, opposite: bool) -> Option<u32> {
    match body {
        // The body contains the receiving end.
        Body::Segment { end, .. } => {
            Some(if opposite { end.number() } else { end.peer().number() })
        }
        Body::Datagram { flow, .. } if !opposite => Some(flow | DATAGRAMS),
        _ => None,
    }
}
