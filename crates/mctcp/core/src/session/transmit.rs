//! Assigns frames to subflows: calls of the scheduler, and the frames that it chooses.

use base::{Bytes, Span, Time};

use super::sending::{Chunk, Slots};
use super::subflow::Subflow;
use super::{Phase, Session};
use crate::SubflowId;
use crate::frame::{Copy, Frame, MIN_FRAME_LIMIT};
use crate::payload::Payload;
use crate::scheduler::{Choice, MAX_PAUSE, SchedulerKind, View};

/// Maximum time for which a frame occupies a slow path.
const MAX_FRAME_TIME: Span = Span::from_millis(8);
/// Minimum round-trip time for the width of WISH: scheduling pauses of hosts take longer.
const MIN_WISH_RTT: Span = Span::from_millis(10);
/// Interval after which a WISH without effect is repeated.
const WISH_INTERVAL: Span = Span::from_millis(1_000);
/// While the application pauses, one byte per 20 sent bytes may be sent twice: 5 %.
const SENT_PER_COPIED_BYTE: u64 = 20;
/// Minimum of the bytes that may be sent twice: about the initial windows of two paths (RFC 6928).
const INITIAL_COPIED_BYTES: u64 = 28 << 10;
/// One in eight of these bytes may be a copy of a first or last piece; the others are for pieces
/// whose DACK is late.
const COPIED_PER_EDGE_BYTE: u64 = 8;
/// Minimum frame size under [`MAX_FRAME_TIME`]: a header is 0.4 % of it.
const MIN_FRAME_BYTES: u64 = 4 << 10;
/// Frame size of a short message: one segment, so that a reinjected frame repeats only lost data.
const SEGMENT_FRAME_BYTES: u64 = 1400;
/// Maximum length of a short message: the initial window of RFC 6928.
const MAX_SHORT_MESSAGE_BYTES: u64 = 14 << 10;

impl<P: Payload> Session<P> {
    /// Sends the frames that may be sent now.
    pub(super) fn transmit(&mut self) {
        if self.is_over() {
            return;
        }
        self.scheduler_wait_until = None;
        if self.phase == Phase::Opening {
            self.send_early();
            return;
        }
        while self.resend_due()
            || self.reinject_overdue()
            || self.send_new()
            || self.reinject_early()
        {}
        if self.outgoing.unsent() > 0 {
            self.send_wish();
        }
    }

    /// Requests a credit that does not limit the sender: the data that all subflows deliver in two
    /// of the longest round trips.
    fn send_wish(&mut self) {
        let rtt = self.active().map(Subflow::srtt).max().unwrap_or_default().max(MIN_WISH_RTT);
        let rates = self.active().filter_map(Subflow::rate);
        let width: u64 = rates.map(|rate| rate.bytes_in(rtt + rtt).count()).sum();
        let (wished, at) = self.last_wish;
        let narrow = width > self.outgoing.window();
        if narrow && (width > wished + wished / 4 || self.now >= at + WISH_INTERVAL) {
            self.last_wish = (width, self.now);
            if let Some(id) = self.urgent_subflow() {
                self.send(id, Frame::Wish(width));
            }
        }
    }

    /// Sends data after HELLO on its subflow, before the peer has answered.
    fn send_early(&mut self) {
        let hello_sent = |s: &&Subflow<P>| s.is_hello_sent();
        while let Some(subflow) = self.subflows.iter().find(hello_sent).filter(|s| s.room > 0) {
            let (id, slot) = (subflow.id, subflow.slot);
            // The peer's limit is not known yet.
            let max = MIN_FRAME_LIMIT.into();
            let expected = subflow.expected(self.now, max);
            let Some(piece) = self.outgoing.take(self.now, max, slot, expected) else { return };
            self.send_piece(id, piece, Copy::First);
        }
    }

    /// Retransmits the oldest piece that its subflows have not delivered.
    fn resend_due(&mut self) -> bool {
        let Some(segment) = self.outgoing.first_due() else { return false };
        let (dsn, length, carriers) = (segment.dsn, segment.length, segment.carriers);
        let Some((id, slot, expected)) = self.earliest(carriers, length) else { return false };
        let Some(piece) = self.outgoing.retransmit(dsn, slot, expected) else { return false };
        self.reinject(id, piece);
        true
    }

    /// The subflow with room, not in `excluded`, on which `length` more bytes arrive first.
    pub(super) fn earliest(
        &self,
        excluded: Slots,
        length: u64,
    ) -> Option<(SubflowId, Slots, Time)> {
        let now = self.now;
        let backup = self.active().all(|s| s.priority.backup);
        let able =
            |s: &&Subflow<P>| s.priority.backup == backup && s.slot & excluded == 0 && s.room > 0;
        let arrival = |s: &Subflow<P>| s.expected(now, length);
        let earliest = self.active().filter(able).min_by_key(|s| arrival(s))?;
        Some((earliest.id, earliest.slot, arrival(earliest)))
    }

    pub(super) fn reinject(&mut self, id: SubflowId, piece: Chunk<P>) {
        self.statistics.reinjected += piece.length;
        if let Some(subflow) = self.subflow_mut(id) {
            subflow.reinjected += piece.length;
        }
        self.send_piece(id, piece, Copy::Reinjected);
    }

    /// Sends the next new piece on the subflows that the scheduler chooses.
    fn send_new(&mut self) -> bool {
        if !self.outgoing.has_new() {
            return false;
        }
        if self.outgoing.credit_left() == 0 && self.outgoing.unsent() > 0 {
            if !std::mem::replace(&mut self.credit_blocked, true) {
                self.credit_blocked_since.get_or_insert(self.now);
            }
            return false;
        }
        if let Some(since) = self.credit_blocked_since.take() {
            self.statistics.credit_blocked += self.now.since(since);
            self.credit_blocked = true;
        }
        if self.outgoing.unsent() == 0 {
            let Some((id, slot, expected)) = self.earliest(0, 1) else { return false };
            let Some(piece) = self.outgoing.take(self.now, 1, slot, expected) else { return false };
            self.send_piece(id, piece, Copy::First);
            return true;
        }
        match self.choose() {
            Choice::Send(id) => {
                let from = self.outgoing.sent();
                let sent = self.send_first(id);
                if sent {
                    self.copy_first_or_last(from);
                    self.copy_to_unexplored(from);
                }
                sent
            }
            Choice::SendOnAll => self.send_on_all(),
            Choice::Wait(until) => {
                self.scheduler_wait_until = until.filter(|until| *until > self.now);
                false
            }
        }
    }

    fn choose(&mut self) -> Choice {
        let mut views = std::mem::take(&mut self.views);
        views.clear();
        let all_suspect = self.active().all(|s| s.is_suspect(self.now));
        let is_suitable = |s: &&Subflow<P>| all_suspect || !s.is_suspect(self.now);
        views.extend(self.active().filter(is_suitable).map(Subflow::view));
        if views.iter().all(|view| !view.room.is_positive()) {
            self.views = views;
            return Choice::Wait(None);
        }
        let frame = self.frame_limit().min(self.outgoing.unsent());
        let view = View {
            unsent: Bytes::new(self.outgoing.unsent()),
            more: self.write_blocked,
            credit: Bytes::new(self.outgoing.credit_left()),
            window: Bytes::new(self.outgoing.window()),
            outstanding: Bytes::new(self.outgoing.outstanding()),
            frame: Bytes::new(frame),
            blocked: std::mem::take(&mut self.credit_blocked),
        };
        let choice = self.scheduler.pick(self.now, &view, &views);
        self.views = views;
        choice
    }

    /// Maximum payload of a frame on any subflow.
    fn frame_limit(&self) -> u64 {
        self.settings.max_frame.count().min(u64::from(self.peer.frame))
    }

    /// Maximum payload of a frame on one subflow.
    fn frame_for(&self, subflow: &Subflow<P>) -> u64 {
        let max = self.frame_limit();
        let alone = !self.has_several_active();
        if !alone && self.outgoing.outstanding() + self.outgoing.unsent() <= MAX_SHORT_MESSAGE_BYTES
        {
            return SEGMENT_FRAME_BYTES.min(max);
        }
        if !alone && subflow.budget.is_some() {
            return MIN_FRAME_BYTES.min(max);
        }
        match subflow.rate() {
            Some(rate) if !alone => {
                rate.bytes_in(MAX_FRAME_TIME).count().clamp(MIN_FRAME_BYTES.min(max), max)
            }
            _ => max,
        }
    }

    fn send_first(&mut self, id: SubflowId) -> bool {
        let Some(subflow) = self.subflow(id).filter(|s| s.is_active() && s.room > 0) else {
            return false;
        };
        let (slot, max) = (subflow.slot, self.frame_for(subflow));
        let expected = subflow.expected(self.now, max.min(self.outgoing.unsent()));
        let Some(piece) = self.outgoing.take(self.now, max, slot, expected) else { return false };
        self.send_piece(id, piece, Copy::First);
        true
    }

    /// Number of bytes that may be sent twice while the application pauses.
    pub(super) fn copies_allowed(&self) -> u64 {
        INITIAL_COPIED_BYTES.max(self.outgoing.sent() / SENT_PER_COPIED_BYTE)
    }

    /// Sends a copy of the piece that was just sent on another subflow, if it is among the first or
    /// the last of the written data: its loss would not be detected soon by later data.
    fn copy_first_or_last(&mut self, dsn: u64) {
        let is_first_or_last = dsn < INITIAL_COPIED_BYTES || self.outgoing.unsent() == 0;
        let length = self.outgoing.sent() - dsn;
        let allowed = self.copies_allowed() / COPIED_PER_EDGE_BYTE;
        let is_default = self.settings.scheduler == SchedulerKind::Earliest;
        if !(is_default && is_first_or_last) || self.copied_bytes + length > allowed {
            return;
        }
        let Some(carriers) = self.outgoing.segment(dsn).map(|s| s.carriers) else { return };
        let Some((id, slot, expected)) = self.earliest(carriers, length) else { return };
        let Some(piece) = self.outgoing.retransmit(dsn, slot, expected) else { return };
        self.copied_bytes += length;
        self.send_piece(id, piece, Copy::Redundant);
    }

    /// Sends a copy of the piece that was just sent on a subflow of unknown capacity, on which it
    /// arrives too late to be useful: that measures the capacity without a pause of the stream. The
    /// copies end once it is known, or the window could have grown to that of the other subflows.
    fn copy_to_unexplored(&mut self, dsn: u64) {
        if self.settings.scheduler != SchedulerKind::Earliest || self.outgoing.unsent() == 0 {
            return;
        }
        let Some(segment) = self.outgoing.segment(dsn) else { return };
        let (now, length) = (self.now, segment.length);
        let regular = || self.subflows.iter().filter(|s| s.is_regular());
        let is_late = |s: &&Subflow<P>| {
            s.slot & segment.carriers == 0
                && s.is_unexplored()
                && s.expected(now, length) > segment.expected + MAX_PAUSE
        };
        let Some(subflow) = regular().find(is_late) else { return };
        let (id, slot, time) = (subflow.id, subflow.slot, subflow.srtt() + subflow.srtt());
        let rates = regular().filter(|s| s.id != id).filter_map(Subflow::rate);
        let max_bytes: u64 = rates.map(|rate| rate.bytes_in(time).count()).sum();
        if subflow.explored_bytes + length > max_bytes {
            return;
        }
        let Some(piece) = self.outgoing.retransmit(dsn, slot, Time::MAX) else { return };
        if let Some(subflow) = self.subflow_mut(id) {
            subflow.explored_bytes += length;
        }
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
        let max = self.frame_limit();
        let arrival = expected(self, first, max);
        let Some(piece) = self.outgoing.take(self.now, max, slot, arrival) else { return false };
        let (dsn, length) = (piece.dsn, piece.length);
        self.send_piece(first, piece, Copy::First);
        for (id, slot) in able.into_iter().skip(1) {
            let arrival = expected(self, id, length);
            if let Some(piece) = self.outgoing.retransmit(dsn, slot, arrival) {
                self.send_piece(id, piece, Copy::Redundant);
            }
        }
        true
    }

    pub(super) fn send_piece(&mut self, id: SubflowId, piece: Chunk<P>, copy: Copy) {
        if let Some(subflow) = self.subflow_mut(id) {
            subflow.outstanding += piece.length;
            subflow.sent += piece.length;
        }
        if self.acknowledging.is_pending() && self.outgoing.unsent() == 0 {
            self.send_dack(id);
        }
        let frame = match piece.payload {
            Some(payload) => Frame::Data { dsn: piece.dsn, payload, copy },
            None => Frame::Fin { length: piece.dsn },
        };
        self.send(id, frame);
    }
}
