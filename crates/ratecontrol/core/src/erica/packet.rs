//! The resource management packet.

use base::Time;

use crate::closed_loop::{Asks, Probe};

/// Content of ERICA's packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packet {
    /// CCR: current rate of the session in bit/s; 0 before its first rate.
    pub current: u64,
    /// ER: the least rate that links gave so far, in bit/s; at first the session's demand.
    pub explicit: u64,
    /// Time at which the source sent it.
    pub sent: Time,
}

impl Probe for Packet {
    fn new(now: Time, asks: &Asks) -> Self {
        Self { current: asks.current, explicit: asks.demand, sent: now }
    }

    fn sent(&self) -> Time {
        self.sent
    }

    fn rate(&self) -> u64 {
        self.explicit
    }
}
