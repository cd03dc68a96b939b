//! The resource management packet.

use base::Time;

use crate::closed_loop::{Asks, Probe};

/// What ERICA's packets carry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packet {
    /// CCR: the rate at which the session sends, bit/s; 0 before it has one.
    pub current: u64,
    /// ER: the least that links gave so far, bit/s; the session's demand at first.
    pub explicit: u64,
    /// When the source sent it.
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
