//! The emulated network: links, queues, routers. The only link code in the project.
//!
//! Sans-IO: a driver injects packets at interfaces, wakes the fabric at its deadlines and takes
//! what comes out. See [`config`] for what a link can do.
#![forbid(unsafe_code)]

pub mod config;

pub use config::{
    Discipline, Jitter, JitterShape, LinkConfig, Loss, Network, NodeKind, QueueConfig, QueueLimit,
    Rate, Reorder, Trace, Wire,
};

use base::{IfaceId, NodeId};

/// Forwarding decisions, computed outside the fabric.
pub trait Forwarding {
    /// The interfaces of `node` that lead to interface `dest` at equal cost, in ascending order;
    /// empty where there is no way.
    fn next(&self, node: NodeId, dest: IfaceId) -> &[IfaceId];
}
