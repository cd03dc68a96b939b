//! The router link (Figure 2).
//!
//! **Overflow.** Capacities and demands are at most 2⁵⁶ bit/s, so each bw is, and shares are in
//! [⌊C/N⌋, C] whatever BF is. N and NR count sessions, whose numbers have 32 bits. BF is a sum of
//! previous rates: while many sessions travel downstream it can exceed C and, with more than 2⁸
//! sessions of 2⁵⁶ bit/s each, even 64 bits. It is therefore kept modulo 2⁶⁴: each value is removed
//! as it was added, so no error accumulates, and the sum is correct again once it fits; until then
//! the link offers another share within the bounds above.

use std::marker::PhantomData;

use base::{Bandwidth, Time};

use super::form::Form;
use super::packet::{Kind, Packet};
use crate::{Fate, Outbox, Result, State, Towards, Visit, bounds};

/// One direction of a link: its capacity and three integers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Link<F> {
    capacity: u64,
    /// BF: total rate of the sessions that are limited elsewhere, in bit/s.
    saturated: u64,
    /// NR: number of sessions that this link limits.
    limited: u64,
    /// N: number of sessions.
    sessions: u64,
    form: PhantomData<F>,
}

impl<F: Form> Link<F> {
    //= slbn fig. 2 line 2
    pub(super) fn try_new(capacity: Bandwidth) -> Result<Self> {
        let capacity = bounds::capacity(capacity)?;
        Ok(Self { capacity, saturated: 0, limited: 0, sessions: 0, form: PhantomData })
    }

    /// (BF, NR, N).
    pub fn integers(&self) -> (u64, u64, u64) {
        (self.saturated, self.limited, self.sessions)
    }

    /// The share of each of `sharers` sessions that the link limits, in bit/s.
    fn share(&self, sharers: u64) -> u64 {
        let rest = self.capacity.saturating_sub(self.saturated) / sharers.max(1);
        rest.max(self.capacity / self.sessions.max(1))
    }

    //= slbn fig. 2 line 4
    fn join(&mut self, hop: u8, packet: &mut Packet) {
        self.sessions += 1;
        let share = self.share(F::sharers_at_join(self.limited));
        if packet.rate > share {
            //= slbn fig. 2 line 7
            packet.mark(hop);
            self.limited += 1;
        }
    }

    /// Probe with `counted` = bw″, `ProbeAck` with bw′.
    //= slbn fig. 2 line 12
    //= slbn fig. 2 line 27
    fn probe(&mut self, hop: u8, counted: u64, packet: &mut Packet) {
        if !packet.unmark(hop) {
            //= slbn fig. 2 line 16
            //= slbn fig. 2 line 31
            self.saturated = self.saturated.wrapping_sub(counted);
            self.limited += 1;
        }
        //= slbn fig. 2 line 18
        //= slbn fig. 2 line 33
        let share = self.share(self.limited);
        if packet.latest == Some(hop) || packet.rate > share {
            //= slbn fig. 2 line 20
            //= slbn fig. 2 line 35
            packet.mark(hop);
            packet.rate = share;
        } else {
            //= slbn fig. 2 line 22
            //= slbn fig. 2 line 37
            self.saturated = self.saturated.wrapping_add(packet.last);
            self.limited = self.limited.saturating_sub(1);
        }
    }

    //= slbn fig. 2 line 42
    fn leave(&mut self, hop: u8, packet: &Packet) {
        if packet.is_marked(hop) {
            self.limited = self.limited.saturating_sub(1);
        } else {
            self.saturated = self.saturated.wrapping_sub(packet.last);
        }
        self.sessions = self.sessions.saturating_sub(1);
    }
}

impl<F: Form> crate::Link<Packet> for Link<F> {
    fn visit(
        &mut self,
        _now: Time,
        visit: Visit,
        packet: &mut Packet,
        _out: &mut Outbox<Packet>,
    ) -> Fate {
        match (packet.kind, visit.towards) {
            (Kind::Join, _) => self.join(visit.hop, packet),
            (Kind::Probe, _) => self.probe(visit.hop, packet.before, packet),
            (Kind::ProbeAck, Towards::Source) => self.probe(visit.hop, packet.last, packet),
            (Kind::ProbeAck, Towards::Destination) => return Fate::Absorb,
            (Kind::Leave, _) => self.leave(visit.hop, packet),
        }
        Fate::Forward
    }

    fn set_capacity(
        &mut self,
        _now: Time,
        capacity: Bandwidth,
        _out: &mut Outbox<Packet>,
    ) -> Result<()> {
        self.capacity = bounds::capacity(capacity)?;
        Ok(())
    }

    fn state(&self) -> State {
        State { numbers: 3, bytes: 3 * size_of::<u64>() as u64 }
    }
}
