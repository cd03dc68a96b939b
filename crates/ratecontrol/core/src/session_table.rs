//! A link's table of sessions, for protocols with per-session state.
//!
//! Entries are dense in one vector; a hash index with linear probing (Knuth, The Art of Computer
//! Programming 3, 6.4, algorithms L and R) finds them. A custom table is used because its memory
//! must be measured to the byte, and because most links have few sessions: tables of up to
//! [`SCANNED`] of them have no index.

#[cfg(test)]
mod tests;

/// Maximum number of sessions for which a linear search replaces the hash index.
const SCANNED: usize = 8;

/// The sessions of a link, each with the link's state for it.
#[derive(Clone, Debug)]
pub(crate) struct SessionTable<V> {
    entries: Vec<(u32, V)>,
    /// Hash index with open addressing: positions in `entries` plus 1; 0 is a free slot. Its size
    /// is 0, or a power of two of at least twice the number of entries.
    index: Vec<u32>,
}

impl<V> Default for SessionTable<V> {
    fn default() -> Self {
        Self { entries: Vec::new(), index: Vec::new() }
    }
}

impl<V> SessionTable<V> {
    /// Number of sessions.
    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    /// Allocated memory in bytes.
    pub(crate) fn bytes(&self) -> usize {
        self.entries.capacity() * size_of::<(u32, V)>() + self.index.capacity() * 4
    }

    /// All entries, in an order that depends only on earlier insertions and removals.
    pub(crate) fn iter(&self) -> impl ExactSizeIterator<Item = (u32, &V)> {
        self.entries.iter().map(|(session, value)| (*session, value))
    }

    /// State of a session.
    pub(crate) fn get(&self, session: u32) -> Option<&V> {
        let place = self.place(session)?;
        Some(&self.entries[place].1)
    }

    /// Mutable state of a session.
    pub(crate) fn get_mut(&mut self, session: u32) -> Option<&mut V> {
        let place = self.place(session)?;
        Some(&mut self.entries[place].1)
    }

    /// Adds a session, or replaces its state; returns the previous one.
    pub(crate) fn insert(&mut self, session: u32, value: V) -> Option<V> {
        if let Some(known) = self.get_mut(session) {
            return Some(std::mem::replace(known, value));
        }
        self.entries.push((session, value));
        let len = self.entries.len();
        if len > SCANNED || !self.index.is_empty() {
            if self.index.len() < 2 * len {
                self.rebuild(4 * len);
            } else {
                self.enter(session, len as u32);
            }
        }
        None
    }

    pub(crate) fn remove(&mut self, session: u32) -> Option<V> {
        if self.index.is_empty() {
            let place = self.place(session)?;
            let (_, value) = self.entries.swap_remove(place);
            self.shrink();
            return Some(value);
        }
        let slot = self.slot(session)?;
        let place = self.index[slot] as usize - 1;
        self.vacate(slot);
        let last = self.entries.len() - 1;
        if place != last {
            let moved = self.entries[last].0;
            let slot = self.slot(moved).expect("every entry is in the index");
            self.index[slot] = place as u32 + 1;
        }
        let (_, value) = self.entries.swap_remove(place);
        self.shrink();
        Some(value)
    }

    fn place(&self, session: u32) -> Option<usize> {
        if self.index.is_empty() {
            return self.entries.iter().position(|(known, _)| *known == session);
        }
        self.slot(session).map(|slot| self.index[slot] as usize - 1)
    }

    /// First slot of a session's search: the upper bits of a multiplicative hash.
    fn home(&self, session: u32) -> usize {
        let bits = self.index.len().trailing_zeros();
        (session.wrapping_mul(0x9e37_79b1) >> (u32::BITS - bits)) as usize
    }

    fn slot(&self, session: u32) -> Option<usize> {
        let mask = self.index.len() - 1;
        let mut slot = self.home(session);
        loop {
            match self.index[slot] {
                0 => return None,
                place if self.entries[place as usize - 1].0 == session => return Some(slot),
                _ => slot = (slot + 1) & mask,
            }
        }
    }

    fn enter(&mut self, session: u32, place: u32) {
        let mask = self.index.len() - 1;
        let mut slot = self.home(session);
        while self.index[slot] != 0 {
            slot = (slot + 1) & mask;
        }
        self.index[slot] = place;
    }

    /// Frees a slot, and moves entries that a search would no longer find after it.
    fn vacate(&mut self, mut free: usize) {
        let mask = self.index.len() - 1;
        let mut slot = free;
        loop {
            slot = (slot + 1) & mask;
            let place = self.index[slot];
            if place == 0 {
                break;
            }
            let home = self.home(self.entries[place as usize - 1].0);
            if (slot.wrapping_sub(home) & mask) >= (slot.wrapping_sub(free) & mask) {
                self.index[free] = place;
                free = slot;
            }
        }
        self.index[free] = 0;
    }

    fn rebuild(&mut self, slots: usize) {
        self.index = vec![0; slots.next_power_of_two()];
        for place in 0..self.entries.len() {
            self.enter(self.entries[place].0, place as u32 + 1);
        }
    }

    /// Shrinks the memory once three quarters of it are unused.
    fn shrink(&mut self) {
        let len = self.entries.len();
        if self.entries.capacity() > 4 * len.max(1) || len == 0 {
            self.entries.shrink_to(2 * len);
        }
        if len <= SCANNED / 2 {
            self.index = Vec::new();
        } else if self.index.len() > 16 * len {
            self.rebuild(4 * len);
        }
    }
}
