//! Counters of one direction of a link.

use base::Span;
use queue::DropReason;

/// Counters of one direction of a link since the fabric was built. Packets are MTU-sized segments,
/// bytes are wire bytes (overhead included).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LinkStats {
    /// Packets that reached the link.
    pub offered_packets: u64,
    /// Their bytes.
    pub offered_bytes: u64,
    /// Packets that were transmitted (later loss included).
    pub sent_packets: u64,
    /// Their bytes.
    pub sent_bytes: u64,
    /// Packets that reached the far end, duplicates included.
    pub delivered_packets: u64,
    /// Their bytes.
    pub delivered_bytes: u64,
    /// Packets by the reason for which they went no further, as in [`DropReason::ALL`].
    pub drops: [u64; DropReason::ALL.len()],
    /// Packets that a queue marked with congestion experienced.
    pub marked: u64,
    /// Packets that arrived twice.
    pub duplicated: u64,
    /// Packets with a flipped bit.
    pub corrupted: u64,
    /// Packets held back for others to overtake.
    pub reordered: u64,
}

impl LinkStats {
    /// Packets that came and went on.
    pub(crate) fn passed(packets: u64, bytes: u64) -> Self {
        Self {
            offered_packets: packets,
            offered_bytes: bytes,
            sent_packets: packets,
            sent_bytes: bytes,
            delivered_packets: packets,
            delivered_bytes: bytes,
            ..Self::default()
        }
    }

    /// What came on top of `before`.
    pub(crate) fn since(&self, before: &Self) -> Self {
        self.combine(before, u64::wrapping_sub)
    }

    pub(crate) fn add(&mut self, more: &Self) {
        *self = self.combine(more, u64::wrapping_add);
    }

    fn combine(&self, other: &Self, op: impl Fn(u64, u64) -> u64) -> Self {
        let mut drops = self.drops;
        for (mine, theirs) in drops.iter_mut().zip(other.drops) {
            *mine = op(*mine, theirs);
        }
        Self {
            offered_packets: op(self.offered_packets, other.offered_packets),
            offered_bytes: op(self.offered_bytes, other.offered_bytes),
            sent_packets: op(self.sent_packets, other.sent_packets),
            sent_bytes: op(self.sent_bytes, other.sent_bytes),
            delivered_packets: op(self.delivered_packets, other.delivered_packets),
            delivered_bytes: op(self.delivered_bytes, other.delivered_bytes),
            drops,
            marked: op(self.marked, other.marked),
            duplicated: op(self.duplicated, other.duplicated),
            corrupted: op(self.corrupted, other.corrupted),
            reordered: op(self.reordered, other.reordered),
        }
    }

    /// Packets dropped for any reason.
    pub fn dropped(&self) -> u64 {
        self.drops.iter().sum()
    }
}

/// The queue's length now, and its largest since the peak was last taken.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QueueLevel {
    /// Packets that wait.
    pub packets: u64,
    /// Wire bytes that wait.
    pub bytes: u64,
    /// Most packets that waited.
    pub peak_packets: u64,
    /// Most wire bytes that waited.
    pub peak_bytes: u64,
    /// The longest that a packet, sent meanwhile, had waited.
    pub peak_delay: Span,
}

/// Buckets an octave of [`QueueDelays`]: a value is known to one part in eight.
const PARTS: usize = 8;

/// How long packets waited in a queue, counted in log-linear buckets of microseconds up to an hour.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QueueDelays([u32; PARTS * 30]);

impl Default for QueueDelays {
    fn default() -> Self {
        Self::NONE
    }
}

impl QueueDelays {
    /// No packet was sent.
    pub(crate) const NONE: Self = Self([0; PARTS * 30]);

    pub(crate) fn record(&mut self, delay: Span) {
        let micros = delay.as_nanos() / 1000;
        let bucket = if micros < PARTS as u64 {
            micros as usize
        } else {
            let octave = micros.ilog2() as usize - PARTS.ilog2() as usize;
            (octave + 1) * PARTS + ((micros >> octave) as usize - PARTS)
        };
        let bucket = bucket.min(self.0.len() - 1);
        self.0[bucket] = self.0[bucket].saturating_add(1);
    }

    pub(crate) fn absorb(&mut self, other: &Self) {
        for (mine, theirs) in self.0.iter_mut().zip(other.0) {
            *mine = mine.saturating_add(theirs);
        }
    }

    /// The buckets that are not empty: the smallest delay of each and its number of packets.
    pub fn buckets(&self) -> impl Iterator<Item = (Span, u64)> + '_ {
        let lower = |bucket: usize| match bucket / PARTS {
            0 => bucket as u64,
            octave => ((PARTS + bucket % PARTS) as u64) << (octave - 1),
        };
        let counts = self.0.iter().enumerate().filter(|(_, count)| **count > 0);
        counts.map(move |(at, count)| (Span::from_micros(lower(at)), u64::from(*count)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delays_are_known_to_an_eighth() {
        for micros in [0u64, 1, 7, 8, 9, 15, 16, 17, 100, 1_000, 123_456, 3_000_000_000] {
            let mut delays = QueueDelays::default();
            delays.record(Span::from_micros(micros));
            let (lower, count) = delays.buckets().next().expect("one was recorded");
            let lower = lower.as_nanos() / 1000;
            assert!(lower <= micros && micros - lower <= micros / 8, "{micros}: {lower}");
            assert_eq!(count, 1);
        }
    }
}
