//! A session's source: cycles, repetition and pacing.

use base::{Bandwidth, Span, Time};

use super::Packet;
use crate::{Error, Outbox, Pace, Result, SessionId, Towards, bounds};

/// What the source waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Idle,
    /// The return of the packet.
    Cycle,
    /// The start of the next cycle.
    Pause,
    /// Nothing: the session has left.
    Gone,
}

/// Round trip times as TCP smooths them (RFC 6298), in nanoseconds.
#[derive(Clone, Copy, Debug, Default)]
struct RoundTrip {
    smooth: u64,
    deviation: u64,
}

impl RoundTrip {
    fn learn(&mut self, sample: Span) {
        let sample = sample.as_nanos().clamp(1, u64::MAX / 16);
        if self.smooth == 0 {
            (self.smooth, self.deviation) = (sample, sample / 2);
        } else {
            self.deviation = (3 * self.deviation + self.smooth.abs_diff(sample)) / 4;
            self.smooth = (7 * self.smooth + sample) / 8;
        }
    }

    /// Timeout of the attempt after `tries` failed ones: doubled each time up to `most`, but always
    /// longer than round trips, by at least a fifth of `most`.
    fn timeout(&self, tries: u32, most: u64) -> Span {
        // A needless repetition makes sums wrong, links overload each other, queues grow, and more
        // packets look lost. A late repetition only waits, so growing queues must not trigger it.
        let slack = (4 * self.deviation).max(self.smooth).max(most / 5);
        let first = if self.smooth == 0 { most } else { self.smooth + slack };
        Span::from_nanos(first.saturating_mul(1 << tries.min(16)).min(most.max(first)))
    }
}

/// The source of a session.
#[derive(Clone, Copy, Debug)]
pub struct Source {
    session: SessionId,
    pace: Pace,
    epoch: Span,
    demand: u64,
    /// The last returned packet. Each attempt starts with its fields, except `sent`.
    pub(super) packet: Packet,
    phase: Phase,
    /// Time at which the current attempt or, in a pause, the last cycle was sent.
    sent: Time,
    /// Time at which the last returned attempt was sent: links have seen the session since then.
    last_visit: Time,
    /// Time of the next action, in cycles and pauses.
    deadline: Time,
    round_trip: RoundTrip,
    /// Number of attempts of this cycle that did not return.
    tries: u32,
    cycles: u64,
    leaving: bool,
    rate: Option<Bandwidth>,
}

impl Source {
    pub(super) fn new(session: SessionId, pace: Pace, epoch: Span) -> Self {
        Self {
            session,
            pace,
            epoch,
            demand: 0,
            packet: Packet::joining(0),
            phase: Phase::Idle,
            sent: Time::default(),
            last_visit: Time::default(),
            deadline: Time::default(),
            round_trip: RoundTrip::default(),
            tries: 0,
            cycles: 0,
            leaving: false,
            rate: None,
        }
    }

    /// Half an epoch: the maximum interval of cycles.
    fn half_epoch(&self) -> u64 {
        self.epoch.as_nanos() / 2
    }

    fn timeout(&self) -> Span {
        self.round_trip.timeout(self.tries, self.half_epoch())
    }

    /// Sends the first attempt of a cycle, or a repetition.
    fn start(&mut self, now: Time, out: &mut Outbox<Packet>) {
        if now.since(self.last_visit) > self.epoch * 4 {
            self.packet = Packet::joining(self.demand);
            self.last_visit = now;
        }
        // The source acts as a link with the capacity of the demand.
        let packet = &mut self.packet;
        if packet.limit == Packet::SOURCE || packet.rate > self.demand {
            packet.rate = self.demand;
            packet.limit = Packet::SOURCE;
        }
        packet.last = packet.last.min(self.demand);
        out.send(self.session, 0, Towards::Destination, Packet { sent: now, ..self.packet });
        self.phase = Phase::Cycle;
        self.sent = now;
        self.deadline = now + self.timeout();
        out.wake = Some(self.deadline);
    }

    /// Lowers the rate at once if a late packet requires it; links learn it in the next cycle.
    fn lower(&mut self, rate: u64, out: &mut Outbox<Packet>) {
        let rate = Bandwidth::from_bits_per_sec(rate);
        if !self.leaving && self.rate.is_some_and(|old| rate < old) {
            self.rate = Some(rate);
            out.rate = Some(rate);
        }
    }

    /// Ends the session.
    fn finish(&mut self, now: Time, out: &mut Outbox<Packet>) {
        let packet = Packet { sent: now, leaves: true, ..self.packet };
        out.send(self.session, 0, Towards::Destination, packet);
        self.phase = Phase::Gone;
        out.gone = true;
    }

    /// Start of the next cycle after one of duration `last` that ends now.
    fn next_start(&self, now: Time, last: Span, rate: Bandwidth) -> Time {
        let pause = self.pace.pause(self.session.0, self.cycles, last);
        let latest = self.sent + Span::from_nanos(self.half_epoch());
        (now + pause).max(self.sent + self.pace.gap(rate)).min(latest).max(now)
    }
}

impl crate::Source<Packet> for Source {
    fn join(&mut self, now: Time, demand: Bandwidth, out: &mut Outbox<Packet>) -> Result<()> {
        let demand = bounds::demand(demand)?;
        if self.phase != Phase::Idle {
            return Err(Error::Session { session: self.session.0, what: "has joined before" });
        }
        self.demand = demand;
        self.packet = Packet::joining(self.demand);
        self.last_visit = now;
        self.start(now, out);
        Ok(())
    }

    fn change(&mut self, now: Time, demand: Bandwidth, out: &mut Outbox<Packet>) -> Result<()> {
        let demand = bounds::demand(demand)?;
        if demand == self.demand || self.leaving {
            return Ok(());
        }
        self.demand = demand;
        let demand = Bandwidth::from_bits_per_sec(demand);
        if self.rate.is_some_and(|rate| rate > demand) {
            self.rate = Some(demand);
            out.rate = Some(demand);
        }
        if self.phase == Phase::Pause {
            self.start(now, out);
        }
        Ok(())
    }

    fn leave(&mut self, now: Time, out: &mut Outbox<Packet>) {
        self.leaving = true;
        match self.phase {
            Phase::Idle => {
                self.phase = Phase::Gone;
                out.gone = true;
            }
            Phase::Pause => self.finish(now, out),
            Phase::Cycle | Phase::Gone => {}
        }
    }

    fn receive(&mut self, now: Time, packet: Packet, out: &mut Outbox<Packet>) {
        let took = now.since(packet.sent);
        self.round_trip.learn(took);
        if self.phase != Phase::Cycle {
            return;
        }
        if packet.sent != self.sent {
            // The next attempt was sent too early, and its timeout may be too short.
            self.deadline = self.deadline.max(self.sent + self.timeout());
            out.wake = Some(self.deadline);
            self.lower(packet.rate, out);
            return;
        }
        self.last_visit = self.sent;
        self.tries = 0;
        self.cycles += 1;
        let rate = packet.rate.min(self.demand);
        self.packet = Packet { older: packet.last, last: rate, ..packet };
        if self.leaving {
            self.finish(now, out);
            return;
        }
        let rate = Bandwidth::from_bits_per_sec(rate);
        if self.rate != Some(rate) {
            self.rate = Some(rate);
            out.rate = Some(rate);
        }
        let start = self.next_start(now, took, rate);
        if start == now {
            self.start(now, out);
        } else {
            self.phase = Phase::Pause;
            self.deadline = start;
            out.wake = Some(start);
        }
    }

    fn on_wake(&mut self, now: Time, out: &mut Outbox<Packet>) {
        match self.phase {
            Phase::Idle | Phase::Gone => {}
            Phase::Cycle | Phase::Pause if now < self.deadline => out.wake = Some(self.deadline),
            // Some links may have changed their sums; the epochs correct them.
            Phase::Cycle if self.leaving => self.finish(now, out),
            Phase::Cycle => {
                self.tries += 1;
                self.start(now, out);
            }
            Phase::Pause => self.start(now, out),
        }
    }

    fn rate(&self) -> Option<Bandwidth> {
        self.rate
    }
}
