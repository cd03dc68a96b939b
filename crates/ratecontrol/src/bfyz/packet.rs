//! What its cells carry.

/// What a packet is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// The first cycle's way down.
    Join,
    /// A later cycle's way down.
    Probe,
    /// A cycle's way up.
    Ack,
    /// The end.
    Leave,
}

/// A control packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BfyzPacket {
    /// What it is for.
    pub kind: Kind,
    /// On the way down the least of the demand and of the offers so far, on the way up the
    /// session's rate, bit/s.
    pub rate: u64,
}
