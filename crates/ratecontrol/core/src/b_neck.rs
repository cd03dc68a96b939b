//! B-Neck: max-min fair rates by messages that stop when the rates are correct.
//!
//! **Problem.** A. Mozo, J. L. López-Presa and A. Fernández Anta, "B-Neck: A Distributed and
//! Quiescent Max-min Fair Algorithm", NCA 2011. Other distributed algorithms poll forever, because
//! no node can detect that the rates are final. Here links detect that they are a session's
//! bottleneck and report it, and notify sessions whose rates may change: without joins, leaves and
//! changes of demand no packets are sent.
//!
//! **State.** A link of capacity C has its sessions in two sets: *restricted* (R: it may be their
//! bottleneck) or *free* (F: restricted elsewhere to a known rate λ below the link's share):
//!
//! ```text
//! B = (C − Σ_F λ) / |R|          F stays below it: λ < B
//! ```
//!
//! and for each session a state: *idle* (λ is the result of the last cycle), *waiting for a probe*
//! (one was requested), *waiting for a response*. The link is a bottleneck when all sessions of R
//! are idle at λ = B.
//!
//! | packet | direction | effect |
//! |---|---|---|
//! | `Join`, `Probe` | down | puts the session into R, collects the least B and its link |
//! | `Response` | up | carries the rate; a link that disagrees makes it an `Update`; a bottleneck
//! notifies R |
//! | `Update` | up | probe again: the rate may change |
//! | `Bottleneck` | up | the rate is final |
//! | `SetBottleneck` | down | the rate is final: links where it is below the share move the session
//! to F |
//! | `Leave` | down | removes the session |
//!
//! **Section map.** The paper's figure was not available: the tasks are reconstructed from its
//! packets, states and sets, whose names are the paper's, and verified against the oracle.
//!
//! | paper | here |
//! |---|---|
//! | task `SourceNode`: API, cycles, `upd_rcv`, `bneck_rcv` | `source` |
//! | task `RouterLink`: R, F, μ, λ, B; `ProcessNewRestricted` | `link` |
//! | task `DestinationNode` | `destination` |
//! | packets | `packet` |
//! | sets ordered by rate, which the paper takes for granted | `rate_order` |
//!
//! **Deviations**, each marked in the code: the source is a link with the capacity of its demand;
//! rates are assigned before they are final; bottlenecks confirm only sessions of R; rates are
//! whole bit/s; capacities can change.
//!
//! Packets of a session must neither be lost nor reordered.

mod link;
mod packet;
mod rate_order;
mod source;
#[cfg(test)]
mod tests;

use base::Bandwidth;

pub use link::BNeckLink;
pub use packet::{BNeckPacket, Limiter, Verdict};
pub use source::BNeckSource;

use crate::{RateController, Result, SessionId, Settings, bounds};

/// The protocol. It has no periodic cycles: the share of the rate for control packets and the
/// pauses are not used.
#[derive(Clone, Copy, Debug)]
pub struct BNeck;

impl RateController for BNeck {
    type Packet = BNeckPacket;
    type Source = BNeckSource;
    type Link = BNeckLink;

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

    /// Answers probes, and packets that no link has confirmed.
    fn answer(packet: BNeckPacket) -> Option<BNeckPacket> {
        match packet {
            BNeckPacket::Join { rate, limiter } | BNeckPacket::Probe { rate, limiter } => {
                Some(BNeckPacket::Response { verdict: Verdict::Response, rate, limiter })
            }
            BNeckPacket::SetBottleneck { confirmed: false } => Some(BNeckPacket::Update),
            _ => None,
        }
    }
}
