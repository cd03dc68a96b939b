//! ERICA, explicit rate indication for congestion avoidance.
//!
//! Source: S. Kalyanaraman, R. Jain, S. Fahmy, R. Goyal, B. Vandalore, "The ERICA switch algorithm
//! for ABR traffic management in ATM networks", IEEE/ACM Transactions on Networking 8(1), 2000.
//!
//! **Problem.** Give each virtual circuit (session) at least an equal share of the link, and divide
//! the unused part among the others by the ratio of the link's load to its target.
//!
//! | [`Packet`] | fields | at links |
//! |---|---|---|
//! | downstream (forward RM) | CCR, ER (at first the demand), send time | the session's CCR is
//! recorded |
//! | upstream (backward RM) | the same | ER is lowered to the session's explicit rate |
//!
//! The paper's text was not available: the algorithm follows the summaries in the authors' related
//! reports (ATM Forum 96-1172, arXiv cs/9809040); the constants below are the usual ones.
//!
//! **Parts of the protocol in the code:**
//! - The basic algorithm, load factor z = input/target, `FairShare` = target/active VCs, `VCShare`
//!   = CCR/z: `link.rs`, `measure` and `explicit_rate`.
//! - Fairness with `MaxAllocPrevious` and `MaxAllocCurrent` while z ≤ 1 + δ: the same.
//! - Fairness when a session rises from below `FairShare` (it gets that first): the same.
//! - At most one explicit rate for a session in an interval: `Entry::given`.
//! - Forward CCR and reverse ER (the latest CCR is used, feedback is written on the way back):
//!   `visit`.
//! - Counting active VCs, silent ones decaying by a factor: `table.rs`.
//!
//! Constants: target 95 % of the capacity, δ = 0.1, averaging interval 5 ms, decay 0.9. Loads up to
//! 1 + δ cause no change, so a link may stay 4.5 % above its capacity while no session joins or
//! leaves; this is ERICA without the queue control of ERICA+.
//!
//! Links store five values, and a table with six values per session.
use base::{Bandwidth, Span, Time};

use crate::Result;
use crate::closed_loop::{Asks, ClosedLoop, MeasuringLink, Probe};

mod link;
mod table;

pub use link::Link;

/// Content of ERICA's packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packet {
    /// CCR: current rate of the session in bit/s; 0 before its first rate.
    pub current: u64,
    /// ER: the least rate that links gave so far, in bit/s; at first the session's demand.
    pub explicit: u64,
    /// Time at which the source sent it.
    pub sent: Time,
}

impl Probe for Packet {
    fn new(now: Time, asks: &Asks) -> Self {
        Self { current: asks.current, explicit: asks.demand, sent: now }
    }

    fn sent(&self) -> Time {
        self.sent
    }

    fn rate(&self) -> u64 {
        self.explicit
    }
}

/// The averaging interval.
const INTERVAL: Span = Span::from_millis(5);

/// The protocol as a [`crate::RateController`].
pub type Erica = ClosedLoop<Link, Packet>;

impl MeasuringLink<Packet> for Link {
    const INTERVAL: Span = INTERVAL;

    fn with_capacity(capacity: Bandwidth) -> Result<Self> {
        Self::try_new(capacity)
    }
}

#[cfg(test)]
mod tests;
