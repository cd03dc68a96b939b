//! A replay window, which rejects duplicates (RFC 4303 §3.4.3, RFC 6479).

use crate::rejection::Rejection;

/// The newest `64 * WORDS` sequence numbers that were received.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ReplayWindow<const WORDS: usize> {
    highest: u64,
    /// Number *n* is bit *n* mod 64 of word *n* / 64 mod `WORDS`.
    seen: [u64; WORDS],
}

impl<const WORDS: usize> Default for ReplayWindow<WORDS> {
    fn default() -> Self {
        Self { highest: 0, seen: [0; WORDS] }
    }
}

impl<const WORDS: usize> ReplayWindow<WORDS> {
    /// The word of the newest number is only partly valid, so one word less is usable.
    const SIZE: u64 = (WORDS as u64 - 1) * 64;

    pub(crate) fn check(&self, sequence: u64) -> Result<(), Rejection> {
        if sequence > self.highest {
            Ok(())
        } else if self.highest - sequence >= Self::SIZE {
            Err(Rejection::TooOld)
        } else if self.seen[word(sequence, WORDS)] & bit(sequence) != 0 {
            Err(Rejection::Replayed)
        } else {
            Ok(())
        }
    }

    /// Accepts the number, once.
    pub(crate) fn take(&mut self, sequence: u64) -> Result<(), Rejection> {
        self.check(sequence)?;
        let (from, to) = (self.highest / 64, sequence / 64);
        if to > from {
            // The words that the window enters contain numbers that have left it.
            for entered in (from + 1..=to).rev().take(WORDS) {
                self.seen[word(entered * 64, WORDS)] = 0;
            }
        }
        self.highest = self.highest.max(sequence);
        self.seen[word(sequence, WORDS)] |= bit(sequence);
        Ok(())
    }
}

const fn word(sequence: u64, words: usize) -> usize {
    (sequence / 64) as usize % words
}

const fn bit(sequence: u64) -> u64 {
    1 << (sequence % 64)
}
