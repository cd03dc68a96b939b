//! The live feed in the format of RIPE's RIS Live (<https://ris-live.ripe.net/manual/>), so that
//! its clients work with this collector as they are.
//!
//! A [`Notice`] is an event as the feed sees it, taken apart once for all clients; a
//! [`Encoder`] writes it, a [`Client`] says who wants it.
//!
//! As there, UPDATE, KEEPALIVE and NOTIFICATION are the peer's; an OPEN says who sent it; a state
//! is told when a session is established or was until now. Routes of other families than IPv4 and
//! IPv6 unicast are in `raw` alone, and path identifiers too.
//!
//! A client of RIS Live identifies a session by `host` and `peer`, and two mirrors can show the
//! same `peer`. Therefore each mirror but the first has a host of its own, `HOST.mirror2`. All
//! messages from a mirror also have its number as `mirror`, which RIS Live does not have.

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

/// An event that the feed tells of.
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
    /// Whether it is connected.
    State(bool),
}

/// What an UPDATE says.
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

/// Whether routes of `family` are shown.
const fn shown(family: Family) -> bool {
    matches!((family.afi.0, family.safi.0), (1 | 2, 1))
}

impl<'a> Routes<'a> {
    /// What can be read of an UPDATE: nothing of attributes that are damaged.
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
        // RFC 6793 §4.2.3: an aggregator that fits says that the wide attributes are stale.
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
        // Without a next hop they are no routes.
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

/// The prefixes of a list, up to the first that is damaged.
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
    /// Of an event; `None` if the feed does not tell of it.
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
                let told = (old == State::Established) != (new == State::Established);
                let content = Content::State(new == State::Established);
                told.then_some(Self { peering, time, raw: &[], content })
            }
            Event::Gap(_) | Event::Reading(_) => None,
        }
    }

    /// The mirror's number where it is a part of `host`: where another mirror came first.
    fn numbered_mirror(&self) -> Option<u32> {
        numbered(self.peering.mirror)
    }

    /// The type, as `type` in the feed names it.
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

/// What stands between the collector's name and a mirror's number.
const MIRROR: &str = ".mirror";

fn numbered(mirror: MirrorId) -> Option<u32> {
    (mirror.0 > 1).then_some(mirror.0)
}

/// The `host` of messages that `mirror` of the collector `host` showed.
pub fn host_of(host: &str, mirror: MirrorId) -> String {
    match numbered(mirror) {
        Some(number) => format!("{host}{MIRROR}{number}"),
        None => host.to_owned(),
    }
}

/// Writes notices as the messages of one collector.
#[derive(Clone, Debug)]
pub struct Encoder {
    /// A JSON string without its closing quotation mark.
    host: Vec<u8>,
    milliseconds: u64,
    count: u64,
}

impl Encoder {
    /// Of the collector that is called `host` (`rrc00.ripe.net`).
    pub fn new(host: &str) -> Self {
        let mut quoted = Vec::new();
        json::string(host.as_bytes(), &mut quoted);
        quoted.pop();
        Self { host: quoted, milliseconds: 0, count: 0 }
    }

    /// Appends the `ris_message` of `notice` to both: without the message's bytes to `out`, with
    /// them to `raw`. Its `id` is the peer's address, the time in milliseconds, and a number that
    /// counts the messages of a millisecond: the same input gives the same, and no two are equal.
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
        // Peerings are apart by some milliseconds: going back would count from 0 again.
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
    let mut told = [false; 256];
    for capability in open.capabilities() {
        let code = capability.code();
        // All families are told with the first of them.
        if std::mem::replace(&mut told[usize::from(code)], true) {
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
