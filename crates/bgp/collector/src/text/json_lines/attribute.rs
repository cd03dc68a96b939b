//! Path attributes, typed.

use std::fmt::Display;
use std::net::IpAddr;

use bgp::attribute::{self, AsPath, Attribute, Attributes, MpReach, NextHop, Origin, RawAttribute};
use bgp::attribute::{SegmentKind, code};
use bgp::{Family, Negotiated, Result};

use super::super::{digits, json};

pub(super) fn write_list(list: Attributes<'_>, negotiated: Negotiated, out: &mut Vec<u8>) {
    let raw = list.map_while(Result::ok);
    json::array("attributes", raw, out, |raw, out| {
        write_one(&raw, Attribute::decode(raw, &negotiated), out);
    });
}

/// As [`write_list`], for a table dump of `family`.
pub(super) fn write_dumped(
    bytes: &[u8],
    family: Family,
    negotiated: Negotiated,
    out: &mut Vec<u8>,
) {
    let raw = Attributes::new(bytes, 0).map_while(Result::ok);
    json::array("attributes", raw, out, |raw, out| {
        let decoded = if raw.code == code::MP_REACH_NLRI {
            MpReach::parse_dumped(raw.value, family, raw.value_at()).map(Attribute::MpReach)
        } else {
            Attribute::decode(raw, &negotiated)
        };
        write_one(&raw, decoded, out);
    });
}

fn write_one(raw: &RawAttribute<'_>, decoded: Result<Attribute<'_>>, out: &mut Vec<u8>) {
    out.push(b'{');
    json::number("code", raw.code, out);
    json::number("flags", raw.flags, out);
    if let Some(name) = attribute::name(raw.code) {
        json::text("name", name, out);
    }
    match decoded {
        Ok(attribute) => write_value(raw, &attribute, out),
        Err(error) => {
            json::hex("hex", raw.value, out);
            json::text("error", &error.to_string(), out);
        }
    }
    out.push(b'}');
}

fn write_value(raw: &RawAttribute<'_>, attribute: &Attribute<'_>, out: &mut Vec<u8>) {
    match attribute {
        Attribute::MpReach(reach) => {
            json::key("family", out);
            json::family(reach.family, out);
            write_next_hop(&reach.next_hop(), out);
            return json::routes("announced", reach.routes(), reach.family, out);
        }
        Attribute::MpUnreach(unreach) => {
            json::key("family", out);
            json::family(unreach.family, out);
            return json::routes("withdrawn", unreach.routes(), unreach.family, out);
        }
        Attribute::Opaque(_) => return json::hex("hex", raw.value, out),
        _ => json::key("value", out),
    }
    match attribute {
        Attribute::Origin(origin) => {
            out.extend_from_slice(match origin {
                Origin::Igp => b"\"IGP\"",
                Origin::Egp => b"\"EGP\"",
                Origin::Incomplete => b"\"INCOMPLETE\"",
            });
        }
        Attribute::AsPath(path) | Attribute::As4Path(path) => write_path(*path, out),
        Attribute::NextHop(address) | Attribute::OriginatorId(address) => {
            quoted_address((*address).into(), out);
        }
        Attribute::MultiExitDisc(value) | Attribute::LocalPref(value) => {
            digits::decimal(u64::from(*value), out);
        }
        Attribute::AtomicAggregate => out.extend_from_slice(b"true"),
        Attribute::Aggregator(aggregator) | Attribute::As4Aggregator(aggregator) => {
            out.push(b'{');
            json::number("as", aggregator.asn.0, out);
            json::address_member("address", aggregator.address.into(), out);
            out.push(b'}');
        }
        Attribute::Communities(list) => json::list(list.iter(), out, |community, out| {
            out.push(b'"');
            digits::decimal(u64::from(community.upper()), out);
            out.push(b':');
            digits::decimal(u64::from(community.lower()), out);
            out.push(b'"');
        }),
        Attribute::ClusterList(list) => {
            json::list(list.iter(), out, |id, out| quoted_address(id.into(), out));
        }
        Attribute::LargeCommunities(list) => json::list(list.iter(), out, display),
        Attribute::ExtendedCommunities(list) => json::list(list.iter(), out, display),
        Attribute::OnlyToCustomer(asn) => digits::decimal(u64::from(asn.0), out),
        Attribute::Aigp(value) => match value.metric() {
            Some(metric) => digits::decimal(metric, out),
            None => out.extend_from_slice(b"null"),
        },
        _ => {
            out.push(b'"');
            digits::hex(raw.value, out);
            out.push(b'"');
        }
    }
}

fn display(value: impl Display, out: &mut Vec<u8>) {
    json::string(value.to_string().as_bytes(), out);
}

fn quoted_address(address: IpAddr, out: &mut Vec<u8>) {
    out.push(b'"');
    json::address(address, out);
    out.push(b'"');
}

/// Writes the member `next_hop`: an address, or an array of two; with the
/// route distinguisher first.
fn write_next_hop(next_hop: &NextHop<'_>, out: &mut Vec<u8>) {
    let pair = |pair: [IpAddr; 2], out: &mut Vec<u8>| {
        json::array("next_hop", pair, out, quoted_address);
    };
    match *next_hop {
        NextHop::None => {}
        NextHop::V4(address) | NextHop::VpnV4(_, address) => {
            json::address_member("next_hop", address.into(), out);
        }
        NextHop::V6(address) | NextHop::VpnV6(_, address) => {
            json::address_member("next_hop", address.into(), out);
        }
        NextHop::V4Pair(first, second) => pair([first.into(), second.into()], out),
        NextHop::V6Pair(global, local) | NextHop::VpnV6Pair([(_, global), (_, local)]) => {
            pair([global.into(), local.into()], out);
        }
        NextHop::Unknown(octets) => json::hex("next_hop_hex", octets, out),
    }
    let distinguisher = match *next_hop {
        NextHop::VpnV4(one, _) | NextHop::VpnV6(one, _) | NextHop::VpnV6Pair([(one, _), _]) => one,
        _ => 0,
    };
    if distinguisher != 0 {
        json::hex("next_hop_distinguisher", &distinguisher.to_be_bytes(), out);
    }
}

fn write_path(path: AsPath<'_>, out: &mut Vec<u8>) {
    out.push(b'[');
    for segment in path.segments() {
        let (open, close): (&[u8], &[u8]) = match segment.kind {
            SegmentKind::Sequence => (b"", b""),
            SegmentKind::Set => (b"[", b"]"),
            SegmentKind::ConfedSequence => (b"{\"confed\":[", b"]}"),
            SegmentKind::ConfedSet => (b"{\"confed_set\":[", b"]}"),
        };
        if out.last() != Some(&b'[') {
            out.push(b',');
        }
        out.extend_from_slice(open);
        for (at, asn) in segment.asns.enumerate() {
            if at > 0 {
                out.push(b',');
            }
            digits::decimal(u64::from(asn.0), out);
        }
        out.extend_from_slice(close);
    }
    out.push(b']');
}
