//! The fabric: links connected by nodes, driven by one event queue.
//!
//! Collapsed paths (`collapsed`) and `link_scope` are parts of the fabric that use its links and
//! events.

use std::collections::VecDeque;

use base::{Bytes, Direction, Histogram, IfaceId, LinkId, MirrorId, NodeId, Span, Time, fnv};
use queue::{DropReason, Slab, Slot};

use crate::collapsed::{State, TICK};
use crate::config::{LinkConfig, Network, NodeKind, Rate};
use crate::event::EventQueue;
use crate::link::Link;
use crate::link_scope::off_tree;
use crate::packet::Packet;
use crate::stats::{LinkStats, QueueLevel};
use crate::{Error, Forwarding};

/// An output of the fabric. `at` is logical time: the time in the emulated network.
#[derive(Clone, Debug, PartialEq)]
pub enum Output<B> {
    /// A packet has reached an interface of an [`NodeKind::Edge`]
    /// or [`NodeKind::Middlebox`] node.
    Deliver {
        /// The interface that received it.
        iface: IfaceId,
        /// The packet with its present header fields.
        packet: Packet<B>,
        /// Time of its arrival; later than the present time by the path's lead, see
        /// [`Fabric::set_lead`].
        at: Time,
    },
    /// A packet is addressed to a router itself, or to a switch's end of a link.
    Local {
        /// The router that has the packet.
        node: NodeId,
        /// The packet with its present header fields.
        packet: Packet<B>,
        /// Time of its arrival.
        at: Time,
    },
    /// A router cannot forward a packet; its sender should receive an ICMP message.
    Refused {
        /// The router that has the packet.
        node: NodeId,
        /// The interface through which the packet arrived, and through which an answer leaves (RFC
        /// 1812 §4.3.2.4) if routes are symmetric.
        iface: IfaceId,
        /// The packet with its present header fields.
        packet: Packet<B>,
        /// The reason why the router does not forward it.
        why: Refusal,
        /// The logical time of the output.
        at: Time,
    },
    /// A packet was dropped on the link that `iface` sends into, and `iface` is watched.
    Dropped {
        /// The sending interface.
        iface: IfaceId,
        /// The packet with its present header fields.
        packet: Packet<B>,
        /// Why the link dropped it.
        reason: DropReason,
        /// The logical time of the output.
        at: Time,
    },
    /// A copy of a packet that crossed a watched interface.
    Seen {
        /// The watched interface.
        iface: IfaceId,
        /// Whether it left through the interface (otherwise it arrived).
        sent: bool,
        /// The packet with its present header fields.
        packet: Packet<B>,
        /// The logical time of the output.
        at: Time,
    },
    /// A copy for a mirror session, taken as the packet left the transmitter.
    Mirrored {
        /// The session that receives the copy.
        mirror: MirrorId,
        /// The packet with its present header fields.
        packet: Packet<B>,
        /// The logical time of the output.
        at: Time,
    },
}

/// The reason why a router does not forward a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// TTL or hop limit exceeded: ICMP time exceeded.
    TtlExceeded,
    /// Larger than the next link's MTU: ICMP fragmentation needed, or fragmentation by the driver.
    TooBig {
        /// The next link's MTU in bytes.
        mtu: u32,
    },
    /// No route: ICMP destination unreachable.
    NoRoute,
}

/// An output whose packet is still in the slab.
#[derive(Clone, Copy)]
struct Waiting {
    at: Time,
    slot: Slot,
    what: What,
}

#[derive(Clone, Copy)]
pub(crate) enum What {
    Deliver(IfaceId),
    Local(NodeId),
    Refused(NodeId, IfaceId, Refusal),
    Dropped(IfaceId, DropReason),
    Seen { iface: IfaceId, sent: bool },
    Mirrored(MirrorId),
}

/// The emulated network. `B` is the driver's reference to a packet's bytes.
pub struct Fabric<B> {
    pub(crate) nodes: Vec<NodeKind>,
    pub(crate) at: Vec<NodeId>,
    /// Link directions; the one that interface *i* sends into is at *i*. Further ones
    /// stand for whole paths.
    pub(crate) links: Vec<Link>,
    pub(crate) packets: Slab<Packet<B>>,
    /// Link directions that must be processed, by index.
    pub(crate) events: EventQueue<u32>,
    pub(crate) forwarding: Box<dyn Forwarding + Send>,
    pub(crate) collapsed: Option<Box<State>>,
    /// Links between switches that flooded packets do not cross, by `LinkId`.
    pub(crate) not_flooded: Vec<bool>,
    outputs: VecDeque<Waiting>,
    /// Packets to be forwarded at the present time.
    arrivals: VecDeque<(IfaceId, Slot)>,
    pub(crate) now: Time,
    /// Whether deadlines of the present time may have been handled.
    is_under_way: bool,
    trace_hash: u64,
    processed: u64,
}

impl<B: Clone + 'static> Fabric<B> {
    /// Builds the network. `seed` is the seed of all random streams.
    ///
    /// # Errors
    /// If a link refers to a node that does not exist, or has an invalid property.
    pub fn try_new(
        network: &Network,
        forwarding: Box<dyn Forwarding + Send>,
        seed: u64,
    ) -> Result<Self, Error> {
        let overhead = u32::try_from(network.overhead.count()).unwrap_or(u32::MAX);
        if overhead > 10_000 {
            return Err(Error::Overhead { bytes: network.overhead });
        }
        let mut links = Vec::with_capacity(network.links.len() * 2);
        let mut at = Vec::with_capacity(network.links.len() * 2);
        for wire in &network.links {
            for direction in Direction::BOTH {
                let node = wire.ends[direction.index()];
                if node.index() >= network.nodes.len() {
                    return Err(Error::NoSuchNode { link: wire.name.clone(), node });
                }
                let config = wire.directions[direction.index()].clone();
                check(&wire.name, &config)?;
                let name = format!("{}/{}", wire.name, direction.as_str());
                let mut link = Link::new(IfaceId::at(at.len()), &name, config, overhead, seed);
                link.up = wire.up;
                links.push(link);
                at.push(node);
            }
        }
        let law = network.collapsed;
        let not_flooded = off_tree(&network.nodes, &at, &links);
        Ok(Self {
            not_flooded,
            collapsed: law.map(|law| Box::new(State::new(law, &links, overhead, seed))),
            nodes: network.nodes.clone(),
            at,
            links,
            packets: Slab::default(),
            events: EventQueue::default(),
            forwarding,
            outputs: VecDeque::new(),
            arrivals: VecDeque::new(),
            now: Time::ZERO,
            is_under_way: false,
            trace_hash: fnv::START,
            processed: 0,
        })
    }

    /// Handles deadlines up to `now`, then sends a packet from a node through `iface`.
    pub fn inject(&mut self, now: Time, iface: IfaceId, mut packet: Packet<B>) {
        self.advance(now);
        packet.entered = self.now;
        let slot = self.packets.put(packet);
        if self.collapsed.is_some() {
            return self.depart(iface, slot);
        }
        self.send(iface, slot, iface);
        self.forward_arrivals();
    }

    /// Routes a packet that a router sends (an ICMP message, a fragment). Unlike [`Self::inject`]
    /// this keeps its `entered`.
    pub fn originate(&mut self, now: Time, node: NodeId, packet: Packet<B>) {
        self.advance(now);
        let slot = self.packets.put(packet);
        if self.collapsed.is_some() {
            return self.originate_collapsed(node, slot);
        }
        self.route(node, None, slot);
        self.forward_arrivals();
    }

    /// Forwards a packet that was delivered to `iface` of a [`NodeKind::Middlebox`] node, as a
    /// router does: its TTL is decremented, and a packet that cannot be forwarded is reported as
    /// [`Output::Refused`]. It keeps its `entered`.
    ///
    /// Whole paths have no middleboxes: in a collapsed network the packet is dropped.
    pub fn forward(&mut self, now: Time, iface: IfaceId, packet: Packet<B>) {
        self.advance(now);
        if self.collapsed.is_some() {
            return;
        }
        let slot = self.packets.put(packet);
        self.route(self.at[iface.index()], Some(iface), slot);
        self.forward_arrivals();
    }

    /// The interfaces of `node` on equal-cost paths to interface `dest` at present.
    pub fn next_hops(&self, node: NodeId, dest: IfaceId) -> &[IfaceId] {
        self.forwarding.next(node, dest)
    }

    /// The next deadline.
    pub fn next_wake(&self) -> Option<Time> {
        self.events.next_time()
    }

    /// Handles every deadline up to and including `until`, each at its own time.
    pub fn advance(&mut self, until: Time) {
        self.meet(until);
        self.now = self.now.max(until);
        self.is_under_way = true;
    }

    /// Handles every deadline before `until`, which becomes the present time: changes of the
    /// network come before the packets that arrive at the same time.
    pub fn advance_before(&mut self, until: Time) {
        if until > self.now {
            self.meet(Time::from_nanos(until.as_nanos() - 1));
            (self.now, self.is_under_way) = (until, false);
        }
    }

    /// The earliest time at which a change can still come before all arrivals.
    pub fn earliest_change(&self) -> Time {
        if self.is_under_way { self.now + Span::from_nanos(1) } else { self.now }
    }

    fn meet(&mut self, until: Time) {
        while let Some((at, link)) = self.events.pop_until(until) {
            self.now = at;
            self.processed += 1;
            self.wake(link);
        }
    }

    /// Handles deadlines up to `until`, but stops at the first output, whose time becomes
    /// the present; returns whether there was one. Otherwise the present time is that of
    /// the last handled deadline.
    pub fn advance_to_output(&mut self, until: Time) -> bool {
        while self.outputs.is_empty() {
            let Some((at, link)) = self.events.pop_until(until) else { return false };
            (self.now, self.is_under_way) = (at, true);
            self.processed += 1;
            self.wake(link);
        }
        true
    }

    /// The next output, in the order of creation.
    pub fn poll(&mut self) -> Option<Output<B>> {
        let Waiting { at, slot, what } = self.outputs.pop_front()?;
        let packet = self.packets.take(slot);
        Some(match what {
            What::Deliver(iface) => Output::Deliver { iface, packet, at },
            What::Local(node) => Output::Local { node, packet, at },
            What::Refused(node, iface, why) => Output::Refused { node, iface, packet, why, at },
            What::Dropped(iface, reason) => Output::Dropped { iface, packet, reason, at },
            What::Seen { iface, sent } => Output::Seen { iface, sent, packet, at },
            What::Mirrored(mirror) => Output::Mirrored { mirror, packet, at },
        })
    }

    /// Logical time: the latest time that the driver has passed.
    pub fn now(&self) -> Time {
        self.now
    }

    /// Changes one direction of a link at `now`, before packets arrive at that time;
    /// its queue is kept.
    ///
    /// # Errors
    /// If the properties are invalid; then nothing changes.
    pub fn configure(
        &mut self,
        now: Time,
        link: LinkId,
        direction: Direction,
        config: LinkConfig,
    ) -> Result<(), Error> {
        self.advance_before(now);
        let index = link.index() * 2 + direction.index();
        let entry = self.links.get_mut(index).ok_or(Error::NoSuchLink { link })?;
        check(&format!("link {}", link.0), &config)?;
        entry.configure(self.now, config, &mut self.packets);
        self.reschedule(index);
        self.reconfigure(link);
        self.forward_arrivals();
        Ok(())
    }

    /// Sets both directions of a link down or up, before packets arrive at that time.
    ///
    /// # Errors
    /// If the link does not exist.
    pub fn set_up(&mut self, now: Time, link: LinkId, up: bool) -> Result<(), Error> {
        self.advance_before(now);
        for direction in Direction::BOTH {
            let index = link.index() * 2 + direction.index();
            let entry = self.links.get_mut(index).ok_or(Error::NoSuchLink { link })?;
            if entry.up && !up {
                entry.take_down(self.now, &mut self.packets);
                self.reschedule(index);
            } else {
                entry.up = up;
            }
        }
        self.not_flooded = off_tree(&self.nodes, &self.at, &self.links);
        self.reconfigure(link);
        Ok(())
    }

    /// Changes the routes.
    pub fn set_forwarding(&mut self, forwarding: Box<dyn Forwarding + Send>) {
        self.forwarding = forwarding;
        self.reroute();
    }

    /// Copies the packets that cross `iface`, and those that its link drops, to the outputs.
    pub fn watch(&mut self, iface: IfaceId) {
        let link = &mut self.links[iface.index()];
        (link.is_prompt, link.observed) = (true, true);
        self.watch_lazily(iface);
    }

    /// As [`Self::watch`], but drops are reported when the link next accepts or delivers a packet.
    /// It needs no further events, so that the order of simultaneous events stays the same.
    pub fn watch_lazily(&mut self, iface: IfaceId) {
        self.links[iface.index()].watched = true;
        self.reschedule(iface.index());
    }

    /// Copies packets whose `mirrors` has the session's bit when they leave this transmitter.
    pub fn mirror(&mut self, mirror: MirrorId, link: LinkId, direction: Direction) {
        let index = link.index() * 2 + direction.index();
        let link = &mut self.links[index];
        link.mirrors |= 1 << mirror.0;
        link.observed = true;
        self.reschedule(index);
    }

    /// Counters of one direction of a link.
    pub fn stats(&mut self, link: LinkId, direction: Direction) -> &LinkStats {
        self.account_tunnels();
        let index = self.settle(link, direction);
        &self.links[index].stats
    }

    /// The queue length and its peak since the last call.
    pub fn take_queue_level(&mut self, link: LinkId, direction: Direction) -> QueueLevel {
        self.account_tunnels();
        let index = self.settle(link, direction);
        self.take_tunnel_level(index).unwrap_or_else(|| self.links[index].take_queue_level())
    }

    /// The queue length and its peak, without resetting it.
    pub fn queue_level(&mut self, link: LinkId, direction: Direction) -> QueueLevel {
        let index = self.settle(link, direction);
        self.links[index].queue_level()
    }

    /// Takes the queueing delays (ns) of sent packets in one direction, from the packet's arrival
    /// until its transmission starts.
    pub fn take_queue_delays(&mut self, link: LinkId, direction: Direction) -> Histogram {
        self.account_tunnels();
        let index = self.settle(link, direction);
        self.links[index].waits.take().map(|waits| *waits).unwrap_or_default()
    }

    /// Updates a link's transmitter to the present time; returns the link's index.
    fn settle(&mut self, link: LinkId, direction: Direction) -> usize {
        let index = link.index() * 2 + direction.index();
        self.links[index].settle(self.now, &mut self.packets);
        self.reschedule(index);
        index
    }

    /// Number of packets in the fabric: queued, in transmission, in flight.
    pub fn holds(&self) -> u64 {
        self.links.iter().map(|link| link.holds(&self.packets)).sum()
    }

    /// A hash over the time, interface and size of every delivery: equal runs have equal hashes.
    pub fn trace_hash(&self) -> u64 {
        self.trace_hash
    }

    /// Number of link crossings, counted per segment.
    pub fn packet_hops(&self) -> u64 {
        let own = self.links[..self.own_links()].iter();
        own.map(|link| link.stats.delivered_packets).sum::<u64>() + self.uncounted_hops()
    }

    /// Memory of packets and pending events in bytes.
    pub fn memory(&self) -> Bytes {
        let links: u64 = self.links.iter().map(Link::memory).sum();
        Bytes::new(self.packets.memory() + links + self.events.memory())
    }

    /// Events processed so far.
    pub fn events(&self) -> u64 {
        self.processed
    }

    fn wake(&mut self, event: u32) {
        if event == TICK {
            return self.end_period();
        }
        let index = event as usize;
        let link = &mut self.links[index];
        if link.scheduled != Some(self.now) {
            return;
        }
        link.scheduled = None;
        link.settle(self.now, &mut self.packets);
        if index >= self.at.len() {
            return self.wake_tunnel(index);
        }
        let far = IfaceId::at(index ^ 1);
        while let Some((_, slot)) = self.links[index].arrive(self.now, &self.packets) {
            self.arrivals.push_back((far, slot));
        }
        self.reschedule(index);
        self.forward_arrivals();
    }

    /// Adds a link's deadline to the event queue if it is missing, and reports the link's verdicts.
    /// An event that a link no longer needs stays in the queue and is ignored later.
    pub(crate) fn reschedule(&mut self, index: usize) {
        let link = &mut self.links[index];
        let deadline = link.next_wake();
        if let Some(at) = deadline
            && deadline != link.scheduled
        {
            // A link that has waited for an event may be due already.
            self.events.push(at.max(self.now), index as u32);
            link.scheduled = Some(at.max(self.now));
        } else {
            link.scheduled = deadline;
        }
        let quiet = link.verdicts.dropped.is_empty() && link.verdicts.marked == 0;
        if !quiet || !link.mirrored.is_empty() {
            self.account(index);
        }
    }

    pub(crate) fn account(&mut self, index: usize) {
        let link = &mut self.links[index];
        link.count_verdicts(&self.packets);
        let (iface, sessions, watched) = (link.from, link.mirrors, link.watched);
        let at = self.now;
        for (slot, reason) in link.verdicts.dropped.drain(..) {
            if watched {
                self.outputs.push_back(Waiting { at, slot, what: What::Dropped(iface, reason) });
            } else {
                self.packets.take(slot);
            }
        }
        for slot in link.mirrored.drain(..) {
            let mut wanted = sessions & self.packets.get(slot).mirrors;
            while wanted != 0 {
                let mirror = MirrorId(wanted.trailing_zeros());
                wanted &= wanted - 1;
                let slot = self.packets.copy(slot);
                self.outputs.push_back(Waiting { at, slot, what: What::Mirrored(mirror) });
            }
            self.packets.take(slot);
        }
    }

    pub(crate) fn put_out(&mut self, slot: Slot, what: What) {
        self.put_out_at(self.now, slot, what);
    }

    pub(crate) fn put_out_at(&mut self, at: Time, slot: Slot, what: What) {
        self.outputs.push_back(Waiting { at, slot, what });
    }

    /// Sends into the link of `iface`; the packet arrived through `came`.
    pub(crate) fn send(&mut self, iface: IfaceId, slot: Slot, came: IfaceId) {
        let index = iface.index();
        if self.links[index].watched {
            let copy = self.packets.copy(slot);
            self.put_out(copy, What::Seen { iface, sent: true });
        }
        let link = &mut self.links[index];
        let packet = self.packets.get(slot);
        if packet.largest() > link.mtu && link.mtu > 0 {
            let node = self.at[index];
            if self.nodes[node.index()].is_router() {
                let why = Refusal::TooBig { mtu: link.mtu };
                self.put_out(slot, What::Refused(node, came, why));
            } else {
                link.verdicts.dropped.push((slot, DropReason::TooBig));
                self.account(index);
            }
            return;
        }
        if link.is_transparent() && link.up && link.mirrors & packet.mirrors == 0 {
            link.pass(packet);
            self.arrivals.push_back((IfaceId::at(index ^ 1), slot));
            return;
        }
        link.enqueue(self.now, slot, &mut self.packets);
        self.reschedule(index);
    }

    fn forward_arrivals(&mut self) {
        while let Some((iface, slot)) = self.arrivals.pop_front() {
            if self.links[iface.index()].watched {
                let copy = self.packets.copy(slot);
                self.put_out(copy, What::Seen { iface, sent: false });
            }
            let node = self.at[iface.index()];
            if self.nodes[node.index()].hands_out() {
                self.deliver(self.now, iface, slot);
            } else {
                self.route(node, Some(iface), slot);
            }
        }
    }

    pub(crate) fn deliver(&mut self, at: Time, iface: IfaceId, slot: Slot) {
        let bytes = self.packets.get(slot).bytes();
        for part in [at.as_nanos(), u64::from(iface.0), bytes] {
            self.trace_hash = fnv::step(self.trace_hash, part);
        }
        self.put_out_at(at, slot, What::Deliver(iface));
    }

    /// Forwards at a router or switch; `from` is `None` for packets that the router itself sends.
    fn route(&mut self, node: NodeId, from: Option<IfaceId>, slot: Slot) {
        let router = self.nodes[node.index()].is_router();
        let here = from.unwrap_or_default();
        let packet = self.packets.get_mut(slot);
        if packet.link_scope {
            return self.route_on_link(node, from, slot);
        }
        let Some(to) = packet.to else {
            // Unknown addresses end at the first router or switch.
            if from.is_some() {
                self.refuse(node, here, slot, Refusal::NoRoute);
            } else {
                self.packets.take(slot);
            }
            return;
        };
        // Switches have no addresses, but their ends of links can be destinations.
        if self.at[to.index()] == node {
            self.put_out(slot, What::Local(node));
            return;
        }
        if router && from.is_some() {
            if packet.ttl <= 1 {
                self.refuse(node, here, slot, Refusal::TtlExceeded);
                return;
            }
            packet.ttl -= 1;
        }
        self.forward_to(node, from, to, slot);
    }

    /// Sends a packet to the next hop on its path to `to`.
    pub(crate) fn forward_to(
        &mut self,
        node: NodeId,
        from: Option<IfaceId>,
        to: IfaceId,
        slot: Slot,
    ) {
        let flow = self.packets.get(slot).flow;
        let choice = match self.forwarding.next(node, to) {
            [] => {
                self.refuse(node, from.unwrap_or_default(), slot, Refusal::NoRoute);
                return;
            }
            [only] => *only,
            several => several[ecmp(flow, node, several.len())],
        };
        self.send(choice, slot, from.unwrap_or(choice));
    }

    pub(crate) fn refuse(&mut self, node: NodeId, iface: IfaceId, slot: Slot, why: Refusal) {
        let reason = match why {
            Refusal::TtlExceeded => DropReason::TtlExceeded,
            Refusal::NoRoute => DropReason::NoRoute,
            Refusal::TooBig { .. } => DropReason::TooBig,
        };
        // Counted on the direction that delivered the packet: the far end of `iface`.
        let count = u64::from(self.packets.get(slot).count);
        self.links[iface.index() ^ 1].stats.drops[reason.index()] += count;
        self.put_out(slot, What::Refused(node, iface, why));
    }
}

/// Selects one of `count` equal-cost routes for packets with the hash `flow` at `node`:
/// below `count`, nearly uniform over hashes, and different at each node so that the
/// choices are not correlated.
#[must_use]
pub fn ecmp(flow: u32, node: NodeId, count: usize) -> usize {
    let mixed = (flow ^ node.0.wrapping_mul(0x9e37_79b9)).wrapping_mul(0x85eb_ca6b);
    ((u64::from(mixed ^ (mixed >> 15)) * count as u64) >> 32) as usize
}

fn check(link: &str, config: &LinkConfig) -> Result<(), Error> {
    let wrong = |what| Err(Error::BadLink { link: link.to_owned(), what });
    match &config.rate {
        Rate::Constant(rate) if !rate.is_positive() => return wrong("its rate is zero"),
        Rate::Trace(trace) => {
            let last = trace.opportunities.last().copied();
            if last.is_none_or(|last| last > trace.period) || !trace.period.is_positive() {
                return wrong("its trace is empty or longer than its period");
            }
            if !trace.opportunities.is_sorted() {
                return wrong("its trace goes back in time");
            }
        }
        _ => {}
    }
    let queue = config.queue.check();
    queue.map_err(|what| Error::BadQueue { link: link.to_owned(), what })
}
