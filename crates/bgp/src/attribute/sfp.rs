//! Service function paths (RFC 9015 §3.2): through which functions traffic is to go, in order.

use std::fmt;

use crate::Result;
use crate::cursor::Cursor;
use crate::fields::{Hex, write_list};
use crate::nlri::vpn::RouteDistinguisher;

/// The value of attribute 37: TLVs that fill it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Sfp<'a>(&'a [u8]);

/// One TLV of a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SfpPart<'a> {
    /// 1: type of association, and the other path by distinguisher and path id of three octets.
    Association(u8, RouteDistinguisher, u32),
    /// 2: service index, and what can be done there.
    Hop(u8, HopParts<'a>),
    /// Type and value of what is not known.
    Other(u8, &'a [u8]),
}

/// What can be done at a hop.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct HopParts<'a>(&'a [u8]);

/// One TLV of a hop.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum HopPart<'a> {
    /// 3: a type of function, and which instances of it serve (none: all).
    Function(u16, &'a [[u8; 8]]),
    /// 4: MPLS labels that stand for path and index, and for the function, three octets each.
    Labels([u8; 6]),
    /// Type and value of what is not known.
    Other(u8, &'a [u8]),
}

fn read<'a>(cursor: &mut Cursor<'a>) -> Result<(u8, Cursor<'a>)> {
    let kind = cursor.u8("type of a service path TLV")?;
    let length = cursor.u16("length of a service path TLV")?;
    Ok((kind, cursor.part(length.into(), "service path TLV")?))
}

impl<'a> Sfp<'a> {
    /// Wrong if TLVs do not fill the value or a known one is not what it should be.
    pub fn parse(value: &'a [u8]) -> Result<Self> {
        let mut cursor = Cursor::new(value, 0);
        while !cursor.is_empty() {
            SfpPart::read(&mut cursor)?;
        }
        Ok(Self(value))
    }

    /// The TLVs, in order.
    pub fn parts(self) -> impl Iterator<Item = SfpPart<'a>> {
        let mut cursor = Cursor::new(self.0, 0);
        std::iter::from_fn(move || SfpPart::read(&mut cursor).ok())
    }

    /// The value as it is sent.
    pub const fn bytes(self) -> &'a [u8] {
        self.0
    }
}

impl<'a> SfpPart<'a> {
    fn read(cursor: &mut Cursor<'a>) -> Result<Self> {
        let (kind, mut body) = read(cursor)?;
        let part = match kind {
            1 => Self::Association(
                body.u8("type of an association")?,
                RouteDistinguisher::read(&mut body)?,
                body.u24("service path identifier")?,
            ),
            2 => {
                let index = body.u8("service index")?;
                let parts = HopParts(body.rest());
                while !body.is_empty() {
                    HopPart::read(&mut body)?;
                }
                Self::Hop(index, parts)
            }
            _ => Self::Other(kind, body.finish()),
        };
        body.end("service path TLV")?;
        Ok(part)
    }
}

impl<'a> HopParts<'a> {
    /// The TLVs, in order.
    pub fn iter(self) -> impl Iterator<Item = HopPart<'a>> {
        let mut cursor = Cursor::new(self.0, 0);
        std::iter::from_fn(move || HopPart::read(&mut cursor).ok())
    }
}

impl<'a> HopPart<'a> {
    fn read(cursor: &mut Cursor<'a>) -> Result<Self> {
        let (kind, mut body) = read(cursor)?;
        let part = match kind {
            3 => {
                let function = body.u16("service function type")?;
                let (instances, rest) = body.finish().as_chunks();
                if !rest.is_empty() {
                    let size = rest.len() as u64;
                    return Err(body.wrong("service function instances", size, "no whole RDs"));
                }
                Self::Function(function, instances)
            }
            4 => Self::Labels(body.array("labels of a service path")?),
            _ => Self::Other(kind, body.finish()),
        };
        body.end("service path TLV")?;
        Ok(part)
    }
}

impl fmt::Display for HopPart<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Function(function, instances) => {
                write!(f, "function {function}")?;
                let mut instances = instances.iter();
                instances.try_for_each(|octets| write!(f, " {}", RouteDistinguisher(*octets)))
            }
            Self::Labels(octets) => write!(f, "labels 0x{}", Hex(octets)),
            Self::Other(kind, bytes) => write!(f, "{kind}=0x{}", Hex(bytes)),
        }
    }
}

impl fmt::Display for SfpPart<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Association(kind, distinguisher, path) => {
                write!(f, "association {kind} {distinguisher} path {path}")
            }
            Self::Hop(index, parts) => {
                write!(f, "hop {index} [")?;
                write_list(f, "; ", parts.iter())?;
                f.write_str("]")
            }
            Self::Other(kind, bytes) => write!(f, "{kind}=0x{}", Hex(bytes)),
        }
    }
}

/// `hop 255 [function 4 65000:1]; hop 254 [function 9]`.
impl fmt::Display for Sfp<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_list(f, "; ", self.parts())
    }
}

/// Whether attribute 37 is well-formed; if it is not, its routes are withdrawn (RFC 9015 §3.2.2).
pub fn check(value: &[u8]) -> Result<()> {
    Sfp::parse(value).map(|_| ())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hops_and_functions_are_read() {
        let value = [
            &[1, 0, 12, 1, 0, 0, 0xfd, 0xe8, 0, 0, 0, 1, 0, 0, 9][..],
            &[2, 0, 14, 255, 3, 0, 10, 0, 4, 0, 0, 0xfd, 0xe8, 0, 0, 0, 2],
            &[2, 0, 10, 254, 4, 0, 6, 0, 1, 2, 3, 4, 5, 99, 0, 1, 7],
        ]
        .concat();
        let text = "association 1 65000:1 path 9; hop 255 [function 4 65000:2]; \
                    hop 254 [labels 0x000102030405]; 99=0x07";
        assert_eq!(Sfp::parse(&value).unwrap().to_string(), text);
        assert!(check(&value[..20]).is_err());
        assert!(check(&[2, 0, 6, 1, 3, 0, 2, 0]).is_err());
        assert!(check(&[2, 0, 9, 1, 3, 0, 5, 0, 4, 1, 2, 3]).is_err());
    }
}
