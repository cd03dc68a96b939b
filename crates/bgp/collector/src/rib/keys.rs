//! Interned keys of fixed length: dense numbers for prefixes.

use super::column::Column;
use super::index::Index;

/// Distinct keys of `N` octets: length in bits, address, and path identifier if the table has them.
/// Freed numbers are reused.
#[derive(Debug)]
pub(super) struct Keys<const N: usize> {
    all: Column<[u8; N]>,
    /// Number of routes of each key over all peerings; at the maximum, the key is never freed.
    uses: Column<u16>,
    /// The first free number. Each free key holds the next one.
    free: u32,
    live: usize,
    index: Index,
    epoch: u32,
}

/// Numbers reserved for the new prefixes of one peering, so that each table transfer
/// fills separate pages.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Block {
    next: u32,
    end: u32,
    size: u32,
    epoch: u32,
}

const NONE: u32 = u32::MAX;
/// Length in bits that marks a free number.
const UNUSED: u8 = 0xff;

impl<const N: usize> Keys<N> {
    pub(super) fn new() -> Self {
        let index = Index::new();
        Self { all: Column::new(), uses: Column::new(), free: NONE, live: 0, index, epoch: 0 }
    }

    /// The number of `key`; `hint` is tried first.
    #[inline]
    pub(super) fn find(&self, key: &[u8; N], hint: u32) -> Option<u32> {
        if self.all.get(hint as usize) == Some(key) {
            return Some(hint);
        }
        self.index.find(self.index.hash(key), |number| self.all[number as usize] == *key)
    }

    /// The number of `key`; a new one from `block` if it has none. `hint` is tried first.
    #[inline]
    pub(super) fn intern(&mut self, key: &[u8; N], hint: u32, block: &mut Block) -> u32 {
        match self.find(key, hint) {
            Some(number) => number,
            None => self.add(key, block),
        }
    }

    fn add(&mut self, key: &[u8; N], block: &mut Block) -> u32 {
        if block.epoch != self.epoch {
            *block = Block { epoch: self.epoch, ..Block::default() };
        }
        if block.next == block.end && self.free == NONE {
            self.reserve(block);
        }
        let number = if block.next < block.end { block.next } else { self.free };
        if !self.index.has_room_for(number) {
            self.rebuild();
        }
        let place = &mut self.all[number as usize];
        if block.next < block.end {
            block.next += 1;
        } else {
            self.free = u32::from_le_bytes([place[1], place[2], place[3], place[4]]);
        }
        *place = *key;
        self.index.insert(self.index.hash(key), number);
        self.live += 1;
        number
    }

    /// Reserves consecutive numbers. Each block of a peering is twice as large as the previous one,
    /// up to 256.
    fn reserve(&mut self, block: &mut Block) {
        block.size = (block.size * 2).clamp(4, 256);
        block.next = self.all.len() as u32;
        block.end = block.next + block.size;
        for _ in 0..block.size {
            let mut unused = [0; N];
            unused[0] = UNUSED;
            self.all.push(unused);
            self.uses.push(0);
        }
    }

    /// Frees the remaining numbers of a block.
    pub(super) fn give_back(&mut self, block: &mut Block) {
        let Block { next, end, epoch, .. } = std::mem::take(block);
        if epoch == self.epoch {
            (next..end).for_each(|number| self.set_free(number));
        }
    }

    fn set_free(&mut self, number: u32) {
        let place = &mut self.all[number as usize];
        *place = [0; N];
        place[0] = UNUSED;
        place[1..5].copy_from_slice(&self.free.to_le_bytes());
        self.free = number;
    }

    fn rebuild(&mut self) {
        let limit = self.all.len() as u32 + 1;
        let used = self.all.iter().enumerate().filter(|(_, key)| key[0] != UNUSED);
        self.index.rebuild(limit, used.map(|(number, key)| (&key[..], number as u32)));
    }

    #[inline]
    pub(super) fn hold(&mut self, number: u32) {
        let uses = &mut self.uses[number as usize];
        *uses = uses.saturating_add(1);
    }

    /// Removes one route from key `number`; returns whether it was the last.
    #[inline]
    pub(super) fn release(&mut self, number: u32) -> bool {
        let uses = &mut self.uses[number as usize];
        if *uses != u16::MAX {
            *uses -= 1;
        }
        *uses == 0
    }

    /// Frees `number` if no route has it.
    pub(super) fn remove_unused(&mut self, number: u32) {
        let at = number as usize;
        // If all keys were removed, the number no longer exists.
        let Some(&key) = self.all.get(at) else { return };
        if self.uses[at] > 0 || key[0] == UNUSED {
            return;
        }
        self.index.remove(self.index.hash(&key), number);
        self.set_free(number);
        self.live -= 1;
        if self.live == 0 {
            *self = Self { epoch: self.epoch.wrapping_add(1), ..Self::new() };
        } else if self.index.is_sparse() {
            self.rebuild();
        }
    }

    /// The key of `number`; `None` if it is free.
    pub(super) fn get(&self, number: u32) -> Option<&[u8; N]> {
        self.all.get(number as usize).filter(|key| key[0] != UNUSED)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (u32, &[u8; N])> {
        let all = self.all.iter().enumerate();
        all.filter(|(_, key)| key[0] != UNUSED).map(|(number, key)| (number as u32, key))
    }

    pub(super) fn end(&self) -> u32 {
        self.all.len() as u32
    }

    pub(super) const fn len(&self) -> usize {
        self.live
    }

    pub(super) fn memory(&self) -> usize {
        self.all.memory() + self.uses.memory() + self.index.memory()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    fn key(number: u16) -> [u8; 5] {
        let [a, b] = number.to_be_bytes();
        [16, a, b, 0, 0]
    }

    proptest! {
        #[test]
        fn agree_with_a_map(steps in prop::collection::vec((any::<bool>(), 0_u16..600), 1..3000)) {
            let mut keys = Keys::<5>::new();
            let mut blocks = [Block::default(); 3];
            let mut model = BTreeMap::<u16, (u32, u16)>::new();
            for (add, value) in steps {
                if add {
                    let block = &mut blocks[usize::from(value) % 3];
                    let number = keys.intern(&key(value), u32::from(value), block);
                    keys.hold(number);
                    let known = model.entry(value).or_insert((number, 0));
                    prop_assert_eq!(known.0, number);
                    known.1 += 1;
                } else if let Some((number, uses)) = model.get_mut(&value) {
                    *uses -= 1;
                    prop_assert_eq!(keys.release(*number), *uses == 0);
                    if *uses == 0 {
                        keys.remove_unused(*number);
                        if value % 7 == 0 {
                            keys.give_back(&mut blocks[usize::from(value) % 3]);
                        }
                        model.remove(&value);
                    }
                }
                prop_assert_eq!(keys.len(), model.len());
            }
            for value in 0..600 {
                let found = keys.find(&key(value), 0);
                prop_assert_eq!(found, model.get(&value).map(|known| known.0));
            }
            prop_assert_eq!(keys.iter().count(), model.len());
        }
    }

    /// IPv6 prefixes that cancel a multiplicative hash of words with a public constant.
    fn colliding_prefix(number: u64) -> [u8; 17] {
        const CONSTANT: u64 = 0x9e37_79b9_7f4a_7c15;
        let mix = |value: u64| {
            let product = u128::from(value ^ CONSTANT) * 0xd6e8_feb8_6659_fd93;
            (product >> 64) as u64 ^ product as u64
        };
        let first = number << 8 | 128;
        let second = mix(first) ^ CONSTANT;
        let mut key = [0; 17];
        key[..8].copy_from_slice(&first.to_le_bytes());
        key[8..16].copy_from_slice(&second.to_le_bytes());
        key
    }

    #[test]
    fn limits_probes_for_colliding_prefixes() {
        for count in [4_000, 8_000, 16_000] {
            let (mut keys, mut block) = (Keys::<17>::new(), Block::default());
            for number in 0..count {
                let number = keys.intern(&colliding_prefix(number), u32::MAX, &mut block);
                keys.hold(number);
            }
            let probes = keys.index.probes.take();
            assert!(probes < 24 * count, "{probes} probes for {count} prefixes");
        }
    }
}
