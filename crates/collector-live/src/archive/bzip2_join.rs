//! bzip2 streams of one block each, joined into one stream.
//!
//! A stream is `BZh9`, blocks, and an end of 48 bits with a 32-bit sum over the sums of all
//! blocks. Blocks begin and end at any bit, so joining shifts bits.

use std::io::{self, Write};

use bzip2::write::BzEncoder;

/// Bytes of content that always fit into one block of 900,000 bytes: run-length encoding, which
/// comes first, makes five bytes of four equal ones at the worst.
pub(super) const BLOCK: usize = 719_900;

const HEADER: &[u8; 4] = b"BZh9";
const BLOCK_MARK: u64 = 0x3141_5926_5359;
const END_MARK: u64 = 0x1772_4538_5090;

/// A stream of at most one block.
pub(super) fn pack(content: &[u8]) -> io::Result<Vec<u8>> {
    debug_assert!(content.len() <= BLOCK, "one block");
    let mut encoder = BzEncoder::new(Vec::new(), bzip2::Compression::best());
    encoder.write_all(content)?;
    encoder.finish()
}

/// One stream in the making.
pub(super) struct Joiner {
    /// Bits that do not fill a byte yet, uppermost first.
    pending: u8,
    /// How many they are.
    count: u32,
    sum: u32,
    begun: bool,
}

impl Joiner {
    pub(super) fn new() -> Self {
        Self { pending: 0, count: 0, sum: 0, begun: false }
    }

    /// The bytes that follow after adding the block of `stream`.
    pub(super) fn add(&mut self, stream: &[u8]) -> io::Result<Vec<u8>> {
        let mut bytes = Vec::with_capacity(stream.len() + 8);
        self.begin(&mut bytes);
        let end = end_of_blocks(stream)?;
        let first = 8 * HEADER.len();
        if end == first {
            return Ok(bytes);
        }
        if bits(stream, first, 48) != Some(BLOCK_MARK) {
            return Err(foreign());
        }
        let sum = bits(stream, first + 48, 32).ok_or_else(foreign)?;
        self.sum = self.sum.rotate_left(1) ^ sum as u32;
        for byte in &stream[HEADER.len()..end / 8] {
            self.put(u64::from(*byte), 8, &mut bytes);
        }
        let rest = end % 8;
        if rest > 0 {
            self.put(u64::from(stream[end / 8] >> (8 - rest)), rest as u32, &mut bytes);
        }
        Ok(bytes)
    }

    /// The bytes that end the stream.
    pub(super) fn end(&mut self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(16);
        self.begin(&mut bytes);
        self.put(END_MARK, 48, &mut bytes);
        self.put(u64::from(self.sum), 32, &mut bytes);
        if self.count > 0 {
            bytes.push(self.pending << (8 - self.count));
        }
        bytes
    }

    fn begin(&mut self, bytes: &mut Vec<u8>) {
        if !self.begun {
            self.begun = true;
            bytes.extend_from_slice(HEADER);
        }
    }

    /// Appends the lower `width` bits of `value`.
    fn put(&mut self, value: u64, width: u32, bytes: &mut Vec<u8>) {
        let mut all = u64::from(self.pending) << width | value;
        let mut count = self.count + width;
        while count >= 8 {
            count -= 8;
            bytes.push((all >> count) as u8);
            all &= (1 << count) - 1;
        }
        (self.pending, self.count) = (all as u8, count);
    }
}

/// The bit behind the last block: the end mark and the sum follow, and up to 7 bits to the byte.
fn end_of_blocks(stream: &[u8]) -> io::Result<usize> {
    let total = 8 * stream.len();
    (0..8)
        .filter_map(|padding| total.checked_sub(80 + padding))
        .find(|at| *at >= 32 && bits(stream, *at, 48) == Some(END_MARK))
        .ok_or_else(foreign)
}

/// `width` bits from bit `at` on.
fn bits(stream: &[u8], at: usize, width: usize) -> Option<u64> {
    let part = stream.get(at / 8..(at + width).div_ceil(8))?;
    let all = part.iter().fold(0_u128, |all, byte| all << 8 | u128::from(*byte));
    let behind = 8 * part.len() - at % 8 - width;
    Some((all >> behind) as u64 & ((1 << width) - 1))
}

fn foreign() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, "no bzip2 stream of one block")
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use super::*;

    #[test]
    fn runs_of_four_fill_one_block() {
        // The worst case of the run-length encoding: still one block, so the sum is the block's.
        let content: Vec<u8> = (0..BLOCK).map(|at| (at / 4 % 251) as u8).collect();
        let stream = pack(&content).unwrap();
        let end = end_of_blocks(&stream).unwrap();
        assert_eq!(bits(&stream, 80, 32), bits(&stream, end + 48, 32));
        let mut joiner = Joiner::new();
        let mut joined = joiner.add(&stream).unwrap();
        joined.extend(joiner.add(&pack(b"tail").unwrap()).unwrap());
        joined.extend(joiner.end());
        let mut back = Vec::new();
        bzip2::bufread::BzDecoder::new(&joined[..]).read_to_end(&mut back).unwrap();
        assert!(back[..BLOCK] == content[..] && &back[BLOCK..] == b"tail");
    }

    #[test]
    fn other_bytes_are_refused() {
        assert!(Joiner::new().add(b"BZh9 something else").is_err());
        assert!(Joiner::new().add(&[]).is_err());
    }
}
