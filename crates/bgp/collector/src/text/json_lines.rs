//! JSON Lines: one object per archive record or event, with all fields decoded, and the original
//! bytes in `raw`.
//!
//! A record's line has `time`, the names or numbers of its type (`mrt`, `subtype`), its fields,
//! and `raw`: all bytes of the record. An event's line has `time` and `ns` (nanoseconds since
//! 1970, which exceed the precision of a JSON number with a decimal point), the peering, the
//! event, and in `raw` the bytes of a message.
//!
//! | in an UPDATE | as |
//! |---|---|
//! | routes of IPv4 and IPv6 | `"10.0.0.0/8"`, or `{"path_id":1,"prefix":...}` |
//! | `AS_PATH` | `[1,2,[3,4]]`: sets are arrays; `{"confed":[...]}`, `{"confed_set":[...]}` |
//! | attributes | `{"code":8,"flags":192,"name":"COMMUNITIES","value":["65000:1"]}` |
//! | unknown ones | `{"code":99,"flags":192,"hex":"..."}`; damaged ones with `error` too |
//! | RFC 7606 | `verdict`: what a router should do, unless that is to accept |

mod attribute;
mod message;

use bgp::mrt::{Body, Form, Old, PeerIndexTable, Record, Rib, RibEntry, Session, TableDump, kind};
use bgp::nlri::Routes;
use bgp::{Family, Negotiated};

use super::json;
use crate::integrity::CAUSES;
use crate::rib;
use crate::{Confidence, Event, Peering, Reason, Sender};

/// States of RFC 4271, from number 1.
const STATES: [&str; 6] = ["Idle", "Connect", "Active", "OpenSent", "OpenConfirm", "Established"];

fn write_sender(sender: Sender, out: &mut Vec<u8>) {
    let name = match sender {
        Sender::Peer => "peer",
        Sender::Local => "local",
    };
    json::text("from", name, out);
}

pub fn record(record: &Record<'_>, out: &mut Vec<u8>) {
    out.extend_from_slice(b"{\"time\":");
    json::time(record.time, 6, out);
    match record.kind {
        kind::TABLE_DUMP => json::text("mrt", "TABLE_DUMP", out),
        kind::TABLE_DUMP_V2 => json::text("mrt", "TABLE_DUMP_V2", out),
        kind::BGP4MP => json::text("mrt", "BGP4MP", out),
        kind::BGP4MP_ET => json::text("mrt", "BGP4MP_ET", out),
        kind => json::number("mrt", kind, out),
    }
    json::number("subtype", record.subtype, out);
    match record.parse() {
        Ok(body) => write_body(&body, out),
        Err(error) => json::text("error", &error.to_string(), out),
    }
    json::hex("raw", record.bytes, out);
    out.extend_from_slice(b"}\n");
}

fn write_body(body: &Body<'_>, out: &mut Vec<u8>) {
    match body {
        Body::Message(message) => {
            write_session(&message.session, out);
            let sender = if message.form.local { Sender::Local } else { Sender::Peer };
            write_sender(sender, out);
            write_form(message.form, out);
            match message.message() {
                Some(whole) => message::write(whole, message.form.negotiated(), out),
                None => {
                    json::text(
                        "error",
                        "the message's length does not match its length field",
                        out,
                    );
                }
            }
        }
        Body::StateChange(change) => {
            write_session(&change.session, out);
            write_states(change.old, change.new, out);
        }
        Body::TableDump(dump) => write_table_dump(dump, out),
        Body::PeerIndexTable(table) => write_peers(table, out),
        Body::Rib(rib) => write_rib(rib, out),
        Body::Old(old) => write_old(old, out),
        _ => {}
    }
}

fn write_session(session: &Session, out: &mut Vec<u8>) {
    json::address_member("peer", session.peer, out);
    json::number("peer_as", session.peer_as.0, out);
    json::address_member("local", session.local, out);
    json::number("local_as", session.local_as.0, out);
    json::number("interface", session.interface, out);
}

fn write_form(form: Form, out: &mut Vec<u8>) {
    json::flag("as4", form.four_octet_as, out);
    json::key("add_path", out);
    out.extend_from_slice(if form.add_path { b"true" } else { b"false" });
}

/// Writes states: names if the RFC defines them, otherwise numbers.
fn write_states(old: u16, new: u16, out: &mut Vec<u8>) {
    json::text("type", "STATE", out);
    for (key, state) in [("old", old), ("new", new)] {
        match STATES.get(usize::from(state).wrapping_sub(1)) {
            Some(name) => json::text(key, name, out),
            None => json::number(key, state, out),
        }
    }
}

fn write_old(old: &Old<'_>, out: &mut Vec<u8>) {
    match *old {
        Old::Message { subtype, peer_as, peer, local_as, local, body } => {
            let session = Session::new(peer_as, local_as, peer, local);
            write_session(&session, out);
            if let Some(kind) = Old::message_type(subtype) {
                message::write_content(kind, body, Negotiated::default(), out);
            }
        }
        Old::StateChange { peer_as, peer, old, new } => {
            json::address_member("peer", peer, out);
            json::number("peer_as", peer_as.0, out);
            write_states(old, new, out);
        }
        Old::Sync { view, file } => {
            json::number("view", view, out);
            json::key("file", out);
            json::string(file, out);
        }
    }
}

fn write_table_dump(dump: &TableDump<'_>, out: &mut Vec<u8>) {
    json::text("type", "ROUTE", out);
    json::number("view", dump.view, out);
    json::number("sequence", dump.sequence, out);
    json::key("prefix", out);
    json::prefix(dump.prefix, out);
    json::number("originated", dump.originated, out);
    json::address_member("peer", dump.peer, out);
    json::number("peer_as", dump.peer_as.0, out);
    let negotiated = Negotiated { four_octet_as: dump.four_octet_as, ..Negotiated::default() };
    let family = match dump.prefix {
        bgp::Prefix::V4(..) => Family::IPV4_UNICAST,
        bgp::Prefix::V6(..) => Family::IPV6_UNICAST,
    };
    attribute::write_dumped(dump.attributes, family, negotiated, out);
}

fn write_peers(table: &PeerIndexTable<'_>, out: &mut Vec<u8>) {
    json::text("type", "PEERS", out);
    json::address_member("collector", std::net::Ipv4Addr::from_bits(table.collector).into(), out);
    json::key("view", out);
    json::string(table.view, out);
    json::array("peers", table.peers().map_while(Result::ok), out, |peer, out| {
        out.push(b'{');
        json::address_member("peer", peer.address, out);
        json::number("peer_as", peer.asn.0, out);
        json::address_member("peer_id", std::net::Ipv4Addr::from_bits(peer.id).into(), out);
        out.push(b'}');
    });
}

fn write_rib(rib: &Rib<'_>, out: &mut Vec<u8>) {
    json::text("type", "ROUTES", out);
    json::number("sequence", rib.sequence, out);
    json::key("family", out);
    json::family(rib.family, out);
    json::key("prefix", out);
    match Routes::new(rib.nlri, rib.family, false).next() {
        Some(Ok(route)) => json::route(&route, rib.family, out),
        _ => out.extend_from_slice(b"null"),
    }
    if let Some(path_id) = rib.path_id {
        json::number("path_id", path_id, out);
    }
    let negotiated = Negotiated { four_octet_as: true, ..Negotiated::default() };
    let entry = |entry: RibEntry<'_>, out: &mut Vec<u8>| {
        out.push(b'{');
        json::number("peer", entry.peer, out);
        json::number("originated", entry.originated, out);
        if let Some(path_id) = entry.path_id {
            json::number("path_id", path_id, out);
        }
        attribute::write_dumped(entry.attributes, rib.family, negotiated, out);
        out.push(b'}');
    };
    json::array("routes", rib.entries().map_while(Result::ok), out, entry);
}

pub fn event(peering: &Peering, event: &Event<'_>, out: &mut Vec<u8>) {
    let time = match *event {
        Event::Message { time, .. } | Event::State { time, .. } => time,
        Event::Gap(gap) => gap.until,
        Event::Reading(reading) => reading.time,
    };
    out.extend_from_slice(b"{\"time\":");
    json::time(time, 6, out);
    json::number("ns", time.as_nanos(), out);
    write_peering(peering, out);
    match *event {
        Event::Message { from, message, .. } => {
            write_sender(from, out);
            let negotiated = match from {
                Sender::Peer => peering.from_peer,
                Sender::Local => peering.from_local,
            };
            message::write(message, negotiated, out);
            json::hex("raw", message.bytes(), out);
        }
        Event::State { old, new, reason, .. } => {
            write_states(old as u16, new as u16, out);
            write_reason(reason, out);
        }
        Event::Gap(gap) => {
            json::text("type", "GAP", out);
            write_sender(gap.from, out);
            json::number("since_ns", gap.since.as_nanos(), out);
            if let Some((_, name)) = CAUSES.iter().find(|(cause, _)| *cause == gap.cause) {
                json::text("cause", name, out);
            }
            json::number("missing", gap.missing, out);
            json::number("skipped", gap.skipped, out);
        }
        Event::Reading(reading) => {
            json::text("type", "READING", out);
            let confidence = match reading.confidence {
                Confidence::Assumed => "assumed",
                Confidence::Likely => "likely",
                Confidence::Proved => "proved",
            };
            json::text("confidence", confidence, out);
            json::number("otherwise", reading.otherwise, out);
        }
    }
    out.extend_from_slice(b"}\n");
}

/// Appends a route as an object without a newline: peering, time, attributes.
pub fn route(route: &rib::Route, out: &mut Vec<u8>) {
    out.push(b'{');
    json::address_member("peer", route.peering.peer, out);
    json::number("peer_as", route.peering.peer_as.0, out);
    json::address_member("local", route.peering.local, out);
    json::number("mirror", route.peering.mirror.0, out);
    json::key("family", out);
    json::family(route.family, out);
    json::key("prefix", out);
    match &route.destination {
        rib::Destination::Prefix(prefix) => json::prefix(*prefix, out),
        rib::Destination::Other(nlri) => match Routes::new(nlri, route.family, false).next() {
            Some(Ok(route_of_family)) => json::route(&route_of_family, route.family, out),
            _ => out.extend_from_slice(b"null"),
        },
    }
    if let Some(path_id) = route.path_id {
        json::number("path_id", path_id, out);
    }
    json::key("since", out);
    json::time(route.since, 6, out);
    json::flag("stale", route.stale, out);
    let negotiated = Negotiated { four_octet_as: true, ..Negotiated::default() };
    attribute::write_dumped(&route.attributes, route.family, negotiated, out);
    out.push(b'}');
}

fn write_reason(reason: Reason, out: &mut Vec<u8>) {
    let name = match reason {
        Reason::Seen => "seen",
        Reason::Inferred => "inferred",
        Reason::Notification(..) => "notification",
        Reason::Collision => "collision",
        Reason::Finished => "finished",
        Reason::Reset => "reset",
        Reason::HoldTimeExpired => "hold time expired",
        Reason::Replaced => "replaced",
        Reason::Forgotten => "forgotten",
    };
    json::text("reason", name, out);
    if let Reason::Notification(from, code, subcode) = reason {
        write_sender(from, out);
        json::number("code", code, out);
        json::number("subcode", subcode, out);
    }
}

fn write_peering(peering: &Peering, out: &mut Vec<u8>) {
    json::number("peering", peering.id.0, out);
    json::number("mirror", peering.mirror.0, out);
    json::number("session", peering.session, out);
    json::address_member("peer", peering.peer, out);
    json::number("peer_as", peering.peer_as.0, out);
    json::number("peer_id", peering.peer_id, out);
    json::address_member("local", peering.local, out);
    json::number("local_as", peering.local_as.0, out);
    json::number("local_id", peering.local_id, out);
    json::flag("certain", peering.certain, out);
    for (key, negotiated) in
        [("from_peer", &peering.from_peer), ("from_local", &peering.from_local)]
    {
        json::key(key, out);
        out.push(b'{');
        json::flag("as4", negotiated.four_octet_as, out);
        json::flag("extended_message", negotiated.extended_message, out);
        json::array("add_path", negotiated.add_path.iter(), out, |family, out| {
            json::family(family, out);
        });
        out.push(b'}');
    }
}

#[cfg(test)]
mod tests;
