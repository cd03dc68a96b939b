//! Interned byte strings, numbered and reference-counted: attribute sets, and keys
//! of variable length.

use super::column::Column;
use super::index::Index;

/// Distinct byte strings of at most 65,535 octets, stored in chunks. Removed strings are garbage
/// until the emptiest chunk is evacuated, so that memory is proportional to the strings in use.
#[derive(Debug)]
pub(super) struct Interner {
    chunks: Vec<Chunk>,
    open: usize,
    spare: Vec<u32>,
    entries: Column<Entry>,
    /// The first free entry. Each free entry holds the next one in `place`.
    free: u32,
    held: usize,
    index: Index,
    live: usize,
    garbage: usize,
}

/// Records: number of the string, length, string; padded to [`GRANULE`].
#[derive(Debug, Default)]
struct Chunk {
    bytes: Vec<u8>,
    live: usize,
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    place: u32,
    uses: u32,
}

const NONE: u32 = u32::MAX;
/// Number of uses that marks a free entry.
const UNUSED: u32 = u32::MAX;
const GRANULE: usize = 2;
const CHUNK: usize = GRANULE << 16;
const HEADER: usize = 6;
/// Maximum amount of garbage without an evacuation, in bytes.
const TOLERATED: usize = 4 * CHUNK;

const fn size(length: usize) -> usize {
    (HEADER + length).next_multiple_of(GRANULE)
}

impl Interner {
    pub(super) fn new() -> Self {
        Self {
            chunks: Vec::new(),
            open: 0,
            spare: Vec::new(),
            entries: Column::new(),
            free: NONE,
            held: 0,
            index: Index::new(),
            live: 0,
            garbage: 0,
        }
    }

    fn record(&self, place: u32) -> &[u8] {
        &self.chunks[(place >> 16) as usize].bytes[(place & 0xffff) as usize * GRANULE..]
    }

    /// The string of `number`, which must be in use.
    #[inline]
    pub(super) fn get(&self, number: u32) -> &[u8] {
        let record = self.record(self.entries[number as usize].place);
        let length = usize::from(u16::from_le_bytes([record[4], record[5]]));
        &record[HEADER..HEADER + length]
    }

    pub(super) fn find(&self, bytes: &[u8]) -> Option<u32> {
        self.index.find(self.index.hash(bytes), |number| self.get(number) == bytes)
    }

    /// The number of `bytes`, and whether it is new and therefore unused. Octets beyond
    /// 65,535 are truncated.
    pub(super) fn intern(&mut self, bytes: &[u8]) -> (u32, bool) {
        let bytes = &bytes[..bytes.len().min(usize::from(u16::MAX))];
        let hash = self.index.hash(bytes);
        if let Some(number) = self.index.find(hash, |number| self.get(number) == bytes) {
            return (number, false);
        }
        let number = if self.free == NONE { self.entries.len() as u32 } else { self.free };
        if !self.index.has_room_for(number) {
            self.rebuild();
        }
        let place = self.write(number, bytes);
        let entry = Entry { place, uses: 0 };
        if number == self.free {
            self.free = self.entries[number as usize].place;
            self.entries[number as usize] = entry;
        } else {
            self.entries.push(entry);
        }
        self.index.insert(hash, number);
        self.held += 1;
        (number, true)
    }

    fn rebuild(&mut self) {
        let mut index = std::mem::replace(&mut self.index, Index::new());
        let all = 0..self.entries.len() as u32;
        let used = all.filter(|number| self.entries[*number as usize].uses != UNUSED);
        index.rebuild(self.entries.len() as u32 + 1, used.map(|number| (self.get(number), number)));
        self.index = index;
    }

    fn write(&mut self, number: u32, bytes: &[u8]) -> u32 {
        let size = size(bytes.len());
        if self.chunks.get(self.open).is_none_or(|chunk| chunk.bytes.len() + size > CHUNK) {
            self.open = if let Some(chunk) = self.spare.pop() {
                chunk as usize
            } else {
                self.chunks.push(Chunk::default());
                self.chunks.len() - 1
            };
        }
        let chunk = &mut self.chunks[self.open];
        let at = chunk.bytes.len();
        if at + size > chunk.bytes.capacity() {
            let wanted = (2 * chunk.bytes.capacity()).clamp(at + size, CHUNK.max(at + size));
            chunk.bytes.reserve_exact(wanted - at);
        }
        chunk.bytes.extend_from_slice(&number.to_le_bytes());
        chunk.bytes.extend_from_slice(&(bytes.len() as u16).to_le_bytes());
        chunk.bytes.extend_from_slice(bytes);
        chunk.bytes.resize(at + size, 0);
        chunk.live += size;
        self.live += size;
        (self.open as u32) << 16 | (at / GRANULE) as u32
    }

    #[inline]
    pub(super) fn hold(&mut self, number: u32) {
        self.entries[number as usize].uses += 1;
    }

    /// Removes one use of `number`; returns whether it was the last. The string stays until
    /// [`Interner::remove_unused`].
    #[inline]
    pub(super) fn release(&mut self, number: u32) -> bool {
        let uses = &mut self.entries[number as usize].uses;
        *uses -= 1;
        *uses == 0
    }

    /// Frees `number` if it is unused.
    pub(super) fn remove_unused(&mut self, number: u32) {
        // The number may have been removed already, with all others.
        let Some(&Entry { place, uses: 0 }) = self.entries.get(number as usize) else { return };
        let bytes = self.get(number);
        let (hash, size) = (self.index.hash(bytes), size(bytes.len()));
        self.index.remove(hash, number);
        self.entries[number as usize] = Entry { place: self.free, uses: UNUSED };
        self.free = number;
        self.held -= 1;
        if self.held == 0 {
            *self = Self::new();
            return;
        }
        self.live -= size;
        self.garbage += size;
        self.chunks[(place >> 16) as usize].live -= size;
        while self.garbage > TOLERATED.max(self.live / 3) {
            self.evacuate();
        }
        if self.index.is_sparse() {
            self.rebuild();
        }
    }

    fn evacuate(&mut self) {
        let full = self
            .chunks
            .iter()
            .enumerate()
            .filter(|(at, chunk)| *at != self.open && !chunk.bytes.is_empty());
        let Some((victim, _)) = full.min_by_key(|(_, chunk)| chunk.live) else {
            self.garbage = 0;
            return;
        };
        let bytes = std::mem::take(&mut self.chunks[victim].bytes);
        let live = std::mem::take(&mut self.chunks[victim].live);
        self.live -= live;
        self.garbage = self.garbage.saturating_sub(bytes.len() - live);
        let mut at = 0;
        while let Some(header) = bytes[at..].first_chunk::<HEADER>() {
            let number = u32::from_le_bytes([header[0], header[1], header[2], header[3]]);
            let length = usize::from(u16::from_le_bytes([header[4], header[5]]));
            let place = (victim as u32) << 16 | (at / GRANULE) as u32;
            let entry = self.entries[number as usize];
            if entry.uses != UNUSED && entry.place == place {
                let start = at + HEADER;
                let moved = self.write(number, &bytes[start..start + length]);
                self.entries[number as usize].place = moved;
            }
            at += size(length);
        }
        self.spare.push(victim as u32);
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (u32, &[u8])> {
        let all = 0..self.entries.len() as u32;
        let used = all.filter(|number| self.entries[*number as usize].uses != UNUSED);
        used.map(|number| (number, self.get(number)))
    }

    pub(super) fn holds(&self, number: u32) -> bool {
        self.entries.get(number as usize).is_some_and(|entry| entry.uses != UNUSED)
    }

    pub(super) fn end(&self) -> u32 {
        self.entries.len() as u32
    }

    pub(super) const fn len(&self) -> usize {
        self.held
    }

    pub(super) fn memory(&self) -> usize {
        let chunks: usize = self.chunks.iter().map(|chunk| chunk.bytes.capacity()).sum();
        let tables = self.chunks.capacity() * size_of::<Chunk>()
            + self.spare.capacity() * size_of::<u32>()
            + self.entries.memory();
        chunks + tables + self.index.memory()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    fn text(number: u16) -> Vec<u8> {
        vec![number as u8; usize::from(number) * 37 % 3000]
            .into_iter()
            .chain(number.to_be_bytes())
            .collect()
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(24))]
        #[test]
        fn agrees_with_a_map(steps in prop::collection::vec((0_u8..5, 0_u16..900), 1..6000)) {
            let mut interner = Interner::new();
            let mut model = BTreeMap::<u16, (u32, u32)>::new();
            for (kind, value) in steps {
                if kind < 3 {
                    let (number, new) = interner.intern(&text(value));
                    interner.hold(number);
                    prop_assert_eq!(new, !model.contains_key(&value));
                    model.entry(value).or_insert((number, 0)).1 += 1;
                } else if let Some((number, uses)) = model.get_mut(&value) {
                    *uses -= 1;
                    prop_assert_eq!(interner.release(*number), *uses == 0);
                    if *uses == 0 {
                        interner.remove_unused(*number);
                        model.remove(&value);
                    }
                }
                prop_assert_eq!(interner.len(), model.len());
            }
            for (value, (number, _)) in &model {
                prop_assert_eq!(interner.find(&text(*value)), Some(*number));
                prop_assert_eq!(interner.get(*number), &text(*value)[..]);
            }
            prop_assert_eq!(interner.iter().count(), model.len());
        }
    }

    /// Attributes with equal `FxHash`: the second half of each block cancels the constant of that
    /// hash, so that the first half does not change the hash.
    fn colliding_attribute(number: u64) -> Vec<u8> {
        const CONSTANT: u64 = 0xa409_3822_299f_31d0;
        let mut bytes = vec![0xc0, 99, 53];
        bytes.resize(16, 0);
        bytes.extend(number.to_le_bytes());
        bytes.extend(CONSTANT.to_le_bytes());
        bytes.resize(56, 1);
        bytes
    }

    #[test]
    fn limits_probes_for_colliding_attributes() {
        use std::hash::{BuildHasher, Hasher};
        let fx_hash = |bytes: &[u8]| {
            let mut hasher = rustc_hash::FxBuildHasher.build_hasher();
            hasher.write(bytes);
            hasher.finish()
        };
        assert_eq!(fx_hash(&colliding_attribute(1)), fx_hash(&colliding_attribute(2)));
        for count in [4_000, 8_000, 16_000] {
            let mut interner = Interner::new();
            let mut probes = 0;
            for number in 0..count {
                let (number, _) = interner.intern(&colliding_attribute(number));
                interner.hold(number);
                // Rebuilding also replaces the counter.
                probes += interner.index.probes.take();
            }
            assert!(probes < 24 * count, "{probes} probes for {count} attributes");
        }
    }

    #[test]
    fn frees_unused_memory() {
        let mut interner = Interner::new();
        let mut numbers = Vec::new();
        let mut highest = 0;
        for round in 0..20_u32 {
            for value in 0..20_000_u32 {
                let (number, _) =
                    interner.intern(&(round * 20_000 + value).to_be_bytes().repeat(12));
                interner.hold(number);
                numbers.push(number);
            }
            // Every seventh string is kept for another round.
            for (at, number) in std::mem::take(&mut numbers).into_iter().enumerate() {
                if at % 7 == 0 && at < 20_000 {
                    numbers.push(number);
                } else if interner.release(number) {
                    interner.remove_unused(number);
                }
            }
            highest = highest.max(interner.memory());
        }
        assert!(highest < 4 << 20, "{highest} bytes for 1.3 MB of strings");
        numbers.sort_unstable();
        for number in numbers {
            if interner.release(number) {
                interner.remove_unused(number);
            }
        }
        assert_eq!((interner.len(), interner.memory()), (0, 0));
    }
}
