//! End of sessions and subflows.
//!
//! After both streams were delivered, the last acknowledgement may still be lost with all
//! connections, and the peer would not receive it. The server does not wait for that: it closes,
//! and its acceptor answers a client that reconnects
//! ([`Acceptor::finish`](crate::Acceptor::finish)). The client, which is the end that can
//! reconnect, stays until the server has closed.

use base::Time;

use super::subflow::State;
use super::{Event, Output, Phase, Session};
use crate::error::Error;
use crate::frame::Frame;
use crate::payload::Payload;
use crate::{Reason, SubflowId};

impl<P: Payload> Session<P> {
    /// Ends this end's stream. The peer may continue.
    pub fn finish(&mut self, now: Time) {
        self.now = now;
        self.outgoing.finish();
    }

    /// Ends the session at once; undelivered data are lost.
    pub fn abort(&mut self, now: Time, reason: Reason) {
        self.now = now;
        if self.is_over() {
            return;
        }
        if self.done {
            // There are no undelivered data.
            self.close();
        } else {
            self.tell_reset(reason, "");
            self.fail(reason, false);
        }
    }

    /// Handles a received frame that violates the protocol. An unproven subflow ends alone while
    /// there are others.
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

    /// Before the session is established: tries another path, which may lead to the right peer.
    fn try_others(&mut self) {
        let open = |path: &super::Path| !matches!(path.state, super::paths::State::Waiting { .. });
        if self.paths.iter().any(open) {
            self.try_next_path();
        } else {
            self.fail(self.refusal.unwrap_or(Reason::Target), false);
        }
    }

    pub(super) fn tell_reset(&mut self, reason: Reason, text: &str) {
        let ids: Vec<SubflowId> = self.subflows.iter().map(|subflow| subflow.id).collect();
        for id in ids {
            // Before HELLO or JOIN is answered, the peer has no session to reset.
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

    /// Closes the session if both streams are delivered and acknowledged, and the server has
    /// the last acknowledgement.
    pub(super) fn close_if_done(&mut self) {
        let done = self.outgoing.is_done() && self.incoming.is_complete();
        let proven = self.released && !self.is_proof_pending();
        if self.phase != Phase::Established || self.done || !done || !proven {
            return;
        }
        let usable = |s: &&super::Subflow<P>| s.is_usable();
        let ids: Vec<_> = self.subflows.iter().filter(usable).map(|s| s.id).collect();
        for id in ids {
            self.send_dack(id);
        }
        self.done = self.greeting.is_some();
        if !self.done {
            self.close();
        }
    }

    /// Client: whether the end of this subflow shows that the server has closed the session and
    /// received everything. The end of a draining subflow, or of one that never reached the
    /// server's session, does not.
    pub(super) fn ends_with(&self, id: SubflowId) -> bool {
        let tells = |s: &super::Subflow<P>| s.attached && (s.is_active() || s.is_stale());
        self.done && self.subflow(id).is_some_and(tells)
    }

    pub(super) fn close(&mut self) {
        self.phase = Phase::Closed;
        self.end_all();
        self.event(Event::Closed);
    }

    /// Whether the peer withholds data from its application until it has our proof.
    fn is_proof_pending(&self) -> bool {
        let sent = self.subflows.iter().flat_map(|s| s.controls.iter().map(|(_, frame)| frame));
        sent.chain(&self.orphans).any(|frame| matches!(frame, Frame::Proof(_)))
    }

    /// Ends the session when the server does not know it and no other subflow is left: the server
    /// has closed or dropped it.
    pub(super) fn on_unknown(&mut self) {
        let delivered = self.outgoing.is_delivered() && !self.is_proof_pending();
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

    /// Stops new data on a subflow, which then ends once its data are acknowledged.
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

    /// Ends draining subflows without unacknowledged data, or after a timeout.
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

    /// Removes a subflow, whose data are sent on others.
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
        // A DACK may have been lost with the subflow.
        self.acknowledging.hurry();
        let established = self.phase == Phase::Established;
        if established && !self.subflows.iter().any(super::Subflow::is_usable) {
            self.lost.get_or_insert(now);
        }
    }

    /// Whether the session has ended.
    pub(super) fn is_over(&self) -> bool {
        matches!(self.phase, Phase::Closed | Phase::Failed(_))
    }
}
