//! The Internet checksum (RFC 1071).

/// One's-complement sum of `bytes` as big-endian words on top of `sum`, not folded.
pub(crate) fn add(sum: u64, bytes: &[u8]) -> u64 {
    let (words, rest) = bytes.as_chunks::<4>();
    let total = words.iter().fold(sum, |sum, word| sum + u64::from(u32::from_be_bytes(*word)));
    let mut last = [0; 4];
    last[..rest.len()].copy_from_slice(rest);
    total + u64::from(u32::from_be_bytes(last))
}

/// Folds to 16 bits, not complemented.
pub(crate) fn fold(mut sum: u64) -> u16 {
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    sum as u16
}

/// The checksum of `bytes`.
pub(crate) fn of(bytes: &[u8]) -> u16 {
    !fold(add(0, bytes))
}

/// Sum of the pseudo-header (RFC 793 §3.1, RFC 8200 §8.1), not folded.
pub(crate) fn pseudo_header(addresses: &[u8], protocol: u8, length: u32) -> u64 {
    add(u64::from(protocol) + u64::from(length), addresses)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_the_example_of_rfc_1071() {
        let bytes = [0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7];
        assert_eq!(fold(add(0, &bytes)), 0xddf2);
        assert_eq!(fold(add(0, &[0xff])), 0xff00);
    }
}
