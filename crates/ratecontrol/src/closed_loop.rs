//! What protocols that steer by measured load have in common: RCP, PIQI-RCP, ERICA.
//!
//! Their links compute from what they measure; their sources only ask, again and again, what they
//! may send. A source's probes ([`Probe`]) go round whether or not earlier ones are back, spaced so
//! that they take their share of its rate, at least once a round trip, and bring back the least
//! rate that links along the path gave. A session that leaves just stops: nothing at links counts
//! sessions, or what does forgets those not heard of.
use std::marker::PhantomData;

use base::{Bandwidth, Span, Time};

use crate::bounds;
use crate::{Destination, Outbox, Pace, Result, SessionId, Source, Towards};

mod round_trip;

pub(crate) use round_trip::MeanRoundTrip;

/// The most that a source waits before it asks again, so that one with hardly any rate hears of a
/// better one.
pub(crate) const LONGEST_GAP: Span = Span::from_millis(100);

/// The least from one probe to the next: no link computes new rates more often than every few
/// hundred of them, and a rate without bound asks for no gap at all.
const SHORTEST_GAP: Span = Span::from_micros(10);

/// A session of small round trip asks no more often than this unless its rate gives it room: links
/// hardly ever have news sooner.
const LEAST_PERIOD: Span = Span::from_millis(10);

/// A control packet of such a protocol.
pub trait Probe: Copy + std::fmt::Debug {
    /// What a source sends.
    fn new(now: Time, asks: &Asks) -> Self;

    /// When it was sent, by its source's clock.
    fn sent(&self) -> Time;

    /// The least rate so far, bit/s.
    fn rate(&self) -> u64;
}

/// What a source says when it asks for its rate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Asks {
    /// What it wants, bit/s.
    pub demand: u64,
    /// At what it sends now, bit/s; 0 before it is told a rate.
    pub current: u64,
    /// Its last round trip; zero before it knows one.
    pub round_trip: Span,
}

/// A session's source: asks for its rate, and sends at what it is told.
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
        // Before the first answer the round trip is unknown: the longest gap then.
        let period = if self.rate.is_some() { self.round_trip } else { LONGEST_GAP };
        by_rate.min(period.max(LEAST_PERIOD)).clamp(SHORTEST_GAP, LONGEST_GAP)
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
            // Less is in its own hands; more is for the next probe to ask.
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

/// A session's destination: sends every packet back.
#[derive(Clone, Copy, Debug)]
pub struct Bounce {
    session: SessionId,
    hops: u8,
}

impl Bounce {
    /// The destination of a session over `hops` links.
    pub(crate) const fn new(session: SessionId, hops: u8) -> Self {
        Self { session, hops }
    }
}

impl<P: Copy> Destination<P> for Bounce {
    fn receive(&mut self, _now: Time, packet: P, out: &mut Outbox<P>) {
        out.send(self.session, self.hops, Towards::Source, packet);
    }
}

#[cfg(test)]
pub(crate) mod scenarios;
#[cfg(test)]
mod tests;
