//! Bundler gateways in the data path. Their UDP datagrams are ordinary packets
//! and appear in captures.

use std::net::{IpAddr, SocketAddr};

use base::{IfaceId, NodeId, Time};
use bundler::digest::{DigestKey, Fields, of_fields, of_packet};
use bundler::encapsulation::{Envelope, HEADER};
use bundler_lab::{Contents, Driver, Ends, PORT};
use fabric::{Ecn, Fabric, Packet};
use lab::plan::{Iface, Plan};
use run::calls::CallWriter;
use wire::{Header, Offload, Protocol, UDP_HEADER};

use super::buffer::{Body, Pool};
use super::egress::assemble;
use super::ingress::Ingress;

/// The interface of gateways to the data path.
pub(super) struct Host<'a> {
    pub(super) fabric: &'a mut Fabric<Body>,
    pub(super) plan: &'a Plan,
    pub(super) ingress: &'a Ingress,
    pub(super) pool: &'a Pool,
    pub(super) calls: Option<&'a mut CallWriter>,
}

impl Host<'_> {
    /// Creates a datagram between gateways, which enters the fabric at `entered`.
    fn datagram(
        &self,
        entered: Time,
        ends: Ends,
        traffic_class: u8,
        payload: &[u8],
    ) -> Option<Packet<Body>> {
        let ifaces = [ends.from, ends.to].map(|end| &self.plan.ifaces[end.index()]);
        let [from, to] = addresses(ifaces)?.map(|address| SocketAddr::new(address, PORT));
        let bytes = wire::datagram(from, to, traffic_class, payload)?;
        let packet = self.ingress.describe(self.pool, bytes, 0, Offload::default())?;
        Some(Packet { entered, ..packet })
    }
}

/// The addresses of both ends in an address family that both have.
fn addresses(ifaces: [&Iface; 2]) -> Option<[IpAddr; 2]> {
    match ifaces.map(|iface| iface.v4) {
        [Some((from, _)), Some((to, _))] => Some([from.into(), to.into()]),
        _ => match ifaces.map(|iface| iface.v6) {
            [Some((from, _)), Some((to, _))] => Some([from.into(), to.into()]),
            _ => None,
        },
    }
}

impl Driver<Body> for Host<'_> {
    fn fabric(&mut self) -> &mut Fabric<Body> {
        self.fabric
    }

    fn forward(&mut self, at: Time, iface: IfaceId, packet: Packet<Body>) {
        let at = at.max(self.fabric.now());
        if let Some(calls) = &mut self.calls {
            calls.forward(at, iface, &packet);
        }
        self.fabric.forward(at, iface, packet);
    }

    fn originate(&mut self, at: Time, node: NodeId, packet: Packet<Body>) {
        let at = at.max(self.fabric.now());
        if let Some(calls) = &mut self.calls {
            calls.originate(at, node, &packet);
        }
        self.fabric.originate(at, node, packet);
    }

    fn digest(&mut self, key: &DigestKey, packet: &Packet<Body>) -> u64 {
        // The digest of a segment is that of the bytes that leave the lab, including the checksum.
        of_packet(key, &assemble(packet, packet.first)).unwrap_or_else(|| {
            let (flow, length) = (packet.flow, packet.last);
            let entered = packet.entered.as_nanos();
            of_fields(key, &Fields { flow, length, entered, ..Fields::default() })
        })
    }

    fn message(&mut self, at: Time, ends: Ends, payload: Vec<u8>) -> Option<Packet<Body>> {
        self.datagram(at, ends, 0, &payload)
    }

    fn enclose(
        &mut self,
        _: Time,
        ends: Ends,
        envelope: Envelope,
        packet: Packet<Body>,
    ) -> Option<Packet<Body>> {
        let inner = assemble(&packet, packet.first);
        let class = Header::parse(&inner).map_or(0, |header| header.dscp << 2 | header.ecn);
        let mut payload = [&[0; HEADER], &inner[..]].concat();
        envelope.seal(&mut payload);
        let outer = self.datagram(packet.entered, ends, class, &payload)?;
        Some(Packet { ecn: packet.ecn, tag: packet.tag, mirrors: packet.mirrors, ..outer })
    }

    fn open(&mut self, packet: &Packet<Body>) -> Option<Contents<Body>> {
        let header = Header::parse(packet.body.packet())?;
        let ours = header.protocol == Protocol::UDP && header.ports.1 == PORT;
        if !ours || header.is_fragment || packet.count > 1 || packet.corrupt.is_some() {
            return None;
        }
        let bytes = assemble(packet, packet.first);
        let payload = bytes.get(usize::from(header.ip_length) + UDP_HEADER..)?;
        let source = self.ingress.owner(header.source)?;
        Some(Contents::Payload { source, payload: payload.to_vec() })
    }

    fn decode(&mut self, outer: &Packet<Body>, inner: &[u8]) -> Option<Packet<Body>> {
        let packet = self.ingress.describe(self.pool, inner.to_vec(), 0, Offload::default())?;
        let Packet { tag, entered, .. } = *outer;
        let is_marked = Header::parse(inner)?.ecn == 3;
        let ecn = if is_marked { Ecn::Marked } else { packet.ecn };
        Some(Packet { tag, entered, ecn, ..packet })
    }
}
