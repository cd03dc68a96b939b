//! PIQI-RCP, the proportional-integral queue-independent RCP.
//!
//! Source: S. Jain, D. Loguinov, "PIQI-RCP: design and analysis of rate-based explicit congestion
//! control", IEEE International Workshop on Quality of Service 2007.
//!
//! **Problem.** RCP overshoots when sessions have different round trips, because its one gain is
//! chosen for their mean and also reacts to the queue. PIQI-RCP controls by the input alone,
//! towards slightly less than the capacity so that queues drain, and limits every session's gain by
//! its own round trip.
//!
//! | [`Packet`] | fields | at links |
//! |---|---|---|
//! | downstream | lowest rate so far, round trip, send time | the rate is lowered depending on the
//! round trip, which is averaged |
//! | upstream | the same | nothing |
//!
//! **Parts of the protocol in the code** (the first two as in the readings below):
//! - The queue-independent integral control law, R(n) = R(n−1)·\[1 + κ·e(n)\] with the relative
//!   error e(n) = (γC − y(n))/(γC), every T: `measure`.
//! - The proportional part, R·κᵢ·e(n), for each session's own κᵢ: `visit`.
//! - Equation 35, κ ≤ κ* = T/(T + RTT), with T = 5 ms, both by SLBN §IV: `bound`.
//!
//! Packets, sources, the first rate and the limits of the rate are those of [`crate::rcp`].
//!
//! Links store five values, independent of the number of sessions.
//!
//! **Readings.** The text of the paper was not available, only descriptions by others; the control
//! law is derived from those:
//! - Each of the two parts uses half of the bound, κ*/2. At round trips far below T, κ* is 1: with
//!   the whole bound in each part the rate would oscillate (roots 0.62 and −1.62), with halves
//!   oscillations decay (±0.71). At long round trips the loop is R′ = −e(t − d)/(2d): its gain
//!   times its delay is 1/2, and the stability limit is π/2.
//! - The integral part, which is common to all sessions, uses κ* of the mean round trip d. Any mix
//!   is stable then: with weights w of the round trips D, R′ = −k·Σ w·R(t − D) is stable if k·Σ w·D
//!   < 1, and here it is at most 1/2.
//! - γ = 0.95.
use base::{Bandwidth, Span, Time};

use crate::bounds;
use crate::closed_loop::{ClosedLoop, MeanRoundTrip, MeasuringLink};
pub use crate::rcp::Packet;
use crate::rcp::{FIRST_ROUND_TRIP, FIRST_SHARE, bounded, gain, rate_of};
use crate::{Fate, Measured, Outbox, Result, State, Towards, Visit};

/// The paper's T.
const INTERVAL: Span = Span::from_millis(5);

/// The protocol as a [`crate::RateController`].
pub type PiqiRcp = ClosedLoop<Link, Packet>;

impl MeasuringLink<Packet> for Link {
    const INTERVAL: Span = INTERVAL;

    fn with_capacity(capacity: Bandwidth) -> Result<Self> {
        Self::try_new(capacity)
    }
}

/// γ: the share of the capacity that sessions should use.
const TARGET: f64 = 0.95;
/// Share of the bound κ* for each of the two parts.
const PART: f64 = 0.5;

/// One direction of a link. Rates are in bit/s, times in seconds.
#[derive(Clone, Debug)]
pub struct Link {
    /// The paper's γC.
    target: f64,
    rate: f64,
    /// e(n), in \[−1, 1\].
    error: f64,
    round_trip: MeanRoundTrip,
}

impl Link {
    pub(crate) fn try_new(capacity: Bandwidth) -> Result<Self> {
        let target = target(capacity)?;
        Ok(Self {
            target,
            rate: bounded(target * FIRST_SHARE, FIRST_ROUND_TRIP, target),
            error: 0.0,
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
            let own = packet.round_trip.as_secs_f64();
            // A session without a known round trip counts as average.
            let own = if own > 0.0 { own } else { self.round_trip.mean() };
            let rate = self.rate * (1.0 + PART * bound(own) * self.error);
            packet.rate = packet.rate.min(rate.min(self.target).max(1.0) as u64);
        }
        Fate::Forward
    }

    fn measure(&mut self, _: Time, measured: &Measured) {
        let elapsed = measured.interval.as_secs_f64();
        if elapsed <= 0.0 {
            return;
        }
        let share = self.rate / self.target;
        self.round_trip.close(|sample, mean| gain(sample, mean, elapsed.min(mean), share));
        let d = self.round_trip.mean();
        let error = (self.target - rate_of(measured.arrived, elapsed)) / self.target;
        let factor = 1.0 + PART * bound(d) * error;
        self.rate = bounded(self.rate * factor, d, self.target);
        //= deviation: for the proportional part, the load counts at most as twice the target. A
        //= higher one would give sessions with short round trips a negative rate.
        self.error = error.clamp(-1.0, 1.0);
    }

    fn set_capacity(&mut self, _: Time, to: Bandwidth, _: &mut Outbox<Packet>) -> Result<()> {
        self.target = target(to)?;
        self.rate = bounded(self.rate, self.round_trip.mean(), self.target);
        Ok(())
    }

    fn state(&self) -> State {
        State { numbers: 2 + MeanRoundTrip::NUMBERS, bytes: size_of::<Self>() as u64 }
    }
}

/// κ*, the largest gain of a session with this round trip (equation 35).
fn bound(round_trip: f64) -> f64 {
    let interval = INTERVAL.as_secs_f64();
    interval / (interval + round_trip)
}

/// γC, at least 1 bit/s because rates are whole.
fn target(capacity: Bandwidth) -> Result<f64> {
    Ok((bounds::capacity(capacity)? as f64 * TARGET).max(1.0))
}

#[cfg(test)]
mod tests;
