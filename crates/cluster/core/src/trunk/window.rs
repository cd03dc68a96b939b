//! Sliding window over received datagrams: rejects replays and counts losses.

/// Max distance from the newest datagram at which an older one is accepted.
pub(super) const WINDOW: u64 = 4096;

const WORDS: usize = (WINDOW / 64) as usize;

/// A sliding window over sequence numbers (RFC 4303 §3.4.3, as a ring of words like RFC 6479).
#[derive(Debug)]
pub(super) struct Window {
    /// The highest number so far, plus one.
    next: u64,
    bits: [u64; WORDS],
    /// Distinct numbers so far.
    received: u64,
}

/// The class of a received datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Arrival {
    /// New, and newer than all others.
    InOrder,
    /// New, but a later one was received before (RFC 4737 §3).
    Reordered,
    Duplicate,
    /// Too old for duplicate detection.
    Stale,
}

impl Window {
    pub(super) const fn new() -> Self {
        Self { next: 0, bits: [0; WORDS], received: 0 }
    }

    /// Datagrams before the newest one that have not been received so far.
    pub(super) const fn lost(&self) -> u64 {
        self.next - self.received
    }

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
        // The ring is cleared word by word, so that the oldest word may be incomplete.
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

    /// Clears the words that the window enters up to `number`.
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
        fn agrees_with_a_set_of_numbers(
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
    fn largest_number_is_stale() {
        let mut window = Window::new();
        assert_eq!(window.arrive(u64::MAX), Arrival::Stale);
        assert_eq!(window.arrive(u64::MAX - 1), Arrival::InOrder);
        assert_eq!(window.lost(), u64::MAX - 1);
    }
}
