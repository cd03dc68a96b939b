//! Inputs other than packets: archives and BMP. They produce the same [`crate::Event`]s as clones,
//! for the same sinks.

pub mod bmp;
pub mod mrt;

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use bgp::capability::code;
use bgp::open::Open;
use bgp::{Asn, Message, MessageType};

use crate::{MirrorId, Peering, PeeringId, Sender};

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    pub records: u64,
    pub messages: u64,
    pub states: u64,
    pub routes: u64,
    /// Statistics Reports of routers, which produce no events.
    pub statistics: u64,
    /// Records of other types, or of a view that was not selected.
    pub other: u64,
    /// Records without a known peer, or of a peer above the limit per address.
    pub unattributed: u64,
    /// Peers of tables that differ from another peer only in an unknown mirror.
    pub ambiguous: u64,
    /// Undecodable records, and routes without a next hop.
    pub undecodable: u64,
    pub damaged: u64,
}

fn peering(mirror: MirrorId, id: u32, peer: IpAddr, peer_as: Asn) -> Peering {
    let local = match peer {
        IpAddr::V4(_) => IpAddr::V4(Ipv4Addr::UNSPECIFIED),
        IpAddr::V6(_) => IpAddr::V6(Ipv6Addr::UNSPECIFIED),
    };
    Peering { peer_as, ..Peering::new(PeeringId(id), mirror, peer, local) }
}

fn learn(peering: &mut Peering, from: Sender, message: Message<'_>) {
    if message.kind() != MessageType::OPEN {
        return;
    }
    let Ok(open) = Open::parse(message.body()) else { return };
    let (asn, id) = match from {
        Sender::Peer => (&mut peering.peer_as, &mut peering.peer_id),
        Sender::Local => (&mut peering.local_as, &mut peering.local_id),
    };
    let four_octets = open.capabilities().any(|one| one.code() == code::FOUR_OCTET_AS);
    if four_octets || *asn == Asn::ZERO {
        *asn = open.asn();
    }
    *id = open.id;
}
