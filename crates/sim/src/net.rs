//! The network as flows see it: connections, datagrams, timers.

use std::sync::Arc;

use base::{IfaceId, NodeId, Time};
use cluster::AgentId;
use cluster::agreement::{self, Seat};
use fabric::{Ecn, EventQueue, Fabric, Forwarding, Packet, Part};
use lab::plan::{Model, Plan};
use lab::routes::Routes;
use sharing::{Law, Sharing};
use transport::tcp::{Config, Endpoint, Flags, Segment, Statistics};

use crate::boxes::Boxes;
pub(crate) use crate::connections::State;
use crate::connections::{Connection, Connections, End};
use crate::control::{Control, Ticket};

/// Hops that a packet may make.
pub(crate) const TTL: u8 = 64;

/// Length of a UDP header.
pub(crate) const UDP_HEADER: u32 = 8;

/// Marks the timers of flows; the others are those of connections' ends.
const FLOW: u32 = 1 << 31;

/// Marks the timer of rate control; no lab has so many flows.
const CONTROL: u32 = u32::MAX;

/// What a packet carries.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Body {
    /// A segment to one end of a connection.
    Segment { end: EndId, segment: Segment },
    /// A datagram of a flow, by the halves of its number (which keep the alignment at 4).
    Datagram { flow: u32, sequence: [u32; 2] },
    /// A control packet of explicit rate control, whose contents wait there.
    Control { ticket: Ticket },
    /// A datagram between the boxes of a bundle, likewise.
    Boxes { ticket: Ticket },
}

/// One end of a connection: twice the connection's number, plus 1 for the accepting end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct EndId(u32);

impl EndId {
    pub(crate) const fn new(connection: u32, side: usize) -> Self {
        Self(connection * 2 + side as u32)
    }

    pub(crate) const fn connection(self) -> u32 {
        self.0 >> 1
    }

    /// 0 for the end that connected, 1 for the one that accepted.
    pub(crate) const fn side(self) -> usize {
        (self.0 & 1) as usize
    }

    /// What no other end has.
    pub(crate) const fn number(self) -> u32 {
        self.0
    }

    pub(crate) const fn peer(self) -> Self {
        Self(self.0 ^ 1)
    }
}

/// One side of a flow: where it is and how its packets go.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Leg {
    /// The node.
    pub(crate) node: NodeId,
    /// The interface that this side is addressed by.
    pub(crate) own: IfaceId,
    /// The interface that the other side is addressed by.
    pub(crate) to: IfaceId,
    /// Whether the node is a router, whose packets the fabric itself routes.
    pub(crate) router: bool,
    /// Whether packets leave through its own interface, whatever the routes say (routing by
    /// source).
    pub(crate) bound: bool,
    pub(crate) dscp: u8,
    /// Bytes of the IP header.
    pub(crate) header: u8,
}

/// What a timer is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Timer {
    End(EndId),
    Flow(u32),
    Control,
}

/// Forwarding that hosts and the fabric share.
pub(crate) struct Shared(pub(crate) Arc<Routes>);

impl Forwarding for Shared {
    fn next(&self, node: NodeId, dest: IfaceId) -> &[IfaceId] {
        self.0.next(node, dest)
    }
}

/// The network, the connections over it and everything that waits for a time.
pub(crate) struct Net {
    pub(crate) now: Time,
    pub(crate) fabric: Fabric<Body>,
    pub(crate) routes: Arc<Routes>,
    /// Both sides of each flow, and after them those of the paths of subflows.
    pub(crate) legs: Vec<[Leg; 2]>,
    timers: EventQueue<u32>,
    connections: Connections,
    /// Keys what connections draw.
    seed: u64,
    opened: u64,
    /// Timers that went off.
    pub(crate) fired: u64,
    /// Flows with an end of their own that has not come.
    pub(crate) pending: usize,
    control: Option<Box<Control>>,
    boxes: Option<Box<Boxes>>,
    seat: Option<Box<Seat>>,
}

/// The agreement of a network on one machine, where flows have to agree on shares of links.
pub(crate) fn seat<B: Clone + 'static>(plan: &Plan, fabric: &mut Fabric<B>) -> Option<Box<Seat>> {
    let Model::Collapsed(law) = plan.model else { return None };
    if law.sharing != Sharing::Slbn {
        return None;
    }
    fabric.join(0);
    let law = Law { sharing: law.sharing, window: law.window };
    let agreement = agreement::build(law, AgentId(0), 1, Vec::new(), plan.seed);
    Some(Box::new(Seat::new(agreement)))
}

impl Net {
    pub(crate) fn new(
        fabric: Fabric<Body>,
        routes: Arc<Routes>,
        legs: Vec<[Leg; 2]>,
        seed: u64,
    ) -> Self {
        Self {
            now: Time::ZERO,
            fabric,
            routes,
            legs,
            timers: EventQueue::default(),
            connections: Connections::default(),
            seed,
            opened: 0,
            fired: 0,
            pending: 0,
            control: None,
            boxes: None,
            seat: None,
        }
    }

    /// Puts the network under rate control.
    pub(crate) fn set_control(&mut self, control: Control) {
        self.control = Some(Box::new(control));
    }

    /// Puts boxes into the network.
    pub(crate) fn set_boxes(&mut self, boxes: Boxes) {
        self.boxes = Some(Box::new(boxes));
    }

    /// Has flows agree on shares, where the plan needs it.
    pub(crate) fn set_seat(&mut self, plan: &Plan) {
        self.seat = seat(plan, &mut self.fabric);
    }

    /// Lets flows agree on shares, where they have to.
    pub(crate) fn agree(&mut self) {
        if let Some(seat) = &mut self.seat {
            seat.turn(self.now, &mut self.fabric, |_, _| {});
        }
    }

    /// When flows next have to agree; [`Time::MAX`] for never.
    pub(crate) fn next_agreement(&self) -> Time {
        let seat = self.seat.as_ref();
        seat.and_then(|seat| seat.next_turn(&self.fabric)).unwrap_or(Time::MAX)
    }

    /// What rate control and boxes have to say of what they did; `plan` is the sorted one.
    pub(crate) fn warnings(&self, plan: &Plan) -> Vec<String> {
        let control = self.control.as_ref().map(|control| control.warnings(plan));
        let boxes = self.boxes.as_ref().map(|boxes| boxes.warnings(plan));
        control.into_iter().chain(boxes).flatten().collect()
    }

    /// Gives the boxes their turn, if the lab has any.
    pub(crate) fn with_boxes<T>(
        &mut self,
        turn: impl FnOnce(&mut Boxes, &mut Self) -> T,
    ) -> Option<T> {
        let mut boxes = self.boxes.take()?;
        let told = turn(&mut boxes, self);
        self.boxes = Some(boxes);
        Some(told)
    }

    /// Whether an interface is a box's.
    pub(crate) fn is_boxed(&self, iface: IfaceId) -> bool {
        self.boxes.as_ref().is_some_and(|boxes| boxes.takes(iface))
    }

    /// When the lab next stops or starts a box; [`Time::MAX`] for never.
    pub(crate) fn next_box_event(&self) -> Time {
        self.boxes.as_ref().map_or(Time::MAX, |boxes| boxes.next_event())
    }

    /// When a box next has something to do; [`Time::MAX`] for never.
    pub(crate) fn next_box(&self) -> Time {
        self.boxes.as_ref().map_or(Time::MAX, |boxes| boxes.next_wake())
    }

    /// Gives rate control its turn, if the lab has it.
    pub(crate) fn with_control<T>(
        &mut self,
        turn: impl FnOnce(&mut Control, &mut Self) -> T,
    ) -> Option<T> {
        let mut control = self.control.take()?;
        let told = turn(&mut control, self);
        self.control = Some(control);
        Some(told)
    }

    /// Whether a packet that has come through an interface is to go on from there: it has reached
    /// a router that acts for hosts, and is not for the router itself.
    pub(crate) fn passes(&self, iface: IfaceId, packet: &Packet<Body>) -> bool {
        self.control.as_ref().is_some_and(|control| control.takes(iface, packet))
    }

    /// Sets the timer of rate control.
    pub(crate) fn arm_control(&mut self, at: Time) {
        self.timers.push(at.max(self.now), CONTROL);
    }

    /// Opens a connection of a flow. `hash` tells it from the flow's others.
    pub(crate) fn connect(&mut self, flow: u32, config: &Config, hash: u32, tag: u32) -> u32 {
        self.connect_over(flow, flow, config, hash, tag)
    }

    /// Opens a connection of a flow between the ends that are at this place among the legs.
    pub(crate) fn connect_over(
        &mut self,
        flow: u32,
        place: u32,
        config: &Config,
        hash: u32,
        tag: u32,
    ) -> u32 {
        let initial = mix(hash, self.opened as u32) ^ self.seed as u32;
        self.opened += 1;
        let config = Config { seed: self.seed ^ u64::from(hash), ..*config };
        let legs = self.legs[place as usize];
        let end = |side: usize, tcp: Endpoint| {
            let hash = mix(hash, side as u32);
            let out = first_hop(&self.routes, &legs[side], hash);
            End::new(tcp, hash, out)
        };
        let ends = [
            end(0, Endpoint::connect(&config, initial)),
            end(1, Endpoint::listen(&config, !initial)),
        ];
        let id = self.connections.insert(Connection::new(ends, flow, place, tag));
        let now = self.now;
        if let Some(connection) = self.connection(id) {
            connection.ends[0].tcp.open(now);
        }
        id
    }

    /// The connection of this number, while there is one.
    pub(crate) fn connection(&mut self, id: u32) -> Option<&mut Connection> {
        let (routes, legs) = (&self.routes, &self.legs);
        self.connections
            .get_mut(id, |flow, side, hash| first_hop(routes, &legs[flow as usize][side], hash))
    }

    /// What both ends of a connection know of it.
    pub(crate) fn statistics(&self, id: u32) -> Option<[Statistics; 2]> {
        self.connections.statistics(id)
    }

    /// Lets a connection rest, if nothing is under way and no timer runs.
    pub(crate) fn rest(&mut self, id: u32) {
        self.connections.rest(id);
    }

    /// Forgets a connection; what is still on its way will be nobody's.
    pub(crate) fn close(&mut self, id: u32) {
        self.connections.remove(id);
    }

    /// A segment has arrived. Tells how much payload the flow can have, and whether the end's
    /// state has changed; `None` if it is nobody's.
    pub(crate) fn take(&mut self, end: EndId, packet: &Packet<Body>, segment: &Segment) -> Heard {
        let nothing = Heard::default();
        let now = self.now;
        let Some(connection) = self.connection(end.connection()) else { return nothing };
        if connection.ends[end.peer().side()].hash != packet.flow {
            return nothing;
        }
        let here = &mut connection.ends[end.side()];
        here.tcp.on_segment(now, segment, packet.ecn == Ecn::Marked);
        let bytes = here.read();
        let changed = here.learn();
        let subflow = connection.is_subflow();
        Heard { flow: connection.flow, bytes, changed, live: true, subflow }
    }

    /// Sends what an end has to send, and sets its timer.
    pub(crate) fn flush(&mut self, end: EndId) {
        let (routes, legs) = (&self.routes, &self.legs);
        let hop =
            |flow: u32, side: usize, hash| first_hop(routes, &legs[flow as usize][side], hash);
        let Some(connection) = self.connections.get_mut(end.connection(), hop) else { return };
        let leg = &self.legs[connection.legs as usize][end.side()];
        let here = &mut connection.ends[end.side()];
        while let Some(transmit) = here.tcp.poll_transmit(self.now) {
            let segment = transmit.segment;
            let bytes = u32::from(leg.header) + segment.header_bytes() + u32::from(segment.length);
            let ecn = if transmit.ect { Ecn::Capable } else { Ecn::NotCapable };
            let body = Body::Segment { end: end.peer(), segment };
            let packet = packet(leg, self.now, body, here.hash, bytes, ecn);
            send(&mut self.fabric, self.now, leg, here.out, packet);
        }
        if let Some(at) = here.tcp.next_timeout()
            && at < here.armed
        {
            here.armed = at.max(self.now);
            self.timers.push(here.armed, end.0);
        }
    }

    /// An end's timer went off at the present time; what its flow should hear of it.
    pub(crate) fn on_timer(&mut self, end: EndId) -> Heard {
        let now = self.now;
        // One at rest has no timer but such as were set anew.
        let Some(connection) = self.connections.awake(end.connection()) else {
            return Heard::default();
        };
        let here = &mut connection.ends[end.side()];
        if here.armed != now {
            return Heard::default();
        }
        here.armed = Time::MAX;
        if here.tcp.next_timeout().is_some_and(|at| at <= now) {
            here.tcp.on_timeout(now);
        }
        let changed = here.learn();
        let subflow = connection.is_subflow();
        Heard { flow: connection.flow, bytes: 0, changed, live: true, subflow }
    }

    /// Sends a datagram of a flow from one of its sides.
    pub(crate) fn send_datagram(
        &mut self,
        flow: u32,
        side: usize,
        hash: u32,
        sequence: u64,
        payload: u32,
    ) {
        let leg = self.legs[flow as usize][side];
        let out = first_hop(&self.routes, &leg, hash);
        let body = Body::Datagram { flow, sequence: [sequence as u32, (sequence >> 32) as u32] };
        let bytes = u32::from(leg.header) + UDP_HEADER + payload;
        let packet = packet(&leg, self.now, body, hash, bytes, Ecn::NotCapable);
        send(&mut self.fabric, self.now, &leg, out, packet);
    }

    /// Bytes on the wire of a flow's datagram beside its payload.
    pub(crate) fn datagram_headers(&self, flow: u32) -> u32 {
        let overhead = self.control.as_ref().map_or(0, |control| control.overhead());
        u32::from(self.legs[flow as usize][0].header) + UDP_HEADER + overhead
    }

    /// The payload of a flow's datagram.
    pub(crate) fn payload(&self, flow: u32, packet: &Packet<Body>) -> u32 {
        packet.last - u32::from(self.legs[flow as usize][0].header) - UDP_HEADER
    }

    /// Sets a timer of a flow.
    pub(crate) fn arm(&mut self, flow: u32, at: Time) {
        self.timers.push(at.max(self.now), flow | FLOW);
    }

    /// When the next timer goes off.
    pub(crate) fn next_timer(&self) -> Option<Time> {
        self.timers.next_time()
    }

    /// The next timer that is due at the present time.
    pub(crate) fn pop_timer(&mut self) -> Option<Timer> {
        let (_, token) = self.timers.pop_until(self.now)?;
        self.fired += 1;
        Some(match token & FLOW {
            0 => Timer::End(EndId(token)),
            _ if token == CONTROL => Timer::Control,
            _ => Timer::Flow(token & !FLOW),
        })
    }

    /// Other routes from now on.
    pub(crate) fn reroute(&mut self, routes: Routes) {
        self.routes = Arc::new(routes);
        self.fabric.set_forwarding(Box::new(Shared(Arc::clone(&self.routes))));
        for connection in self.connections.iter_mut() {
            for side in [0, 1] {
                let leg = &self.legs[connection.legs as usize][side];
                let end = &mut connection.ends[side];
                end.out = first_hop(&self.routes, leg, end.hash);
            }
        }
    }

    /// Bytes that packets, connections and timers take.
    pub(crate) fn memory(&self) -> u64 {
        let control = self.control.as_ref().map_or(0, |control| control.memory());
        let packets = self.fabric.memory().count();
        let boxes = self.boxes.as_ref().map_or(0, |boxes| boxes.memory());
        boxes + packets + self.timers.memory() + self.connections.memory() + control
    }
}

/// What came of an input to an end of a connection.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Heard {
    pub(crate) flow: u32,
    /// Payload that arrived in order.
    pub(crate) bytes: u64,
    /// The new state, if it is new.
    pub(crate) changed: Option<State>,
    /// Whether there was an end to hear it.
    pub(crate) live: bool,
    /// Whether it is a subflow, whose flow hears of everything.
    pub(crate) subflow: bool,
}

impl Heard {
    /// Whether the flow is to be told.
    pub(crate) const fn is_news(&self) -> bool {
        self.subflow || self.bytes > 0 || self.changed.is_some()
    }
}

/// The interface through which a host sends; without a route its first one, whose link drops what
/// it cannot carry.
pub(crate) fn first_hop(routes: &Routes, leg: &Leg, hash: u32) -> IfaceId {
    match routes.next(leg.node, leg.to) {
        hops if leg.bound || hops.is_empty() => leg.own,
        [only] => *only,
        several => {
            let choice = u64::from(mix(hash, leg.node.0)) * several.len() as u64;
            several[(choice >> 32) as usize]
        }
    }
}

fn packet(leg: &Leg, now: Time, body: Body, hash: u32, bytes: u32, ecn: Ecn) -> Packet<Body> {
    let part = match &body {
        Body::Segment { segment, .. } => part(segment),
        Body::Datagram { .. } | Body::Control { .. } | Body::Boxes { .. } => Part::Datagram,
    };
    Packet {
        body,
        first: 0,
        count: 1,
        to: Some(leg.to),
        flow: hash,
        segment: bytes,
        last: bytes,
        ttl: TTL,
        dscp: leg.dscp,
        ecn,
        corrupt: None,
        mirrors: 0,
        part,
        tag: 0,
        entered: now,
    }
}

fn send(fabric: &mut Fabric<Body>, now: Time, leg: &Leg, out: IfaceId, packet: Packet<Body>) {
    if leg.router && !leg.bound {
        fabric.originate(now, leg.node, packet);
    } else {
        fabric.inject(now, out, packet);
    }
}

fn part(segment: &Segment) -> Part {
    let has = |flag| segment.flags.contains(flag);
    if has(Flags::RST) {
        Part::Reset
    } else if has(Flags::FIN) {
        Part::Closing
    } else if has(Flags::SYN) && !has(Flags::ACK) {
        Part::Opening
    } else if segment.length > 0 {
        Part::Data
    } else {
        Part::Bare
    }
}

/// Scrambles two numbers into one (the finaliser of `MurmurHash3`).
pub(crate) const fn mix(a: u32, b: u32) -> u32 {
    let mut hash = a ^ b.wrapping_mul(0x9e37_79b9);
    hash = (hash ^ (hash >> 16)).wrapping_mul(0x85eb_ca6b);
    hash = (hash ^ (hash >> 13)).wrapping_mul(0xc2b2_ae35);
    hash ^ (hash >> 16)
}
