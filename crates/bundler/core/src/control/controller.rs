//! Congestion controllers by name.

use std::fmt;
use std::str::FromStr;

use base::Bandwidth;

use super::{BasicDelay, Bbr, CongestionControl, Copa, Observation};
use crate::constants::Constants;

/// A constant rate, for bottlenecks of known capacity and as a reference in comparisons.
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
