//! Network layer reachability information: the prefixes and routes that an UPDATE announces or
//! withdraws (RFC 4271 §4.3, RFC 4760 §5, path identifiers: RFC 7911 §3).

mod destination;
pub mod labelled;
pub mod vpn;

use crate::{Afi, Error, Family, Prefix, Result, Safi};

pub use destination::Destination;

/// A prefix and its path identifier.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Nlri {
    /// Path identifier, where ADD-PATH was negotiated.
    pub path_id: Option<u32>,
    /// Prefix of the route.
    pub prefix: Prefix,
}

/// Iterator over the prefixes of an NLRI field (unicast or multicast). The first error is the last
/// item, because the start of the next prefix is unknown.
#[derive(Clone, Debug)]
pub struct Prefixes<'a> {
    bytes: &'a [u8],
    at: usize,
    v6: bool,
    add_path: bool,
}

impl<'a> Prefixes<'a> {
    /// Prefixes in `bytes`: IPv6 if `afi` is IPv6, otherwise IPv4; each follows a path identifier
    /// of four octets if `add_path`.
    #[inline]
    pub const fn new(bytes: &'a [u8], afi: Afi, add_path: bool) -> Self {
        Self { bytes, at: 0, v6: afi.0 == Afi::IPV6.0, add_path }
    }

    /// Offset of the next prefix.
    pub const fn at(&self) -> usize {
        self.at
    }
}

impl Iterator for Prefixes<'_> {
    type Item = Result<Nlri>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        let (bytes, start) = (self.bytes, self.at);
        if start >= bytes.len() {
            return None;
        }
        let Some((nlri, next)) = nlri(bytes, start, self.v6, self.add_path) else {
            self.at = bytes.len();
            return Some(Err(wrong(&bytes[start..], start, self.v6, self.add_path)));
        };
        self.at = next;
        Some(Ok(nlri))
    }
}

#[inline]
fn nlri(bytes: &[u8], mut at: usize, is_v6: bool, add_path: bool) -> Option<(Nlri, usize)> {
    let mut path_id = None;
    if add_path {
        path_id = Some(u32::from_be_bytes(*bytes.get(at..)?.first_chunk()?));
        at += 4;
    }
    let (prefix, next) = if is_v6 { v6(bytes, at)? } else { v4(bytes, at)? };
    Some((Nlri { path_id, prefix }, next))
}

/// The error for the prefix at the start of `rest`.
#[cold]
#[inline(never)]
fn wrong(mut rest: &[u8], mut at: usize, is_v6: bool, add_path: bool) -> Error {
    if add_path {
        let have = rest.len();
        let Some(behind) = rest.get(4..) else {
            return Error::Short { field: "path identifier", at, need: 4, have };
        };
        (rest, at) = (behind, at + 4);
    }
    let limit = if is_v6 { 128 } else { 32 };
    let have = rest.len();
    match rest.first() {
        None => Error::Short { field: "prefix length", at, need: 1, have },
        Some(&length) if length > limit => {
            let wrong = if is_v6 { "above the maximum of 128" } else { "above the maximum of 32" };
            Error::Value { field: "prefix length", at, value: length.into(), wrong }
        }
        Some(&length) => {
            let need = 1 + usize::from(length.div_ceil(8));
            Error::Short { field: "prefix", at, need, have }
        }
    }
}

/// The IPv4 prefix at `at`, and the offset of its end.
#[inline]
pub(crate) fn v4(bytes: &[u8], at: usize) -> Option<(Prefix, usize)> {
    let length = *bytes.get(at)?;
    let size = usize::from(length).div_ceil(8);
    let end = at + 1 + size;
    if length > 32 || end > bytes.len() {
        return None;
    }
    let word = window(bytes, at + 1);
    // The first `size` octets of four.
    let sent = (0xffff_ffff_0000_0000_u64 >> (8 * size)) as u32;
    Some((Prefix::V4(word & sent, length), end))
}

/// Four octets at `at`; missing octets are arbitrary. Near the end, the last four octets are
/// shifted, which needs no branch on the number of missing octets.
#[inline]
fn window(bytes: &[u8], at: usize) -> u32 {
    let Some(last) = bytes.len().checked_sub(4) else {
        let mut octets = [0; 4];
        octets[..bytes.len() - at].copy_from_slice(&bytes[at..]);
        return u32::from_be_bytes(octets);
    };
    let from = at.min(last);
    let word = bytes[from..].first_chunk().map_or(0, |octets| u32::from_be_bytes(*octets));
    (u64::from(word) << ((8 * (at - from)) & 63)) as u32
}

/// The IPv6 prefix at `at`, and the offset of its end.
#[inline]
pub(crate) fn v6(bytes: &[u8], at: usize) -> Option<(Prefix, usize)> {
    let length = *bytes.get(at)?;
    let size = usize::from(length).div_ceil(8);
    let end = at + 1 + size;
    if length > 128 || end > bytes.len() {
        return None;
    }
    let rest = &bytes[at + 1..];
    let octets = rest.first_chunk::<16>().copied().unwrap_or_else(|| {
        let mut octets = [0; 16];
        octets[..size].copy_from_slice(&rest[..size]);
        octets
    });
    let word = u128::from_be_bytes(octets);
    let sent = if size == 0 { 0 } else { u128::MAX << (128 - 8 * size) };
    Some((Prefix::V6(word & sent, length), end))
}

/// One route of any family, not decoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Route<'a> {
    /// Path identifier, where ADD-PATH was negotiated.
    pub path_id: Option<u32>,
    /// All bytes but the path identifier, including type and length.
    pub bytes: &'a [u8],
    /// Offset of `bytes` in the field.
    pub at: usize,
}

/// Format of the length field of routes, by family.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Layout {
    /// Length in bits, one octet, with a maximum.
    Bits(u8),
    /// Type and length in octets, one octet each.
    TypeLength,
    /// Type and length in octets, two octets each.
    WideTypeLength,
    /// Length in octets, two octets.
    WideLength,
    /// Length in octets: one octet, or two if the first begins with 1111.
    FlowLength,
    /// Unknown: the field is one route.
    Whole,
}

impl Layout {
    const fn of(family: Family) -> Self {
        match (family.afi, family.safi) {
            (Afi::IPV4, Safi::UNICAST | Safi::MULTICAST) => Self::Bits(32),
            (Afi::IPV6, Safi::UNICAST | Safi::MULTICAST) => Self::Bits(128),
            // Labels and route distinguishers are included in the prefix length.
            (Afi::IPV4 | Afi::IPV6, Safi::LABELLED | Safi::MPLS_VPN | Safi::MCAST_MPLS_VPN) => {
                Self::Bits(255)
            }
            (Afi::IPV4 | Afi::IPV6, Safi::ROUTE_TARGET) => Self::Bits(96),
            (Afi::IPV4 | Afi::IPV6, Safi::SR_POLICY) => Self::Bits(192),
            (Afi::L2VPN, Safi::EVPN) | (Afi::IPV4 | Afi::IPV6, Safi::MCAST_VPN) => Self::TypeLength,
            (Afi::BGP_LS, Safi::BGP_LS | Safi::BGP_LS_VPN)
            | (Afi::SERVICE_CHAIN, Safi::SERVICE_CHAIN) => Self::WideTypeLength,
            (Afi::L2VPN, Safi::VPLS) => Self::WideLength,
            (Afi::IPV4 | Afi::IPV6 | Afi::L2VPN, Safi::FLOWSPEC | Safi::FLOWSPEC_VPN) => {
                Self::FlowLength
            }
            _ => Self::Whole,
        }
    }

    /// Length in bytes of the route at the start of `bytes`, if its length field is valid.
    fn size(self, bytes: &[u8]) -> Option<usize> {
        let wide = |at: usize| {
            let octets = bytes.get(at..)?.first_chunk()?;
            Some(usize::from(u16::from_be_bytes(*octets)))
        };
        match self {
            Self::Bits(limit) => {
                let length = *bytes.first()?;
                (length <= limit).then_some(1 + usize::from(length).div_ceil(8))
            }
            Self::TypeLength => Some(2 + usize::from(*bytes.get(1)?)),
            Self::WideTypeLength => Some(4 + wide(2)?),
            Self::WideLength => Some(2 + wide(0)?),
            Self::FlowLength => match *bytes.first()? {
                length @ 0..0xf0 => Some(1 + usize::from(length)),
                _ => Some(2 + (wide(0)? & 0xfff)),
            },
            Self::Whole => Some(bytes.len()),
        }
    }
}

/// Iterator over the routes of an NLRI field of any family, as opaque bytes. The first error is the
/// last item. The whole field of an unknown family is one route.
#[derive(Clone, Debug)]
pub struct Routes<'a> {
    bytes: &'a [u8],
    at: usize,
    layout: Layout,
    add_path: bool,
}

impl<'a> Routes<'a> {
    /// Routes of `family` in `bytes`; each follows a path identifier if `add_path`.
    pub const fn new(bytes: &'a [u8], family: Family, add_path: bool) -> Self {
        Self { bytes, at: 0, layout: Layout::of(family), add_path }
    }
}

impl<'a> Iterator for Routes<'a> {
    type Item = Result<Route<'a>>;

    fn next(&mut self) -> Option<Self::Item> {
        let mut rest = self.bytes.get(self.at..).filter(|rest| !rest.is_empty())?;
        let (mut at, mut path_id) = (self.at, None);
        self.at = self.bytes.len();
        // ADD-PATH cannot be negotiated for an unknown family.
        if self.add_path && self.layout != Layout::Whole {
            let Some((id, behind)) = rest.split_first_chunk() else {
                let have = rest.len();
                return Some(Err(Error::Short { field: "path identifier", at, need: 4, have }));
            };
            (path_id, rest) = (Some(u32::from_be_bytes(*id)), behind);
            at += 4;
        }
        let Some(size) = self.layout.size(rest) else {
            let value = rest.first().copied().unwrap_or(0).into();
            let wrong = "not a valid length for this address family";
            return Some(Err(Error::Value { field: "route length", at, value, wrong }));
        };
        let Some(bytes) = rest.get(..size) else {
            let have = rest.len();
            return Some(Err(Error::Short { field: "route", at, need: size, have }));
        };
        self.at = at + size;
        Some(Ok(Route { path_id, bytes, at }))
    }
}

/// Appends a prefix as NLRI: path identifier if present, length, and the minimum number of octets.
pub fn encode(nlri: &Nlri, to: &mut Vec<u8>) {
    if let Some(id) = nlri.path_id {
        to.extend_from_slice(&id.to_be_bytes());
    }
    let length = nlri.prefix.length();
    let size = usize::from(length.div_ceil(8));
    to.push(length);
    match nlri.prefix {
        Prefix::V4(bits, _) => to.extend_from_slice(&bits.to_be_bytes()[..size.min(4)]),
        Prefix::V6(bits, _) => to.extend_from_slice(&bits.to_be_bytes()[..size.min(16)]),
    }
}

#[cfg(test)]
mod tests;
