//! Captures: the headers of simulated packets as bytes. Payload is counted, not stored, so a file
//! has the headers of each packet and its length.

use std::net::IpAddr;

use base::{IfaceId, Time};
use fabric::{DropReason, Fabric, Packet};
use lab::plan::Plan;
use run::{CaptureId, PacketRecord, RecorderHandle};
use transport::tcp::HeaderFields;
use wire::{IpFields, Protocol, UDP_HEADER, checksum, ip_header, pseudo_header_of, udp_header};

use crate::net::{Body, EndId, Leg};

/// Ports of the ends that connect begin here, those of the ends that accept at
/// [`FIRST_SERVER_PORT`].
const FIRST_PORT: u32 = 1024;
const FIRST_SERVER_PORT: u32 = 5001;
/// Number of ports from [`FIRST_PORT`] on.
const PORTS: u32 = (1 << 16) - FIRST_PORT;
/// IP protocol of control packets: for experiments (RFC 3692 §2.1).
const EXPERIMENT: u8 = 253;

/// Writes the packets at interfaces to capture files.
pub(crate) struct Captures {
    recorder: RecorderHandle,
    /// By `IfaceId` of the original plan.
    ifaces: Vec<Option<CaptureId>>,
}

impl Captures {
    /// `ifaces` has the capture file of each interface of the plan.
    pub(crate) const fn new(recorder: RecorderHandle, ifaces: Vec<Option<CaptureId>>) -> Self {
        Self { recorder, ifaces }
    }

    /// Begins to watch the interfaces. `original` converts an `IfaceId` of the sorted plan.
    pub(crate) fn watch(
        &mut self,
        fabric: &mut Fabric<Body>,
        original: impl Fn(IfaceId) -> IfaceId,
    ) {
        let sorted = (0..self.ifaces.len()).map(IfaceId::at);
        self.ifaces = sorted.clone().map(|iface| self.ifaces[original(iface).index()]).collect();
        for iface in sorted.filter(|iface| self.ifaces[iface.index()].is_some()) {
            fabric.watch_lazily(iface);
        }
    }

    /// Writes a packet that is at an interface.
    pub(crate) fn write(
        &self,
        (plan, legs): (&Plan, &[[Leg; 2]]),
        (iface, outbound): (IfaceId, bool),
        packet: &Packet<Body>,
        dropped: Option<DropReason>,
        at: Time,
    ) {
        let Some(capture) = self.ifaces.get(iface.index()).copied().flatten() else { return };
        let bytes = headers(plan, legs, packet).unwrap_or_default();
        let (length, dropped) = (packet.last, dropped.map(run::DropReason::from));
        self.recorder.packet(&PacketRecord {
            at,
            capture,
            outbound,
            dropped,
            bytes: &bytes,
            length,
        });
    }
}

/// The headers of a packet. `None` if an end has no address of the packet's family.
fn headers(plan: &Plan, legs: &[[Leg; 2]], packet: &Packet<Body>) -> Option<Vec<u8>> {
    let to = packet.to?;
    let (from, protocol) = match packet.body {
        Body::Segment { from, .. } => (from, Protocol::TCP),
        Body::Datagram { flow, .. } => {
            let [client, server] = &legs[flow as usize];
            (if to == client.to { client.own } else { server.own }, Protocol::UDP)
        }
        Body::Gateways { from, .. } => (from, Protocol::UDP),
        Body::Control { .. } => (IfaceId(to.0 ^ 1), EXPERIMENT),
    };
    let header = match packet.body {
        Body::Segment { segment, .. } => {
            packet.last - segment.header_bytes() - u32::from(segment.length)
        }
        Body::Datagram { flow, .. } => u32::from(legs[flow as usize][0].header),
        Body::Control { .. } | Body::Gateways { .. } => 20,
    };
    let address = |iface: IfaceId| {
        let iface = &plan.ifaces[iface.index()];
        match header {
            20 => iface.v4.map(|(address, _)| IpAddr::V4(address)),
            _ => iface.v6.map(|(address, _)| IpAddr::V6(address)),
        }
    };
    let payload = packet.last.saturating_sub(header) as u16;
    let traffic_class = packet.dscp << 2 | packet.ecn.bits();
    let fields = IpFields { traffic_class, ttl: packet.ttl, protocol, payload };
    let mut bytes = ip_header(address(from)?, address(to)?, fields)?;
    let (start, pseudo) = (bytes.len(), pseudo_header_of(&bytes, fields));
    // The payload counts as zeros.
    let sum = |bytes: &[u8]| !checksum::fold(checksum::add(pseudo, &bytes[start..]));
    match packet.body {
        Body::Segment { end, segment, syn_options: (mss, window_scale), .. } => {
            segment.put_header(&mut bytes, &HeaderFields { ports: ports(end), mss, window_scale });
            let sum = sum(&bytes).to_be_bytes();
            bytes[start + 16..start + 18].copy_from_slice(&sum);
        }
        Body::Control { .. } => {}
        Body::Datagram { .. } | Body::Gateways { .. } => {
            let ports = match packet.body {
                Body::Datagram { flow, .. } => {
                    ports(EndId::new(flow, usize::from(to == legs[flow as usize][0].to)))
                }
                _ => [bundler::message::PORT; 2],
            };
            bytes.extend(udp_header(ports, payload));
            // 0 would mean "no checksum".
            let sum = Some(sum(&bytes)).filter(|sum| *sum > 0).unwrap_or(u16::MAX).to_be_bytes();
            bytes[start + UDP_HEADER - 2..start + UDP_HEADER].copy_from_slice(&sum);
        }
    }
    bytes.truncate(packet.last as usize);
    Some(bytes)
}

/// Source and destination port of a packet to an end: connections that exist at the same time have
/// different ports.
const fn ports(to: EndId) -> [u16; 2] {
    let number = to.connection();
    let client = (FIRST_PORT + number % PORTS) as u16;
    let server = (FIRST_SERVER_PORT + number / PORTS) as u16;
    if to.side() == 1 { [client, server] } else { [server, client] }
}
