//! Classification of packets when they enter the fabric.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr};

use base::{IfaceId, Time};
use fabric::{Ecn, Packet, Part};
use lab::plan::{Filter, Iface, Plan, Uplink};
use wire::{Address, Header, Offload, SuperPacket};

use super::buffer::{Body, Pool};
use crate::enclosure::link_local;

/// Lookup tables of addresses and of the mirror sessions' filters.
#[derive(Debug)]
pub(super) struct Ingress {
    owners: HashMap<Address, IfaceId>,
    /// An interface of the router with the uplink: the destination of packets to the outside.
    outside: Option<IfaceId>,
    filters: Vec<MirrorFilter>,
}

/// A mirror's filter with resolved addresses.
#[derive(Debug)]
struct MirrorFilter {
    filter: Filter,
    host: Option<Vec<Address>>,
    source: Option<Vec<Address>>,
    destination: Option<Vec<Address>>,
}

/// The addresses of an interface in the format of the data path.
pub(super) fn addresses(iface: &Iface) -> impl Iterator<Item = Address> {
    let v4 = iface.v4.map(|(v4, _)| v4.to_ipv6_mapped().to_bits());
    v4.into_iter().chain(iface.v6.map(|(v6, _)| v6.to_bits()))
}

impl Ingress {
    pub(super) fn new(plan: &Plan) -> Self {
        let owned = |(at, iface): (usize, &Iface)| {
            let id = IfaceId::at(at);
            let all = addresses(iface).chain([link_local(id).to_bits()]);
            all.map(move |one| (one, id)).collect::<Vec<_>>()
        };
        let owners = plan.ifaces.iter().enumerate().flat_map(owned).collect();
        let of_node = |node: base::NodeId| {
            let ifaces = plan.nodes[node.index()].ifaces.iter();
            ifaces.flat_map(|iface| addresses(&plan.ifaces[iface.index()])).collect()
        };
        let filters = plan
            .mirrors
            .iter()
            .map(|mirror| MirrorFilter {
                filter: mirror.filter.clone(),
                host: mirror.filter.host.map(of_node),
                source: mirror.filter.src_host.map(of_node),
                destination: mirror.filter.dst_host.map(of_node),
            })
            .collect();
        let outside = match plan.uplink {
            Uplink::Router(node) => plan.nodes[node.index()].ifaces.first().copied(),
            Uplink::None | Uplink::Hosts => None,
        };
        Self { owners, outside, filters }
    }

    /// The interface with this address.
    pub(super) fn owner(&self, address: Address) -> Option<IfaceId> {
        self.owners.get(&address).copied()
    }

    /// The interface to which a packet with this destination is routed.
    fn destination(&self, address: Address) -> Option<IfaceId> {
        self.owner(address).or_else(|| self.outside.filter(|_| !is_local(address)))
    }

    /// Describes a packet whose bytes begin at `start`; `None` (and the buffer is recycled) if
    /// the packet is malformed.
    pub(super) fn describe(
        &self,
        pool: &Pool,
        bytes: Vec<u8>,
        start: usize,
        offload: Offload,
    ) -> Option<Packet<Body>> {
        let parsed = bytes.get(start..).and_then(|packet| {
            let header = Header::parse(packet)?;
            Some((header, SuperPacket::new(packet, &header, offload)?))
        });
        let Some((header, layout)) = parsed else {
            pool.give_back(bytes);
            return None;
        };
        let (segment, last) = layout.sizes();
        Some(Packet {
            body: pool.body(bytes, start, layout, header.version),
            first: 0,
            count: layout.count(),
            to: self.destination(header.destination),
            link_scope: is_local(header.source) || is_local(header.destination),
            flow: header.flow_hash(),
            segment,
            last,
            ttl: header.ttl,
            dscp: header.dscp,
            ecn: Ecn::from_bits(header.ecn),
            corrupt: None,
            mirrors: self.mirrors(&header),
            part: part(&header),
            tag: 0,
            entered: Time::ZERO,
        })
    }

    fn mirrors(&self, header: &Header) -> u64 {
        let matches = self.filters.iter().enumerate().filter(|(_, rule)| rule.matches(header));
        matches.fold(0, |mask, (at, _)| mask | 1 << at)
    }
}

/// Whether routers do not forward packets to this address: multicast, broadcast, link-local.
fn is_local(address: Address) -> bool {
    match Ipv6Addr::from_bits(address).to_canonical() {
        IpAddr::V4(v4) => v4.is_multicast() || v4.is_broadcast() || v4.is_link_local(),
        IpAddr::V6(v6) => v6.is_multicast() || v6.is_unicast_link_local(),
    }
}

impl MirrorFilter {
    fn matches(&self, header: &Header) -> bool {
        let Filter { protocol, port, src_port, dst_port, version, .. } = self.filter;
        let among = |wanted: &Option<Vec<Address>>, is: &[Address]| {
            wanted.as_ref().is_none_or(|wanted| is.iter().any(|one| wanted.contains(one)))
        };
        protocol.is_none_or(|wanted| wanted == header.protocol)
            && version.is_none_or(|wanted| wanted == header.version)
            && port.is_none_or(|wanted| wanted == header.ports.0 || wanted == header.ports.1)
            && src_port.is_none_or(|wanted| wanted == header.ports.0)
            && dst_port.is_none_or(|wanted| wanted == header.ports.1)
            && among(&self.host, &[header.source, header.destination])
            && among(&self.source, &[header.source])
            && among(&self.destination, &[header.destination])
    }
}

/// The role of the packet in its flow (RFC 9293 §3.1).
fn part(header: &Header) -> Part {
    const FIN: u8 = 1;
    const SYN: u8 = 2;
    const RST: u8 = 4;
    const ACK: u8 = 16;
    match header.tcp {
        None => Part::Datagram,
        Some((flags, _)) if flags & RST != 0 => Part::Reset,
        Some((flags, _)) if flags & FIN != 0 => Part::Closing,
        Some((flags, _)) if flags & (SYN | ACK) == SYN => Part::Opening,
        Some((_, true)) => Part::Data,
        Some((_, false)) => Part::Bare,
    }
}
