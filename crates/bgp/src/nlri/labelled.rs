//! Labelled prefixes (RFC 8277): a prefix and the MPLS labels bound to it.

use std::fmt;

use crate::cursor::Cursor;
use crate::fields::{put_prefix, write_list};
use crate::{Afi, Error, Prefix, Result};

/// An entry of a label stack as NLRI carries it: 20 bits of label, 3 of traffic class, and whether
/// it is the last one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Label(pub u32);

impl Label {
    /// What a withdrawal carries in the place of labels (RFC 8277 §2.4).
    pub const WITHDRAWN: Self = Self(0x0080_0000);

    /// An entry at the bottom of its stack.
    pub const fn bottom(value: u32) -> Self {
        Self((value & 0xf_ffff) << 4 | 1)
    }

    /// The label.
    pub const fn value(self) -> u32 {
        self.0 >> 4 & 0xf_ffff
    }

    /// Whether it is the last entry of its stack.
    pub const fn is_bottom(self) -> bool {
        self.0 & 1 != 0
    }
}

impl fmt::Display for Label {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.value().fmt(f)
    }
}

/// A label stack: whole entries of three octets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Labels<'a>(&'a [u8]);

impl<'a> Labels<'a> {
    /// No label.
    pub const NONE: Self = Self(&[]);

    /// Entries that are encoded already; an error unless they have three octets each.
    pub fn parse(bytes: &'a [u8]) -> Result<Self> {
        if bytes.len().is_multiple_of(3) {
            return Ok(Self(bytes));
        }
        let value = bytes.len() as u64;
        Err(Error::Value { field: "label stack", at: 0, value, wrong: "not a multiple of 3" })
    }

    /// The stack at the start of `bits` bits, of which `others` belong to no label. It ends at the
    /// bottom bit, or at what a withdrawal has in its place (some speakers send all zeros there).
    /// Without either it is one label: speakers that can do no more need not set the bit (RFC 8277
    /// §2.2).
    pub(super) fn read(cursor: &mut Cursor<'a>, bits: u8, others: u8) -> Result<Self> {
        let most = usize::from(bits.saturating_sub(others)) / 24;
        let bottom = Self(cursor.rest())
            .iter()
            .take(most)
            .position(|label| label.is_bottom() || label == Label::WITHDRAWN || label.0 == 0);
        let count = bottom.map_or(1, |at| at + 1);
        cursor.take(3 * count, "label").map(Self)
    }

    /// The entries, outermost first.
    pub fn iter(self) -> impl ExactSizeIterator<Item = Label> + 'a {
        self.0.chunks_exact(3).map(|raw| Label(u32::from_be_bytes([0, raw[0], raw[1], raw[2]])))
    }

    /// As they were received.
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
    /// What traffic to it is to be labelled with.
    pub labels: Labels<'a>,
    /// The prefix.
    pub prefix: Prefix,
}

impl<'a> Labelled<'a> {
    pub(crate) fn read(cursor: &mut Cursor<'a>, afi: Afi) -> Result<Self> {
        let bits = cursor.u8("length of a labelled prefix")?;
        let labels = Labels::read(cursor, bits, 0)?;
        let bits = without(cursor, bits, 8 * labels.0.len())?;
        Ok(Self { labels, prefix: cursor.prefix(afi, bits, "labelled prefix")? })
    }

    /// Appends the length in bits, the labels and the prefix.
    pub fn encode(&self, out: &mut Vec<u8>) -> Result<()> {
        put_bits(out, 8 * self.labels.0.len() + usize::from(self.prefix.length()))?;
        out.extend(self.labels.0);
        put_prefix(out, self.prefix);
        Ok(())
    }
}

/// What is left of a length in bits behind `used` of them.
pub(super) fn without(cursor: &Cursor<'_>, bits: u8, used: usize) -> Result<u8> {
    usize::from(bits).checked_sub(used).map(|left| left as u8).ok_or_else(|| {
        cursor.wrong("length of a prefix", bits.into(), "less than what stands before the prefix")
    })
}

/// Writes a length in bits.
pub(super) fn put_bits(out: &mut Vec<u8>, bits: usize) -> Result<()> {
    let field = "length of a prefix";
    out.push(u8::try_from(bits).map_err(|_| Error::Long { field, size: bits, limit: 255 })?);
    Ok(())
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

    fn told(bytes: &[u8]) -> String {
        Labelled::read(&mut Cursor::new(bytes, 0), Afi::IPV4).unwrap().to_string()
    }

    #[test]
    fn the_stack_ends_at_its_bottom() {
        assert_eq!(told(&[48, 0, 0x06, 0x41, 10, 0, 1]), "10.0.1.0/24 label 100");
        let two = [72, 0, 0x06, 0x40, 0, 0x0c, 0x81, 10, 0, 1];
        assert_eq!(told(&two), "10.0.1.0/24 label 100/200");
        assert_eq!(told(&[48, 0x80, 0, 0, 10, 0, 1]), "10.0.1.0/24 label 524288");
        // No bottom bit at all: one label.
        assert_eq!(told(&[48, 0, 0x06, 0x40, 10, 0, 2]), "10.0.2.0/24 label 100");
        assert!(Labelled::read(&mut Cursor::new(&[16, 0, 0, 1], 0), Afi::IPV4).is_err());
        assert!(Labelled::read(&mut Cursor::new(&[48, 0, 0], 0), Afi::IPV4).is_err());
    }
}
