//! The source: probes when necessary, and notifies the links when the rate is final.

use base::{Bandwidth, Time};

use super::{BNeckPacket, Limiter, Verdict};
use crate::{Outbox, Result, SessionId, Source, Towards, bounds};

/// μ of the session at its source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// The session has not joined, or has left.
    Absent,
    /// It has a rate, and no probe is required.
    Idle,
    /// A probe is in flight.
    WaitingResponse,
}

/// A session's source.
//= deviation: the first link of the path is a link like the others; the source acts as a link with
//= the capacity of its demand.
#[derive(Clone, Copy, Debug)]
pub struct BNeckSource {
    session: SessionId,
    phase: Phase,
    /// D, bit/s.
    demand: u64,
    rate: Option<Bandwidth>,
    /// `upd_rcv`: the demand has changed since the probe was sent.
    stale: bool,
    /// `bneck_rcv`: the links have been notified that the rate is final.
    settled: bool,
}

impl BNeckSource {
    pub(super) fn new(session: SessionId) -> Self {
        Self { session, phase: Phase::Absent, demand: 0, rate: None, stale: false, settled: false }
    }

    fn send(&self, packet: BNeckPacket, out: &mut Outbox<BNeckPacket>) {
        out.send(self.session, 0, Towards::Destination, packet);
    }

    fn probe(&mut self, out: &mut Outbox<BNeckPacket>) {
        self.phase = Phase::WaitingResponse;
        self.stale = false;
        self.settled = false;
        let packet = BNeckPacket::Probe { rate: self.demand, limiter: Limiter::Demand };
        self.send(packet, out);
    }

    /// Sends the notification that the rate is final.
    fn settle(&mut self, out: &mut Outbox<BNeckPacket>) {
        self.settled = true;
        let confirmed = self.rate == Some(Bandwidth::from_bits_per_sec(self.demand));
        self.send(BNeckPacket::SetBottleneck { confirmed }, out);
    }

    fn respond(&mut self, verdict: Verdict, rate: u64, out: &mut Outbox<BNeckPacket>) {
        if verdict == Verdict::Update || self.stale {
            self.probe(out);
            return;
        }
        self.phase = Phase::Idle;
        //= deviation: `API.Rate` reports each rate that all links accepted, not only final ones;
        //= otherwise a session could not send until its part of the network is stable.
        let rate = Bandwidth::from_bits_per_sec(rate);
        if self.rate != Some(rate) {
            self.rate = Some(rate);
            out.rate = Some(rate);
        }
        if verdict == Verdict::Bottleneck || rate.bits_per_sec() == self.demand {
            self.settle(out);
        }
    }
}

impl Source<BNeckPacket> for BNeckSource {
    fn join(&mut self, _now: Time, demand: Bandwidth, out: &mut Outbox<BNeckPacket>) -> Result<()> {
        self.demand = bounds::demand(demand)?;
        self.phase = Phase::WaitingResponse;
        let packet = BNeckPacket::Join { rate: self.demand, limiter: Limiter::Demand };
        self.send(packet, out);
        Ok(())
    }

    fn change(
        &mut self,
        _now: Time,
        demand: Bandwidth,
        out: &mut Outbox<BNeckPacket>,
    ) -> Result<()> {
        let demand = bounds::demand(demand)?;
        if demand == self.demand {
            return Ok(());
        }
        self.demand = demand;
        match self.phase {
            Phase::Absent => {}
            Phase::Idle => self.probe(out),
            Phase::WaitingResponse => self.stale = true,
        }
        Ok(())
    }

    fn leave(&mut self, _now: Time, out: &mut Outbox<BNeckPacket>) {
        if self.phase == Phase::Absent {
            return;
        }
        self.phase = Phase::Absent;
        self.rate = None;
        self.send(BNeckPacket::Leave, out);
        out.gone = true;
    }

    fn receive(&mut self, _now: Time, packet: BNeckPacket, out: &mut Outbox<BNeckPacket>) {
        match (self.phase, packet) {
            (Phase::WaitingResponse, BNeckPacket::Response { verdict, rate, .. }) => {
                self.respond(verdict, rate, out);
            }
            (Phase::Idle, BNeckPacket::Update) => self.probe(out),
            (Phase::Idle, BNeckPacket::Bottleneck) if !self.settled => self.settle(out),
            _ => {}
        }
    }

    fn on_wake(&mut self, _now: Time, _out: &mut Outbox<BNeckPacket>) {}

    fn rate(&self) -> Option<Bandwidth> {
        self.rate
    }
}
