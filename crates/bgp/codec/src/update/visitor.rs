//! One pass over an UPDATE: decodes each attribute, checks it as RFC 7606 requires, and
//! visits each prefix.
#![expect(clippy::inline_always, reason = "nothing that is framed goes through memory")]

use std::net::Ipv4Addr;

use super::Update;
use crate::attribute::mp_reach::next_hop_fits;
use crate::attribute::{
    Attribute, MpReach, MpUnreach, RawAttribute, Then, code, expected_flags, flags, frame, name,
    unframed,
};
use crate::nlri::{Destination, Nlri, Prefixes, Route, Routes, v4};
use crate::verdict::{Action, Problem, Verdict, of_malformed};
use crate::{Afi, Error, Family, Negotiated};

/// Receives the content of an UPDATE in wire order. A malformed attribute is reported as
/// [`Attribute::Opaque`] and as a problem, a duplicate attribute only as a problem (RFC 7606 §3 g).
pub trait Visitor {
    /// A withdrawn prefix.
    fn withdrawn(&mut self, family: Family, nlri: Nlri) {
        let _ = (family, nlri);
    }

    /// A withdrawn route of a family without plain prefixes.
    fn withdrawn_route(&mut self, family: Family, route: Route<'_>) {
        let _ = (family, route);
    }

    /// An attribute, before the routes that it contains.
    fn attribute(&mut self, raw: &RawAttribute<'_>, attribute: &Attribute<'_>) {
        let _ = (raw, attribute);
    }

    /// An announced prefix.
    fn announced(&mut self, family: Family, nlri: Nlri) {
        let _ = (family, nlri);
    }

    /// An announced route of a family without plain prefixes.
    fn announced_route(&mut self, family: Family, route: Route<'_>) {
        let _ = (family, route);
    }

    /// A problem of the message.
    fn problem(&mut self, problem: Problem) {
        let _ = problem;
    }
}

/// The verdict for the body of an UPDATE.
pub fn judge(body: &[u8], negotiated: &Negotiated) -> Verdict {
    struct Collect(Vec<Problem>);
    impl Visitor for Collect {
        fn problem(&mut self, problem: Problem) {
            if self.0.len() < Verdict::LIMIT {
                self.0.push(problem);
            }
        }
    }
    let mut collect = Collect(Vec::new());
    let action = walk(body, negotiated, &mut collect);
    Verdict { action, problems: collect.0 }
}

/// Passes the content of an UPDATE to `visitor`, and returns the verdict for the message.
#[inline]
pub fn walk(body: &[u8], negotiated: &Negotiated, visitor: &mut impl Visitor) -> Action {
    let mut walk = Walk {
        negotiated: *negotiated,
        visitor,
        seen: 0,
        seen_high: [0; 3],
        plain: false,
        reaches: false,
        action: Action::Accept,
    };
    match Update::parse(body) {
        Ok(update) => walk.update(&update),
        Err(error) => walk.problem(Action::SessionReset, 0, error),
    }
    walk.action
}

/// Passes an attribute to the visitor and checks its value.
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
    visitor: &'v mut V,
    /// Type codes below 64 that have occurred.
    seen: u64,
    /// Other type codes that have occurred.
    seen_high: [u64; 3],
    /// There are prefixes outside of `MP_REACH_NLRI`.
    plain: bool,
    /// `MP_REACH_NLRI` has routes.
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
        // No iterator here: its error type would force the frame into memory.
        let (mut rest, mut at, mut seen) = (update.attributes, update.attributes_at(), 0);
        while !rest.is_empty() {
            let Some((raw, behind)) = frame(rest, at) else {
                // The length of the attribute field determines the position of the prefixes (RFC
                // 7606 §4).
                let error = unframed(rest, at);
                self.problem(Action::TreatAsWithdraw, 0, error);
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

    /// Processes uncommon or malformed attributes.
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

    /// Checks the value of a well-formed attribute.
    #[inline(always)]
    fn content(&mut self, raw: RawAttribute<'_>, attribute: &Attribute<'_>) {
        match attribute {
            Attribute::AsPath(path) if path.has_zero() => {
                self.value(raw, Action::TreatAsWithdraw, "AS 0");
            }
            // NEXT_HOP does not apply to the routes of MP_REACH_NLRI (RFC 4760 §3).
            Attribute::NextHop(address) if !is_host(*address) && self.plain => {
                let wrong = "not a host address";
                self.value(raw, Action::TreatAsWithdraw, wrong);
            }
            Attribute::MpReach(reach) => self.reach(raw, reach),
            Attribute::MpUnreach(unreach) => self.unreach(raw, unreach),
            Attribute::Aggregator(by) | Attribute::As4Aggregator(by) => {
                if by.asn.0 == 0 {
                    self.value(raw, Action::AttributeDiscard, "AS 0");
                }
                self.sender(raw);
            }
            Attribute::As4Path(path) => {
                if path.has_zero() {
                    self.value(raw, Action::TreatAsWithdraw, "AS 0");
                }
                self.sender(raw);
            }
            _ => {}
        }
    }

    fn reach(&mut self, raw: RawAttribute<'_>, reach: &MpReach<'_>) {
        if !next_hop_fits(reach.family, reach.next_hop.len()) {
            let (field, at) = ("next hop length", raw.value_at() + 3);
            let value = reach.next_hop.len() as u64;
            let error =
                Error::Value { field, at, value, wrong: "not a valid length for this family" };
            return self.problem(Action::FamilyDisable, raw.code, error);
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

    /// Visits IPv4 unicast prefixes outside of `MP_REACH_NLRI`.
    #[inline(always)]
    fn plain<const REACH: bool>(&mut self, field: &[u8], at: usize) {
        let family = Family::IPV4_UNICAST;
        if self.negotiated.add_path.contains(family) {
            return self.prefixes::<REACH>(family, Prefixes::new(field, Afi::IPV4, true), at, 0);
        }
        let mut next = 0;
        while next < field.len() {
            let Some((prefix, end)) = v4(field, next) else {
                // Parse the malformed prefix again to get the error.
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
                // The route is framed but malformed (RFC 7606 §3 j).
                self.problem(Action::FamilyDisable, attribute, error.behind(at));
            }
            if REACH {
                self.visitor.announced_route(family, route);
            } else {
                self.visitor.withdrawn_route(family, route);
            }
        }
    }

    /// Reports prefixes that cannot be framed (RFC 7606 §5.3, 3 j).
    #[cold]
    #[inline(never)]
    fn network(&mut self, attribute: u8, error: Error) {
        let action = match attribute {
            0 => Action::SessionReset,
            _ => Action::FamilyDisable,
        };
        self.problem(action, attribute, error);
    }

    #[cold]
    #[inline(never)]
    fn problem(&mut self, action: Action, attribute: u8, error: Error) {
        self.action = self.action.max(action);
        let attribute = (attribute != 0).then_some(attribute);
        self.visitor.problem(Problem { action, attribute, error });
    }

    /// Reports an invalid attribute value.
    #[cold]
    #[inline(never)]
    fn value(&mut self, raw: RawAttribute<'_>, action: Action, wrong: &'static str) {
        let field = name(raw.code).unwrap_or("attribute");
        let value = raw.value.iter().take(8).fold(0, |value, octet| value << 8 | u64::from(*octet));
        let error = Error::Value { field, at: raw.value_at(), value, wrong };
        self.problem(action, raw.code, error);
    }

    #[cold]
    #[inline(never)]
    fn twice(&mut self, raw: RawAttribute<'_>) {
        let action = match raw.code {
            code::MP_REACH_NLRI | code::MP_UNREACH_NLRI => Action::SessionReset,
            _ => Action::AttributeDiscard,
        };
        let field = name(raw.code).unwrap_or("attribute");
        self.problem(action, raw.code, Error::Twice { field, at: raw.at });
    }

    /// Reports flags that differ from the definition of the attribute, or an unrecognized
    /// well-known attribute.
    #[cold]
    #[inline(never)]
    fn flags(&mut self, raw: RawAttribute<'_>, expected: Option<u8>) {
        self.visitor.attribute(&raw, &Attribute::Opaque(raw));
        let (at, value) = (raw.at, raw.flags.into());
        if expected.is_none() {
            let wrong = "those of a well-known attribute, but the type code is unknown";
            let error = Error::Value { field: "attribute flags", at, value, wrong };
            return self.problem(Action::SessionReset, raw.code, error);
        }
        // Routes of an attribute with invalid flags are not decoded (RFC 7606 §5.3).
        let action = match raw.code {
            code::MP_REACH_NLRI | code::MP_UNREACH_NLRI => Action::SessionReset,
            _ => Action::TreatAsWithdraw,
        };
        let wrong = "not those of the type code";
        let error = Error::Value { field: "attribute flags", at, value, wrong };
        self.problem(action, raw.code, error);
    }

    #[cold]
    #[inline(never)]
    fn malformed(&mut self, raw: RawAttribute<'_>, error: Error) {
        self.visitor.attribute(&raw, &Attribute::Opaque(raw));
        self.problem(of_malformed(raw.code), raw.code, error);
    }

    /// Reports attributes that a speaker with four-octet AS numbers must not send (RFC 6793 §4.1).
    #[inline]
    fn sender(&mut self, raw: RawAttribute<'_>) {
        if self.negotiated.four_octet_as {
            let wrong = "received from a neighbour that must not send it";
            self.value(raw, Action::AttributeDiscard, wrong);
        }
    }

    /// Reports missing mandatory attributes of announced routes (RFC 7606 §3 d, RFC 4760 §3, RFC
    /// 4271 §5). `BGPsec_PATH` replaces `AS_PATH` (RFC 8205 §4.1).
    #[cold]
    #[inline(never)]
    fn missing(&mut self, mut needed: u64, at: usize) {
        if self.seen & bit(code::BGPSEC_PATH) != 0 {
            needed &= !bit(code::AS_PATH);
        }
        for attribute in [code::ORIGIN, code::AS_PATH, code::NEXT_HOP] {
            if needed & !self.seen & bit(attribute) != 0 {
                let field = name(attribute).unwrap_or("attribute");
                let error = Error::Missing { field, at };
                self.problem(Action::TreatAsWithdraw, attribute, error);
            }
        }
    }

    /// Requires a session reset if errors may hide announcements: a message with errors and without
    /// announcements may have contained some (RFC 7606 §5.2).
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
    // 0/8 is "this network", 127/8 is loopback, 224/3 is multicast and reserved.
    let first = address.octets()[0];
    first != 0 && first != 127 && first < 224
}
