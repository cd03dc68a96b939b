//! PIQI-RCP, the proportional-integral queue-independent RCP.
//!
//! Source: S. Jain, D. Loguinov, "PIQI-RCP: design and analysis of rate-based explicit congestion
//! control", IEEE International Workshop on Quality of Service 2007.
//!
//! **Problem.** RCP overshoots when sessions of different round trips meet, as its one gain is
//! made for their mean and reacts to the queue as well. Steer by the input alone, towards a little
//! less than the capacity so that queues drain, and bound every session's gain by its own round
//! trip.
//!
//! | [`Packet`] | fields | what links do |
//! |---|---|---|
//! | there | lowest rate so far, round trip, when sent | lower the rate by the trip, average it |
//! | back | the same | nothing |
//!
//! **Where the protocol is** (the first two as read below):
//! - The queue-independent integral law, R(n) = R(n−1)·\[1 + κ·e(n)\] with the relative error
//!   e(n) = (γC − y(n))/(γC), every T: `link.rs`, `measure`.
//! - The proportional part, R·κᵢ·e(n), for each session's own κᵢ: `link.rs`, `visit`.
//! - Equation 35, κ ≤ κ* = T/(T + RTT), with T = 5 ms, both by SLBN §IV: `link.rs`, `bound`.
//!
//! Packets, sources, the first rate and the rate's bounds are those of [`crate::rcp`].
//!
//! Links keep five numbers, whatever the sessions.
//!
//! **Readings.** No text of the paper was at hand, only what others say of it; the law is made from
//! that:
//! - The two parts share the bound evenly, κ*/2 each. At round trips far below T, where κ* is 1,
//!   the whole bound in both would oscillate (roots 0.62 and −1.62); halves decay (±0.71). With
//!   long ones the loop is R′ = −e(t − d)/(2d), 1/2 where π/2 is the limit.
//! - The integral part, one for all sessions, takes κ* of the mean round trip d. Any mix is stable
//!   so: with weights w of the round trips D, R′ = −k·Σ w·R(t − D) is stable if k·Σ w·D < 1, and
//!   here it is at most 1/2.
//! - γ = 0.95.
use base::{Bandwidth, Span};

use crate::closed_loop::{Bounce, ProbingSource};
pub use crate::rcp::Packet;
use crate::{Pace, RateController, Result, SessionId, Settings};

mod link;

pub use link::Link;

/// T.
const INTERVAL: Span = Span::from_millis(5);

/// The protocol.
#[derive(Clone, Copy, Debug)]
pub struct PiqiRcp {
    pace: Pace,
}

impl RateController for PiqiRcp {
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
