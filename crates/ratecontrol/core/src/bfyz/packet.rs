//! Cells of BFYZ.

/// Type of a cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// First cycle, downstream.
    Join,
    /// Later cycle, downstream.
    Probe,
    /// Upstream.
    Ack,
    /// The session has ended.
    Leave,
}

/// A control packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BfyzPacket {
    /// Type of the cell.
    pub kind: Kind,
    /// Downstream the minimum of the demand and the offers so far, upstream the session's rate, in
    /// bit/s.
    pub rate: u64,
}
