//! Extended communities of eight octets (RFC 4360, 5668, 7153).

use std::fmt;
use std::net::Ipv4Addr;

use crate::text::{Hex, write_list};
use crate::{Error, Result};

/// An encoded extended community.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ExtendedCommunity(pub [u8; 8]);

impl ExtendedCommunity {
    const NON_TRANSITIVE: u8 = 0x40;

    /// High octet of the type.
    pub const fn kind(self) -> u8 {
        self.0[0]
    }

    /// Low octet of the type.
    pub const fn subtype(self) -> u8 {
        self.0[1]
    }
}

/// Route targets and route origins as `rt:65000:1` and `ro:192.0.2.1:1` (RFC 4360 §4 and §5, RFC
/// 5668); any other community as type and value in hexadecimal digits: `0x030c:0x000000000008`.
impl fmt::Display for ExtendedCommunity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = match self.subtype() {
            2 => "rt",
            3 => "ro",
            _ => return write!(f, "0x{}:0x{}", Hex(&self.0[..2]), Hex(&self.0[2..])),
        };
        let value = u64::from_be_bytes(self.0) & 0xffff_ffff_ffff;
        let (high, low) = (value >> 16, value & 0xffff);
        match self.kind() & !Self::NON_TRANSITIVE {
            0 => write!(f, "{name}:{}:{}", value >> 32, value & 0xffff_ffff),
            1 => write!(f, "{name}:{}:{low}", Ipv4Addr::from_bits(high as u32)),
            2 => write!(f, "{name}:{high}:{low}"),
            _ => write!(f, "0x{}:0x{}", Hex(&self.0[..2]), Hex(&self.0[2..])),
        }
    }
}

/// The value of attribute 16.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ExtendedCommunities<'a>(&'a [[u8; 8]]);

impl<'a> ExtendedCommunities<'a> {
    /// Fails unless the length is a multiple of 8 and not 0 (RFC 7606 §7.14).
    pub fn parse(value: &'a [u8]) -> Result<Self> {
        let (communities, rest) = value.as_chunks();
        if rest.is_empty() && !communities.is_empty() {
            return Ok(Self(communities));
        }
        let (field, size) = ("EXTENDED_COMMUNITIES", value.len() as u64);
        Err(Error::Value { field, at: 0, value: size, wrong: "not a positive multiple of 8" })
    }

    /// Communities in order.
    pub fn iter(self) -> impl ExactSizeIterator<Item = ExtendedCommunity> + 'a {
        self.0.iter().map(|octets| ExtendedCommunity(*octets))
    }

    /// The encoded value.
    pub const fn bytes(self) -> &'a [u8] {
        self.0.as_flattened()
    }
}

/// Separated by spaces.
impl fmt::Display for ExtendedCommunities<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_list(f, " ", self.iter())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn writes_route_targets_and_origins_as_text() {
        let written = [
            ([0, 2, 0xfd, 0xe8, 0, 0, 0, 1], "rt:65000:1"),
            ([1, 2, 10, 0, 0, 1, 0, 7], "rt:10.0.0.1:7"),
            ([2, 3, 0, 1, 0, 0, 0, 7], "ro:65536:7"),
            ([0x40, 4, 0xfd, 0xe8, 0x49, 0x98, 0x96, 0x80], "0x4004:0xfde849989680"),
            ([6, 2, 2, 0, 0, 0, 0, 1], "0x0602:0x020000000001"),
            ([0x99, 1, 1, 2, 3, 4, 5, 6], "0x9901:0x010203040506"),
        ];
        for (octets, text) in written {
            assert_eq!(ExtendedCommunity(octets).to_string(), text);
        }
        assert_eq!(ExtendedCommunity([2, 2, 0, 1, 0x11, 0x70, 0, 1]).to_string(), "rt:70000:1");
    }

    #[test]
    fn rejects_partial_communities() {
        assert!(ExtendedCommunities::parse(&[]).is_err());
        assert!(ExtendedCommunities::parse(&[0; 12]).is_err());
        let list = [[0, 2, 0, 1, 0, 0, 0, 2]; 2];
        let parsed = ExtendedCommunities::parse(list.as_flattened()).unwrap();
        assert!(parsed.iter().eq(list.map(ExtendedCommunity)));
        assert_eq!(parsed.to_string(), "rt:1:2 rt:1:2");
    }
}
