//! The boxes of bundles as nodes of a lab.
//!
//! A sendbox or receivebox forwards as a router does. Packets of its bundles also pass the
//! machines of crate `bundler`: the sendbox holds them back, the receivebox counts them. Both
//! drivers host them in the same way:
//!
//! ```text
//! fabric ─ packet reaches a box ─▶ Middleboxes ─ of no bundle ────────▶ Driver::forward
//!                                  └ of a bundle ─▶ SendBox, ReceiveBox ─▶ Driver::forward,
//!                                                                          Driver::originate
//! ```
//!
//! **Membership.** A packet belongs to bundle (s, r) if it passes s, every shortest path from s to
//! its destination passes r, and it did not come through an interface that leads to r. Where that
//! holds for several bundles of one sendbox, the receivebox that is farthest away has it. This
//! stands for the lists of prefixes that real boxes are configured with, correct at every moment:
//! a packet is tagged at the sendbox with its bundles, whether or not the box's process runs, and
//! the receivebox knows it by the tag.
//!
//! **Processes.** When a box's process stops, what waits in it is lost, and packets pass the node
//! as they pass a router. A new process knows nothing of the one before; its incarnation is the
//! moment at which it starts. A node that goes down takes its process with it.
//!
//! **Time.** A driver must call in the order of logical time; at the same time, events of the lab
//! come first, then arrivals at boxes, then what is due in boxes.
#![forbid(unsafe_code)]

mod bundle;
mod check;
mod driver;
mod feedback;
mod membership;
mod middleboxes;
#[cfg(test)]
mod tests;

pub use bundle::control;
/// The UDP port of both boxes.
pub use bundler::message::PORT;
pub use driver::{Contents, Driver, Ends};
pub use middleboxes::{Change, Middleboxes};

/// Why a lab can't have its bundles.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Whole paths and rates have no nodes in their middle.
    #[error("bundle `{bundle}`: packets wait at boxes only with `model = \"hop\"`")]
    Model {
        /// The first bundle.
        bundle: String,
    },
    /// Nobody says which way packets go.
    #[error("bundle `{bundle}`: boxes forward by the lab's routes, and `routing` is `\"none\"`")]
    Routing {
        /// The first bundle.
        bundle: String,
    },
    /// An encapsulated bundle needs a path for larger packets than its hosts send.
    #[error(
        "bundle `{bundle}`: its path takes packets of {path} B, and link `{link}` brings it \
         packets of {mtu} B to which encapsulation adds {overhead} B; give the link \
         `mtu = \"{room} B\"`"
    )]
    Mtu {
        /// The bundle.
        bundle: String,
        /// A link to its sendbox.
        link: String,
        /// The link's MTU.
        mtu: u64,
        /// The least MTU between the boxes.
        path: u64,
        /// What encapsulation adds.
        overhead: u64,
        /// What remains.
        room: u64,
    },
}
