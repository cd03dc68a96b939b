//! Detects whether cross traffic at the bottleneck is elastic, that is, uses less when capacity is
//! scarce and takes over when it is free: a bundle that keeps queues short would starve beside it.
//!
//! Based on Goyal et al., *Elasticity Detection: A Building Block for Internet Congestion Control*
//! (Nimbus), SIGCOMM 2022. The bundle's rate is pulsed; elastic cross traffic responds at the
//! frequency of the pulses, inelastic traffic does not.
//!
//! **Method.** While the bottleneck has a queue, packets sent at rate S arrive at R = µ·S/(S +
//! z), so S/R = (S + z)/µ: the ratio y = S/R shows the cross traffic z, up to the capacity µ. If
//! z does not respond to the pulses, y contains them as S does, scaled by 1/µ only: with the
//! same real factor at the frequency of the pulses and at twice that frequency. An ACK-clocked
//! flow of round trip T that leaves the bundle the share φ of the capacity changes this factor
//! to (1 - e)/(1 - φ·e) with e = exp(-i·ω·T): it is no longer real, or differs at both
//! frequencies, or is almost zero.
//!
//! //= deviation: Nimbus looks for a peak of z = µ·y - S, in which a wrong µ leaves the bundle's
//! own pulses. Here the factor is fitted, within the uncertainty of µ, and only the residual of the
//! fit counts. Without a queue R = S contains no information on z; such samples are omitted.
//!
//! //= deviation: each bundle randomly selects the frequency of its pulses when control starts,
//! among those at which no other signal is detected, so that another bundle's pulses do not count
//! as a response.

#[cfg(test)]
mod bench;
mod detector;
mod pulse;
mod spectrum;
#[cfg(test)]
mod tests;

use base::{Bandwidth, Span, Time};

pub use detector::Detector;

/// Measurement of the bottleneck from the newest acknowledged packets, over 20 to 40 ms.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CrossSample {
    /// Send time of the newest of these packets.
    pub at: Time,
    /// Their send rate.
    pub send_rate: Bandwidth,
    /// Their receive rate.
    pub receive_rate: Bandwidth,
    /// Their queueing delay in the network: the delay minus the recent minimum.
    pub queueing: Span,
    /// Target queueing delay of the controller.
    pub target: Span,
    /// Estimated capacity of the path, correct within a factor of about two.
    pub capacity: Bandwidth,
    /// Whether the rate limited the packets when they were sent, so that its pulses
    /// reached the network.
    pub limited: bool,
}
