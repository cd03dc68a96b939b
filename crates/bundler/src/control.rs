//! Congestion control of a whole bundle: how fast the sendbox may send.

use std::{fmt, fmt::Debug, str::FromStr};

use base::{Bandwidth, Bytes, Span, Time};

pub use self::{basic_delay::BasicDelay, bbr::Bbr, constant::Constant, copa::Copa};

mod answered;
mod basic_delay;
mod bbr;
mod constant;
mod copa;
mod random_loss;
#[cfg(test)]
mod tests;

/// What is known of a bundle's path at one tick of the control loop.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Observation {
    /// When.
    pub now: Time,
    /// Since the tick before.
    pub elapsed: Span,
    /// Round trip of the newest acknowledged epochs, averaged over about one round trip.
    pub rtt: Span,
    /// The least round trip of the recent past.
    pub min_rtt: Span,
    /// How long packets wait in the network on their way to the receivebox: their one-way delay
    /// beyond the least of the recent past, of the newest epochs. Queues on the way back do not
    /// count.
    pub queueing: Span,
    /// The least of it among these epochs.
    pub standing: Span,
    /// Standard deviation of the delay from packet to packet that no queue explains: jitter.
    pub noise: Span,
    /// Rate at which the packets of the newest acknowledged epochs, one round trip's worth, left
    /// the sendbox.
    pub send_rate: Bandwidth,
    /// Rate at which the same packets reached the receivebox.
    pub receive_rate: Bandwidth,
    /// Of these packets, bytes that did not arrive.
    pub lost: Bytes,
    /// The path's capacity, as far as it has shown itself.
    pub capacity: Bandwidth,
    /// Bytes that wait at the sendbox.
    pub backlog: Bytes,
    /// The bundle's share beside others at the same bottleneck, at least 1.
    pub weight: u32,
    /// Whether the rate held packets back while the packets of these epochs were sent. Otherwise
    /// the rates say what the site offers, not what the network takes.
    pub limited: bool,
    /// Whether an acknowledgement has come since the tick before.
    pub fresh: bool,
}

/// A law that sets the rate of a bundle.
pub trait CongestionControl: Debug + Send {
    /// Starts from this rate: what the path carried when control began, or began again.
    fn start(&mut self, rate: Bandwidth, seen: &Observation);
    /// The rate from this tick on. The caller keeps it between the bundle's floor and ceiling and
    /// tells by [`Self::start`] where it overruled it for good.
    fn on_tick(&mut self, seen: &Observation) -> Bandwidth;
}

/// Which law sets the rate of a bundle, as it is configured.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Control {
    /// [`Copa`]: `copa`.
    #[default]
    Copa,
    /// [`Bbr`]: `bbr`.
    Bbr,
    /// [`BasicDelay`], Nimbus' law: `basic-delay`.
    BasicDelay,
    /// [`Constant`], a rate that somebody has chosen: `constant:90 Mbit/s`.
    Constant(Bandwidth),
}

/// A law of this name is not known.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no congestion control {0:?}: copa, basic-delay, bbr or constant:RATE")]
pub struct UnknownControl(String);

impl Control {
    /// The law, to be started.
    pub fn build(self) -> Box<dyn CongestionControl> {
        match self {
            Self::Copa => Box::new(Copa::new()),
            Self::Bbr => Box::new(Bbr::new()),
            Self::BasicDelay => Box::new(BasicDelay::new()),
            Self::Constant(rate) => Box::new(Constant::new(rate)),
        }
    }
}

impl FromStr for Control {
    type Err = UnknownControl;

    fn from_str(text: &str) -> Result<Self, UnknownControl> {
        let unknown = || UnknownControl(text.to_owned());
        let simple = [Self::Copa, Self::BasicDelay, Self::Bbr];
        if let Some(law) = simple.into_iter().find(|law| law.to_string() == text) {
            return Ok(law);
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

/// A law's own arithmetic is in bits per second.
fn bits(rate: Bandwidth) -> f64 {
    rate.bits_per_sec().max(1) as f64
}

/// Back from it: at least a packet in ten seconds, at most 100 Tbit/s, whatever came out.
pub(crate) fn bandwidth(bits: f64) -> Bandwidth {
    let bits = if bits >= 1_200.0 { bits.min(1e14) } else { 1_200.0 };
    Bandwidth::from_bits_per_sec(bits as u64)
}

/// How long a queue in the network should be, in seconds: 5 ms or a quarter of the round trip, at
/// least two packets at `rate`, which would not be seen otherwise.
pub(crate) fn delay_target(seen: &Observation, rate: f64) -> f64 {
    let quarter = seen.min_rtt.as_secs_f64() / 4.0;
    quarter.min(0.005).max((2.0 * PACKET_BITS / rate).min(0.1))
}
