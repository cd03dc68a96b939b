//! Inputs that are no packets: archives, and routers that monitor themselves. Both become the same
//! [`crate::Event`]s as clones do, for the same sinks.

pub mod bmp;
pub mod mrt;

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use bgp::capability::code;
use bgp::open::Open;
use bgp::{Asn, Message, MessageType, Negotiated};

use crate::{MirrorId, Peering, PeeringId, Sender};

/// What an input met, and what came of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Records or packets that were framed.
    pub records: u64,
    /// Messages that were told.
    pub messages: u64,
    /// Changes of state that were told.
    pub states: u64,
    /// Routes of tables that were told as UPDATEs.
    pub routes: u64,
    /// Statistics of routers; nothing is told of them.
    pub statistics: u64,
    /// Records that are about something else, or about a view that was not asked for.
    pub other: u64,
    /// Records that name no peer, or one that no table names, or one of too many with its address.
    pub unattributed: u64,
    /// Peers of tables that only an unknown mirror tells apart from another peer of their table.
    pub ambiguous: u64,
    /// Records that cannot be read, and routes without a next hop.
    pub undecodable: u64,
    /// Bytes that belong to no record.
    pub damaged: u64,
}

/// A peering without any knowledge of its session.
fn peering(mirror: MirrorId, id: u32, peer: IpAddr, peer_as: Asn) -> Peering {
    let local = match peer {
        IpAddr::V4(_) => IpAddr::V4(Ipv4Addr::UNSPECIFIED),
        IpAddr::V6(_) => IpAddr::V6(Ipv6Addr::UNSPECIFIED),
    };
    Peering {
        id: PeeringId(id),
        mirror,
        peer,
        peer_as,
        peer_id: 0,
        local,
        local_as: Asn::ZERO,
        local_id: 0,
        from_peer: Negotiated::default(),
        from_local: Negotiated::default(),
        certain: false,
        session: 0,
    }
}

/// Takes over what an OPEN says of its sender.
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
