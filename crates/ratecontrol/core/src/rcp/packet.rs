//! The control packet.

use base::{Span, Time};

use crate::closed_loop::{Asks, Probe};

/// Content of the packets of RCP and PIQI-RCP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packet {
    /// Minimum rate of the path so far in bit/s; at first the session's demand.
    pub rate: u64,
    /// The session's last round trip; zero if unknown.
    pub round_trip: Span,
    /// Time at which the source sent it.
    pub sent: Time,
}

impl Probe for Packet {
    fn new(now: Time, asks: &Asks) -> Self {
        Self { rate: asks.demand, round_trip: asks.round_trip, sent: now }
    }

    fn sent(&self) -> Time {
        self.sent
    }

    fn rate(&self) -> u64 {
        self.rate
    }
}
