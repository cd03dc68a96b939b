//! The gateways of bundles as nodes of a lab.
//!
//! A sendbox or receivebox forwards packets like a router. Packets of its bundles also pass the
//! state machines of crate `bundler`: the sendbox queues them, the receivebox counts them. Both
//! drivers host them in the same way:
//!
//! ```text
//! fabric ─ packet reaches a gateway ─▶ GatewayNodes ─ of no bundle ────────▶ Driver::forward
//!                                  └ of a bundle ─▶ SendBox, ReceiveBox ─▶ Driver::forward,
//!                                                                          Driver::originate
//! ```
//!
//! **Membership.** A packet belongs to bundle (s, r) if it passes s, every shortest path from s to
//! its destination passes r, and it did not arrive at an interface that leads to r. If that applies
//! to several bundles of one sendbox, the one with the most distant receivebox is used. This
//! replaces the lists of prefixes with which real gateways are configured, and is always correct. A
//! packet is tagged at the sendbox with its bundles, whether or not the gateway's process runs, and
//! the receivebox identifies it by the tag.
//!
//! **Processes.** When a gateway's process stops, its queued packets are lost, and packets pass the
//! node as they pass a router. A new process has no state of the previous one; its incarnation is
//! its start time. A node that goes down stops its process.
//!
//! **Time.** A driver must call in the order of lab time; at the same time, events of the lab come
//! first, then arrivals at gateways, then deadlines of gateways.
#![forbid(unsafe_code)]
#![allow(missing_docs)]

mod bundle;
mod check;
mod driver;
mod feedback;
mod gateways;
mod membership;
#[cfg(test)]
mod tests;

/// The UDP port of both gateways.
pub use bundler::message::PORT;
pub use driver::{Contents, Driver, Ends};
pub use gateways::{Change, GatewayNodes};

/// Reason why a lab cannot have its bundles.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Whole-path and rate models have no nodes on the path.
    #[error("bundle `{bundle}`: packets wait at gateways only with `model = \"hop\"`")]
    Model {
        /// The first bundle.
        bundle: String,
    },
    #[error("bundle `{bundle}`: gateways forward by the lab's routes, and `routing` is `\"none\"`")]
    Routing {
        /// The first bundle.
        bundle: String,
    },
    /// The path of an encapsulated bundle is too small for packets of its hosts.
    #[error(
        "bundle `{bundle}`: its path takes packets of {path} B, and link `{link}` brings it \
         packets of {mtu} B to which encapsulation adds {overhead} B; give the link \
         `mtu = \"{room} B\"`"
    )]
    Mtu {
        bundle: String,
        /// A link to its sendbox.
        link: String,
        mtu: u64,
        /// The smallest MTU between the gateways.
        path: u64,
        /// Bytes added by encapsulation.
        overhead: u64,
        /// The remaining bytes.
        room: u64,
    },
}
