//! One pass over an UPDATE: each attribute typed and checked as RFC 7606 wants it, each prefix
//! visited.
#![expect(clippy::inline_always, reason = "nothing that is framed goes through memory")]

use std::net::Ipv4Addr;

use super::Update;
use crate::attribute::mp_reach::next_hop_fits;
use crate::attribute::{
    Attribute, MpReach, MpUnreach, RawAttribute, SegmentKind, Then, code, expected_flags, flags,
    frame, name, unframed,
};
use crate::nlri::{Destination, Nlri, Prefixes, Route, Routes, v4};
use crate::verdict::{Action, Problem, Relation, of_malformed, subcode};
use crate::{Afi, Error, Family, Negotiated};

/// Who wants to know what an UPDATE says. Calls come in the order of the bytes; what is malformed
/// comes as [`Attribute::Unknown`] and as a problem. Attributes that are there again are problems
/// only (RFC 7606 §3 g).
pub trait Visitor {
    /// A prefix is withdrawn.
    fn withdrawn(&mut self, family: Family, nlri: Nlri) {
        let _ = (family, nlri);
    }

    /// A route of a family without plain prefixes is withdrawn.
    fn withdrawn_route(&mut self, family: Family, route: Route<'_>) {
        let _ = (family, route);
    }

    /// An attribute, before the routes that it holds.
    fn attribute(&mut self, raw: &RawAttribute<'_>, attribute: &Attribute<'_>) {
        let _ = (raw, attribute);
    }

    /// A prefix is announced.
    fn announced(&mut self, family: Family, nlri: Nlri) {
        let _ = (family, nlri);
    }

    /// A route of a family without plain prefixes is announced.
    fn announced_route(&mut self, family: Family, route: Route<'_>) {
        let _ = (family, route);
    }

    /// Something is wrong.
    fn problem(&mut self, problem: Problem) {
        let _ = problem;
    }
}

/// Shows all of an UPDATE to `visitor`, and says what a router should do about it.
#[inline]
pub fn walk(body: &[u8], negotiated: &Negotiated, visitor: &mut impl Visitor) -> Action {
    walk_told(body, negotiated, Relation::Unknown, visitor)
}

/// The same for an UPDATE of such a neighbour.
#[inline]
pub fn walk_told<V: Visitor>(
    body: &[u8],
    negotiated: &Negotiated,
    relation: Relation,
    visitor: &mut V,
) -> Action {
    let mut walk = Walk {
        negotiated: *negotiated,
        relation,
        visitor,
        seen: 0,
        seen_high: [0; 3],
        plain: false,
        reaches: false,
        action: Action::Accept,
    };
    match Update::parse(body) {
        Ok(update) => walk.update(&update),
        Err(error) => walk.problem(Action::SessionReset, subcode::LIST, 0, error),
    }
    walk.action
}

/// Shows an attribute and looks at its content.
struct Show<'a, 'w, 'v, V> {
    walk: &'w mut Walk<'v, V>,
    raw: RawAttribute<'a>,
}

impl<'a, V: Visitor> Then<'a, ()> for Show<'a, '_, '_, V> {
    #[inline(always)]
    fn then(self, attribute: Attribute<'a>) {
        let Self { walk, raw } = self;
        walk.visitor.attribute(&raw, &attribute);
        walk.content(raw, &attribute);
    }
}

struct Walk<'v, V> {
    negotiated: Negotiated,
    relation: Relation,
    visitor: &'v mut V,
    /// Type codes below 64 that were there.
    seen: u64,
    /// The other type codes.
    seen_high: [u64; 3],
    /// Prefixes without `MP_REACH_NLRI`.
    plain: bool,
    /// `MP_REACH_NLRI` with routes.
    reaches: bool,
    action: Action,
}

const fn bit(code: u8) -> u64 {
    1 << code
}

impl<V: Visitor> Walk<'_, V> {
    #[inline]
    fn update(&mut self, update: &Update<'_>) {
        self.plain = !update.announced.is_empty();
        if !update.withdrawn.is_empty() {
            self.plain::<false>(update.withdrawn, 2);
        }
        // Framed by hand: errors of an iterator would keep what is framed in memory.
        let (mut rest, mut at, mut seen) = (update.attributes, update.attributes_at(), 0);
        while !rest.is_empty() {
            let Some((raw, behind)) = frame(rest, at) else {
                // The length of the field still says where the prefixes are (RFC 7606 §4).
                let error = unframed(rest, at);
                self.problem(Action::TreatAsWithdraw, subcode::LIST, 0, error);
                break;
            };
            at += rest.len() - behind.len();
            rest = behind;
            self.attribute(raw, &mut seen);
        }
        self.seen = seen;
        if !update.announced.is_empty() {
            self.plain::<true>(update.announced, update.announced_at());
        }
        let plain = self.plain;
        let mut needed = bit(code::ORIGIN) | bit(code::AS_PATH);
        if plain {
            needed |= bit(code::NEXT_HOP);
        }
        if self.relation == Relation::Internal {
            needed |= bit(code::LOCAL_PREF);
        }
        if (plain || self.reaches) && self.seen & needed != needed {
            self.missing(needed, update.announced_at());
        }
        if self.action > Action::AttributeDiscard && !plain && !self.reaches {
            self.hidden(update);
        }
    }

    #[inline(always)]
    fn attribute(&mut self, raw: RawAttribute<'_>, seen: &mut u64) {
        let code = raw.code;
        let seen = match code {
            0..64 => seen,
            _ => &mut self.seen_high[usize::from(code >> 6) - 1],
        };
        let bit = bit(code & 63);
        if *seen & bit != 0 {
            return self.twice(raw);
        }
        *seen |= bit;
        let expected = expected_flags(code);
        let given = raw.flags & (flags::OPTIONAL | flags::TRANSITIVE);
        if expected != Some(given) && (expected.is_some() || given & flags::OPTIONAL == 0) {
            return self.flags(raw, expected);
        }
        let negotiated = self.negotiated;
        if Attribute::decode_common(raw, negotiated, Show { walk: self, raw }).is_none() {
            self.any(raw);
        }
    }

    /// Attributes that are not common, and those that are not well-formed.
    #[cold]
    #[inline(never)]
    fn any(&mut self, raw: RawAttribute<'_>) {
        match Attribute::decode_any(raw, self.negotiated) {
            Ok(attribute) => {
                self.visitor.attribute(&raw, &attribute);
                self.content(raw, &attribute);
            }
            Err(error) => self.malformed(raw, error),
        }
    }

    /// What the value of an attribute must be beside well-formed.
    #[inline(always)]
    fn content(&mut self, raw: RawAttribute<'_>, attribute: &Attribute<'_>) {
        match attribute {
            Attribute::AsPath(path) => {
                if path.has_zero() {
                    self.value(raw, Action::TreatAsWithdraw, subcode::AS_PATH, "AS 0");
                }
                if self.relation != Relation::Unknown {
                    self.first_as(raw, attribute);
                }
            }
            // It says nothing about what MP_REACH_NLRI announces (RFC 4760 §3).
            Attribute::NextHop(address) if !is_host(*address) && self.plain => {
                let wrong = "not the address of a host";
                self.value(raw, Action::TreatAsWithdraw, subcode::NEXT_HOP, wrong);
            }
            Attribute::MpReach(reach) => self.reach(raw, reach),
            Attribute::MpUnreach(unreach) => self.unreach(raw, unreach),
            Attribute::Aggregator(by) | Attribute::As4Aggregator(by) => {
                if by.asn.0 == 0 {
                    self.value(raw, Action::AttributeDiscard, subcode::OPTIONAL, "AS 0");
                }
                self.sender(raw);
            }
            Attribute::As4Path(path) => {
                if path.has_zero() {
                    self.value(raw, Action::TreatAsWithdraw, subcode::OPTIONAL, "AS 0");
                }
                self.sender(raw);
            }
            Attribute::LocalPref(_) | Attribute::OriginatorId(_) | Attribute::ClusterList(_) => {
                self.sender(raw);
            }
            _ => {}
        }
    }

    fn reach(&mut self, raw: RawAttribute<'_>, reach: &MpReach<'_>) {
        if !next_hop_fits(reach.family, reach.next_hop.len()) {
            let (field, at) = ("next hop length", raw.value_at() + 3);
            let value = reach.next_hop.len() as u64;
            let error = Error::Value { field, at, value, wrong: "none that this family has" };
            return self.problem(Action::FamilyDisable, subcode::OPTIONAL, raw.code, error);
        }
        self.reaches = !reach.nlri.is_empty();
        let at = raw.value_at() + raw.value.len() - reach.nlri.len();
        match reach.prefixes() {
            Some(prefixes) => self.prefixes::<true>(reach.family, prefixes, at, raw.code),
            None => self.routes::<true>(reach.family, reach.routes(), at, raw.code),
        }
    }

    fn unreach(&mut self, raw: RawAttribute<'_>, unreach: &MpUnreach<'_>) {
        let at = raw.value_at() + 3;
        match unreach.prefixes() {
            Some(prefixes) => self.prefixes::<false>(unreach.family, prefixes, at, raw.code),
            None => self.routes::<false>(unreach.family, unreach.routes(), at, raw.code),
        }
    }

    /// Prefixes of IPv4 unicast in their own field.
    #[inline(always)]
    fn plain<const REACH: bool>(&mut self, field: &[u8], at: usize) {
        let family = Family::IPV4_UNICAST;
        if self.negotiated.add_path.contains(family) {
            return self.prefixes::<REACH>(family, Prefixes::new(field, Afi::IPV4, true), at, 0);
        }
        let mut next = 0;
        while next < field.len() {
            let Some((prefix, end)) = v4(field, next) else {
                // Goes on where it went wrong, to say why.
                let rest = Prefixes::new(&field[next..], Afi::IPV4, false);
                return self.prefixes::<REACH>(family, rest, at + next, 0);
            };
            let nlri = Nlri { path_id: None, prefix };
            if REACH {
                self.visitor.announced(family, nlri);
            } else {
                self.visitor.withdrawn(family, nlri);
            }
            next = end;
        }
    }

    #[inline(never)]
    fn prefixes<const REACH: bool>(
        &mut self,
        family: Family,
        prefixes: Prefixes<'_>,
        at: usize,
        attribute: u8,
    ) {
        for nlri in prefixes {
            match nlri {
                Ok(nlri) if REACH => self.visitor.announced(family, nlri),
                Ok(nlri) => self.visitor.withdrawn(family, nlri),
                Err(error) => return self.network(attribute, error.behind(at)),
            }
        }
    }

    fn routes<const REACH: bool>(
        &mut self,
        family: Family,
        routes: Routes<'_>,
        at: usize,
        attribute: u8,
    ) {
        for route in routes {
            let route = match route {
                Ok(route) => route,
                Err(error) => return self.network(attribute, error.behind(at)),
            };
            if let Err(error) = Destination::decode(&route, family) {
                self.route(family, attribute, error.behind(at));
            }
            if REACH {
                self.visitor.announced_route(family, route);
            } else {
                self.visitor.withdrawn_route(family, route);
            }
        }
    }

    /// A route that ends where it says, but is malformed (RFC 7606 §3 j; of link state only that
    /// one is discarded, RFC 9552 §8.2.2).
    #[cold]
    #[inline(never)]
    fn route(&mut self, family: Family, attribute: u8, error: Error) {
        let action = match family.afi {
            Afi::BGP_LS => Action::TreatAsWithdraw,
            _ => Action::FamilyDisable,
        };
        self.problem(action, subcode::OPTIONAL, attribute, error);
    }

    /// Prefixes that cannot be told apart (RFC 7606 §5.3, 3 j).
    #[cold]
    #[inline(never)]
    fn network(&mut self, attribute: u8, error: Error) {
        let (action, subcode) = match attribute {
            0 => (Action::SessionReset, subcode::NETWORK),
            _ => (Action::FamilyDisable, subcode::OPTIONAL),
        };
        self.problem(action, subcode, attribute, error);
    }

    #[cold]
    #[inline(never)]
    fn problem(&mut self, action: Action, subcode: u8, attribute: u8, error: Error) {
        self.action = self.action.max(action);
        self.visitor.problem(Problem::update(action, subcode, attribute, error));
    }

    /// The value is none that the attribute may have.
    #[cold]
    #[inline(never)]
    fn value(&mut self, raw: RawAttribute<'_>, action: Action, subcode: u8, wrong: &'static str) {
        let field = name(raw.code).unwrap_or("attribute");
        let value = raw.value.iter().take(8).fold(0, |value, octet| value << 8 | u64::from(*octet));
        let error = Error::Value { field, at: raw.value_at(), value, wrong };
        self.problem(action, subcode, raw.code, error);
    }

    #[cold]
    #[inline(never)]
    fn twice(&mut self, raw: RawAttribute<'_>) {
        let action = match raw.code {
            code::MP_REACH_NLRI | code::MP_UNREACH_NLRI => Action::SessionReset,
            _ => Action::AttributeDiscard,
        };
        let field = name(raw.code).unwrap_or("attribute");
        self.problem(action, subcode::LIST, raw.code, Error::Twice { field, at: raw.at });
    }

    /// Flags that the definition of the attribute does not have, or an attribute that all should
    /// know and nobody does.
    #[cold]
    #[inline(never)]
    fn flags(&mut self, raw: RawAttribute<'_>, expected: Option<u8>) {
        self.visitor.attribute(&raw, &Attribute::Unknown(raw));
        let (at, value) = (raw.at, raw.flags.into());
        if expected.is_none() {
            let wrong = "well-known, and the type code is not";
            let error = Error::Value { field: "attribute flags", at, value, wrong };
            return self.problem(Action::SessionReset, subcode::UNRECOGNIZED, raw.code, error);
        }
        // Routes are not looked for in an attribute that may be none (RFC 7606 §5.3).
        let action = match raw.code {
            code::MP_REACH_NLRI | code::MP_UNREACH_NLRI => Action::SessionReset,
            _ => Action::TreatAsWithdraw,
        };
        let wrong = "not what the type code wants";
        let error = Error::Value { field: "attribute flags", at, value, wrong };
        self.problem(action, subcode::FLAGS, raw.code, error);
    }

    #[cold]
    #[inline(never)]
    fn malformed(&mut self, raw: RawAttribute<'_>, error: Error) {
        self.visitor.attribute(&raw, &Attribute::Unknown(raw));
        let external = matches!(self.relation, Relation::External(_));
        let action = match raw.code {
            code::LOCAL_PREF | code::ORIGINATOR_ID | code::CLUSTER_LIST if external => {
                Action::AttributeDiscard
            }
            attribute => of_malformed(attribute),
        };
        let subcode = match raw.code {
            code::ORIGIN if raw.value.len() == 1 => subcode::ORIGIN,
            code::AS_PATH => subcode::AS_PATH,
            code::ORIGIN..=code::ORIGINATOR_ID => subcode::LENGTH,
            _ => subcode::OPTIONAL,
        };
        self.problem(action, subcode, raw.code, error);
    }

    /// Attributes that only some neighbours may send (RFC 7606 §7.5, 7.9, 7.10, RFC 6793 §4.1).
    #[inline]
    fn sender(&mut self, raw: RawAttribute<'_>) {
        let stray = match raw.code {
            code::AS4_PATH | code::AS4_AGGREGATOR => self.negotiated.four_octet_as,
            code::LOCAL_PREF | code::ORIGINATOR_ID | code::CLUSTER_LIST => {
                matches!(self.relation, Relation::External(_))
            }
            _ => false,
        };
        if stray {
            let wrong = "from a neighbour that may not send it";
            self.value(raw, Action::AttributeDiscard, subcode::OPTIONAL, wrong);
        }
    }

    /// What the path must begin with (RFC 4271 §6.3, RFC 5065 §5.1).
    #[cold]
    fn first_as(&mut self, raw: RawAttribute<'_>, attribute: &Attribute<'_>) {
        let Attribute::AsPath(path) = attribute else { return };
        let mut segments = path.segments();
        let first = segments.next();
        let kind = first.as_ref().map(|segment| segment.kind);
        let wrong = match self.relation {
            Relation::External(told) => {
                let first = first.filter(|segment| segment.kind == SegmentKind::Sequence);
                let sender = first.and_then(|mut segment| segment.asns.next());
                if path.segments().any(|segment| segment.kind.of_confederation()) {
                    "a confederation's path from outside of it"
                } else if told.is_some() && sender != told {
                    "a path that does not begin with the sender"
                } else {
                    return;
                }
            }
            Relation::Confederation if kind != Some(SegmentKind::ConfedSequence) => {
                "a path that does not begin with the member of the confederation"
            }
            _ => return,
        };
        self.value(raw, Action::TreatAsWithdraw, subcode::AS_PATH, wrong);
    }

    /// Attributes without which routes cannot be (RFC 7606 §3 d, RFC 4760 §3, RFC 4271 §5). Where
    /// a path is signed there is no other (RFC 8205 §4.1).
    #[cold]
    #[inline(never)]
    fn missing(&mut self, mut needed: u64, at: usize) {
        if self.seen & bit(code::BGPSEC_PATH) != 0 {
            needed &= !bit(code::AS_PATH);
        }
        for attribute in [code::ORIGIN, code::AS_PATH, code::NEXT_HOP, code::LOCAL_PREF] {
            if needed & !self.seen & bit(attribute) != 0 {
                let field = name(attribute).unwrap_or("attribute");
                let error = Error::Missing { field, at };
                self.problem(Action::TreatAsWithdraw, subcode::MISSING, attribute, error);
            }
        }
    }

    /// Errors in a message that announces nothing may have hidden what it announces (RFC 7606
    /// §5.2).
    #[cold]
    #[inline(never)]
    fn hidden(&mut self, update: &Update<'_>) {
        let only_withdraws = self.seen == bit(code::MP_UNREACH_NLRI) && self.seen_high == [0; 3];
        if !update.attributes.is_empty() && !only_withdraws {
            self.action = Action::SessionReset;
        }
    }
}

#[inline]
fn is_host(address: Ipv4Addr) -> bool {
    // 0/8 is "this network", 127/8 loops back, 224/3 is multicast and reserved.
    let first = address.octets()[0];
    first != 0 && first != 127 && first < 224
}
