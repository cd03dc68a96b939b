//! Data received out of order, and its selective acknowledgement (RFC 2018, RFC 2883).

use crate::tcp::ranges::Ranges;
use crate::tcp::segment::Segment;

/// Maximum number of blocks beside time stamps.
const BLOCKS: usize = 3;
/// Bytes of the option: its header with padding, and each block.
const SACK_HEAD: u32 = 4;
const SACK_BLOCK: u32 = 8;

#[derive(Clone, Debug, Default)]
pub(super) struct Reordering {
    ranges: Ranges,
    /// Ranges by their last addition, most recent first.
    recent: [(u64, u64); BLOCKS],
    count: usize,
    /// A duplicate that is reported once.
    pub(super) duplicate: Option<(u64, u64)>,
}

impl Reordering {
    pub(super) fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }

    /// Adds a segment. Returns whether it is a duplicate.
    pub(super) fn insert(&mut self, seq: u64, end: u64) -> bool {
        let known = self.ranges.covers(seq, end);
        if known {
            self.duplicate = Some((seq, end));
        }
        let block = self.ranges.insert(seq, end);
        let mut kept = [block; BLOCKS];
        let mut count = 1;
        for &old in &self.recent[..self.count] {
            let absorbed = block.0 <= old.0 && old.1 <= block.1;
            if !absorbed && count < BLOCKS {
                kept[count] = old;
                count += 1;
            }
        }
        (self.recent, self.count) = (kept, count);
        known
    }

    /// Removes ranges before `next`, where everything has arrived; returns the end of the
    /// contiguous data.
    pub(super) fn advance(&mut self, next: u64) -> u64 {
        let next = self.ranges.advance(next).unwrap_or(next);
        let mut count = 0;
        for i in 0..self.count {
            if self.recent[i].1 > next {
                self.recent[count] = self.recent[i];
                count += 1;
            }
        }
        self.count = count;
        next
    }

    /// Adds the blocks, a duplicate first, then most recent first, as far as `free` bytes allow.
    /// Returns whether the first of them fits.
    pub(super) fn report(&mut self, segment: &mut Segment, free: u32) -> bool {
        let recent = &self.recent[..self.count];
        let blocks = self.duplicate.iter().chain(recent);
        if blocks.clone().next().is_none() {
            return true;
        }
        let fit = free.saturating_sub(SACK_HEAD) / SACK_BLOCK;
        for &(start, end) in blocks.take(fit as usize) {
            if !segment.add_sack((start as u32, end as u32)) {
                break;
            }
        }
        if fit > 0 {
            self.duplicate = None;
        }
        fit > 0
    }
}
