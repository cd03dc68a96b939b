//! Routes of families other than IPv4 unicast (RFC 4760, next hops: RFC 2545, 4364, 4659, 8950).

use std::net::{Ipv4Addr, Ipv6Addr};

use crate::cursor::Cursor;
use crate::nlri::{Prefixes, Routes};
use crate::{Afi, Family, Negotiated, Result, Safi};

/// Next hop of announced routes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum NextHop<'a> {
    /// No next hop: flow specifications have none (RFC 8955 §4).
    None,
    /// An IPv4 address.
    V4(Ipv4Addr),
    /// Two IPv4 addresses.
    V4Pair(Ipv4Addr, Ipv4Addr),
    /// A global IPv6 address.
    V6(Ipv6Addr),
    /// A global and a link-local IPv6 address (RFC 2545 §3).
    V6Pair(Ipv6Addr, Ipv6Addr),
    /// Route distinguisher and IPv4 address (RFC 4364 §4.3.2).
    VpnV4(u64, Ipv4Addr),
    /// Route distinguisher and IPv6 address (RFC 4659 §3.2.1).
    VpnV6(u64, Ipv6Addr),
    /// Global and link-local, each with its route distinguisher (RFC 4659 §3.2.1.1).
    VpnV6Pair([(u64, Ipv6Addr); 2]),
    /// A next hop of undefined length.
    Unknown(&'a [u8]),
}

impl<'a> NextHop<'a> {
    /// Parses a next hop; the length determines its form.
    pub fn new(bytes: &'a [u8]) -> Self {
        let v4 = |at: usize| Ipv4Addr::from(octets::<4>(bytes, at));
        let v6 = |at: usize| Ipv6Addr::from(octets::<16>(bytes, at));
        let distinguisher = |at: usize| u64::from_be_bytes(octets(bytes, at));
        match bytes.len() {
            0 => Self::None,
            4 => Self::V4(v4(0)),
            8 => Self::V4Pair(v4(0), v4(4)),
            12 => Self::VpnV4(distinguisher(0), v4(8)),
            16 => Self::V6(v6(0)),
            24 => Self::VpnV6(distinguisher(0), v6(8)),
            32 => Self::V6Pair(v6(0), v6(16)),
            48 => Self::VpnV6Pair([(distinguisher(0), v6(8)), (distinguisher(24), v6(32))]),
            _ => Self::Unknown(bytes),
        }
    }

    /// Appends the octets.
    pub fn encode(&self, to: &mut Vec<u8>) {
        match *self {
            Self::None => {}
            Self::V4(address) => to.extend(address.octets()),
            Self::V4Pair(first, second) => {
                to.extend(first.octets());
                to.extend(second.octets());
            }
            Self::V6(address) => to.extend(address.octets()),
            Self::V6Pair(global, local) => {
                to.extend(global.octets());
                to.extend(local.octets());
            }
            Self::VpnV4(distinguisher, address) => {
                to.extend(distinguisher.to_be_bytes());
                to.extend(address.octets());
            }
            Self::VpnV6(distinguisher, address) => {
                to.extend(distinguisher.to_be_bytes());
                to.extend(address.octets());
            }
            Self::VpnV6Pair(pair) => {
                for (distinguisher, address) in pair {
                    to.extend(distinguisher.to_be_bytes());
                    to.extend(address.octets());
                }
            }
            Self::Unknown(bytes) => to.extend_from_slice(bytes),
        }
    }
}

fn octets<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    bytes.get(at..).and_then(|rest| rest.first_chunk()).copied().unwrap_or([0; N])
}

/// Whether `length` octets are a valid next hop length for `family`; `true` for families
/// without a rule.
pub fn next_hop_fits(family: Family, length: usize) -> bool {
    match (family.afi, family.safi) {
        (_, Safi::FLOWSPEC | Safi::FLOWSPEC_VPN) => matches!(length, 0 | 4 | 12 | 16 | 24 | 32),
        // RFC 8950 §4 allows IPv6 next hops for IPv4 routes.
        (Afi::IPV4, Safi::UNICAST | Safi::MULTICAST | Safi::LABELLED) => {
            matches!(length, 4 | 16 | 32)
        }
        (Afi::IPV6, Safi::UNICAST | Safi::MULTICAST | Safi::LABELLED) => matches!(length, 16 | 32),
        (Afi::IPV4 | Afi::IPV6, Safi::MPLS_VPN | Safi::MCAST_MPLS_VPN) => {
            matches!(length, 12 | 24 | 48)
        }
        (Afi::L2VPN, Safi::EVPN | Safi::VPLS)
        | (_, Safi::ROUTE_TARGET | Safi::MCAST_VPN | Safi::SR_POLICY) => {
            matches!(length, 4 | 16 | 32)
        }
        (Afi::BGP_LS, Safi::BGP_LS) => matches!(length, 4 | 16 | 32),
        (Afi::BGP_LS, Safi::BGP_LS_VPN) => matches!(length, 12 | 24 | 48),
        _ => true,
    }
}

/// Announced routes of a family, `MP_REACH_NLRI`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct MpReach<'a> {
    /// Family of the routes.
    pub family: Family,
    /// Next hop, encoded.
    pub next_hop: &'a [u8],
    /// Reserved octet; before RFC 4760 the number of SNPAs. Normally 0.
    pub reserved: u8,
    /// Routes, encoded.
    pub nlri: &'a [u8],
    /// Whether routes have path identifiers.
    pub add_path: bool,
}

impl<'a> MpReach<'a> {
    /// Parses the attribute value of an UPDATE. The first byte has the offset `at` in errors.
    #[inline]
    pub fn parse(value: &'a [u8], negotiated: &Negotiated, at: usize) -> Result<Self> {
        let mut cursor = Cursor::new(value, at);
        let family = family(&mut cursor)?;
        let length = cursor.u8("next hop length")?;
        let next_hop = cursor.take(length.into(), "next hop")?;
        let reserved = cursor.u8("reserved octet of MP_REACH_NLRI")?;
        let add_path = negotiated.add_path.contains(family);
        Ok(Self { family, next_hop, reserved, nlri: cursor.rest(), add_path })
    }

    /// Parses the attribute value of an MRT table dump for a table of `family`. It contains only
    /// the next hop (RFC 6396 §4.3.4); complete values are accepted too.
    pub fn parse_dumped(value: &'a [u8], family: Family, at: usize) -> Result<Self> {
        match value {
            &[length, ref next_hop @ ..] if next_hop.len() == usize::from(length) => {
                Ok(Self { family, next_hop, reserved: 0, nlri: &[], add_path: false })
            }
            _ => Self::parse(value, &Negotiated::default(), at),
        }
    }

    /// Decoded next hop.
    pub fn next_hop(&self) -> NextHop<'a> {
        NextHop::new(self.next_hop)
    }

    /// Prefixes, if the family is unicast or multicast of IPv4 or IPv6.
    #[inline]
    pub fn prefixes(&self) -> Option<Prefixes<'a>> {
        has_prefixes(self.family).then(|| Prefixes::new(self.nlri, self.family.afi, self.add_path))
    }

    /// Routes of any family, opaque.
    pub const fn routes(&self) -> Routes<'a> {
        Routes::new(self.nlri, self.family, self.add_path)
    }

    /// Appends the value.
    pub fn encode(&self, to: &mut Vec<u8>) {
        to.extend_from_slice(&self.family.afi.0.to_be_bytes());
        to.push(self.family.safi.0);
        to.push(self.next_hop.len() as u8);
        to.extend_from_slice(self.next_hop);
        to.push(self.reserved);
        to.extend_from_slice(self.nlri);
    }
}

/// Withdrawn routes of a family, `MP_UNREACH_NLRI`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct MpUnreach<'a> {
    /// Family of the routes.
    pub family: Family,
    /// Routes, encoded; an empty field is the End-of-RIB marker (RFC 4724 §2).
    pub nlri: &'a [u8],
    /// Whether routes have path identifiers.
    pub add_path: bool,
}

impl<'a> MpUnreach<'a> {
    /// Parses the attribute value of an UPDATE. The first byte has the offset `at` in errors.
    #[inline]
    pub fn parse(value: &'a [u8], negotiated: &Negotiated, at: usize) -> Result<Self> {
        let mut cursor = Cursor::new(value, at);
        let family = family(&mut cursor)?;
        let add_path = negotiated.add_path.contains(family);
        Ok(Self { family, nlri: cursor.rest(), add_path })
    }

    /// Prefixes, if the family is unicast or multicast of IPv4 or IPv6.
    #[inline]
    pub fn prefixes(&self) -> Option<Prefixes<'a>> {
        has_prefixes(self.family).then(|| Prefixes::new(self.nlri, self.family.afi, self.add_path))
    }

    /// Routes of any family, opaque.
    pub const fn routes(&self) -> Routes<'a> {
        Routes::new(self.nlri, self.family, self.add_path)
    }

    /// Appends the value.
    pub fn encode(&self, to: &mut Vec<u8>) {
        to.extend_from_slice(&self.family.afi.0.to_be_bytes());
        to.push(self.family.safi.0);
        to.extend_from_slice(self.nlri);
    }
}

fn family(cursor: &mut Cursor<'_>) -> Result<Family> {
    let afi = Afi(cursor.u16("address family")?);
    Ok(Family { afi, safi: Safi(cursor.u8("subsequent address family")?) })
}

#[inline]
const fn has_prefixes(family: Family) -> bool {
    matches!(family.afi, Afi::IPV4 | Afi::IPV6)
        && matches!(family.safi, Safi::UNICAST | Safi::MULTICAST)
}
