//! Reductions of the window: their start, end and undo.

use base::{Bytes, Time};

use super::Sender;
use crate::tcp::control::{Cause, CongestionControl};
use crate::tcp::packed::packed_choice;
use crate::tcp::segment::Feedback;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    /// No reduction is active.
    Open,
    /// The response to marks of congestion.
    Marked,
    Recovery,
    /// After a timeout with real losses.
    Loss,
    /// After a timeout that may be spurious: the first segment was retransmitted (RFC 5682 step 1).
    Doubt,
    /// New segments were sent instead of further retransmissions (RFC 5682 step 2b).
    Forward,
}

packed_choice!(Phase { Open, Marked, Recovery, Loss, Doubt, Forward });

impl Phase {
    pub(super) const fn follows_timeout(self) -> bool {
        matches!(self, Self::Loss | Self::Doubt | Self::Forward)
    }
}

impl Sender {
    /// Begins fast recovery if there are losses and no reduction is active.
    pub(super) fn recover(&mut self, now: Time, prior_in_flight: u64) {
        match self.phase {
            Phase::Open => {
                self.control.enter_recovery(now, Cause::Loss, Bytes::new(prior_in_flight));
                self.begin(Phase::Recovery);
                self.allow_undo();
                self.counters.recoveries += 1;
            }
            Phase::Marked => self.begin(Phase::Recovery),
            _ => {}
        }
    }

    /// The peer echoes a mark: reduces the window once per window of data.
    pub(super) fn on_echo(&mut self, now: Time, prior_in_flight: u64) {
        self.counters.echoes += 1;
        if self.phase == Phase::Open {
            self.control.enter_recovery(now, Cause::Mark, Bytes::new(prior_in_flight));
            self.begin(Phase::Marked);
            self.undo_from = 0;
        }
    }

    pub(super) fn begin(&mut self, phase: Phase) {
        self.phase = phase;
        self.phase_end = self.next;
        self.probe_end = 0;
        self.reduced = self.ecn == Feedback::Classic;
    }

    pub(super) fn allow_undo(&mut self) {
        self.undo_from = self.board.una;
        self.undo_count = 0;
    }

    /// Ends the phase when everything that was outstanding at its start is acknowledged. Later
    /// losses then start another phase.
    pub(super) fn leave(&mut self, now: Time, prior_in_flight: u64) {
        if self.phase == Phase::Open || self.board.una < self.phase_end {
            return;
        }
        self.control.exit_recovery(now);
        if self.phase != Phase::Marked {
            self.rack.end_episode();
        }
        self.phase = Phase::Open;
        let una = self.board.una;
        if self.board.losses.as_ref().is_some_and(|losses| losses.highest > una) {
            self.recover(now, prior_in_flight);
        }
    }

    /// Undoes the last reduction: nothing was lost.
    pub(super) fn undo(&mut self, now: Time) {
        self.control.undo(now);
        self.counters.undone += 1;
        self.undo_from = 0;
        self.reduced = false;
        if self.phase != Phase::Open {
            self.rack.end_episode();
            self.phase = Phase::Open;
            self.board.find_again();
            self.rack.restart(self.board.first());
            let una = self.board.una;
            if let Some(losses) = &mut self.board.losses {
                losses.highest = una;
            }
        }
    }

    /// After a timeout: decides whether it was spurious (RFC 5682 §3.1). `arrived_first`: a segment
    /// that was sent only once, before the timeout, is acknowledged.
    pub(super) fn doubt(&mut self, now: Time, arrived_first: bool, advanced: bool, sacked: bool) {
        match self.phase {
            Phase::Doubt | Phase::Forward if arrived_first => self.undo(now),
            Phase::Doubt if advanced && !sacked && self.can_send_new() => {
                self.phase = Phase::Forward;
            }
            Phase::Doubt if advanced => self.phase = Phase::Loss,
            Phase::Forward => self.phase = Phase::Loss,
            _ => {}
        }
    }
}
