//! `SipHash` (Aumasson and Bernstein, 2012) of whole words.
//!
//! Crates for byte input copy the input first, and take twice as long for such short inputs.

/// `SipHash`-*c*-*d* of the words, each as eight bytes, the least significant first.
#[inline]
pub(crate) fn siphash<const C: usize, const D: usize, const N: usize>(
    key: [u64; 2],
    words: [u64; N],
) -> u64 {
    let mut state = [
        key[0] ^ 0x736f_6d65_7073_6575,
        key[1] ^ 0x646f_7261_6e64_6f6d,
        key[0] ^ 0x6c79_6765_6e65_7261,
        key[1] ^ 0x7465_6462_7974_6573,
    ];
    for word in words {
        absorb::<C>(&mut state, word);
    }
    // The length in bytes.
    absorb::<C>(&mut state, (N as u64 * 8) << 56);
    state[2] ^= 0xff;
    rounds::<D>(&mut state);
    state[0] ^ state[1] ^ state[2] ^ state[3]
}

#[inline]
fn absorb<const C: usize>(state: &mut [u64; 4], word: u64) {
    state[3] ^= word;
    rounds::<C>(state);
    state[0] ^= word;
}

#[inline]
fn rounds<const COUNT: usize>([a, b, c, d]: &mut [u64; 4]) {
    for _ in 0..COUNT {
        *a = a.wrapping_add(*b);
        *c = c.wrapping_add(*d);
        *b = b.rotate_left(13) ^ *a;
        *d = d.rotate_left(16) ^ *c;
        *a = a.rotate_left(32);
        *c = c.wrapping_add(*b);
        *a = a.wrapping_add(*d);
        *b = b.rotate_left(17) ^ *c;
        *d = d.rotate_left(21) ^ *a;
        *c = c.rotate_left(32);
    }
}
