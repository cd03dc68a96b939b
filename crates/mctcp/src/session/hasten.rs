//! Sending again what arrives too late (Raiciu et al., *How Hard Can It Be?*, NSDI 2012, §4.2).
//!
//! A subflow with room and nothing new to send, because the credit is used up (mechanism 1) or the
//! stream is at its end, takes over the oldest piece that a slower one will deliver later than
//! it would. A subflow that used the credit up is held back for a while (mechanism 2). While the
//! application only pauses, nothing waits for the piece but what comes after it: then it is taken
//! over only once it is overdue.
//!
//! The oldest piece of all is not left to a subflow that lost it until the credit is used up: once
//! three quarters of it wait for a piece that is overdue, whoever is faster takes it over before
//! anything new. With credit to spare that is left to TCP, which would make copies of it needless.

use base::{Span, Time};

use super::sending::Segment;
use super::transmit::INITIAL_COPIES;
use super::{Session, Subflow};
use crate::payload::Payload;

/// Pieces that are looked at.
const LOOK: usize = 64;
/// Copies of last pieces: one byte for so many sent, 5 %, beside [`INITIAL_COPIES`].
const MAX_COPIED: u64 = 20;
/// A subflow has to be faster by this to take over.
const MARGIN: Span = Span::from_millis(1);

impl<P: Payload> Session<P> {
    /// Sends the oldest piece again if it is overdue and much waits for it; tells whether it did.
    pub(super) fn rescue(&mut self) -> bool {
        if self.outgoing.outstanding() < self.outgoing.window() / 4 * 3 || self.active() < 2 {
            return false;
        }
        let Some(oldest) = self.outgoing.unacked().next() else { return false };
        if !self.is_overdue(oldest) {
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

    /// Sends one piece again where that helps; tells whether it did.
    pub(super) fn hasten(&mut self) -> bool {
        let idle = self.outgoing.unsent() == 0;
        if !(idle || self.outgoing.credit_left() == 0)
            || self.outgoing.outstanding() == 0
            || self.active() < 2
        {
            return false;
        }
        let pauses = idle && !self.outgoing.is_finished();
        let found = self.outgoing.unacked().take(LOOK).find_map(|segment| {
            let overdue = self.is_overdue(segment);
            let is_tail = pauses && self.is_tail_due(segment);
            if pauses && !overdue && !is_tail {
                return None;
            }
            let late = match (pauses, overdue) {
                // Nothing that follows shows TCP the loss: it waits for a timeout.
                (true, _) => Time::MAX,
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
            self.punish(carriers);
        }
        let Some(piece) = self.outgoing.repeat(dsn, slot, expected) else { return false };
        if pauses {
            self.copied += piece.length;
            // What follows on these waits for TCP's retransmission.
            self.subflows
                .iter_mut()
                .filter(|s| s.slot & carriers != 0)
                .for_each(|s| s.is_suspect = true);
        }
        self.reinject(id, piece);
        true
    }

    /// When a piece that nothing follows is sent again on another subflow: its acknowledgement is
    /// late by the usual deviation. TCP's own probe comes only after two round trips and 200 ms
    /// (RFC 8985 §7.2). Such copies are part of [`MAX_COPIED`].
    fn tail_due_at(&self, segment: &Segment<P>) -> Time {
        let carriers = || self.subflows.iter().filter(|s| s.slot & segment.carriers != 0);
        let back = carriers().map(Subflow::srtt).max().unwrap_or_default().as_nanos();
        let varies = carriers().filter_map(|s| s.info.rtt_var).max().unwrap_or_default();
        let slack = back / 2 + varies.as_nanos().min(back / 4);
        segment.expected + Span::from_nanos(slack) + self.dack_delay()
    }

    fn is_tail_due(&self, segment: &Segment<P>) -> bool {
        let allowed = INITIAL_COPIES + self.outgoing.sent() / MAX_COPIED;
        let is_allowed = self.copied + segment.length <= allowed;
        let is_single = segment.carriers.is_power_of_two();
        is_allowed && is_single && self.now >= self.tail_due_at(segment)
    }

    /// When the oldest piece is to be sent again, if nothing follows it.
    pub(super) fn tail_deadline(&self) -> Option<Time> {
        let pauses = self.outgoing.unsent() == 0 && !self.outgoing.is_finished();
        let oldest = self.outgoing.unacked().next().filter(|_| pauses && self.active() > 1)?;
        Some(self.tail_due_at(oldest))
    }

    fn active(&self) -> usize {
        self.subflows.iter().filter(|subflow| subflow.is_active()).count()
    }

    /// Whether a piece should have been acknowledged.
    fn is_overdue(&self, segment: &Segment<P>) -> bool {
        let back = self.subflows.iter().filter(|s| s.is_active()).map(Subflow::srtt).min();
        let carriers = self.subflows.iter().filter(|s| s.slot & segment.carriers != 0);
        let varies = carriers.filter_map(|s| s.info.rtt_var).max().unwrap_or_default();
        let slack = back.unwrap_or_default().as_nanos() / 2 + varies.as_nanos() * 2;
        self.now >= segment.expected + Span::from_nanos(slack) + self.dack_delay()
    }

    /// When an overdue piece arrives at best: TCP has to send it again.
    fn resent(&self, segment: &Segment<P>) -> Time {
        let carriers = self.subflows.iter().filter(|s| s.slot & segment.carriers != 0);
        carriers.map(|s| self.now + s.srtt()).min().unwrap_or(Time::MAX)
    }

    /// Halves what a subflow may carry that has used up the credit, once in a round trip.
    fn punish(&mut self, carriers: super::Slots) {
        let now = self.now;
        let least = self.settings.max_frame.count();
        for subflow in self.subflows.iter_mut().filter(|s| s.slot & carriers != 0) {
            if now >= subflow.punished + subflow.srtt() {
                subflow.punished = now;
                subflow.budget = Some((subflow.outstanding / 2).max(least));
            }
        }
    }
}
