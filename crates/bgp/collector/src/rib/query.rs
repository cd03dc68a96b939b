//! Queries of routes.

use std::collections::BTreeSet;
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

    fn fits(&self, query: &Query) -> bool {
        query.origin.is_none_or(|origin| self.path().origin() == Some(origin))
            && query.community.is_none_or(|tag| self.has(tag))
            && query.path.as_ref().is_none_or(|path| path.matches(&path_text(self.path())))
    }
}

impl Scope {
    fn covers(self, prefix: Prefix) -> bool {
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
    fn find_within(&self, scope: Scope) -> Option<Vec<(Nlri, u32)>> {
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

/// Prefixes in the order of the answer: family, length (the longest first if requested), prefix,
/// table, path identifier, number.
type Found = (Family, u8, Prefix, usize, Option<u32>, u32);

/// A query in steps, so that a large table does not delay packets. Routes may change between two
/// steps. Each route of the answer existed at the step that found it.
#[derive(Debug)]
pub struct Search {
    query: Query,
    /// The current table and the next number in it.
    table: usize,
    number: u32,
    found: BTreeSet<Found>,
    routes: Vec<Route>,
}

impl Search {
    pub const fn new(query: Query) -> Self {
        Self { query, table: 0, number: 0, found: BTreeSet::new(), routes: Vec::new() }
    }

    pub fn into_routes(self) -> Vec<Route> {
        self.routes
    }

    /// Examines about `budget` prefixes and routes; returns whether it was the last step.
    pub fn step(&mut self, rib: &Rib, budget: usize) -> bool {
        let mut left = budget.max(1);
        while let Some(table) = rib.tables.get(self.table) {
            let is_over = self.query.family.is_some_and(|family| family != table.family)
                || self.collect(rib, table, &mut left);
            if !is_over {
                return false;
            }
            (self.table, self.number) = (self.table + 1, 0);
        }
        while !self.is_full() {
            if left == 0 {
                return false;
            }
            let Some((family, _, prefix, at, path_id, number)) = self.found.pop_first() else {
                return true;
            };
            // In each family the first prefix with a route is the longest.
            let is_answered = matches!(self.query.scope, Scope::Longest(_))
                && self.routes.last().is_some_and(|route| {
                    route.family == family && route.destination != Destination::Prefix(prefix)
                });
            let same = Key::Prefix(Nlri { path_id, prefix });
            // The number may have been reused for another prefix.
            if !is_answered && rib.tables[at].key(number) == Some(same) {
                self.answer(rib, at, number, &mut left);
            }
        }
        true
    }

    fn is_full(&self) -> bool {
        self.query.limit.is_some_and(|limit| self.routes.len() >= limit)
    }

    /// Collects the matching prefixes of a table; returns false if some are left.
    fn collect(&mut self, rib: &Rib, table: &Table, left: &mut usize) -> bool {
        let (at, scope) = (self.table, self.query.scope);
        let found = |Nlri { prefix, path_id }: Nlri, number| {
            let is_longest = matches!(scope, Scope::Longest(_));
            let length = if is_longest { u8::MAX - prefix.length() } else { 0 };
            (table.family, length, prefix, at, path_id, number)
        };
        if let Some(all) = table.find_within(scope) {
            self.found.extend(all.into_iter().map(|(nlri, number)| found(nlri, number)));
            return true;
        }
        while self.number < table.end() {
            if *left == 0 {
                return false;
            }
            *left -= 1;
            let number = self.number;
            self.number += 1;
            match table.key(number) {
                Some(Key::Prefix(nlri)) if scope.covers(nlri.prefix) => {
                    self.found.insert(found(nlri, number));
                }
                Some(Key::Other(..)) if scope == Scope::All => self.answer(rib, at, number, left),
                _ => {}
            }
        }
        true
    }

    /// Adds the routes to a prefix, of all peers in one step.
    fn answer(&mut self, rib: &Rib, at: usize, number: u32, left: &mut usize) {
        for peer in rib.peers() {
            *left = left.saturating_sub(1);
            if self.query.peer.is_some_and(|wanted| wanted != peer.peering.peer) {
                continue;
            }
            if !self.is_full()
                && let Some(route) = rib.route(peer, at, number)
                && route.fits(&self.query)
            {
                self.routes.push(route);
            }
        }
    }
}
