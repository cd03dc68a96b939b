//! The emulated network: links, queues, routers. All links that carry packets are here; the fluid
//! engine of `sim` has rates without packets.
//!
//! Sans-IO: a driver injects packets at interfaces, calls the fabric at its deadlines and takes its
//! outputs. The same code runs on the wall clock and on the virtual clock.
//!
//! ```text
//! inject → [ queue discipline → serialisation → loss → propagation + jitter → dup., corruption ]
//!            └───────────────────────── one direction of a link ─────────────────────────┘
//!        → router (TTL, ECMP) or switch → the next link … → Output::Deliver
//! ```
//!
//! A super-packet (many segments in one body) crosses links as a whole while they treat all
//! its segments equally, and is split by the first link that does not; every queue counts,
//! drops and marks segments.
#![forbid(unsafe_code)]

mod collapsed;
pub mod config;
mod event;
pub mod fifo;
mod jitter;
mod link;
mod link_scope;
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

use std::sync::Arc;

use base::{Bytes, IfaceId, LinkId, NodeId};

/// Forwarding decisions, computed outside the fabric.
pub trait Forwarding {
    /// The interfaces of `node` on equal-cost paths to interface `dest`, in ascending order;
    /// empty without a route.
    fn next(&self, node: NodeId, dest: IfaceId) -> &[IfaceId];
}

impl<T: Forwarding + ?Sized> Forwarding for Arc<T> {
    fn next(&self, node: NodeId, dest: IfaceId) -> &[IfaceId] {
        (**self).next(node, dest)
    }
}

/// An error in a network or in a change of it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A link end refers to a node that does not exist.
    #[error("link {link} ends at node {}, which does not exist", node.0)]
    NoSuchNode {
        /// The link's name.
        link: String,
        /// The missing node.
        node: NodeId,
    },
    /// A link does not exist.
    #[error("unknown link {}", link.0)]
    NoSuchLink {
        /// The missing link.
        link: LinkId,
    },
    /// An invalid property of a link.
    #[error("link {link}: {what}")]
    BadLink {
        /// The link's name.
        link: String,
        /// Reason for the rejection.
        what: &'static str,
    },
    /// An invalid queue of a link.
    #[error("link {link}: {what}")]
    BadQueue {
        /// The link's name.
        link: String,
        /// Reason for the rejection.
        what: queue::Error,
    },
    /// The number of directions is odd.
    #[error("{directions} directions of links; each link has two")]
    HalfLink {
        /// The number of directions.
        directions: usize,
    },
    /// An invalid packet size.
    #[error("data packets of {size}; they take 1 B to 1 MB")]
    PacketSize {
        /// The requested size.
        size: Bytes,
    },
    /// An invalid path of a session.
    #[error("a path of {hops} links; sessions take 1 to 255, 2^32 in all")]
    PathLength {
        /// The number of links in the path.
        hops: usize,
    },
    /// A header overhead beyond 10,000 B.
    #[error("per-packet overhead {bytes} is above the maximum of 10,000 B")]
    Overhead {
        /// The requested overhead.
        bytes: Bytes,
    },
}
