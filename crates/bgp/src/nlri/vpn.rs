//! VPN prefixes (RFC 4364 for IPv4, RFC 4659 for IPv6): a route distinguisher before the prefix,
//! and labels before both; without labels for multicast (RFC 6514 §7, SAFI 129).

use std::fmt;
use std::net::Ipv4Addr;

use super::labelled::{Labels, put_bits, without};
use crate::cursor::Cursor;
use crate::fields::{Hex, put_prefix};
use crate::{Afi, Asn, Prefix, Result};

/// A route distinguisher: what keeps equal prefixes of several VPNs apart (RFC 4364 §4.2).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RouteDistinguisher(pub [u8; 8]);

/// What a route distinguisher is made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Distinguisher {
    /// Type 0: an AS number of two octets and a number.
    As2(u16, u32),
    /// Type 1: an address and a number.
    Address(Ipv4Addr, u16),
    /// Type 2: an AS number of four octets and a number.
    As4(Asn, u16),
    /// A type that nobody defined, and its six octets.
    Other(u16, [u8; 6]),
}

impl RouteDistinguisher {
    pub(crate) fn read(cursor: &mut Cursor<'_>) -> Result<Self> {
        cursor.array("route distinguisher").map(Self)
    }

    /// What it is made of.
    pub fn parts(self) -> Distinguisher {
        let [high, low, octets @ ..] = self.0;
        let short = |at: usize| u16::from_be_bytes([octets[at], octets[at + 1]]);
        let word = |at: usize| u32::from(short(at)) << 16 | u32::from(short(at + 2));
        match u16::from_be_bytes([high, low]) {
            0 => Distinguisher::As2(short(0), word(2)),
            1 => Distinguisher::Address(Ipv4Addr::from_bits(word(0)), short(4)),
            2 => Distinguisher::As4(Asn(word(0)), short(4)),
            kind => Distinguisher::Other(kind, octets),
        }
    }
}

impl From<Distinguisher> for RouteDistinguisher {
    fn from(parts: Distinguisher) -> Self {
        let mut bytes = [0; 8];
        let (kind, value) = bytes.split_at_mut(2);
        let number = match parts {
            Distinguisher::As2(asn, number) => {
                value[..2].copy_from_slice(&asn.to_be_bytes());
                value[2..].copy_from_slice(&number.to_be_bytes());
                0
            }
            Distinguisher::Address(address, number) => {
                value[..4].copy_from_slice(&address.octets());
                value[4..].copy_from_slice(&number.to_be_bytes());
                1
            }
            Distinguisher::As4(asn, number) => {
                value[..4].copy_from_slice(&asn.0.to_be_bytes());
                value[4..].copy_from_slice(&number.to_be_bytes());
                2
            }
            Distinguisher::Other(kind, octets) => {
                value.copy_from_slice(&octets);
                kind
            }
        };
        kind.copy_from_slice(&number.to_be_bytes());
        Self(bytes)
    }
}

/// `65000:1`, `10.0.0.1:1`; types that nobody defined in hexadecimal digits.
impl fmt::Display for RouteDistinguisher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.parts() {
            Distinguisher::As2(asn, number) => write!(f, "{asn}:{number}"),
            Distinguisher::Address(address, number) => write!(f, "{address}:{number}"),
            Distinguisher::As4(asn, number) => write!(f, "{asn}:{number}"),
            Distinguisher::Other(..) => write!(f, "0x{}", Hex(&self.0)),
        }
    }
}

/// A prefix of a VPN.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Vpn<'a> {
    /// What traffic to it is to be labelled with; none for multicast.
    pub labels: Labels<'a>,
    /// Which VPN it is of.
    pub distinguisher: RouteDistinguisher,
    /// The prefix.
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

    /// Appends the length in bits, the labels, the distinguisher and the prefix.
    pub fn encode(&self, out: &mut Vec<u8>) -> Result<()> {
        let prefix = usize::from(self.prefix.length());
        put_bits(out, 8 * self.labels.bytes().len() + 64 + prefix)?;
        out.extend(self.labels.bytes());
        out.extend(self.distinguisher.0);
        put_prefix(out, self.prefix);
        Ok(())
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
