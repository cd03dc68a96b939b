//! Path attributes (RFC 4271 §5): typed values.

pub mod aggregator;
pub mod aigp;
pub mod as_path;
pub mod community;
pub mod extended_community;
pub mod mp_reach;
mod opaque;
mod raw;

use std::net::Ipv4Addr;

use crate::{Asn, Error, Negotiated, Result};

pub use aggregator::Aggregator;
pub use aigp::Aigp;
pub use as_path::{AsPath, AsPathBuf, LogicalPath, SegmentKind};
pub use community::{Communities, Community, LargeCommunities, LargeCommunity};
pub use extended_community::{ExtendedCommunities, ExtendedCommunity};
pub use mp_reach::{MpReach, MpUnreach, NextHop};
pub use raw::{Attributes, RawAttribute, code, encode, flags};

use raw::encode_with;
pub(crate) use raw::{frame, unframed};

/// Optional and Transitive flags that the definition of each attribute requires, by type code;
/// `UNKNOWN` for unknown type codes.
const EXPECTED: [u8; 256] = {
    let mut table = [UNKNOWN; 256];
    let well_known = [1, 2, 3, 5, 6];
    let transitive = [7, 8, 16, 17, 18, 22, 23, 25, 27, 32, 35, 37, 38, 40, 128];
    let local = [4, 9, 10, 14, 15, 24, 26, 29, 33];
    let mut at = 0;
    while at < well_known.len() {
        table[well_known[at]] = flags::TRANSITIVE;
        at += 1;
    }
    at = 0;
    while at < transitive.len() {
        table[transitive[at]] = flags::OPTIONAL | flags::TRANSITIVE;
        at += 1;
    }
    at = 0;
    while at < local.len() {
        table[local[at]] = flags::OPTIONAL;
        at += 1;
    }
    table
};

const UNKNOWN: u8 = 0xff;

/// Optional and Transitive flags that the definition of the attribute requires; `None` for
/// unknown type codes.
#[inline]
pub const fn expected_flags(code: u8) -> Option<u8> {
    match EXPECTED[code as usize] {
        UNKNOWN => None,
        flags => Some(flags),
    }
}

/// Registry name of a type code; `None` for unknown ones.
pub const fn name(code: u8) -> Option<&'static str> {
    Some(match code {
        code::ORIGIN => "ORIGIN",
        code::AS_PATH => "AS_PATH",
        code::NEXT_HOP => "NEXT_HOP",
        code::MULTI_EXIT_DISC => "MULTI_EXIT_DISC",
        code::LOCAL_PREF => "LOCAL_PREF",
        code::ATOMIC_AGGREGATE => "ATOMIC_AGGREGATE",
        code::AGGREGATOR => "AGGREGATOR",
        code::COMMUNITIES => "COMMUNITIES",
        code::ORIGINATOR_ID => "ORIGINATOR_ID",
        code::CLUSTER_LIST => "CLUSTER_LIST",
        code::MP_REACH_NLRI => "MP_REACH_NLRI",
        code::MP_UNREACH_NLRI => "MP_UNREACH_NLRI",
        code::EXTENDED_COMMUNITIES => "EXTENDED_COMMUNITIES",
        code::AS4_PATH => "AS4_PATH",
        code::AS4_AGGREGATOR => "AS4_AGGREGATOR",
        code::PMSI_TUNNEL => "PMSI_TUNNEL",
        code::TUNNEL_ENCAPSULATION => "TUNNEL_ENCAPSULATION",
        code::TRAFFIC_ENGINEERING => "TRAFFIC_ENGINEERING",
        code::IPV6_EXTENDED_COMMUNITIES => "IPV6_EXTENDED_COMMUNITIES",
        code::AIGP => "AIGP",
        code::PE_DISTINGUISHER_LABELS => "PE_DISTINGUISHER_LABELS",
        code::BGP_LS => "BGP_LS",
        code::LARGE_COMMUNITIES => "LARGE_COMMUNITIES",
        code::BGPSEC_PATH => "BGPSEC_PATH",
        code::ONLY_TO_CUSTOMER => "ONLY_TO_CUSTOMER",
        code::SFP => "SFP",
        code::BFD_DISCRIMINATOR => "BFD_DISCRIMINATOR",
        code::PREFIX_SID => "PREFIX_SID",
        code::ATTR_SET => "ATTR_SET",
        _ => return None,
    })
}

/// Origin of a route (RFC 4271 §5.1.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "the names are the RFC's")]
pub enum Origin {
    Igp = 0,
    Egp = 1,
    Incomplete = 2,
}

/// Route reflectors that a route passed, nearest first (RFC 4456 §8).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClusterList<'a>(&'a [[u8; 4]]);

impl<'a> ClusterList<'a> {
    /// Fails unless the length is a positive multiple of four octets (RFC 7606 §7.10).
    #[inline]
    pub fn parse(value: &'a [u8]) -> Option<Self> {
        let (clusters, rest) = value.as_chunks();
        (rest.is_empty() && !clusters.is_empty()).then_some(Self(clusters))
    }

    /// Identifiers of the clusters.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = Ipv4Addr> + use<'a> {
        self.0.iter().map(|octets| Ipv4Addr::from(*octets))
    }

    /// The encoded cluster list.
    pub const fn bytes(&self) -> &'a [u8] {
        self.0.as_flattened()
    }
}

/// A decoded attribute.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub enum Attribute<'a> {
    /// How the origin learned of the route.
    Origin(Origin),
    /// ASes that the route passed.
    AsPath(AsPath<'a>),
    /// Next hop of the IPv4 routes.
    NextHop(Ipv4Addr),
    /// Preference among links to the same AS: the lowest wins.
    MultiExitDisc(u32),
    /// Preference within the AS: the highest wins.
    LocalPref(u32),
    /// Some ASes are missing in the path.
    AtomicAggregate,
    /// Speaker that aggregated the route.
    Aggregator(Aggregator),
    /// Communities (RFC 1997).
    Communities(Communities<'a>),
    /// Speaker that injected the route into the AS (RFC 4456).
    OriginatorId(Ipv4Addr),
    /// Route reflectors that the route passed (RFC 4456).
    ClusterList(ClusterList<'a>),
    /// Announced routes of a family (RFC 4760).
    MpReach(MpReach<'a>),
    /// Withdrawn routes of a family (RFC 4760).
    MpUnreach(MpUnreach<'a>),
    /// Last ASes of the path, with four-octet AS numbers (RFC 6793).
    As4Path(AsPath<'a>),
    /// Speaker that aggregated the route, with an AS number of four octets (RFC 6793).
    As4Aggregator(Aggregator),
    /// Extended communities (RFC 4360).
    ExtendedCommunities(ExtendedCommunities<'a>),
    /// Accumulated IGP metric (RFC 7311).
    Aigp(Aigp<'a>),
    /// Large communities (RFC 8092).
    LargeCommunities(LargeCommunities<'a>),
    /// AS that marked the route as only for customers, to detect route leaks (RFC 9234).
    OnlyToCustomer(Asn),
    /// Opaque attribute. For known types only the lengths are checked; unknown types are accepted.
    Opaque(RawAttribute<'a>),
}

impl<'a> Attribute<'a> {
    /// Decodes the value; the flags are ignored. Fails if the value does not match the definition
    /// of the attribute. Unknown type codes never fail.
    #[inline]
    pub fn decode(raw: RawAttribute<'a>, negotiated: &Negotiated) -> Result<Self> {
        match Self::decode_common(raw, *negotiated, Keep) {
            Some(attribute) => Ok(attribute),
            None => Self::decode_any(raw, *negotiated),
        }
    }

    /// Passes a common, well-formed attribute to `then`. Each type gets its own copy of `then`, so
    /// that no attribute is stored in between.
    #[inline(always)]
    #[expect(clippy::inline_always, reason = "half of the cost of a walk over an UPDATE")]
    pub(crate) fn decode_common<R>(
        raw: RawAttribute<'a>,
        negotiated: Negotiated,
        then: impl Then<'a, R>,
    ) -> Option<R> {
        let RawAttribute { value, .. } = raw;
        Some(match raw.code {
            code::ORIGIN => match *value {
                [0] => then.then(Self::Origin(Origin::Igp)),
                [1] => then.then(Self::Origin(Origin::Egp)),
                [2] => then.then(Self::Origin(Origin::Incomplete)),
                _ => return None,
            },
            code::AS_PATH => {
                then.then(Self::AsPath(AsPath::well_formed(value, negotiated.four_octet_as)?))
            }
            code::NEXT_HOP => then.then(Self::NextHop(Ipv4Addr::from_bits(word(value)?))),
            code::MULTI_EXIT_DISC => then.then(Self::MultiExitDisc(word(value)?)),
            code::LOCAL_PREF => then.then(Self::LocalPref(word(value)?)),
            code::ATOMIC_AGGREGATE if value.is_empty() => then.then(Self::AtomicAggregate),
            code::AGGREGATOR => {
                then.then(Self::Aggregator(Aggregator::parse(value, negotiated.four_octet_as)?))
            }
            code::COMMUNITIES => then.then(Self::Communities(Communities::parse(value)?)),
            code::ORIGINATOR_ID => then.then(Self::OriginatorId(Ipv4Addr::from_bits(word(value)?))),
            code::CLUSTER_LIST => then.then(Self::ClusterList(ClusterList::parse(value)?)),
            _ => return None,
        })
    }

    /// Decodes attributes that [`Self::decode_common`] does not.
    #[inline(never)]
    pub(crate) fn decode_any(raw: RawAttribute<'a>, negotiated: Negotiated) -> Result<Self> {
        let RawAttribute { value, .. } = raw;
        let decoded = match raw.code {
            code::AS_PATH => {
                let path = AsPath::parse(value, negotiated.four_octet_as, raw.value_at())?;
                Some(Self::AsPath(path))
            }
            // Common attributes reach this function only if they are malformed.
            code::ORIGIN..=code::CLUSTER_LIST => None,
            code::MP_REACH_NLRI => {
                Some(Self::MpReach(MpReach::parse(value, &negotiated, raw.value_at())?))
            }
            code::MP_UNREACH_NLRI => {
                Some(Self::MpUnreach(MpUnreach::parse(value, &negotiated, raw.value_at())?))
            }
            code::AS4_PATH => Some(Self::As4Path(AsPath::parse(value, true, raw.value_at())?)),
            code::AS4_AGGREGATOR => Aggregator::parse(value, true).map(Self::As4Aggregator),
            code::LARGE_COMMUNITIES => LargeCommunities::parse(value).map(Self::LargeCommunities),
            code::ONLY_TO_CUSTOMER => word(value).map(|asn| Self::OnlyToCustomer(Asn(asn))),
            _ => return Self::decode_rich(raw).map_err(|error| error.behind(raw.value_at())),
        };
        decoded.ok_or_else(|| malformed(&raw))
    }

    /// Decodes attributes with nested fields. Offsets of errors count from the start of the value.
    fn decode_rich(raw: RawAttribute<'a>) -> Result<Self> {
        let RawAttribute { value, .. } = raw;
        Ok(match raw.code {
            code::EXTENDED_COMMUNITIES => {
                Self::ExtendedCommunities(ExtendedCommunities::parse(value)?)
            }
            code::AIGP => Self::Aigp(Aigp::parse(value)?),
            code => {
                opaque::check(code, value)?;
                Self::Opaque(raw)
            }
        })
    }

    /// Type code of the attribute.
    pub const fn code(&self) -> u8 {
        match self {
            Self::Origin(_) => code::ORIGIN,
            Self::AsPath(_) => code::AS_PATH,
            Self::NextHop(_) => code::NEXT_HOP,
            Self::MultiExitDisc(_) => code::MULTI_EXIT_DISC,
            Self::LocalPref(_) => code::LOCAL_PREF,
            Self::AtomicAggregate => code::ATOMIC_AGGREGATE,
            Self::Aggregator(_) => code::AGGREGATOR,
            Self::Communities(_) => code::COMMUNITIES,
            Self::OriginatorId(_) => code::ORIGINATOR_ID,
            Self::ClusterList(_) => code::CLUSTER_LIST,
            Self::MpReach(_) => code::MP_REACH_NLRI,
            Self::MpUnreach(_) => code::MP_UNREACH_NLRI,
            Self::As4Path(_) => code::AS4_PATH,
            Self::As4Aggregator(_) => code::AS4_AGGREGATOR,
            Self::ExtendedCommunities(_) => code::EXTENDED_COMMUNITIES,
            Self::Aigp(_) => code::AIGP,
            Self::LargeCommunities(_) => code::LARGE_COMMUNITIES,
            Self::OnlyToCustomer(_) => code::ONLY_TO_CUSTOMER,
            Self::Opaque(raw) => raw.code,
        }
    }

    /// Appends the attribute with the flags of its definition (the original flags if it is opaque),
    /// for a session with the capabilities `negotiated`. Fails if it exceeds the maximum length.
    pub fn encode(&self, negotiated: &Negotiated, to: &mut Vec<u8>) -> Result<()> {
        let flags = match self {
            Self::Opaque(raw) => raw.flags,
            _ => expected_flags(self.code()).unwrap_or(flags::OPTIONAL | flags::TRANSITIVE),
        };
        encode_with(flags, self.code(), to, |to| self.encode_value(*negotiated, to))
    }

    fn encode_value(&self, negotiated: Negotiated, to: &mut Vec<u8>) {
        match self {
            Self::Origin(origin) => to.push(*origin as u8),
            Self::AsPath(path) => path.encode(negotiated.four_octet_as, to),
            Self::As4Path(path) => path.encode(true, to),
            Self::NextHop(address) | Self::OriginatorId(address) => to.extend(address.octets()),
            Self::MultiExitDisc(value) | Self::LocalPref(value) => to.extend(value.to_be_bytes()),
            Self::AtomicAggregate => {}
            Self::Aggregator(aggregator) => aggregator.encode(negotiated.four_octet_as, to),
            Self::As4Aggregator(aggregator) => aggregator.encode(true, to),
            Self::Communities(list) => to.extend_from_slice(list.bytes()),
            Self::LargeCommunities(list) => to.extend_from_slice(list.bytes()),
            Self::ClusterList(list) => to.extend_from_slice(list.bytes()),
            Self::ExtendedCommunities(list) => to.extend_from_slice(list.bytes()),
            Self::Aigp(aigp) => to.extend_from_slice(aigp.bytes()),
            Self::MpReach(reach) => reach.encode(to),
            Self::MpUnreach(unreach) => unreach.encode(to),
            Self::OnlyToCustomer(asn) => to.extend(asn.0.to_be_bytes()),
            Self::Opaque(raw) => to.extend_from_slice(raw.value),
        }
    }
}

/// Consumer of a decoded attribute. It is a trait because a closure cannot be marked for inlining.
pub(crate) trait Then<'a, R> {
    /// Consumes the attribute.
    fn then(self, attribute: Attribute<'a>) -> R;
}

struct Keep;

impl<'a> Then<'a, Attribute<'a>> for Keep {
    #[inline]
    fn then(self, attribute: Attribute<'a>) -> Attribute<'a> {
        attribute
    }
}

#[inline]
fn word(value: &[u8]) -> Option<u32> {
    value.try_into().ok().map(u32::from_be_bytes)
}

#[cold]
#[inline(never)]
fn malformed(raw: &RawAttribute<'_>) -> Error {
    let field = name(raw.code).unwrap_or("attribute");
    let at = raw.value_at();
    if let (code::ORIGIN, &[value]) = (raw.code, raw.value) {
        return Error::Value { field, at, value: value.into(), wrong: "not a valid origin" };
    }
    Error::Value { field, at, value: raw.value.len() as u64, wrong: "not a valid length" }
}

#[cfg(test)]
mod tests;
