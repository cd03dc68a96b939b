//! Network layer reachability information: the prefixes and routes that an UPDATE announces or
//! withdraws (RFC 4271 §4.3, RFC 4760 §5, path identifiers: RFC 7911 §3).

pub mod bgp_ls;
mod destination;
pub mod evpn;
pub mod flowspec;
pub mod labelled;
pub mod mcast_vpn;
pub mod route_target;
pub mod service_chain;
pub mod sr_policy;
pub mod vpls;
pub mod vpn;

use crate::{Afi, Error, Family, Prefix, Result, Safi};

pub use destination::{Destination, destinations};

/// A prefix, and which of several paths to it is meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Nlri {
    /// Path identifier, where the two ends agreed to send them.
    pub path_id: Option<u32>,
    /// The prefix.
    pub prefix: Prefix,
}

/// Prefixes of a field of NLRI (unicast or multicast), in order. It ends behind the first error,
/// since nobody knows where the next prefix begins.
#[derive(Clone, Debug)]
pub struct Prefixes<'a> {
    bytes: &'a [u8],
    at: usize,
    v6: bool,
    add_path: bool,
}

impl<'a> Prefixes<'a> {
    /// Over `bytes`: IPv6 prefixes if `afi` says so, otherwise IPv4; each behind a path identifier
    /// of four octets if `add_path`.
    #[inline]
    pub const fn new(bytes: &'a [u8], afi: Afi, add_path: bool) -> Self {
        Self { bytes, at: 0, v6: afi.0 == Afi::IPV6.0, add_path }
    }

    /// Where the next prefix begins.
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

/// Why there is no prefix at the start of `rest`.
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
            let wrong = if is_v6 { "more than 128" } else { "more than 32" };
            Error::Value { field: "prefix length", at, value: length.into(), wrong }
        }
        Some(&length) => {
            let need = 1 + usize::from(length.div_ceil(8));
            Error::Short { field: "prefix", at, need, have }
        }
    }
}

/// The IPv4 prefix at `at`, and where it ends.
#[inline]
pub(crate) fn v4(bytes: &[u8], at: usize) -> Option<(Prefix, usize)> {
    let length = *bytes.get(at)?;
    let size = usize::from(length).div_ceil(8);
    let end = at + 1 + size;
    if length > 32 || end > bytes.len() {
        return None;
    }
    let word = window(bytes, at + 1);
    // As many octets as were sent: the first `size` of four.
    let sent = (0xffff_ffff_0000_0000_u64 >> (8 * size)) as u32;
    Some((Prefix::V4(word & sent, length), end))
}

/// Four octets at `at`, as far as there are any; what is behind the end does not matter. Where the
/// end is near, the last four octets shifted give the same without a branch that depends on it.
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

/// The IPv6 prefix at `at`, and where it ends.
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

/// One route of any family, not looked into.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Route<'a> {
    /// Path identifier, where the two ends agreed to send them.
    pub path_id: Option<u32>,
    /// All of it but the path identifier: type and length included.
    pub bytes: &'a [u8],
    /// Where `bytes` begin in the field.
    pub at: usize,
}

/// How routes of a family say where they end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Layout {
    /// One octet: bits that follow, at most so many.
    Bits(u8),
    /// Type and length in octets: one octet each.
    TypeLength,
    /// Type and length in octets: two octets each.
    WideTypeLength,
    /// Length in octets: two octets.
    WideLength,
    /// Length in octets: one octet, or two of which the first begins with 1111.
    FlowLength,
    /// Nobody here knows: one route to the end of the field.
    Whole,
}

impl Layout {
    const fn of(family: Family) -> Self {
        match (family.afi, family.safi) {
            (Afi::IPV4, Safi::UNICAST | Safi::MULTICAST) => Self::Bits(32),
            (Afi::IPV6, Safi::UNICAST | Safi::MULTICAST) => Self::Bits(128),
            // Labels and route distinguishers count as bits of the prefix.
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

    /// Bytes of the route that `bytes` begin with, if its length field is there and right.
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

/// Routes of a field of NLRI of any family, in order, as opaque bytes. It ends behind the first
/// error. Of a family that is not known the whole field is one route.
#[derive(Clone, Debug)]
pub struct Routes<'a> {
    bytes: &'a [u8],
    at: usize,
    layout: Layout,
    add_path: bool,
}

impl<'a> Routes<'a> {
    /// Over `bytes` of `family`, each route behind a path identifier if `add_path`.
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
        // A family that is not known cannot have been agreed on.
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
            let wrong = "no length that this address family has";
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

/// Appends a prefix as NLRI: path identifier if there is one, length, as many octets as it takes.
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
