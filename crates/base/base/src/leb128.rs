//! Numbers in LEB128: seven bits per byte, lowest first; the highest bit is set in all bytes
//! but the last.

/// Appends a number.
pub fn put(out: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

/// Reads a number from the bytes of `next`; `None` if it exceeds 64 bits.
///
/// # Errors
/// The first error of `next`.
pub fn get<E>(mut next: impl FnMut() -> Result<u8, E>) -> Result<Option<u64>, E> {
    let mut number = 0;
    for shift in (0..64).step_by(7) {
        let byte = next()?;
        let bits = u64::from(byte & 0x7f);
        if bits.leading_zeros() < shift {
            break;
        }
        number |= bits << shift;
        if byte < 0x80 {
            return Ok(Some(number));
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_what_it_wrote_and_rejects_numbers_beyond_64_bits() {
        let get = |bytes: &[u8]| {
            let mut bytes = bytes.iter();
            get(|| bytes.next().copied().ok_or(()))
        };
        for number in [0, 1, 127, 128, 300, u64::from(u32::MAX), u64::MAX] {
            let mut out = Vec::new();
            put(&mut out, number);
            assert_eq!(get(&out), Ok(Some(number)));
        }
        assert_eq!(get(&[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x02]), Ok(None));
        assert_eq!(get(&[0x80]), Err(()));
        assert_eq!(get(&[0x80; 20]), Ok(None));
    }
}
