//! The Internet checksum (RFC 1071).

/// Bytes summed per iteration, in two sums of four lanes each.
const WIDE: usize = 32;

/// One's-complement sum of `bytes` as big-endian words on top of `sum`, not folded.
#[inline]
pub fn add(sum: u64, bytes: &[u8]) -> u64 {
    if bytes.len() >= 2 * WIDE {
        return add_wide(sum, bytes);
    }
    let (words, rest) = bytes.as_chunks::<4>();
    let total = words.iter().fold(sum, |sum, word| sum + u64::from(u32::from_be_bytes(*word)));
    let mut last = [0; 4];
    last[..rest.len()].copy_from_slice(rest);
    total + u64::from(u32::from_be_bytes(last))
}

/// [`add`] in native byte order, which only swaps the bytes of the folded sum (RFC 1071 §2).
fn add_wide(sum: u64, bytes: &[u8]) -> u64 {
    let (blocks, rest) = bytes.as_chunks::<WIDE>();
    let (mut low, mut high) = ([0_u64; WIDE / 8], [0_u64; WIDE / 8]);
    for block in blocks {
        let (words, _) = block.as_chunks::<8>();
        for (lane, word) in words.iter().enumerate() {
            let word = u64::from_ne_bytes(*word);
            low[lane] += word & 0xffff_ffff;
            high[lane] += word >> 32;
        }
    }
    let native: u64 = low.iter().chain(&high).sum();
    add(sum + u64::from(fold(native).to_be()), rest)
}

/// Folds to 16 bits, not complemented.
#[inline]
pub fn fold(mut sum: u64) -> u16 {
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    sum as u16
}

/// The checksum of `bytes`; 0 if they contain their own correct checksum.
#[inline]
pub fn of(bytes: &[u8]) -> u16 {
    !fold(add(0, bytes))
}

/// Sum of the pseudo-header (RFC 793 §3.1, RFC 8200 §8.1), not folded.
pub fn pseudo_header(addresses: &[u8], protocol: u8, length: u32) -> u64 {
    add(u64::from(protocol) + u64::from(length), addresses)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn sums_the_example_of_rfc_1071() {
        let bytes = [0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7];
        assert_eq!(fold(add(0, &bytes)), 0xddf2);
        assert_eq!(fold(add(0, &[0xff])), 0xff00);
    }

    proptest! {
        #[test]
        fn any_length_sums_as_words_do(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
            let mut sum = 0_u64;
            for word in bytes.chunks(2) {
                sum += u64::from(u16::from_be_bytes([word[0], word.get(1).copied().unwrap_or(0)]));
            }
            prop_assert_eq!(fold(add(0, &bytes)), fold(sum));
        }
    }
}
