//! Reinjection of delayed pieces (Raiciu et al., *How Hard Can It Be?*, NSDI 2012, §4.2).
//!
//! A subflow with room and nothing new to send, because the credit is exhausted (mechanism 1) or
//! the stream has ended, reinjects the oldest piece that a slower subflow would deliver later. The
//! limit of a subflow that exhausted the credit is reduced temporarily (mechanism 2). While the
//! application only pauses, only later data depend on the piece: then it is reinjected only once
//! it is overdue.
//!
//! If a subflow has lost the oldest piece, it is reinjected before the credit is
//! exhausted: once three quarters of the credit are in use and the piece is overdue, a
//! faster subflow sends it before new data. With more credit left, the repair is left to
//! TCP, which makes copies unnecessary.

use base::{Span, Time};

use super::sending::Segment;
use super::{Session, Subflow};
use crate::payload::Payload;

/// Maximum number of pieces examined.
const LOOK: usize = 64;
/// Minimum advantage of the subflow that reinjects a piece.
const MARGIN: Span = Span::from_millis(1);

impl<P: Payload> Session<P> {
    /// Reinjects the oldest piece if it is overdue and much credit is in use; returns
    /// whether it did.
    pub(super) fn rescue(&mut self) -> bool {
        if self.outgoing.outstanding() < self.outgoing.window() / 4 * 3 || self.active() < 2 {
            return false;
        }
        let Some(oldest) = self.outgoing.unacked().next() else { return false };
        if !self.is_overdue(oldest) || self.now < self.dack_due_at(oldest) {
            return false;
        }
        let (dsn, carriers, late) = (oldest.dsn, oldest.carriers, self.resent(oldest));
        let found = self.fastest(carriers, oldest.length);
        let Some((id, slot, expected)) = found.filter(|found| found.2 + MARGIN < late) else {
            return false;
        };
        let Some(piece) = self.outgoing.repeat(dsn, slot, expected) else { return false };
        self.reinject(id, piece);
        true
    }

    /// Reinjects one piece if that delivers it earlier; returns whether it did.
    pub(super) fn reinject_early(&mut self) -> bool {
        let idle = self.outgoing.unsent() == 0;
        if !(idle || self.outgoing.credit_left() == 0)
            || self.outgoing.outstanding() == 0
            || self.active() < 2
        {
            return false;
        }
        let pauses = idle && self.is_pausing();
        let found = self.outgoing.unacked().take(LOOK).find_map(|segment| {
            let late = match (pauses, self.is_overdue(segment)) {
                // No later data show the loss to TCP, which waits for a timeout.
                (true, _) if self.is_tail_due(segment) => Time::MAX,
                (true, _) => return None,
                (false, true) => self.resent(segment),
                (false, false) => segment.expected,
            };
            let (id, slot, expected) = self.fastest(segment.carriers, segment.length)?;
            (expected + MARGIN < late).then_some((
                segment.dsn,
                segment.carriers,
                id,
                slot,
                expected,
            ))
        });
        let Some((dsn, carriers, id, slot, expected)) = found else { return false };
        if self.outgoing.unsent() > 0 {
            self.lower_budget(carriers);
        }
        let Some(piece) = self.outgoing.repeat(dsn, slot, expected) else { return false };
        if pauses {
            self.copied += piece.length;
            let carriers = self.subflows.iter_mut().filter(|s| s.slot & carriers != 0);
            carriers.for_each(Subflow::suspect);
        }
        self.reinject(id, piece);
        true
    }

    /// Time at which the DACK of a piece is late. If no data follow the piece, it is then sent on
    /// another subflow: TCP's own probe comes only after two round trips and 200 ms (RFC 8985
    /// §7.2).
    fn dack_due_at(&self, segment: &Segment<P>) -> Time {
        let carriers = self.subflows.iter().filter(|s| s.slot & segment.carriers != 0);
        let delay = self.dack_delay();
        segment.sent_at + carriers.map(|s| s.ack_timeout(delay)).max().unwrap_or_default()
    }

    fn is_tail_due(&self, segment: &Segment<P>) -> bool {
        let is_single = segment.carriers.is_power_of_two();
        let is_allowed = self.copied + segment.length <= self.copies_allowed();
        is_allowed && is_single && self.now >= self.dack_due_at(segment)
    }

    /// Deadline after which the oldest piece is reinjected if no data follow it.
    pub(super) fn tail_deadline(&self) -> Option<Time> {
        let pauses = self.outgoing.unsent() == 0 && self.is_pausing();
        let oldest = self.outgoing.unacked().next().filter(|_| pauses && self.active() > 1)?;
        Some(self.dack_due_at(oldest))
    }

    /// Whether the application pauses: it may write, but does not, and has not finished.
    fn is_pausing(&self) -> bool {
        !self.outgoing.is_finished() && !self.wants_room
    }

    pub(super) fn active(&self) -> usize {
        self.subflows.iter().filter(|subflow| subflow.is_active()).count()
    }

    /// Whether the acknowledgement of a piece is overdue.
    fn is_overdue(&self, segment: &Segment<P>) -> bool {
        let back = self.subflows.iter().filter(|s| s.is_active()).map(Subflow::srtt).min();
        let carriers = self.subflows.iter().filter(|s| s.slot & segment.carriers != 0);
        let varies = carriers.filter_map(|s| s.info.rtt_var).max().unwrap_or_default();
        let slack = back.unwrap_or_default().as_nanos() / 2 + varies.as_nanos() * 2;
        self.now >= segment.expected + Span::from_nanos(slack) + self.dack_delay()
    }

    /// Earliest arrival of an overdue piece, which TCP must retransmit.
    fn resent(&self, segment: &Segment<P>) -> Time {
        let carriers = self.subflows.iter().filter(|s| s.slot & segment.carriers != 0);
        carriers.map(|s| self.now + s.srtt()).min().unwrap_or(Time::MAX)
    }

    /// Halves the limit of a subflow that exhausted the credit, at most once per round trip.
    fn lower_budget(&mut self, carriers: super::Slots) {
        let now = self.now;
        let least = self.settings.max_frame.count();
        for subflow in self.subflows.iter_mut().filter(|s| s.slot & carriers != 0) {
            if now >= subflow.budget_lowered_at + subflow.srtt() {
                subflow.budget_lowered_at = now;
                subflow.budget = Some((subflow.outstanding / 2).max(least));
            }
        }
    }
}
