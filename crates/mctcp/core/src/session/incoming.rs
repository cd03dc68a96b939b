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
        let expected = subflow.expects;
        subflow.expects = expected.wrapping_add(1);
        let done = if path_seq == expected {
            self.take(id, frame)
        } else {
            Err(Error::PathSequence { found: path_seq, expected })
        };
        if let Err(error) = done {
            self.break_off(id, &error);
            return;
        }
        // A server that refuses new subflows does not show that the session still exists.
        if self.subflow(id).is_some_and(Subflow::is_usable) {
            self.received_at = now;
        }
        self.open_paths();
        self.close_if_done();
    }

    fn take(&mut self, id: SubflowId, frame: Frame<P>) -> Result<()> {
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
            frame => self.take_proven(id, frame),
        }
    }

    /// Processes a frame after the handshakes.
    fn take_proven(&mut self, id: SubflowId, frame: Frame<P>) -> Result<()> {
        if !self.subflow(id).is_some_and(super::subflow::Subflow::is_usable) {
            return Err(Error::Unexpected { what: "a frame before the handshake" });
        }
        self.confirmed |= !matches!(frame, Frame::Data { .. } | Frame::Fin { .. });
        if let Some(subflow) = self.subflow_mut(id) {
            subflow.attached = true;
        }
        if !matches!(frame, Frame::Dack(_) | Frame::Pong(_)) {
            let now = self.now;
            for subflow in self.subflows.iter_mut().filter(|s| s.id == id || s.is_regular()) {
                subflow.owes_dack.get_or_insert(now);
            }
            self.acknowledging.on_frame(now);
        }
        match frame {
            Frame::Data { dsn, payload, .. } => self.on_data(id, dsn, payload),
            Frame::Fin { length } => {
                self.incoming.on_fin(length)?;
                self.after_arrival(false);
                Ok(())
            }
            Frame::Dack(dack) => self.on_dack(id, &dack),
            Frame::Proof(proof) => self.on_hello_proof(&proof),
            Frame::Ping(number) => {
                if self.subflow(id).is_some_and(|subflow| !subflow.is_clogged()) {
                    self.send(id, Frame::Pong(number));
                }
                self.acknowledging.hurry();
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
                if self.incoming.has_credit() {
                    self.acknowledging.hurry();
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
            Some(State::Held | State::Joining { .. }) => self.drop_subflow(id, true),
            // The server's session timed out, although it has received everything.
            _ if self.done => self.close(),
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
        self.after_arrival(gap && self.incoming.early_bytes() == 0);
        Ok(())
    }

    /// Reports received data. `filled`: a gap was filled, for which the peer may be waiting.
    fn after_arrival(&mut self, filled: bool) {
        let readable = self.incoming.is_readable() || self.incoming.is_complete();
        if readable && self.released {
            self.event(Event::Readable);
        }
        if filled || self.incoming.is_complete() {
            self.acknowledging.hurry();
        }
    }

    fn on_dack(&mut self, id: SubflowId, dack: &Dack) -> Result<()> {
        let now = self.now;
        if let Some(subflow) = self.subflow_mut(id) {
            subflow.on_seen(now, dack.path_seq);
            if subflow.is_stale() && subflow.unseen.is_none() {
                self.revive(id);
            }
        }
        let credit = self.outgoing.credit_left();
        // Latest time at which the acknowledged data had arrived.
        let arrived = Time::from_nanos(now.as_nanos().saturating_sub(self.way_back()));
        let subflows = &mut self.subflows;
        let mut newest = None;
        self.outgoing.on_dack(arrived, dack, |relieved| {
            for subflow in subflows.iter_mut().filter(|s| s.slot & relieved.carriers != 0) {
                subflow.outstanding = subflow.outstanding.saturating_sub(relieved.length);
                subflow.raise_budget(relieved.length, relieved.in_time);
            }
            // If a piece was sent twice, it is unknown which copy arrived (RFC 6298 §3).
            if relieved.carriers.is_power_of_two() {
                newest = newest.max(Some((relieved.sent_at, relieved.carriers)));
            }
        })?;
        if let Some((sent_at, slot)) = newest
            && let Some(subflow) = self.subflows.iter_mut().find(|s| s.slot == slot)
        {
            subflow.learn_ack_time(now.since(sent_at), Span::from_micros(dack.delay_us.into()));
        }
        if self.outgoing.credit_left() > credit {
            self.blocked = false;
        }
        if self.wants_room && self.outgoing.room() > 0 {
            self.wants_room = false;
            self.event(Event::Writable);
        }
        self.end_drained();
        self.note_unanswered();
        Ok(())
    }

    /// Estimated time that a DACK takes to arrive, in nanoseconds, with a margin.
    pub(super) fn way_back(&self) -> u64 {
        let active = || self.subflows.iter().filter(|subflow| subflow.is_active());
        let back = active().map(Subflow::srtt).min().unwrap_or_default();
        let varies = active().filter_map(|subflow| subflow.info.rtt_var).max().unwrap_or_default();
        back.as_nanos() / 2 + 2 * varies.as_nanos() + self.dack_delay().as_nanos()
    }

    /// Processes the end of a subflow's TCP connection.
    pub fn on_end(&mut self, now: Time, id: SubflowId, end: End) {
        self.now = now;
        if self.subflow(id).is_none() || self.is_over() {
            return;
        }
        if end == End::Finished && self.ends_with(id) {
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
            self.break_off(id, error);
        }
    }
}
