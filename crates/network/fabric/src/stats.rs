//! Counters of one direction of a link.

use base::Span;
use queue::DropReason;

/// Counters of one direction of a link since the fabric was built. Packets are MTU-sized segments,
/// bytes are wire bytes (overhead included).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LinkStats {
    /// Packets that reached the link.
    pub offered_packets: u64,
    /// Wire bytes of the offered packets.
    pub offered_bytes: u64,
    /// Transmitted packets (including those lost later).
    pub sent_packets: u64,
    /// Wire bytes of the sent packets.
    pub sent_bytes: u64,
    /// Packets that reached the far end, duplicates included.
    pub delivered_packets: u64,
    /// Wire bytes of the delivered packets.
    pub delivered_bytes: u64,
    /// Dropped packets by reason, as in [`DropReason::ALL`].
    pub drops: [u64; DropReason::ALL.len()],
    /// Packets that a queue marked with congestion experienced.
    pub marked: u64,
    /// Packets that were duplicated.
    pub duplicated: u64,
    /// Packets with a flipped bit.
    pub corrupted: u64,
    /// Packets that `reorder` delayed.
    pub reordered: u64,
}

impl LinkStats {
    /// Counts packets that arrived and were forwarded.
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

    /// The increase since `before`.
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

/// The queue length, and its maximum since the last reset.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QueueLevel {
    /// Number of queued packets.
    pub packets: u64,
    /// Queued wire bytes.
    pub bytes: u64,
    /// Maximum number of queued packets.
    pub peak_packets: u64,
    /// Maximum queued wire bytes.
    pub peak_bytes: u64,
    /// Maximum queueing delay of packets sent since the last reset.
    pub peak_delay: Span,
}
