//! BFYZ: distributed max-min fairness with a record of every session at every link.
//!
//! **Problem.** Y. Bartal, M. Farach-Colton, S. Yooseph and L. Zhang, "Fast, Fair and Frugal
//! Bandwidth Allocation in ATM Networks", Algorithmica 33(3), 2002. Sessions are to reach their
//! max-min fair rates in as many round trips as the fastest algorithms need, while a link does
//! constant work for each resource-management cell and keeps constant space for each session:
//! "frugal". (Earlier algorithms, as Charny, Clark and Jain's of 1995, go through all sessions of
//! the link for each cell.)
//!
//! **State.** A link of capacity C knows of each of its N sessions either the rate that something
//! else holds it to (the session is *saturated*: it can't take more) or that the link itself
//! limits it. With S the sum of the saturated sessions' rates and U the number of the others, it
//! offers a session, itself counted among the others,
//!
//! ```text
//! offer = max((C − S) / U, C / N)
//! ```
//!
//! | packet | on its way down | on its way up |
//! |---|---|---|
//! | `Join` | enters the session, limited here; lowers the rate to the offer | becomes `Ack` |
//! | `Probe` | lowers the rate to the offer | becomes `Ack` |
//! | `Ack` | – | lowers the rate to the offer; below it, the session is saturated at that rate |
//! | `Leave` | removes the session | – |
//!
//! Cycles follow one another as long as the session lives, spaced so that they take their share
//! of its rate ([`crate::Pace`]); that is how everything stale is put right.
//!
//! **Section map.** The text of the paper was not at hand; this follows its abstract and what
//! papers that compare with it say about it.
//!
//! | paper | here |
//! |---|---|
//! | resource-management cells, a constant fraction of what a source sends | `source` |
//! | O(1) computation for a cell, O(1) space for a session; the fair share of the rest | `link` |
//! | cells turned round at the destination | `destination` |
//! | fields of a cell | `packet` |
//! | minimum cell rates (its second half) | none: the seam has no minimum rates |
//!
//! **Deviations**, each marked where it is made: what has not come back is not recorded; a session
//! that gets what it was offered stays limited; no offer is below C/N; whole bits per second.

mod destination;
mod link;
mod packet;
mod source;
#[cfg(test)]
mod tests;

use base::Bandwidth;

pub use destination::BfyzDestination;
pub use link::BfyzLink;
pub use packet::{BfyzPacket, Kind};
pub use source::BfyzSource;

use crate::{Pace, RateController, Result, SessionId, Settings, bounds};

/// The protocol.
#[derive(Clone, Copy, Debug)]
pub struct Bfyz {
    pace: Pace,
}

impl RateController for Bfyz {
    type Packet = BfyzPacket;
    type Source = BfyzSource;
    type Link = BfyzLink;
    type Destination = BfyzDestination;

    fn try_new(settings: &Settings) -> Result<Self> {
        settings.check()?;
        Ok(Self { pace: settings.pace() })
    }

    fn source(&self, session: SessionId, hops: u8) -> Result<BfyzSource> {
        bounds::hops(hops)?;
        Ok(BfyzSource::new(session, self.pace))
    }

    fn link(&self, capacity: Bandwidth) -> Result<BfyzLink> {
        BfyzLink::try_new(capacity)
    }

    fn destination(&self, session: SessionId, hops: u8) -> BfyzDestination {
        BfyzDestination { session, hops }
    }
}
