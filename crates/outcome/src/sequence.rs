//! Which datagrams of a flow have arrived: loss, reordering, duplicates.

/// Datagrams behind the newest one of which arrivals are remembered one by one.
const WINDOW: u64 = 1 << 16;
const WORDS: usize = (WINDOW / 64) as usize;

/// What an arrival was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arrived {
    /// Newer than all before.
    InOrder,
    /// Overtaken by one sent later (a reordered packet in the sense of RFC 4737).
    Late,
    /// It had arrived before.
    Again,
}

/// The arrivals of one flow. Memory is bounded: of datagrams more than 65,536 behind the newest
/// one it is not known whether they had arrived before, and they count as late.
#[derive(Debug)]
pub struct Sequence {
    /// One more than the newest sequence number.
    next: u64,
    /// Arrivals that were not duplicates.
    distinct: u64,
    late: u64,
    again: u64,
    seen: Vec<u64>,
}

impl Default for Sequence {
    fn default() -> Self {
        Self::new()
    }
}

impl Sequence {
    /// No arrivals yet.
    pub fn new() -> Self {
        Self { next: 0, distinct: 0, late: 0, again: 0, seen: vec![0; WORDS] }
    }

    /// Takes note of an arrival.
    pub fn arrive(&mut self, sequence: u64) -> Arrived {
        if sequence >= self.next {
            self.forget_up_to(sequence);
            self.next = sequence + 1;
            self.mark(sequence);
            self.distinct += 1;
            return Arrived::InOrder;
        }
        if self.next - sequence <= WINDOW {
            if self.is_marked(sequence) {
                self.again += 1;
                return Arrived::Again;
            }
            self.mark(sequence);
        }
        self.distinct += 1;
        self.late += 1;
        Arrived::Late
    }

    /// Frees the places in the window for all from `next` to `sequence`.
    fn forget_up_to(&mut self, sequence: u64) {
        if sequence - self.next >= WINDOW {
            self.seen.fill(0);
            return;
        }
        for new in self.next..=sequence {
            self.seen[word(new)] &= !bit(new);
        }
    }

    fn mark(&mut self, sequence: u64) {
        self.seen[word(sequence)] |= bit(sequence);
    }

    fn is_marked(&self, sequence: u64) -> bool {
        self.seen[word(sequence)] & bit(sequence) != 0
    }

    /// One more than the newest sequence number that arrived.
    pub const fn next(&self) -> u64 {
        self.next
    }

    /// Arrivals without duplicates.
    pub const fn distinct(&self) -> u64 {
        self.distinct
    }

    /// Those that have not arrived although a later one has.
    pub const fn missing(&self) -> u64 {
        self.next.saturating_sub(self.distinct)
    }

    /// Arrivals overtaken by a later one.
    pub const fn late(&self) -> u64 {
        self.late
    }

    /// Arrivals of what had arrived before.
    pub const fn again(&self) -> u64 {
        self.again
    }
}

const fn word(sequence: u64) -> usize {
    (sequence % WINDOW / 64) as usize
}

const fn bit(sequence: u64) -> u64 {
    1 << (sequence % 64)
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_short_story() {
        use Arrived::{Again, InOrder, Late};
        let mut sequence = Sequence::new();
        let told: Vec<Arrived> = [0, 1, 3, 2, 3, 5].map(|n| sequence.arrive(n)).to_vec();
        assert_eq!(told, [InOrder, InOrder, InOrder, Late, Again, InOrder]);
        assert_eq!((sequence.missing(), sequence.late(), sequence.again()), (1, 1, 1));
    }

    #[test]
    fn a_jump_beyond_the_window_forgets_what_was_before() {
        let mut sequence = Sequence::new();
        sequence.arrive(5);
        sequence.arrive(5 + WINDOW);
        assert_eq!(sequence.arrive(6), Arrived::Late);
        assert_eq!(sequence.missing(), WINDOW + 3);
        assert_eq!(sequence.arrive(5 + WINDOW), Arrived::Again);
    }

    proptest! {
        #[test]
        fn agrees_with_a_set(arrivals in prop::collection::vec(0_u64..60_000, 0..300)) {
            let (mut sequence, mut seen) = (Sequence::new(), HashSet::new());
            let (mut again, mut late, mut newest) = (0, 0, None);
            for n in arrivals {
                if !seen.insert(n) {
                    again += 1;
                } else if newest.is_some_and(|newest| n < newest) {
                    late += 1;
                }
                newest = newest.max(Some(n));
                sequence.arrive(n);
            }
            prop_assert_eq!((sequence.again(), sequence.late()), (again, late));
            prop_assert_eq!(sequence.distinct(), seen.len() as u64);
            let missing = newest.map_or(0, |newest| newest + 1 - seen.len() as u64);
            prop_assert_eq!(sequence.missing(), missing);
        }
    }
}
