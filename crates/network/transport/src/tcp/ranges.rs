//! Disjoint ranges of sequence numbers.

use std::collections::VecDeque;

/// Ranges `[start, end)`, disjoint, not touching, in order. Most are added at the end and removed
/// at the front, both in constant time.
#[derive(Clone, Debug, Default)]
pub(super) struct Ranges(VecDeque<(u64, u64)>);

impl Ranges {
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Index of the first range that ends at or after `at`.
    fn reaching(&self, at: u64) -> usize {
        match self.0.back() {
            Some(&(start, end)) if start <= at => self.0.len() - usize::from(end >= at),
            _ => self.0.partition_point(|&(_, end)| end < at),
        }
    }

    /// Adds `[start, end)` and returns the range that contains it now.
    pub(super) fn insert(&mut self, start: u64, end: u64) -> (u64, u64) {
        let from = self.reaching(start);
        let mut merged = (start, end);
        let mut to = from;
        while let Some(&(s, e)) = self.0.get(to).filter(|&&(s, _)| s <= end) {
            merged = (merged.0.min(s), merged.1.max(e));
            to += 1;
        }
        if to == from {
            self.0.insert(from, merged);
        } else {
            self.0[from] = merged;
            if to > from + 1 {
                self.0.drain(from + 1..to);
            }
        }
        merged
    }

    /// Whether all of `[start, end)` is contained.
    pub(super) fn covers(&self, start: u64, end: u64) -> bool {
        self.0.get(self.reaching(start + 1)).is_some_and(|&(s, e)| s <= start && end <= e)
    }

    /// The first part of `[start, end)` that is not contained.
    pub(super) fn gap(&self, start: u64, end: u64) -> Option<(u64, u64)> {
        let mut index = self.reaching(start + 1);
        let mut from = start;
        if let Some(&(s, e)) = self.0.get(index)
            && s <= from
        {
            from = e;
            index += 1;
        }
        let to = self.0.get(index).map_or(end, |&(s, _)| s.min(end));
        (from < to).then_some((from, to))
    }

    /// Removes everything below `limit`. If that cuts or touches a range, removes the whole range
    /// and returns its end.
    pub(super) fn advance(&mut self, limit: u64) -> Option<u64> {
        let mut reached = None;
        while let Some(&(_, end)) = self.0.front().filter(|&&(start, _)| start <= limit) {
            self.0.pop_front();
            reached = (end > limit).then_some(end).or(reached);
        }
        reached
    }

    /// Removes ranges that end at or below `limit`.
    pub(super) fn forget(&mut self, limit: u64) {
        while self.0.front().is_some_and(|&(_, end)| end <= limit) {
            self.0.pop_front();
        }
    }

    #[cfg(test)]
    pub(super) fn iter(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        self.0.iter().copied()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn behaves_as_a_set(
            pieces in prop::collection::vec((0u64..60, 1u64..9), 1..30),
            limit in 0u64..70,
        ) {
            let mut ranges = Ranges::default();
            let mut set = [false; 80];
            for &(start, length) in &pieces {
                let end = start + length;
                let all = (start..end).all(|i| set[i as usize]);
                prop_assert_eq!(ranges.covers(start, end), all);
                let gap = (start..end).find(|&i| !set[i as usize]).map(|from| {
                    (from, (from..end).find(|&i| set[i as usize]).unwrap_or(end))
                });
                prop_assert_eq!(ranges.gap(start, end), gap);
                let merged = ranges.insert(start, end);
                (start..end).for_each(|i| set[i as usize] = true);
                prop_assert!(merged.0 <= start && end <= merged.1);
                prop_assert!((merged.0..merged.1).all(|i| set[i as usize]));
            }
            let listed: Vec<_> = ranges.iter().collect();
            prop_assert!(listed.windows(2).all(|pair| pair[0].1 < pair[1].0));
            let count: u64 = listed.iter().map(|(start, end)| end - start).sum();
            prop_assert_eq!(count as usize, set.iter().filter(|&&there| there).count());
            let reached = ranges.advance(limit);
            let contiguous = (limit..80).find(|&i| !set[i as usize]).unwrap_or(80);
            prop_assert_eq!(reached.unwrap_or(limit), contiguous.max(limit));
        }
    }
}
