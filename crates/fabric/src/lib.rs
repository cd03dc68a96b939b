//! The emulated network: links, queues, routers. The only link code in the project.
//!
//! Sans-IO: a driver injects packets at interfaces, wakes the fabric at its deadlines and takes
//! what comes out. The same code runs on the wall clock and on the virtual one.
//!
//! ```text
//! inject → [ queue discipline → serialisation → loss → propagation + jitter → dup., corruption ]
//!            └───────────────────────── one direction of a link ─────────────────────────┘
//!        → router (TTL, ECMP) or switch → the next link … → Output::Deliver
//! ```
//!
//! A super-packet (many segments in one body) crosses links that treat segments alike as a whole
//! and is split by the first that does not; every queue counts, drops and marks segments.
#![forbid(unsafe_code)]

mod collapsed;
pub mod config;
mod event;
pub mod fifo;
mod jitter;
mod link;
mod loss;
mod network;
mod pace;
mod packet;
mod stats;
#[cfg(test)]
mod tests;

pub use collapsed::{Announced, Share};
pub use config::{
    Collapsed, Discipline, Jitter, JitterShape, LinkConfig, Loss, Network, NodeKind, QueueConfig,
    QueueLimit, Rate, Reorder, Sharing, Trace, Window, Wire,
};
pub use event::EventQueue;
pub use network::{Fabric, Output, Refusal, ecmp};
pub use packet::{Packet, Part};
pub use queue::{DropReason, Ecn};
pub use stats::{LinkStats, QueueLevel};

use base::{Bytes, IfaceId, LinkId, NodeId};

/// Forwarding decisions, computed outside the fabric.
pub trait Forwarding {
    /// The interfaces of `node` that lead to interface `dest` at equal cost, in ascending order;
    /// empty where there is no way.
    fn next(&self, node: NodeId, dest: IfaceId) -> &[IfaceId];
}

/// Why a network can't be built or changed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A link end names a node beyond the table.
    #[error("link {link} ends at node {}, which does not exist", node.0)]
    NoSuchNode {
        /// The link's name.
        link: String,
        /// The node.
        node: NodeId,
    },
    /// No link has this number.
    #[error("there is no link {}", link.0)]
    NoSuchLink {
        /// The link.
        link: LinkId,
    },
    /// A property that no link can have.
    #[error("link {link}: {what}")]
    BadLink {
        /// The link's name.
        link: String,
        /// What is wrong.
        what: &'static str,
    },
    /// A queue that no link can have.
    #[error("link {link}: {what}")]
    BadQueue {
        /// The link's name.
        link: String,
        /// What is wrong.
        what: queue::Error,
    },
    /// An odd number of directions.
    #[error("{directions} directions of links; each link has two")]
    HalfLink {
        /// How many there are.
        directions: usize,
    },
    /// Packets that can't be.
    #[error("data packets of {size}; they take 1 B to 1 MB")]
    PacketSize {
        /// The size.
        size: Bytes,
    },
    /// A session's path that can't be.
    #[error("a path of {hops} links; sessions take 1 to 255, 2^32 in all")]
    PathLength {
        /// Its links.
        hops: usize,
    },
    /// A header overhead beyond 10,000 B.
    #[error("an overhead of {bytes} a packet is absurd")]
    Overhead {
        /// The overhead.
        bytes: Bytes,
    },
}
