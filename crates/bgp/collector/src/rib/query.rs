//! Queries of routes.

use std::net::IpAddr;

use base::Time;
use bgp::attribute::as_path::Segment;
use bgp::attribute::{
    AsPath, Attribute, Attributes, Communities, Community, LargeCommunity, NextHop, SegmentKind,
};
use bgp::mrt::mp_reach_next_hop;
use bgp::nlri::Nlri;
use bgp::{Asn, Family, Negotiated, Prefix};
use regex::Regex;

use super::Rib;
use super::attributes::AttributeSet;
use super::peer::Peer;
use super::search::Search;
use super::table::{Key, Table};
use crate::Peering;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Scope {
    #[default]
    All,
    Exact(Prefix),
    /// The longest prefix with a matching route that covers this one (an address is a prefix of 32
    /// or 128 bits).
    Longest(Prefix),
    MoreSpecific(Prefix),
    LessSpecific(Prefix),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tag {
    /// Community of RFC 1997.
    Plain(Community),
    /// Large community of RFC 8092.
    Large(LargeCommunity),
}

/// A query: all conditions must match.
#[derive(Clone, Debug, Default)]
pub struct Query {
    pub scope: Scope,
    /// Family; any if `None`.
    pub family: Option<Family>,
    /// The neighbour; any if `None`.
    pub peer: Option<IpAddr>,
    pub path: Option<PathPattern>,
    pub community: Option<Tag>,
    pub origin: Option<Asn>,
    /// Maximum number of routes in the answer; unlimited if `None`.
    pub limit: Option<usize>,
}

/// A regular expression for AS paths as routers print them: numbers separated by spaces, `{1,2}`
/// for a set, `(1 2)` and `[1,2]` for confederations. `_` matches any separator, the start or the
/// end, as in Cisco's expressions. `{` starts a set if it is at the start or after a separator;
/// elsewhere it is a repetition.
#[derive(Clone, Debug)]
pub struct PathPattern(Regex);

impl PathPattern {
    /// Fails if the expression is invalid, or would require too much memory.
    pub fn new(pattern: &str) -> Result<Self, regex::Error> {
        let mut plain = String::with_capacity(pattern.len() + 16);
        let (mut escaped, mut class, mut is_first) = (false, false, true);
        for character in pattern.chars() {
            let starts = std::mem::replace(&mut is_first, "_^ (|".contains(character));
            match character {
                // A set, as paths show it: nothing precedes that it could repeat.
                '{' if !escaped && !class && starts => plain.push('\\'),
                '_' if !escaped && !class => {
                    plain.push_str(r"(?:^|$|[ ,{}()\[\]])");
                    continue;
                }
                '[' if !escaped => class = true,
                ']' if !escaped => class = false,
                _ => {}
            }
            escaped = character == '\\' && !escaped;
            plain.push(character);
        }
        regex::RegexBuilder::new(&plain).size_limit(1 << 20).build().map(Self)
    }

    /// Whether a path in the format of [`path_text`] matches.
    pub fn matches(&self, path: &str) -> bool {
        self.0.is_match(path)
    }
}

pub fn path_text(path: AsPath<'_>) -> String {
    segments_text(path.segments())
}

pub fn segments_text<'a>(segments: impl Iterator<Item = Segment<'a>>) -> String {
    let mut text = String::new();
    for segment in segments {
        if !text.is_empty() {
            text.push(' ');
        }
        let (open, between, close) = match segment.kind {
            SegmentKind::Sequence => ("", " ", ""),
            SegmentKind::Set => ("{", ",", "}"),
            SegmentKind::ConfedSequence => ("(", " ", ")"),
            SegmentKind::ConfedSet => ("[", ",", "]"),
        };
        text.push_str(open);
        for (at, asn) in segment.asns.enumerate() {
            text.push_str(if at == 0 { "" } else { between });
            text.push_str(&asn.to_string());
        }
        text.push_str(close);
    }
    text
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Destination {
    Prefix(Prefix),
    Other(Vec<u8>),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Route {
    pub peering: Peering,
    pub family: Family,
    pub destination: Destination,
    pub path_id: Option<u32>,
    /// Time of the announcement, with a resolution of 100 µs.
    pub since: Time,
    /// The session that announced it has ended, and the route is retained until the neighbour
    /// restarts; or the neighbour has begun a route refresh and not announced it again.
    pub stale: bool,
    /// Path attributes as in a table dump (RFC 6396 §4.3.4): AS numbers of four octets.
    pub attributes: Vec<u8>,
}

impl Route {
    /// Decoded attributes, without malformed ones and without `MP_REACH_NLRI`: see
    /// [`Route::next_hop`].
    pub fn attributes(&self) -> impl Iterator<Item = Attribute<'_>> {
        let negotiated = Negotiated { four_octet_as: true, ..Negotiated::default() };
        let all = Attributes::new(&self.attributes, 0).map_while(std::result::Result::ok);
        all.filter_map(move |raw| Attribute::decode(raw, &negotiated).ok())
    }

    /// The AS path; empty if the route has none.
    pub fn path(&self) -> AsPath<'_> {
        let path = self.attributes().find_map(|attribute| match attribute {
            Attribute::AsPath(path) => Some(path),
            _ => None,
        });
        path.unwrap_or(AsPath::EMPTY)
    }

    /// The next hop, from `MP_REACH_NLRI` if present.
    pub fn next_hop(&self) -> NextHop<'_> {
        let mut next_hop = NextHop::None;
        for raw in Attributes::new(&self.attributes, 0).map_while(std::result::Result::ok) {
            match (raw.code, raw.value) {
                (bgp::attribute::code::MP_REACH_NLRI, value) => {
                    return mp_reach_next_hop(value).map_or(NextHop::None, NextHop::new);
                }
                (bgp::attribute::code::NEXT_HOP, value) => next_hop = NextHop::new(value),
                _ => {}
            }
        }
        next_hop
    }

    pub fn communities(&self) -> impl Iterator<Item = Community> + '_ {
        let found = self.attributes().find_map(|attribute| match attribute {
            Attribute::Communities(communities) => Some(communities),
            _ => None,
        });
        found.into_iter().flat_map(|communities: Communities<'_>| communities.iter())
    }

    fn has(&self, tag: Tag) -> bool {
        match tag {
            Tag::Plain(wanted) => self.communities().any(|community| community == wanted),
            Tag::Large(wanted) => self.attributes().any(|attribute| match attribute {
                Attribute::LargeCommunities(all) => all.iter().any(|one| one == wanted),
                _ => false,
            }),
        }
    }

    pub(super) fn fits(&self, query: &Query) -> bool {
        query.origin.is_none_or(|origin| self.path().origin() == Some(origin))
            && query.community.is_none_or(|tag| self.has(tag))
            && query.path.as_ref().is_none_or(|path| path.matches(&path_text(self.path())))
    }
}

impl Scope {
    pub(super) fn covers(self, prefix: Prefix) -> bool {
        match self {
            Self::All => true,
            Self::Exact(wanted) => prefix == wanted.masked(),
            Self::MoreSpecific(wanted) => wanted.masked().covers(prefix),
            Self::Longest(wanted) | Self::LessSpecific(wanted) => prefix.covers(wanted.masked()),
        }
    }
}

impl Table {
    /// The prefixes in `scope` with their numbers, if they can be found without a scan
    /// of all prefixes.
    pub(super) fn find_within(&self, scope: Scope) -> Option<Vec<(Nlri, u32)>> {
        let (Scope::Exact(wanted) | Scope::Longest(wanted) | Scope::LessSpecific(wanted)) = scope
        else {
            return None;
        };
        let least = if matches!(scope, Scope::Exact(_)) { wanted.length() } else { 0 };
        let lengths = (least..=wanted.length())
            .map(|length| Nlri { path_id: None, prefix: shortened(wanted, length) });
        let found = lengths.filter_map(|nlri| Some((nlri, self.find(&nlri, 0)?)));
        (self.has_prefixes() && !self.add_path).then(|| found.collect())
    }
}

const fn shortened(prefix: Prefix, length: u8) -> Prefix {
    match prefix {
        Prefix::V4(bits, _) => Prefix::V4(bits, length).masked(),
        Prefix::V6(bits, _) => Prefix::V6(bits, length).masked(),
    }
}

impl Rib {
    /// The routes that match `query`, by family, prefix, path identifier and peering. A query for
    /// prefixes within another one, or in tables with path identifiers, scans all prefixes of the
    /// family; others do not.
    pub fn query(&self, query: &Query) -> Vec<Route> {
        let mut search = Search::new(query.clone());
        while !search.step(self, usize::MAX) {}
        search.into_routes()
    }

    pub(super) fn set_of(&self, announcement: u32) -> AttributeSet<'_> {
        self.attributes.get(self.announcements.get(announcement).attributes)
    }

    pub(super) fn route(&self, peer: &Peer, at: usize, number: u32) -> Option<Route> {
        let (table, of) = (&self.tables[at], peer.tables.get(at)?);
        let announcement = of.routes.get(number)?;
        let set = self.set_of(announcement);
        let announcement = self.announcements.get(announcement);
        let (destination, path_id) = match table.key(number)? {
            Key::Prefix(Nlri { prefix, path_id }) => (Destination::Prefix(prefix), path_id),
            Key::Other(path_id, key) => {
                (Destination::Other(set.nlri.unwrap_or(key).to_vec()), path_id)
            }
        };
        let mut attributes = Vec::new();
        set.write(&mut attributes);
        Some(Route {
            peering: peer.peering,
            family: table.family,
            destination,
            path_id,
            since: announcement.time(),
            stale: of.stale.is_some() && announcement.generation != of.generation,
            attributes,
        })
    }
}
