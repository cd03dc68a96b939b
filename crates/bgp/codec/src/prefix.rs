//! Prefixes of IPv4 and IPv6.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

/// An IPv4 or IPv6 prefix. Bits after the length are kept as received (RFC 4271 §4.3: they are
/// irrelevant). For comparisons, clear them with [`Prefix::masked`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Prefix {
    /// Address bits, and prefix length (at most 32).
    V4(u32, u8),
    /// Address bits, and prefix length (at most 128).
    V6(u128, u8),
}

impl Prefix {
    /// Prefix length in bits.
    pub const fn length(self) -> u8 {
        match self {
            Self::V4(_, length) | Self::V6(_, length) => length,
        }
    }

    /// The address with all bits as received.
    pub const fn address(self) -> IpAddr {
        match self {
            Self::V4(bits, _) => IpAddr::V4(Ipv4Addr::from_bits(bits)),
            Self::V6(bits, _) => IpAddr::V6(Ipv6Addr::from_bits(bits)),
        }
    }

    /// The prefix with the bits after its length cleared.
    #[must_use]
    pub const fn masked(self) -> Self {
        match self {
            Self::V4(bits, length) => {
                let mask = (u32::MAX as u64) << (32 - length as u64);
                Self::V4(bits & mask as u32, length)
            }
            Self::V6(_, 0) => Self::V6(0, 0),
            Self::V6(bits, length) => Self::V6(bits & u128::MAX << (128 - length as u32), length),
        }
    }

    /// Whether this prefix contains `other`, or equals it. Both must be masked.
    pub fn covers(self, other: Self) -> bool {
        match (self, other) {
            (Self::V4(_, length), Self::V4(bits, longer)) => {
                length <= longer && Self::V4(bits, length).masked() == self
            }
            (Self::V6(_, length), Self::V6(bits, longer)) => {
                length <= longer && Self::V6(bits, length).masked() == self
            }
            _ => false,
        }
    }
}

impl fmt::Display for Prefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.address(), self.length())
    }
}

/// Error of parsing a prefix.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ParsePrefixError {
    /// The part before the slash is not an address.
    #[error("invalid address; expected a prefix, for example 192.0.2.0/24 or 2001:db8::/32")]
    Address,
    /// The part after the slash is not a length.
    #[error("invalid length; expected 0 to {0}")]
    Length(u8),
    /// Bits after the length are set.
    #[error("bits after the prefix length are set; did you mean {0}?")]
    HostBits(Prefix),
}

/// `192.0.2.0/24`; an address without a length is a prefix of full length.
impl FromStr for Prefix {
    type Err = ParsePrefixError;

    fn from_str(text: &str) -> Result<Self, ParsePrefixError> {
        let (address, length) = match text.split_once('/') {
            Some((address, length)) => (address, Some(length)),
            None => (text, None),
        };
        let address: IpAddr = address.parse().map_err(|_| ParsePrefixError::Address)?;
        let most = if address.is_ipv4() { 32 } else { 128 };
        let wrong = ParsePrefixError::Length(most);
        let length = length.map_or(Ok(most), |length| length.parse().map_err(|_| wrong))?;
        if length > most {
            return Err(wrong);
        }
        let prefix = match address {
            IpAddr::V4(address) => Self::V4(address.to_bits(), length),
            IpAddr::V6(address) => Self::V6(address.to_bits(), length),
        };
        let masked = prefix.masked();
        if masked == prefix { Ok(prefix) } else { Err(ParsePrefixError::HostBits(masked)) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn covers_what_lies_within() {
        let ten = Prefix::V4(0x0a00_0000, 8);
        assert!(ten.covers(Prefix::V4(0x0a01_0200, 24)));
        assert!(!ten.covers(Prefix::V4(0x0b01_0200, 24)));
        assert!(Prefix::V4(0, 0).covers(ten));
        assert!(Prefix::V6(0, 0).covers(Prefix::V6(1, 128)));
        assert!(!Prefix::V6(0, 0).covers(ten));
        assert_eq!(Prefix::V4(0x0aff_ffff, 8).masked(), ten);
        assert_eq!(ten.to_string(), "10.0.0.0/8");
    }

    #[test]
    fn reads_what_it_writes() {
        for text in ["10.0.0.0/8", "0.0.0.0/0", "2001:db8::/32", "::/0", "192.0.2.1/32"] {
            assert_eq!(text.parse::<Prefix>().unwrap().to_string(), text);
        }
        assert_eq!("192.0.2.1".parse(), Ok(Prefix::V4(0xc000_0201, 32)));
        let masked = Prefix::V4(0x0a00_0000, 8);
        assert_eq!("10.0.0.1/8".parse::<Prefix>(), Err(ParsePrefixError::HostBits(masked)));
        assert_eq!("10.0.0.0/33".parse::<Prefix>(), Err(ParsePrefixError::Length(32)));
        assert_eq!("ten/8".parse::<Prefix>(), Err(ParsePrefixError::Address));
    }
}
