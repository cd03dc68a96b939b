//! Effects of received frames.

use super::subflow::{State, Subflow};
use super::{End, Event, Phase, Session};
use crate::error::{Error, Result};
use crate::frame::{Dack, Frame};
use crate::payload::Payload;
use crate::{Reason, SubflowId};
use base::{Span, Time};

impl<P: Payload> Session<P> {
    /// Processes a frame received on a subflow.
    pub fn on_frame(&mut self, now: Time, id: SubflowId, path_seq: u32, frame: Frame<P>) {
        self.now = now;
        if self.is_over() {
            return;
        }
        let Some(subflow) = self.subflow_mut(id) else { return };
        let expected = subflow.expected_path_seq;
        subflow.expected_path_seq = expected.wrapping_add(1);
        let done = if path_seq == expected {
            self.handle_frame(id, frame)
        } else {
            Err(Error::PathSequence { found: path_seq, expected })
        };
        if let Err(error) = done {
            self.on_violation(id, &error);
            return;
        }
        // A REFUSE on a new subflow does not show that the server still has the session.
        if self.subflow(id).is_some_and(Subflow::is_usable) {
            self.received_at = now;
        }
        self.open_paths();
        self.close_if_done();
    }

    fn handle_frame(&mut self, id: SubflowId, frame: Frame<P>) -> Result<()> {
        match frame {
            Frame::HelloAck(ack) => self.on_hello_ack(id, &ack),
            Frame::Challenge(challenge) => self.on_challenge(id, &challenge),
            Frame::Refuse(reason) => self.on_refuse(id, reason),
            Frame::Reset { reason, .. } => {
                self.on_reset(id, reason);
                Ok(())
            }
            Frame::Ignored => Ok(()),
            Frame::Hello(_) => Err(Error::Unexpected { what: "HELLO" }),
            Frame::Join(_) => Err(Error::Unexpected { what: "JOIN" }),
            frame => self.handle_established_frame(id, frame),
        }
    }

    /// Processes a frame that is allowed only after the handshakes.
    fn handle_established_frame(&mut self, id: SubflowId, frame: Frame<P>) -> Result<()> {
        if !self.subflow(id).is_some_and(Subflow::is_usable) {
            return Err(Error::Unexpected { what: "a frame before the handshake" });
        }
        self.confirmed |= !matches!(frame, Frame::Data { .. } | Frame::Fin { .. });
        if let Some(subflow) = self.subflow_mut(id) {
            subflow.reached_session = true;
        }
        if !matches!(frame, Frame::Dack(_) | Frame::Pong(_)) {
            let now = self.now;
            for subflow in self.subflows.iter_mut().filter(|s| s.id == id || s.is_regular()) {
                subflow.dack_due_since.get_or_insert(now);
            }
            self.acknowledging.on_frame(now);
        }
        match frame {
            Frame::Data { dsn, payload, .. } => self.on_data(id, dsn, payload),
            Frame::Fin { length } => {
                self.incoming.on_fin(length)?;
                self.notify_received(false);
                Ok(())
            }
            Frame::Dack(dack) => self.on_dack(id, &dack),
            Frame::Proof(proof) => self.on_hello_proof(&proof),
            Frame::Ping(number) => {
                if self.subflow(id).is_some_and(|subflow| !subflow.is_blocked()) {
                    self.send(id, Frame::Pong(number));
                }
                self.acknowledging.send_immediately();
                Ok(())
            }
            Frame::Priority(priority) => {
                if let Some(subflow) = self.subflow_mut(id) {
                    subflow.priority = priority;
                }
                Ok(())
            }
            Frame::Wish(width) => {
                self.incoming.on_wish(width);
                if self.incoming.is_credit_update_due() {
                    self.acknowledging.send_immediately();
                }
                Ok(())
            }
            Frame::AddAddress { id, address } => {
                self.event(Event::AddressAdded(id, address));
                Ok(())
            }
            Frame::RemoveAddress(id) => {
                self.event(Event::AddressRemoved(id));
                Ok(())
            }
            Frame::Close => {
                let now = self.now;
                if let Some(subflow) = self.subflow_mut(id) {
                    subflow.state = State::Draining { since: now };
                }
                Ok(())
            }
            _ => Ok(()),
        }
    }

    fn on_reset(&mut self, id: SubflowId, reason: Reason) {
        match self.subflow(id).map(|subflow| subflow.state) {
            Some(State::Connected | State::JoinSent { .. }) => self.drop_subflow(id, true),
            // The server's session timed out, although it has received everything.
            _ if self.waits_for_close => self.close(),
            _ => self.fail(reason, true),
        }
    }

    fn on_data(&mut self, id: SubflowId, dsn: u64, payload: P) -> Result<()> {
        let length = payload.len() as u64;
        if length == 0 || length > self.settings.max_frame.count() {
            return Err(Error::Unexpected { what: "DATA of this length" });
        }
        if let Some(subflow) = self.subflow_mut(id) {
            subflow.received += length;
        }
        let gap = self.incoming.early_bytes() > 0;
        self.incoming.on_data(dsn, payload)?;
        self.acknowledging.on_data(self.now);
        self.notify_received(gap && self.incoming.early_bytes() == 0);
        Ok(())
    }

    /// Reports received data. `filled`: a gap was filled, for which the peer may be waiting.
    fn notify_received(&mut self, filled: bool) {
        let readable = self.incoming.is_readable() || self.incoming.is_complete();
        if readable && self.may_deliver {
            self.event(Event::Readable);
        }
        if filled || self.incoming.is_complete() {
            self.acknowledging.send_immediately();
        }
    }

    fn on_dack(&mut self, id: SubflowId, dack: &Dack) -> Result<()> {
        let now = self.now;
        if let Some(subflow) = self.subflow_mut(id) {
            subflow.on_dack(now, dack.path_seq);
            if subflow.is_stale() && subflow.awaited_dack.is_none() {
                self.revive(id);
            }
        }
        let credit = self.outgoing.credit_left();
        // Latest time at which the acknowledged data had arrived.
        let arrived = Time::from_nanos(now.as_nanos().saturating_sub(self.dack_transit_nanos()));
        let subflows = &mut self.subflows;
        let mut newest = None;
        self.outgoing.on_dack(arrived, dack, |acked| {
            for subflow in subflows.iter_mut().filter(|s| s.slot & acked.carriers != 0) {
                subflow.outstanding = subflow.outstanding.saturating_sub(acked.length);
                subflow.raise_budget(acked.length, acked.in_time);
            }
            // If a piece was sent twice, it is unknown which copy arrived (RFC 6298 §3).
            if acked.carriers.is_power_of_two() {
                newest = newest.max(Some((acked.sent_at, acked.carriers)));
            }
        })?;
        if let Some((sent_at, slot)) = newest
            && let Some(subflow) = self.subflows.iter_mut().find(|s| s.slot == slot)
        {
            subflow.add_ack_time(now.since(sent_at), Span::from_micros(dack.delay_us.into()));
        }
        if self.outgoing.credit_left() > credit {
            self.credit_blocked = false;
        }
        if self.write_blocked && self.outgoing.room() > 0 {
            self.write_blocked = false;
            self.event(Event::Writable);
        }
        self.end_drained();
        self.detect_unanswered();
        Ok(())
    }

    /// Estimated time that a DACK takes to arrive, in nanoseconds, with a margin.
    pub(super) fn dack_transit_nanos(&self) -> u64 {
        let back = self.active().map(Subflow::srtt).min().unwrap_or_default();
        let deviation =
            self.active().filter_map(|subflow| subflow.info.rtt_var).max().unwrap_or_default();
        back.as_nanos() / 2 + 2 * deviation.as_nanos() + self.dack_delay().as_nanos()
    }

    /// Processes the end of a subflow's TCP connection.
    pub fn on_end(&mut self, now: Time, id: SubflowId, end: End) {
        self.now = now;
        if self.subflow(id).is_none() || self.is_over() {
            return;
        }
        if end == End::Finished && self.shows_server_closed(id) {
            self.close();
            return;
        }
        self.drop_subflow(id, true);
        if self.phase == Phase::Opening && self.subflows.is_empty() && self.paths.is_empty() {
            self.fail(Reason::Target, false);
        }
        self.open_paths();
        self.close_if_done();
    }

    /// Processes an error in the bytes received on a subflow.
    pub fn on_error(&mut self, now: Time, id: SubflowId, error: &Error) {
        self.now = now;
        if self.subflow(id).is_some() && !self.is_over() {
            self.on_violation(id, error);
        }
    }
}
