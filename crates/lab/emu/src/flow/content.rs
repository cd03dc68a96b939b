//! Verifiable payload: the bytes of a multipath flow depend on their position in the stream, so
//! that lost, duplicated and misplaced data is detected.

use std::fmt;

use base::RandomStream;

/// Range around a damaged position that is searched for the received bytes.
const SEARCH_RANGE_BYTES: u64 = 4 << 20;
/// Number of equal bytes that is sufficient to identify a position.
const MIN_MATCH_BYTES: usize = 16;

/// A reproducible infinite stream.
#[derive(Clone, Copy, Debug)]
pub(super) struct Content {
    key: u64,
}

/// An error in a received stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Damage {
    /// Position of the first wrong byte.
    offset: u64,
    kind: Kind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// Number of missing bytes.
    Missing(u64),
    /// Number of bytes by which the stream jumped back.
    Repeated(u64),
    Wrong,
}

impl fmt::Display for Damage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the stream is damaged at byte {}: ", self.offset)?;
        match self.kind {
            Kind::Missing(bytes) => write!(f, "{bytes} bytes are missing"),
            Kind::Repeated(bytes) => write!(f, "the {bytes} bytes before it are repeated"),
            Kind::Wrong => f.write_str("the received bytes were never sent"),
        }
    }
}

impl Content {
    pub(super) fn new(mut random: RandomStream) -> Self {
        Self { key: random.bits() }
    }

    /// Fills `buffer` with the stream's bytes from `offset` on.
    pub(super) fn fill(self, offset: u64, buffer: &mut [u8]) {
        let (mut index, skip) = (offset / 8, (offset % 8) as usize);
        let head = (8 - skip).min(buffer.len());
        let (first, rest) = buffer.split_at_mut(if skip == 0 { 0 } else { head });
        if !first.is_empty() {
            first.copy_from_slice(&self.word(index).to_le_bytes()[skip..skip + head]);
            index += 1;
        }
        for bytes in rest.chunks_mut(8) {
            bytes.copy_from_slice(&self.word(index).to_le_bytes()[..bytes.len()]);
            index += 1;
        }
    }

    /// Checks that `data` are the stream's bytes at `offset`; `scratch` is a
    /// buffer for the comparison.
    pub(super) fn check(self, offset: u64, data: &[u8], scratch: &mut [u8]) -> Result<(), Damage> {
        let mut at = offset;
        for part in data.chunks(scratch.len()) {
            let expected = &mut scratch[..part.len()];
            self.fill(at, expected);
            if *expected != *part {
                let same = expected.iter().zip(part).take_while(|(a, b)| a == b).count();
                let bad = at + same as u64;
                let kind = self.search(bad, &data[(bad - offset) as usize..]);
                return Err(Damage { offset: bad, kind });
            }
            at += part.len() as u64;
        }
        Ok(())
    }

    /// Checks that a stream of `sent` bytes did not end early or late, after `received` bytes.
    pub(super) fn check_end(received: u64, sent: u64) -> Result<(), Damage> {
        if received == sent {
            return Ok(());
        }
        let lost = Kind::Missing(sent.saturating_sub(received));
        let kind = if received < sent { lost } else { Kind::Wrong };
        Err(Damage { offset: received.min(sent), kind })
    }

    /// Classifies an error by the correct position of the bytes received at `offset`.
    fn search(self, offset: u64, data: &[u8]) -> Kind {
        let Some(needle) = data.get(..MIN_MATCH_BYTES) else { return Kind::Wrong };
        let from = offset.saturating_sub(SEARCH_RANGE_BYTES);
        let mut around = vec![0; (offset - from + SEARCH_RANGE_BYTES) as usize];
        self.fill(from, &mut around);
        let found = around.windows(MIN_MATCH_BYTES).position(|window| window == needle);
        match found.map(|at| from + at as u64) {
            Some(place) if place > offset => Kind::Missing(place - offset),
            Some(place) => Kind::Repeated(offset - place),
            None => Kind::Wrong,
        }
    }

    /// `SplitMix64` (Steele, Lea and Flood, OOPSLA 2014) at position `index`.
    fn word(self, index: u64) -> u64 {
        let mut z = self.key.wrapping_add(index.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn content() -> Content {
        Content::new(RandomStream::new(7, "flow/test/content"))
    }

    fn part(offset: u64, length: usize) -> Vec<u8> {
        let mut bytes = vec![0; length];
        content().fill(offset, &mut bytes);
        bytes
    }

    proptest! {
        #[test]
        fn parts_equal_slices_of_whole_stream(offset in 0u64..5000, length in 0usize..100) {
            let whole = part(0, 6000);
            let start = offset as usize;
            prop_assert_eq!(part(offset, length), &whole[start..start + length]);
            prop_assert_eq!(content().check(offset, &part(offset, length), &mut [0; 33]), Ok(()));
        }
    }

    #[test]
    fn classifies_stream_damage() {
        let check =
            |data: &[u8]| content().check(1000, data, &mut [0; 64]).map_err(|d| d.to_string());
        let join = |a: Vec<u8>, b: Vec<u8>| [a, b].concat();
        let at = "the stream is damaged at byte 1100: ";
        let lost = join(part(1000, 100), part(1350, 100));
        assert_eq!(check(&lost), Err(format!("{at}250 bytes are missing")));
        let again = join(part(1000, 100), part(1060, 100));
        assert_eq!(check(&again), Err(format!("{at}the 40 bytes before it are repeated")));
        let mut wrong = part(1000, 200);
        wrong[100] ^= 1;
        assert_eq!(check(&wrong), Err(format!("{at}the received bytes were never sent")));
        assert_eq!(Content::check_end(5, 5), Ok(()));
        let end = Content::check_end(5, 9).unwrap_err().to_string();
        assert_eq!(end, "the stream is damaged at byte 5: 4 bytes are missing");
    }
}
