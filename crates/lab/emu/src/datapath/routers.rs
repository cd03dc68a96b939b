//! Packets that emulated routers send: ICMP errors, echo replies, fragments.

use std::net::IpAddr;

use base::{IfaceId, NodeId, Time};
use fabric::{Fabric, Packet, Refusal};
use lab::plan::Plan;
use run::calls::CallWriter;
use wire::icmp::{self, Problem};
use wire::{Header, Offload};

use super::buffer::{Body, Pool};
use super::egress::assemble;
use super::ingress::Ingress;

/// Generates the replies of all routers of the fabric.
pub(super) struct Routers<'a> {
    pub(super) plan: &'a Plan,
    pub(super) ingress: &'a Ingress,
    pub(super) pool: &'a Pool,
    pub(super) calls: Option<&'a mut CallWriter>,
}

impl Routers<'_> {
    /// Handles a packet addressed to a router.
    pub(super) fn local(
        &mut self,
        fabric: &mut Fabric<Body>,
        node: NodeId,
        packet: &Packet<Body>,
        at: Time,
    ) {
        if let Some(reply) = icmp::answer(&assemble(packet, packet.first)) {
            self.originate(fabric, node, reply, at);
        }
    }

    /// Handles a packet that a router could not forward.
    pub(super) fn refused(
        &mut self,
        fabric: &mut Fabric<Body>,
        (node, iface): (NodeId, IfaceId),
        packet: &Packet<Body>,
        why: Refusal,
        at: Time,
    ) {
        let problem = match why {
            Refusal::TtlExceeded => Problem::TtlExceeded,
            Refusal::NoRoute => Problem::NoRoute,
            Refusal::TooBig { mtu } => {
                let first = assemble(packet, packet.first);
                let may_fragment = Header::parse(&first).is_some_and(|h| !h.dont_fragment);
                if may_fragment {
                    for segment in packet.first..packet.first + packet.count {
                        for part in wire::fragment(&assemble(packet, segment), mtu as usize) {
                            self.originate(fabric, node, part, at);
                        }
                    }
                    return;
                }
                Problem::TooBig { mtu }
            }
        };
        // One ICMP message for all segments of a super-packet is sufficient for the sender.
        let bytes = assemble(packet, packet.first);
        let Some(from) = self.address(iface, packet.body.version) else { return };
        if let Some(message) = icmp::error(&bytes, problem, from) {
            self.originate(fabric, node, message, at);
        }
    }

    fn address(&self, iface: IfaceId, version: u8) -> Option<IpAddr> {
        let iface = &self.plan.ifaces[iface.index()];
        match version {
            4 => iface.v4.map(|(v4, _)| v4.into()),
            _ => iface.v6.map(|(v6, _)| v6.into()),
        }
    }

    fn originate(&mut self, fabric: &mut Fabric<Body>, node: NodeId, bytes: Vec<u8>, at: Time) {
        if let Some(packet) = self.ingress.describe(self.pool, bytes, 0, Offload::default()) {
            let packet = Packet { entered: at, ..packet };
            if let Some(calls) = &mut self.calls {
                calls.originate(fabric.now(), node, &packet);
            }
            fabric.originate(fabric.now(), node, packet);
        }
    }
}
