//! BFYZ: distributed max-min fairness with a record per session at each link.
//!
//! **Problem.** Y. Bartal, M. Farach-Colton, S. Yooseph and L. Zhang, "Fast, Fair and Frugal
//! Bandwidth Allocation in ATM Networks", Algorithmica 33(3), 2002. Sessions should reach their
//! max-min fair rates in as many round trips as with the fastest algorithms, while a link does
//! constant work per resource-management cell and needs constant space per session: "frugal".
//! (Earlier algorithms, such as that of Charny, Clark and Jain, 1995, iterate over all sessions of
//! the link for each cell.)
//!
//! **State.** A link of capacity C stores for each of its N sessions either the rate to which
//! another constraint limits it (the session is *saturated*), or that this link limits it. With S
//! the sum of the saturated sessions' rates and U the number of the others, its offer to a session,
//! which itself counts as one of the others, is
//!
//! ```text
//! offer = max((C − S) / U, C / N)
//! ```
//!
//! | packet | downstream | upstream |
//! |---|---|---|
//! | `Join` | adds the session as limited here; lowers the rate to the offer | becomes `Ack` |
//! | `Probe` | lowers the rate to the offer | becomes `Ack` |
//! | `Ack` | – | lowers the rate to the offer; below it, the session is saturated at that rate |
//! | `Leave` | removes the session | – |
//!
//! Cycles follow each other during the lifetime of the session, spaced so that they take their
//! share of its rate ([`crate::Pace`]); they correct all outdated state.
//!
//! **Section map.** The text of the paper was not available; this follows its abstract and the
//! descriptions in papers that compare with it.
//!
//! | paper | here |
//! |---|---|
//! | resource-management cells, a constant fraction of what a source sends | `source` |
//! | O(1) computation for a cell, O(1) space for a session; the fair share of the rest | `link` |
//! | cells returned by the destination | `destination` |
//! | fields of a cell | [`BfyzPacket`] |
//! | minimum cell rates (its second half) | none: the interface has no minimum rates |
//!
//! **Deviations**, each marked in the code: only returned cells change records; a session that gets
//! exactly its offer stays limited; no offer is below C/N; rates are whole bit/s.

mod link;
mod source;
#[cfg(test)]
mod tests;

use base::Bandwidth;

pub use link::BfyzLink;
pub use source::BfyzSource;

use crate::{Pace, RateController, Result, SessionId, Settings, bounds};

/// Type of a cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// First cycle, downstream.
    Join,
    /// Later cycle, downstream.
    Probe,
    /// Upstream.
    Ack,
    /// The session has ended.
    Leave,
}

/// A control packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BfyzPacket {
    /// Type of the cell.
    pub kind: Kind,
    /// Downstream the minimum of the demand and the offers so far, upstream the session's rate, in
    /// bit/s.
    pub rate: u64,
}

/// The protocol as a [`RateController`].
#[derive(Clone, Copy, Debug)]
pub struct Bfyz {
    pace: Pace,
}

impl RateController for Bfyz {
    type Packet = BfyzPacket;
    type Source = BfyzSource;
    type Link = BfyzLink;

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

    /// Returns cells.
    fn answer(packet: BfyzPacket) -> Option<BfyzPacket> {
        matches!(packet.kind, Kind::Join | Kind::Probe)
            .then_some(BfyzPacket { kind: Kind::Ack, ..packet })
    }
}
