//! VPN prefixes (RFC 4364 for IPv4, RFC 4659 for IPv6): a route distinguisher before the prefix,
//! and labels before both; without labels for multicast (RFC 6514 §7, SAFI 129).

use std::fmt;
use std::net::Ipv4Addr;

use super::labelled::{Labels, without};
use crate::cursor::Cursor;
use crate::text::Hex;
use crate::{Afi, Asn, Prefix, Result};

/// A route distinguisher, which distinguishes equal prefixes of several VPNs (RFC 4364 §4.2).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RouteDistinguisher(pub [u8; 8]);

impl RouteDistinguisher {
    pub(crate) fn read(cursor: &mut Cursor<'_>) -> Result<Self> {
        cursor.array("route distinguisher").map(Self)
    }
}

/// `65000:1`, `10.0.0.1:1`; undefined types in hexadecimal digits.
impl fmt::Display for RouteDistinguisher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [high, low, octets @ ..] = self.0;
        let short = |at: usize| u16::from_be_bytes([octets[at], octets[at + 1]]);
        let word = |at: usize| u32::from(short(at)) << 16 | u32::from(short(at + 2));
        match u16::from_be_bytes([high, low]) {
            0 => write!(f, "{}:{}", short(0), word(2)),
            1 => write!(f, "{}:{}", Ipv4Addr::from_bits(word(0)), short(4)),
            2 => write!(f, "{}:{}", Asn(word(0)), short(4)),
            _ => write!(f, "0x{}", Hex(&self.0)),
        }
    }
}

/// A prefix of a VPN.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Vpn<'a> {
    /// Labels for traffic to the prefix; none for multicast.
    pub labels: Labels<'a>,
    /// Route distinguisher of the VPN.
    pub distinguisher: RouteDistinguisher,
    /// Prefix of the route.
    pub prefix: Prefix,
}

impl<'a> Vpn<'a> {
    pub(crate) fn read(cursor: &mut Cursor<'a>, afi: Afi, labelled: bool) -> Result<Self> {
        let bits = cursor.u8("length of a VPN prefix")?;
        let labels = if labelled { Labels::read(cursor, bits, 64)? } else { Labels::NONE };
        let bits = without(cursor, bits, 8 * labels.bytes().len() + 64)?;
        let distinguisher = RouteDistinguisher::read(cursor)?;
        Ok(Self { labels, distinguisher, prefix: cursor.prefix(afi, bits, "VPN prefix")? })
    }
}

/// `65000:1 10.0.0.0/24 label 100`.
impl fmt::Display for Vpn<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.distinguisher, self.prefix)?;
        if self.labels == Labels::NONE {
            return Ok(());
        }
        write!(f, " label {}", self.labels)
    }
}
