//! The live feed in the format of RIPE's RIS Live (<https://ris-live.ripe.net/manual/>),
//! for unmodified clients.
//!
//! A [`Notice`] is an event of the feed, decoded once for all clients; an [`Encoder`] encodes it, a
//! [`Client`] filters it.
//!
//! As in RIS Live, UPDATE, KEEPALIVE and NOTIFICATION are those of the peer; an OPEN has its
//! sender; a state is reported when a session is established or ends. Routes of families other than
//! IPv4 and IPv6 unicast, and path identifiers, are in `raw` alone.
//!
//! A client of RIS Live identifies a session by `host` and `peer`, and two mirrors can show the
//! same `peer`. Therefore each mirror but the first has its own host, `HOST.mirror2`. All messages
//! of a mirror also have its number as `mirror`, an extension of RIS Live.

mod client;
mod filter;

use std::net::Ipv4Addr;

use base::Time;
use bgp::attribute::as_path::Segment;
use bgp::attribute::{
    Aggregator, AsPath, Attribute, Communities, LogicalPath, MpReach, MpUnreach, NextHop, Origin,
};
use bgp::capability::{self, Capability};
use bgp::nlri::Prefixes;
use bgp::notification::Notification;
use bgp::open::Open;
use bgp::update::Update;
use bgp::{Family, MessageType, Negotiated, Prefix};

use super::{digits, json};
use crate::{Event, MirrorId, Peering, Sender, State};
pub use client::Client;

#[derive(Clone, Debug)]
pub struct Notice<'a> {
    peering: &'a Peering,
    time: Time,
    raw: &'a [u8],
    content: Content<'a>,
}

#[derive(Clone, Debug)]
enum Content<'a> {
    Update(Box<Routes<'a>>),
    Open(Open<'a>, Sender),
    Notification(Notification<'a>),
    Keepalive,
    State(bool),
}

#[derive(Clone, Debug, Default)]
struct Routes<'a> {
    path: Option<LogicalPath<'a>>,
    communities: Option<Communities<'a>>,
    origin: Option<Origin>,
    med: Option<u32>,
    aggregator: Option<Aggregator>,
    next_hop: Option<Ipv4Addr>,
    withdrawn: Option<Prefixes<'a>>,
    announced: Option<Prefixes<'a>>,
    reach: Option<MpReach<'a>>,
    unreach: Option<MpUnreach<'a>>,
}

const fn shown(family: Family) -> bool {
    matches!((family.afi.0, family.safi.0), (1 | 2, 1))
}

impl<'a> Routes<'a> {
    /// Decodes the valid parts of an UPDATE; malformed attributes are omitted.
    fn read(body: &'a [u8], negotiated: Negotiated) -> Self {
        let mut routes = Self::default();
        let Ok(update) = Update::parse(body) else { return routes };
        let (mut path, mut as4_path): (Option<AsPath<'a>>, Option<AsPath<'a>>) = (None, None);
        let mut as4_aggregator = None;
        for raw in update.attributes() {
            let Ok(raw) = raw else { break };
            match Attribute::decode(raw, &negotiated) {
                Ok(Attribute::AsPath(value)) => path = Some(value),
                Ok(Attribute::As4Path(value)) => as4_path = Some(value),
                Ok(Attribute::Communities(value)) => routes.communities = Some(value),
                Ok(Attribute::Origin(value)) => routes.origin = Some(value),
                Ok(Attribute::MultiExitDisc(value)) => routes.med = Some(value),
                Ok(Attribute::Aggregator(value)) => routes.aggregator = Some(value),
                Ok(Attribute::As4Aggregator(value)) => as4_aggregator = Some(value),
                Ok(Attribute::NextHop(value)) => routes.next_hop = Some(value),
                Ok(Attribute::MpReach(value)) => routes.reach = Some(value),
                Ok(Attribute::MpUnreach(value)) => routes.unreach = Some(value),
                _ => {}
            }
        }
        // RFC 6793 §4.2.3: an AGGREGATOR other than AS_TRANS means that the four-octet
        // attributes are stale.
        let stale = routes.aggregator.is_some_and(|one| one.asn != bgp::Asn::TRANS)
            && as4_aggregator.is_some();
        if negotiated.four_octet_as || stale {
            (as4_path, as4_aggregator) = (None, None);
        }
        if routes.aggregator.is_some() {
            routes.aggregator = as4_aggregator.or(routes.aggregator);
        }
        routes.path = path.map(|path| LogicalPath::new(path, as4_path));
        routes.withdrawn = Some(update.withdrawn(&negotiated));
        routes.announced = Some(update.announced(&negotiated));
        routes.reach = routes.reach.filter(|reach| shown(reach.family));
        routes.unreach = routes.unreach.filter(|unreach| shown(unreach.family));
        routes
    }

    fn announced(&self) -> impl Iterator<Item = Prefix> {
        // Prefixes without a next hop are not routes.
        let plain = self.announced.clone().filter(|_| self.next_hop.is_some());
        let multi = self.reach.as_ref().and_then(MpReach::prefixes);
        plain.into_iter().chain(multi).flat_map(prefixes)
    }

    fn withdrawn(&self) -> impl Iterator<Item = Prefix> {
        let multi = self.unreach.as_ref().and_then(MpUnreach::prefixes);
        self.withdrawn.clone().into_iter().chain(multi).flat_map(prefixes)
    }

    fn segments(&self) -> impl Iterator<Item = Segment<'a>> {
        self.path.into_iter().flat_map(|path| path.segments())
    }

    fn write(&self, out: &mut Vec<u8>) {
        json::key("path", out);
        json::path(self.segments(), out);
        json::key("community", out);
        match self.communities {
            Some(communities) => json::community_pairs(communities, out),
            None => out.extend_from_slice(b"[]"),
        }
        if let Some(origin) = self.origin {
            let name = match origin {
                Origin::Igp => "IGP",
                Origin::Egp => "EGP",
                Origin::Incomplete => "INCOMPLETE",
            };
            json::text("origin", name, out);
        }
        if let Some(med) = self.med {
            json::number("med", med, out);
        }
        if let Some(aggregator) = self.aggregator {
            json::key("aggregator", out);
            out.push(b'"');
            digits::decimal(u64::from(aggregator.asn.0), out);
            out.push(b':');
            digits::ipv4(aggregator.address.octets(), out);
            out.push(b'"');
        }
        json::key("announcements", out);
        out.push(b'[');
        if let (Some(hop), Some(list)) = (self.next_hop, &self.announced) {
            announcement(NextHop::V4(hop), list.clone(), out);
        }
        if let Some((reach, list)) = self.reach.and_then(|reach| Some((reach, reach.prefixes()?))) {
            announcement(reach.next_hop(), list, out);
        }
        out.push(b']');
        json::array("withdrawals", self.withdrawn(), out, json::prefix);
    }
}

/// The prefixes of a list, up to the first malformed one.
fn prefixes(list: Prefixes<'_>) -> impl Iterator<Item = Prefix> {
    list.map_while(|nlri| Some(nlri.ok()?.prefix))
}

/// `{"next_hop":...,"prefixes":[...]}`; nothing for no prefixes.
fn announcement(next_hop: NextHop<'_>, list: Prefixes<'_>, out: &mut Vec<u8>) {
    let mut list = prefixes(list).peekable();
    if list.peek().is_none() {
        return;
    }
    if out.last() == Some(&b'}') {
        out.push(b',');
    }
    out.extend_from_slice(b"{\"next_hop\":\"");
    match next_hop {
        NextHop::V4(address) => json::address(address.into(), out),
        NextHop::V6(address) => json::address(address.into(), out),
        NextHop::V4Pair(first, second) => {
            json::address(first.into(), out);
            out.push(b',');
            json::address(second.into(), out);
        }
        NextHop::V6Pair(global, local) => {
            json::address(global.into(), out);
            out.push(b',');
            json::address(local.into(), out);
        }
        _ => {}
    }
    out.push(b'"');
    json::array("prefixes", list, out, json::prefix);
    out.push(b'}');
}

impl<'a> Notice<'a> {
    /// The notice of an event; `None` if the feed omits the event.
    pub fn new(peering: &'a Peering, event: &Event<'a>) -> Option<Self> {
        match *event {
            Event::Message { time, from, message } => {
                let body = message.body();
                let content = match (message.kind(), from) {
                    (MessageType::OPEN, from) => Content::Open(Open::parse(body).ok()?, from),
                    (MessageType::UPDATE, Sender::Peer) => {
                        Content::Update(Box::new(Routes::read(body, peering.from_peer)))
                    }
                    (MessageType::NOTIFICATION, Sender::Peer) => {
                        Content::Notification(Notification::parse(body).ok()?)
                    }
                    (MessageType::KEEPALIVE, Sender::Peer) => Content::Keepalive,
                    _ => return None,
                };
                Some(Self { peering, time, raw: message.bytes(), content })
            }
            Event::State { time, old, new, .. } => {
                let is_reported = (old == State::Established) != (new == State::Established);
                let content = Content::State(new == State::Established);
                is_reported.then_some(Self { peering, time, raw: &[], content })
            }
            Event::Gap(_) | Event::Reading(_) => None,
        }
    }

    /// The mirror's number if it is part of `host`, that is, for all mirrors but the first.
    fn numbered_mirror(&self) -> Option<u32> {
        numbered(self.peering.mirror)
    }

    pub const fn kind(&self) -> &'static str {
        match self.content {
            Content::Update(_) => "UPDATE",
            Content::Open(..) => "OPEN",
            Content::Notification(_) => "NOTIFICATION",
            Content::Keepalive => "KEEPALIVE",
            Content::State(_) => "RIS_PEER_STATE",
        }
    }
}

/// Separator between the collector's name and a mirror's number.
const MIRROR: &str = ".mirror";

fn numbered(mirror: MirrorId) -> Option<u32> {
    (mirror.0 > 1).then_some(mirror.0)
}

/// `host` of messages of `mirror` at the collector `host`.
pub fn host_of(host: &str, mirror: MirrorId) -> String {
    match numbered(mirror) {
        Some(number) => format!("{host}{MIRROR}{number}"),
        None => host.to_owned(),
    }
}

#[derive(Clone, Debug)]
pub struct Encoder {
    host: Vec<u8>,
    milliseconds: u64,
    count: u64,
}

impl Encoder {
    /// An encoder for the collector `host` (`rrc00.ripe.net`).
    pub fn new(host: &str) -> Self {
        let mut quoted = Vec::new();
        json::string(host.as_bytes(), &mut quoted);
        quoted.pop();
        Self { host: quoted, milliseconds: 0, count: 0 }
    }

    /// Appends the `ris_message` of `notice`: without the message's bytes to `out`, with them to
    /// `raw`. Its `id` consists of the peer's address, the time in milliseconds, and a counter
    /// within the millisecond. Equal input gives equal identifiers, and each is unique.
    pub fn encode(&mut self, notice: &Notice<'_>, out: &mut Vec<u8>, raw: &mut Vec<u8>) {
        let start = out.len();
        out.extend_from_slice(b"{\"type\":\"ris_message\",\"data\":{\"timestamp\":");
        json::time(notice.time, 6, out);
        json::address_member("peer", notice.peering.peer, out);
        json::key("peer_asn", out);
        out.push(b'"');
        digits::decimal(u64::from(notice.peering.peer_as.0), out);
        out.push(b'"');
        self.id(notice, out);
        json::key("host", out);
        out.extend_from_slice(&self.host);
        if let Some(number) = notice.numbered_mirror() {
            out.extend_from_slice(MIRROR.as_bytes());
            digits::decimal(number.into(), out);
        }
        out.push(b'"');
        if notice.peering.mirror != MirrorId::NONE {
            json::number("mirror", notice.peering.mirror.0, out);
        }
        json::text("type", notice.kind(), out);
        match &notice.content {
            Content::Update(routes) => routes.write(out),
            Content::Open(open, from) => write_open(open, *from, out),
            Content::Notification(notification) => write_notification(notification, out),
            Content::Keepalive => {}
            Content::State(connected) => {
                json::text("state", if *connected { "connected" } else { "down" }, out);
            }
        }
        raw.extend_from_slice(&out[start..]);
        if !notice.raw.is_empty() {
            json::hex("raw", notice.raw, raw);
        }
        raw.extend_from_slice(b"}}");
        out.extend_from_slice(b"}}");
    }

    fn id(&mut self, notice: &Notice<'_>, out: &mut Vec<u8>) {
        let milliseconds = notice.time.as_nanos() / 1_000_000;
        // The times of peerings differ by some milliseconds: a step back would restart the
        // counter at 0.
        if milliseconds > self.milliseconds {
            (self.milliseconds, self.count) = (milliseconds, 0);
        }
        let id = self.milliseconds << 16 | self.count.min(0xffff);
        json::key("id", out);
        out.push(b'"');
        json::address(notice.peering.peer, out);
        out.push(b'-');
        digits::hex(&id.to_be_bytes(), out);
        if self.count > 0xffff {
            out.push(b'-');
            digits::decimal(self.count, out);
        }
        out.push(b'"');
        self.count += 1;
    }
}

fn write_open(open: &Open<'_>, from: Sender, out: &mut Vec<u8>) {
    json::text("direction", if from == Sender::Peer { "received" } else { "sent" }, out);
    json::number("version", open.version, out);
    json::number("asn", open.asn().0, out);
    json::number("hold_time", open.hold_time, out);
    json::address_member("router_id", Ipv4Addr::from_bits(open.id).into(), out);
    json::key("capabilities", out);
    out.push(b'{');
    let mut written = [false; 256];
    for capability in open.capabilities() {
        let code = capability.code();
        // All families are written together with the first one.
        if std::mem::replace(&mut written[usize::from(code)], true) {
            continue;
        }
        json::key(&code.to_string(), out);
        out.push(b'{');
        let name = capability::name(code).unwrap_or("unknown");
        match capability {
            Capability::Multiprotocol(_) => {
                json::text("name", name, out);
                let families = open.capabilities().filter_map(|capability| match capability {
                    Capability::Multiprotocol(family) => Some(family),
                    _ => None,
                });
                json::array("families", families, out, json::family);
            }
            Capability::FourOctetAs(asn) => {
                json::text("name", "asn4", out);
                json::number("asn4", asn.0, out);
            }
            _ => {
                json::text("name", name, out);
                let mut value = Vec::new();
                capability.encode_value(&mut value);
                if !value.is_empty() {
                    json::hex("value", &value, out);
                }
            }
        }
        out.push(b'}');
    }
    out.push(b'}');
}

fn write_notification(notification: &Notification<'_>, out: &mut Vec<u8>) {
    json::key("notification", out);
    out.push(b'{');
    json::number("code", notification.code, out);
    json::number("subcode", notification.subcode, out);
    if !notification.data.is_empty() {
        json::hex("data", notification.data, out);
    }
    out.push(b'}');
}

#[cfg(test)]
mod tests;
