//! Decoded destinations of routes: a prefix, or opaque bytes.

use std::fmt;

use super::Route;
use super::labelled::Labelled;
use super::vpn::Vpn;
use crate::cursor::Cursor;
use crate::text::Hex;
use crate::{Afi, Family, Prefix, Result, Safi};

/// Destination of a route, by family.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Destination<'a> {
    /// Unicast or multicast prefix.
    Prefix(Prefix),
    /// Prefix with labels (labelled unicast).
    Labelled(Labelled<'a>),
    /// Prefix of a VPN, with route distinguisher and labels.
    Vpn(Vpn<'a>),
    /// Route of another family, opaque.
    Opaque(&'a [u8]),
}

impl<'a> Destination<'a> {
    /// Decodes a framed route of `family`. If it fails, the following routes can still be decoded.
    pub fn decode(route: &Route<'a>, family: Family) -> Result<Self> {
        let mut cursor = Cursor::new(route.bytes, route.at);
        let read = &mut cursor;
        let afi = family.afi;
        let inet = afi == Afi::IPV4 || afi == Afi::IPV6;
        let destination = match family.safi {
            Safi::UNICAST | Safi::MULTICAST if inet => {
                let bits = read.u8("prefix length")?;
                Self::Prefix(read.prefix(afi, bits, "prefix")?)
            }
            Safi::LABELLED if inet => Self::Labelled(Labelled::read(read, afi)?),
            Safi::MPLS_VPN if inet => Self::Vpn(Vpn::read(read, afi, true)?),
            Safi::MCAST_MPLS_VPN if inet => Self::Vpn(Vpn::read(read, afi, false)?),
            _ => return Ok(Self::Opaque(route.bytes)),
        };
        cursor.end("route")?;
        Ok(destination)
    }
}

impl fmt::Display for Destination<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Prefix(prefix) => prefix.fmt(f),
            Self::Labelled(labelled) => labelled.fmt(f),
            Self::Vpn(vpn) => vpn.fmt(f),
            Self::Opaque(bytes) => write!(f, "0x{}", Hex(bytes)),
        }
    }
}

#[cfg(test)]
mod tests;
