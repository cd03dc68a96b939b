//! The Bundler gateways of a lab in the packet engine.
//!
//! `tickets.rs` stores the contents of datagrams between gateways, like those of control packets.

use std::collections::BTreeMap;

use base::{IfaceId, Time};
use bundler::digest::{DigestKey, Fields, of_fields};
use bundler::encapsulation::{self, Envelope};
use bundler::sendbox::Status;
use bundler_lab::{Change, Contents, Driver, Ends, GatewayNodes};
use fabric::{Ecn, Fabric, Packet, Part};
use lab::plan::{Family, Plan};
use lab::routes::flow_hash;

use crate::Result;
use crate::net::{Body, Net, TTL, UDP_HEADER, mix};
use crate::tickets::Tickets;

pub(crate) struct Gateways {
    gateways: GatewayNodes<Body>,
    parcels: Parcels,
}

/// Contents of in-flight datagrams between gateways.
struct Parcels {
    tickets: Tickets<Contents<Body>>,
    /// A hash of the node's name for each interface of a gateway; the hashes of datagrams
    /// derive from it.
    hashes: BTreeMap<IfaceId, u32>,
}

/// The interface of gateways to the network.
struct Host<'a> {
    fabric: &'a mut Fabric<Body>,
    parcels: &'a mut Parcels,
}

impl Gateways {
    /// The gateways of a sorted plan; `None` without bundles.
    pub(crate) fn try_new(plan: &Plan) -> Result<Option<Self>> {
        let Some(gateways) = GatewayNodes::try_new(plan)? else { return Ok(None) };
        let nodes = plan.bundles.iter().flat_map(|bundle| [bundle.from, bundle.to]);
        let hashes = nodes.flat_map(|node| {
            let node = &plan.nodes[node.index()];
            let hash = flow_hash(&node.name, "", "");
            node.ifaces.iter().map(move |iface| (*iface, hash))
        });
        let parcels = Parcels { hashes: hashes.collect(), tickets: Tickets::default() };
        Ok(Some(Self { gateways, parcels }))
    }

    /// Whether packets received through an interface must be passed to [`Self::deliver`].
    pub(crate) fn takes(&self, iface: IfaceId) -> bool {
        self.gateways.takes(iface)
    }

    /// Handles a lab event that stops or starts gateways at the present time.
    pub(crate) fn on_event(&mut self, net: &Net) {
        self.gateways.on_event(net.now);
    }

    pub(crate) const fn next_wake(&self) -> Option<Time> {
        self.gateways.next_wake()
    }

    /// Handles a packet that has reached a gateway node. Returns the packet if the gateway does
    /// not use it.
    pub(crate) fn deliver(
        &mut self,
        net: &mut Net,
        iface: IfaceId,
        packet: Packet<Body>,
    ) -> Option<Packet<Body>> {
        let at = net.now;
        let host = &mut Host { fabric: &mut net.fabric, parcels: &mut self.parcels };
        self.gateways.deliver(host, at, iface, packet)
    }

    /// Handles the deadlines of the present time.
    pub(crate) fn on_wake(&mut self, net: &mut Net) {
        let at = net.now;
        let host = &mut Host { fabric: &mut net.fabric, parcels: &mut self.parcels };
        self.gateways.on_wake(host, at);
    }

    pub(crate) fn reroute(&mut self) {
        self.gateways.reroute();
    }

    /// The status of each bundle, in the order of the plan; `None` while its sendbox is stopped.
    pub(crate) fn statuses(&self) -> Vec<Option<Status>> {
        self.gateways.statuses()
    }

    /// Takes the changes of state since the last call.
    pub(crate) fn changes(&mut self) -> impl Iterator<Item = Change> {
        self.gateways.changes()
    }

    pub(crate) fn warnings(&self, plan: &Plan) -> Vec<String> {
        self.gateways.warnings(plan)
    }

    /// Memory in bytes of packets and messages.
    pub(crate) fn memory(&self) -> u64 {
        self.gateways.memory() + self.parcels.tickets.memory()
    }
}

impl Parcels {
    fn packet(
        &mut self,
        at: Time,
        ends: Ends,
        bytes: u32,
        contents: Contents<Body>,
    ) -> Packet<Body> {
        let hash = |end: IfaceId| self.hashes.get(&end).copied().unwrap_or_default();
        let (flow, ticket) = (mix(hash(ends.from), hash(ends.to)), self.tickets.put(at, contents));
        Packet {
            body: Body::Gateways { ticket, from: ends.from },
            first: 0,
            count: 1,
            to: Some(ends.to),
            link_scope: false,
            flow,
            segment: bytes,
            last: bytes,
            ttl: TTL,
            dscp: 0,
            ecn: Ecn::NotCapable,
            corrupt: None,
            mirrors: 0,
            part: Part::Datagram,
            tag: 0,
            entered: at,
        }
    }
}

impl Driver<Body> for Host<'_> {
    fn fabric(&mut self) -> &mut Fabric<Body> {
        self.fabric
    }

    fn digest(&mut self, key: &DigestKey, packet: &Packet<Body>) -> u64 {
        let halves = |[low, high]: [u32; 2]| u64::from(high) << 32 | u64::from(low);
        let (sequence, acknowledgement, flags) = match packet.body {
            Body::Segment { segment, .. } => {
                let flags = u32::from(segment.flags.bits()) | 1 << 8;
                (u64::from(segment.seq), u64::from(segment.ack), flags)
            }
            Body::Datagram { sequence, .. } => (halves(sequence), 0, 1 << 9),
            Body::Control { ticket } => (halves(ticket), 0, 1 << 10),
            Body::Gateways { ticket, .. } => (halves(ticket), 0, 1 << 11),
        };
        let fields = Fields {
            flow: packet.flow,
            length: packet.last,
            sequence,
            acknowledgement,
            flags,
            entered: packet.entered.as_nanos(),
        };
        of_fields(key, &fields)
    }

    fn message(&mut self, at: Time, ends: Ends, payload: Vec<u8>) -> Option<Packet<Body>> {
        let bytes = run::ip_header(Family::V4) + UDP_HEADER + payload.len() as u32;
        let contents = Contents::Payload { source: ends.from, payload };
        Some(self.parcels.packet(at, ends, bytes, contents))
    }

    fn enclose(
        &mut self,
        at: Time,
        ends: Ends,
        envelope: Envelope,
        packet: Packet<Body>,
    ) -> Option<Packet<Body>> {
        let bytes = packet.last + encapsulation::ADDED_BYTES;
        let Packet { dscp, ecn, tag, mirrors, .. } = packet;
        let outer = self.parcels.packet(at, ends, bytes, Contents::Enclosed { envelope, packet });
        Some(Packet { dscp, ecn, tag, mirrors, ..outer })
    }

    fn decode(&mut self, _: &Packet<Body>, _: &[u8]) -> Option<Packet<Body>> {
        // Packets of this engine have no bytes.
        None
    }

    fn open(&mut self, packet: &Packet<Body>) -> Option<Contents<Body>> {
        let Body::Gateways { ticket, .. } = packet.body else { return None };
        // A bit error fails the checksum.
        self.parcels.tickets.take(ticket).filter(|_| packet.corrupt.is_none())
    }
}
