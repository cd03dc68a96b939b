//! What senders tell each other.

use base::{Bandwidth, IfaceId};

/// Names a flow among all senders of a lab.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FlowName {
    /// Who announced it.
    pub sender: u32,
    /// Its number there; not used again.
    pub number: u32,
}

/// A change of the set of flows. All that crosses between senders: who hears the notices of all of
/// them, in any order that keeps each sender's, and knows the lab's topology, knows all shares.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Notice {
    /// A flow takes part in the sharing from now on.
    Started {
        /// The flow.
        flow: FlowName,
        /// The interface through which it enters the network.
        from: IfaceId,
        /// The interface that its destination is addressed by.
        to: IfaceId,
        /// Its hash, by which routers choose among equal paths.
        hash: u32,
        /// Whether its window caps it, as TCP's does.
        windowed: bool,
        /// The most that it takes; `None`: as much as it gets.
        most: Option<Bandwidth>,
    },
    /// It takes at most this from now on; `None`: as much as it gets.
    Rate {
        /// The flow.
        flow: FlowName,
        /// The most that it takes.
        most: Option<Bandwidth>,
    },
    /// It takes part no longer.
    Ended {
        /// The flow.
        flow: FlowName,
    },
}
