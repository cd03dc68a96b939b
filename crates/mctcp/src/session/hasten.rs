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

use super::acknowledge::DELAY;
use super::sending::Segment;
use super::{Session, Subflow};
use crate::payload::Payload;

/// Pieces that are looked at.
const LOOK: usize = 64;
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
            if pauses && !overdue {
                return None;
            }
            let late = if overdue { self.resent(segment) } else { segment.expected };
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
        self.reinject(id, piece);
        true
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
        self.now >= segment.expected + Span::from_nanos(slack) + DELAY
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
