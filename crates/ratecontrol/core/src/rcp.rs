//! RCP, the rate control protocol.
//!
//! Source: N. Dukkipati et al., "Processor sharing flows in the Internet", IEEE International
//! Workshop on Quality of Service 2005. The paper's text was not available: its control law and all
//! constants except α and β are those of the authors' ns-2 code (`rcp.cc.v4`, `rcp-host.cc`,
//! defaults).
//!
//! **Problem.** Give all sessions through a link the same rate, without knowing their number: the
//! rate that fills the link and empties its queue.
//!
//! | [`Packet`] | fields | at links |
//! |---|---|---|
//! | downstream | lowest rate so far, round trip, send time | the rate is lowered, the round trip
//! averaged |
//! | upstream | the same | nothing |
//!
//! The initial rate in a source's packet is the session's demand.
//!
//! **Parts of the protocol in the code:**
//! - The router keeps one R; packets carry the least of the path; the destination returns it;
//!   sources report their round trips (`fill_in_feedback`): `link.rs`, `visit`;
//!   [`crate::closed_loop`].
//! - R(t) = R(t−T)·\[1 + (T/d)·(α·(C − y) − β·q/d)/C\] with T = min(T₀, d) (`queue_timeout`,
//!   mode 0): `link.rs`, `measure`.
//! - d, a moving average over the traffic, and its gains (`rtt_moving_gain_`):
//!   `closed_loop/round_trip.rs`; `link.rs`, `gain`.
//! - A source's first rate comes with the answer to its first packet (SYN, SYNACK); it sends no
//!   data before: [`crate::closed_loop`].
//!
//! Constants: α = 0.1, β = 1 (SLBN §IV); from the ns-2 code T₀ = 10 ms, R(0) = 5 % of C, initial d
//! = 200 ms, R at most C and at least 10 bytes per d.
//!
//! Links store four values, independent of the number of sessions.
use base::{Bandwidth, Bytes, Span, Time};

use crate::Result;
use crate::closed_loop::{Asks, ClosedLoop, MeasuringLink, Probe};

mod link;

pub use link::Link;
pub(crate) use link::{FIRST_ROUND_TRIP, FIRST_SHARE, bounded, gain};

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

/// T₀: maximum interval between changes of the rate.
const INTERVAL: Span = Span::from_millis(10);

/// The protocol as a [`crate::RateController`].
pub type Rcp = ClosedLoop<Link, Packet>;

impl MeasuringLink<Packet> for Link {
    const INTERVAL: Span = INTERVAL;

    fn with_capacity(capacity: Bandwidth) -> Result<Self> {
        Self::try_new(capacity)
    }
}

/// Rate of `bytes` in `seconds`, in bit/s.
pub(crate) fn rate_of(bytes: Bytes, seconds: f64) -> f64 {
    bytes.count() as f64 * 8.0 / seconds
}

#[cfg(test)]
mod tests;
