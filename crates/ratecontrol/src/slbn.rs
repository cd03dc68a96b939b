//! SLBN: explicit max-min fair rates with three integers a link.
//!
//! A. Mozo, J. L. López-Presa, A. Fernández Anta, *SLBN: A Scalable Max-min Fair Algorithm for
//! Rate-Based Explicit Congestion Control*, IEEE NCA 2012.
//!
//! **Problem.** Links that know their sessions can tell each its max-min fair rate; links of a core
//! network can't know hundreds of thousands of them. SLBN moves what links know of a session into
//! the one control packet that the session has on its way at a time. A link keeps sums alone: the
//! bandwidth BF of the sessions that are limited elsewhere (set F), the number NR of those that it
//! limits itself (set R), and the number N of all. What it can give one of R is
//! max((C − BF)/NR, C/N).
//!
//! A *cycle* is a trip of the packet there and back. Each visit takes the session out of the sums
//! as the packet says that it is in them, computes the share, and puts it back: into R, lowering
//! `bw` to the share, if the link is what limits it, else into F.
//!
//! | message | way | carries | at each link |
//! |---|---|---|---|
//! | Join | down | bw″ = bw′ = 0, bw = D, B = ∅, no b | counts it in N, and in NR if bw exceeds the share |
//! | Probe | down | bw″, bw′, bw, B, b | takes it out with bw″, puts it back with bw′ |
//! | `ProbeAck` | up | the same | takes it out with bw′, puts it back with bw′ |
//! | Leave | down | the same | takes it out with bw′, and out of N |
//!
//! bw is the rate that this cycle computes, bw′ that of the cycle before, bw″ that of the one
//! before that; B is the set of links that have the session in R, a bit for each hop; b the link
//! that was added to it last, which may raise bw.
//!
//! # Paper section map
//!
//! | paper | here |
//! |---|---|
//! | §II, API.Join, Leave, Change, Rate | [`crate::Source`], [`crate::Outbox::rate`] |
//! | §II, access routers as sources | [`crate::access`] |
//! | §III, packet fields | `slbn/packet.rs` |
//! | Figure 1, source node | `slbn/source.rs` |
//! | Figure 1 lines 6, 21, 22, in both forms | `slbn/form.rs` |
//! | §III, delay between cycles; §II, 1 % for control | [`crate::Pace`], `slbn/source.rs` |
//! | Figure 2, router link | `slbn/link.rs` |
//! | §III, destination (not in the figures) | `slbn/destination.rs` |
//! | §II, unreliable channels ("classical techniques") | [`epochs`], [`crate::reliable`] |
//! | §IV, experiments | `netarium reproduce slbn` |
//!
//! # Invariants
//!
//! While no packet is lost, at every link and at any time:
//! - N is the number of sessions whose Join has passed and whose Leave has not;
//! - each of them is in F or in R; its packet says in which: bit e of B is set for R;
//! - NR = |R|;
//! - BF ≡ Σ over F of the bw′ with which each was put there, modulo 2⁶⁴ (see `slbn/link.rs`);
//! - so once all have left, all three are 0.
//!
//! # Two forms
//!
//! [`Letter`] is the paper's text. [`Slbn`] differs from it as `slbn/form.rs` lists, with reasons:
//! in short, its source limits the session like one more link, which the letter's doesn't.
//! Everything else is shared. Of small [trials](crate::trial) the letter reaches the oracle's rates
//! on all (219 of 219) where sessions want everything, on 189 of 211 where some demands are finite
//! and stay, and on 39 of 97 where such demands change. The corrected form reaches
//! them on all of 100,000: in one round of cycles in the median, four in 99.9 %, 29 at most.

mod destination;
pub mod epochs;
mod form;
mod link;
mod packet;
mod source;
#[cfg(test)]
mod tests;

use std::marker::PhantomData;

use base::Bandwidth;

use crate::{Error, Pace, RateController, Result, SessionId, Settings};

pub use destination::Destination;
pub use epochs::Epochs;
pub use form::{Corrected, Form, Paper};
pub use link::Link;
pub use packet::{Kind, Packet};
pub use source::Source;

/// The most links of a path: one bit of [`Packet::bottlenecks`] each.
pub const MOST_HOPS: u8 = 64;

/// SLBN in the form `F`.
#[derive(Clone, Copy, Debug)]
pub struct Controller<F> {
    pace: Pace,
    form: PhantomData<F>,
}

/// SLBN in the form that converges.
pub type Slbn = Controller<Corrected>;

/// SLBN to the letter of the paper.
pub type Letter = Controller<Paper>;

impl<F: Form> RateController for Controller<F> {
    type Packet = Packet;
    type Source = Source<F>;
    type Link = Link<F>;
    type Destination = Destination;

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

    fn destination(&self, session: SessionId, hops: u8) -> Destination {
        Destination::new(session, hops)
    }
}

fn check_hops(hops: u8) -> Result<()> {
    if (1..=MOST_HOPS).contains(&hops) {
        return Ok(());
    }
    Err(Error::Path { hops: hops.into(), most: MOST_HOPS.into() })
}
