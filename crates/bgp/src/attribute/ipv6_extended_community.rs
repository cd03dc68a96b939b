//! Extended communities with an IPv6 address (RFC 5701), of twenty octets.

use std::fmt;
use std::net::Ipv6Addr;

use crate::fields::write_list;
use crate::{Error, Result};

/// An IPv6-address-specific extended community.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ipv6ExtendedCommunity {
    /// 0, with 0x40 not to go on to other ASes.
    pub kind: u8,
    /// What it is for.
    pub subtype: u8,
    /// Who gave the number.
    pub address: Ipv6Addr,
    /// The number.
    pub number: u16,
}

impl Ipv6ExtendedCommunity {
    /// Of twenty octets.
    pub fn parse(octets: [u8; 20]) -> Self {
        let [kind, subtype, address @ .., high, low] = octets;
        let number = u16::from_be_bytes([high, low]);
        Self { kind, subtype, address: Ipv6Addr::from(address), number }
    }

    /// What operators call it; `None` for what is not known.
    pub const fn name(self) -> Option<&'static str> {
        Some(match (self.kind & 0xbf, self.subtype) {
            (0, 0x02) => "rt",
            (0, 0x03) => "ro",
            (0, 0x04) => "ospf6-domain",
            (0, 0x0b) => "vrf-route-import",
            (0, 0x0c) => "flow-redirect-ip",
            (0, 0x0d) => "flow-redirect",
            (0, 0x10) => "vpn-distinguisher",
            (0, 0x12) => "inter-area-p2mp",
            _ => return None,
        })
    }

    /// Appends twenty octets.
    pub fn encode(self, out: &mut Vec<u8>) {
        out.extend([self.kind, self.subtype]);
        out.extend(self.address.octets());
        out.extend(self.number.to_be_bytes());
    }
}

/// `rt:[2001:db8::1]:5`.
impl fmt::Display for Ipv6ExtendedCommunity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name() {
            Some(name) => f.write_str(name)?,
            None => write!(f, "0x{:02x}{:02x}", self.kind, self.subtype)?,
        }
        write!(f, ":[{}]:{}", self.address, self.number)
    }
}

/// The value of attribute 25.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Ipv6ExtendedCommunities<'a>(&'a [[u8; 20]]);

impl<'a> Ipv6ExtendedCommunities<'a> {
    /// Wrong unless they have twenty octets each and there is one (RFC 7606 §7.15).
    pub fn parse(value: &'a [u8]) -> Result<Self> {
        let (communities, rest) = value.as_chunks();
        if rest.is_empty() && !communities.is_empty() {
            return Ok(Self(communities));
        }
        let (field, size) = ("IPv6 extended communities", value.len() as u64);
        Err(Error::Value { field, at: 0, value: size, wrong: "no multiple of 20, or 0" })
    }

    /// The communities, in order.
    pub fn iter(self) -> impl ExactSizeIterator<Item = Ipv6ExtendedCommunity> + 'a {
        self.0.iter().map(|octets| Ipv6ExtendedCommunity::parse(*octets))
    }

    /// The value as it is sent.
    pub const fn bytes(self) -> &'a [u8] {
        self.0.as_flattened()
    }
}

/// With spaces between them.
impl fmt::Display for Ipv6ExtendedCommunities<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_list(f, " ", self.iter())
    }
}

/// Whether attribute 25 is well-formed; if it is not, its routes are withdrawn (RFC 7606 §7.15).
pub fn check(value: &[u8]) -> Result<()> {
    Ipv6ExtendedCommunities::parse(value).map(|_| ())
}

#[cfg(test)]
mod tests {
    use super::*;

    proptest::proptest! {
        #[test]
        fn survive_being_written(octets: [u8; 20]) {
            let community = Ipv6ExtendedCommunity::parse(octets);
            let mut again = Vec::new();
            community.encode(&mut again);
            proptest::prop_assert_eq!(&again[..], &octets[..]);
            let list = Ipv6ExtendedCommunities::parse(&again).unwrap();
            proptest::prop_assert!(list.iter().eq([community]));
            proptest::prop_assert!(check(&octets[1..]).is_err());
        }
    }

    #[test]
    fn are_written_with_brackets_around_the_address() {
        let address = "2001:db8::1".parse().unwrap();
        let community = Ipv6ExtendedCommunity { kind: 0, subtype: 2, address, number: 5 };
        assert_eq!(community.to_string(), "rt:[2001:db8::1]:5");
    }
}
