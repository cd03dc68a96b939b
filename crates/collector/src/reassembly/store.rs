//! Bytes that came before their turn.

use std::collections::VecDeque;

use base::Time;

use super::Overlap;

/// What a piece costs beside its bytes, so that many small ones cannot pass the limits.
const PIECE: usize = 64;

/// Consecutive bytes of a stream.
#[derive(Debug)]
pub(super) struct Piece {
    /// Position in the stream.
    pub(super) at: u64,
    /// When they were captured.
    pub(super) time: Time,
    /// At least one.
    pub(super) bytes: Box<[u8]>,
    /// The sender was idle before it.
    pub(super) rested: bool,
}

impl Piece {
    const fn end(&self) -> u64 {
        self.at + self.bytes.len() as u64
    }
}

/// What [`Store::insert`] found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Inserted {
    /// Bytes that were there already.
    pub(super) duplicate: u64,
    /// Those of them that differ from what was there.
    pub(super) conflicting: u64,
}

/// Pieces of one direction, by position, never overlapping.
#[derive(Debug, Default)]
pub(super) struct Store {
    pieces: VecDeque<Piece>,
    memory: usize,
}

impl Store {
    pub(super) const fn new() -> Self {
        Self { pieces: VecDeque::new(), memory: 0 }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.pieces.is_empty()
    }

    pub(super) fn len(&self) -> usize {
        self.pieces.len()
    }

    /// Bytes of memory that the pieces hold.
    pub(super) const fn memory(&self) -> usize {
        self.memory
    }

    /// Where the first piece begins.
    pub(super) fn first(&self) -> Option<u64> {
        self.pieces.front().map(|piece| piece.at)
    }

    /// Takes the piece out that begins at or before `next`.
    pub(super) fn take(&mut self, next: u64) -> Option<Piece> {
        let piece = self.pieces.front().filter(|piece| piece.at <= next)?;
        self.memory -= piece.bytes.len() + PIECE;
        self.pieces.pop_front()
    }

    /// Keeps what is not there yet of `bytes`; `overlap` says who wins where both are.
    pub(super) fn insert(
        &mut self,
        mut at: u64,
        time: Time,
        mut bytes: &[u8],
        overlap: Overlap,
        mut rested: bool,
    ) -> Inserted {
        let mut found = Inserted::default();
        let mut index = self.pieces.partition_point(|piece| piece.end() <= at);
        while !bytes.is_empty() {
            let Some(piece) = self.pieces.get_mut(index) else {
                self.put(index, at, time, bytes, rested);
                break;
            };
            if piece.at > at {
                let room = usize::try_from(piece.at - at).unwrap_or(usize::MAX).min(bytes.len());
                let (fresh, rest) = bytes.split_at(room);
                self.put(index, at, time, fresh, rested);
                rested = false;
                index += 1;
                (at, bytes) = (at + room as u64, rest);
                continue;
            }
            let from = (at - piece.at) as usize;
            let both = (piece.bytes.len() - from).min(bytes.len());
            let (known, rest) = bytes.split_at(both);
            found.duplicate += both as u64;
            let stored = &mut piece.bytes[from..from + both];
            let differ = known.iter().zip(&*stored).filter(|(a, b)| a != b).count();
            found.conflicting += differ as u64;
            if overlap == Overlap::Last {
                stored.copy_from_slice(known);
            }
            (at, bytes, rested) = (at + both as u64, rest, false);
            index += 1;
        }
        found
    }

    fn put(&mut self, index: usize, at: u64, time: Time, bytes: &[u8], rested: bool) {
        self.memory += bytes.len() + PIECE;
        self.pieces.insert(index, Piece { at, time, bytes: bytes.into(), rested });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn overlapping(overlap: Overlap) -> (Inserted, Vec<u8>) {
        let mut store = Store::new();
        let time = Time::from_nanos(1);
        assert_eq!(store.insert(10, time, b"cd", overlap, false), Inserted::default());
        assert_eq!(store.insert(14, time, b"gh", overlap, false), Inserted::default());
        let found = store.insert(8, time, b"abXdefgYi", overlap, false);
        let mut text = Vec::new();
        while let Some(piece) = store.take(u64::MAX) {
            text.extend_from_slice(&piece.bytes);
        }
        assert_eq!(store.memory(), 0);
        (found, text)
    }

    #[test]
    fn the_policy_says_who_wins() {
        let found = Inserted { duplicate: 4, conflicting: 2 };
        assert_eq!(overlapping(Overlap::First), (found, b"abcdefghi".to_vec()));
        assert_eq!(overlapping(Overlap::Last), (found, b"abXdefgYi".to_vec()));
    }
}
