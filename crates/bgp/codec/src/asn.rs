//! Autonomous system numbers.

use std::fmt;

/// An autonomous system number of four octets (RFC 6793).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Asn(pub u32);

impl Asn {
    /// Represents numbers above 65535 where only two octets fit (RFC 6793 §9).
    pub const TRANS: Self = Self(23456);
    /// Reserved (RFC 7607); written for an unknown AS number.
    pub const ZERO: Self = Self(0);

    /// The number in two octets, or [`Asn::TRANS`] if it is larger.
    pub const fn two_octets(self) -> u16 {
        if self.0 > 0xffff { Self::TRANS.0 as u16 } else { self.0 as u16 }
    }
}

/// Formatted as `asplain` (RFC 5396).
impl fmt::Display for Asn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
