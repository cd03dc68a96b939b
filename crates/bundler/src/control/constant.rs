//! A rate that somebody has chosen.

use base::Bandwidth;

use super::{CongestionControl, Observation};

/// Always the same rate, whatever the path does: for an operator who knows the bottleneck, and
/// the yardstick of the laws that have to find it.
#[derive(Clone, Copy, Debug)]
pub struct Constant(Bandwidth);

impl Constant {
    /// A law that answers `rate`.
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
