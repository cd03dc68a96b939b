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
//!   sources report their round trips (`fill_in_feedback`): `visit`;
//!   [`crate::closed_loop`].
//! - R(t) = R(t−T)·\[1 + (T/d)·(α·(C − y) − β·q/d)/C\] with T = min(T₀, d) (`queue_timeout`,
//!   mode 0): `measure`.
//! - d, a moving average over the traffic, and its gains (`rtt_moving_gain_`):
//!   `closed_loop/round_trip.rs`; `gain`.
//! - A source's first rate comes with the answer to its first packet (SYN, SYNACK); it sends no
//!   data before: [`crate::closed_loop`].
//!
//! Constants: α = 0.1, β = 1 (SLBN §IV); from the ns-2 code T₀ = 10 ms, R(0) = 5 % of C, initial d
//! = 200 ms, R at most C and at least 10 bytes per d.
//!
//! Links store four values, independent of the number of sessions.
use base::{Bandwidth, Bytes, Span, Time};

use crate::bounds;
use crate::closed_loop::{Asks, ClosedLoop, MeanRoundTrip, MeasuringLink, Probe};
use crate::{Fate, Measured, Outbox, Result, State, Towards, Visit};

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

/// α: share of the spare capacity that is assigned per round trip.
const ALPHA: f64 = 0.1;
/// β: share of the queue that is drained per round trip.
const BETA: f64 = 1.0;
/// R(0) as a share of C (`init_rate_fact_`).
pub(crate) const FIRST_SHARE: f64 = 0.05;
/// d before any packet reports a round trip, in seconds (`RTT`).
pub(crate) const FIRST_ROUND_TRIP: f64 = 0.2;
/// Minimum number of bits per round trip for each session (`min_pprtt_`: 0.01 packets of 1,000 B).
const MIN_PACKETS_PER_ROUND_TRIP: f64 = 80.0;

/// One direction of a link. Rates are in bit/s, times in seconds.
#[derive(Clone, Debug)]
pub struct Link {
    capacity: f64,
    rate: f64,
    round_trip: MeanRoundTrip,
}

impl Link {
    pub(crate) fn try_new(capacity: Bandwidth) -> Result<Self> {
        let capacity = bounds::capacity(capacity)? as f64;
        Ok(Self {
            capacity,
            rate: bounded(capacity * FIRST_SHARE, FIRST_ROUND_TRIP, capacity),
            round_trip: MeanRoundTrip::new(FIRST_ROUND_TRIP),
        })
    }

    /// R, in bit/s.
    pub fn rate(&self) -> Bandwidth {
        Bandwidth::from_bits_per_sec(self.rate as u64)
    }
}

impl crate::Link<Packet> for Link {
    fn visit(
        &mut self,
        _: Time,
        visit: Visit,
        packet: &mut Packet,
        _: &mut Outbox<Packet>,
    ) -> Fate {
        if visit.towards == Towards::Destination {
            self.round_trip.add(packet.round_trip);
            packet.rate = packet.rate.min(self.rate as u64);
        }
        Fate::Forward
    }

    fn measure(&mut self, _: Time, measured: &Measured) {
        let elapsed = measured.interval.as_secs_f64();
        if elapsed <= 0.0 {
            return;
        }
        let share = self.rate / self.capacity;
        self.round_trip.close(|sample, mean| gain(sample, mean, elapsed.min(mean), share));
        let d = self.round_trip.mean();
        let t = elapsed.min(d);
        let spare = ALPHA * (self.capacity - rate_of(measured.arrived, elapsed));
        let drain = BETA * rate_of(measured.backlog, d);
        let factor = 1.0 + (t / d) * (spare - drain) / self.capacity;
        self.rate = bounded(self.rate * factor, d, self.capacity);
    }

    fn set_capacity(&mut self, _: Time, to: Bandwidth, _: &mut Outbox<Packet>) -> Result<()> {
        self.capacity = bounds::capacity(to)? as f64;
        self.rate = bounded(self.rate, self.round_trip.mean(), self.capacity);
        Ok(())
    }

    fn state(&self) -> State {
        State { numbers: 1 + MeanRoundTrip::NUMBERS, bytes: size_of::<Self>() as u64 }
    }
}

/// Weight of a new mean round trip, as in `rcp.cc`. A longer one takes effect within a round trip.
/// A shorter one has a small weight while many sessions share the link, so that sessions with many
/// packets do not dominate.
//= deviation: the first sample replaces the default of 200 ms completely (`MeanRoundTrip::close`).
//= With the small downward gain, a link of 100 sessions would otherwise use the default for
//= minutes.
pub(crate) fn gain(sample: f64, mean: f64, interval: f64, share: f64) -> f64 {
    if sample >= mean { interval / mean } else { share * (sample / mean) * (interval / mean) }
}

/// The rate within the bounds of the ns-2 code. All inputs are finite: an infinite product requires
/// a factor above 10²⁹¹, which 64-bit counts over at least one nanosecond do not reach.
pub(crate) fn bounded(rate: f64, round_trip: f64, most: f64) -> f64 {
    let least = (MIN_PACKETS_PER_ROUND_TRIP / round_trip).max(1.0).min(most);
    rate.max(least).min(most)
}

#[cfg(test)]
mod tests;
