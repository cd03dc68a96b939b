//! The link: its counts in a round, and its offers from the last one.

use base::{Bandwidth, Span, Time};

use super::{Packet, round_at};
use crate::{Fate, Outbox, Result, State, Towards, Visit, bounds};

/// Counts of a link in a round.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Totals {
    /// Total rate of the sessions limited elsewhere, in bit/s.
    pub(super) elsewhere: u64,
    /// Sessions limited here.
    pub(super) here: u64,
    pub(super) sessions: u64,
}

impl Totals {
    fn count(&mut self, rate: u64, here: bool) {
        // A sum of rates that reaches 2⁶⁴ is above any capacity, where links offer the equal share
        // in any case; numbers of sessions reach it only by memory faults.
        self.sessions = self.sessions.saturating_add(1);
        if here {
            self.here = self.here.saturating_add(1);
        } else {
            self.elsewhere = self.elsewhere.saturating_add(rate);
        }
    }
}

/// One direction of a link.
#[derive(Clone, Copy, Debug)]
pub struct Link {
    capacity: u64,
    /// *T*.
    period: Span,
    /// The round that is being counted.
    pub(super) round: u32,
    /// Counts of that round so far.
    pub(super) counting: Totals,
    /// Counts of the previous round.
    pub(super) counted: Totals,
}

impl Link {
    pub(super) fn new(capacity: u64, period: Span) -> Self {
        Self { capacity, period, round: 0, counting: Totals::default(), counted: Totals::default() }
    }

    /// Starts the packet's round if it is a new one.
    fn advance(&mut self, now: Time, round: u32) {
        // A round that has not begun is a memory fault.
        let faulty = self.round > round_at(now, self.period);
        if !faulty && round <= self.round {
            return;
        }
        let follows = !faulty && round - self.round == 1;
        self.counted = if follows { self.counting } else { Totals::default() };
        self.counting = Totals::default();
        self.round = round;
    }

    /// The offer to the session of the packet.
    fn offer(&self, packet: &Packet, hop: u8) -> u64 {
        let Totals { elsewhere, here, sessions } = self.counted;
        let one_more = here.saturating_add(1);
        let (elsewhere, here, sessions) = match (packet.known, packet.last_limit == hop) {
            (true, true) => (elsewhere, here, sessions),
            (true, false) => (elsewhere.saturating_sub(packet.last), one_more, sessions),
            (false, _) => (elsewhere, one_more, sessions.saturating_add(1)),
        };
        let left = self.capacity.saturating_sub(elsewhere) / here.max(1);
        left.max(self.capacity / sessions.max(1))
    }
}

impl crate::Link<Packet> for Link {
    fn visit(
        &mut self,
        now: Time,
        visit: Visit,
        packet: &mut Packet,
        _: &mut Outbox<Packet>,
    ) -> Fate {
        self.advance(now, packet.round);
        match visit.towards {
            Towards::Destination => {
                let offer = self.offer(packet, visit.hop);
                if offer < packet.rate {
                    packet.rate = offer;
                    packet.limit = visit.hop;
                }
            }
            Towards::Source if packet.counts && packet.round == self.round => {
                self.counting.count(packet.rate, packet.limit == visit.hop);
            }
            // The packet is too late.
            Towards::Source => {}
        }
        Fate::Forward
    }

    fn set_capacity(&mut self, _: Time, capacity: Bandwidth, _: &mut Outbox<Packet>) -> Result<()> {
        self.capacity = bounds::capacity(capacity)?;
        Ok(())
    }

    fn state(&self) -> State {
        // Three totals, each for two rounds, and the number of the round.
        let bytes = 2 * size_of::<Totals>() + size_of::<u32>();
        State { numbers: 7, bytes: bytes as u64 }
    }
}
