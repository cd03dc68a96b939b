//! A configured rate.

use base::Bandwidth;

use super::{CongestionControl, Observation};

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
