//! The source: sends one cell at a time and uses the rate that it returns.

use base::{Bandwidth, Time};

use super::{BfyzPacket, Kind};
use crate::{Outbox, Pace, Result, SessionId, Source, Towards, bounds};

/// Phase of the cycle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// The session has not joined, or has left.
    Absent,
    /// A cell is in flight.
    Cycle,
    /// The next cell waits for its time.
    Pause,
}

/// A session's source.
#[derive(Clone, Copy, Debug)]
pub struct BfyzSource {
    session: SessionId,
    pace: Pace,
    phase: Phase,
    /// Demand of the session in bit/s.
    demand: u64,
    rate: Option<Bandwidth>,
    /// Time at which the last cell was sent.
    sent: Time,
    cycles: u64,
}

impl BfyzSource {
    pub(super) fn new(session: SessionId, pace: Pace) -> Self {
        Self {
            session,
            pace,
            phase: Phase::Absent,
            demand: 0,
            rate: None,
            sent: Time::ZERO,
            cycles: 0,
        }
    }

    fn send(&mut self, now: Time, kind: Kind, out: &mut Outbox<BfyzPacket>) {
        self.phase = Phase::Cycle;
        self.sent = now;
        let packet = BfyzPacket { kind, rate: self.demand };
        out.send(self.session, 0, Towards::Destination, packet);
    }
}

impl Source<BfyzPacket> for BfyzSource {
    fn join(&mut self, now: Time, demand: Bandwidth, out: &mut Outbox<BfyzPacket>) -> Result<()> {
        self.demand = bounds::demand(demand)?;
        self.send(now, Kind::Join, out);
        Ok(())
    }

    fn change(
        &mut self,
        _now: Time,
        demand: Bandwidth,
        _out: &mut Outbox<BfyzPacket>,
    ) -> Result<()> {
        self.demand = bounds::demand(demand)?;
        Ok(())
    }

    fn leave(&mut self, now: Time, out: &mut Outbox<BfyzPacket>) {
        if self.phase == Phase::Absent {
            return;
        }
        // A cell in flight reaches links that no longer have the session.
        self.send(now, Kind::Leave, out);
        self.phase = Phase::Absent;
        self.rate = None;
        out.gone = true;
    }

    fn receive(&mut self, now: Time, packet: BfyzPacket, out: &mut Outbox<BfyzPacket>) {
        if self.phase != Phase::Cycle || packet.kind != Kind::Ack {
            return;
        }
        let rate = Bandwidth::from_bits_per_sec(packet.rate.min(self.demand));
        if self.rate != Some(rate) {
            self.rate = Some(rate);
            out.rate = Some(rate);
        }
        self.cycles += 1;
        let due = (self.sent + self.pace.gap(rate)).max(now);
        let next = due + self.pace.pause(self.session.0, self.cycles, now.since(self.sent));
        if next <= now {
            self.send(now, Kind::Probe, out);
        } else {
            self.phase = Phase::Pause;
            out.wake = Some(next);
        }
    }

    fn on_wake(&mut self, now: Time, out: &mut Outbox<BfyzPacket>) {
        if self.phase == Phase::Pause {
            self.send(now, Kind::Probe, out);
        }
    }

    fn rate(&self) -> Option<Bandwidth> {
        self.rate
    }
}
