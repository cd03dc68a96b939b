//! Subflows without progress: detection, replacement and recovery.
//!
//! Two conditions show that a subflow no longer delivers:
//!
//! - TCP has data in flight or queued, and nothing is acknowledged for [`stale_after`].
//! - TCP has acknowledged everything, but the peer's session has not. Then a device between both
//!   ends terminates TCP and does not forward: a proxy, or a performance-enhancing middlebox.
//!   A busy peer sends no DACKs on any subflow, so only DACKs on another one show this.
//!
//! [`stale_after`]: Subflow::stale_after

use base::Time;

use super::subflow::{State, Subflow};
use super::{Event, Output, Session};
use crate::SubflowId;
use crate::payload::Payload;

impl<P: Payload> Session<P> {
    pub(super) fn drop_oldest_stale(&mut self) {
        if let Some(id) = self.find(Subflow::is_stale) {
            self.drop_subflow(id, true);
        }
    }

    /// Marks a subflow as stale and sends its data on others.
    pub(super) fn mark_stale(&mut self, id: SubflowId, needs_dack: bool) {
        let now = self.now;
        let Some(subflow) = self.subflow_mut(id) else { return };
        let in_flight_end = (subflow.info.acked + subflow.info.in_flight).count();
        subflow.state = State::Stale { repaired_at: (!needs_dack).then_some(in_flight_end) };
        // Other subflows carry the control frames from now on, one at a time.
        let controls = std::mem::take(&mut subflow.controls);
        self.event(Event::SubflowStale(id));
        for path in &mut self.paths {
            path.mark_stale(now, id);
        }
        self.outgoing.mark_due(self.slots(Subflow::is_stale));
        if self.active().next().is_some() {
            for (_, frame) in controls {
                self.send_control(frame);
            }
            self.acknowledging.send_immediately();
        } else if let Some(subflow) = self.subflow_mut(id) {
            subflow.controls = controls;
        }
        self.open_paths();
    }

    /// Uses a stale subflow again.
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
    pub(super) fn detect_unanswered(&mut self) {
        for at in 0..self.subflows.len() {
            let subflow = &self.subflows[at];
            let Some(mut awaited) = subflow.awaited_dack.filter(|_| subflow.is_active()) else {
                continue;
            };
            // A busy peer answers on no subflow.
            let answers = |other: &Subflow<P>| {
                let is_newer = other.awaited_dack.is_none_or(|it| it.since > awaited.since);
                other.id != subflow.id && is_newer
            };
            let is_first = awaited.answered_elsewhere_at.is_none();
            if awaited.is_acked && is_first && self.active().any(answers) {
                awaited.answered_elsewhere_at = Some(self.now);
                self.subflows[at].awaited_dack = Some(awaited);
            }
        }
    }

    /// Marks subflows as stale whose frames were acknowledged by TCP but not by the peer's session.
    /// All received frames must have been processed before: if this host was busy, the answers may
    /// still be in the sockets.
    pub(super) fn mark_unanswered_stale(&mut self) {
        self.detect_unanswered();
        let now = self.now;
        let is_due =
            |s: &Subflow<P>| s.is_active() && s.unanswered_at().is_some_and(|at| at <= now);
        while self.has_several_active()
            && let Some(id) = self.find(is_due)
        {
            self.mark_stale(id, true);
        }
    }

    /// Client: marks all subflows as stale after an unanswered probe, so that new connections
    /// replace them. On the old ones the peer's TCP may wait up to 120 s for its next
    /// retransmission (RFC 6298 §2.5; Linux, `TCP_RTO_MAX`), although the path works again.
    pub(super) fn mark_all_stale(&mut self) {
        while let Some(id) = self.find(Subflow::is_active) {
            self.mark_stale(id, true);
        }
    }

    /// Deadline of the next [`mark_unanswered_stale`](Self::mark_unanswered_stale).
    pub(super) fn unanswered_deadline(&self) -> Option<Time> {
        self.active().filter_map(Subflow::unanswered_at).min().filter(|_| self.has_several_active())
    }
}
