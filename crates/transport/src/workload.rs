//! What applications ask of a transport: sizes, moments, patterns.

use std::sync::Arc;

use base::{Bytes, Span};

/// Amounts of data, drawn independently.
#[derive(Clone, Debug, PartialEq)]
pub enum Sizes {
    /// Always the same.
    Fixed(Bytes),
    /// Exponential with this mean.
    Exponential(Bytes),
    /// Pareto with this mean.
    Pareto {
        /// Mean of the distribution.
        mean: Bytes,
        /// Tail index in thousandths (1200 = 1.2), above 1000.
        shape_milli: u32,
        /// Larger draws are cut to this.
        limit: Option<Bytes>,
    },
    /// An empirical distribution.
    Table(Arc<SizeTable>),
}

/// Points of a cumulative distribution of sizes, linearly interpolated between them.
#[derive(Clone, Debug, PartialEq)]
pub struct SizeTable {
    /// Sizes, strictly rising, each with the share of transfers that are no larger (in parts per
    /// billion, not decreasing, the last 1,000,000,000). At least one point.
    pub points: Vec<(Bytes, u32)>,
}

/// When the transfers of a flow start.
#[derive(Clone, Debug, PartialEq)]
pub enum Arrivals {
    /// An open loop: a Poisson process with this mean time between starts.
    Poisson(Span),
    /// An open loop: this time between starts.
    Every(Span),
    /// A closed loop: each starts a think time after the one before has completed.
    Closed(Think),
}

/// Time that a user takes between an answer and the next request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Think {
    /// Always the same, perhaps zero.
    Fixed(Span),
    /// Exponential with this mean.
    Exponential(Span),
}

/// When a datagram source sends.
#[derive(Clone, Debug, PartialEq)]
pub enum Pattern {
    /// Equally spaced.
    Constant,
    /// A Poisson process of the same mean rate.
    Poisson,
    /// At the flow's rate while on, silent while off.
    OnOff {
        /// Length, or mean length, of an on period.
        on: Span,
        /// Length, or mean length, of an off period.
        off: Span,
        /// Whether periods are exponentially distributed (otherwise of constant length).
        exponential: bool,
    },
    /// Datagrams of a trace, repeated for ever: moments since the start of a period (not
    /// decreasing) and payloads. The flow's rate and packet size do not count.
    Trace(Arc<DatagramTrace>),
}

/// Datagrams of one period.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DatagramTrace {
    /// Moment since the start of the period, and payload. At least one.
    pub datagrams: Vec<(Span, Bytes)>,
    /// The trace starts again after this: at least the last moment, and positive.
    pub period: Span,
}
