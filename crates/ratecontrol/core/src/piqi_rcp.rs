//! PIQI-RCP, the proportional-integral queue-independent RCP.
//!
//! Source: S. Jain, D. Loguinov, "PIQI-RCP: design and analysis of rate-based explicit congestion
//! control", IEEE International Workshop on Quality of Service 2007.
//!
//! **Problem.** RCP overshoots when sessions have different round trips, because its one gain is
//! chosen for their mean and also reacts to the queue. PIQI-RCP controls by the input alone,
//! towards slightly less than the capacity so that queues drain, and limits every session's gain by
//! its own round trip.
//!
//! | [`Packet`] | fields | at links |
//! |---|---|---|
//! | downstream | lowest rate so far, round trip, send time | the rate is lowered depending on the
//! round trip, which is averaged |
//! | upstream | the same | nothing |
//!
//! **Parts of the protocol in the code** (the first two as in the readings below):
//! - The queue-independent integral control law, R(n) = R(n−1)·\[1 + κ·e(n)\] with the relative
//!   error e(n) = (γC − y(n))/(γC), every T: `link.rs`, `measure`.
//! - The proportional part, R·κᵢ·e(n), for each session's own κᵢ: `link.rs`, `visit`.
//! - Equation 35, κ ≤ κ* = T/(T + RTT), with T = 5 ms, both by SLBN §IV: `link.rs`, `bound`.
//!
//! Packets, sources, the first rate and the limits of the rate are those of [`crate::rcp`].
//!
//! Links store five values, independent of the number of sessions.
//!
//! **Readings.** The text of the paper was not available, only descriptions by others; the control
//! law is derived from those:
//! - The two parts share the bound equally, κ*/2 each. At round trips far below T, where κ* is 1,
//!   the whole bound in both would oscillate (roots 0.62 and −1.62); halves decay (±0.71). With
//!   long ones the loop is R′ = −e(t − d)/(2d), 1/2 where π/2 is the limit.
//! - The integral part, which is common to all sessions, uses κ* of the mean round trip d. Any mix
//!   is stable then: with weights w of the round trips D, R′ = −k·Σ w·R(t − D) is stable if k·Σ w·D
//!   < 1, and here it is at most 1/2.
//! - γ = 0.95.
use base::{Bandwidth, Span};

use crate::Result;
use crate::closed_loop::{ClosedLoop, MeasuringLink};
pub use crate::rcp::Packet;

mod link;

pub use link::Link;

/// The paper's T.
const INTERVAL: Span = Span::from_millis(5);

/// The protocol as a [`crate::RateController`].
pub type PiqiRcp = ClosedLoop<Link, Packet>;

impl MeasuringLink<Packet> for Link {
    const INTERVAL: Span = INTERVAL;

    fn with_capacity(capacity: Bandwidth) -> Result<Self> {
        Self::try_new(capacity)
    }
}

#[cfg(test)]
mod tests;
