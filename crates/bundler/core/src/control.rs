//! Congestion control of a whole bundle: the rate of the sendbox.

use std::{fmt, fmt::Debug, str::FromStr};

use base::{Bandwidth, Bytes, Span, Time};

use crate::constants::{Constants, Target};

pub use self::{basic_delay::BasicDelay, bbr::Bbr, copa::Copa};

mod answered;
mod basic_delay;
mod bbr;
mod copa;
mod random_loss;
#[cfg(test)]
mod tests;

/// A constant rate: for bottlenecks of known capacity, and as a reference for the other
/// controllers.
#[derive(Clone, Copy, Debug)]
pub struct Constant(Bandwidth);

impl Constant {
    /// A controller with this rate.
    pub const fn new(rate: Bandwidth) -> Self {
        Self(rate)
    }
}

impl CongestionControl for Constant {
    fn start(&mut self, _rate: Bandwidth, _seen: &Observation) {}

    fn on_tick(&mut self, _seen: &Observation) -> Bandwidth {
        self.0
    }
}

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

/// The configured congestion controller of a bundle.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Control {
    /// [`Copa`]: `copa`.
    #[default]
    Copa,
    /// [`Bbr`]: `bbr`.
    Bbr,
    /// [`BasicDelay`] of Nimbus: `basic-delay`.
    BasicDelay,
    /// [`Constant`], a configured rate: `constant:90 Mbit/s`.
    Constant(Bandwidth),
}

/// The name of a congestion controller is unknown.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown congestion control {0:?}; expected copa, basic-delay, bbr or constant:RATE")]
pub struct UnknownControl(String);

impl Control {
    /// Creates the controller, which must be started.
    pub fn build(self, constants: &Constants) -> Box<dyn CongestionControl> {
        match self {
            Self::Copa => Box::new(Copa::new(constants)),
            Self::Bbr => Box::new(Bbr::new()),
            Self::BasicDelay => Box::new(BasicDelay::new(constants.target)),
            Self::Constant(rate) => Box::new(Constant::new(rate)),
        }
    }
}

impl FromStr for Control {
    type Err = UnknownControl;

    fn from_str(text: &str) -> Result<Self, UnknownControl> {
        let unknown = || UnknownControl(text.to_owned());
        let simple = [Self::Copa, Self::BasicDelay, Self::Bbr];
        if let Some(control) = simple.into_iter().find(|control| control.to_string() == text) {
            return Ok(control);
        }
        let rate = text.strip_prefix("constant:").ok_or_else(unknown)?;
        rate.trim().parse().map(Self::Constant).map_err(|_| unknown())
    }
}

impl fmt::Display for Control {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Copa => f.write_str("copa"),
            Self::Bbr => f.write_str("bbr"),
            Self::BasicDelay => f.write_str("basic-delay"),
            Self::Constant(rate) => write!(f, "constant:{rate}"),
        }
    }
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
