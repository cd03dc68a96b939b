//! Common parts of protocols that control rates by measured load: RCP, PIQI-RCP, ERICA.
//!
//! Links compute rates from measurements; sources request their rate periodically. A source sends
//! probes ([`Probe`]) without waiting for earlier ones, at least one per round trip, spaced so that
//! they use the configured share of its rate. A probe returns the minimum rate of the links along
//! the path. A session leaves by stopping: links either do not count sessions, or remove a session
//! that sends no probes.
use std::marker::PhantomData;

use base::{Bandwidth, Span, Time};

use crate::bounds;
use crate::{Link, Outbox, Pace, RateController, Result, SessionId, Settings, Source, Towards};

mod round_trip;

pub(crate) use round_trip::MeanRoundTrip;

/// Maximum interval of probes, so that a source with a very low rate detects a higher one.
pub(crate) const MAX_PROBE_INTERVAL: Span = Span::from_millis(100);

/// Minimum interval of probes, which applies if the rate is unlimited: links compute new rates at
/// intervals of at least some hundred times this value.
const MIN_PROBE_INTERVAL: Span = Span::from_micros(10);

/// A session with a short round trip probes no more often than this unless its rate allows it:
/// links rarely have a new rate sooner.
const MIN_PROBE_PERIOD: Span = Span::from_millis(10);

/// One direction of a link that computes rates from measurements.
pub trait MeasuringLink<P>: Link<P> + Sized + 'static {
    /// Interval at which the link computes its rate from the measured load.
    const INTERVAL: Span;

    /// A link without sessions.
    ///
    /// # Errors
    /// [`crate::Error::Capacity`] if sums could overflow, or the capacity is 0.
    fn with_capacity(capacity: Bandwidth) -> Result<Self>;
}

/// A protocol with links `L` and packets `P`, as a [`RateController`].
#[derive(Clone, Copy, Debug)]
pub struct ClosedLoop<L, P> {
    pace: Pace,
    protocol: PhantomData<fn() -> (L, P)>,
}

impl<L: MeasuringLink<P>, P: Probe + 'static> RateController for ClosedLoop<L, P> {
    type Packet = P;
    type Source = ProbingSource<P>;
    type Link = L;

    fn try_new(settings: &Settings) -> Result<Self> {
        settings.check()?;
        Ok(Self { pace: settings.pace(), protocol: PhantomData })
    }

    fn source(&self, session: SessionId, hops: u8) -> Result<Self::Source> {
        ProbingSource::try_new(session, hops, self.pace)
    }

    fn link(&self, capacity: Bandwidth) -> Result<L> {
        L::with_capacity(capacity)
    }

    fn interval(&self) -> Option<Span> {
        Some(L::INTERVAL)
    }
}

/// A control packet of such a protocol.
pub trait Probe: Copy + std::fmt::Debug {
    /// A new probe of a source.
    fn new(now: Time, asks: &Asks) -> Self;

    /// Time at which it was sent, by its source's clock.
    fn sent(&self) -> Time;

    /// The minimum rate so far in bit/s.
    fn rate(&self) -> u64;
}

/// Data of a source in its probe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Asks {
    /// Demand in bit/s.
    pub demand: u64,
    /// Current rate in bit/s; 0 before the first one.
    pub current: u64,
    /// Last round trip; zero if unknown.
    pub round_trip: Span,
}

/// A session's source: requests its rate, and sends at the assigned one.
#[derive(Clone, Debug)]
pub struct ProbingSource<P> {
    session: SessionId,
    pace: Pace,
    demand: u64,
    rate: Option<Bandwidth>,
    round_trip: Span,
    last: Time,
    wake: Time,
    active: bool,
    packet: PhantomData<P>,
}

impl<P: Probe> ProbingSource<P> {
    /// The source of a session over `hops` links.
    pub(crate) fn try_new(session: SessionId, hops: u8, pace: Pace) -> Result<Self> {
        bounds::hops(hops)?;
        Ok(Self {
            session,
            pace,
            demand: 0,
            rate: None,
            round_trip: Span::ZERO,
            last: Time::ZERO,
            wake: Time::ZERO,
            active: false,
            packet: PhantomData,
        })
    }

    fn gap(&self) -> Span {
        let by_rate = self.pace.gap(self.rate.unwrap_or_default());
        // Before the first answer the round trip is unknown: use the maximum interval.
        let period = if self.rate.is_some() { self.round_trip } else { MAX_PROBE_INTERVAL };
        by_rate.min(period.max(MIN_PROBE_PERIOD)).clamp(MIN_PROBE_INTERVAL, MAX_PROBE_INTERVAL)
    }

    fn probe(&mut self, now: Time, out: &mut Outbox<P>) {
        let asks = Asks {
            demand: self.demand,
            current: self.rate.map_or(0, Bandwidth::bits_per_sec),
            round_trip: self.round_trip,
        };
        out.send(self.session, 0, Towards::Destination, P::new(now, &asks));
        self.last = now;
        self.set_wake(now + self.gap(), out);
    }

    fn set_wake(&mut self, at: Time, out: &mut Outbox<P>) {
        self.wake = at;
        out.wake = Some(at);
    }

    fn assign(&mut self, rate: u64, out: &mut Outbox<P>) {
        let rate = Some(Bandwidth::from_bits_per_sec(rate.min(self.demand).max(1)));
        if self.rate != rate {
            self.rate = rate;
            out.rate = rate;
        }
    }
}

impl<P: Probe> Source<P> for ProbingSource<P> {
    fn join(&mut self, now: Time, demand: Bandwidth, out: &mut Outbox<P>) -> Result<()> {
        self.demand = bounds::demand(demand)?;
        self.active = true;
        self.probe(now, out);
        Ok(())
    }

    fn change(&mut self, _now: Time, demand: Bandwidth, out: &mut Outbox<P>) -> Result<()> {
        let demand = bounds::demand(demand)?;
        if self.active {
            self.demand = demand;
            // A lower demand takes effect at once; a higher one with the next probe.
            if let Some(rate) = self.rate {
                self.assign(rate.bits_per_sec(), out);
            }
        }
        Ok(())
    }

    fn leave(&mut self, _now: Time, out: &mut Outbox<P>) {
        self.active = false;
        out.gone = true;
    }

    fn receive(&mut self, now: Time, packet: P, out: &mut Outbox<P>) {
        if !self.active {
            return;
        }
        // Zero means unknown.
        self.round_trip = now.since(packet.sent()).max(Span::from_nanos(1));
        self.assign(packet.rate(), out);
        let due = (self.last + self.gap()).max(now);
        if due < self.wake {
            self.set_wake(due, out);
        }
    }

    fn on_wake(&mut self, now: Time, out: &mut Outbox<P>) {
        if !self.active {
            return;
        }
        let due = self.last + self.gap();
        if now < due {
            self.set_wake(due, out);
        } else {
            self.probe(now, out);
        }
    }

    fn rate(&self) -> Option<Bandwidth> {
        self.rate
    }
}

#[cfg(test)]
pub(crate) mod scenarios;
#[cfg(test)]
mod tests;
