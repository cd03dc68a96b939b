//! Converts routes of tables to UPDATEs.

use crate::attribute::{self, Attributes};
use crate::{Afi, Error, Family, MARKER, MessageType, Result, Safi, message};

use super::mp_reach_next_hop;

const NEXT_HOP: u8 = 3;
const MP_REACH_NLRI: u8 = 14;
const MP_UNREACH_NLRI: u8 = 15;
/// Optional, not transitive (RFC 4760 §3).
const OPTIONAL: u8 = 0x80;

/// Appends an UPDATE that announces one route of a table. The original message is unknown: it may
/// have had other routes and another order of attributes.
///
/// `nlri` has no path identifier. IPv4 unicast is announced in the message itself if it has a
/// `NEXT_HOP` and no `MP_REACH_NLRI` of its family, all other routes in `MP_REACH_NLRI`. The next
/// hop is that of the table's `MP_REACH_NLRI` (RFC 4760 §3) or, for writers that omit it there, of
/// `NEXT_HOP` or of `next_hop`. `out` stays
/// unchanged on failure: the attributes cannot be framed, the next hop is missing (BIRD has such
/// routes), or the message exceeds 65,535 octets.
pub fn announcement(
    out: &mut Vec<u8>,
    family: Family,
    path_id: Option<u32>,
    nlri: &[u8],
    attributes: &[u8],
    next_hop: Option<&[u8]>,
) -> Result<()> {
    let start = out.len();
    let written = write(out, family, path_id, nlri, attributes, next_hop);
    if written.is_err() {
        out.truncate(start);
    }
    written
}

fn write(
    out: &mut Vec<u8>,
    family: Family,
    path_id: Option<u32>,
    nlri: &[u8],
    attributes: &[u8],
    next_hop: Option<&[u8]>,
) -> Result<()> {
    let start = out.len();
    out.extend_from_slice(&MARKER);
    out.extend_from_slice(&[0, 0, MessageType::UPDATE.0, 0, 0, 0, 0]);
    let value = |code| {
        let mut all = Attributes::new(attributes, 0).map_while(Result::ok);
        all.find(|raw| raw.code == code).map(|raw| raw.value)
    };
    let v4 = value(NEXT_HOP);
    let mp = value(MP_REACH_NLRI).filter(|value| v4.is_none() || is_of(value, family));
    let plain = family == Family::IPV4_UNICAST && v4.is_some() && mp.is_none();
    let begin = out.len();
    for raw in Attributes::new(attributes, 0) {
        let raw = raw?;
        match raw.code {
            MP_REACH_NLRI | MP_UNREACH_NLRI => {}
            NEXT_HOP if !plain => {}
            code => attribute::encode(raw.flags, code, raw.value, out)?,
        }
    }
    let id = path_id.map(u32::to_be_bytes);
    let id = id.as_ref().map_or(&[][..], |id| &id[..]);
    if !plain {
        let next_hop = mp.and_then(mp_reach_next_hop).or(v4).or(next_hop).ok_or(Error::Short {
            field: "next hop",
            at: 0,
            need: 4,
            have: 0,
        })?;
        let value = reach(family, next_hop, id, nlri)?;
        attribute::encode(OPTIONAL, MP_REACH_NLRI, &value, out)?;
    }
    let length = out.len() - begin;
    if plain {
        out.extend_from_slice(id);
        out.extend_from_slice(nlri);
    }
    let size = out.len() - start;
    if size > message::MAX_EXTENDED {
        return Err(Error::Long { field: "UPDATE", size, limit: message::MAX_EXTENDED });
    }
    out[start + 16..start + 18].copy_from_slice(&(size as u16).to_be_bytes());
    out[begin - 2..begin].copy_from_slice(&(length as u16).to_be_bytes());
    Ok(())
}

/// Whether the `MP_REACH_NLRI` beside a `NEXT_HOP` applies to a route of `family`, and not to other
/// routes of the same UPDATE.
fn is_of(value: &[u8], family: Family) -> bool {
    let [high, low] = family.afi.0.to_be_bytes();
    let is_alone = value.split_first().is_some_and(|(length, rest)| {
        usize::from(*length) == rest.len() && (rest.len() == 4 || family != Family::IPV4_UNICAST)
    });
    is_alone || value.starts_with(&[high, low, family.safi.0])
}

/// The value of `MP_REACH_NLRI`.
fn reach(family: Family, next_hop: &[u8], id: &[u8], nlri: &[u8]) -> Result<Vec<u8>> {
    // VPN next hops have a route distinguisher of zero (RFC 4364 §4.3.2), NEXT_HOP does not.
    let is_vpn = matches!(family.safi, Safi::MPLS_VPN | Safi::MCAST_MPLS_VPN);
    let distinguisher = if is_vpn && next_hop.len() == 4 { &[0; 8][..] } else { &[] };
    let length = distinguisher.len() + next_hop.len();
    let Ok(length) = u8::try_from(length) else {
        return Err(Error::Long { field: "next hop", size: length, limit: 255 });
    };
    let Afi(afi) = family.afi;
    let mut value = afi.to_be_bytes().to_vec();
    value.extend_from_slice(&[family.safi.0, length]);
    value.extend_from_slice(distinguisher);
    value.extend_from_slice(next_hop);
    value.push(0);
    value.extend_from_slice(id);
    value.extend_from_slice(nlri);
    Ok(value)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Message;
    use crate::update::Update;

    fn update(family: Family, id: Option<u32>, nlri: &[u8], attributes: &[u8]) -> Vec<u8> {
        let mut out = vec![7];
        announcement(&mut out, family, id, nlri, attributes, None).unwrap();
        let message = Message::split(&out[1..]).unwrap();
        assert_eq!(message.bytes().len(), out.len() - 1);
        message.body().to_vec()
    }

    const ORIGIN: [u8; 4] = [0x40, 1, 1, 0];

    #[test]
    fn ipv4_stands_in_the_message() {
        let attributes = [&ORIGIN[..], &[0x40, 3, 4, 192, 0, 2, 1]].concat();
        let body = update(Family::IPV4_UNICAST, Some(5), &[8, 10], &attributes);
        assert_eq!(body[4..15], attributes[..]);
        assert_eq!(body[15..], [0, 0, 0, 5, 8, 10]);
    }

    #[test]
    fn next_hop_of_mp_reach_applies() {
        let next_hop = [0x40, 3, 4, 192, 0, 2, 99];
        let reach = |reach: &[u8]| {
            let attributes = [&ORIGIN[..], &next_hop, reach].concat();
            update(Family::IPV4_UNICAST, None, &[8, 10], &attributes)
        };
        // Alone, or with its family: the route was announced in it (RFC 4760 §3).
        let own = reach(&[0x80, 14, 5, 4, 192, 0, 2, 77]);
        assert_eq!(own[8..], [0x80, 14, 11, 0, 1, 1, 4, 192, 0, 2, 77, 0, 8, 10]);
        assert_eq!(reach(&[0x80, 14, 11, 0, 1, 1, 4, 192, 0, 2, 77, 0, 8, 10]), own);
        // Of other routes of the same UPDATE.
        let other = reach(&[0x80, 14, 8, 0, 2, 1, 2, 1, 1, 0, 0]);
        assert_eq!(other[8..], [&next_hop[..], &[8, 10]].concat());
    }

    #[test]
    fn a_next_hop_is_found_abridged_or_whole() {
        let next_hop = [0x20; 16];
        let abridged = [&ORIGIN[..], &[0x80, 14, 17, 16], &next_hop].concat();
        let whole =
            [&ORIGIN[..], &[0x80, 14, 24, 0, 2, 1, 16], &next_hop, &[0, 16, 0x20, 0x02]].concat();
        let expected = update(Family::IPV6_UNICAST, None, &[16, 0x20, 0x01], &abridged);
        assert_eq!(update(Family::IPV6_UNICAST, None, &[16, 0x20, 0x01], &whole), expected);
        let update = Update::parse(&expected).unwrap();
        let reach = update.attributes().last().unwrap().unwrap();
        assert_eq!(reach.value[..4], [0, 2, 1, 16]);
        assert_eq!(reach.value[20..], [0, 16, 0x20, 0x01]);
    }

    #[test]
    fn a_route_without_next_hop_is_none() {
        let mut out = vec![7];
        let wrong = announcement(&mut out, Family::IPV6_UNICAST, None, &[0], &ORIGIN, None);
        assert!(wrong.is_err());
        assert_eq!(out, [7]);
    }
}
