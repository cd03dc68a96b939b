//! The source: sends one packet at the start of each round.

use base::{Bandwidth, Span, Time};

use super::{Packet, round_at};
use crate::{Outbox, Result, SessionId, Towards, bounds};

/// Source of a session.
#[derive(Clone, Copy, Debug)]
pub struct Source {
    session: SessionId,
    /// *T*.
    round: Span,
    demand: u64,
    /// Rate in the latest answer.
    rate: u64,
    limit: u8,
    answered: Option<u32>,
    /// The last round in which all links counted this session.
    counted: Option<u32>,
    active: bool,
}

impl Source {
    pub(super) fn new(session: SessionId, round: Span) -> Self {
        Self {
            session,
            round,
            demand: 0,
            rate: 0,
            limit: Packet::SOURCE,
            answered: None,
            counted: None,
            active: false,
        }
    }

    fn send(&self, now: Time, out: &mut Outbox<Packet>) {
        let round = round_at(now, self.round);
        let counts = now.as_nanos().is_multiple_of(self.round.as_nanos());
        let known = counts && self.counted.is_some_and(|last| last.checked_add(1) == Some(round));
        let packet = Packet {
            last: self.rate,
            rate: self.demand,
            round,
            last_limit: self.limit,
            limit: Packet::SOURCE,
            known,
            counts,
        };
        out.send(self.session, 0, Towards::Destination, packet);
        let begins = (u64::from(round) + 1).saturating_mul(self.round.as_nanos());
        out.wake = Some(Time::from_nanos(begins));
    }

    /// Reports the session's rate if it has changed.
    fn tell(&self, before: Option<Bandwidth>, out: &mut Outbox<Packet>) {
        let rate = self.assigned();
        if rate != before {
            out.rate = rate;
        }
    }

    /// A session never gets more than its demand, even if the links have counted wrongly.
    fn assigned(&self) -> Option<Bandwidth> {
        self.answered.map(|_| Bandwidth::from_bits_per_sec(self.rate.min(self.demand)))
    }
}

impl crate::Source<Packet> for Source {
    fn join(&mut self, now: Time, demand: Bandwidth, out: &mut Outbox<Packet>) -> Result<()> {
        self.demand = bounds::demand(demand)?;
        self.active = true;
        self.send(now, out);
        Ok(())
    }

    fn change(&mut self, _: Time, demand: Bandwidth, out: &mut Outbox<Packet>) -> Result<()> {
        let before = self.assigned();
        // A lower demand takes effect at once, a higher one in the next round.
        self.demand = bounds::demand(demand)?;
        self.tell(before, out);
        Ok(())
    }

    fn leave(&mut self, _: Time, out: &mut Outbox<Packet>) {
        self.active = false;
        out.gone = true;
    }

    fn receive(&mut self, now: Time, packet: Packet, out: &mut Outbox<Packet>) {
        let overtaken = self.answered.is_some_and(|newest| packet.round < newest);
        if !self.active || overtaken {
            return;
        }
        let before = self.assigned();
        self.rate = packet.rate;
        self.limit = packet.limit;
        self.answered = Some(packet.round);
        self.tell(before, out);
        if packet.counts && round_at(now, self.round) == packet.round {
            self.counted = Some(packet.round);
        }
    }

    fn on_wake(&mut self, now: Time, out: &mut Outbox<Packet>) {
        if self.active {
            self.send(now, out);
        }
    }

    fn rate(&self) -> Option<Bandwidth> {
        self.assigned()
    }
}
