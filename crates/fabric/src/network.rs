//! The fabric: links joined by nodes, moved by one event queue.

use std::collections::VecDeque;

use base::{Bytes, Direction, IfaceId, LinkId, MirrorId, NodeId, Time};

use crate::config::{Discipline, LinkConfig, Network, NodeKind, Rate};
use crate::event::{Event, EventQueue};
use crate::link::Link;
use crate::packet::Packet;
use crate::stats::{DropReason, LinkStats, QueueDelays, QueueLevel};
use crate::{Error, Forwarding};

/// What comes out of a fabric. `at` is logical time: the moment that the emulated network gives.
#[derive(Clone, Debug, PartialEq)]
pub enum Output<B> {
    /// A packet has reached an interface of an [`NodeKind::Edge`] node.
    Deliver {
        /// The interface.
        iface: IfaceId,
        /// The packet.
        packet: Packet<B>,
        /// When it arrives.
        at: Time,
    },
    /// A packet is addressed to a router itself.
    Local {
        /// The router.
        node: NodeId,
        /// The packet.
        packet: Packet<B>,
        /// When it arrived.
        at: Time,
    },
    /// A router can't forward a packet, and owes its sender a message.
    Refused {
        /// The router.
        node: NodeId,
        /// The interface through which the packet came, from which an answer goes (RFC 1812
        /// §4.3.2.4) while ways are symmetric.
        iface: IfaceId,
        /// The packet.
        packet: Packet<B>,
        /// Why not.
        why: Refusal,
        /// When.
        at: Time,
    },
    /// A packet was dropped on the link that `iface` sends into, and `iface` is watched.
    Dropped {
        /// The sending interface.
        iface: IfaceId,
        /// The packet.
        packet: Packet<B>,
        /// Why.
        reason: DropReason,
        /// When.
        at: Time,
    },
    /// A copy of a packet that crossed a watched interface.
    Seen {
        /// The watched interface.
        iface: IfaceId,
        /// Whether it left through the interface (otherwise it arrived).
        sent: bool,
        /// The packet.
        packet: Packet<B>,
        /// When.
        at: Time,
    },
    /// A copy for a mirror session, taken as the packet left the transmitter.
    Mirrored {
        /// The session.
        mirror: MirrorId,
        /// The packet.
        packet: Packet<B>,
        /// When.
        at: Time,
    },
}

/// Why a router does not forward a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// TTL or hop limit exhausted: ICMP time exceeded.
    TtlExceeded,
    /// Larger than the next link's MTU: ICMP fragmentation needed, or fragmentation by the driver.
    TooBig {
        /// The next link's MTU in bytes.
        mtu: u32,
    },
    /// No route: ICMP destination unreachable.
    NoRoute,
}

/// The emulated network. `B` is the driver's handle on a packet's bytes.
pub struct Fabric<B> {
    nodes: Vec<NodeKind>,
    /// The node at each interface.
    at: Vec<NodeId>,
    /// Link directions; the one that interface *i* sends into is at *i*.
    links: Vec<Link<B>>,
    watched: Vec<bool>,
    events: EventQueue,
    forwarding: Box<dyn Forwarding>,
    outputs: VecDeque<Output<B>>,
    /// Packets that are to be forwarded at the present time.
    arrivals: VecDeque<(IfaceId, Packet<B>)>,
    now: Time,
    trace_hash: u64,
    processed: u64,
}

impl<B: Clone + 'static> Fabric<B> {
    /// Builds the network. `seed` keys all random streams.
    ///
    /// # Errors
    /// If a link names a node that is not there, or has a property that no link can have.
    pub fn try_new(
        network: &Network,
        forwarding: Box<dyn Forwarding>,
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
        Ok(Self {
            nodes: network.nodes.clone(),
            watched: vec![false; at.len()],
            at,
            links,
            events: EventQueue::default(),
            forwarding,
            outputs: VecDeque::new(),
            arrivals: VecDeque::new(),
            now: Time::ZERO,
            trace_hash: 0xcbf2_9ce4_8422_2325,
            processed: 0,
        })
    }

    /// A packet leaves a node through `iface` at `now`. Deadlines up to `now` are met first.
    pub fn inject(&mut self, now: Time, iface: IfaceId, mut packet: Packet<B>) {
        self.advance(now);
        packet.entered = self.now;
        self.send(iface, packet, iface);
        self.forward_arrivals();
    }

    /// A packet starts at a router (an ICMP message, a fragment) and is routed from there. Unlike
    /// [`Self::inject`] it keeps its `entered`.
    pub fn originate(&mut self, now: Time, node: NodeId, packet: Packet<B>) {
        self.advance(now);
        self.route(node, None, packet);
        self.forward_arrivals();
    }

    /// The next deadline.
    pub fn next_wake(&self) -> Option<Time> {
        self.events.next_time()
    }

    /// Meets every deadline up to `until`, each at its own time.
    pub fn advance(&mut self, until: Time) {
        while let Some((at, event)) = self.events.pop_until(until) {
            self.now = at;
            self.processed += 1;
            match event {
                Event::Transmitted(link) => self.on_transmitted(link as usize),
                Event::Arrival(link) => self.on_arrival(link as usize),
            }
            self.forward_arrivals();
        }
        self.now = self.now.max(until);
    }

    /// The next output, in the order in which they came about.
    pub fn poll(&mut self) -> Option<Output<B>> {
        self.outputs.pop_front()
    }

    /// Logical time: the latest that the driver has named.
    pub fn now(&self) -> Time {
        self.now
    }

    /// Changes one direction of a link at `now`; its queue is kept.
    ///
    /// # Errors
    /// If no link can have such properties; nothing changes then.
    pub fn configure(
        &mut self,
        now: Time,
        link: LinkId,
        direction: Direction,
        config: LinkConfig,
    ) -> Result<(), Error> {
        self.advance(now);
        let index = link.index() * 2 + direction.index();
        let entry = self.links.get_mut(index).ok_or(Error::NoSuchLink { link })?;
        check(&format!("link {}", link.0), &config)?;
        entry.configure(self.now, config);
        self.reschedule(index);
        self.forward_arrivals();
        Ok(())
    }

    /// Takes a link out of service or back into it, both directions.
    ///
    /// # Errors
    /// If there is no such link.
    pub fn set_up(&mut self, now: Time, link: LinkId, up: bool) -> Result<(), Error> {
        self.advance(now);
        for direction in Direction::BOTH {
            let index = link.index() * 2 + direction.index();
            let entry = self.links.get_mut(index).ok_or(Error::NoSuchLink { link })?;
            if entry.up && !up {
                entry.take_down();
                self.reschedule(index);
            } else {
                entry.up = up;
            }
        }
        Ok(())
    }

    /// Other routes from now on.
    pub fn set_forwarding(&mut self, forwarding: Box<dyn Forwarding>) {
        self.forwarding = forwarding;
    }

    /// Copies what crosses `iface`, and what its link drops, to the outputs.
    pub fn watch(&mut self, iface: IfaceId) {
        self.watched[iface.index()] = true;
    }

    /// Copies packets whose `mirrors` has the session's bit as they leave this transmitter.
    pub fn mirror(&mut self, mirror: MirrorId, link: LinkId, direction: Direction) {
        self.links[link.index() * 2 + direction.index()].mirrors |= 1 << mirror.0;
    }

    /// Counters of one direction of a link.
    pub fn stats(&self, link: LinkId, direction: Direction) -> &LinkStats {
        &self.links[link.index() * 2 + direction.index()].stats
    }

    /// The queue's length now and its peak since the last call.
    pub fn take_queue_level(&mut self, link: LinkId, direction: Direction) -> QueueLevel {
        self.links[link.index() * 2 + direction.index()].take_queue_level()
    }

    /// How long the packets that one direction sent had waited in its queue.
    pub fn queue_delays(&self, link: LinkId, direction: Direction) -> &QueueDelays {
        &self.links[link.index() * 2 + direction.index()].delays
    }

    /// Packets inside the fabric: waiting, in transmission, in flight.
    pub fn holds(&self) -> u64 {
        self.links.iter().map(Link::holds).sum()
    }

    /// A hash over every delivery's time, place and size: equal runs have equal hashes.
    pub fn trace_hash(&self) -> u64 {
        self.trace_hash
    }

    /// Events processed so far.
    pub fn events(&self) -> u64 {
        self.processed
    }

    fn on_transmitted(&mut self, index: usize) {
        let link = &mut self.links[index];
        if link.scheduled.transmitted == Some(self.now) {
            link.scheduled.transmitted = None;
            link.on_transmitted(self.now);
            self.reschedule(index);
        }
    }

    fn on_arrival(&mut self, index: usize) {
        if self.links[index].scheduled.arrival != Some(self.now) {
            return;
        }
        self.links[index].scheduled.arrival = None;
        let far = IfaceId::at(index ^ 1);
        while let Some(arrived) = self.links[index].arrive(self.now) {
            self.arrivals.push_back((far, arrived.packet));
        }
        self.reschedule(index);
    }

    /// Schedules what a link needs and the event queue does not hold, and hands out its verdicts.
    /// An event that a link no longer needs stays in the queue and is ignored when it comes.
    fn reschedule(&mut self, index: usize) {
        let link = &mut self.links[index];
        let needs = link.deadlines();
        if needs != link.scheduled {
            if let Some(at) = needs.transmitted
                && needs.transmitted != link.scheduled.transmitted
            {
                self.events.push(at, Event::Transmitted(index as u32));
            }
            if let Some(at) = needs.arrival
                && needs.arrival != link.scheduled.arrival
            {
                self.events.push(at, Event::Arrival(index as u32));
            }
            link.scheduled = needs;
        }
        self.account(index);
    }

    fn account(&mut self, index: usize) {
        let link = &mut self.links[index];
        if link.verdicts.dropped.is_empty() && link.verdicts.marked == 0 && link.mirrored.is_empty()
        {
            return;
        }
        link.settle();
        let (iface, sessions) = (link.from, link.mirrors);
        let watched = self.watched[index];
        for (packet, reason) in link.verdicts.dropped.drain(..) {
            if watched {
                self.outputs.push_back(Output::Dropped { iface, packet, reason, at: self.now });
            }
        }
        for packet in link.mirrored.drain(..) {
            let mut wanted = sessions & packet.mirrors;
            while wanted != 0 {
                let mirror = MirrorId(wanted.trailing_zeros());
                wanted &= wanted - 1;
                let copy = packet.clone();
                self.outputs.push_back(Output::Mirrored { mirror, packet: copy, at: self.now });
            }
        }
    }

    /// Sends into the link of `iface`; the packet came through `came`.
    fn send(&mut self, iface: IfaceId, packet: Packet<B>, came: IfaceId) {
        let index = iface.index();
        if self.watched[index] {
            let copy = packet.clone();
            self.outputs.push_back(Output::Seen { iface, sent: true, packet: copy, at: self.now });
        }
        let link = &mut self.links[index];
        let mtu = link.config.mtu.count() as u32;
        if packet.largest() > mtu && mtu > 0 {
            let node = self.at[index];
            if self.nodes[node.index()] == NodeKind::Router {
                let why = Refusal::TooBig { mtu };
                let at = self.now;
                self.outputs.push_back(Output::Refused { node, iface: came, packet, why, at });
            } else {
                link.verdicts.dropped.push((packet, DropReason::TooBig));
                self.account(index);
            }
            return;
        }
        if link.up && link.is_transparent() && link.mirrors & packet.mirrors == 0 {
            link.pass(&packet);
            self.arrivals.push_back((IfaceId::at(index ^ 1), packet));
            return;
        }
        link.enqueue(self.now, packet);
        self.reschedule(index);
    }

    fn forward_arrivals(&mut self) {
        while let Some((iface, packet)) = self.arrivals.pop_front() {
            if self.watched[iface.index()] {
                let (packet, at) = (packet.clone(), self.now);
                self.outputs.push_back(Output::Seen { iface, sent: false, packet, at });
            }
            let node = self.at[iface.index()];
            if self.nodes[node.index()] == NodeKind::Edge {
                self.deliver(iface, packet);
            } else {
                self.route(node, Some(iface), packet);
            }
        }
    }

    fn deliver(&mut self, iface: IfaceId, packet: Packet<B>) {
        for part in [self.now.as_nanos(), u64::from(iface.0), packet.bytes()] {
            self.trace_hash = (self.trace_hash ^ part).wrapping_mul(0x0000_0100_0000_01b3);
        }
        self.outputs.push_back(Output::Deliver { iface, packet, at: self.now });
    }

    /// Forwards at a router or switch; `from` is `None` for what the router itself sends.
    fn route(&mut self, node: NodeId, from: Option<IfaceId>, mut packet: Packet<B>) {
        let at = self.now;
        let router = self.nodes[node.index()] == NodeKind::Router;
        let here = from.unwrap_or_default();
        let Some(to) = packet.to else {
            // Multicast and unknown addresses end at the first router or switch.
            if from.is_some() {
                self.refuse(node, here, packet, Refusal::NoRoute);
            }
            return;
        };
        if router && self.at[to.index()] == node {
            self.outputs.push_back(Output::Local { node, packet, at });
            return;
        }
        if router && from.is_some() {
            if packet.ttl <= 1 {
                self.refuse(node, here, packet, Refusal::TtlExceeded);
                return;
            }
            packet.ttl -= 1;
        }
        let next = self.forwarding.next(node, to);
        let choice = match next {
            [] => {
                self.refuse(node, here, packet, Refusal::NoRoute);
                return;
            }
            [only] => *only,
            several => several[pick(packet.flow, node, several.len())],
        };
        self.send(choice, packet, from.unwrap_or(choice));
    }

    fn refuse(&mut self, node: NodeId, iface: IfaceId, packet: Packet<B>, why: Refusal) {
        let reason = match why {
            Refusal::TtlExceeded => DropReason::TtlExceeded,
            Refusal::NoRoute => DropReason::NoRoute,
            Refusal::TooBig { .. } => DropReason::TooBig,
        };
        // Counted on the direction that brought the packet: the far end of `iface`.
        self.links[iface.index() ^ 1].stats.drops[reason.index()] += u64::from(packet.count);
        let at = self.now;
        self.outputs.push_back(Output::Refused { node, iface, packet, why, at });
    }
}

/// One of `count` equal-cost ways, differently at each node so that choices do not correlate.
fn pick(flow: u32, node: NodeId, count: usize) -> usize {
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
    match &config.queue.discipline {
        Discipline::Drr { quanta } if quanta.is_empty() => wrong("its queue has no classes"),
        Discipline::Red { min, max, .. } if min >= max => wrong("RED needs min below max"),
        Discipline::FqCoDel { flows, quantum, .. } | Discipline::Sfq { flows, quantum, .. }
            if *flows == 0 || *flows > 65_536 || *quantum == Bytes::ZERO =>
        {
            wrong("its queue needs 1 to 65536 flows and a quantum")
        }
        Discipline::Priority { bands } if *bands == 0 || *bands > 8 => {
            wrong("a priority queue has 1 to 8 bands")
        }
        _ => Ok(()),
    }
}
