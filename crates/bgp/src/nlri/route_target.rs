//! Membership in route targets (RFC 4684): which VPN routes a speaker wants.

use std::fmt;

use super::labelled::put_bits;
use crate::attribute::extended_community::ExtendedCommunity;
use crate::cursor::Cursor;
use crate::fields::Hex;
use crate::{Asn, Result};

/// The origin AS and the first bits of a route target; neither: all route targets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RouteTarget {
    /// Length in bits: 0, or 32 to 96.
    bits: u8,
    bytes: [u8; 12],
}

impl RouteTarget {
    /// All route targets.
    pub const DEFAULT: Self = Self { bits: 0, bytes: [0; 12] };

    /// One route target, whole.
    pub fn new(origin: Asn, target: ExtendedCommunity) -> Self {
        let mut bytes = [0; 12];
        bytes[..4].copy_from_slice(&origin.0.to_be_bytes());
        bytes[4..].copy_from_slice(&target.0);
        Self { bits: 96, bytes }
    }

    pub(crate) fn read(cursor: &mut Cursor<'_>) -> Result<Self> {
        let field = "length of a route target";
        let bits = cursor.u8(field)?;
        if bits > 96 || (1..32).contains(&bits) {
            return Err(cursor.wrong(field, bits.into(), "not 0 or 32 to 96"));
        }
        let sent = cursor.take(usize::from(bits).div_ceil(8), "route target")?;
        let mut bytes = [0; 12];
        bytes[..sent.len()].copy_from_slice(sent);
        Ok(Self { bits, bytes })
    }

    /// Length in bits: of the AS number (32) and as much of the target as counts.
    pub const fn bits(&self) -> u8 {
        self.bits
    }

    /// The AS that wants the routes; `None` if all route targets are wanted.
    pub fn origin(&self) -> Option<Asn> {
        let [a, b, c, d, ..] = self.bytes;
        (self.bits >= 32).then_some(Asn(u32::from_be_bytes([a, b, c, d])))
    }

    /// The target, if it is whole.
    pub fn target(&self) -> Option<ExtendedCommunity> {
        let target = *self.bytes.last_chunk()?;
        (self.bits == 96).then_some(ExtendedCommunity(target))
    }

    /// Appends length and value.
    pub fn encode(&self, out: &mut Vec<u8>) -> Result<()> {
        put_bits(out, self.bits.into())?;
        out.extend(&self.bytes[..usize::from(self.bits).div_ceil(8)]);
        Ok(())
    }
}

/// `65000:rt:65000:1/96`; a part of a target in hexadecimal digits, `*` for none of
/// it; `default` for all.
impl fmt::Display for RouteTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(origin) = self.origin() else { return f.write_str("default") };
        if let Some(target) = self.target() {
            return write!(f, "{origin}:{target}/96");
        }
        match &self.bytes[4..usize::from(self.bits).div_ceil(8)] {
            [] => write!(f, "{origin}:*/{}", self.bits),
            target => write!(f, "{origin}:0x{}/{}", Hex(target), self.bits),
        }
    }
}
