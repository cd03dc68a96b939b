//! An open-addressing index from hashes to dense numbers, with four bytes per slot.

use std::hash::{BuildHasher, Hasher, RandomState};

/// Finds numbers by hash. The caller stores the keys of the numbers and compares them.
///
/// A slot holds the number and, in its unused upper bits, bits of the hash (tag), so that nearly
/// every comparison is with the right key.
#[derive(Debug)]
pub(super) struct Index {
    slots: Vec<u32>,
    used: usize,
    /// Number of slots in use, including [`REMOVED`] ones.
    filled: usize,
    bits: u32,
    /// SipHash-1-3 with a random key: the hashed bytes come from BGP speakers, which must not be
    /// able to choose their slots.
    key: RandomState,
    /// Number of inspected slots, for tests.
    #[cfg(test)]
    pub(super) probes: std::cell::Cell<u64>,
}

const FREE: u32 = u32::MAX;
/// A number was removed here; the search continues after it.
const REMOVED: u32 = u32::MAX - 1;
/// Minimum number of slots of a non-empty index.
const MIN_SLOTS: usize = 16;

impl Index {
    pub(super) fn new() -> Self {
        Self {
            slots: Vec::new(),
            used: 0,
            filled: 0,
            bits: 0,
            key: RandomState::new(),
            #[cfg(test)]
            probes: std::cell::Cell::new(0),
        }
    }

    #[inline]
    pub(super) fn hash(&self, bytes: &[u8]) -> u64 {
        let mut hasher = self.key.build_hasher();
        hasher.write(bytes);
        hasher.finish()
    }

    fn home(&self, hash: u64) -> usize {
        (((hash >> 32) * self.slots.len() as u64) >> 32) as usize
    }

    fn slot(&self, hash: u64, number: u32) -> u32 {
        (hash as u32) << self.bits | number
    }

    #[inline]
    pub(super) fn find(&self, hash: u64, mut same: impl FnMut(u32) -> bool) -> Option<u32> {
        if self.slots.is_empty() {
            return None;
        }
        let tag = self.slot(hash, 0);
        let mask = (1 << self.bits) - 1;
        let mut at = self.home(hash);
        loop {
            #[cfg(test)]
            self.probes.set(self.probes.get() + 1);
            let slot = self.slots[at];
            if slot == FREE {
                return None;
            }
            if slot & !mask == tag && slot != REMOVED && same(slot & mask) {
                return Some(slot & mask);
            }
            at += 1;
            if at == self.slots.len() {
                at = 0;
            }
        }
    }

    /// Whether `number` can be inserted without [`Index::rebuild`].
    pub(super) fn has_room_for(&self, number: u32) -> bool {
        // At most 5/6 full: runs stay short, and one slot is always free.
        (self.filled + 1) * 6 <= self.slots.len() * 5 && u64::from(number) + 2 < 1 << self.bits
    }

    /// Inserts `number`, which must be absent and have room.
    pub(super) fn insert(&mut self, hash: u64, number: u32) {
        let slot = self.slot(hash, number);
        let mut at = self.home(hash);
        while self.slots[at] < REMOVED {
            at += 1;
            if at == self.slots.len() {
                at = 0;
            }
        }
        self.filled += usize::from(self.slots[at] == FREE);
        self.used += 1;
        self.slots[at] = slot;
    }

    /// Rebuilds the index with room to grow. `all` has the numbers below `limit` with their keys.
    pub(super) fn rebuild<'a>(&mut self, limit: u32, all: impl Iterator<Item = (&'a [u8], u32)>) {
        let size = (self.used * 5 / 3).max(MIN_SLOTS);
        // Room for twice as many numbers before the tags must shrink.
        self.bits = (34 - limit.leading_zeros()).clamp(8, 31);
        self.slots = Vec::new();
        self.slots.resize(size, FREE);
        (self.used, self.filled) = (0, 0);
        for (key, number) in all {
            self.insert(self.hash(key), number);
        }
    }

    pub(super) fn remove(&mut self, hash: u64, number: u32) {
        let size = self.slots.len();
        let wanted = self.slot(hash, number);
        let mut at = self.home(hash);
        while self.slots[at] != wanted {
            if self.slots[at] == FREE {
                return;
            }
            at = if at + 1 == size { 0 } else { at + 1 };
        }
        self.used -= 1;
        let next = if at + 1 == size { 0 } else { at + 1 };
        if self.slots[next] == FREE {
            self.slots[at] = FREE;
            self.filled -= 1;
        } else {
            self.slots[at] = REMOVED;
        }
    }

    pub(super) fn memory(&self) -> usize {
        self.slots.capacity() * size_of::<u32>()
    }

    /// Whether a rebuild would free memory because few slots are in use.
    pub(super) fn is_sparse(&self) -> bool {
        self.slots.len() > 4096 && self.used * 4 < self.slots.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Hashes with all bits set resemble unused slots.
    #[test]
    fn finds_no_removed_numbers_for_any_hash() {
        let mut index = Index::new();
        index.rebuild(4, std::iter::empty());
        for number in 0..3 {
            index.insert(u64::MAX, number);
        }
        index.remove(u64::MAX, 1);
        let mut seen = Vec::new();
        let found = index.find(u64::MAX, |number| {
            seen.push(number);
            number == 2
        });
        assert_eq!((found, seen), (Some(2), vec![0, 2]));
    }
}
