//! Reconstructs OPENs that were not captured.

use std::net::IpAddr;

use bgp::capability::Capability;
use bgp::negotiated::Families;
use bgp::open::{Open, OpenBuilder};
use bgp::{Family, HEADER, MARKER, Message, Negotiated};

use crate::{Peering, Sender};

/// Hold time of a reconstructed OPEN, in seconds: twice the value that RFC 4271 §10 suggests.
const HOLD_TIME: u16 = 180;

/// Reconstructs an OPEN of `from` that, together with the other OPEN (`other`, if captured),
/// results in the message encoding of `peering`. Its families are those of the other OPEN,
/// otherwise IPv4 and IPv6 unicast and those with path identifiers.
pub(super) fn inferred(peering: &Peering, from: Sender, other: Option<&[u8]>) -> Vec<u8> {
    let (asn, id, address, sends, takes) = match from {
        Sender::Peer => {
            let Peering { peer_as, peer_id, peer, from_peer, from_local, .. } = *peering;
            (peer_as, peer_id, peer, from_peer, from_local)
        }
        Sender::Local => {
            let Peering { local_as, local_id, local, from_peer, from_local, .. } = *peering;
            (local_as, local_id, local, from_local, from_peer)
        }
    };
    let other = other.and_then(Message::split);
    let other = other.and_then(|message| Open::parse(message.body()).ok());
    let hold_time = other.map_or(HOLD_TIME, |open| open.hold_time);
    let id = if id == 0 { identifier(address) } else { id };
    let mut builder = OpenBuilder::new(asn, hold_time, id);
    let both = [Family::IPV4_UNICAST, Family::IPV6_UNICAST];
    let paths = paths(sends, takes);
    let families = match other {
        Some(open) => open.families(),
        None => paths.iter().map(|path| path.0).chain(both).collect::<Families>(),
    };
    let add_path: Vec<[u8; 4]> = paths
        .iter()
        .map(|(Family { afi, safi }, takes, sends)| {
            let [high, low] = afi.0.to_be_bytes();
            [high, low, safi.0, u8::from(*takes) | u8::from(*sends) << 1]
        })
        .collect();
    let mut capabilities: Vec<_> = families.iter().map(Capability::Multiprotocol).collect();
    capabilities.push(Capability::RouteRefresh);
    if sends.four_octet_as || takes.four_octet_as {
        capabilities.push(Capability::FourOctetAs(asn));
    }
    if takes.extended_message {
        capabilities.push(Capability::ExtendedMessage);
    }
    if !add_path.is_empty() {
        capabilities.push(Capability::AddPath(&add_path));
    }
    let whole = capabilities.iter().try_for_each(|one| builder.capability(one).map(|_| ()));
    match whole.and_then(|()| builder.build()) {
        Ok(open) => open,
        // It can be too long only with more families than exist.
        Err(_) => bare(asn.two_octets(), hold_time, id),
    }
}

/// Families with path identifiers: whether the speaker receives and sends them.
fn paths(sends: Negotiated, takes: Negotiated) -> Vec<(Family, bool, bool)> {
    let all: Families = sends.add_path.iter().chain(takes.add_path.iter()).collect();
    let is_in = |family| (takes.add_path.contains(family), sends.add_path.contains(family));
    all.iter()
        .map(|family| {
            let (takes, sends) = is_in(family);
            (family, takes, sends)
        })
        .collect()
}

/// Default BGP identifier of routers: one of their addresses.
fn identifier(address: IpAddr) -> u32 {
    let bits = match address {
        IpAddr::V4(address) => address.to_bits(),
        IpAddr::V6(address) => address.to_bits() as u32,
    };
    bits.max(1)
}

fn bare(asn: u16, hold_time: u16, id: u32) -> Vec<u8> {
    let mut open = MARKER.to_vec();
    open.extend([0, HEADER as u8 + 10, 1, 4]);
    open.extend(asn.to_be_bytes());
    open.extend(hold_time.to_be_bytes());
    open.extend(id.to_be_bytes());
    open.push(0);
    open
}
