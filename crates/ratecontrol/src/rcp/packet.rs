//! The control packet.

use base::{Span, Time};

use crate::closed_loop::{Asks, Probe};

/// What RCP's packets carry; PIQI-RCP's carry the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packet {
    /// The least rate of the path so far, bit/s; the session's demand at first.
    pub rate: u64,
    /// The session's last round trip; zero if it knows none yet.
    pub round_trip: Span,
    /// When the source sent it.
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
