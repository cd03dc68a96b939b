//! Accumulated IGP metric (RFC 7311).

use crate::cursor::Cursor;
use crate::{Error, Result};

/// Type of the only defined TLV.
const METRIC: u8 = 1;
/// Octets of type, length and metric.
const SIZE: u16 = 11;

/// The value of attribute 26: a sequence of TLVs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Aigp<'a>(&'a [u8]);

impl<'a> Aigp<'a> {
    /// Fails unless the value consists of whole TLVs and a metric TLV has eleven octets (RFC 7311
    /// §3).
    pub fn parse(value: &'a [u8]) -> Result<Self> {
        let mut cursor = Cursor::new(value, 0);
        while !cursor.is_empty() {
            let (kind, size) = read(&mut cursor)?;
            if kind == METRIC && size.len() != usize::from(SIZE) - 3 {
                let value = size.len() as u64 + 3;
                return Err(cursor.wrong("AIGP TLV length", value, "not 11"));
            }
        }
        Ok(Self(value))
    }

    /// The first metric (RFC 7311 §3).
    pub fn metric(self) -> Option<u64> {
        let value = self.tlvs().find(|(kind, _)| *kind == METRIC)?.1;
        value.try_into().ok().map(u64::from_be_bytes)
    }

    /// Types and values, in order.
    pub fn tlvs(self) -> impl Iterator<Item = (u8, &'a [u8])> {
        let mut cursor = Cursor::new(self.0, 0);
        std::iter::from_fn(move || read(&mut cursor).ok())
    }

    /// The encoded TLVs.
    pub const fn bytes(self) -> &'a [u8] {
        self.0
    }
}

/// Reads a TLV, whose length includes its three octets of type and length.
fn read<'a>(cursor: &mut Cursor<'a>) -> Result<(u8, &'a [u8])> {
    let kind = cursor.u8("AIGP TLV type")?;
    let length = cursor.u16("AIGP TLV length")?;
    let Some(size) = length.checked_sub(3) else {
        let (field, at, value) = ("AIGP TLV length", cursor.at(), length.into());
        return Err(Error::Value { field, at, value, wrong: "below the size of type and length" });
    };
    Ok((kind, cursor.take(size.into(), "AIGP TLV")?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn returns_first_metric() {
        let metric = |metric| [1, 0, 11, 0, 0, 0, 0, 0, 0, 0, metric];
        let value = [&[9, 0, 4, 77][..], &metric(20), &metric(30)].concat();
        let aigp = Aigp::parse(&value).unwrap();
        assert_eq!((aigp.metric(), aigp.tlvs().count()), (Some(20), 3));
        assert_eq!(Aigp::parse(&[]).unwrap().metric(), None);
    }

    #[test]
    fn rejects_invalid_lengths() {
        assert!(Aigp::parse(&[1, 0, 2]).is_err());
        assert!(Aigp::parse(&[1, 0, 10, 0, 0, 0, 0, 0, 0, 0]).is_err());
        assert!(Aigp::parse(&[1, 0, 11, 0, 0, 0, 0, 0, 0, 0]).is_err());
    }
}
