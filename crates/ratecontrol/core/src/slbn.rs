//! SLBN: explicit max-min fair rates with three integers per link.
//!
//! A. Mozo, J. L. López-Presa, A. Fernández Anta, *SLBN: A Scalable Max-min Fair Algorithm for
//! Rate-Based Explicit Congestion Control*, IEEE NCA 2012.
//!
//! **Problem.** Links with per-session state can compute each session's max-min fair rate, but
//! links of a core network cannot store hundreds of thousands of sessions. SLBN moves a session's
//! state from the links into its control packet, of which one is in flight at a time. A link stores
//! only sums: the bandwidth BF of the sessions that are limited elsewhere (set F), the number NR of
//! those that it limits itself (set R), and the number N of all. Its share for a session of R is
//! max((C − BF)/NR, C/N).
//!
//! A *cycle* is a round trip of the packet. Each visit removes the session from the sums, according
//! to the packet, computes the share, and adds the session again: to R, lowering `bw` to the share,
//! if the link limits it, otherwise to F.
//!
//! | message | direction | fields | at each link |
//! |---|---|---|---|
//! | Join | down | bw″ = bw′ = 0, bw = D, B = ∅, no b | added to N, and to NR if bw exceeds the
//! share |
//! | Probe | down | bw″, bw′, bw, B, b | removed with bw″, added with bw′ |
//! | `ProbeAck` | up | the same | removed with bw′, added with bw′ |
//! | Leave | down | the same | removed with bw′, and from N |
//!
//! bw is the rate that this cycle computes, bw′ that of the previous cycle, bw″ that of the cycle
//! before it; B is the set of links that have the session in R, one bit per hop; b is the link
//! added to it last, which may raise bw.
//!
//! # Paper section map
//!
//! | paper | here |
//! |---|---|
//! | §II, API.Join, Leave, Change, Rate | [`crate::Source`], [`crate::Outbox::rate`] |
//! | §II, access routers as sources | [`crate::access`] |
//! | §III, packet fields | [`Packet`] |
//! | Figure 1, source node | `slbn/source.rs` |
//! | Figure 1 lines 6, 21, 22, in both forms | `slbn/form.rs` |
//! | §III, delay between cycles; §II, 1 % for control | [`crate::Pace`], `slbn/source.rs` |
//! | Figure 2, router link | `slbn/link.rs` |
//! | §III, destination (not in the figures) | [`RateController::answer`] |
//! | §II, unreliable channels ("classical techniques") | [`epochs`] |
//! | §IV, experiments | `netarium reproduce slbn` |
//!
//! # Invariants
//!
//! While no packet is lost, at every link and at any time:
//! - N is the number of sessions whose Join has passed and whose Leave has not;
//! - each of them is in F or in R, as its packet states: bit e of B is set for R;
//! - NR = |R|;
//! - BF ≡ Σ over F of the bw′ with which each was added, modulo 2⁶⁴ (see `slbn/link.rs`);
//! - so once all have left, all three are 0.
//!
//! # Two forms
//!
//! [`PaperForm`] is the paper's text. [`Slbn`] differs from it as listed, with reasons, in
//! `slbn/form.rs`: in short, its source limits the session like an additional link; the paper's
//! source does not. Everything else is common. In small [trials](crate::trial) the paper's form
//! reaches the oracle's rates in 219 of 219 trials with unlimited demands, 189 of 211 with some
//! finite, constant demands, and 39 of 97 with changing finite demands. The corrected form reaches
//! them in 100,000 of 100,000, after 1 round of cycles (median), 4 (99.9 %), 29 (maximum).

pub mod epochs;
mod form;
mod link;
mod packet;
mod source;
#[cfg(test)]
mod tests;

use std::marker::PhantomData;

use base::Bandwidth;

use crate::{Pace, RateController, Result, SessionId, Settings};

pub use epochs::Epochs;
pub use form::{Corrected, Form, Paper};
pub use link::Link;
use packet::check_hops;
pub use packet::{Kind, MAX_HOPS, Packet};
pub use source::Source;

/// SLBN in the form `F`.
#[derive(Clone, Copy, Debug)]
pub struct Controller<F> {
    pace: Pace,
    form: PhantomData<F>,
}

/// SLBN in the corrected form, which converges.
pub type Slbn = Controller<Corrected>;

/// SLBN exactly as in the paper.
pub type PaperForm = Controller<Paper>;

impl<F: Form> RateController for Controller<F> {
    type Packet = Packet;
    type Source = Source<F>;
    type Link = Link<F>;

    fn try_new(settings: &Settings) -> Result<Self> {
        settings.check()?;
        Ok(Self { pace: settings.pace(), form: PhantomData })
    }

    fn source(&self, session: SessionId, hops: u8) -> Result<Source<F>> {
        check_hops(hops)?;
        Ok(Source::new(session, self.pace))
    }

    fn link(&self, capacity: Bandwidth) -> Result<Link<F>> {
        Link::try_new(capacity)
    }

    /// "Drops Leave packets, and bounces Join and Probe packets back" (§III).
    fn answer(packet: Packet) -> Option<Packet> {
        matches!(packet.kind, Kind::Join | Kind::Probe)
            .then_some(Packet { kind: Kind::ProbeAck, ..packet })
    }
}
