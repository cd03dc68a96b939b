//! The hash FNV-1a of 64 bits: stable across versions, for checksums and traces. It has no key, so
//! it is not suitable for hash tables.

/// The hash of an empty input.
pub const START: u64 = 0xcbf2_9ce4_8422_2325;

/// Adds one byte to `hash`. A wider `part` gives a stable hash, but not that of FNV-1a.
pub const fn step(hash: u64, part: u64) -> u64 {
    (hash ^ part).wrapping_mul(0x0100_0000_01b3)
}

/// The hash of bytes.
pub fn hash<'a>(bytes: impl IntoIterator<Item = &'a u8>) -> u64 {
    bytes.into_iter().fold(START, |hash, byte| step(hash, u64::from(*byte)))
}
