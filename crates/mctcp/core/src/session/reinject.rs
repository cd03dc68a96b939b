//! Reinjection of delayed pieces (Raiciu et al., *How Hard Can It Be?*, NSDI 2012, §4.2).
//!
//! A subflow with room and nothing new to send, because the credit is exhausted (mechanism 1) or
//! the stream has ended, reinjects the oldest piece that a slower subflow would deliver later. The
//! limit of a subflow that exhausted the credit is reduced temporarily (mechanism 2). While the
//! application pauses, no data wait behind the piece: then it is reinjected only once it is
//! overdue.
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
const MAX_EXAMINED_PIECES: usize = 64;
/// Minimum advantage of the subflow that reinjects a piece.
const MIN_REINJECTION_GAIN: Span = Span::from_millis(1);

impl<P: Payload> Session<P> {
    /// Reinjects the oldest piece if it is overdue and much credit is in use; returns
    /// whether it did.
    pub(super) fn reinject_overdue(&mut self) -> bool {
        if self.outgoing.outstanding() < self.outgoing.window() / 4 * 3
            || !self.has_several_active()
        {
            return false;
        }
        let Some(oldest) = self.outgoing.unacked().next() else { return false };
        if !self.is_overdue(oldest) || self.now < self.dack_due_at(oldest) {
            return false;
        }
        let (dsn, carriers, late) =
            (oldest.dsn, oldest.carriers, self.retransmission_arrival(oldest));
        let found = self.earliest(carriers, oldest.length);
        let Some((id, slot, expected)) =
            found.filter(|found| found.2 + MIN_REINJECTION_GAIN < late)
        else {
            return false;
        };
        let Some(piece) = self.outgoing.retransmit(dsn, slot, expected) else { return false };
        self.reinject(id, piece);
        true
    }

    /// Reinjects one piece if that delivers it earlier; returns whether it did.
    pub(super) fn reinject_early(&mut self) -> bool {
        let idle = self.outgoing.unsent() == 0;
        if !(idle || self.outgoing.credit_left() == 0)
            || self.outgoing.outstanding() == 0
            || !self.has_several_active()
        {
            return false;
        }
        let pauses = idle && self.is_pausing();
        let found = self.outgoing.unacked().take(MAX_EXAMINED_PIECES).find_map(|segment| {
            let late = match (pauses, self.is_overdue(segment)) {
                // Without later data TCP detects a loss only by its timeout.
                (true, _) if self.is_tail_due(segment) => Time::MAX,
                (true, _) => return None,
                (false, true) => self.retransmission_arrival(segment),
                (false, false) => segment.expected,
            };
            let (id, slot, expected) = self.earliest(segment.carriers, segment.length)?;
            let is_earlier = expected + MIN_REINJECTION_GAIN < late;
            is_earlier.then_some((segment.dsn, segment.carriers, id, slot, expected))
        });
        let Some((dsn, carriers, id, slot, expected)) = found else { return false };
        if self.outgoing.unsent() > 0 {
            self.lower_budget(carriers);
        }
        let Some(piece) = self.outgoing.retransmit(dsn, slot, expected) else { return false };
        if pauses {
            self.copied_bytes += piece.length;
            let carriers = self.subflows.iter_mut().filter(|s| s.slot & carriers != 0);
            carriers.for_each(Subflow::suspect_loss);
        }
        self.reinject(id, piece);
        true
    }

    /// Time at which the DACK of a piece is late. If no data follow the piece, it is then sent on
    /// another subflow: TCP's own probe comes only after two round trips and 200 ms (RFC 8985
    /// §7.2).
    fn dack_due_at(&self, segment: &Segment<P>) -> Time {
        let (carriers, delay) = (self.in_slots(segment.carriers), self.dack_delay());
        segment.sent_at + carriers.map(|s| s.ack_timeout(delay)).max().unwrap_or_default()
    }

    fn is_tail_due(&self, segment: &Segment<P>) -> bool {
        let is_single = segment.carriers.is_power_of_two();
        let is_allowed = self.copied_bytes + segment.length <= self.copies_allowed();
        is_allowed && is_single && self.now >= self.dack_due_at(segment)
    }

    /// Deadline after which the oldest piece is reinjected if no data follow it.
    pub(super) fn tail_deadline(&self) -> Option<Time> {
        let pauses = self.outgoing.unsent() == 0 && self.is_pausing();
        let oldest =
            self.outgoing.unacked().next().filter(|_| pauses && self.has_several_active())?;
        Some(self.dack_due_at(oldest))
    }

    /// Whether the application pauses: it may write, but does not, and has not finished.
    fn is_pausing(&self) -> bool {
        !self.outgoing.is_finished() && !self.write_blocked
    }

    pub(super) fn has_several_active(&self) -> bool {
        self.active().nth(1).is_some()
    }

    /// Whether the acknowledgement of a piece is overdue.
    fn is_overdue(&self, segment: &Segment<P>) -> bool {
        let back = self.active().map(Subflow::srtt).min().unwrap_or_default();
        let deviations = self.in_slots(segment.carriers).filter_map(|s| s.info.rtt_var);
        let deviation = deviations.max().unwrap_or_default();
        let slack = back.as_nanos() / 2 + deviation.as_nanos() * 2;
        self.now >= segment.expected + Span::from_nanos(slack) + self.dack_delay()
    }

    /// Earliest arrival of an overdue piece, which TCP must retransmit.
    fn retransmission_arrival(&self, segment: &Segment<P>) -> Time {
        let carriers = self.in_slots(segment.carriers);
        carriers.map(|s| self.now + s.srtt()).min().unwrap_or(Time::MAX)
    }

    /// Halves the limit of a subflow that exhausted the credit, at most once per round trip.
    fn lower_budget(&mut self, carriers: super::Slots) {
        let now = self.now;
        let min_budget = self.settings.max_frame.count();
        for subflow in self.subflows.iter_mut().filter(|s| s.slot & carriers != 0) {
            if now >= subflow.budget_lowered_at + subflow.srtt() {
                subflow.budget_lowered_at = now;
                subflow.budget = Some((subflow.outstanding / 2).max(min_budget));
            }
        }
    }
}
