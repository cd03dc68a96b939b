//! What every other crate speaks: quantities that carry their unit in the type, identifiers,
//! random streams keyed by element, histograms, the [`Machine`] trait that runs on both clocks, and
//! the order of events on both ([`Rank`]).
#![forbid(unsafe_code)]

mod histogram;
mod id;
mod machine;
mod order;
mod quantity;
mod random;

pub use histogram::{Distribution, Histogram};
pub use id::{Direction, FlowId, IfaceId, LinkId, MirrorId, NodeId, ProgramId};
pub use machine::{Machine, WakeReason};
pub use order::{Moment, Rank, Timeline};
pub use quantity::{Bandwidth, Bytes, QuantityError, Ratio, Span, Time};
pub use random::RandomStream;
