//! Congestion control of a whole bundle: the rate of the sendbox.

use std::fmt::Debug;

use base::{Bandwidth, Bytes, Span, Time};

use crate::constants::Target;

pub use self::{basic_delay::BasicDelay, bbr::Bbr, copa::Copa};
pub use controller::{Constant, Control, UnknownControl};

mod answered;
mod basic_delay;
mod bbr;
mod controller;
mod copa;
mod random_loss;
#[cfg(test)]
mod tests;

/// The state of a bundle's path at one tick of the control loop.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Observation {
    /// Time of the tick.
    pub now: Time,
    /// Time since the previous tick.
    pub elapsed: Span,
    /// Round trip of the newest acknowledged epochs, averaged over about one round trip.
    pub rtt: Span,
    /// Minimum round trip of the recent past.
    pub min_rtt: Span,
    /// Queueing delay in the network towards the receivebox: the one-way delay of the newest epochs
    /// minus the recent minimum. Queues on the return path do not count.
    pub queueing: Span,
    /// The part of it that is a persistent queue.
    pub standing: Span,
    /// Standard deviation of the per-packet delay without queues: jitter.
    pub noise: Span,
    /// Rate at which the sendbox sent the packets of the newest acknowledged epochs, over
    /// one round trip.
    pub send_rate: Bandwidth,
    /// Rate at which the receivebox received the same packets.
    pub receive_rate: Bandwidth,
    /// Bytes of these packets that were not received.
    pub lost: Bytes,
    /// Estimated capacity of the path.
    pub capacity: Bandwidth,
    /// Bytes queued at the sendbox.
    pub backlog: Bytes,
    /// Weight of the bundle's share at a common bottleneck, at least 1.
    pub weight: u32,
    /// Whether the rate limited the packets of these epochs. Otherwise the rates are those of the
    /// site's traffic, not of the network.
    pub limited: bool,
    /// Whether an acknowledgement was received since the previous tick.
    pub fresh: bool,
}

/// A congestion controller of a bundle.
pub trait CongestionControl: Debug + Send {
    /// Starts or restarts at the rate that the path carried.
    fn start(&mut self, rate: Bandwidth, seen: &Observation);
    /// The rate from this tick on. The caller limits it to the bundle's floor and ceiling, and
    /// calls [`Self::start`] when it permanently overrides the rate.
    fn on_tick(&mut self, seen: &Observation) -> Bandwidth;
}

/// Bits of a packet of full size.
const PACKET_BITS: f64 = 12_000.0;

/// The rate in bit/s, the unit of the controllers.
fn bits(rate: Bandwidth) -> f64 {
    rate.bits_per_sec().max(1) as f64
}

/// Converts bit/s to a bandwidth: at least one packet in 10 s, at most 100 Tbit/s.
pub(crate) fn bandwidth(bits: f64) -> Bandwidth {
    let bits = if bits >= 1_200.0 { bits.min(1e14) } else { 1_200.0 };
    Bandwidth::from_bits_per_sec(bits as u64)
}

/// Maximum of the minimum target in seconds.
const MAX_MIN_DELAY: f64 = 0.1;

impl Target {
    /// Target queueing delay in the network, in seconds.
    pub(crate) fn delay(&self, seen: &Observation, rate: f64) -> f64 {
        let share = self.rtt_share * seen.min_rtt.as_secs_f64();
        share.min(self.max_delay).max(self.min_delay(rate))
    }

    /// Time of a few packets at `rate`.
    fn min_delay(&self, rate: f64) -> f64 {
        (self.min_packets * PACKET_BITS / rate).min(MAX_MIN_DELAY)
    }
}
