//! Subflows without progress: detection, replacement and recovery.
//!
//! Two conditions show that a subflow no longer delivers:
//!
//! - TCP has data in flight or queued, and nothing is acknowledged for [`stale_after`].
//! - TCP has acknowledged everything, but the peer's session has not. Then a device between both
//!   ends terminates TCP and does not forward: a proxy, or a performance-enhancing middlebox.
//!   DACKs of the peer on another subflow distinguish this from a busy peer.
//!
//! [`stale_after`]: Subflow::stale_after

use base::Time;

use super::subflow::{State, Subflow};
use super::{Event, Output, Session};
use crate::SubflowId;
use crate::payload::Payload;

impl<P: Payload> Session<P> {
    pub(super) fn drop_oldest_stale(&mut self) {
        let stale = self.subflows.iter().find(|subflow| subflow.is_stale());
        if let Some(id) = stale.map(|subflow| subflow.id) {
            self.drop_subflow(id, true);
        }
    }

    /// Marks a subflow as stale and sends its data on others.
    pub(super) fn grow_stale(&mut self, id: SubflowId, needs_dack: bool) {
        let now = self.now;
        let Some(subflow) = self.subflow_mut(id) else { return };
        let in_flight_end = (subflow.info.acked + subflow.info.in_flight).count();
        subflow.state = State::Stale { repaired_at: (!needs_dack).then_some(in_flight_end) };
        // Other subflows carry the control frames from now on, one at a time.
        let controls = std::mem::take(&mut subflow.controls);
        self.event(Event::SubflowStale(id));
        for path in &mut self.paths {
            path.grow_stale(now, id);
        }
        let stale = self.subflows.iter().filter(|s| s.is_stale()).fold(0, |all, s| all | s.slot);
        self.outgoing.redo(stale);
        if self.subflows.iter().any(Subflow::is_active) {
            for (_, frame) in controls {
                self.send_control(frame);
            }
            self.acknowledging.hurry();
        } else if let Some(subflow) = self.subflow_mut(id) {
            subflow.controls = controls;
        }
        self.open_paths();
    }

    /// Resumes the use of a stale subflow.
    pub(super) fn revive(&mut self, id: SubflowId) {
        let Some(subflow) = self.subflow_mut(id) else { return };
        subflow.state = State::Active;
        self.event(Event::SubflowRevived(id));
        for at in 0..self.paths.len() {
            if self.paths[at].revive(id) {
                self.outputs.push_back(Output::Abandon(self.paths[at].id));
            }
        }
    }

    /// Records which subflows have unanswered frames although the peer answers on another one.
    pub(super) fn note_unanswered(&mut self) {
        for at in 0..self.subflows.len() {
            let subflow = &self.subflows[at];
            let Some(mut unseen) = subflow.unseen.filter(|_| subflow.is_active()) else { continue };
            // A busy peer answers on no subflow.
            let answers = |other: &Subflow<P>| {
                let is_newer = other.unseen.is_none_or(|oldest| oldest.since > unseen.since);
                other.id != subflow.id && other.is_active() && is_newer
            };
            if unseen.is_acked && unseen.outpaced_at.is_none() && self.subflows.iter().any(answers)
            {
                unseen.outpaced_at = Some(self.now);
                self.subflows[at].unseen = Some(unseen);
            }
        }
    }

    /// Marks subflows as stale whose frames were acknowledged by TCP but not by the peer's session.
    /// All received frames must have been processed before: if this host was busy, the answers may
    /// still be in the sockets.
    pub(super) fn leave_unanswered(&mut self) {
        self.note_unanswered();
        let now = self.now;
        let is_due =
            |s: &&Subflow<P>| s.is_active() && s.unanswered_at().is_some_and(|at| at <= now);
        while self.active() > 1
            && let Some(id) = self.subflows.iter().find(is_due).map(|subflow| subflow.id)
        {
            self.grow_stale(id, true);
        }
    }

    /// Client: marks all subflows as stale after an unanswered probe, so that new connections
    /// replace them. On the old ones the peer's TCP may wait up to 120 s for its next
    /// retransmission (RFC 6298 §2.5; Linux, `TCP_RTO_MAX`), although the path works again.
    pub(super) fn leave_silent(&mut self) {
        while let Some(id) = self.subflows.iter().find(|s| s.is_active()).map(|s| s.id) {
            self.grow_stale(id, true);
        }
    }

    /// Deadline of the next [`leave_unanswered`](Self::leave_unanswered).
    pub(super) fn unanswered_deadline(&self) -> Option<Time> {
        let active = self.subflows.iter().filter(|subflow| subflow.is_active());
        active.filter_map(Subflow::unanswered_at).min().filter(|_| self.active() > 1)
    }
}
