//! What goes where: the scheduler's questions and the frames that come of its answers.

use base::{Bytes, Span, Time};

use super::sending::{Piece, Slots};
use super::subflow::{State, Subflow};
use super::{Phase, Session};
use crate::SubflowId;
use crate::frame::{Copy, Frame};
use crate::payload::Payload;
use crate::scheduler::{Choice, SchedulerKind, View};
use crate::settings::LEAST_FRAME;

/// A frame should not occupy a slow path for longer than this.
const FRAME_TIME: Span = Span::from_millis(8);
/// Machines pause for longer than the shortest round trips last.
const PAUSE: Span = Span::from_millis(10);
/// A wish that was not granted is told again after this.
const WISH_AGAIN: Span = Span::from_millis(1_000);
/// Copies that leave with first and last pieces: one byte for so many sent, 2 %. The other 3 % are
/// for pieces whose acknowledgement is late.
const MAX_PROTECTED: u64 = 50;
/// Copies that need no such share: about the initial window of RFC 6928.
pub(super) const INITIAL_COPIES: u64 = 16 << 10;
/// Smallest frame because of that: a header is 0.4 % of it.
const SMALL_FRAME: u64 = 4 << 10;

impl<P: Payload> Session<P> {
    /// Sends what may be sent now.
    pub(super) fn transmit(&mut self) {
        if self.is_over() {
            return;
        }
        self.scheduler_wait = None;
        if self.phase == Phase::Opening {
            self.send_early();
            return;
        }
        while self.resend_due() || self.rescue() || self.send_new() || self.hasten() {}
        if self.outgoing.unsent() > 0 {
            self.wish();
        }
    }

    /// Tells the peer how wide a credit would not hold up what waits: as wide as what all
    /// subflows deliver in two of the longest round trips.
    fn wish(&mut self) {
        let active = || self.subflows.iter().filter(|subflow| subflow.is_active());
        let rtt = active().map(Subflow::srtt).max().unwrap_or_default().max(PAUSE);
        let rates = active().filter_map(Subflow::rate);
        let width: u64 = rates.map(|rate| rate.bytes_in(rtt + rtt).count()).sum();
        let (wished, at) = self.wished;
        let narrow = width > self.outgoing.window();
        if narrow && (width > wished + wished / 4 || self.now >= at + WISH_AGAIN) {
            self.wished = (width, self.now);
            if let Some(id) = self.answering() {
                self.send(id, Frame::Wish(width));
            }
        }
    }

    /// Before the peer has answered, data follow HELLO on its subflow.
    fn send_early(&mut self) {
        let greeted = |s: &&Subflow<P>| matches!(s.state, State::Greeting { .. });
        while let Some(subflow) = self.subflows.iter().find(greeted).filter(|s| s.room > 0) {
            let (id, slot) = (subflow.id, subflow.slot);
            // The peer's limit is not known.
            let most = LEAST_FRAME.count();
            let expected = subflow.expected(self.now, most);
            let Some(piece) = self.outgoing.take(most, slot, expected) else { return };
            self.send_piece(id, piece, Copy::First);
        }
    }

    /// Sends the oldest piece again that its subflows have not delivered.
    fn resend_due(&mut self) -> bool {
        let Some(segment) = self.outgoing.first_due() else { return false };
        let (dsn, length, carriers) = (segment.dsn, segment.length, segment.carriers);
        let Some((id, slot, expected)) = self.fastest(carriers, length) else { return false };
        let Some(piece) = self.outgoing.repeat(dsn, slot, expected) else { return false };
        self.reinject(id, piece);
        true
    }

    /// Of the subflows with room that are not among `but`, the one where `length` more bytes
    /// arrive first.
    pub(super) fn fastest(&self, but: Slots, length: u64) -> Option<(SubflowId, Slots, Time)> {
        let now = self.now;
        let active = || self.subflows.iter().filter(|s| s.is_active());
        let backup = active().all(|s| s.priority.backup);
        let able = |s: &&Subflow<P>| s.priority.backup == backup && s.slot & but == 0 && s.room > 0;
        let arrival = |s: &Subflow<P>| s.expected(now, length);
        let fastest = active().filter(able).min_by_key(|s| arrival(s))?;
        Some((fastest.id, fastest.slot, arrival(fastest)))
    }

    pub(super) fn reinject(&mut self, id: SubflowId, piece: Piece<P>) {
        self.statistics.reinjected += piece.length;
        if let Some(subflow) = self.subflow_mut(id) {
            subflow.reinjected += piece.length;
        }
        self.send_piece(id, piece, Copy::Reinjected);
    }

    /// Sends the next new piece where the scheduler says.
    fn send_new(&mut self) -> bool {
        if !self.outgoing.has_new() {
            return false;
        }
        if self.outgoing.credit_left() == 0 && self.outgoing.unsent() > 0 {
            if !std::mem::replace(&mut self.blocked, true) {
                self.blocked_since.get_or_insert(self.now);
            }
            return false;
        }
        if let Some(since) = self.blocked_since.take() {
            self.statistics.credit_blocked += self.now.since(since);
            self.blocked = true;
        }
        if self.outgoing.unsent() == 0 {
            let Some((id, slot, expected)) = self.fastest(0, 1) else { return false };
            let Some(piece) = self.outgoing.take(1, slot, expected) else { return false };
            self.send_piece(id, piece, Copy::First);
            return true;
        }
        match self.pick() {
            Choice::Send(id) => {
                let from = self.outgoing.sent();
                let sent = self.send_first(id);
                if sent {
                    self.protect(from);
                }
                sent
            }
            Choice::SendOnAll => self.send_on_all(),
            Choice::Wait(until) => {
                self.scheduler_wait = until.filter(|until| *until > self.now);
                false
            }
        }
    }

    fn pick(&mut self) -> Choice {
        let mut views = std::mem::take(&mut self.views);
        views.clear();
        let active = || self.subflows.iter().filter(|s| s.is_active());
        let all_suspect = active().all(|s| s.is_suspect);
        views.extend(active().filter(|s| all_suspect || !s.is_suspect).map(Subflow::view));
        if views.iter().all(|view| !view.room.is_positive()) {
            self.views = views;
            return Choice::Wait(None);
        }
        let frame = self.frame_limit().min(self.outgoing.unsent());
        let view = View {
            unsent: Bytes::new(self.outgoing.unsent()),
            more: self.wants_room,
            credit: Bytes::new(self.outgoing.credit_left()),
            window: Bytes::new(self.outgoing.window()),
            outstanding: Bytes::new(self.outgoing.outstanding()),
            frame: Bytes::new(frame),
            blocked: std::mem::take(&mut self.blocked),
        };
        let choice = self.scheduler.pick(self.now, &view, &views);
        self.views = views;
        choice
    }

    /// Most payload of a frame on any subflow.
    fn frame_limit(&self) -> u64 {
        self.settings.max_frame.count().min(u64::from(self.peer.frame))
    }

    /// Most payload of a frame on one of them.
    fn frame_for(&self, subflow: &Subflow<P>) -> u64 {
        let most = self.frame_limit();
        let alone = self.subflows.iter().filter(|s| s.is_active()).count() == 1;
        match subflow.rate() {
            Some(rate) if !alone => {
                rate.bytes_in(FRAME_TIME).count().clamp(SMALL_FRAME.min(most), most)
            }
            _ => most,
        }
    }

    fn send_first(&mut self, id: SubflowId) -> bool {
        let Some(subflow) = self.subflow(id).filter(|s| s.is_active() && s.room > 0) else {
            return false;
        };
        let (slot, most) = (subflow.slot, self.frame_for(subflow));
        let expected = subflow.expected(self.now, most.min(self.outgoing.unsent()));
        let Some(piece) = self.outgoing.take(most, slot, expected) else { return false };
        self.send_piece(id, piece, Copy::First);
        true
    }

    /// Sends a copy of the piece that was just sent on another subflow, if it is among the first or
    /// the last of what was written: nothing that follows would show soon that it was lost. Copies
    /// take [`MAX_PROTECTED`] of what is sent, beside the first [`INITIAL_COPIES`].
    fn protect(&mut self, dsn: u64) {
        let is_short = dsn < INITIAL_COPIES || self.outgoing.unsent() == 0;
        let length = self.outgoing.sent() - dsn;
        let allowed = INITIAL_COPIES + self.outgoing.sent() / MAX_PROTECTED;
        let is_default = self.settings.scheduler == SchedulerKind::Earliest;
        if !(is_default && is_short) || self.copied + length > allowed {
            return;
        }
        let Some(carriers) = self.outgoing.carriers(dsn) else { return };
        let Some((id, slot, expected)) = self.fastest(carriers, length) else { return };
        let Some(piece) = self.outgoing.repeat(dsn, slot, expected) else { return };
        self.copied += length;
        self.send_piece(id, piece, Copy::Redundant);
    }

    /// Sends the next new piece on all active subflows with room.
    fn send_on_all(&mut self) -> bool {
        let able = |s: &&Subflow<P>| s.is_active() && s.room > 0;
        let able: Vec<_> = self.subflows.iter().filter(able).map(|s| (s.id, s.slot)).collect();
        let Some((first, slot)) = able.first().copied() else { return false };
        let expected = |session: &Self, id: SubflowId, length: u64| {
            session.subflow(id).map_or(Time::MAX, |s| s.expected(session.now, length))
        };
        let most = self.frame_limit();
        let soon = expected(self, first, most);
        let Some(piece) = self.outgoing.take(most, slot, soon) else { return false };
        let (dsn, length) = (piece.dsn, piece.length);
        self.send_piece(first, piece, Copy::First);
        for (id, slot) in able.into_iter().skip(1) {
            let soon = expected(self, id, length);
            if let Some(piece) = self.outgoing.repeat(dsn, slot, soon) {
                self.send_piece(id, piece, Copy::Redundant);
            }
        }
        true
    }

    pub(super) fn send_piece(&mut self, id: SubflowId, piece: Piece<P>, copy: Copy) {
        if let Some(subflow) = self.subflow_mut(id) {
            subflow.outstanding += piece.length;
            subflow.sent += piece.length;
        }
        let frame = match piece.payload {
            Some(payload) => Frame::Data { dsn: piece.dsn, payload, copy },
            None => Frame::Fin { length: piece.dsn },
        };
        self.send(id, frame);
    }
}
