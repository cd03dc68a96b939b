//! Checks opaque attributes: lengths and framing where RFC 7606 §7 requires it, and of
//! `BGPsec_PATH`, which replaces `AS_PATH` (RFC 8205).

use super::raw::{Attributes, RawAttribute, code};
use crate::cursor::Cursor;
use crate::{Error, Result};

/// Maximum nesting of `ATTR_SET`.
const MAX_SET_DEPTH: usize = 4;

/// Fails if `value` is malformed for attribute `code`. Offsets of errors count from the start of
/// `value`.
pub(super) fn check(code: u8, value: &[u8]) -> Result<()> {
    let cursor = Cursor::new(value, 0);
    match code {
        code::IPV6_EXTENDED_COMMUNITIES if value.is_empty() || !value.len().is_multiple_of(20) => {
            let size = value.len() as u64;
            Err(cursor.wrong("IPv6 extended communities", size, "not a positive multiple of 20"))
        }
        code::BGPSEC_PATH => bgpsec(cursor),
        code::ATTR_SET => attr_set(value),
        _ => Ok(()),
    }
}

/// RFC 8205 §5.2: a path, then one or two signature blocks, with one signature per AS of the path.
fn bgpsec(mut cursor: Cursor<'_>) -> Result<()> {
    let path = self_counted(&mut cursor, "secure path length")?;
    let (hops, rest) = path.rest().as_chunks::<6>();
    if !rest.is_empty() || hops.is_empty() {
        let size = path.left() as u64;
        return Err(path.wrong("secure path", size, "not a multiple of 6 octets"));
    }
    let mut blocks = 0;
    while !cursor.is_empty() {
        let mut body = self_counted(&mut cursor, "signature block length")?;
        body.u8("algorithm suite")?;
        let mut signatures = 0;
        while !body.is_empty() {
            body.take(20, "subject key identifier")?;
            let length = body.u16("signature length")?;
            body.take(length.into(), "signature")?;
            signatures += 1;
        }
        if signatures != hops.len() {
            let value = signatures as u64;
            return Err(cursor.wrong("signature block", value, "not one for each hop"));
        }
        blocks += 1;
    }
    if blocks == 0 || blocks > 2 {
        return Err(cursor.wrong("signature blocks", blocks, "not one or two"));
    }
    Ok(())
}

/// Reads the content after a two-octet length that includes itself.
fn self_counted<'a>(cursor: &mut Cursor<'a>, field: &'static str) -> Result<Cursor<'a>> {
    let length = cursor.u16(field)?;
    match length.checked_sub(2) {
        Some(size) => cursor.part(size.into(), field),
        None => Err(cursor.wrong(field, length.into(), "below the size of the length field")),
    }
}

/// RFC 7606 §7.16, RFC 6368 §5: an AS number, and attributes that contain no routes.
fn attr_set(value: &[u8]) -> Result<()> {
    let mut pending = vec![(value, 0)];
    while let Some((value, depth)) = pending.pop() {
        let Some((_, attributes)) = value.split_at_checked(4) else {
            let (field, have) = ("origin AS of ATTR_SET", value.len());
            return Err(Error::Short { field, at: 0, need: 4, have });
        };
        for attribute in Attributes::new(attributes, 4) {
            let RawAttribute { code: kind, value, at, .. } = attribute?;
            let wrong = match kind {
                code::MP_REACH_NLRI | code::MP_UNREACH_NLRI => "not allowed in a set",
                code::ATTR_SET if depth + 1 >= MAX_SET_DEPTH => "nested too deeply",
                code::ATTR_SET => {
                    pending.push((value, depth + 1));
                    continue;
                }
                _ => continue,
            };
            return Err(Error::Value { field: "ATTR_SET", at, value: kind.into(), wrong });
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Checks that `value` is accepted, and that each of its prefixes not in
    /// `accepted` is rejected.
    fn accepts_only_whole(code: u8, value: &[u8], accepted: &[usize]) {
        assert_eq!(check(code, value), Ok(()), "{code}");
        for cut in 0..value.len() {
            assert_eq!(
                check(code, &value[..cut]).is_ok(),
                accepted.contains(&cut),
                "{code}, {cut}"
            );
        }
    }

    #[test]
    fn rejects_cut_values() {
        accepts_only_whole(code::IPV6_EXTENDED_COMMUNITIES, &[0; 40], &[20]);
        let signature = [&[7; 20][..], &[0, 3, 1, 2, 3]].concat();
        let block = [&[0, 53, 1][..], &signature, &signature].concat();
        let path = [0, 14, 1, 0, 0, 0, 0xfd, 0xe9, 2, 0, 0, 0, 0xfd, 0xea];
        let two_blocks = [&path[..], &block, &block].concat();
        accepts_only_whole(code::BGPSEC_PATH, &two_blocks, &[14 + 53]);
        let set = [0, 0, 0xfd, 0xe9, 0x40, 1, 1, 0, 0x40, 5, 4, 0, 0, 0, 44];
        accepts_only_whole(code::ATTR_SET, &set, &[4, 8]);
    }

    #[test]
    fn rejects_values_with_wrong_lengths() {
        for (code, value) in [
            (code::BGPSEC_PATH, &[0, 1][..]),
            (code::BGPSEC_PATH, &[0, 8, 1, 0, 0, 0, 0xfd, 0xe9, 0, 3, 1]),
            (code::ATTR_SET, &[0, 0, 0, 1, 0x80, code::MP_UNREACH_NLRI, 3, 0, 1, 1]),
        ] {
            assert!(check(code, value).is_err(), "{code} {value:?}");
        }
    }

    #[test]
    fn rejects_sets_nested_too_deep() {
        let nested = |depth: usize| {
            let mut value = vec![0, 0, 0xfd, 0xe8];
            for _ in 1..depth {
                let mut set = vec![0, 0, 0xfd, 0xe8];
                super::super::raw::encode(0xc0, code::ATTR_SET, &value, &mut set).unwrap();
                value = set;
            }
            value
        };
        assert!(attr_set(&nested(1)).is_ok());
        assert!(attr_set(&nested(MAX_SET_DEPTH)).is_ok());
        assert!(attr_set(&nested(MAX_SET_DEPTH + 1)).is_err());
        assert!(attr_set(&nested(5000)).is_err());
    }
}
