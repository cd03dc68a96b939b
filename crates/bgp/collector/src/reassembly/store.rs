//! Bytes received out of order.

use std::collections::VecDeque;

use base::Time;

/// Memory of a chunk in addition to its data in bytes, so that limits include small chunks.
const CHUNK_OVERHEAD: usize = 64;

#[derive(Debug)]
pub(super) struct Chunk {
    pub(super) at: u64,
    pub(super) time: Time,
    /// At least one byte.
    pub(super) bytes: Box<[u8]>,
    pub(super) rested: bool,
}

impl Chunk {
    pub(super) const fn end(&self) -> u64 {
        self.at + self.bytes.len() as u64
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Inserted {
    pub(super) duplicate: u64,
    pub(super) conflicting: u64,
}

#[derive(Debug, Default)]
pub(super) struct Store {
    pieces: VecDeque<Chunk>,
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

    pub(super) const fn memory(&self) -> usize {
        self.memory
    }

    pub(super) fn first(&self) -> Option<u64> {
        self.pieces.front().map(|piece| piece.at)
    }

    /// Capture time of the first chunk.
    pub(super) fn first_time(&self) -> Option<Time> {
        self.pieces.front().map(|piece| piece.time)
    }

    /// Removes the chunk that starts at or before `next`.
    pub(super) fn take(&mut self, next: u64) -> Option<Chunk> {
        let piece = self.pieces.front().filter(|piece| piece.at <= next)?;
        self.memory -= piece.bytes.len() + CHUNK_OVERHEAD;
        self.pieces.pop_front()
    }

    /// Removes the chunks that end at or before `next`.
    pub(super) fn forget(&mut self, next: u64) {
        while self.pieces.front().is_some_and(|piece| piece.end() <= next) {
            let _ = self.take(next);
        }
    }

    /// Stores the new part of `bytes`; the first copy of a byte wins.
    pub(super) fn insert(
        &mut self,
        mut at: u64,
        time: Time,
        mut bytes: &[u8],
        mut rested: bool,
    ) -> Inserted {
        let mut found = Inserted::default();
        let mut index = self.pieces.partition_point(|piece| piece.end() <= at);
        while !bytes.is_empty() {
            let Some(piece) = self.pieces.get(index) else {
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
            let stored = &piece.bytes[from..from + both];
            let differ = known.iter().zip(stored).filter(|(a, b)| a != b).count();
            found.conflicting += differ as u64;
            (at, bytes, rested) = (at + both as u64, rest, false);
            index += 1;
        }
        found
    }

    fn put(&mut self, index: usize, at: u64, time: Time, bytes: &[u8], rested: bool) {
        self.memory += bytes.len() + CHUNK_OVERHEAD;
        self.pieces.insert(index, Chunk { at, time, bytes: bytes.into(), rested });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_segment_wins_overlap() {
        let mut store = Store::new();
        let time = Time::from_nanos(1);
        assert_eq!(store.insert(10, time, b"cd", false), Inserted::default());
        assert_eq!(store.insert(14, time, b"gh", false), Inserted::default());
        let found = store.insert(8, time, b"abXdefgYi", false);
        assert_eq!(found, Inserted { duplicate: 4, conflicting: 2 });
        let mut text = Vec::new();
        while let Some(piece) = store.take(u64::MAX) {
            text.extend_from_slice(&piece.bytes);
        }
        assert_eq!((store.memory(), text), (0, b"abcdefghi".to_vec()));
    }
}
