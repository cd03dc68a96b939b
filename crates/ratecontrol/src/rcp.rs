//! RCP, the rate control protocol.
//!
//! Source: N. Dukkipati et al., "Processor sharing flows in the Internet", IEEE International
//! Workshop on Quality of Service 2005. The paper's text was not at hand: its law and all constants
//! but α and β are those of the authors' ns-2 code (`rcp.cc.v4`, `rcp-host.cc`, defaults).
//!
//! **Problem.** Give all sessions through a link one rate, the same for all, without knowing how
//! many there are: whatever rate fills the link and empties its queue.
//!
//! | [`Packet`] | fields | what links do |
//! |---|---|---|
//! | there | lowest rate so far, round trip, when sent | lower the rate, average the trip |
//! | back | the same | nothing |
//!
//! The rate of a packet that a source sends is the session's demand.
//!
//! **Where the protocol is:**
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
//! Constants: α = 0.1, β = 1 (SLBN §IV); from the ns-2 code T₀ = 10 ms, R(0) = 5 % of C, at first
//! d = 200 ms, R at most C and at least 10 bytes in d.
//!
//! Links keep four numbers, whatever the sessions.
use base::{Bandwidth, Bytes, Span};

use crate::closed_loop::{Bounce, ProbingSource};
use crate::{Pace, RateController, Result, SessionId, Settings};

mod link;
mod packet;

pub use link::Link;
pub(crate) use link::{FIRST_ROUND_TRIP, FIRST_SHARE, bounded, gain};
pub use packet::Packet;

/// T₀: rates change at least so often.
const INTERVAL: Span = Span::from_millis(10);

/// The protocol.
#[derive(Clone, Copy, Debug)]
pub struct Rcp {
    pace: Pace,
}

impl RateController for Rcp {
    type Packet = Packet;
    type Source = ProbingSource<Packet>;
    type Link = Link;
    type Destination = Bounce;

    fn try_new(settings: &Settings) -> Result<Self> {
        settings.check()?;
        Ok(Self { pace: settings.pace() })
    }

    fn source(&self, session: SessionId, hops: u8) -> Result<Self::Source> {
        ProbingSource::try_new(session, hops, self.pace)
    }

    fn link(&self, capacity: Bandwidth) -> Result<Self::Link> {
        Link::try_new(capacity)
    }

    fn destination(&self, session: SessionId, hops: u8) -> Self::Destination {
        Bounce::new(session, hops)
    }

    fn interval(&self) -> Option<Span> {
        Some(INTERVAL)
    }
}

/// `bytes` in `seconds`, in bit/s.
pub(crate) fn rate_of(bytes: Bytes, seconds: f64) -> f64 {
    bytes.count() as f64 * 8.0 / seconds
}

#[cfg(test)]
mod tests;
