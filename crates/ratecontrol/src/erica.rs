//! ERICA, explicit rate indication for congestion avoidance.
//!
//! Source: S. Kalyanaraman, R. Jain, S. Fahmy, R. Goyal, B. Vandalore, "The ERICA switch algorithm
//! for ABR traffic management in ATM networks", IEEE/ACM Transactions on Networking 8(1), 2000.
//!
//! **Problem.** Give each virtual circuit (session) at least an equal share of the link, and share
//! what some don't use among the others by the ratio of the link's load to its target.
//!
//! | [`Packet`] | fields | what links do |
//! |---|---|---|
//! | there (forward RM) | CCR, ER (at first the demand), when sent | note the session's CCR |
//! | back (backward RM) | the same | lower ER to the session's explicit rate |
//!
//! The paper's text was not at hand: the algorithm is as the authors' related reports sum it up
//! (ATM Forum 96-1172, arXiv cs/9809040), the constants below are the usual ones.
//!
//! **Where the protocol is:**
//! - The basic algorithm, load factor z = input/target, `FairShare` = target/active VCs, `VCShare`
//!   = CCR/z: `link.rs`, `measure` and `explicit_rate`.
//! - Fairness with `MaxAllocPrevious` and `MaxAllocCurrent` while z ≤ 1 + δ: the same.
//! - Fairness when a session rises from below `FairShare` (it gets that first): the same.
//! - At most one explicit rate for a session in an interval: `Entry::given`.
//! - Forward CCR and reverse ER (the latest CCR is used, feedback is written on the way back):
//!   `visit`.
//! - Counting active VCs, those not heard of decaying by a factor: `table.rs`.
//!
//! Constants: target 95 % of the capacity, δ = 0.1, averaging interval 5 ms, decay 0.9. Loads up to
//! 1 + δ are left alone, so that a link may stay 4.5 % above its capacity while nobody comes or
//! goes; this is ERICA without the queue control of ERICA+.
//!
//! Links keep five numbers and a table with a row of six for each session.
use base::{Bandwidth, Span};

use crate::closed_loop::{Bounce, ProbingSource};
use crate::{Pace, RateController, Result, SessionId, Settings};

mod link;
mod packet;
mod table;

pub use link::Link;
pub use packet::Packet;

/// The averaging interval.
const INTERVAL: Span = Span::from_millis(5);

/// The protocol.
#[derive(Clone, Copy, Debug)]
pub struct Erica {
    pace: Pace,
}

impl RateController for Erica {
    type Packet = Packet;
    type Source = ProbingSource<Packet>;
    type Link = Link;
    type Destination = Bounce;

    fn try_new(settings: &Settings) -> Result<Self> {
        settings.check()?;
        Ok(Self { pace: settings.pace() })
    }

    fn source(&self, session: SessionId, hops: u8) -> Result<Self::Source> {
        ProbingSource::try_new(session, hops, self.pace)
    }

    fn link(&self, capacity: Bandwidth) -> Result<Self::Link> {
        Link::try_new(capacity)
    }

    fn destination(&self, session: SessionId, hops: u8) -> Self::Destination {
        Bounce::new(session, hops)
    }

    fn interval(&self) -> Option<Span> {
        Some(INTERVAL)
    }
}

#[cfg(test)]
mod tests;
