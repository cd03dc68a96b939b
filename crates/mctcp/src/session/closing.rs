//! How sessions and subflows end.
//!
//! Once both streams were delivered, the last acknowledgement may still be lost with every
//! connection, and the peer would never know. The server need not wait for that: it closes, and
//! its acceptor tells a client that comes back ([`Acceptor::finish`](crate::Acceptor::finish)).
//! The client, which is the one that can come back, stays until the server has closed.

use base::Time;

use super::subflow::State;
use super::{Event, Output, Phase, Session};
use crate::error::Error;
use crate::frame::Frame;
use crate::payload::Payload;
use crate::{Reason, SubflowId};

impl<P: Payload> Session<P> {
    /// Nothing more will be written. The peer may go on.
    pub fn finish(&mut self, now: Time) {
        self.now = now;
        self.outgoing.finish();
    }

    /// Ends the session at once; what was not delivered is lost.
    pub fn abort(&mut self, now: Time, reason: Reason) {
        self.now = now;
        if self.is_over() {
            return;
        }
        if self.done {
            // Nothing is left to be lost.
            self.close();
        } else {
            self.tell_reset(reason, "");
            self.fail(reason, false);
        }
    }

    /// What came on a subflow breaks the protocol. Who has not proven anything yet ends nothing
    /// but the subflow, while there are others.
    pub(super) fn break_off(&mut self, id: SubflowId, error: &Error) {
        let proven = self.subflow(id).is_some_and(super::Subflow::is_usable);
        let others = self.phase == Phase::Established || self.paths.len() > 1;
        if !proven && others {
            self.drop_subflow(id, true);
            if self.phase == Phase::Opening {
                self.refusal = Some(error.reason());
                self.try_others();
            }
            self.open_paths();
            return;
        }
        self.tell_reset(error.reason(), &error.to_string());
        self.fail(error.reason(), false);
    }

    /// While nothing is established: whether another path leads to the right peer.
    fn try_others(&mut self) {
        let open = |path: &super::Path| !matches!(path.state, super::paths::State::Waiting { .. });
        if self.paths.iter().any(open) {
            self.try_next_path();
        } else {
            self.fail(self.refusal.unwrap_or(Reason::Target), false);
        }
    }

    pub(super) fn tell_reset(&mut self, reason: Reason, text: &str) {
        let told: Vec<SubflowId> = self.subflows.iter().map(|subflow| subflow.id).collect();
        for id in told {
            // Before HELLO or JOIN has been answered the peer has no session to reset.
            if self.subflow(id).is_some_and(super::Subflow::is_usable) {
                self.send(id, Frame::Reset { reason, text: text.to_owned() });
            }
        }
    }

    pub(super) fn fail(&mut self, reason: Reason, by_peer: bool) {
        self.phase = Phase::Failed(reason);
        self.end_all();
        self.event(Event::Failed { reason, by_peer });
    }

    /// Both streams are at their ends and acknowledged: so is the session, once the server knows.
    pub(super) fn close_if_done(&mut self) {
        let done = self.outgoing.is_done() && self.incoming.is_complete();
        let proven = self.released && !self.owes_proof();
        if self.phase != Phase::Established || self.done || !done || !proven {
            return;
        }
        let usable = |s: &&super::Subflow<P>| s.is_usable();
        let told: Vec<_> = self.subflows.iter().filter(usable).map(|s| s.id).collect();
        for id in told {
            self.send_dack(id);
        }
        self.done = self.greeting.is_some();
        if !self.done {
            self.close();
        }
    }

    /// Client: whether the end of this subflow says that the server has closed the session, and
    /// thus has heard everything. That of one that is drained does not, nor that of one that
    /// never reached the server's session.
    pub(super) fn ends_with(&self, id: SubflowId) -> bool {
        let tells = |s: &super::Subflow<P>| s.attached && (s.is_active() || s.is_stale());
        self.done && self.subflow(id).is_some_and(tells)
    }

    pub(super) fn close(&mut self) {
        self.phase = Phase::Closed;
        self.end_all();
        self.event(Event::Closed);
    }

    /// The peer gives nothing to its application before it has our proof.
    fn owes_proof(&self) -> bool {
        let sent = self.subflows.iter().flat_map(|s| s.controls.iter().map(|(_, frame)| frame));
        sent.chain(&self.orphans).any(|frame| matches!(frame, Frame::Proof(_)))
    }

    /// The server does not know the session, and nobody else is there to ask: it has closed, or
    /// forgotten it.
    pub(super) fn on_unknown(&mut self) {
        let delivered = self.outgoing.is_delivered() && !self.owes_proof();
        if delivered && self.incoming.is_complete() {
            self.close();
        } else {
            self.fail(Reason::UnknownSession, true);
        }
    }

    fn end_all(&mut self) {
        for subflow in std::mem::take(&mut self.subflows) {
            self.statistics.add(&subflow);
            self.outputs.push_back(Output::Close { subflow: subflow.id, abort: false });
        }
        for path in std::mem::take(&mut self.paths) {
            if matches!(path.state, super::paths::State::Connecting { .. }) {
                self.outputs.push_back(Output::Abandon(path.id));
            }
        }
    }

    /// A subflow is to carry nothing new, and to end when it can.
    pub(super) fn drain(&mut self, id: SubflowId) {
        let now = self.now;
        let Some(subflow) = self.subflow_mut(id) else { return };
        if !subflow.is_usable() {
            self.drop_subflow(id, true);
            return;
        }
        subflow.state = State::Draining { since: now };
        self.send_reliably(id, Frame::Close);
        self.end_drained();
    }

    /// Ends the subflows that have nothing left to deliver, or take too long.
    pub(super) fn end_drained(&mut self) {
        let now = self.now;
        let drained = |s: &super::Subflow<P>| match s.state {
            State::Draining { since } => s.outstanding == 0 || now >= since + super::upkeep::DRAIN,
            _ => false,
        };
        while let Some(id) = self.subflows.iter().find(|s| drained(s)).map(|s| s.id) {
            self.drop_subflow(id, false);
        }
    }

    /// A subflow is gone, or to go. What only it carried is sent elsewhere.
    pub(super) fn drop_subflow(&mut self, id: SubflowId, abort: bool) {
        let now = self.now;
        let Some(at) = self.subflows.iter().position(|subflow| subflow.id == id) else { return };
        let subflow = self.subflows.remove(at);
        self.outgoing.redo(subflow.slot);
        self.outgoing.clear(subflow.slot);
        self.statistics.add(&subflow);
        self.statistics.subflows_lost += 1;
        self.outputs.push_back(Output::Close { subflow: id, abort });
        self.event(Event::SubflowDown(id));
        for path in self.paths.iter_mut().filter(|path| Some(path.id) == subflow.path) {
            path.on_subflow_end(now, id, subflow.opened);
        }
        for (_, frame) in subflow.controls {
            if !matches!(frame, Frame::Close) {
                self.send_control(frame);
            }
        }
        // A DACK may have been lost with it.
        self.acknowledging.hurry();
        let established = self.phase == Phase::Established;
        if established && !self.subflows.iter().any(super::Subflow::is_usable) {
            self.lost.get_or_insert(now);
        }
    }

    pub(super) fn drop_oldest_stale(&mut self) {
        let stale = self.subflows.iter().find(|subflow| subflow.is_stale());
        if let Some(id) = stale.map(|subflow| subflow.id) {
            self.drop_subflow(id, true);
        }
    }

    /// A subflow makes no progress.
    pub(super) fn grow_stale(&mut self, id: SubflowId) {
        let now = self.now;
        let Some(subflow) = self.subflow_mut(id) else { return };
        subflow.state = State::Stale { since: now };
        // Others carry them from now on, and only one at a time.
        let controls = std::mem::take(&mut subflow.controls);
        self.event(Event::SubflowStale(id));
        for path in &mut self.paths {
            path.grow_stale(now, id);
        }
        let stale = self.subflows.iter().filter(|s| s.is_stale()).fold(0, |all, s| all | s.slot);
        self.outgoing.redo(stale);
        if self.subflows.iter().any(super::Subflow::is_active) {
            for (_, frame) in controls {
                self.send_control(frame);
            }
            self.acknowledging.hurry();
        } else if let Some(subflow) = self.subflow_mut(id) {
            subflow.controls = controls;
        }
        self.open_paths();
    }

    /// A stale subflow moves again.
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

    /// Whether nothing more will come of the session.
    pub(super) fn is_over(&self) -> bool {
        matches!(self.phase, Phase::Closed | Phase::Failed(_))
    }
}
