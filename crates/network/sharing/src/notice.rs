//! Messages between senders.

use base::{Bandwidth, IfaceId};

/// The identifier of a flow among all senders of a lab.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FlowName {
    /// The sender that announced it.
    pub sender: u32,
    /// Its number at the sender; never reused.
    pub number: u32,
}

/// A change of the set of flows. Senders exchange only notices: the notices of all senders, in any
/// order that keeps the order of each sender, and the lab's topology determine all shares.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Notice {
    /// A flow starts to share links.
    Started {
        /// The flow that has started.
        flow: FlowName,
        /// The interface through which it enters the network.
        from: IfaceId,
        /// The interface of its destination address.
        to: IfaceId,
        /// Its ECMP hash, by which routers select among equal paths.
        hash: u32,
        /// Whether its window limits its rate, as for TCP.
        windowed: bool,
        /// Its maximum rate; `None`: unlimited.
        most: Option<Bandwidth>,
    },
    /// The maximum rate of a flow has changed; `None`: unlimited.
    Rate {
        /// The flow that has changed.
        flow: FlowName,
        /// The new maximum rate.
        most: Option<Bandwidth>,
    },
    /// A flow stops sharing links.
    Ended {
        /// The flow that has ended.
        flow: FlowName,
    },
}
