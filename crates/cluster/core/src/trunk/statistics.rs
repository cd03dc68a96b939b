//! Counters of datagrams and messages between an agent and one of its peers.

use base::Histogram;
use serde::{Deserialize, Serialize};

/// Counters of one peer since the start. The merge of both agents' counters shows the number of
/// sent datagrams that were received.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct TrunkStatistics {
    pub sent_datagrams: u64,
    /// Their UDP payload bytes.
    pub sent_bytes: u64,
    /// Messages (packets or super-packets) in them.
    pub sent_messages: u64,
    /// Messages not sent because the backlog was full.
    pub refused_messages: u64,
    /// Datagrams received from the peer, without duplicates.
    pub received_datagrams: u64,
    /// Their UDP payload bytes.
    pub received_bytes: u64,
    pub received_messages: u64,
    /// Datagrams not received although a later one was.
    pub lost: u64,
    /// Datagrams received after a later one.
    pub reordered: u64,
    /// Datagrams received more than once.
    pub duplicate: u64,
    /// Datagrams too old for duplicate detection; they are ignored and also counted as lost.
    pub stale: u64,
    /// Datagrams with the peer's identifier that were not sealed with its key for this lab.
    pub forged: u64,
    /// Authentic datagrams that could not be parsed.
    pub malformed: u64,
    /// Messages received after their due time.
    pub late: u64,
    /// Lateness of these messages (ns).
    pub late_by: Histogram,
    /// Delay from the peer's send call to the receive call here (ns), in lab time. It includes the
    /// offset of the clocks.
    pub delay: Histogram,
    /// Datagrams received before their send time, because of clock offset. Their delay is zero.
    pub early: u64,
}

impl TrunkStatistics {
    /// Adds the counters of another peer or agent.
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
