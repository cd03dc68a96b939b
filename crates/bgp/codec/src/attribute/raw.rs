//! Framing of path attributes (RFC 4271 §4.3).

use crate::{Error, Result};

/// Flags of an attribute (RFC 4271 §4.3).
#[expect(missing_docs, reason = "the names are the RFC's")]
pub mod flags {
    pub const OPTIONAL: u8 = 0x80;
    pub const TRANSITIVE: u8 = 0x40;
    pub const PARTIAL: u8 = 0x20;
    pub const EXTENDED_LENGTH: u8 = 0x10;
}

/// Type codes of the IANA registry.
#[expect(missing_docs, reason = "the names are the registry's")]
pub mod code {
    pub const ORIGIN: u8 = 1;
    pub const AS_PATH: u8 = 2;
    pub const NEXT_HOP: u8 = 3;
    pub const MULTI_EXIT_DISC: u8 = 4;
    pub const LOCAL_PREF: u8 = 5;
    pub const ATOMIC_AGGREGATE: u8 = 6;
    pub const AGGREGATOR: u8 = 7;
    pub const COMMUNITIES: u8 = 8;
    pub const ORIGINATOR_ID: u8 = 9;
    pub const CLUSTER_LIST: u8 = 10;
    pub const MP_REACH_NLRI: u8 = 14;
    pub const MP_UNREACH_NLRI: u8 = 15;
    pub const EXTENDED_COMMUNITIES: u8 = 16;
    pub const AS4_PATH: u8 = 17;
    pub const AS4_AGGREGATOR: u8 = 18;
    pub const PMSI_TUNNEL: u8 = 22;
    pub const TUNNEL_ENCAPSULATION: u8 = 23;
    pub const TRAFFIC_ENGINEERING: u8 = 24;
    pub const IPV6_EXTENDED_COMMUNITIES: u8 = 25;
    pub const AIGP: u8 = 26;
    pub const PE_DISTINGUISHER_LABELS: u8 = 27;
    pub const BGP_LS: u8 = 29;
    pub const LARGE_COMMUNITIES: u8 = 32;
    pub const BGPSEC_PATH: u8 = 33;
    pub const ONLY_TO_CUSTOMER: u8 = 35;
    pub const SFP: u8 = 37;
    pub const BFD_DISCRIMINATOR: u8 = 38;
    pub const PREFIX_SID: u8 = 40;
    pub const ATTR_SET: u8 = 128;
}

/// A framed attribute.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RawAttribute<'a> {
    /// Flags, as in [`flags`].
    pub flags: u8,
    /// Type code, as in [`code`].
    pub code: u8,
    /// Value, encoded.
    pub value: &'a [u8],
    /// Offset of the attribute; in an UPDATE, from the start of the body.
    pub at: usize,
}

impl RawAttribute<'_> {
    /// Offset of the value.
    #[inline]
    pub const fn value_at(&self) -> usize {
        self.at + if self.flags & flags::EXTENDED_LENGTH == 0 { 3 } else { 4 }
    }
}

/// Iterator over attributes. The first error is the last item.
#[derive(Clone, Debug)]
pub struct Attributes<'a> {
    rest: &'a [u8],
    at: usize,
}

impl<'a> Attributes<'a> {
    /// Attributes in `bytes`, whose first byte has the offset `at` in errors and
    /// [`RawAttribute::at`].
    #[inline]
    pub const fn new(bytes: &'a [u8], at: usize) -> Self {
        Self { rest: bytes, at }
    }
}

/// The attribute at the start of `bytes`, and the rest.
#[inline]
pub(crate) fn frame(bytes: &[u8], at: usize) -> Option<(RawAttribute<'_>, &[u8])> {
    let (flags, code, length, behind) = match *bytes {
        [flags, code, length, ref behind @ ..] if flags & flags::EXTENDED_LENGTH == 0 => {
            (flags, code, usize::from(length), behind)
        }
        [flags, code, high, low, ref behind @ ..] => {
            (flags, code, u16::from_be_bytes([high, low]).into(), behind)
        }
        _ => return None,
    };
    let (value, rest) = behind.split_at_checked(length)?;
    Some((RawAttribute { flags, code, value, at }, rest))
}

/// The error for the attribute at the start of `bytes`.
#[cold]
#[inline(never)]
pub(crate) fn unframed(bytes: &[u8], at: usize) -> Error {
    let extended = bytes.first().is_some_and(|flags| flags & flags::EXTENDED_LENGTH != 0);
    let (header, have) = (if extended { 4 } else { 3 }, bytes.len());
    let length = match *bytes {
        [_, _, high, low, ..] if extended => usize::from(u16::from_be_bytes([high, low])),
        [_, _, length, ..] if !extended => length.into(),
        _ => return Error::Short { field: "attribute header", at, need: header, have },
    };
    Error::Short { field: "attribute", at, need: header + length, have }
}

impl<'a> Iterator for Attributes<'a> {
    type Item = Result<RawAttribute<'a>>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        if self.rest.is_empty() {
            return None;
        }
        let (bytes, at) = (self.rest, self.at);
        let Some((raw, rest)) = frame(bytes, at) else {
            self.rest = &[];
            return Some(Err(unframed(bytes, at)));
        };
        self.at += bytes.len() - rest.len();
        self.rest = rest;
        Some(Ok(raw))
    }
}

/// Appends an attribute. Its length takes two octets if necessary, or if `flags` require it.
pub fn encode(flags: u8, code: u8, value: &[u8], to: &mut Vec<u8>) -> Result<()> {
    encode_with(flags, code, to, |to| to.extend_from_slice(value))
}

pub(super) fn encode_with(
    flags: u8,
    code: u8,
    to: &mut Vec<u8>,
    value: impl FnOnce(&mut Vec<u8>),
) -> Result<()> {
    let start = to.len();
    to.extend_from_slice(&[flags, code, 0, 0]);
    value(to);
    let size = to.len() - start - 4;
    let Ok(length) = u16::try_from(size) else {
        to.truncate(start);
        return Err(Error::Long { field: "attribute", size, limit: usize::from(u16::MAX) });
    };
    if length <= 255 && flags & flags::EXTENDED_LENGTH == 0 {
        to[start + 2] = length as u8;
        to.remove(start + 3);
    } else {
        to[start] |= flags::EXTENDED_LENGTH;
        to[start + 2..start + 4].copy_from_slice(&length.to_be_bytes());
    }
    Ok(())
}
