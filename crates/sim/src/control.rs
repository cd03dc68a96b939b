//! Explicit rate control in the packet engine: sessions beside any other traffic.
//!
//! Links' machines sit at the nodes where the links start. Control packets cross links one by one,
//! each addressed to the neighbour's interface, so that queues, losses and delays are those of the
//! fabric; what they carry waits in `tickets.rs` meanwhile.
//!
//! ```text
//! controlled flows ─┐ join, leave          ┌→ fabric: a control packet over one link
//! gateways (plain ──┼──→ Control → Plane ──┤
//! flows' routers)  ─┘ ←── rates            └← it has arrived: the next machine's turn
//! ```
//!
//! **What links share.** A link's machine knows sessions alone. Traffic without rate control takes
//! what the queues give it, and a link shared with it is assigned a second time.
//!
//! **Failures.** When routes change, a session whose path changes begins anew over its new path;
//! until it has a new rate its data goes on at the old one, and without a path it pauses. What the
//! links of the old path held of it would stay for ever in most protocols, since the packet that
//! knows what to take back may be lost. Those whose links forget by themselves
//! ([`forgets`]) restart only sessions that moved; with others every link forgets all and
//! every session begins anew, as after the restart of a routing protocol.

mod gateway;
mod plane;
mod route;
mod tickets;

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use base::{Bandwidth, Bytes, Direction, IfaceId, LinkId, NodeId, RandomStream, Ratio, Time};
use fabric::{Packet, Part};
use lab::plan::{Control as Spec, Model, Plan, Traffic};
use ratecontrol::{Measured, Protocol, SessionId};

use crate::app::Given;
use crate::given::Placed;
use crate::net::{Body, Net, mix};
use crate::{Error, Result};
use gateway::Gateways;
use plane::{Build, Plane, Route, Wish};
use route::Places;
pub(crate) use route::capacity;
pub(crate) use tickets::{Ticket, Tickets};

/// Network control (RFC 4594 §3.1): queues that tell classes apart may treat control packets so.
const DSCP: u8 = 48;

/// Whose session it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Owner {
    Flow(u32),
    /// A plain flow's, by its router and the number there.
    Gateway(NodeId, SessionId),
}

/// Where a session goes and what it wants.
#[derive(Clone, Debug)]
struct Wanted {
    owner: Owner,
    /// Where it starts: a host's first interface out, or the router that acts for the host.
    from: From,
    /// The interface that its data is addressed to.
    to: IfaceId,
    /// Tells its packets apart where there are several ways.
    hash: u32,
    demand: Bandwidth,
}

/// Where a session's path begins.
#[derive(Clone, Copy, Debug)]
enum From {
    /// At a flow's sending side.
    Flow(u32),
    /// At a router that forwards.
    Router(NodeId),
}

#[derive(Debug)]
struct Live {
    wanted: Wanted,
    /// `None` while nothing leads there.
    links: Option<Arc<[u32]>>,
}

/// Rate control of a lab.
pub(crate) struct Control {
    spec: Spec,
    plane: Box<dyn Plane>,
    places: Places,
    sessions: BTreeMap<u32, Live>,
    /// The session of each controlled flow that runs.
    flows: BTreeMap<u32, u32>,
    /// Numbers given so far.
    numbered: u32,
    gateways: Gateways,
    /// What each link loses of control packets, once it has carried one.
    dice: BTreeMap<u32, RandomStream>,
    seed: u64,
    /// When links are measured next, and what each had been offered the last time.
    measured_at: Time,
    offered: BTreeMap<u32, u64>,
    /// When the entry among the timers is due.
    armed: Time,
    /// Rates that flows have not heard of: what data may use, `None` to pause.
    news: VecDeque<(u32, Option<Bandwidth>)>,
    /// Control packets that the lab's `loss` took.
    lost: u64,
}

/// Whether links of a protocol forget sessions that no packet tells them of any more.
pub(crate) const fn forgets(protocol: Protocol) -> bool {
    use Protocol::{CobbGouda, Erica, PiqiRcp, Rcp, SlbnEpochs};
    matches!(protocol, SlbnEpochs | CobbGouda | Erica | Rcp | PiqiRcp)
}

fn is_controlled(given: &Given) -> bool {
    matches!(given.spec.traffic, Traffic::Controlled { .. })
}

impl Control {
    /// Rate control as a sorted plan has it; `None` if nothing is under it.
    pub(crate) fn try_new(plan: &Plan, flows: &[Placed]) -> Result<Option<Self>> {
        let Some(spec) = &plan.control else { return Ok(None) };
        if spec.access.is_empty() && !flows.iter().any(|(given, _)| is_controlled(given)) {
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
            measured_at: plane.interval().map_or(Time::MAX, |interval| Time::ZERO + interval),
            plane,
            places: Places::new(plan),
            sessions: BTreeMap::new(),
            flows: BTreeMap::new(),
            numbered: 0,
            gateways: Gateways::try_new(plan, spec, flows)?,
            dice: BTreeMap::new(),
            seed: plan.seed,
            offered: BTreeMap::new(),
            armed: Time::MAX,
            news: VecDeque::new(),
            lost: 0,
            spec: spec.clone(),
        }))
    }

    /// Whether a packet that has come through an interface is to be given to [`Self::transit`].
    pub(crate) fn takes(&self, iface: IfaceId, packet: &Packet<Body>) -> bool {
        let node = self.places.node(iface);
        self.gateways.contains(node) && packet.to.is_some_and(|to| self.places.node(to) != node)
    }

    /// Whether the paths of all controlled flows are such as the protocol can describe.
    pub(crate) fn check(&self, net: &Net, flows: &[Placed]) -> Result<()> {
        for (given, legs) in flows.iter().filter(|(given, _)| is_controlled(given)) {
            let links = self.places.path_of_leg(&net.routes, &legs[0], legs[0].to, given.hash);
            let hops = links.map_or(1, |links| links.len());
            self.plane.check(hops).map_err(|cause| Error::ImpossibleFlow {
                flow: given.name.to_string(),
                why: cause.to_string(),
            })?;
        }
        Ok(())
    }

    /// Bytes that each packet costs on a wire beyond layer 3.
    pub(crate) fn overhead(&self) -> u32 {
        self.places.overhead()
    }

    /// A controlled flow begins; its datagrams have this hash.
    pub(crate) fn join(&mut self, net: &mut Net, flow: u32, hash: u32, demand: Bandwidth) {
        let to = net.legs[flow as usize][0].to;
        let from = From::Flow(flow);
        self.start(net, Wanted { owner: Owner::Flow(flow), from, to, hash, demand });
        self.run(net);
    }

    /// A controlled flow has nothing more to send.
    pub(crate) fn leave(&mut self, net: &mut Net, flow: u32) {
        if let Some(session) = self.flows.remove(&flow) {
            self.sessions.remove(&session);
            self.plane.leave(net.now, session);
            self.run(net);
        }
    }

    /// The next flow with a new rate.
    pub(crate) fn take_news(&mut self) -> Option<(u32, Option<Bandwidth>)> {
        self.news.pop_front()
    }

    /// A control packet has arrived over a link, whole or not.
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
        let dice = self.dice.entry(link).or_insert_with(|| RandomStream::new(seed, &name()));
        let lost = dice.chance(loss);
        self.lost += u64::from(lost);
        lost
    }

    /// A packet has come to a router that acts for hosts: it goes on now or when it may.
    pub(crate) fn transit(&mut self, net: &mut Net, iface: IfaceId, packet: Packet<Body>) {
        let node = self.places.node(iface);
        let Some(route) = self.gateways.take(net, &self.places, node, iface, packet) else {
            return;
        };
        self.attend(net, node, Some(route));
        self.run(net);
    }

    /// The timer went off.
    pub(crate) fn on_timer(&mut self, net: &mut Net) {
        if self.armed != net.now {
            return;
        }
        self.armed = Time::MAX;
        if self.measured_at <= net.now {
            self.measure(net);
        }
        self.plane.on_wake(net.now);
        for node in self.gateways.due(net.now) {
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
            // What it had before a session came says nothing about this interval.
            let Some(before) = self.offered.insert(link, offered) else { continue };
            let arrived = Bytes::new(offered - before);
            self.plane.measure(net.now, link, &Measured { interval, arrived, backlog });
        }
        self.measured_at = net.now + interval;
    }

    /// Directed links have other capacities.
    pub(crate) fn on_capacities(&mut self, net: &mut Net, capacities: &[(u32, Bandwidth)]) {
        for (link, capacity) in capacities {
            self.plane.set_capacity(net.now, *link, *capacity);
            self.run(net);
        }
    }

    /// Routes have changed.
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

    /// Begins a session, or as much of it as there can be without a path. With a path that the
    /// protocol's packets can't describe a plain flow passes as without rate control; a controlled
    /// one, which such a path was found for when a link failed, pauses.
    fn start(&mut self, net: &Net, wanted: Wanted) {
        let session = self.numbered;
        self.numbered += 1;
        let links = self.places.path(net, &wanted);
        match wanted.owner {
            Owner::Flow(flow) => {
                self.flows.insert(flow, session);
                if links.is_none() {
                    self.news.push_back((flow, None));
                }
            }
            Owner::Gateway(node, local) => self.gateways.enter(node, local, session),
        }
        if let Some(links) = &links {
            let short = matches!(wanted.owner, Owner::Gateway(..));
            let route = Route { links: Arc::clone(links), short };
            if self.plane.join(net.now, session, route, wanted.demand).is_err() {
                match wanted.owner {
                    // It waits for another path.
                    Owner::Flow(flow) => self.news.push_back((flow, None)),
                    Owner::Gateway(node, local) => {
                        return self.gateways.refuse(net.now, node, local);
                    }
                }
            }
        }
        self.sessions.insert(session, Live { wanted, links });
    }

    /// Does what a gateway wants done. `to` is where the packet that it has just got goes.
    fn attend(&mut self, net: &mut Net, node: NodeId, to: Option<(IfaceId, u32)>) {
        use ratecontrol::access::Action;
        while let Some(action) = self.gateways.poll(node) {
            match action {
                Action::Join { session, demand, .. } => {
                    // Only a packet that has just come joins.
                    let Some((to, hash)) = to else { continue };
                    let owner = Owner::Gateway(node, session);
                    let from = From::Router(node);
                    self.start(net, Wanted { owner, from, to, hash, demand });
                }
                Action::Change { session, demand } => {
                    if let Some(session) = self.gateways.session(node, session) {
                        if let Some(live) = self.sessions.get_mut(&session) {
                            live.wanted.demand = demand;
                        }
                        self.plane.change(net.now, session, demand);
                    }
                }
                Action::Leave { session } => {
                    if let Some(session) = self.gateways.forget(node, session) {
                        self.sessions.remove(&session);
                        self.plane.leave(net.now, session);
                    }
                }
                Action::Release(packet) => net.fabric.originate(net.now, node, packet),
                // Its host finds out by itself, as with any full queue; the router counts it.
                Action::Drop(_) => {}
            }
        }
    }

    /// Does what the machines want done, and sets the timer.
    fn run(&mut self, net: &mut Net) {
        while let Some(wish) = self.plane.poll() {
            match wish {
                Wish::Cross { link, session, ticket } => self.send(net, link, session, ticket),
                Wish::Rate { session, rate } => {
                    let owner = self.sessions.get(&session).map(|live| live.wanted.owner);
                    match owner {
                        Some(Owner::Flow(flow)) => {
                            let data = self.spec.settings.data_rate(rate);
                            self.news.push_back((flow, Some(data)));
                        }
                        Some(Owner::Gateway(node, local)) => {
                            self.gateways.assigned(net.now, node, local, rate);
                            self.attend(net, node, None);
                        }
                        None => {}
                    }
                }
            }
        }
        let due = [self.plane.next_wake(), self.gateways.next_wake()];
        let due = due.into_iter().flatten().fold(self.measured_at, Time::min);
        if due < self.armed {
            self.armed = due.max(net.now);
            net.arm_control(self.armed);
        }
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

    /// What a reader of the results should know; `plan` is that of [`Self::try_new`].
    pub(crate) fn warnings(&self, plan: &Plan) -> Vec<String> {
        let mut warnings = self.gateways.warnings(plan);
        if self.lost > 0 {
            warnings.push(format!("{} control packets were lost to `loss`", self.lost));
        }
        warnings
    }

    /// Bytes that it takes.
    pub(crate) fn memory(&self) -> u64 {
        let sessions = self.sessions.len() * (size_of::<Live>() + size_of::<Owner>());
        sessions as u64 + self.plane.memory() + self.gateways.memory()
    }
}
