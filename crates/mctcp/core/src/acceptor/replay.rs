//! Detects replayed joins of a session with a sliding window (RFC 4303 §3.4.3).

/// Indices that are this far below the newest count as used.
const WINDOW_BITS: u32 = 64;

/// Window of used indices.
#[derive(Clone, Debug, Default)]
pub(super) struct Window {
    /// The highest used index plus one.
    next: u64,
    /// Bit n: index `next - 1 - n` was used.
    used: u64,
}

impl Window {
    /// Marks an index as used. Returns false if it was used before, or is below the window.
    pub(super) fn take(&mut self, index: u32) -> bool {
        let index = u64::from(index);
        if index >= self.next {
            let shift = u32::try_from(index + 1 - self.next).unwrap_or(WINDOW_BITS);
            self.used = self.used.checked_shl(shift).unwrap_or(0) | 1;
            self.next = index + 1;
            return true;
        }
        let behind = self.next - 1 - index;
        if behind >= u64::from(WINDOW_BITS) || self.used >> behind & 1 == 1 {
            return false;
        }
        self.used |= 1 << behind;
        true
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn accepts_each_index_once_within_the_window() {
        let mut window = Window::default();
        assert!(window.take(0) && !window.take(0));
        assert!(window.take(70) && window.take(7) && !window.take(6));
        assert!(window.take(u32::MAX) && !window.take(u32::MAX) && !window.take(71));
        assert!(window.take(u32::MAX - 63) && !window.take(u32::MAX - 64));
    }

    proptest! {
        #[test]
        fn equals_a_set_of_used_indices(
            indices in prop::collection::vec(0u32..200, 0..300),
        ) {
            let (mut window, mut used) = (Window::default(), BTreeSet::new());
            for index in indices {
                let old = used.last().is_some_and(|&last| index + WINDOW_BITS <= last);
                prop_assert_eq!(window.take(index), !old && !used.contains(&index));
                if !old {
                    used.insert(index);
                }
            }
        }
    }
}
