//! Arrivals of a flow's datagrams: loss, reordering, duplicates.

/// Arrivals of datagrams up to this far behind the newest one are recorded one by one.
const WINDOW: u64 = 1 << 16;
const WORDS: usize = (WINDOW / 64) as usize;

/// An arrival in comparison with earlier ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Arrived {
    /// The newest datagram so far.
    InOrder,
    /// A datagram that arrived after a later one (reordered by RFC 4737).
    Reordered,
    Duplicate,
}

/// The arrivals of one flow. Memory is bounded: duplicates of datagrams more than 65,536 behind the
/// newest one are not detected and count as reordered.
#[derive(Debug)]
pub(crate) struct Sequence {
    /// The newest sequence number plus one.
    next: u64,
    /// Arrivals without duplicates.
    distinct: u64,
    reordered: u64,
    duplicates: u64,
    seen: Vec<u64>,
}

impl Default for Sequence {
    fn default() -> Self {
        Self::new()
    }
}

impl Sequence {
    /// No arrivals yet.
    pub(crate) fn new() -> Self {
        Self { next: 0, distinct: 0, reordered: 0, duplicates: 0, seen: vec![0; WORDS] }
    }

    /// Counts an arrival.
    pub(crate) fn arrive(&mut self, sequence: u64) -> Arrived {
        if sequence >= self.next {
            self.clear_up_to(sequence);
            self.next = sequence + 1;
            self.mark(sequence);
            self.distinct += 1;
            return Arrived::InOrder;
        }
        if self.next - sequence <= WINDOW {
            if self.is_marked(sequence) {
                self.duplicates += 1;
                return Arrived::Duplicate;
            }
            self.mark(sequence);
        }
        self.distinct += 1;
        self.reordered += 1;
        Arrived::Reordered
    }

    /// Clears the window's bits from `next` to `sequence`.
    fn clear_up_to(&mut self, sequence: u64) {
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

    /// The newest sequence number plus one.
    pub(crate) const fn next(&self) -> u64 {
        self.next
    }

    /// Arrivals without duplicates.
    pub(crate) const fn distinct(&self) -> u64 {
        self.distinct
    }

    /// Number of datagrams that have not arrived although a later one has.
    pub(crate) const fn missing(&self) -> u64 {
        self.next.saturating_sub(self.distinct)
    }

    /// Number of arrivals after a later datagram.
    pub(crate) const fn reordered(&self) -> u64 {
        self.reordered
    }

    pub(crate) const fn duplicates(&self) -> u64 {
        self.duplicates
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
    fn tells_late_datagrams_from_duplicates() {
        use Arrived::{Duplicate, InOrder, Reordered};
        let mut sequence = Sequence::new();
        let arrivals: Vec<Arrived> = [0, 1, 3, 2, 3, 5].map(|n| sequence.arrive(n)).to_vec();
        assert_eq!(arrivals, [InOrder, InOrder, InOrder, Reordered, Duplicate, InOrder]);
        assert_eq!((sequence.missing(), sequence.reordered(), sequence.duplicates()), (1, 1, 1));
    }

    #[test]
    fn forgets_older_arrivals_after_a_jump_beyond_the_window() {
        let mut sequence = Sequence::new();
        sequence.arrive(5);
        sequence.arrive(5 + WINDOW);
        assert_eq!(sequence.arrive(6), Arrived::Reordered);
        assert_eq!(sequence.missing(), WINDOW + 3);
        assert_eq!(sequence.arrive(5 + WINDOW), Arrived::Duplicate);
    }

    proptest! {
        #[test]
        fn counts_match_a_set(arrivals in prop::collection::vec(0_u64..60_000, 0..300)) {
            let (mut sequence, mut seen) = (Sequence::new(), HashSet::new());
            let (mut duplicates, mut reordered, mut newest) = (0, 0, None);
            for n in arrivals {
                if !seen.insert(n) {
                    duplicates += 1;
                } else if newest.is_some_and(|newest| n < newest) {
                    reordered += 1;
                }
                newest = newest.max(Some(n));
                sequence.arrive(n);
            }
            prop_assert_eq!((sequence.duplicates(), sequence.reordered()), (duplicates, reordered));
            prop_assert_eq!(sequence.distinct(), seen.len() as u64);
            let missing = newest.map_or(0, |newest| newest + 1 - seen.len() as u64);
            prop_assert_eq!(sequence.missing(), missing);
        }
    }
}
