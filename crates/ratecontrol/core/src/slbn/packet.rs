//! Control packets.

use crate::{Error, Result};

/// Type of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// First trip, downstream.
    Join,
    /// Each later trip, downstream.
    Probe,
    /// Return of either.
    ProbeAck,
    /// Last trip, downstream only.
    Leave,
}

/// A control packet. It contains the links' state of its session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packet {
    /// Type of the packet.
    pub kind: Kind,
    /// b, the hop of the link that limited the session last; `None` is the paper's −1.
    pub latest: Option<u8>,
    /// bw″, bit/s: the rate of the cycle before the last.
    pub before: u64,
    /// bw′, bit/s: the rate of the last cycle.
    pub last: u64,
    /// bw, bit/s: the rate that this cycle computes.
    pub rate: u64,
    /// B: bit e is set if the link at hop e limits the session.
    pub bottlenecks: u64,
}

impl Packet {
    /// Removes the link at `hop` from B; returns whether it was in it.
    pub(super) fn unmark(&mut self, hop: u8) -> bool {
        let bit = 1 << hop;
        let marked = self.bottlenecks & bit != 0;
        self.bottlenecks &= !bit;
        marked
    }

    /// Adds the link at `hop` to B, as the latest.
    pub(super) fn mark(&mut self, hop: u8) {
        self.bottlenecks |= 1 << hop;
        self.latest = Some(hop);
    }

    pub(super) fn is_marked(&self, hop: u8) -> bool {
        self.bottlenecks & 1 << hop != 0
    }
}

/// Maximum number of links in a path: one bit of [`Packet::bottlenecks`] each.
pub const MAX_HOPS: u8 = 64;

/// Checks the number of links of a path.
pub(super) fn check_hops(hops: u8) -> Result<()> {
    if (1..=MAX_HOPS).contains(&hops) {
        return Ok(());
    }
    Err(Error::Path { hops: hops.into(), most: MAX_HOPS.into() })
}
