//! Sessions in the order of their rates.
//!
//! A sorted sequence in short runs: adding or removing moves at most one run's entries. A balanced
//! tree would work as well, but its memory could not be measured.

/// Maximum length of a run; a longer one is split.
const MAX_BLOCK: usize = 128;

/// A set of (rate, session), smallest rate first.
#[derive(Clone, Debug, Default)]
pub(super) struct RateOrder {
    /// Sorted, each and across runs; no run is empty.
    runs: Vec<Vec<(u64, u32)>>,
    len: usize,
}

impl RateOrder {
    /// Number of sessions.
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// Allocated memory in bytes.
    pub(super) fn bytes(&self) -> usize {
        self.runs.capacity() * size_of::<Vec<(u64, u32)>>()
            + self.runs.iter().map(Vec::capacity).sum::<usize>() * size_of::<(u64, u32)>()
    }

    /// The smallest rate.
    pub(super) fn least(&self) -> Option<u64> {
        Some(self.runs.first()?.first()?.0)
    }

    /// The largest rate, and the last session with it.
    pub(super) fn last(&self) -> Option<(u64, u32)> {
        self.runs.last()?.last().copied()
    }

    /// All sessions in ascending order of rates.
    pub(super) fn sessions(&self) -> impl Iterator<Item = u32> {
        self.runs.iter().flatten().map(|entry| entry.1)
    }

    /// Index of the run that contains, or would contain, an entry.
    fn run(&self, entry: (u64, u32)) -> usize {
        self.runs.partition_point(|run| run[0] <= entry).saturating_sub(1)
    }

    /// Adds a session, which must be absent.
    pub(super) fn insert(&mut self, rate: u64, session: u32) {
        let entry = (rate, session);
        self.len += 1;
        if self.runs.is_empty() {
            self.runs.push(vec![entry]);
            return;
        }
        let at = self.run(entry);
        let run = &mut self.runs[at];
        let place = run.partition_point(|known| *known < entry);
        run.insert(place, entry);
        if run.len() > MAX_BLOCK {
            let upper = run.split_off(MAX_BLOCK / 2);
            run.shrink_to_fit();
            self.runs.insert(at + 1, upper);
        }
    }

    /// Removes a session; returns whether it was present with this rate.
    pub(super) fn remove(&mut self, rate: u64, session: u32) -> bool {
        let entry = (rate, session);
        if self.runs.is_empty() {
            return false;
        }
        let at = self.run(entry);
        let run = &mut self.runs[at];
        let Ok(place) = run.binary_search(&entry) else {
            return false;
        };
        run.remove(place);
        self.len -= 1;
        if run.capacity() > 4 * run.len().max(4) {
            run.shrink_to(2 * run.len());
        }
        self.join_runs(at);
        true
    }

    /// Merges a short run with a neighbour that has room, so that the number of runs, and their
    /// memory, stay proportional to the sessions.
    fn join_runs(&mut self, at: usize) {
        let len = self.runs[at].len();
        if len >= MAX_BLOCK / 4 {
            return;
        }
        let room = |run: Option<&Vec<_>>| run.is_some_and(|run| run.len() + len <= MAX_BLOCK / 2);
        if len == 0 {
            self.runs.remove(at);
        } else if room(self.runs.get(at + 1)) {
            let upper = self.runs.remove(at + 1);
            self.runs[at].extend(upper);
        } else if at > 0 && room(self.runs.get(at - 1)) {
            let upper = self.runs.remove(at);
            self.runs[at - 1].extend(upper);
        } else {
            return;
        }
        if self.runs.capacity() > 4 * self.runs.len().max(1) || self.runs.is_empty() {
            self.runs.shrink_to(2 * self.runs.len());
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::RateOrder;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn does_what_a_sorted_set_does(
            steps in proptest::collection::vec((0_u8..3, 0_u64..40, 0_u32..60), 1..3_000),
        ) {
            let mut order = RateOrder::default();
            let mut set = BTreeSet::new();
            for (step, rate, session) in steps {
                if step > 0 {
                    if set.insert((rate, session)) {
                        order.insert(rate, session);
                    }
                } else {
                    prop_assert_eq!(order.remove(rate, session), set.remove(&(rate, session)));
                }
                prop_assert_eq!(order.len(), set.len());
                prop_assert_eq!(order.last(), set.last().copied());
                prop_assert_eq!(order.least(), set.first().map(|first| first.0));
            }
            while let Some((rate, session)) = order.last() {
                prop_assert_eq!(set.pop_last(), Some((rate, session)));
                prop_assert!(order.remove(rate, session));
            }
            prop_assert!(set.is_empty());
            prop_assert_eq!(order.bytes(), 0);
        }
    }

    #[test]
    fn memory_follows_the_number_of_sessions() {
        let mut order = RateOrder::default();
        for session in 0..100_000_u32 {
            order.insert(u64::from(session.wrapping_mul(0x9e37_79b1)), session);
        }
        assert!(order.bytes() <= 40 * order.len(), "{} B", order.bytes());
        for session in 0..99_900_u32 {
            assert!(order.remove(u64::from(session.wrapping_mul(0x9e37_79b1)), session));
        }
        assert!(order.bytes() <= 200 * order.len(), "{} B", order.bytes());
    }
}
