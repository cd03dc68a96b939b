//! Negotiated capabilities of a session that affect how bytes are decoded.

use crate::Family;

/// Encoding of the messages in one direction of a session.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Negotiated {
    /// AS numbers in `AS_PATH` and `AGGREGATOR` have four octets (RFC 6793).
    pub four_octet_as: bool,
    /// Messages may be longer than 4,096 octets (RFC 8654).
    pub extended_message: bool,
    /// Families whose prefixes carry path identifiers (RFC 7911).
    pub add_path: Families,
}

/// A set of common address families, without allocation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Families(u32);

/// The families of a set, by bit.
const KNOWN: [(u16, u8); 22] = [
    (1, 1),
    (2, 1),
    (1, 2),
    (2, 2),
    (1, 4),
    (2, 4),
    (1, 128),
    (2, 128),
    (25, 70),
    (1, 5),
    (2, 5),
    (1, 133),
    (2, 133),
    (1, 134),
    (2, 134),
    (1, 132),
    (16388, 71),
    (16388, 72),
    (1, 73),
    (2, 73),
    (25, 65),
    (1, 129),
];

impl Families {
    /// The empty set.
    pub const NONE: Self = Self(0);
    /// All families known to this crate.
    pub const ALL: Self = Self((1 << KNOWN.len()) - 1);

    fn bit(family: Family) -> u32 {
        let pair = (family.afi.0, family.safi.0);
        KNOWN.iter().position(|known| *known == pair).map_or(0, |at| 1 << at)
    }

    /// The set with `family`; unchanged if the family is unknown.
    #[must_use]
    pub fn with(self, family: Family) -> Self {
        Self(self.0 | Self::bit(family))
    }

    /// Whether the set contains `family`.
    #[inline]
    pub fn contains(self, family: Family) -> bool {
        // The two families of nearly all traffic do not need a search.
        match (family.afi.0, family.safi.0) {
            (1, 1) => self.0 & 1 != 0,
            (2, 1) => self.0 & 2 != 0,
            _ => self.0 & Self::bit(family) != 0,
        }
    }

    /// Whether the set is empty.
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Families of the set.
    pub fn iter(self) -> impl Iterator<Item = Family> {
        KNOWN.into_iter().enumerate().filter_map(move |(at, (afi, safi))| {
            let family = Family { afi: crate::Afi(afi), safi: crate::Safi(safi) };
            (self.0 & 1 << at != 0).then_some(family)
        })
    }
}

impl FromIterator<Family> for Families {
    fn from_iter<I: IntoIterator<Item = Family>>(families: I) -> Self {
        families.into_iter().fold(Self::NONE, Self::with)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Afi, Safi};

    #[test]
    fn holds_the_families_that_were_put_in() {
        let evpn = Family { afi: Afi::L2VPN, safi: Safi::EVPN };
        let set: Families = [Family::IPV6_UNICAST, evpn].into_iter().collect();
        assert!(set.contains(evpn) && set.contains(Family::IPV6_UNICAST));
        assert!(!set.contains(Family::IPV4_UNICAST));
        assert_eq!(set.iter().count(), 2);
        let unknown = Family { afi: Afi(77), safi: Safi(77) };
        assert_eq!(set.with(unknown), set);
    }
}
