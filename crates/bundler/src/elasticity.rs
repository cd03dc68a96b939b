//! Whether the traffic that shares the bottleneck is elastic: whether it gives way and takes over
//! as capacity comes and goes, so that a bundle that keeps queues short would starve beside it.
//!
//! After Goyal et al., *Elasticity Detection: A Building Block for Internet Congestion Control*
//! (Nimbus), SIGCOMM 2022. The bundle's rate is pulsed; elastic cross traffic answers at the
//! pulses' frequency, inelastic traffic does not.
//!
//! **What can be seen.** While the bottleneck holds a queue, packets sent at rate S arrive at
//! R = µ·S/(S + z), so that S/R = (S + z)/µ: the cross traffic z shows in the ratio y = S/R, up to
//! the capacity µ. If z does not answer the pulses, y carries them as S does, scaled by 1/µ alone:
//! the same real factor at the pulses' frequency and at its double. An ACK-clocked flow of round
//! trip T that leaves the bundle the share φ of the capacity turns this factor into
//! (1 - e)/(1 - φ·e) with e = exp(-i·ω·T): no longer real, or not the same at both frequencies, or
//! next to nothing.
//!
//! //= deviation: Nimbus looks for a peak of z = µ·y - S, which a wrong µ fills with the bundle's
//! own pulses. Here the factor is fitted, within what the estimate of µ allows, and only what the
//! fit leaves over counts. Without a queue R = S says nothing of z; such samples are left out.
//!
//! //= deviation: each bundle draws its pulses' frequency anew for each regime, out of those at
//! which nothing else is heard, so that another bundle's pulses are no answer to its own.

#[cfg(test)]
mod bench;
mod detector;
mod pulse;
mod spectrum;
#[cfg(test)]
mod tests;

use base::{Bandwidth, Span, Time};

pub use detector::Detector;

/// Which law sets the rate that the pulses are added to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Regime {
    /// One that keeps the network's queue short.
    Delay,
    /// The standing queue at the sendbox ([`crate::pass_through`]).
    PassThrough,
}

/// What the cross traffic is, as far as known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The bundle's pulses have not been seen for long enough.
    Unknown,
    /// It does not answer, or there is none.
    Inelastic,
    /// It answers the pulses.
    Elastic,
}

/// What the newest acknowledged packets, 20 to 40 ms worth of them, tell of the bottleneck.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CrossSample {
    /// When the newest of these packets was sent.
    pub at: Time,
    /// The rate at which they were sent.
    pub send_rate: Bandwidth,
    /// The rate at which they arrived.
    pub receive_rate: Bandwidth,
    /// How long they waited in the network, beyond the least of the recent past.
    pub queueing: Span,
    /// The queueing that the law in force aims at; zero if it aims at none.
    pub target: Span,
    /// The path's capacity, right within a factor of two or so.
    pub capacity: Bandwidth,
    /// Whether the rate held packets back when they were sent, so that its pulses reached the
    /// network.
    pub limited: bool,
}
