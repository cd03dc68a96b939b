//! What became of datagrams and messages between a member and one of its peers.

use base::Histogram;
use serde::{Deserialize, Serialize};

/// Counters of one peer since the start. What the peer has sent and what has come of it meet where
/// both members' are merged.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct TrunkStatistics {
    /// Datagrams that were handed out to be sent to the peer.
    pub sent_datagrams: u64,
    /// Their bytes, from UDP's payload on.
    pub sent_bytes: u64,
    /// Messages (packets or super-packets) in them.
    pub sent_messages: u64,
    /// Messages that were not sent because too many were waiting.
    pub refused_messages: u64,
    /// Different datagrams that came from the peer.
    pub received_datagrams: u64,
    /// Their bytes, from UDP's payload on.
    pub received_bytes: u64,
    /// Messages that came whole.
    pub received_messages: u64,
    /// Datagrams that have not come although one that was sent later has.
    pub lost: u64,
    /// Datagrams that came after one that was sent later.
    pub reordered: u64,
    /// Datagrams that came once more.
    pub duplicate: u64,
    /// Datagrams too old to tell whether they had come before; of no use, and counted as lost.
    pub stale: u64,
    /// Datagrams in the peer's name that it has not sealed, or not for this lab.
    pub forged: u64,
    /// Datagrams that the peer has sealed but that make no sense.
    pub malformed: u64,
    /// Messages that came after they were due.
    pub late: u64,
    /// By how much (ns).
    pub late_by: Histogram,
    /// From handing a datagram out at the peer to taking it in here (ns), in the lab's time: off by
    /// what the clocks are off.
    pub delay: Histogram,
    /// Datagrams that came before they were sent, by the clocks: their delay counts as zero.
    pub early: u64,
}

impl TrunkStatistics {
    /// Adds those of another peer or member.
    pub fn merge(&mut self, other: &Self) {
        self.sent_datagrams += other.sent_datagrams;
        self.sent_bytes += other.sent_bytes;
        self.sent_messages += other.sent_messages;
        self.refused_messages += other.refused_messages;
        self.received_datagrams += other.received_datagrams;
        self.received_bytes += other.received_bytes;
        self.received_messages += other.received_messages;
        self.lost += other.lost;
        self.reordered += other.reordered;
        self.duplicate += other.duplicate;
        self.stale += other.stale;
        self.forged += other.forged;
        self.malformed += other.malformed;
        self.late += other.late;
        self.late_by.merge(&other.late_by);
        self.delay.merge(&other.delay);
        self.early += other.early;
    }
}
