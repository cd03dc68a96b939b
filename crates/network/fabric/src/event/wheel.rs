//! Later events: buckets of a timing wheel, by digits of the time.

use std::mem::{size_of, take};

use super::front::{Entry, Front};

const BITS: u32 = 7;
const SLOTS: usize = 1 << BITS;
/// Words with one bit per slot.
const WORDS: usize = SLOTS / 64;
/// Digits of a time.
const LEVELS: usize = 64_usize.div_ceil(BITS as usize);
/// Entries of a chunk: enough to prefetch many pending events. Not a power of two, so that the
/// chunks of few pending events do not map to the same cache sets.
const CHUNK: usize = 124;
const NONE: u32 = u32::MAX;

/// Entries in the order of insertion, in linked chunks.
#[derive(Clone, Copy, Debug)]
struct List {
    /// The earliest time and the latest.
    least: u64,
    most: u64,
    len: u32,
    first: u32,
    last: u32,
}

impl Default for List {
    fn default() -> Self {
        Self { least: u64::MAX, most: 0, len: 0, first: NONE, last: NONE }
    }
}

/// A bucket for the times that share all digits above `level` with the horizon and have `slot`
/// there, which is larger than the horizon's.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bucket {
    pub(super) level: u32,
    slot: u32,
}

impl Bucket {
    fn index(self) -> usize {
        self.level as usize * SLOTS + self.slot as usize
    }

    /// Its first time.
    pub(super) fn start(self, horizon: u64) -> u64 {
        let low = self.level * BITS;
        (horizon & !below(low + BITS)) | (u64::from(self.slot) << low)
    }

    /// Its last time.
    pub(super) fn end(self, horizon: u64) -> u64 {
        self.start(horizon) | below(self.level * BITS)
    }
}

/// The `bits` lowest bits.
fn below(bits: u32) -> u64 {
    1_u64.checked_shl(bits).map_or(u64::MAX, |bit| bit - 1)
}

/// The highest digit in which two different times differ.
fn level(one: u64, other: u64) -> u32 {
    ((one ^ other) | 1).ilog2() / BITS
}

/// The last time with the digits of `from`, down to the first digit in which `to` differs.
pub(super) fn horizon_between(from: u64, to: u64) -> u64 {
    from | below(level(from, to) * BITS)
}

/// Entries later than the horizon.
#[derive(Debug)]
pub(super) struct Wheel<T> {
    lists: Vec<List>,
    /// One bit per slot: whether the list has entries.
    occupied: [[u64; WORDS]; LEVELS],
    /// One bit per level: whether any slot is occupied.
    levels: u64,
    /// Chunk `n` has `CHUNK` entries from `n * CHUNK` on.
    entries: Vec<Entry<T>>,
    /// The chunk after each chunk, in its list or among the free ones.
    links: Vec<u32>,
    free: u32,
}

impl<T> Default for Wheel<T> {
    fn default() -> Self {
        Self {
            lists: vec![List::default(); LEVELS * SLOTS],
            occupied: [[0; WORDS]; LEVELS],
            levels: 0,
            entries: Vec::new(),
            links: Vec::new(),
            free: NONE,
        }
    }
}

impl<T: Copy> Wheel<T> {
    /// Adds an entry later than `horizon`.
    pub(super) fn put(&mut self, entry: Entry<T>, horizon: u64) {
        let level = level(entry.at, horizon);
        let slot = (entry.at >> (level * BITS)) as u32 & (SLOTS as u32 - 1);
        let index = Bucket { level, slot }.index();
        let List { len, mut last, .. } = self.lists[index];
        let offset = len as usize % CHUNK;
        if offset == 0 {
            let chunk = self.chunk(entry);
            if len == 0 {
                self.lists[index].first = chunk;
                self.occupied[level as usize][slot as usize / 64] |= 1 << (slot % 64);
                self.levels |= 1 << level;
            } else {
                self.links[last as usize] = chunk;
            }
            self.lists[index].last = chunk;
            last = chunk;
        }
        self.entries[last as usize * CHUNK + offset] = entry;
        let list = &mut self.lists[index];
        list.len = len + 1;
        list.least = list.least.min(entry.at);
        list.most = list.most.max(entry.at);
    }

    /// The earliest time.
    pub(super) fn first(&self) -> Option<u64> {
        self.lowest().map(|bucket| self.lists[bucket.index()].least)
    }

    /// The bucket with the earliest entries.
    pub(super) fn lowest(&self) -> Option<Bucket> {
        if self.levels == 0 {
            return None;
        }
        let level = self.levels.trailing_zeros();
        let words = &self.occupied[level as usize];
        let word = words.iter().position(|word| *word != 0)?;
        Some(Bucket { level, slot: word as u32 * 64 + words[word].trailing_zeros() })
    }

    /// Whether all entries of a bucket have the same time.
    pub(super) fn instant(&self, bucket: Bucket) -> bool {
        let List { least, most, .. } = self.lists[bucket.index()];
        least == most
    }

    pub(super) fn size(&self, bucket: Bucket) -> usize {
        self.lists[bucket.index()].len as usize
    }

    /// Moves a bucket's entries to the front without sorting.
    pub(super) fn empty(&mut self, bucket: Bucket, front: &mut Front<T>) {
        let mut list = self.remove(bucket);
        while let Some((chunk, count)) = self.next_chunk(&mut list) {
            let start = chunk as usize * CHUNK;
            front.extend(&self.entries[start..start + count]);
            self.release(chunk);
        }
    }

    /// Moves a bucket's entries to lower levels, now that the horizon is at its start; those at the
    /// horizon to the front.
    pub(super) fn spread(&mut self, bucket: Bucket, horizon: u64, front: &mut Front<T>) {
        let mut list = self.remove(bucket);
        while let Some((chunk, count)) = self.next_chunk(&mut list) {
            let start = chunk as usize * CHUNK;
            for index in start..start + count {
                let entry = self.entries[index];
                if entry.at > horizon {
                    self.put(entry, horizon);
                } else {
                    front.extend(&[entry]);
                }
            }
            self.release(chunk);
        }
    }

    pub(super) fn memory(&self) -> u64 {
        let lists = self.lists.capacity() * size_of::<List>();
        let entries = self.entries.capacity() * size_of::<Entry<T>>();
        (lists + entries + self.links.capacity() * size_of::<u32>()) as u64
    }

    #[cfg(test)]
    pub(super) fn chunks(&self) -> usize {
        self.links.len()
    }

    fn remove(&mut self, bucket: Bucket) -> List {
        let level = bucket.level as usize;
        self.occupied[level][bucket.slot as usize / 64] &= !(1 << (bucket.slot % 64));
        if self.occupied[level] == [0; WORDS] {
            self.levels &= !(1 << level);
        }
        take(&mut self.lists[bucket.index()])
    }

    /// Removes the first chunk of a list; returns its number and its number of entries.
    fn next_chunk(&self, list: &mut List) -> Option<(u32, usize)> {
        if list.len == 0 {
            return None;
        }
        let chunk = list.first;
        let count = list.len.min(CHUNK as u32);
        list.len -= count;
        list.first = self.links[chunk as usize];
        Some((chunk, count as usize))
    }

    fn release(&mut self, chunk: u32) {
        self.links[chunk as usize] = self.free;
        self.free = chunk;
    }

    /// A free chunk; a new one is filled with `entry`.
    fn chunk(&mut self, entry: Entry<T>) -> u32 {
        let chunk = self.free;
        if chunk != NONE {
            self.free = self.links[chunk as usize];
            return chunk;
        }
        let chunk = self.links.len() as u32;
        self.links.push(NONE);
        self.entries.resize(self.entries.len() + CHUNK, entry);
        chunk
    }
}
