//! Errors in a description of traffic.

use base::Span;

/// An error in a description of traffic.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A table or trace has no entry.
    #[error("it has no entries")]
    Empty,
    /// A table's sizes do not rise.
    #[error("entry {entry}: the size is not above that of the previous entry")]
    SizeNotRising { entry: usize },
    /// A table's shares fall.
    #[error("entry {entry}: the cumulative share is below that of the previous entry")]
    ShareFalls { entry: usize },
    /// A table's last share is not 100 %.
    #[error("the last cumulative share is {} %, not 100 %", f64::from(*.parts_per_billion) / 1e7)]
    ShareNotWhole {
        /// The last share, in parts of 10⁹.
        parts_per_billion: u32,
    },
    /// All transfers would be empty.
    #[error("the only size is 0 B")]
    NoSize,
    /// A trace's times fall.
    #[error("entry {entry}: the time is before that of the previous entry")]
    MomentFalls { entry: usize },
    /// A datagram size that UDP does not support.
    #[error("entry {entry}: a datagram carries 1 B to 65507 B, not {size} B")]
    DatagramSize { entry: usize, size: u64 },
    /// A trace's period is zero or ends before its last datagram.
    #[error("the trace repeats after {period}, but its last datagram is sent at {last}")]
    PeriodTooShort { period: Span, last: Span },
}
