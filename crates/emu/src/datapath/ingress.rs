//! What a packet is, decided once, when it enters.

use std::collections::HashMap;

use base::{IfaceId, Time};
use fabric::{Ecn, Packet, Part};
use lab::plan::{Filter, Iface, Plan};
use wire::{Address, Header, Offload, SuperPacket};

use super::buffer::{Body, Pool};

/// Knows whose address is whose, and which mirror session wants what.
#[derive(Debug)]
pub(super) struct Ingress {
    owners: HashMap<Address, IfaceId>,
    filters: Vec<Rule>,
}

/// A mirror's filter with addresses looked up.
#[derive(Debug)]
struct Rule {
    filter: Filter,
    host: Option<Vec<Address>>,
    source: Option<Vec<Address>>,
    destination: Option<Vec<Address>>,
}

/// The addresses of an interface as the data path compares them.
pub(super) fn addresses(iface: &Iface) -> impl Iterator<Item = Address> {
    let v4 = iface.v4.map(|(v4, _)| v4.to_ipv6_mapped().to_bits());
    v4.into_iter().chain(iface.v6.map(|(v6, _)| v6.to_bits()))
}

impl Ingress {
    pub(super) fn new(plan: &Plan) -> Self {
        let owners = plan
            .ifaces
            .iter()
            .enumerate()
            .flat_map(|(at, iface)| addresses(iface).map(move |one| (one, IfaceId::at(at))))
            .collect();
        let of_node = |node: base::NodeId| {
            let ifaces = plan.nodes[node.index()].ifaces.iter();
            ifaces.flat_map(|iface| addresses(&plan.ifaces[iface.index()])).collect()
        };
        let filters = plan
            .mirrors
            .iter()
            .map(|mirror| Rule {
                filter: mirror.filter.clone(),
                host: mirror.filter.host.map(of_node),
                source: mirror.filter.src_host.map(of_node),
                destination: mirror.filter.dst_host.map(of_node),
            })
            .collect();
        Self { owners, filters }
    }

    /// The interface with this address.
    pub(super) fn owner(&self, address: Address) -> Option<IfaceId> {
        self.owners.get(&address).copied()
    }

    /// Describes a packet whose bytes begin at `start`; `None` (and the buffer goes back) if no
    /// network could carry it.
    pub(super) fn describe(
        &self,
        pool: &Pool,
        bytes: Vec<u8>,
        start: usize,
        offload: Offload,
    ) -> Option<Packet<Body>> {
        let understood = bytes.get(start..).and_then(|packet| {
            let header = Header::parse(packet)?;
            Some((header, SuperPacket::new(packet, &header, offload)?))
        });
        let Some((header, layout)) = understood else {
            pool.give_back(bytes);
            return None;
        };
        let (segment, last) = layout.sizes();
        Some(Packet {
            body: pool.body(bytes, start, layout, header.version),
            first: 0,
            count: layout.count(),
            to: self.owner(header.destination),
            flow: header.flow_hash(),
            segment,
            last,
            ttl: header.ttl,
            dscp: header.dscp,
            ecn: if header.ecn == 0 { Ecn::NotCapable } else { Ecn::Capable },
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

impl Rule {
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

/// What the packet is to its flow (RFC 9293 §3.1).
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
