//! Types that all other crates share: quantities with units, identifiers, random streams keyed by
//! element, histograms, statistics, and the [`StateMachine`] trait.
#![forbid(unsafe_code)]

pub mod fnv;
mod histogram;
mod id;
pub mod leb128;
mod metric;
mod quantity;
mod random;
mod state_machine;
pub mod statistics;

pub use histogram::{Distribution, Histogram};
pub use id::{AgentId, Direction, FlowId, IfaceId, LinkId, MirrorId, NodeId, ProgramId};
pub use metric::{Metric, MetricValue};
pub use quantity::{Bandwidth, Bytes, QuantityError, Ratio, Span, Time};
pub use random::RandomStream;
pub use state_machine::StateMachine;
