//! Labelled prefixes (RFC 8277): a prefix with MPLS labels.

use std::fmt;

use crate::cursor::Cursor;
use crate::text::write_list;
use crate::{Afi, Prefix, Result};

/// An entry of a label stack in NLRI: 20 bits of label, 3 of traffic class, and
/// the bottom-of-stack bit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Label(pub u32);

impl Label {
    /// Label of a withdrawal (RFC 8277 §2.4).
    pub const WITHDRAWN: Self = Self(0x0080_0000);

    /// Value of the label, 20 bits.
    pub const fn value(self) -> u32 {
        self.0 >> 4 & 0xf_ffff
    }

    /// Whether this is the bottom of the stack.
    pub const fn is_bottom(self) -> bool {
        self.0 & 1 != 0
    }
}

impl fmt::Display for Label {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.value().fmt(f)
    }
}

/// A label stack: entries of three octets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Labels<'a>(&'a [u8]);

impl<'a> Labels<'a> {
    /// The empty stack.
    pub const NONE: Self = Self(&[]);

    /// Parses the label stack at the start of `bits` bits; the last `others` bits are not labels.
    /// The stack ends at the bottom-of-stack bit, or at the label of a withdrawal (zero for some
    /// speakers). Without either the stack has one label, because speakers that support only one
    /// label need not set the bit (RFC 8277 §2.2).
    pub(super) fn read(cursor: &mut Cursor<'a>, bits: u8, others: u8) -> Result<Self> {
        let most = usize::from(bits.saturating_sub(others)) / 24;
        let bottom = Self(cursor.rest())
            .iter()
            .take(most)
            .position(|label| label.is_bottom() || label == Label::WITHDRAWN || label.0 == 0);
        let count = bottom.map_or(1, |at| at + 1);
        cursor.take(3 * count, "label").map(Self)
    }

    /// Entries, outermost first.
    pub fn iter(self) -> impl ExactSizeIterator<Item = Label> + 'a {
        self.0.chunks_exact(3).map(|raw| Label(u32::from_be_bytes([0, raw[0], raw[1], raw[2]])))
    }

    /// The encoded stack.
    pub const fn bytes(self) -> &'a [u8] {
        self.0
    }
}

/// `100/200`: the labels, outermost first.
impl fmt::Display for Labels<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_list(f, "/", self.iter())
    }
}

/// A labelled prefix.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Labelled<'a> {
    /// Labels for traffic to the prefix.
    pub labels: Labels<'a>,
    /// Prefix of the route.
    pub prefix: Prefix,
}

impl<'a> Labelled<'a> {
    pub(crate) fn read(cursor: &mut Cursor<'a>, afi: Afi) -> Result<Self> {
        let bits = cursor.u8("length of a labelled prefix")?;
        let labels = Labels::read(cursor, bits, 0)?;
        let bits = without(cursor, bits, 8 * labels.0.len())?;
        Ok(Self { labels, prefix: cursor.prefix(afi, bits, "labelled prefix")? })
    }
}

/// Remaining bits of a length in bits after `used` bits.
pub(super) fn without(cursor: &Cursor<'_>, bits: u8, used: usize) -> Result<u8> {
    usize::from(bits).checked_sub(used).map(|left| left as u8).ok_or_else(|| {
        cursor.wrong(
            "length of a prefix",
            bits.into(),
            "below the length of the fields before the prefix",
        )
    })
}

/// `10.0.0.0/24 label 100/200`.
impl fmt::Display for Labelled<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} label {}", self.prefix, self.labels)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(bytes: &[u8]) -> String {
        Labelled::read(&mut Cursor::new(bytes, 0), Afi::IPV4).unwrap().to_string()
    }

    #[test]
    fn the_stack_ends_at_its_bottom() {
        assert_eq!(shown(&[48, 0, 0x06, 0x41, 10, 0, 1]), "10.0.1.0/24 label 100");
        let two = [72, 0, 0x06, 0x40, 0, 0x0c, 0x81, 10, 0, 1];
        assert_eq!(shown(&two), "10.0.1.0/24 label 100/200");
        assert_eq!(shown(&[48, 0x80, 0, 0, 10, 0, 1]), "10.0.1.0/24 label 524288");
        // Without a bottom bit there is one label.
        assert_eq!(shown(&[48, 0, 0x06, 0x40, 10, 0, 2]), "10.0.2.0/24 label 100");
        assert!(Labelled::read(&mut Cursor::new(&[16, 0, 0, 1], 0), Afi::IPV4).is_err());
        assert!(Labelled::read(&mut Cursor::new(&[48, 0, 0], 0), Afi::IPV4).is_err());
    }
}
