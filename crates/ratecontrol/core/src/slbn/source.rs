//! The source node (Figure 1), with pauses between cycles (§III).

use std::marker::PhantomData;

use base::{Bandwidth, Time};

use super::form::Form;
use super::packet::{Kind, Packet};
use crate::{Error, Outbox, Pace, Result, SessionId, Towards, bounds};

/// State of the session's one packet.
#[derive(Clone, Copy, Debug)]
enum Stage {
    /// Not sent yet.
    Fresh,
    /// In flight: a cycle runs.
    Cycle,
    /// At the source until the next cycle starts at this time.
    Pause(Packet, Time),
    /// The session has left.
    Gone,
}

/// The source of a session.
///
/// - *Leave within a cycle* waits for the packet to return, because links have counted the session
///   with that packet's values. Between cycles the source has the packet and leaves at once.
/// - *Change within a cycle* takes effect when the packet returns; between cycles the next one
///   starts at once. As each cycle takes a round trip, changes can add one early packet per round
///   trip to the pace.
/// - A source that has left cannot be reused: the same traffic joins again as another session.
#[derive(Clone, Copy, Debug)]
pub struct Source<F> {
    session: SessionId,
    stage: Stage,
    leaving: bool,
    /// Whether a rate was assigned, which may be 0.
    assigned: bool,
    pace: Pace,
    demand: u64,
    /// Bit/s.
    rate: u64,
    sent: Time,
    cycles: u32,
    form: PhantomData<F>,
}

impl<F: Form> Source<F> {
    pub(super) fn new(session: SessionId, pace: Pace) -> Self {
        Self {
            session,
            stage: Stage::Fresh,
            leaving: false,
            assigned: false,
            pace,
            demand: 0,
            rate: 0,
            sent: Time::ZERO,
            cycles: 0,
            form: PhantomData,
        }
    }

    fn send(&mut self, now: Time, packet: Packet, out: &mut Outbox<Packet>) {
        self.sent = now;
        self.stage = Stage::Cycle;
        out.send(self.session, 0, Towards::Destination, packet);
    }

    fn probe(&mut self, now: Time, ack: &Packet, out: &mut Outbox<Packet>) {
        self.send(now, F::next(ack, self.demand), out);
    }

    //= slbn fig. 1 line 19
    fn go(&mut self, ack: &Packet, out: &mut Outbox<Packet>) {
        self.stage = Stage::Gone;
        let leave = Packet { kind: Kind::Leave, ..*ack };
        out.send(self.session, 0, Towards::Destination, leave);
        out.gone = true;
    }
}

impl<F: Form> crate::Source<Packet> for Source<F> {
    //= slbn fig. 1 line 4
    fn join(&mut self, now: Time, demand: Bandwidth, out: &mut Outbox<Packet>) -> Result<()> {
        let rate = bounds::demand(demand)?;
        if !matches!(self.stage, Stage::Fresh) {
            return Err(Error::Session { session: self.session.0, what: "has joined before" });
        }
        self.demand = rate;
        let (kind, latest) = (Kind::Join, None);
        let join = Packet { kind, latest, before: 0, last: 0, rate, bottlenecks: 0 };
        self.send(now, join, out);
        Ok(())
    }

    //= slbn fig. 1 line 13
    fn change(&mut self, now: Time, demand: Bandwidth, out: &mut Outbox<Packet>) -> Result<()> {
        let demand = bounds::demand(demand)?;
        if demand == self.demand || self.leaving {
            return Ok(());
        }
        self.demand = demand;
        if F::LOWERS_AT_ONCE && self.rate > demand {
            self.rate = demand;
            out.rate = Some(Bandwidth::from_bits_per_sec(demand));
        }
        if let Stage::Pause(ack, _) = self.stage {
            self.probe(now, &ack, out);
        }
        Ok(())
    }

    //= slbn fig. 1 line 9
    fn leave(&mut self, _now: Time, out: &mut Outbox<Packet>) {
        self.leaving = true;
        match self.stage {
            Stage::Fresh => {
                self.stage = Stage::Gone;
                out.gone = true;
            }
            Stage::Pause(ack, _) => self.go(&ack, out),
            Stage::Cycle | Stage::Gone => {}
        }
    }

    //= slbn fig. 1 line 17
    fn receive(&mut self, now: Time, packet: Packet, out: &mut Outbox<Packet>) {
        if !matches!(self.stage, Stage::Cycle) || packet.kind != Kind::ProbeAck {
            return;
        }
        if self.leaving {
            self.go(&packet, out);
            return;
        }
        let rate = Bandwidth::from_bits_per_sec(F::assigned(&packet, self.demand));
        self.assigned = true;
        self.rate = rate.bits_per_sec();
        out.rate = Some(rate);
        self.cycles = self.cycles.wrapping_add(1);
        let cycle = u64::from(self.cycles);
        let pause = self.pace.pause(self.session.0, cycle, now.since(self.sent));
        let next = (now + pause).max(self.sent + self.pace.gap(rate));
        if next > now {
            self.stage = Stage::Pause(packet, next);
            out.wake = Some(next);
        } else {
            self.probe(now, &packet, out);
        }
    }

    fn on_wake(&mut self, now: Time, out: &mut Outbox<Packet>) {
        // The deadline of a pause is obsolete if a change has started a cycle early.
        match self.stage {
            Stage::Pause(ack, until) if until <= now => self.probe(now, &ack, out),
            _ => {}
        }
    }

    fn rate(&self) -> Option<Bandwidth> {
        self.assigned.then_some(Bandwidth::from_bits_per_sec(self.rate))
    }
}
