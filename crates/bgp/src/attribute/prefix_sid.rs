//! Segments of prefixes (RFC 8669), and of services over `SRv6` (RFC 9252).

use std::fmt;
use std::net::Ipv6Addr;

use crate::Result;
use crate::cursor::Cursor;
use crate::fields::{Hex, put_sized_u16, write_list};

/// The value of attribute 40: TLVs that fill it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct PrefixSid<'a>(&'a [u8]);

/// One TLV of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PrefixSidPart<'a> {
    /// 1: flags and label index.
    LabelIndex(u16, u32),
    /// 3: flags, and the originator's blocks of labels: three octets of base, three of range.
    Blocks(u16, &'a [[u8; 6]]),
    /// 5 (layer 3) and 6 (layer 2): SIDs of services.
    Service(u8, Srv6Service<'a>),
    /// Type and value of what is not known.
    Other(u8, &'a [u8]),
}

/// SIDs of a service, and what else is said about it (RFC 9252 §2).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Srv6Service<'a>(&'a [u8]);

/// A SID of a service (RFC 9252 §3.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ServiceSid {
    /// The segment identifier.
    pub sid: Ipv6Addr,
    /// Flags; none are defined.
    pub flags: u8,
    /// What the endpoint does, as IANA numbers it.
    pub behaviour: u16,
    /// Bits of locator block, locator node, function, argument, and how many are transposed into
    /// a label from where.
    pub structure: Option<[u8; 6]>,
}

fn read<'a>(cursor: &mut Cursor<'a>) -> Result<(u8, Cursor<'a>)> {
    let kind = cursor.u8("type of a prefix SID TLV")?;
    let length = cursor.u16("length of a prefix SID TLV")?;
    Ok((kind, cursor.part(length.into(), "prefix SID TLV")?))
}

impl<'a> PrefixSid<'a> {
    /// Wrong if TLVs do not fill the value or a known one is not what it should be.
    pub fn parse(value: &'a [u8]) -> Result<Self> {
        let mut cursor = Cursor::new(value, 0);
        while !cursor.is_empty() {
            PrefixSidPart::read(&mut cursor)?;
        }
        Ok(Self(value))
    }

    /// The TLVs, in order.
    pub fn parts(self) -> impl Iterator<Item = PrefixSidPart<'a>> {
        let mut cursor = Cursor::new(self.0, 0);
        std::iter::from_fn(move || PrefixSidPart::read(&mut cursor).ok())
    }

    /// The value as it is sent.
    pub const fn bytes(self) -> &'a [u8] {
        self.0
    }
}

impl<'a> PrefixSidPart<'a> {
    fn read(cursor: &mut Cursor<'a>) -> Result<Self> {
        let (kind, mut body) = read(cursor)?;
        let part = match kind {
            1 => {
                body.u8("reserved octet")?;
                Self::LabelIndex(body.u16("label index flags")?, body.u32("label index")?)
            }
            3 => {
                let flags = body.u16("SRGB flags")?;
                let (blocks, rest) = body.finish().as_chunks();
                if !rest.is_empty() || blocks.is_empty() {
                    let value = rest.len() as u64;
                    return Err(body.wrong("SRGB", value, "no whole blocks of 6 octets"));
                }
                Self::Blocks(flags, blocks)
            }
            5 | 6 => {
                body.u8("reserved octet")?;
                let service = body.rest();
                while !body.is_empty() {
                    let (kind, mut value) = read(&mut body)?;
                    if kind == 1 {
                        ServiceSid::read(&mut value)?;
                    }
                }
                Self::Service(kind, Srv6Service(service))
            }
            _ => Self::Other(kind, body.finish()),
        };
        body.end("prefix SID TLV")?;
        Ok(part)
    }

    /// Appends type, length and value.
    pub fn encode(&self, out: &mut Vec<u8>) -> Result<()> {
        out.push(match self {
            Self::LabelIndex(..) => 1,
            Self::Blocks(..) => 3,
            Self::Service(kind, _) | Self::Other(kind, _) => *kind,
        });
        put_sized_u16(out, "prefix SID TLV", |out| {
            match self {
                Self::LabelIndex(flags, index) => {
                    out.push(0);
                    out.extend(flags.to_be_bytes());
                    out.extend(index.to_be_bytes());
                }
                Self::Blocks(flags, blocks) => {
                    out.extend(flags.to_be_bytes());
                    out.extend(blocks.as_flattened());
                }
                Self::Service(_, service) => {
                    out.push(0);
                    out.extend(service.0);
                }
                Self::Other(_, bytes) => out.extend(*bytes),
            }
            Ok(())
        })
    }
}

impl<'a> Srv6Service<'a> {
    /// Of the bytes behind the reserved octet.
    pub fn parse(bytes: &'a [u8]) -> Result<Self> {
        let mut cursor = Cursor::new(bytes, 0);
        while !cursor.is_empty() {
            let (kind, mut value) = read(&mut cursor)?;
            if kind == 1 {
                ServiceSid::read(&mut value)?;
            }
        }
        Ok(Self(bytes))
    }

    /// The SIDs, in order.
    pub fn sids(self) -> impl Iterator<Item = ServiceSid> + 'a {
        let mut cursor = Cursor::new(self.0, 0);
        std::iter::from_fn(move || read(&mut cursor).ok())
            .filter(|(kind, _)| *kind == 1)
            .filter_map(|(_, mut value)| ServiceSid::read(&mut value).ok())
    }
}

impl ServiceSid {
    fn read(body: &mut Cursor<'_>) -> Result<Self> {
        body.u8("reserved octet")?;
        let sid = body.ipv6("SRv6 SID")?;
        let flags = body.u8("SRv6 SID flags")?;
        let behaviour = body.u16("SRv6 endpoint behaviour")?;
        body.u8("reserved octet")?;
        let mut structure = None;
        while !body.is_empty() {
            let (kind, mut value) = read(body)?;
            if kind == 1 {
                structure = Some(value.array("SRv6 SID structure")?);
                value.end("SRv6 SID structure")?;
            }
        }
        Ok(Self { sid, flags, behaviour, structure })
    }

    /// Appends type, length and value.
    pub fn encode(&self, out: &mut Vec<u8>) -> Result<()> {
        out.push(1);
        put_sized_u16(out, "SRv6 SID", |out| {
            out.push(0);
            out.extend(self.sid.octets());
            out.push(self.flags);
            out.extend(self.behaviour.to_be_bytes());
            out.push(0);
            if let Some(structure) = self.structure {
                out.extend([1, 0, 6]);
                out.extend(structure);
            }
            Ok(())
        })
    }
}

impl fmt::Display for PrefixSidPart<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::LabelIndex(_, index) => write!(f, "index {index}"),
            Self::Blocks(_, blocks) => {
                f.write_str("srgb")?;
                blocks.iter().try_for_each(|[a, b, c, d, e, g]| {
                    let base = u32::from_be_bytes([0, *a, *b, *c]);
                    write!(f, " {base}+{}", u32::from_be_bytes([0, *d, *e, *g]))
                })
            }
            Self::Service(kind, service) => {
                write!(f, "srv6-l{}", if *kind == 5 { 3 } else { 2 })?;
                service.sids().try_for_each(|sid| {
                    write!(f, " {} behaviour {}", sid.sid, sid.behaviour)?;
                    let Some(structure) = sid.structure else { return Ok(()) };
                    f.write_str(" structure ")?;
                    write_list(f, ":", structure)
                })
            }
            Self::Other(kind, bytes) => write!(f, "{kind}=0x{}", Hex(bytes)),
        }
    }
}

/// `index 10; srgb 16000+8000`.
impl fmt::Display for PrefixSid<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_list(f, "; ", self.parts())
    }
}

/// Whether attribute 40 is well-formed; if it is not, it is discarded (RFC 8669 §6).
pub fn check(value: &[u8]) -> Result<()> {
    PrefixSid::parse(value).map(|_| ())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn is_written_and_read() {
        let sid = ServiceSid {
            sid: "fc00:1::".parse().unwrap(),
            flags: 0,
            behaviour: 19,
            structure: Some([40, 24, 16, 0, 16, 64]),
        };
        let mut service = Vec::new();
        sid.encode(&mut service).unwrap();
        let parts = [
            PrefixSidPart::LabelIndex(0, 10),
            PrefixSidPart::Blocks(0, &[[0, 0x3e, 0x80, 0, 0x1f, 0x40]]),
            PrefixSidPart::Service(5, Srv6Service::parse(&service).unwrap()),
            PrefixSidPart::Other(200, &[1]),
        ];
        let mut value = Vec::new();
        for part in &parts {
            part.encode(&mut value).unwrap();
        }
        let read = PrefixSid::parse(&value).unwrap();
        assert!(read.parts().eq(parts));
        assert_eq!(
            read.to_string(),
            "index 10; srgb 16000+8000; \
             srv6-l3 fc00:1:: behaviour 19 structure 40:24:16:0:16:64; 200=0x01"
        );
        let PrefixSidPart::Service(_, service) = read.parts().nth(2).unwrap() else { panic!() };
        assert!(service.sids().eq([sid]));
    }

    #[test]
    fn wrong_lengths_are_refused() {
        assert!(check(&[1, 0, 6, 0, 0, 0, 0, 0, 0]).is_err());
        assert!(check(&[3, 0, 2, 0, 0]).is_err());
        assert!(check(&[5, 0, 4, 0, 1, 0, 0]).is_err());
        assert!(check(&[]).is_ok());
    }
}
