//! The collapsed model: each flow crosses its whole path at once, over a private link with the
//! path's delay and loss, at the flow's present share.
//!
//! The model detects flows from their packets; crate `sharing` computes their
//! shares, from [`Notice`]s only.
//!
//! [`Fabric`] and this module refer to each other: the model replaces forwarding inside the same
//! state machine and shares its links, queue and clock.
//
//= SplayNet §3.3: link emulation, decentralised congestion emulation

mod account;
mod demand;
mod members;
mod path;
mod tunnel;

use std::collections::{BTreeMap, HashMap};

use base::{Bandwidth, Direction, IfaceId, LinkId, NodeId, Span, Time};
use queue::{DropReason, Slot};
use sharing::{FlowName, FlowTable, LinkKey, Notice, Path, Sharing, SharingPolicy};

pub use account::Share;
pub use members::Announced;
use members::Foreign;
use path::{End, Key, Reach, Route, Topology, constant};
use tunnel::{PERIOD, Tunnel};

use crate::config::{Collapsed, LinkConfig, QueueLimit, Rate};
use crate::link::Link;
use crate::network::{Fabric, What};
use crate::packet::{Packet, Part};
use crate::stats::QueueLevel;
use crate::{Forwarding, NodeKind};

/// Stands for the event at the end of a period.
pub(crate) const TICK: u32 = u32::MAX;

/// State of the collapsed model, in addition to the links.
pub(crate) struct State {
    law: Collapsed,
    /// Number of directions of the network's own links; those of tunnels follow.
    own: usize,
    overhead: u32,
    seed: u64,
    table: FlowTable,
    /// Tunnels by index; the link of a tunnel is at `own` + index.
    tunnels: Vec<Tunnel>,
    free: Vec<u32>,
    by_key: HashMap<Key, u32>,
    by_name: HashMap<FlowName, u32>,
    names: u32,
    /// Number of this fabric among the senders of its lab.
    sender: u32,
    /// Notices not yet sent to the other senders; `None` without other senders.
    announced: Option<Vec<Announced>>,
    /// Flows of other senders.
    foreign: BTreeMap<FlowName, Foreign>,
    /// Lead times of packets, by destination interface: they are delivered this long
    /// before they are due.
    leads: Vec<Span>,
    /// Number of changes of links or routes.
    changes: u64,
    /// End of the period, while there are tunnels.
    tick: Option<Time>,
    /// Number of computations of shares.
    solved: u64,
    /// Time up to which the network's links have counted the packets in tunnels.
    accounted: Option<Time>,
    /// Queue levels of the network's link directions.
    levels: Vec<QueueLevel>,
}

impl State {
    pub(crate) fn new(law: Collapsed, links: &[Link], overhead: u32, seed: u64) -> Self {
        let capacity = |link: &Link| {
            if link.up { constant(&link.config) } else { Some(Bandwidth::from_bits_per_sec(0)) }
        };
        let sharing = SharingPolicy { sharing: law.sharing, window: law.window };
        Self {
            law,
            own: links.len(),
            overhead,
            seed,
            table: FlowTable::new(sharing, links.iter().map(capacity)),
            tunnels: Vec::new(),
            free: Vec::new(),
            by_key: HashMap::new(),
            by_name: HashMap::new(),
            names: 0,
            sender: 0,
            announced: None,
            foreign: BTreeMap::new(),
            leads: Vec::new(),
            changes: 0,
            tick: None,
            solved: 0,
            accounted: None,
            levels: vec![QueueLevel::default(); links.len()],
        }
    }
}

impl<B: Clone + 'static> Fabric<B> {
    /// Calls `act` with the fabric and the model's state.
    fn collapsed<R>(&mut self, act: impl FnOnce(&mut Self, &mut State) -> R) -> Option<R> {
        let mut state = self.collapsed.take()?;
        let result = act(self, &mut state);
        self.collapsed = Some(state);
        Some(result)
    }

    /// Sends a packet from the interface `first` of a node that has a kernel or has created the
    /// packet itself.
    pub(crate) fn depart(&mut self, first: IfaceId, slot: Slot) {
        self.collapsed(|fabric, state| state.depart(fabric, first, slot));
    }

    pub(crate) fn end_period(&mut self) {
        self.collapsed(|fabric, state| state.end_period(fabric));
    }

    /// Handles the deadline of the link at `index`, which stands for a path.
    pub(crate) fn wake_tunnel(&mut self, index: usize) {
        self.collapsed(|fabric, state| {
            while let Some((due, slot)) = fabric.links[index].arrive(fabric.now, &fabric.packets) {
                state.arrive(fabric, index, due, slot);
            }
            state.look(fabric, index - state.own);
            fabric.reschedule(index);
        });
    }

    /// Handles a change of the properties or the state of a link.
    pub(crate) fn reconfigure(&mut self, link: LinkId) {
        self.collapsed(|fabric, state| {
            for direction in Direction::BOTH {
                let iface = IfaceId::at(link.index() * 2 + direction.index());
                let capacity = topology(fabric).capacity(iface);
                state.table.set_capacity(LinkKey(iface.0), capacity);
            }
            for at in 0..state.tunnels.len() {
                let tunnel = &state.tunnels[at];
                // The return route may differ; it is part of the RTT.
                let stale = || {
                    let topology = topology(fabric);
                    Topology::crosses(&tunnel.route, link)
                        || topology.round_trip(&tunnel.route, tunnel.key.hash) != tunnel.round_trip
                };
                if tunnel.alive && stale() {
                    state.account_one(fabric, at);
                    state.fit(fabric, at);
                }
            }
            state.reroute_foreign(&topology(fabric));
            state.solve(fabric);
        });
    }

    /// Handles a change of the routes.
    pub(crate) fn reroute(&mut self) {
        self.collapsed(|fabric, state| {
            for at in 0..state.tunnels.len() {
                let tunnel = &state.tunnels[at];
                if tunnel.alive {
                    let (topology, hash) = (topology(fabric), tunnel.key.hash);
                    let route = topology.route_of(&tunnel.key);
                    if route != tunnel.route
                        || topology.round_trip(&route, hash) != tunnel.round_trip
                    {
                        state.account_one(fabric, at);
                        state.tunnels[at].route = route;
                        state.fit(fabric, at);
                    }
                }
            }
            state.reroute_foreign(&topology(fabric));
            state.solve(fabric);
        });
    }
}

/// The network of the paths.
fn topology<B>(fabric: &Fabric<B>) -> Topology<'_> {
    let forwarding: &dyn Forwarding = &*fabric.forwarding;
    Topology { nodes: &fabric.nodes, at: &fabric.at, links: &fabric.links, forwarding }
}

impl State {
    fn depart<B: Clone + 'static>(&mut self, fabric: &mut Fabric<B>, first: IfaceId, slot: Slot) {
        if fabric.links[first.index()].watched {
            let copy = fabric.packets.copy(slot);
            fabric.put_out(copy, What::Seen { iface: first, sent: true });
        }
        let packet = fabric.packets.get(slot);
        let key =
            Key { from: first, to: packet.routed_to(), hash: packet.flow, reach: Reach::Whole };
        let (ttl, part, size) = (packet.ttl, packet.part, packet.largest());
        let mut at = self.tunnel(fabric, key, part);
        let tunnel = &self.tunnels[at];
        let mtu = fabric.links[self.own + at].mtu;
        if ttl <= tunnel.route.routers {
            at = self.tunnel(fabric, Key { reach: Reach::Router(ttl.max(1)), ..key }, part);
        } else if mtu > 0 && size > mtu {
            let (topology, route) = (topology(fabric), &tunnel.route);
            let blocked = topology.blocked(route, size).unwrap_or(0);
            let link = route.hops[blocked].index();
            if blocked == 0 || !topology.leads_to_router(route, blocked - 1) {
                fabric.links[link].verdicts.dropped.push((slot, DropReason::TooBig));
                fabric.account(link);
                return;
            }
            let reach = Reach::Mtu(fabric.links[link].mtu);
            at = self.tunnel(fabric, Key { reach, ..key }, part);
        }
        let tunnel = &mut self.tunnels[at];
        let packet = fabric.packets.get_mut(slot);
        packet.ttl -= tunnel.route.routers.min(packet.ttl);
        tunnel.last = fabric.now;
        self.accounted = None;
        if self.starts(at, part) {
            self.start(fabric, at, None);
        }
        let index = self.own + at;
        fabric.links[index].enqueue(fabric.now, slot, &mut fabric.packets);
        self.heed(fabric, at, part);
        fabric.reschedule(index);
    }

    /// The index of a tunnel, which is created if it does not exist.
    fn tunnel<B: Clone + 'static>(
        &mut self,
        fabric: &mut Fabric<B>,
        key: Key,
        part: Part,
    ) -> usize {
        if let Some(at) = self.by_key.get(&key) {
            return *at as usize;
        }
        let route = topology(fabric).route_of(&key);
        let tunnel = Tunnel::new(key, route, part != Part::Datagram, fabric.now);
        // The random streams are the flow's own, so that they do not depend on other flows. The
        // time in the name gives a flow that returns other random numbers.
        let to = key.to.map_or(u32::MAX, |to| to.0);
        let (from, made) = (key.from.0, tunnel.made.as_nanos());
        let name = format!("path/{from}/{to}/{:08x}/{:?}/{made}", key.hash, key.reach);
        let config = LinkConfig::default();
        let link = Link::new(key.from, &name, config, self.overhead, self.seed);
        let at = if let Some(at) = self.free.pop() {
            self.tunnels[at as usize] = tunnel;
            fabric.links[self.own + at as usize] = link;
            at as usize
        } else {
            self.tunnels.push(tunnel);
            fabric.links.push(link);
            self.tunnels.len() - 1
        };
        self.by_key.insert(key, at as u32);
        self.fit(fabric, at);
        if self.tick.is_none() {
            self.schedule_tick(fabric);
        }
        at
    }

    /// Updates a tunnel and its link after a change of its route.
    fn fit<B: Clone + 'static>(&mut self, fabric: &mut Fabric<B>, at: usize) {
        let (own, now) = (self.own, fabric.now);
        let lead = self.lead(&self.tunnels[at]);
        let tunnel = &mut self.tunnels[at];
        let topology = topology(fabric);
        let joined = topology.join(&tunnel.route);
        tunnel.narrowest = joined.narrowest;
        tunnel.capacity = constant(&joined.config);
        tunnel.round_trip = topology.round_trip(&tunnel.route, tunnel.key.hash);
        tunnel.queue_time = topology.queue_time(&tunnel.route, joined.narrowest, self.overhead);
        let mtu = joined.config.mtu.count() as u32;
        tunnel.full_packet = self.overhead + if mtu > 0 { mtu } else { 1500 };
        let seen = tunnel.route.hops.iter().enumerate().flat_map(|(hop, iface)| {
            let far = IfaceId::at(iface.index() ^ 1);
            [(hop > 0).then_some((*iface, true)), Some((far, false))].into_iter().flatten()
        });
        tunnel.watched = seen.filter(|(iface, _)| fabric.links[iface.index()].watched).collect();
        // Drops are reported where the queue is modelled, or else at a watched interface.
        let narrow = [tunnel.route.hops[joined.narrowest]];
        let mut candidates = narrow.iter().chain(&*tunnel.route.hops);
        let reported = candidates.find(|iface| fabric.links[iface.index()].watched).copied();
        let is_prompt = reported.is_some_and(|iface| fabric.links[iface.index()].is_prompt);
        let link = &mut fabric.links[own + at];
        (link.watched, link.is_prompt) = (reported.is_some(), is_prompt);
        link.from = reported.unwrap_or(tunnel.key.from);
        link.mirrors = joined.mirrors;
        link.observed = link.reports_at_once();
        if link.up && !joined.up {
            link.take_down(now, &mut fabric.packets);
        }
        link.up = joined.up;
        link.lead = lead;
        let mut config = joined.config;
        if let Rate::Trace(_) = config.rate {
            config.rate = tunnel.capacity.map_or(Rate::Unlimited, Rate::Constant);
        }
        link.configure(now, config, &mut fabric.packets);
        if let Some(name) = tunnel.name {
            self.table.reroute(name, &path(tunnel));
            self.tell_way(at);
        }
        self.set_rate(fabric, at);
    }

    /// Sets the rate of a tunnel's link to its present share.
    fn set_rate<B: Clone + 'static>(&mut self, fabric: &mut Fabric<B>, at: usize) {
        let tunnel = &self.tunnels[at];
        let share = match tunnel.name {
            Some(name) => self.table.allowance(name),
            // Its rate is not known yet.
            None if !tunnel.stream => {
                Some(self.table.entry(tunnel.route.hops.iter().map(|hop| LinkKey(hop.0))))
            }
            None => None,
        };
        // An unlimited link is not a bottleneck, and neither is the solver's maximum rate.
        let rate = match share.filter(|_| self.law.sharing != Sharing::None) {
            Some(share) if tunnel.capacity.is_some() || share < UNLIMITED => Some(share),
            Some(_) => None,
            None => tunnel.capacity,
        };
        let (rate, limit) = match rate {
            // A rate of zero would hold packets forever; its link is down or about to change.
            Some(rate) => (Rate::Constant(rate.max(MIN_SHARE)), tunnel.queue(rate)),
            None => (Rate::Unlimited, QueueLimit::Packets(1000)),
        };
        let index = self.own + at;
        fabric.links[index].set_rate(fabric.now, rate, limit, &mut fabric.packets);
        fabric.reschedule(index);
    }

    /// Applies a change to the table. All changes pass here, so that other senders
    /// receive the same notices.
    fn announce(&mut self, notice: &Notice, at: usize) {
        let tunnel = &self.tunnels[at];
        self.table.apply_notice(notice, || path(tunnel));
        if let Some(announced) = &mut self.announced {
            let path = matches!(notice, Notice::Started { .. }).then(|| path(tunnel));
            announced.push(Announced { notice: *notice, path });
        }
    }

    /// Announces a flow's new route to the agreement on shares. Senders that compute shares
    /// determine the route themselves.
    fn tell_way(&mut self, at: usize) {
        let tunnel = &self.tunnels[at];
        let (Some(flow), Some(to)) = (tunnel.name, tunnel.key.to) else { return };
        if self.law.sharing != Sharing::Slbn {
            return;
        }
        if let Some(announced) = &mut self.announced {
            let (from, hash, most) = (tunnel.key.from, tunnel.key.hash, tunnel.most);
            let windowed = tunnel.elastic;
            let notice = Notice::Started { flow, from, to, hash, windowed, most };
            announced.push(Announced { notice, path: Some(path(tunnel)) });
        }
    }

    /// Recomputes shares and applies them to the flows whose share has changed.
    fn solve<B: Clone + 'static>(&mut self, fabric: &mut Fabric<B>) {
        if matches!(self.law.sharing, Sharing::None | Sharing::Slbn) {
            return;
        }
        let changed: Vec<FlowName> = self.table.solve().collect();
        self.solved += 1;
        for name in changed {
            if let Some(at) = self.by_name.get(&name) {
                self.set_rate(fabric, *at as usize);
            }
        }
    }

    /// Handles a packet that reaches the end of its route at `due`.
    fn arrive<B: Clone + 'static>(
        &mut self,
        fabric: &mut Fabric<B>,
        index: usize,
        due: Time,
        slot: Slot,
    ) {
        let tunnel = &self.tunnels[index - self.own];
        self.accounted = None;
        for (iface, sent) in &tunnel.watched {
            let copy = fabric.packets.copy(slot);
            fabric.put_out_at(due, copy, What::Seen { iface: *iface, sent: *sent });
        }
        let far = tunnel.far();
        let node: NodeId = fabric.at[far.index()];
        debug_assert!(
            tunnel.route.end != End::Edge || fabric.nodes[node.index()] == NodeKind::Edge
        );
        match tunnel.route.end {
            End::Edge => fabric.deliver(due, far, slot),
            End::Local => fabric.put_out(slot, What::Local(node)),
            End::Refused(why) => fabric.refuse(node, far, slot, why),
        }
    }

    fn schedule_tick<B: Clone + 'static>(&mut self, fabric: &mut Fabric<B>) {
        let period = PERIOD.as_nanos();
        let at = Time::from_nanos((fabric.now.as_nanos() / period + 1) * period);
        fabric.events.push(at, TICK);
        self.tick = Some(at);
    }
}

/// Links with at least this rate count as unlimited.
const UNLIMITED: Bandwidth = Bandwidth::from_bits_per_sec(1_000_000_000_000_000_000);

/// Minimum share of a flow.
const MIN_SHARE: Bandwidth = Bandwidth::from_bits_per_sec(100);

fn path(tunnel: &Tunnel) -> Path {
    Path { links: links_of(&tunnel.route), round_trip: tunnel.round_trip }
}

fn links_of(route: &Route) -> Vec<LinkKey> {
    route.hops.iter().map(|hop| LinkKey(hop.0)).collect()
}

impl<B: Clone + 'static> Fabric<B> {
    /// Sends a packet that a router has created.
    pub(crate) fn originate_collapsed(&mut self, node: NodeId, slot: Slot) {
        let packet: &Packet<B> = self.packets.get(slot);
        let Some(to) = packet.routed_to() else {
            self.packets.take(slot);
            return;
        };
        if self.nodes[node.index()] == NodeKind::Router && self.at[to.index()] == node {
            self.put_out(slot, What::Local(node));
            return;
        }
        let hash = packet.flow;
        let first = match self.forwarding.next(node, to) {
            [] => {
                self.packets.take(slot);
                return;
            }
            [only] => *only,
            several => several[crate::ecmp(hash, node, several.len())],
        };
        self.depart(first, slot);
    }
}
