//! The boxes of bundles in the packet engine.
//!
//! What boxes say to each other waits in `tickets.rs`, as what control packets carry does.

use std::collections::BTreeMap;

use base::{IfaceId, Time};
use bundler::digest::{DigestKey, Fields, of_fields};
use bundler::encapsulation::{self, Envelope};
use bundler::sendbox::Status;
use fabric::{Ecn, Fabric, Packet, Part};
use lab::plan::{Family, Plan};
use lab::routes::flow_hash;
use middlebox::{Change, Contents, Driver, Ends, Middleboxes};

use crate::Result;
use crate::control::Tickets;
use crate::net::{Body, Net, TTL, UDP_HEADER, mix};

/// All boxes of a lab.
pub(crate) struct Boxes {
    middleboxes: Middleboxes<Body>,
    parcels: Parcels,
}

/// Contents of the boxes' datagrams that are under way.
struct Parcels {
    tickets: Tickets<Contents<Body>>,
    /// From the name of the node at each interface of a box: what datagrams are told apart by.
    hashes: BTreeMap<IfaceId, u32>,
}

/// What the boxes call.
struct Host<'a> {
    fabric: &'a mut Fabric<Body>,
    parcels: &'a mut Parcels,
}

impl Boxes {
    /// The boxes of a sorted plan; `None` without bundles.
    pub(crate) fn try_new(plan: &Plan) -> Result<Option<Self>> {
        let Some(middleboxes) = Middleboxes::try_new(plan)? else { return Ok(None) };
        let nodes = plan.bundles.iter().flat_map(|bundle| [bundle.from, bundle.to]);
        let hashes = nodes.flat_map(|node| {
            let node = &plan.nodes[node.index()];
            let hash = flow_hash(&node.name, "", "");
            node.ifaces.iter().map(move |iface| (*iface, hash))
        });
        let parcels = Parcels { hashes: hashes.collect(), tickets: Tickets::default() };
        Ok(Some(Self { middleboxes, parcels }))
    }

    /// Whether packets that come through an interface are to be given to [`Self::deliver`].
    pub(crate) fn takes(&self, iface: IfaceId) -> bool {
        self.middleboxes.takes(iface)
    }

    /// When the lab next stops or starts a box; [`Time::MAX`] for never.
    pub(crate) fn next_event(&self) -> Time {
        self.middleboxes.next_event()
    }

    /// The lab stops or starts boxes at the present time.
    pub(crate) fn on_event(&mut self, net: &Net) {
        self.middleboxes.on_event(net.now);
    }

    /// When something is due; [`Time::MAX`] for never.
    pub(crate) const fn next_wake(&self) -> Time {
        self.middleboxes.next_wake()
    }

    /// A packet has come to a box. What comes back is for the box as for any other node.
    pub(crate) fn deliver(
        &mut self,
        net: &mut Net,
        iface: IfaceId,
        packet: Packet<Body>,
    ) -> Option<Packet<Body>> {
        let at = net.now;
        let host = &mut Host { fabric: &mut net.fabric, parcels: &mut self.parcels };
        self.middleboxes.deliver(host, at, iface, packet)
    }

    /// Something is due at the present time.
    pub(crate) fn on_wake(&mut self, net: &mut Net) {
        let at = net.now;
        let host = &mut Host { fabric: &mut net.fabric, parcels: &mut self.parcels };
        self.middleboxes.on_wake(host, at);
    }

    /// Routes have changed.
    pub(crate) fn reroute(&mut self) {
        self.middleboxes.reroute();
    }

    /// How each bundle does, in the order of the plan; `None` while its sendbox is stopped.
    pub(crate) fn statuses(&self) -> Vec<Option<Status>> {
        self.middleboxes.statuses()
    }

    /// Takes the changes of state since the last call.
    pub(crate) fn changes(&mut self) -> impl Iterator<Item = Change> {
        self.middleboxes.changes()
    }

    /// What a reader of the results should know.
    pub(crate) fn warnings(&self, plan: &Plan) -> Vec<String> {
        self.middleboxes.warnings(plan)
    }

    /// Bytes that packets and messages take.
    pub(crate) fn memory(&self) -> u64 {
        self.middleboxes.memory() + self.parcels.tickets.memory()
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
            body: Body::Boxes { ticket },
            first: 0,
            count: 1,
            to: Some(ends.to),
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
            Body::Boxes { ticket } => (halves(ticket), 0, 1 << 11),
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
        let bytes = outcome::ip_header(Family::V4) + UDP_HEADER + payload.len() as u32;
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
        let bytes = packet.last + encapsulation::OVERHEAD;
        let Packet { dscp, ecn, tag, mirrors, .. } = packet;
        let outer = self.parcels.packet(at, ends, bytes, Contents::Enclosed { envelope, packet });
        Some(Packet { dscp, ecn, tag, mirrors, ..outer })
    }

    fn decode(&mut self, _: &Packet<Body>, _: &[u8]) -> Option<Packet<Body>> {
        // Packets of this engine have no bytes.
        None
    }

    fn open(&mut self, packet: &Packet<Body>) -> Option<Contents<Body>> {
        let Body::Boxes { ticket } = packet.body else { return None };
        // A flipped bit fails the checksum.
        self.parcels.tickets.take(ticket).filter(|_| packet.corrupt.is_none())
    }
}
