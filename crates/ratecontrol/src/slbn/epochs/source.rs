//! A session's source: cycles, their repetition and their pace.

use base::{Bandwidth, Span, Time};

use super::Packet;
use crate::{Error, Outbox, Pace, Result, SessionId, Towards, bounds};

/// What a source waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// To join.
    Idle,
    /// For the packet to come back.
    Cycle,
    /// To begin the next cycle.
    Pause,
    /// For nothing: it has left.
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

    /// How long to wait for the attempt after `tries` failed ones: twice as long each time up to
    /// `most`, but always longer than round trips are, by a fifth of `most` if not more.
    fn patience(&self, tries: u32, most: u64) -> Span {
        // A needless repetition misleads links, which overload each other: queues grow, and more
        // packets look lost. A late one only waits, so queues that are just filling must not count.
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
    /// As it came back last and as each attempt starts, but for `sent`.
    pub(super) packet: Packet,
    phase: Phase,
    /// When the present attempt, or in a pause the last cycle, was sent.
    sent: Time,
    /// When the attempt that returned last was sent: links have heard of the session since.
    heard: Time,
    /// When to act, in cycles and pauses.
    deadline: Time,
    round_trip: RoundTrip,
    /// Attempts of this cycle that did not return.
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
            heard: Time::default(),
            deadline: Time::default(),
            round_trip: RoundTrip::default(),
            tries: 0,
            cycles: 0,
            leaving: false,
            rate: None,
        }
    }

    /// Half an epoch: the longest from one cycle to the next.
    fn half_epoch(&self) -> u64 {
        self.epoch.as_nanos() / 2
    }

    fn patience(&self) -> Span {
        self.round_trip.patience(self.tries, self.half_epoch())
    }

    /// Sends the first or another attempt of a cycle.
    fn start(&mut self, now: Time, out: &mut Outbox<Packet>) {
        if now.since(self.heard) > self.epoch * 4 {
            self.packet = Packet::joining(self.demand);
            self.heard = now;
        }
        // The source is a link of its own: its capacity is the demand.
        let packet = &mut self.packet;
        if packet.limit == Packet::SOURCE || packet.rate > self.demand {
            packet.rate = self.demand;
            packet.limit = Packet::SOURCE;
        }
        packet.last = packet.last.min(self.demand);
        out.send(self.session, 0, Towards::Destination, Packet { sent: now, ..self.packet });
        self.phase = Phase::Cycle;
        self.sent = now;
        self.deadline = now + self.patience();
        out.wake = Some(self.deadline);
    }

    /// Sends more slowly at once if what came back late asks for that; links are told by cycles.
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

    /// The time of the next cycle after one of `last` that ends now.
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
        self.heard = now;
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
            // The attempt after it was sent too early, and is perhaps waited for too briefly.
            self.deadline = self.deadline.max(self.sent + self.patience());
            out.wake = Some(self.deadline);
            self.lower(packet.rate, out);
            return;
        }
        self.heard = self.sent;
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
            // Half of the links may have moved already; epochs see to the rest.
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
