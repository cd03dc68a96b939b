//! Signed paths (RFC 8205 §3).

use std::fmt;

use crate::cursor::Cursor;
use crate::fields::{Hex, put_sized_u16, write_list};
use crate::{Asn, Error, Result};

/// Octets of an AS in the path.
const HOP: usize = 6;

/// The value of attribute 33: ASes on the way, and one or two blocks of signatures over them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Bgpsec<'a>(&'a [u8]);

/// An AS on the way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Hop {
    /// How many times it counts.
    pub count: u8,
    /// Flags; 0x80: within a confederation.
    pub flags: u8,
    /// The AS.
    pub asn: Asn,
}

/// Signatures by one algorithm suite, one for each hop.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SignatureBlock<'a> {
    /// Algorithm suite, as IANA numbers them.
    pub algorithm: u8,
    signatures: &'a [u8],
}

/// One signature.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Signature<'a> {
    /// Which key: the subject key identifier of the router's certificate.
    pub key: [u8; 20],
    /// The signature.
    pub bytes: &'a [u8],
}

impl<'a> Bgpsec<'a> {
    /// Wrong if the lengths do not fit, there is no block or more than two, or a block has not as
    /// many signatures as the path has ASes (RFC 8205 §5.2).
    pub fn parse(value: &'a [u8]) -> Result<Self> {
        let mut cursor = Cursor::new(value, 0);
        let path = part(&mut cursor, "secure path length")?;
        let (hops, rest) = path.rest().as_chunks::<HOP>();
        if !rest.is_empty() || hops.is_empty() {
            let size = path.left() as u64;
            return Err(path.wrong("secure path", size, "no whole segments of 6 octets"));
        }
        let mut count = 0;
        while !cursor.is_empty() {
            let block = SignatureBlock::read(&mut cursor)?;
            if block.signatures().count() != hops.len() {
                let signatures = block.signatures().count() as u64;
                return Err(cursor.wrong("signature block", signatures, "not one for each hop"));
            }
            count += 1;
        }
        if count == 0 || count > 2 {
            return Err(cursor.wrong("signature blocks", count, "not one or two"));
        }
        Ok(Self(value))
    }

    /// The ASes on the way, nearest first.
    pub fn hops(self) -> impl ExactSizeIterator<Item = Hop> + 'a {
        let path = part(&mut Cursor::new(self.0, 0), "secure path").ok();
        let hops = path.map_or(&[][..], |path| path.rest().as_chunks::<HOP>().0);
        hops.iter().map(|[count, flags, a, b, c, d]| Hop {
            count: *count,
            flags: *flags,
            asn: Asn(u32::from_be_bytes([*a, *b, *c, *d])),
        })
    }

    /// The blocks of signatures.
    pub fn blocks(self) -> impl Iterator<Item = SignatureBlock<'a>> {
        let mut cursor = Cursor::new(self.0, 0);
        // The path, which is no block.
        let _ = part(&mut cursor, "secure path");
        std::iter::from_fn(move || SignatureBlock::read(&mut cursor).ok())
    }

    /// The value as it is sent.
    pub const fn bytes(self) -> &'a [u8] {
        self.0
    }

    /// Appends the value of an attribute with these ASes, and these blocks: each an algorithm
    /// suite and signatures that are encoded already.
    pub fn encode(hops: &[Hop], blocks: &[(u8, &[u8])], out: &mut Vec<u8>) -> Result<()> {
        put_part(out, "secure path", |out| {
            for hop in hops {
                out.extend([hop.count, hop.flags]);
                out.extend(hop.asn.0.to_be_bytes());
            }
        })?;
        blocks.iter().try_for_each(|(algorithm, signatures)| {
            put_part(out, "signature block", |out| {
                out.push(*algorithm);
                out.extend(*signatures);
            })
        })
    }
}

/// Writes what `write` writes behind a length of two octets that counts itself.
fn put_part(
    out: &mut Vec<u8>,
    field: &'static str,
    write: impl FnOnce(&mut Vec<u8>),
) -> Result<()> {
    let start = out.len();
    out.extend([0, 0]);
    write(out);
    let size = out.len() - start;
    let length = u16::try_from(size).map_err(|_| Error::Long { field, size, limit: 65535 })?;
    out[start..start + 2].copy_from_slice(&length.to_be_bytes());
    Ok(())
}

/// What a length of two octets, which counts itself, frames.
fn part<'a>(cursor: &mut Cursor<'a>, field: &'static str) -> Result<Cursor<'a>> {
    let length = cursor.u16(field)?;
    match length.checked_sub(2) {
        Some(size) => cursor.part(size.into(), field),
        None => Err(cursor.wrong(field, length.into(), "less than the length field takes")),
    }
}

impl<'a> SignatureBlock<'a> {
    fn read(cursor: &mut Cursor<'a>) -> Result<Self> {
        let mut body = part(cursor, "signature block length")?;
        let algorithm = body.u8("algorithm suite")?;
        let signatures = body.rest();
        while !body.is_empty() {
            Signature::read(&mut body)?;
        }
        Ok(Self { algorithm, signatures })
    }

    /// The signatures, that of the nearest AS first.
    pub fn signatures(&self) -> impl Iterator<Item = Signature<'a>> {
        let mut cursor = Cursor::new(self.signatures, 0);
        std::iter::from_fn(move || Signature::read(&mut cursor).ok())
    }
}

impl<'a> Signature<'a> {
    fn read(cursor: &mut Cursor<'a>) -> Result<Self> {
        let key = cursor.array("subject key identifier")?;
        let length = cursor.u16("signature length")?;
        Ok(Self { key, bytes: cursor.take(length.into(), "signature")? })
    }

    /// Appends key, length and signature.
    pub fn encode(&self, out: &mut Vec<u8>) -> Result<()> {
        out.extend(self.key);
        put_sized_u16(out, "signature", |out| {
            out.extend(self.bytes);
            Ok(())
        })
    }
}

impl fmt::Display for Hop {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.asn.fmt(f)?;
        if self.count == 1 { Ok(()) } else { write!(f, "*{}", self.count) }
    }
}

/// `65001 65002*2 (algorithm 1: key 0a1b…)`: the path, then each block with its keys.
impl fmt::Display for Bgpsec<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_list(f, " ", self.hops())?;
        for block in self.blocks() {
            write!(f, " (algorithm {}:", block.algorithm)?;
            for signature in block.signatures() {
                write!(f, " key {}", Hex(&signature.key))?;
            }
            f.write_str(")")?;
        }
        Ok(())
    }
}

/// Whether attribute 33 is well-formed; if it is not, its routes are withdrawn (RFC 8205 §5.2).
pub fn check(value: &[u8]) -> Result<()> {
    Bgpsec::parse(value).map(|_| ())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_hop_has_its_signature() {
        let hops = [
            Hop { count: 1, flags: 0, asn: Asn(65001) },
            Hop { count: 2, flags: 0, asn: Asn(65002) },
        ];
        let mut signatures = Vec::new();
        for seed in [7, 8] {
            Signature { key: [seed; 20], bytes: &[seed, 2, 3] }.encode(&mut signatures).unwrap();
        }
        let mut value = Vec::new();
        Bgpsec::encode(&hops, &[(1, &signatures)], &mut value).unwrap();
        let path = Bgpsec::parse(&value).unwrap();
        assert!(path.to_string().starts_with("65001 65002*2 (algorithm 1: key 0707"));
        let block = path.blocks().next().unwrap();
        assert!(block.signatures().map(|signature| signature.bytes[0]).eq([7, 8]));
        assert!(path.hops().eq(hops));
        for cut in 0..value.len() {
            assert!(check(&value[..cut]).is_err(), "{cut}");
        }
        value[1] = 8;
        assert!(check(&value).is_err());
    }
}
