//! Error handling of an UPDATE (RFC 7606), from its bytes alone. Whether the neighbour is internal
//! or external is unknown, so attributes that only some neighbours may send are accepted.

use crate::Error;
use crate::attribute::code;

pub use crate::update::judge;

/// Required action, weakest first (RFC 7606 §2).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Action {
    /// The message is valid.
    Accept,
    /// Ignore the attribute.
    AttributeDiscard,
    /// Treat the announced routes as withdrawn.
    TreatAsWithdraw,
    /// Ignore the family from now on; a router that cannot do this resets the session.
    FamilyDisable,
    /// Send a NOTIFICATION and end the session.
    SessionReset,
}

/// One problem of an UPDATE.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Problem {
    /// Required action for this problem.
    pub action: Action,
    /// Type code of the attribute with the problem, if it is in an attribute.
    pub attribute: Option<u8>,
    /// Reason, with its offset in the body.
    pub error: Error,
}

/// Required action and its reasons.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verdict {
    /// The strongest action of all problems (RFC 7606 §3 h).
    pub action: Action,
    /// Problems in the order of discovery: at most [`Verdict::LIMIT`].
    pub problems: Vec<Problem>,
}

impl Verdict {
    /// Maximum number of recorded problems.
    pub const LIMIT: usize = 256;
}

/// Required action for a malformed value (RFC 7606 §7; RFC 7311 §3 for `AIGP`).
pub(crate) const fn of_malformed(attribute: u8) -> Action {
    match attribute {
        code::ATOMIC_AGGREGATE
        | code::AGGREGATOR
        | code::AS4_PATH
        | code::AS4_AGGREGATOR
        | code::AIGP => Action::AttributeDiscard,
        code::MP_REACH_NLRI | code::MP_UNREACH_NLRI => Action::FamilyDisable,
        _ => Action::TreatAsWithdraw,
    }
}

#[cfg(test)]
mod tests;
