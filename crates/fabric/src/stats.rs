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
