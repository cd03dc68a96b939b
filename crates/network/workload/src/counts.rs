//! Counters of datagrams.

use serde::{Deserialize, Serialize};

/// Datagrams of a flow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Datagrams {
    /// Datagrams accepted by the sender's transport.
    pub sent: u64,
    /// Datagrams received, without duplicates.
    pub received: u64,
    /// Datagrams that never arrived, except the newest, which may have been in flight at the end.
    pub lost: u64,
    /// Datagrams received after one that was sent later (RFC 4737).
    pub reordered: u64,
    pub duplicates: u64,
    /// Invalid datagrams received (damaged in the network).
    pub damaged: u64,
    /// Datagrams that the sender's kernel rejected: no route, no buffer. Not counted as sent.
    pub refused: u64,
    /// Datagrams not sent because this host was more than 100 ms behind the schedule.
    pub skipped: u64,
    /// Datagrams dropped because the receiver's socket buffer was full: an artefact of this host,
    /// not of the network. Included in `lost`.
    pub overrun: u64,
}

impl std::ops::AddAssign for Datagrams {
    fn add_assign(&mut self, other: Self) {
        self.sent += other.sent;
        self.received += other.received;
        self.lost += other.lost;
        self.reordered += other.reordered;
        self.duplicates += other.duplicates;
        self.damaged += other.damaged;
        self.refused += other.refused;
        self.skipped += other.skipped;
        self.overrun += other.overrun;
    }
}
