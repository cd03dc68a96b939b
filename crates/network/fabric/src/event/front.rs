//! The events due first, sorted.

use std::mem::size_of;

/// An event and its time in nanoseconds.
#[derive(Clone, Copy, Debug)]
pub(super) struct Entry<T> {
    pub(super) at: u64,
    pub(super) event: T,
}

/// Entries in order of time; those before `head` have been removed.
#[derive(Debug)]
pub(super) struct Front<T> {
    entries: Vec<Entry<T>>,
    head: usize,
}

impl<T> Default for Front<T> {
    fn default() -> Self {
        Self { entries: Vec::new(), head: 0 }
    }
}

impl<T: Copy> Front<T> {
    pub(super) fn len(&self) -> usize {
        self.entries.len() - self.head
    }

    pub(super) fn is_empty(&self) -> bool {
        self.head == self.entries.len()
    }

    pub(super) fn memory(&self) -> u64 {
        (self.entries.capacity() * size_of::<Entry<T>>()) as u64
    }

    pub(super) fn iter(&self) -> impl ExactSizeIterator<Item = &T> {
        self.entries[self.head..].iter().map(|entry| &entry.event)
    }

    pub(super) fn first(&self) -> Option<u64> {
        self.entries.get(self.head).map(|entry| entry.at)
    }

    pub(super) fn take(&mut self) -> Option<Entry<T>> {
        let entry = *self.entries.get(self.head)?;
        self.head += 1;
        if self.is_empty() {
            self.entries.clear();
            self.head = 0;
        }
        Some(entry)
    }

    /// Inserts an entry after all entries with the same or an earlier time.
    pub(super) fn insert(&mut self, entry: Entry<T>) {
        // Reuses the space of removed entries before allocating more.
        if self.entries.len() == self.entries.capacity() && self.head > self.entries.len() / 2 {
            self.entries.copy_within(self.head.., 0);
            self.entries.truncate(self.entries.len() - self.head);
            self.head = 0;
        }
        let waiting = &self.entries[self.head..];
        if waiting.last().is_none_or(|last| last.at <= entry.at) {
            self.entries.push(entry);
            return;
        }
        let place = self.head + waiting.partition_point(|other| other.at <= entry.at);
        if self.head > 0 && place - self.head < self.entries.len() - place {
            self.entries.copy_within(self.head..place, self.head - 1);
            self.head -= 1;
            self.entries[place - 1] = entry;
        } else {
            self.entries.insert(place, entry);
        }
    }

    /// Appends entries in any order; `sort_from` must follow.
    pub(super) fn extend(&mut self, entries: &[Entry<T>]) {
        self.entries.extend_from_slice(entries);
    }

    /// Sorts the entries from index `held` on, equal times in the order in
    /// which they were appended.
    pub(super) fn sort_from(&mut self, held: usize) {
        self.entries[self.head + held..].sort_by_key(|entry| entry.at);
    }

    /// The time of the middle entry; 0 if there is none.
    pub(super) fn middle(&self) -> u64 {
        self.entries.get(self.head + self.len() / 2).map_or(0, |entry| entry.at)
    }

    /// Removes all entries later than `last`, in order.
    pub(super) fn split(&mut self, last: u64, give: impl FnMut(Entry<T>)) {
        let waiting = &self.entries[self.head..];
        let place = self.head + waiting.partition_point(|entry| entry.at <= last);
        self.entries[place..].iter().copied().for_each(give);
        self.entries.truncate(place);
        if self.is_empty() {
            self.entries.clear();
            self.head = 0;
        }
    }
}
