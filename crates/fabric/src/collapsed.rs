//! The collapsed model: each flow crosses its whole path at once, over a link of its own with the
//! path's delay and loss, at the flow's present share.
//!
//! Which flows there are is learned from their packets; what they get is decided by crate
//! `sharing`, which learns of them by [`Notice`]s only.
//!
//= SplayNet §3.3: link emulation, decentralised congestion emulation

mod account;
mod demand;
mod members;
mod path;
mod tunnel;

use std::collections::{BTreeMap, HashMap};

use base::{Bandwidth, Direction, IfaceId, LinkId, NodeId, Span, Time};
use queue::{DropReason, Slot};
use sharing::{FlowName, FlowTable, Law, LinkKey, Notice, Path, Sharing};

pub use account::Share;
pub use members::Announced;
use members::Foreign;
use path::{End, Topology, Way, constant};
use tunnel::{Key, PERIOD, Reach, Tunnel};

use crate::config::{Collapsed, LinkConfig, QueueLimit, Rate};
use crate::link::Link;
use crate::network::{Fabric, What};
use crate::packet::{Packet, Part};
use crate::stats::QueueLevel;
use crate::{Forwarding, NodeKind};

/// Marks the event of the end of a period.
pub(crate) const TICK: u32 = u32::MAX;

/// What the collapsed model knows beside the links.
pub(crate) struct State {
    law: Collapsed,
    /// Number of directions of the network's own links; those of tunnels come after them.
    own: usize,
    overhead: u32,
    seed: u64,
    table: FlowTable,
    /// By position; its link is at `own` + position.
    tunnels: Vec<Tunnel>,
    free: Vec<u32>,
    by_key: HashMap<Key, u32>,
    by_name: HashMap<FlowName, u32>,
    names: u32,
    /// This fabric among the senders of its lab.
    sender: u32,
    /// What the other senders have not been told yet; `None` where there are none.
    announced: Option<Vec<Announced>>,
    /// Flows of other senders.
    foreign: BTreeMap<FlowName, Foreign>,
    /// By how much packets are handed out before they are due, by the interface that gets them.
    leads: Vec<Span>,
    /// How often links or routes have changed.
    changes: u64,
    /// When the period ends, while there are tunnels.
    tick: Option<Time>,
    /// How often shares have been computed.
    solved: u64,
    /// The time up to which the network's links have been told of what crossed them.
    accounted: Option<Time>,
    /// What waits in front of each of the network's link directions.
    levels: Vec<QueueLevel>,
}

impl State {
    pub(crate) fn new(law: Collapsed, links: &[Link], overhead: u32, seed: u64) -> Self {
        let capacity = |link: &Link| {
            if link.up { constant(&link.config) } else { Some(Bandwidth::from_bits_per_sec(0)) }
        };
        let sharing = Law { sharing: law.sharing, window: law.window };
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
    /// Does something with the model's state beside the fabric's.
    fn collapsed<R>(&mut self, act: impl FnOnce(&mut Self, &mut State) -> R) -> Option<R> {
        let mut state = self.collapsed.take()?;
        let result = act(self, &mut state);
        self.collapsed = Some(state);
        Some(result)
    }

    /// A packet sets out through `first`, the interface of a node that has a kernel or has made
    /// the packet.
    pub(crate) fn depart(&mut self, first: IfaceId, slot: Slot) {
        self.collapsed(|fabric, state| state.depart(fabric, first, slot));
    }

    /// The period ends.
    pub(crate) fn end_period(&mut self) {
        self.collapsed(|fabric, state| state.end_period(fabric));
    }

    /// The link at `index` stands for a path, and its time has come.
    pub(crate) fn wake_tunnel(&mut self, index: usize) {
        self.collapsed(|fabric, state| {
            while let Some((due, slot)) = fabric.links[index].arrive(fabric.now, &fabric.packets) {
                state.arrive(fabric, index, due, slot);
            }
            state.look(fabric, index - state.own);
            fabric.reschedule(index);
        });
    }

    /// A link's properties, or whether it is in service, are no longer what they were.
    pub(crate) fn reconfigure(&mut self, link: LinkId) {
        self.collapsed(|fabric, state| {
            for direction in Direction::BOTH {
                let iface = IfaceId::at(link.index() * 2 + direction.index());
                let capacity = topology(fabric).capacity(iface);
                state.table.set_capacity(LinkKey(iface.0), capacity);
            }
            for at in 0..state.tunnels.len() {
                let tunnel = &state.tunnels[at];
                // The way back may be another one, and counts for the round trip.
                let stale = || {
                    let topology = topology(fabric);
                    Topology::crosses(&tunnel.way, link)
                        || topology.round_trip(&tunnel.way, tunnel.key.hash) != tunnel.round_trip
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

    /// Ways are no longer what they were.
    pub(crate) fn reroute(&mut self) {
        self.collapsed(|fabric, state| {
            for at in 0..state.tunnels.len() {
                let tunnel = &state.tunnels[at];
                if tunnel.alive {
                    let (topology, hash) = (topology(fabric), tunnel.key.hash);
                    let way = topology.way_of(&tunnel.key);
                    if way != tunnel.way || topology.round_trip(&way, hash) != tunnel.round_trip {
                        state.account_one(fabric, at);
                        state.tunnels[at].way = way;
                        state.fit(fabric, at);
                    }
                }
            }
            state.reroute_foreign(&topology(fabric));
            state.solve(fabric);
        });
    }
}

/// What paths go through.
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
        let key = Key { from: first, to: packet.to, hash: packet.flow, reach: Reach::Whole };
        let (ttl, part, size) = (packet.ttl, packet.part, packet.largest());
        let mut at = self.tunnel(fabric, key, part);
        let tunnel = &self.tunnels[at];
        let mtu = fabric.links[self.own + at].mtu;
        if ttl <= tunnel.way.routers {
            at = self.tunnel(fabric, Key { reach: Reach::Router(ttl.max(1)), ..key }, part);
        } else if mtu > 0 && size > mtu {
            let (topology, way) = (topology(fabric), &tunnel.way);
            let blocked = topology.blocked(way, size).unwrap_or(0);
            let link = way.hops[blocked].index();
            if blocked == 0 || !topology.leads_to_router(way, blocked - 1) {
                fabric.links[link].verdicts.dropped.push((slot, DropReason::TooBig));
                fabric.account(link);
                return;
            }
            let reach = Reach::Mtu(fabric.links[link].mtu);
            at = self.tunnel(fabric, Key { reach, ..key }, part);
        }
        let tunnel = &mut self.tunnels[at];
        let packet = fabric.packets.get_mut(slot);
        packet.ttl -= tunnel.way.routers.min(packet.ttl);
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

    /// The position of a tunnel, which is made where there is none.
    fn tunnel<B: Clone + 'static>(
        &mut self,
        fabric: &mut Fabric<B>,
        key: Key,
        part: Part,
    ) -> usize {
        if let Some(at) = self.by_key.get(&key) {
            return *at as usize;
        }
        let way = topology(fabric).way_of(&key);
        let tunnel = Tunnel::new(key, way, part != Part::Datagram, fabric.now);
        // Random streams are the flow's own: other flows change nothing for it. The time keeps
        // one that comes back from meeting the same fate again.
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

    /// Brings a tunnel and its link in line with its way.
    fn fit<B: Clone + 'static>(&mut self, fabric: &mut Fabric<B>, at: usize) {
        let (own, now) = (self.own, fabric.now);
        let lead = self.lead(&self.tunnels[at]);
        let tunnel = &mut self.tunnels[at];
        let topology = topology(fabric);
        let joined = topology.join(&tunnel.way);
        tunnel.narrowest = joined.narrowest;
        tunnel.capacity = constant(&joined.config);
        tunnel.round_trip = topology.round_trip(&tunnel.way, tunnel.key.hash);
        tunnel.queue_time = topology.queue_time(&tunnel.way, joined.narrowest, self.overhead);
        let mtu = joined.config.mtu.count() as u32;
        tunnel.full_packet = self.overhead + if mtu > 0 { mtu } else { 1500 };
        let seen = tunnel.way.hops.iter().enumerate().flat_map(|(hop, iface)| {
            let far = IfaceId::at(iface.index() ^ 1);
            [(hop > 0).then_some((*iface, true)), Some((far, false))].into_iter().flatten()
        });
        tunnel.watched = seen.filter(|(iface, _)| fabric.links[iface.index()].watched).collect();
        // Drops are told where the queue is thought to be, or else where somebody looks.
        let narrow = [tunnel.way.hops[joined.narrowest]];
        let mut told = narrow.iter().chain(&*tunnel.way.hops);
        let told = told.find(|iface| fabric.links[iface.index()].watched).copied();
        let link = &mut fabric.links[own + at];
        link.watched = told.is_some();
        link.from = told.unwrap_or(tunnel.key.from);
        link.mirrors = joined.mirrors;
        link.observed = link.watched || link.mirrors != 0;
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

    /// Gives a tunnel's link its present rate.
    fn set_rate<B: Clone + 'static>(&mut self, fabric: &mut Fabric<B>, at: usize) {
        let tunnel = &self.tunnels[at];
        let share = match tunnel.name {
            Some(name) => self.table.allowance(name),
            // Nobody knows yet how much it will send.
            None if !tunnel.stream => {
                Some(self.table.entry(tunnel.way.hops.iter().map(|hop| LinkKey(hop.0))))
            }
            None => None,
        };
        // An unlimited link is no bottleneck: the solver's largest rate is none.
        let rate = match share.filter(|_| self.law.sharing != Sharing::None) {
            Some(share) if tunnel.capacity.is_some() || share < UNLIMITED => Some(share),
            Some(_) => None,
            None => tunnel.capacity,
        };
        let (rate, limit) = match rate {
            // A rate of zero would hold packets for ever; its link is down or about to change.
            Some(rate) => (Rate::Constant(rate.max(LEAST)), tunnel.queue(rate)),
            None => (Rate::Unlimited, QueueLimit::Packets(1000)),
        };
        let index = self.own + at;
        fabric.links[index].set_rate(fabric.now, rate, limit, &mut fabric.packets);
        fabric.reschedule(index);
    }

    /// Tells the table of a change. The only way in: what other senders hear of a flow is what
    /// is said here.
    fn announce(&mut self, notice: &Notice, at: usize) {
        let tunnel = &self.tunnels[at];
        self.table.hear(notice, || path(tunnel));
        if let Some(announced) = &mut self.announced {
            let path = matches!(notice, Notice::Started { .. }).then(|| path(tunnel));
            announced.push(Announced { notice: *notice, path });
        }
    }

    /// Whoever agrees on shares must know that a flow has another way. Senders that compute them
    /// know it by themselves.
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

    /// Computes shares anew and gives them to the flows whose share has changed.
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

    /// A packet comes to the end of its way at `due`.
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
        debug_assert!(tunnel.way.end != End::Edge || fabric.nodes[node.index()] == NodeKind::Edge);
        match tunnel.way.end {
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

/// At this rate and above, links do not limit.
const UNLIMITED: Bandwidth = Bandwidth::from_bits_per_sec(1_000_000_000_000_000_000);

/// No flow is given less.
const LEAST: Bandwidth = Bandwidth::from_bits_per_sec(100);

fn path(tunnel: &Tunnel) -> Path {
    Path { links: links_of(&tunnel.way), round_trip: tunnel.round_trip }
}

/// The link directions of a way.
fn links_of(way: &Way) -> Vec<LinkKey> {
    way.hops.iter().map(|hop| LinkKey(hop.0)).collect()
}

impl<B: Clone + 'static> Fabric<B> {
    /// Sends a packet that a router has made itself.
    pub(crate) fn originate_collapsed(&mut self, node: NodeId, slot: Slot) {
        let packet: &Packet<B> = self.packets.get(slot);
        let Some(to) = packet.to else {
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
