//! What a control packet carries (§III).

/// What a packet is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// The first trip.
    Join,
    /// Each further one.
    Probe,
    /// The way back of either.
    ProbeAck,
    /// The last, one way.
    Leave,
}

/// A control packet. It carries all that links know of its session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packet {
    /// What it is for.
    pub kind: Kind,
    /// b, the hop of the link that limited the session last; none is the paper's −1.
    pub latest: Option<u8>,
    /// bw″, bit/s: the rate of the cycle before the last.
    pub before: u64,
    /// bw′, bit/s: the rate of the last cycle.
    pub last: u64,
    /// bw, bit/s: the rate that this cycle computes.
    pub rate: u64,
    /// B: bit e is set if the link at hop e counts the session among those that it limits.
    pub bottlenecks: u64,
}

impl Packet {
    /// Takes the link at `hop` out of B; whether it was in.
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
