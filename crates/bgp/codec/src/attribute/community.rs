//! Communities of four octets (RFC 1997) and large ones of twelve (RFC 8092).

use std::fmt;

/// A community of four octets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Community(pub u32);

#[expect(missing_docs, reason = "the names are the registry's")]
impl Community {
    pub const GRACEFUL_SHUTDOWN: Self = Self(0xffff_0000);
    pub const ACCEPT_OWN: Self = Self(0xffff_0001);
    pub const LLGR_STALE: Self = Self(0xffff_0006);
    pub const NO_LLGR: Self = Self(0xffff_0007);
    pub const BLACKHOLE: Self = Self(0xffff_029a);
    pub const NO_EXPORT: Self = Self(0xffff_ff01);
    pub const NO_ADVERTISE: Self = Self(0xffff_ff02);
    pub const NO_EXPORT_SUBCONFED: Self = Self(0xffff_ff03);
    pub const NO_PEER: Self = Self(0xffff_ff04);

    /// The upper two octets: by convention the AS that defines the lower two.
    pub const fn upper(self) -> u16 {
        (self.0 >> 16) as u16
    }

    /// The lower two octets.
    pub const fn lower(self) -> u16 {
        self.0 as u16
    }

    /// Registry name of a well-known community.
    pub const fn name(self) -> Option<&'static str> {
        Some(match self {
            Self::GRACEFUL_SHUTDOWN => "GRACEFUL_SHUTDOWN",
            Self::ACCEPT_OWN => "ACCEPT_OWN",
            Self::LLGR_STALE => "LLGR_STALE",
            Self::NO_LLGR => "NO_LLGR",
            Self::BLACKHOLE => "BLACKHOLE",
            Self::NO_EXPORT => "NO_EXPORT",
            Self::NO_ADVERTISE => "NO_ADVERTISE",
            Self::NO_EXPORT_SUBCONFED => "NO_EXPORT_SUBCONFED",
            Self::NO_PEER => "NOPEER",
            _ => return None,
        })
    }
}

/// `65000:1`.
impl fmt::Display for Community {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.upper(), self.lower())
    }
}

/// A large community.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LargeCommunity {
    /// AS that defines the other two fields.
    pub global: u32,
    /// Two fields of local meaning.
    pub local: [u32; 2],
}

/// `65000:1:2`.
impl fmt::Display for LargeCommunity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}:{}", self.global, self.local[0], self.local[1])
    }
}

/// Communities in the order in which they were sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Communities<'a>(&'a [[u8; 4]]);

impl<'a> Communities<'a> {
    /// Fails unless the length is a positive multiple of four octets (RFC 7606 §7.8).
    #[inline]
    pub fn parse(value: &'a [u8]) -> Option<Self> {
        let (chunks, rest) = value.as_chunks();
        (rest.is_empty() && !chunks.is_empty()).then_some(Self(chunks))
    }

    /// Number of communities.
    pub const fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether the list is empty.
    pub const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Communities in order.
    #[inline]
    pub fn iter(&self) -> impl ExactSizeIterator<Item = Community> + use<'a> {
        self.0.iter().map(|octets| Community(u32::from_be_bytes(*octets)))
    }

    /// The encoded communities.
    pub const fn bytes(&self) -> &'a [u8] {
        self.0.as_flattened()
    }
}

/// Large communities in the order in which they were sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LargeCommunities<'a>(&'a [[u8; 12]]);

impl<'a> LargeCommunities<'a> {
    /// Fails unless the length is a positive multiple of twelve octets (RFC 8092 §6).
    pub fn parse(value: &'a [u8]) -> Option<Self> {
        let (chunks, rest) = value.as_chunks();
        (rest.is_empty() && !chunks.is_empty()).then_some(Self(chunks))
    }

    /// Number of communities.
    pub const fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether the list is empty.
    pub const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Communities in order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = LargeCommunity> + use<'a> {
        self.0.iter().map(|octets| {
            let (words, _) = octets.as_chunks();
            let word = |at: usize| words.get(at).map_or(0, |word| u32::from_be_bytes(*word));
            LargeCommunity { global: word(0), local: [word(1), word(2)] }
        })
    }

    /// The encoded large communities.
    pub const fn bytes(&self) -> &'a [u8] {
        self.0.as_flattened()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_communities_only() {
        let list = Communities::parse(&[0, 1, 0, 2, 255, 255, 255, 1]).unwrap();
        let shown: Vec<_> = list.iter().map(|community| community.to_string()).collect();
        assert_eq!(shown, ["1:2", "65535:65281"]);
        assert_eq!(list.iter().last().unwrap().name(), Some("NO_EXPORT"));
        assert_eq!(Communities::parse(&[]), None);
        assert_eq!(Communities::parse(&[1, 2, 3, 4, 5]), None);
    }

    #[test]
    fn whole_large_communities_only() {
        let list = LargeCommunities::parse(&[0, 1, 0, 0, 0, 0, 0, 2, 0, 0, 0, 3]).unwrap();
        assert_eq!(list.iter().next().unwrap().to_string(), "65536:2:3");
        assert_eq!(LargeCommunities::parse(&[0; 16]), None);
        assert_eq!(LargeCommunities::parse(&[]), None);
    }
}
