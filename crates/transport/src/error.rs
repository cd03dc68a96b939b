//! What is wrong with a description of traffic.

use base::Span;

/// Why traffic can't be described so.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// No congestion control has this name.
    #[error("there is no congestion control `{name}`; there are reno, cubic, bbr and bbr3")]
    UnknownControl {
        /// What was read.
        name: String,
    },
    /// A table or trace without a line.
    #[error("there is no entry")]
    Empty,
    /// A table's sizes must rise.
    #[error("entry {entry}: the size is no larger than the one before")]
    SizeNotRising {
        /// Counted from 1.
        entry: usize,
    },
    /// A table's shares must not fall.
    #[error("entry {entry}: the cumulative share is smaller than the one before")]
    ShareFalls {
        /// Counted from 1.
        entry: usize,
    },
    /// A table's last share must be the whole.
    #[error("the last cumulative share is {} %, not 100 %", f64::from(*.parts_per_billion) / 1e7)]
    ShareNotWhole {
        /// The last share, in parts of 10⁹.
        parts_per_billion: u32,
    },
    /// All transfers would be empty.
    #[error("the only size is 0 B")]
    NoSize,
    /// A trace's moments must not fall.
    #[error("entry {entry}: the moment is before the one of the entry before")]
    MomentFalls {
        /// Counted from 1.
        entry: usize,
    },
    /// A datagram that no UDP packet carries.
    #[error("entry {entry}: a datagram carries 1 B to 65507 B, not {size} B")]
    DatagramSize {
        /// Counted from 1.
        entry: usize,
        /// Its payload in bytes.
        size: u64,
    },
    /// A trace that would repeat before its end, or at once.
    #[error("the trace repeats after {period}, but its last datagram is sent at {last}")]
    PeriodTooShort {
        /// After which it was to repeat.
        period: Span,
        /// Moment of the last datagram.
        last: Span,
    },
}
