//! B-Neck: max-min fair rates found by messages that stop when the rates are right.
//!
//! **Problem.** A. Mozo, J. L. López-Presa and A. Fernández Anta, "B-Neck: A Distributed and
//! Quiescent Max-min Fair Algorithm", NCA 2011. Other distributed algorithms poll for ever, as no
//! one can tell that the rates are final. Here links find out that they are somebody's bottleneck
//! and say so, and wake those whose rates may change: without joins, leaves and changes of demand
//! no packet travels.
//!
//! **State.** A link of capacity C knows its sessions as *restricted* (R: it may be their
//! bottleneck) or *free* (F: held elsewhere to a rate λ that is known and below the link's share):
//!
//! ```text
//! B = (C − Σ_F λ) / |R|          F stays below it: λ < B
//! ```
//!
//! and each session's state: *idle* (λ is what the last cycle gave), *waiting for a probe* (it was
//! told to start one), *waiting for a response*. The link is a bottleneck when all of R are idle
//! at λ = B.
//!
//! | packet | way | what it does |
//! |---|---|---|
//! | `Join`, `Probe` | down | puts the session into R, gathers the least B and where it was found |
//! | `Response` | up | carries the rate; who disagrees makes it an `Update`; a bottleneck tells R |
//! | `Update` | up | probe again: your rate may change |
//! | `Bottleneck` | up | your rate is final |
//! | `SetBottleneck` | down | the rate is final: links where it is not the share move it to F |
//! | `Leave` | down | forgets the session |
//!
//! **Section map.** The paper's figure was not at hand: the tasks are reconstructed from what is
//! known of its packets, states and sets, whose names are the paper's, and held to the oracle.
//!
//! | paper | here |
//! |---|---|
//! | task `SourceNode`: API, cycles, `upd_rcv`, `bneck_rcv` | `source` |
//! | task `RouterLink`: R, F, μ, λ, B; `ProcessNewRestricted` | `link` |
//! | task `DestinationNode` | `destination` |
//! | packets | `packet` |
//! | sets ordered by rate, which the paper takes for granted | `rate_order` |
//!
//! **Deviations**, each marked where it is made: the source is a link as wide as its demand; rates
//! are told before they are final; bottlenecks confirm only sessions of R; whole bits per
//! second; capacities that change.
//!
//! Packets of a session must neither be lost nor overtake each other.

mod destination;
mod link;
mod packet;
mod rate_order;
mod source;
#[cfg(test)]
mod tests;

use base::Bandwidth;

pub use destination::BNeckDestination;
pub use link::BNeckLink;
pub use packet::{BNeckPacket, Limiter, Verdict};
pub use source::BNeckSource;

use crate::{RateController, Result, SessionId, Settings, bounds};

/// The protocol. It has no cycles to pace: the share of the rate for control packets and the
/// pauses are not used.
#[derive(Clone, Copy, Debug)]
pub struct BNeck;

impl RateController for BNeck {
    type Packet = BNeckPacket;
    type Source = BNeckSource;
    type Link = BNeckLink;
    type Destination = BNeckDestination;

    fn try_new(settings: &Settings) -> Result<Self> {
        settings.check()?;
        Ok(Self)
    }

    fn source(&self, session: SessionId, hops: u8) -> Result<BNeckSource> {
        bounds::hops(hops)?;
        Ok(BNeckSource::new(session))
    }

    fn link(&self, capacity: Bandwidth) -> Result<BNeckLink> {
        BNeckLink::try_new(capacity)
    }

    fn destination(&self, session: SessionId, hops: u8) -> BNeckDestination {
        BNeckDestination { session, hops }
    }
}
