//! Explicit rate control in the packet engine, on networks with other traffic too.
//!
//! The state machine of a link is at the node where the link starts. Control packets cross links
//! one by one, each addressed to the neighbour's interface, so that the fabric's queues, losses and
//! delays apply; `crate::tickets` stores their contents meanwhile.
//!
//! ```text
//! controlled flows ─┐ join, leave          ┌→ fabric: a control packet over one link
//! access routers  ──┼──→ Control → Plane ──┤
//! (plain flows)    ─┘ ←── rates            └← it has arrived: the next machine's turn
//! ```
//!
//! **Sharing.** A link's state machine accounts for sessions only. Other traffic gets the capacity
//! that the queues give it, and rate control assigns this capacity a second time.
//!
//! **Failures.** After a change of routes, a session whose path changes joins again over its new
//! path; it sends at the old rate until it has a new one, and pauses while it has no path. In most
//! protocols, links of the old path would keep the session's state for ever, since the packet that
//! could release it may be lost. With protocols whose links expire state ([`forgets`]) only
//! sessions with a changed path restart; with the others all links are reset and every session
//! joins again, as after the restart of a routing protocol.

mod access;
mod plane;
mod route;

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use base::{Bandwidth, Bytes, Direction, IfaceId, LinkId, NodeId, RandomStream, Ratio, Time};
use fabric::{Packet, Part};
use lab::plan::{Control as Spec, Model, Plan};
use ratecontrol::{Measured, Protocol};

use crate::net::{Body, Net, SessionRequest, mix};
use crate::parameters::Placed;
use crate::tickets::Ticket;
use crate::{Error, Result};
use access::AccessRouters;
use plane::{Build, NetworkRequest, Plane, Route};
pub(crate) use route::capacity;
use route::{Origin, Owner, Places, Wanted, is_controlled};

/// Network control (RFC 4594 §3.1); queues with traffic classes may prioritise control packets.
const DSCP: u8 = 48;

#[derive(Debug)]
struct Live {
    wanted: Wanted,
    /// The links of the session's path; `None` without a route.
    links: Option<Arc<[u32]>>,
}

pub(crate) struct Control {
    spec: Spec,
    plane: Box<dyn Plane>,
    places: Places,
    sessions: BTreeMap<u32, Live>,
    /// The session of each active controlled flow.
    flows: BTreeMap<u32, u32>,
    /// Number of sessions so far; the next session gets this number.
    numbered: u32,
    access: AccessRouters,
    /// Random streams for the losses of control packets, for each link that has carried one.
    losses: BTreeMap<u32, RandomStream>,
    seed: u64,
    /// Next measurement of the links; `None` if the protocol does not measure.
    measured_at: Option<Time>,
    /// Bytes offered to each link up to the last measurement.
    offered: BTreeMap<u32, u64>,
    /// Deadline of the timer entry.
    armed: Option<Time>,
    /// New data rates of flows, `None` to pause.
    rates: VecDeque<(u32, Option<Bandwidth>)>,
    /// Control packets dropped by the lab's `loss`.
    lost: u64,
}

/// Whether links of a protocol expire sessions without control packets.
pub(crate) const fn forgets(protocol: Protocol) -> bool {
    use Protocol::{CobbGouda, Erica, PiqiRcp, Rcp, SlbnEpochs};
    matches!(protocol, SlbnEpochs | CobbGouda | Erica | Rcp | PiqiRcp)
}

impl Control {
    /// Rate control of a sorted plan; `None` if the plan has none.
    pub(crate) fn try_new(plan: &Plan, flows: &[Placed]) -> Result<Option<Self>> {
        let Some(spec) = &plan.control else { return Ok(None) };
        if spec.access.is_empty() && !flows.iter().any(|(parameters, _)| is_controlled(parameters))
        {
            return Ok(None);
        }
        if plan.model != Model::Hop {
            return Err(Error::Sessions {
                why: "control packets wait in queues, which only `model = \"hop\"` has".to_owned(),
            });
        }
        let capacities = plan.links.iter().flat_map(|link| link.directions.iter().map(capacity));
        let build = Build { settings: &spec.settings, capacities: capacities.collect() };
        let plane = spec.protocol.run(build)?;
        Ok(Some(Self {
            measured_at: plane.interval().map(|interval| Time::ZERO + interval),
            plane,
            places: Places::new(plan),
            sessions: BTreeMap::new(),
            flows: BTreeMap::new(),
            numbered: 0,
            access: AccessRouters::try_new(plan, spec, flows)?,
            losses: BTreeMap::new(),
            seed: plan.seed,
            offered: BTreeMap::new(),
            armed: None,
            rates: VecDeque::new(),
            lost: 0,
            spec: spec.clone(),
        }))
    }

    /// Whether a packet received through an interface must be passed to [`Self::transit`].
    pub(crate) fn takes(&self, iface: IfaceId, packet: &Packet<Body>) -> bool {
        let node = self.places.node(iface);
        self.access.contains(node) && packet.to.is_some_and(|to| self.places.node(to) != node)
    }

    /// Checks that the protocol can encode the paths of all controlled flows.
    pub(crate) fn check(&self, net: &Net, flows: &[Placed]) -> Result<()> {
        for (parameters, legs) in flows.iter().filter(|(parameters, _)| is_controlled(parameters)) {
            let links = self.places.path_of_leg(&net.routes, &legs[0], legs[0].to, parameters.hash);
            let hops = links.map_or(1, |links| links.len());
            self.plane.check(hops).map_err(|cause| Error::ImpossibleFlow {
                flow: parameters.name.to_string(),
                why: cause.to_string(),
            })?;
        }
        Ok(())
    }

    /// Bytes on the wire per packet, beyond layer 3.
    pub(crate) fn overhead(&self) -> u32 {
        self.places.overhead()
    }

    /// Handles a request of a controlled flow.
    pub(crate) fn on_request(&mut self, net: &mut Net, request: SessionRequest) {
        match request {
            SessionRequest::Join { flow, hash, demand } => self.join(net, flow, hash, demand),
            SessionRequest::Leave { flow } => self.leave(net, flow),
        }
    }

    /// Starts the session of a controlled flow; its datagrams have this hash.
    fn join(&mut self, net: &mut Net, flow: u32, hash: u32, demand: Bandwidth) {
        let to = net.legs[flow as usize][0].to;
        let from = Origin::Flow(flow);
        self.start(net, Wanted { owner: Owner::Flow(flow), from, to, hash, demand });
        self.run(net);
    }

    /// Ends the session of a controlled flow.
    fn leave(&mut self, net: &mut Net, flow: u32) {
        if let Some(session) = self.flows.remove(&flow) {
            self.sessions.remove(&session);
            self.plane.leave(net.now, session);
            self.run(net);
        }
    }

    /// The next flow with a new rate.
    pub(crate) fn take_rate(&mut self) -> Option<(u32, Option<Bandwidth>)> {
        self.rates.pop_front()
    }

    /// Handles a control packet that has crossed a link; it may be corrupt.
    pub(crate) fn arrived(&mut self, net: &mut Net, packet: &Packet<Body>, ticket: Ticket) {
        let link = packet.to.map_or(0, |to| to.0 ^ 1);
        let lost = self.spec.loss.is_positive() && self.loses(link);
        if packet.corrupt.is_none() && !lost {
            self.plane.crossed(net.now, ticket);
            self.run(net);
        }
    }

    fn loses(&mut self, link: u32) -> bool {
        let (seed, loss): (u64, Ratio) = (self.seed, self.spec.loss);
        let name = || format!("control/{}/loss", self.places.name(link));
        let random = self.losses.entry(link).or_insert_with(|| RandomStream::new(seed, &name()));
        let lost = random.chance(loss);
        self.lost += u64::from(lost);
        lost
    }

    /// Handles a packet at an access router, which forwards it now or later.
    pub(crate) fn transit(&mut self, net: &mut Net, iface: IfaceId, packet: Packet<Body>) {
        let node = self.places.node(iface);
        let Some(route) = self.access.take(net, &self.places, node, iface, packet) else {
            return;
        };
        self.attend(net, node, Some(route));
        self.run(net);
    }

    pub(crate) fn on_timer(&mut self, net: &mut Net) {
        if self.armed != Some(net.now) {
            return;
        }
        self.armed = None;
        if self.measured_at.is_some_and(|at| at <= net.now) {
            self.measure(net);
        }
        self.plane.on_wake(net.now);
        for node in self.access.due(net.now) {
            self.attend(net, node, None);
        }
        self.run(net);
    }

    fn measure(&mut self, net: &mut Net) {
        let Some(interval) = self.plane.interval() else { return };
        for link in self.plane.links() {
            let (id, direction) = (LinkId(link / 2), Direction::BOTH[link as usize % 2]);
            let offered = net.fabric.stats(id, direction).offered_bytes;
            let backlog = Bytes::new(net.fabric.queue_level(id, direction).bytes);
            // Bytes before the first session are not part of this interval.
            let Some(before) = self.offered.insert(link, offered) else { continue };
            let arrived = Bytes::new(offered - before);
            self.plane.measure(net.now, link, &Measured { interval, arrived, backlog });
        }
        self.measured_at = Some(net.now + interval);
    }

    /// Updates the capacities of directed links.
    pub(crate) fn on_capacities(&mut self, net: &mut Net, capacities: &[(u32, Bandwidth)]) {
        for (link, capacity) in capacities {
            self.plane.set_capacity(net.now, *link, *capacity);
            self.run(net);
        }
    }

    pub(crate) fn reroute(&mut self, net: &mut Net) {
        let moved: Vec<u32> = self
            .sessions
            .iter()
            .filter(|(_, live)| self.places.path(net, &live.wanted) != live.links)
            .map(|(session, _)| *session)
            .collect();
        if moved.is_empty() {
            return;
        }
        let anew: Vec<u32> = if forgets(self.spec.protocol) {
            moved
        } else {
            self.plane.reset();
            self.sessions.keys().copied().collect()
        };
        for session in anew {
            self.plane.abandon(session);
            if let Some(live) = self.sessions.remove(&session) {
                self.start(net, live.wanted);
            }
        }
        self.run(net);
    }

    /// Starts a session, or registers it without a path. If the protocol cannot encode the path, a
    /// plain flow passes without rate control, and a controlled flow, which can get such a path
    /// after a link failure, pauses.
    fn start(&mut self, net: &Net, wanted: Wanted) {
        let session = self.numbered;
        self.numbered += 1;
        let links = self.places.path(net, &wanted);
        match wanted.owner {
            Owner::Flow(flow) => {
                self.flows.insert(flow, session);
                if links.is_none() {
                    self.rates.push_back((flow, None));
                }
            }
            Owner::AccessRouter(node, local) => self.access.enter(node, local, session),
        }
        if let Some(links) = &links {
            let short = matches!(wanted.owner, Owner::AccessRouter(..));
            let route = Route { links: Arc::clone(links), short };
            if self.plane.join(net.now, session, route, wanted.demand).is_err() {
                match wanted.owner {
                    // The flow pauses until it has another path.
                    Owner::Flow(flow) => self.rates.push_back((flow, None)),
                    Owner::AccessRouter(node, local) => {
                        return self.access.refuse(net.now, node, local);
                    }
                }
            }
        }
        self.sessions.insert(session, Live { wanted, links });
    }

    /// Carries out the actions of an access router. `to` is the destination and ECMP hash of the
    /// received packet, if there is one.
    fn attend(&mut self, net: &mut Net, node: NodeId, to: Option<(IfaceId, u32)>) {
        use ratecontrol::access::Action;
        while let Some(action) = self.access.poll(node) {
            match action {
                Action::Join { session, demand, .. } => {
                    // Only the received packet can start a session.
                    let Some((to, hash)) = to else { continue };
                    let owner = Owner::AccessRouter(node, session);
                    let from = Origin::Router(node);
                    self.start(net, Wanted { owner, from, to, hash, demand });
                }
                Action::Change { session, demand } => {
                    if let Some(session) = self.access.session(node, session) {
                        if let Some(live) = self.sessions.get_mut(&session) {
                            live.wanted.demand = demand;
                        }
                        self.plane.change(net.now, session, demand);
                    }
                }
                Action::Leave { session } => {
                    if let Some(session) = self.access.forget(node, session) {
                        self.sessions.remove(&session);
                        self.plane.leave(net.now, session);
                    }
                }
                Action::Release(packet) => net.fabric.originate(net.now, node, packet),
                // The sender detects the loss, as with any full queue; the router counts it.
                Action::Drop(_) => {}
            }
        }
    }

    /// Carries out the actions of sources and links, and sets the timer.
    fn run(&mut self, net: &mut Net) {
        while let Some(wish) = self.plane.poll() {
            match wish {
                NetworkRequest::Cross { link, session, ticket } => {
                    self.send(net, link, session, ticket);
                }
                NetworkRequest::Rate { session, rate } => {
                    let owner = self.sessions.get(&session).map(|live| live.wanted.owner);
                    match owner {
                        Some(Owner::Flow(flow)) => {
                            let data = self.spec.settings.data_rate(rate);
                            self.rates.push_back((flow, Some(data)));
                        }
                        Some(Owner::AccessRouter(node, local)) => {
                            self.access.assigned(net.now, node, local, rate);
                            self.attend(net, node, None);
                        }
                        None => {}
                    }
                }
            }
        }
        if let Some(wake) = self.next_wake()
            && self.armed.is_none_or(|armed| wake < armed)
        {
            let wake = wake.max(net.now);
            self.armed = Some(wake);
            net.arm_control(wake);
        }
    }

    fn next_wake(&self) -> Option<Time> {
        let wakes = [self.plane.next_wake(), self.access.next_wake(), self.measured_at];
        wakes.into_iter().flatten().min()
    }

    /// Sends a control packet over one link.
    fn send(&self, net: &mut Net, link: u32, session: u32, ticket: Ticket) {
        let size = self.spec.settings.packet.count() as u32;
        let bytes = size.saturating_sub(self.places.overhead()).max(1);
        let packet = Packet {
            body: Body::Control { ticket },
            first: 0,
            count: 1,
            to: Some(IfaceId(link ^ 1)),
            link_scope: false,
            flow: mix(session, self.seed as u32),
            segment: bytes,
            last: bytes,
            ttl: 1,
            dscp: DSCP,
            ecn: fabric::Ecn::NotCapable,
            corrupt: None,
            mirrors: 0,
            part: Part::Datagram,
            tag: 0,
            entered: net.now,
        };
        net.fabric.inject(net.now, IfaceId(link), packet);
    }

    /// Warnings for the results; `plan` is that of [`Self::try_new`].
    pub(crate) fn warnings(&self, plan: &Plan) -> Vec<String> {
        let mut warnings = self.access.warnings(plan);
        if self.lost > 0 {
            warnings.push(format!("{} control packets were lost to `loss`", self.lost));
        }
        warnings
    }

    pub(crate) fn memory(&self) -> u64 {
        let sessions = self.sessions.len() * (size_of::<Live>() + size_of::<Owner>());
        sessions as u64 + self.plane.memory() + self.access.memory()
    }
}
