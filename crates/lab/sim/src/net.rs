//! The network as flows use it: connections, datagrams, timers.

use std::collections::VecDeque;
use std::sync::Arc;

use agreement::AgreementClient;
use base::{AgentId, Bandwidth, IfaceId, NodeId, Time};
use fabric::{Ecn, EventQueue, Fabric, Packet, Part};
use lab::plan::{Model, Plan};
use lab::routes::Routes;
use sharing::{Sharing, SharingPolicy};
use timeline::NextWakes;
use transport::tcp::{Config, Ect, Endpoint, Flags, Segment, Statistics};

pub(crate) use crate::connections::State;
use crate::connections::{Connection, Connections, End};
use crate::tcp_events::TcpEvents;
use crate::tickets::Ticket;

/// Initial TTL of packets.
pub(crate) const TTL: u8 = 64;

pub(crate) const UDP_HEADER: u32 = 8;

/// Flag of flow timers; other timers are those of connection ends.
const FLOW: u32 = 1 << 31;

/// The timer of rate control; a lab has fewer flows.
const CONTROL: u32 = u32::MAX;

/// The contents of a packet.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Body {
    /// A segment to one end of a connection. `from` is the interface that is the sender's address,
    /// `syn_options` the sender's maximum segment size and window scale.
    Segment { end: EndId, segment: Segment, from: IfaceId, syn_options: (u16, u8) },
    /// A datagram of a flow; its sequence number is split in halves to keep the alignment at 4.
    Datagram { flow: u32, sequence: [u32; 2] },
    /// A control packet of explicit rate control; the ticket refers to its contents.
    Control { ticket: Ticket },
    /// A datagram between the gateways of a bundle; the ticket refers to its contents.
    Gateways { ticket: Ticket, from: IfaceId },
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

    /// The end's unique number.
    pub(crate) const fn number(self) -> u32 {
        self.0
    }

    pub(crate) const fn peer(self) -> Self {
        Self(self.0 ^ 1)
    }
}

/// One side of a flow: its node, interfaces and routing.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Leg {
    pub(crate) node: NodeId,
    /// The interface that is this side's address.
    pub(crate) own: IfaceId,
    /// The interface that is the other side's address.
    pub(crate) to: IfaceId,
    /// Whether the node is a router, so that the fabric routes its packets.
    pub(crate) router: bool,
    /// Whether packets leave through its own interface regardless of the routes (source routing by
    /// address).
    pub(crate) bound: bool,
    pub(crate) dscp: u8,
    /// IP header in bytes.
    pub(crate) header: u8,
}

/// A request of a rate-controlled flow.
#[derive(Clone, Copy, Debug)]
pub(crate) enum SessionRequest {
    /// Start a session for datagrams with this hash.
    Join { flow: u32, hash: u32, demand: Bandwidth },
    /// End the session.
    Leave { flow: u32 },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Timer {
    End(EndId),
    Flow(u32),
    Control,
}

/// The network, its connections and their timers.
///
/// Rate control and gateways act on it; it does not depend on them.
pub(crate) struct Net {
    pub(crate) now: Time,
    pub(crate) fabric: Fabric<Body>,
    pub(crate) routes: Arc<Routes>,
    /// Both sides of each flow, followed by those of the subflows' paths.
    pub(crate) legs: Vec<[Leg; 2]>,
    timers: EventQueue<u32>,
    connections: Connections,
    /// Seed of the connections' random numbers.
    seed: u64,
    opened: u64,
    /// Number of expired timers.
    pub(crate) fired: u64,
    /// Number of finite flows that have not ended.
    pub(crate) pending: usize,
    /// Requests of controlled flows that rate control has not handled yet.
    pub(crate) session_requests: VecDeque<SessionRequest>,
    /// Bytes on the wire per packet beyond layer 3, for rate control.
    pub(crate) overhead: u32,
    agreement: Option<Box<AgreementClient>>,
    pub(crate) tcp_events: Option<Box<TcpEvents>>,
}

/// The agreement of a network on one host, if its flows must agree on shares of links.
pub(crate) fn agreement<B: Clone + 'static>(
    plan: &Plan,
    fabric: &mut Fabric<B>,
) -> Option<Box<AgreementClient>> {
    let Model::Collapsed(law) = plan.model else { return None };
    if law.sharing != Sharing::Slbn {
        return None;
    }
    fabric.join(0);
    let law = SharingPolicy { sharing: law.sharing, window: law.window };
    let agreement = ::agreement::build(law, AgentId(0), 1, Vec::new(), plan.seed);
    Some(Box::new(AgreementClient::new(agreement)))
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
            session_requests: VecDeque::new(),
            overhead: 0,
            agreement: None,
            tcp_events: None,
        }
    }

    /// Adds the agreement on shares, if the plan needs it.
    pub(crate) fn set_agreement(&mut self, plan: &Plan) {
        self.agreement = agreement(plan, &mut self.fabric);
    }

    /// Runs the agreement on shares, if there is one.
    pub(crate) fn agree(&mut self) {
        if let Some(agreement) = &mut self.agreement {
            agreement.turn(self.now, &mut self.fabric, |_, _| {});
        }
    }

    /// The next deadlines of the network, of timers and of the agreement.
    #[inline]
    pub(crate) fn next_wakes(&self) -> NextWakes {
        let agreement = self.agreement.as_ref();
        NextWakes {
            arrival: self.fabric.next_wake(),
            timer: self.timers.next_time(),
            agreement: agreement.and_then(|agreement| agreement.next_wake(&self.fabric)),
            ..NextWakes::default()
        }
    }

    pub(crate) fn arm_control(&mut self, at: Time) {
        self.timers.push(at.max(self.now), CONTROL);
    }

    /// Opens a connection of a flow. `hash` distinguishes it from other connections of the flow.
    pub(crate) fn connect(&mut self, flow: u32, config: &Config, hash: u32, tag: u32) -> u32 {
        self.connect_over(flow, flow, config, hash, tag)
    }

    /// Opens a connection of a flow between the ends at this index in `legs`.
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

    pub(crate) fn connection(&mut self, id: u32) -> Option<&mut Connection> {
        let (routes, legs) = (&self.routes, &self.legs);
        self.connections
            .get_mut(id, |flow, side, hash| first_hop(routes, &legs[flow as usize][side], hash))
    }

    /// TCP statistics of both ends of a connection.
    pub(crate) fn statistics(&self, id: u32) -> Option<[Statistics; 2]> {
        self.connections.statistics(id)
    }

    /// Packs a connection if nothing is in flight and no timer runs.
    pub(crate) fn rest(&mut self, id: u32) {
        self.connections.rest(id);
    }

    /// Removes a connection; its packets in flight will be ignored.
    pub(crate) fn close(&mut self, id: u32) {
        self.connections.remove(id);
    }

    /// Handles a received segment. Returns the payload for the flow and the end's state if it has
    /// changed; `None` if no connection matches.
    pub(crate) fn take(
        &mut self,
        end: EndId,
        packet: &Packet<Body>,
        segment: &Segment,
    ) -> Received {
        let nothing = Received::default();
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
        Received { flow: connection.flow, bytes, changed, live: true, subflow }
    }

    /// Sends the queued segments of an end, and sets its timer.
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
            let ecn = match transmit.ect {
                Ect::Not => Ecn::NotCapable,
                Ect::Zero => Ecn::Capable,
                Ect::One => Ecn::L4s,
            };
            let (end, from, syn_options) = (end.peer(), leg.own, here.tcp.syn_options());
            let body = Body::Segment { end, segment, from, syn_options };
            let packet = packet(leg, self.now, body, here.hash, bytes, ecn);
            send(&mut self.fabric, self.now, leg, here.out, packet);
        }
        if let Some(at) = here.tcp.next_wake()
            && at < here.armed
        {
            here.armed = at.max(self.now);
            self.timers.push(here.armed, end.0);
        }
        if let Some(events) = self.tcp_events.as_mut().filter(|all| all.records(connection.flow)) {
            let hash = connection.ends[0].hash;
            let statistics = connection.ends[end.side()].tcp.statistics();
            events.record(self.now, connection.flow, end, hash, &statistics);
        }
    }

    /// Handles an expired timer of an end; returns the event for its flow.
    pub(crate) fn on_timer(&mut self, end: EndId) -> Received {
        let now = self.now;
        // A packed connection has no timer; an entry for it is obsolete.
        let Some(connection) = self.connections.awake(end.connection()) else {
            return Received::default();
        };
        let here = &mut connection.ends[end.side()];
        if here.armed != now {
            return Received::default();
        }
        here.armed = Time::MAX;
        if here.tcp.next_wake().is_some_and(|at| at <= now) {
            here.tcp.on_wake(now);
        }
        let changed = here.learn();
        let subflow = connection.is_subflow();
        Received { flow: connection.flow, bytes: 0, changed, live: true, subflow }
    }

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

    /// Wire bytes of a flow's datagram beside its payload.
    pub(crate) fn datagram_headers(&self, flow: u32) -> u32 {
        u32::from(self.legs[flow as usize][0].header) + UDP_HEADER + self.overhead
    }

    /// The payload of a flow's datagram.
    pub(crate) fn payload(&self, flow: u32, packet: &Packet<Body>) -> u32 {
        packet.last - u32::from(self.legs[flow as usize][0].header) - UDP_HEADER
    }

    pub(crate) fn arm(&mut self, flow: u32, at: Time) {
        self.timers.push(at.max(self.now), flow | FLOW);
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

    pub(crate) fn reroute(&mut self, routes: Arc<Routes>) {
        self.fabric.set_forwarding(Box::new(Arc::clone(&routes)));
        self.routes = routes;
        for connection in self.connections.iter_mut() {
            for side in [0, 1] {
                let leg = &self.legs[connection.legs as usize][side];
                let end = &mut connection.ends[side];
                end.out = first_hop(&self.routes, leg, end.hash);
            }
        }
    }

    /// Memory in bytes of packets, connections and timers.
    pub(crate) fn memory(&self) -> u64 {
        let packets = self.fabric.memory().count();
        packets + self.timers.memory() + self.connections.memory()
    }
}

/// The result of an event at a connection's end.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Received {
    pub(crate) flow: u32,
    /// Payload received in order.
    pub(crate) bytes: u64,
    /// The end's state, if it has changed.
    pub(crate) changed: Option<State>,
    /// Whether the end still exists.
    pub(crate) live: bool,
    /// Whether it is a subflow, whose flow handles every event.
    pub(crate) subflow: bool,
}

impl Received {
    /// Whether the flow has to handle it.
    pub(crate) const fn concerns_flow(&self) -> bool {
        self.subflow || self.bytes > 0 || self.changed.is_some()
    }
}

/// The egress interface of a host: its own interface while that leads to the destination, as in a
/// kernel that routes by the source address; without a route its own one too, whose link drops
/// packets that it cannot carry.
pub(crate) fn first_hop(routes: &Routes, leg: &Leg, hash: u32) -> IfaceId {
    if leg.bound || (!leg.router && routes.leads(leg.own, leg.to)) {
        return leg.own;
    }
    match routes.next(leg.node, leg.to) {
        [] => leg.own,
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
        Body::Datagram { .. } | Body::Control { .. } | Body::Gateways { .. } => Part::Datagram,
    };
    Packet {
        body,
        first: 0,
        count: 1,
        to: Some(leg.to),
        link_scope: false,
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

/// Mixes two numbers into one (the finaliser of `MurmurHash3`).
pub(crate) const fn mix(a: u32, b: u32) -> u32 {
    let mut hash = a ^ b.wrapping_mul(0x9e37_79b9);
    hash = (hash ^ (hash >> 16)).wrapping_mul(0x85eb_ca6b);
    hash = (hash ^ (hash >> 13)).wrapping_mul(0xc2b2_ae35);
    hash ^ (hash >> 16)
}
