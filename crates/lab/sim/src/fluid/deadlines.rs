//! Movable deadlines, one per numbered object, in an indexed 4-ary heap.

use base::Time;

const ARITY: usize = 4;

const ABSENT: u32 = u32::MAX;

/// A min-heap by deadline, then by number.
#[derive(Debug, Default)]
pub(super) struct Deadlines {
    heap: Vec<(Time, u32)>,
    /// Index in the heap, by number.
    places: Vec<u32>,
}

impl Deadlines {
    /// Sets, moves or (with `None`) clears the deadline of `number`.
    pub(super) fn set(&mut self, number: u32, at: Option<Time>) {
        if self.places.len() <= number as usize {
            self.places.resize(number as usize + 1, ABSENT);
        }
        let place = self.places[number as usize];
        match (at, place) {
            (None, ABSENT) => {}
            (None, place) => self.remove(place as usize),
            (Some(at), ABSENT) => {
                self.heap.push((at, number));
                self.rise(self.heap.len() - 1);
            }
            (Some(at), place) => {
                let place = place as usize;
                let before = std::mem::replace(&mut self.heap[place], (at, number));
                if (at, number) < before {
                    self.rise(place);
                } else {
                    self.sink(place);
                }
            }
        }
    }

    pub(super) fn next_wake(&self) -> Option<Time> {
        self.heap.first().map(|(at, _)| *at)
    }

    /// Removes and returns the earliest deadline's number, if it is due.
    pub(super) fn pop_until(&mut self, until: Time) -> Option<u32> {
        let (at, number) = *self.heap.first()?;
        if at > until {
            return None;
        }
        self.remove(0);
        Some(number)
    }

    /// Bytes of memory in use.
    pub(super) fn memory(&self) -> u64 {
        (self.heap.capacity() * size_of::<(Time, u32)>() + self.places.capacity() * 4) as u64
    }

    fn remove(&mut self, place: usize) {
        let (_, number) = self.heap.swap_remove(place);
        self.places[number as usize] = ABSENT;
        if place < self.heap.len() {
            let settled = self.rise(place);
            self.sink(settled);
        }
    }

    fn rise(&mut self, mut place: usize) -> usize {
        let entry = self.heap[place];
        while place > 0 {
            let parent = (place - 1) / ARITY;
            if self.heap[parent] <= entry {
                break;
            }
            self.put(place, self.heap[parent]);
            place = parent;
        }
        self.put(place, entry);
        place
    }

    fn sink(&mut self, mut place: usize) {
        let entry = self.heap[place];
        loop {
            let first = place * ARITY + 1;
            let children = first..self.heap.len().min(first + ARITY);
            let Some(least) = children.min_by_key(|child| self.heap[*child]) else { break };
            if entry <= self.heap[least] {
                break;
            }
            self.put(place, self.heap[least]);
            place = least;
        }
        self.put(place, entry);
    }

    fn put(&mut self, place: usize, entry: (Time, u32)) {
        self.heap[place] = entry;
        self.places[entry.1 as usize] = place as u32;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::RandomStream;
    use std::collections::BTreeMap;

    #[test]
    fn follows_a_sorted_map() {
        let mut random = RandomStream::new(3, "deadlines");
        let mut heap = Deadlines::default();
        let mut map = BTreeMap::new();
        for _ in 0..20_000 {
            let number = random.below(200) as u32;
            match random.below(4) {
                0 => {
                    heap.set(number, None);
                    map.remove(&number);
                }
                1 => {
                    let until = Time::from_nanos(random.below(1000));
                    let first = map.iter().map(|(n, at)| (*at, *n)).min();
                    let expected = first.filter(|(at, _)| *at <= until).map(|(_, n)| n);
                    assert_eq!(heap.next_wake(), first.map(|(at, _)| at));
                    assert_eq!(heap.pop_until(until), expected);
                    if let Some(number) = expected {
                        map.remove(&number);
                    }
                }
                _ => {
                    let at = Time::from_nanos(random.below(1000));
                    heap.set(number, Some(at));
                    map.insert(number, at);
                }
            }
        }
    }
}
