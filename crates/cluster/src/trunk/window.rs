//! Which datagrams of a peer have come: against replays, and for the count of what was lost.

/// How far behind the newest datagram one may come and still be taken.
pub(super) const WINDOW: u64 = 4096;

const WORDS: usize = (WINDOW / 64) as usize;

/// A sliding window over sequence numbers (RFC 4303 §3.4.3, as a ring of words like RFC 6479).
#[derive(Debug)]
pub(super) struct Window {
    /// One more than the highest number so far.
    next: u64,
    bits: [u64; WORDS],
    /// Different numbers so far.
    received: u64,
}

/// What a datagram is, by its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Arrival {
    /// The first of this number, behind none that was sent later.
    InOrder,
    /// The first of this number; one that was sent later has come before (RFC 4737 §3).
    Reordered,
    /// One of this number has come before.
    Duplicate,
    /// Too old to know.
    Stale,
}

impl Window {
    pub(super) const fn new() -> Self {
        Self { next: 0, bits: [0; WORDS], received: 0 }
    }

    /// Datagrams before the newest that have not come (yet).
    pub(super) const fn lost(&self) -> u64 {
        self.next - self.received
    }

    /// A datagram that was sealed under this number has come.
    pub(super) fn arrive(&mut self, number: u64) -> Arrival {
        if number == u64::MAX {
            return Arrival::Stale;
        }
        let (word, bit) = ((number / 64) as usize % WORDS, 1_u64 << (number % 64));
        if number >= self.next {
            self.clear(number);
            self.bits[word] |= bit;
            (self.next, self.received) = (number + 1, self.received + 1);
            return Arrival::InOrder;
        }
        // A word is one block of the ring, cleared as a whole: the oldest of them may hold less.
        if self.next - number > WINDOW - 64 {
            return Arrival::Stale;
        }
        if self.bits[word] & bit != 0 {
            return Arrival::Duplicate;
        }
        self.bits[word] |= bit;
        self.received += 1;
        Arrival::Reordered
    }

    /// Makes room up to `number`: words that the window enters belong to numbers long past.
    fn clear(&mut self, number: u64) {
        let (last, first) = (number / 64, self.next.div_ceil(64));
        if last < first {
            return;
        }
        for word in first..=last.min(first + WORDS as u64 - 1) {
            self.bits[word as usize % WORDS] = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn it_knows_what_a_set_knows(
            steps in prop::collection::vec((0_u64..9000, 0_u64..64), 1..400),
        ) {
            let mut window = Window::new();
            let mut seen = BTreeSet::new();
            let mut base = 0;
            for (back, forth) in steps {
                base += forth * forth;
                let number = base.saturating_sub(back.saturating_sub(4500));
                let next = seen.last().map_or(0, |last| last + 1);
                let expected = if number >= next {
                    Arrival::InOrder
                } else if next - number > WINDOW - 64 {
                    Arrival::Stale
                } else if seen.contains(&number) {
                    Arrival::Duplicate
                } else {
                    Arrival::Reordered
                };
                prop_assert_eq!(window.arrive(number), expected);
                if expected != Arrival::Stale {
                    seen.insert(number);
                }
                prop_assert_eq!(window.received, seen.len() as u64);
                prop_assert_eq!(window.next, seen.last().unwrap() + 1);
                prop_assert_eq!(window.lost(), window.next - seen.len() as u64);
            }
        }
    }

    #[test]
    fn the_last_number_of_all_is_never_used() {
        let mut window = Window::new();
        assert_eq!(window.arrive(u64::MAX), Arrival::Stale);
        assert_eq!(window.arrive(u64::MAX - 1), Arrival::InOrder);
        assert_eq!(window.lost(), u64::MAX - 1);
    }
}
