//! End of sessions and subflows.
//!
//! After both streams were delivered, the last acknowledgement may still be lost with all
//! connections, and the peer would not receive it. The server does not wait for that: it closes,
//! and its acceptor answers a client that reconnects
//! ([`Acceptor::finish`](crate::Acceptor::finish)). The client, which is the end that can
//! reconnect, stays until the server has closed.

use base::Time;

use super::subflow::State;
use super::upkeep::DRAIN_TIMEOUT;
use super::{Event, Output, Phase, Session, Subflow};
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
        if self.waits_for_close {
            // There are no undelivered data.
            self.close();
        } else {
            self.send_resets(reason, "");
            self.fail(reason, false);
        }
    }

    /// Handles a received frame that violates the protocol. An unproven subflow ends alone while
    /// there are others.
    pub(super) fn on_violation(&mut self, id: SubflowId, error: &Error) {
        let proven = self.subflow(id).is_some_and(Subflow::is_usable);
        let others = self.phase == Phase::Established || self.paths.len() > 1;
        if !proven && others {
            self.drop_subflow(id, true);
            if self.phase == Phase::Opening {
                self.refusal = Some(error.reason());
                self.try_other_paths();
            }
            self.open_paths();
            return;
        }
        self.send_resets(error.reason(), &error.to_string());
        self.fail(error.reason(), false);
    }

    /// Before the session is established: tries another path, which may lead to the right peer.
    fn try_other_paths(&mut self) {
        if self.paths.iter().any(|path| !path.is_waiting()) {
            self.try_next_path();
        } else {
            self.fail(self.refusal.unwrap_or(Reason::Target), false);
        }
    }

    pub(super) fn send_resets(&mut self, reason: Reason, text: &str) {
        // Before HELLO or JOIN is answered, the peer has no session to reset.
        for id in self.ids(Subflow::is_usable) {
            self.send(id, Frame::Reset { reason, text: text.to_owned() });
        }
    }

    pub(super) fn fail(&mut self, reason: Reason, by_peer: bool) {
        self.phase = Phase::Failed(reason);
        self.close_all();
        self.event(Event::Failed { reason, by_peer });
    }

    /// Ends the session if both streams are delivered and acknowledged: the server closes it, and
    /// the client waits for that.
    pub(super) fn close_if_done(&mut self) {
        let done = self.outgoing.is_done() && self.incoming.is_complete();
        let proven = self.may_deliver && !self.is_proof_pending();
        if self.phase != Phase::Established || self.waits_for_close || !done || !proven {
            return;
        }
        for id in self.ids(Subflow::is_usable) {
            self.send_dack(id);
        }
        self.waits_for_close = self.client.is_some();
        if !self.waits_for_close {
            self.close();
        }
    }

    /// Client: whether the end of this subflow shows that the server has closed the session and
    /// received everything. The end of a draining subflow, or of one that never reached the
    /// server's session, does not.
    pub(super) fn shows_server_closed(&self, id: SubflowId) -> bool {
        let shows_close = |s: &Subflow<P>| s.reached_session && (s.is_active() || s.is_stale());
        self.waits_for_close && self.subflow(id).is_some_and(shows_close)
    }

    pub(super) fn close(&mut self) {
        self.phase = Phase::Closed;
        self.close_all();
        self.event(Event::Closed);
    }

    /// Whether the peer withholds data from its application until it has our proof.
    fn is_proof_pending(&self) -> bool {
        let sent = self.subflows.iter().flat_map(|s| s.controls.iter().map(|(_, frame)| frame));
        sent.chain(&self.pending_controls).any(|frame| matches!(frame, Frame::Proof(_)))
    }

    /// Ends a session whose only subflow the server refuses, since it has no such session.
    pub(super) fn on_unknown_session(&mut self) {
        let delivered = self.outgoing.is_delivered() && !self.is_proof_pending();
        if delivered && self.incoming.is_complete() {
            self.close();
        } else {
            self.fail(Reason::UnknownSession, true);
        }
    }

    fn close_all(&mut self) {
        for subflow in std::mem::take(&mut self.subflows) {
            self.statistics.retransmits += subflow.info.retransmits;
            self.outputs.push_back(Output::Close { subflow: subflow.id, abort: false });
        }
        for path in std::mem::take(&mut self.paths) {
            if path.is_connecting() {
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
        let drained = |s: &Subflow<P>| match s.state {
            State::Draining { since } => s.outstanding == 0 || now >= since + DRAIN_TIMEOUT,
            _ => false,
        };
        while let Some(id) = self.find(drained) {
            self.drop_subflow(id, false);
        }
    }

    /// Removes a subflow, whose data are sent on others.
    pub(super) fn drop_subflow(&mut self, id: SubflowId, abort: bool) {
        let now = self.now;
        let Some(at) = self.subflows.iter().position(|subflow| subflow.id == id) else { return };
        let subflow = self.subflows.remove(at);
        self.outgoing.mark_due(subflow.slot);
        self.outgoing.clear(subflow.slot);
        self.statistics.retransmits += subflow.info.retransmits;
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
        self.acknowledging.send_immediately();
        let established = self.phase == Phase::Established;
        if established && !self.subflows.iter().any(Subflow::is_usable) {
            self.no_subflow_since.get_or_insert(now);
        }
    }

    /// Whether the session has ended.
    pub(super) fn is_over(&self) -> bool {
        matches!(self.phase, Phase::Closed | Phase::Failed(_))
    }
}
