//! Where the paper's letter and the form that converges differ.
//!
//! | | letter | corrected | why |
//! |---|---|---|---|
//! | Figure 1 line 22 | bw ← min(bw, D) for the next cycle, bw′ unclipped | the source is a link of capacity D named −1: it limits the session if bw > D (then b ← −1), and if it limited it last it raises bw to D | else links keep an unclipped bw′ in BF for ever where D is the limit, and a session that D limited is never raised |
//! | Figure 1 line 21 | `API.Rate`(bw) | `API.Rate`(min(bw, D)) | the source may not send more than it demands |
//! | Figure 1 line 14 | D takes effect with the next cycle | a lower D lowers the rate at once | it costs nothing and frees bandwidth |
//! | Figure 2 line 5 | (C − BF)/NR, with 1 for an NR of 0 | NR + 1: the session that joins counts | it is about to share; NR = 0 divides by zero |

use super::{Kind, Packet};

mod sealed {
    pub trait Sealed {}
    impl Sealed for super::Paper {}
    impl Sealed for super::Corrected {}
}

/// A form of SLBN.
pub trait Form: sealed::Sealed + Copy + std::fmt::Debug + 'static {
    /// The rate that the cycle which `ack` ends assigns to a session that demands `demand` bit/s.
    fn assigned(ack: &Packet, demand: u64) -> u64;

    /// The Probe that begins the next cycle.
    fn next(ack: &Packet, demand: u64) -> Packet;

    /// Whether a demand below the assigned rate lowers it at once.
    const LOWERS_AT_ONCE: bool;

    /// Among how many a Join shares what the sessions limited elsewhere leave, at a link that
    /// limits `limited` sessions so far.
    fn sharers_at_join(limited: u64) -> u64;
}

/// To the letter of the figures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Paper;

/// The form that converges.
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
    //= deviation: NR = 0, where the letter divides by zero, counts as 1.
    fn sharers_at_join(limited: u64) -> u64 {
        limited.max(1)
    }
}

impl Form for Corrected {
    const LOWERS_AT_ONCE: bool = true;

    //= slbn fig. 1 line 21
    //= deviation: never more than is demanded.
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
    //= deviation: the session that joins is one of those that share.
    fn sharers_at_join(limited: u64) -> u64 {
        limited + 1
    }
}
