//! Accumulated IGP metric (RFC 7311).

use crate::cursor::Cursor;
use crate::{Error, Result};

/// Type of the only TLV that is defined.
const METRIC: u8 = 1;
/// Octets of type, length and metric.
const SIZE: u16 = 11;

/// The value of attribute 26: TLVs that fill it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Aigp<'a>(&'a [u8]);

impl<'a> Aigp<'a> {
    /// Wrong unless TLVs fill the value, the metric with eleven octets (RFC 7311 §3).
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

    /// The metric of the first TLV that has one; the others do not count (RFC 7311 §3).
    pub fn metric(self) -> Option<u64> {
        let value = self.tlvs().find(|(kind, _)| *kind == METRIC)?.1;
        value.try_into().ok().map(u64::from_be_bytes)
    }

    /// Types and values, in order.
    pub fn tlvs(self) -> impl Iterator<Item = (u8, &'a [u8])> {
        let mut cursor = Cursor::new(self.0, 0);
        std::iter::from_fn(move || read(&mut cursor).ok())
    }

    /// Appends the value of an attribute with one metric.
    pub fn encode(metric: u64, out: &mut Vec<u8>) {
        out.push(METRIC);
        out.extend(SIZE.to_be_bytes());
        out.extend(metric.to_be_bytes());
    }

    /// The value as it is sent.
    pub const fn bytes(self) -> &'a [u8] {
        self.0
    }
}

/// A TLV, whose length counts its own three octets too.
fn read<'a>(cursor: &mut Cursor<'a>) -> Result<(u8, &'a [u8])> {
    let kind = cursor.u8("AIGP TLV type")?;
    let length = cursor.u16("AIGP TLV length")?;
    let Some(size) = length.checked_sub(3) else {
        let (field, at, value) = ("AIGP TLV length", cursor.at(), length.into());
        return Err(Error::Value { field, at, value, wrong: "less than type and length take" });
    };
    Ok((kind, cursor.take(size.into(), "AIGP TLV")?))
}

/// Whether attribute 26 is well-formed; if it is not, it is discarded (RFC 7311 §3.2).
pub fn check(value: &[u8]) -> Result<()> {
    Aigp::parse(value).map(|_| ())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_metric_counts() {
        let mut value = vec![9, 0, 4, 77];
        Aigp::encode(20, &mut value);
        Aigp::encode(30, &mut value);
        let aigp = Aigp::parse(&value).unwrap();
        assert_eq!((aigp.metric(), aigp.tlvs().count()), (Some(20), 3));
        assert_eq!(Aigp::parse(&[]).unwrap().metric(), None);
    }

    #[test]
    fn lengths_must_fit() {
        assert!(check(&[1, 0, 2]).is_err());
        assert!(check(&[1, 0, 10, 0, 0, 0, 0, 0, 0, 0]).is_err());
        assert!(check(&[1, 0, 11, 0, 0, 0, 0, 0, 0, 0]).is_err());
    }
}
