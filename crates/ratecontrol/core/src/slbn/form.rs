//! Differences between the paper's form and the corrected form, which converges.
//!
//! | | paper | corrected |
//! |---|---|---|
//! | Figure 1 line 22, a | bw ← min(bw, D), b stays | if bw > D, then bw ← D and b ← −1: the source
//! limits like a link of capacity D whose name is −1 |
//! | Figure 1 line 22, b | the same | if b = −1, bw starts at D |
//! | Figure 1 line 22, c | bw′ is the result of the links | bw′ is that result, at most D |
//! | Figure 1 line 21 | `API.Rate`(bw) | `API.Rate`(min(bw, D)) |
//! | Figure 1 line 14 | D takes effect with the next cycle | a lower D lowers the rate at once |
//! | Figure 2 line 5 | (C − BF)/NR, with 1 for an NR of 0 | (C − BF)/(NR + 1): the joining session
//! is counted |
//!
//! *a is required.* A session whose demand is below the share of the link b stays in R there
//! forever: line 19 raises bw to the share in each cycle, line 22 lowers it again, and no session
//! gets the unused part. This happens without changes of demand: a Join among many others is marked
//! by a link whose share rises above D as they settle.
//!
//! *b is required.* With b = −1 no link raises bw, so a session that was once limited by its demand
//! keeps its rate when the demand rises.
//!
//! *The rest shortens transients.* Without c a cycle passes until BF is correct; without NR + 1 a
//! link overestimates its free capacity for new sessions. 2,000 trials converge without either. The
//! other two change no packet: they keep the source within its demand.

use super::packet::{Kind, Packet};

mod sealed {
    pub trait Sealed {}
    impl Sealed for super::Paper {}
    impl Sealed for super::Corrected {}
}

/// A form of SLBN.
pub trait Form: sealed::Sealed + Copy + std::fmt::Debug + 'static {
    /// The rate that the cycle which `ack` ends assigns to a session with a demand of `demand`
    /// bit/s.
    fn assigned(ack: &Packet, demand: u64) -> u64;

    /// The Probe that starts the next cycle.
    fn next(ack: &Packet, demand: u64) -> Packet;

    /// Whether a demand below the assigned rate lowers the rate at once.
    const LOWERS_AT_ONCE: bool;

    /// Divisor of the share that a Join receives at a link which limits `limited` sessions so far:
    /// the share is the capacity less the rates of sessions limited elsewhere, divided by it.
    fn sharers_at_join(limited: u64) -> u64;
}

/// SLBN exactly as in the figures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Paper;

/// The corrected form, which converges.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Corrected;

impl Form for Paper {
    const LOWERS_AT_ONCE: bool = false;

    //= slbn fig. 1 line 21
    fn assigned(ack: &Packet, _demand: u64) -> u64 {
        ack.rate
    }

    //= slbn fig. 1 line 22
    fn next(ack: &Packet, demand: u64) -> Packet {
        let rate = ack.rate.min(demand);
        Packet { kind: Kind::Probe, before: ack.last, last: ack.rate, rate, ..*ack }
    }

    //= slbn fig. 2 line 5
    //= deviation: NR = 0 counts as 1, because the paper's form would divide by zero.
    fn sharers_at_join(limited: u64) -> u64 {
        limited.max(1)
    }
}

impl Form for Corrected {
    const LOWERS_AT_ONCE: bool = true;

    //= slbn fig. 1 line 21
    //= deviation: never more than the demand.
    fn assigned(ack: &Packet, demand: u64) -> u64 {
        ack.rate.min(demand)
    }

    //= slbn fig. 1 line 22
    //= deviation: the source limits like a link whose name is −1. bw′ is what the session now
    // sends at; bw starts at the demand only if nothing else limited it.
    fn next(ack: &Packet, demand: u64) -> Packet {
        let last = ack.rate.min(demand);
        let latest = ack.latest.filter(|_| ack.rate <= demand);
        let rate = if latest.is_none() { demand } else { last };
        Packet { kind: Kind::Probe, before: ack.last, last, rate, latest, ..*ack }
    }

    //= slbn fig. 2 line 5
    //= deviation: the joining session is one of the sharers.
    fn sharers_at_join(limited: u64) -> u64 {
        limited + 1
    }
}
