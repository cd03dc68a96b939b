//! One direction of a connection: sequence numbers (RFC 9293 §3.4) to bytes in order.

use base::{Span, Time};

use super::framing::Framing;
use super::history::History;
use super::listener::Listener;
use super::settings::{Settings, Statistics};
use super::store::Store;
use crate::segment::flags::SYN;
use crate::{Close, Limit, Receiver, Segment};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Unseen,
    /// Bytes were received, and earlier ones may follow.
    Settling {
        since: Time,
    },
    Running,
    Closed,
}

/// Consecutive segments far outside the window.
#[derive(Debug)]
struct Stray {
    first: u32,
    run: u32,
    bytes: Vec<u8>,
}

impl Stray {
    const NONE: Self = Self { first: 0, run: 0, bytes: Vec::new() };
    /// Number of them after which the capture is known to have missed more than a window.
    const MIN_SEGMENTS_IN_ROW: u32 = 3;
}

/// Silence after which a sender was idle even without an acknowledgment: longer than the first
/// retransmissions of a lost segment take (RFC 6298).
const SILENCE: Span = Span::from_secs(2);

/// Maximum number of ranges whose bytes the capture cut off; the cause of further ones is unknown.
const MAX_CUTS: usize = 4_096;

/// First position, which leaves room for bytes before the first captured one.
const ORIGIN: u64 = 1 << 32;

#[derive(Debug)]
pub(super) struct Half {
    stage: Stage,
    /// Position of the next byte in order; its lower half is the sequence number.
    next: u64,
    pub(super) initial: Option<u32>,
    acknowledged: u64,
    /// Time of the acknowledgment; `None` if it is only the start of observation.
    acknowledged_at: Option<Time>,
    /// Time of the last bytes in order; before the first ones, the start of silence.
    front_at: Time,
    store: Store,
    /// Bytes of segments that may be merged ([`Checksum::Doubtful`](crate::Checksum)).
    doubtful: Store,
    framing: Framing,
    history: History,
    /// End of the last byte that is known to have been sent.
    sent: u64,
    /// Position and capture time of the FIN.
    fin: Option<(u64, Time)>,
    ended: Time,
    /// A reset was received; segments before it may follow.
    reset: Option<Time>,
    /// Positions that the capture cut off, with the time of their segment.
    cuts: Vec<(u64, u64, Time)>,
    /// Start of the gap: bytes are missing that others follow, or that were acknowledged.
    waiting: Option<Time>,
    stray: Stray,
}

impl Half {
    pub(super) const fn new(history: usize) -> Self {
        Self {
            stage: Stage::Unseen,
            next: 0,
            initial: None,
            acknowledged: 0,
            acknowledged_at: None,
            front_at: Time::MAX,
            sent: 0,
            store: Store::new(),
            doubtful: Store::new(),
            framing: Framing::aligned(Time::from_nanos(0)),
            history: History::new(history),
            fin: None,
            ended: Time::ZERO,
            reset: None,
            cuts: Vec::new(),
            waiting: None,
            stray: Stray::NONE,
        }
    }

    /// The next sequence number in order; `None` before the first byte.
    pub(super) const fn next_sequence(&self) -> Option<u32> {
        match self.stage {
            Stage::Unseen => None,
            _ => Some(self.next as u32),
        }
    }

    pub(super) const fn is_closed(&self) -> bool {
        matches!(self.stage, Stage::Closed)
    }

    pub(super) const fn is_unseen(&self) -> bool {
        matches!(self.stage, Stage::Unseen)
    }

    /// No byte was delivered: the SYN may follow.
    pub(super) const fn is_fresh(&self) -> bool {
        matches!(self.stage, Stage::Unseen | Stage::Settling { .. })
    }

    /// Whether the other end may only now send its SYN.
    pub(super) const fn may_follow_syn(&self) -> bool {
        self.initial.is_some() || self.is_fresh()
    }

    pub(super) const fn is_waiting(&self) -> bool {
        self.waiting.is_some()
            || self.reset.is_some()
            || matches!(self.stage, Stage::Settling { .. })
    }

    /// Whether captured bytes are held because earlier ones may still be captured, or acknowledged
    /// bytes are awaited.
    pub(super) const fn is_held(&self) -> bool {
        self.waiting.is_some() || matches!(self.stage, Stage::Settling { .. })
    }

    pub(super) fn memory(&self) -> usize {
        let cuts = self.cuts.capacity() * size_of::<(u64, u64, Time)>();
        let stores = self.store.memory() + self.doubtful.memory();
        stores + self.framing.memory() + self.history.memory() + cuts
    }

    /// The position of a sequence number that is nearest to the next one.
    const fn position(&self, sequence: u32) -> u64 {
        let distance = sequence.wrapping_sub(self.next as u32) as i32;
        self.next.wrapping_add_signed(distance as i64)
    }

    /// Whether `sequence` can belong to this connection.
    pub(super) fn in_window(&self, sequence: u32, settings: &Settings) -> bool {
        match self.stage {
            Stage::Unseen => true,
            _ => self.position(sequence).abs_diff(self.next) <= settings.window.count(),
        }
    }

    /// Applies the SYN of this direction: its stream starts after it.
    pub(super) fn synchronise<R: Receiver>(
        &mut self,
        time: Time,
        initial: u32,
        to: &mut Listener<'_, R>,
    ) {
        self.initial = Some(initial);
        match self.stage {
            Stage::Unseen => self.jump(ORIGIN + u64::from(initial.wrapping_add(1))),
            Stage::Settling { .. } => self.jump(self.position(initial.wrapping_add(1))),
            Stage::Running | Stage::Closed => return,
        }
        self.assume_acknowledged();
        self.stage = Stage::Running;
        self.framing = Framing::aligned(time);
        self.drain(Some(time), to);
        self.waiting = self.is_behind().then_some(time);
    }

    /// Applies an acknowledgment: the other end expects `sequence` next.
    #[inline]
    pub(super) fn acknowledge(&mut self, time: Time, sequence: u32, settings: &Settings) {
        if matches!(self.stage, Stage::Unseen | Stage::Closed) {
            return;
        }
        let position = self.position(sequence);
        // The FIN has a sequence number too.
        let fin = u64::from(self.fin.is_some());
        if position >= self.acknowledged && self.acknowledged_at.is_none() {
            self.acknowledged_at = Some(time);
        }
        if position > self.acknowledged && position <= self.next + settings.window.count() {
            (self.acknowledged, self.acknowledged_at) = (position, Some(time));
            if position > self.next + fin && self.waiting.is_none() {
                self.waiting = Some(time);
            }
        }
    }

    #[inline]
    pub(super) fn segment<R: Receiver>(
        &mut self,
        segment: &Segment<'_>,
        sequence: u32,
        settings: &Settings,
        count: &mut Statistics,
        to: &mut Listener<'_, R>,
    ) {
        let plain = self.stage == Stage::Running && self.store.is_empty();
        if plain && sequence == self.next as u32 && segment.missing == 0 {
            let rested =
                self.framing.is_searching() && self.is_rested(self.next, segment.time, settings);
            self.pass(segment.payload);
            if !segment.payload.is_empty() {
                self.front_at = segment.time;
            }
            self.waiting = (self.acknowledged > self.next).then_some(segment.time);
            self.framing.data(segment.time, segment.payload, rested, to);
            return;
        }
        if segment.payload.is_empty() && segment.missing == 0 {
            return;
        }
        match self.stage {
            Stage::Closed => return,
            Stage::Unseen => {
                self.stage = Stage::Settling { since: segment.time };
                self.jump(ORIGIN + u64::from(sequence));
                (self.acknowledged, self.acknowledged_at) = (self.next, None);
            }
            Stage::Running if !self.in_window(sequence, settings) => {
                count.out_of_window += 1;
                self.stray(segment, sequence, count, to);
                return;
            }
            Stage::Running | Stage::Settling { .. } => {}
        }
        self.keep(segment, sequence, settings, count, to);
    }

    /// Stores the bytes of a segment that may be merged, until the gap that they can fill expires.
    pub(super) fn doubt(&mut self, segment: &Segment<'_>, settings: &Settings) {
        let is_usable = !segment.payload.is_empty() && segment.missing == 0 && !segment.has(SYN);
        let is_open = !matches!(self.stage, Stage::Unseen | Stage::Closed);
        if is_usable && is_open && self.in_window(segment.sequence, settings) {
            let at = self.position(segment.sequence);
            self.doubtful.insert(at, segment.time, segment.payload, false);
        }
        self.doubtful.forget(self.next);
        if self.doubtful.memory() as u64 > settings.out_of_order.count() {
            self.doubtful = Store::new();
        }
    }

    /// Uses segments that may be merged, if the receiver acknowledged them. Captured bytes with a
    /// correct checksum stay.
    fn admit_doubtful(&mut self) {
        self.doubtful.forget(self.next);
        while let Some(piece) = self.doubtful.take(self.acknowledged.saturating_sub(1)) {
            if piece.end() <= self.acknowledged {
                self.store.insert(piece.at, piece.time, &piece.bytes, false);
            }
        }
    }

    /// Stores bytes out of order, and delivers those in order.
    fn keep<R: Receiver>(
        &mut self,
        segment: &Segment<'_>,
        sequence: u32,
        settings: &Settings,
        count: &mut Statistics,
        to: &mut Listener<'_, R>,
    ) {
        let (mut at, mut bytes) = (self.position(sequence), segment.payload);
        let captured = at + bytes.len() as u64;
        let end = captured + u64::from(segment.missing);
        if segment.missing > 0 && self.cuts.len() < MAX_CUTS {
            self.cuts.push((captured, end, segment.time));
        }
        let rested = self.is_rested(at, segment.time, settings);
        if end > self.front() {
            self.front_at = segment.time;
        }
        self.sent = self.sent.max(end);
        if end > self.next && self.waiting.is_none() && segment.missing > 0 {
            self.waiting = Some(segment.time);
        }
        let settling = matches!(self.stage, Stage::Settling { .. });
        if at < self.next && !settling {
            let old = (self.next - at).min(bytes.len() as u64);
            count.duplicate_bytes += old;
            let (known, fresh) = bytes.split_at(old as usize);
            count.conflicting_bytes += self.history.differing(at, known, self.next);
            bytes = fresh;
            at += old;
        }
        if bytes.is_empty() {
            return;
        }
        if at > self.next {
            count.out_of_order += 1;
        }
        let found = self.store.insert(at, segment.time, bytes, rested);
        count.duplicate_bytes += found.duplicate;
        count.conflicting_bytes += found.conflicting;
        if settling {
            self.settle(segment.time, settings, to);
            return;
        }
        if at <= self.next {
            self.drain(Some(segment.time), to);
            self.waiting = self.is_behind().then_some(segment.time);
        } else if self.waiting.is_none() {
            self.waiting = Some(segment.time);
        }
        if self.store.memory() as u64 > settings.out_of_order.count() {
            self.give_up(segment.time, count, to);
        }
    }

    /// Records that `bytes` were delivered in order.
    #[inline]
    fn pass(&mut self, bytes: &[u8]) {
        self.history.push(self.next, bytes);
        self.next += bytes.len() as u64;
    }

    fn front(&self) -> u64 {
        self.sent.max(self.next)
    }

    /// Records that segments of the connection are observed since `time`.
    pub(super) const fn note_watched(&mut self, time: Time) {
        if matches!(self.stage, Stage::Unseen) {
            self.front_at = time;
        }
    }

    /// Whether the sender was idle before the byte at `at`, whose first copy was captured at
    /// `time`: all bytes before it were acknowledged, or there was silence. An idle sender has
    /// sent whole messages.
    fn is_rested(&self, at: u64, time: Time, settings: &Settings) -> bool {
        let silent = at == self.front() && time.since(self.front_at) >= SILENCE;
        let acknowledged = self.acknowledged_at.filter(|_| self.acknowledged == at);
        let waited = acknowledged.is_some_and(|since| time.since(since) >= settings.settle);
        at >= self.front() && (silent || waited)
    }

    const fn assume_acknowledged(&mut self) {
        if self.acknowledged < self.next {
            (self.acknowledged, self.acknowledged_at) = (self.next, None);
        }
    }

    pub(super) const fn extended(&self) -> Option<bool> {
        self.framing.extended()
    }

    pub(super) const fn allow_extended(&mut self, allowed: bool) {
        self.framing.allow_extended(allowed);
    }

    /// Continues at `position`.
    fn jump(&mut self, position: u64) {
        self.next = position;
        self.history.begin(position);
    }

    /// Delivers the bytes in order. `awaited` is the time of the byte that filled the gap. Without
    /// it there was no gap, and each byte keeps its time.
    fn drain<R: Receiver>(&mut self, awaited: Option<Time>, to: &mut Listener<'_, R>) {
        while let Some(piece) = self.store.take(self.next) {
            let old = (self.next - piece.at).min(piece.bytes.len() as u64) as usize;
            let rested = piece.rested && old == 0;
            self.pass(&piece.bytes[old..]);
            let time = awaited.map_or(piece.time, |awaited| awaited.max(piece.time));
            self.framing.data(time, &piece.bytes[old..], rested, to);
        }
    }

    /// Ends settling after enough segments or time.
    fn settle<R: Receiver>(&mut self, now: Time, settings: &Settings, to: &mut Listener<'_, R>) {
        let Stage::Settling { since } = self.stage else { return };
        let enough = self.store.len() >= settings.settle_segments;
        if enough || now.since(since) >= settings.settle {
            self.begin(since, to);
        }
    }

    fn begin<R: Receiver>(&mut self, since: Time, to: &mut Listener<'_, R>) {
        self.stage = Stage::Running;
        self.jump(self.store.first().unwrap_or(self.next));
        self.assume_acknowledged();
        self.framing = Framing::searching(since);
        self.drain(None, to);
        self.waiting = self.is_behind().then_some(since);
    }

    fn give_up<R: Receiver>(
        &mut self,
        now: Time,
        count: &mut Statistics,
        to: &mut Listener<'_, R>,
    ) {
        self.admit_doubtful();
        let end = self.store.first().unwrap_or_else(|| self.last_known());
        let missing = end.saturating_sub(self.next);
        if missing > 0 {
            if !self.framing.is_foreign() {
                count.holes += 1;
                count.missing_bytes += missing;
            }
            let cut = self.cut_until(end);
            let time = cut.or(self.store.first_time()).unwrap_or(now);
            self.framing.hole(time, missing, (self.acknowledged >= end, cut.is_some()), to);
            self.jump(end);
        }
        self.drain(None, to);
        self.waiting = self.is_behind().then(|| self.store.first_time().unwrap_or(now));
    }

    /// The last time of the segments whose missing bytes are all of those before `end`; `None` if
    /// other bytes are missing as well.
    fn cut_until(&mut self, end: u64) -> Option<Time> {
        let (mut at, mut last) = (self.next, None);
        self.cuts.sort_unstable();
        for &(from, to, time) in &self.cuts {
            if from <= at && to > at {
                at = to;
                last = last.max(Some(time));
            }
        }
        self.cuts.retain(|(_, to, _)| *to > end);
        last.filter(|_| at >= end)
    }

    /// End of the last byte that is known to have been sent.
    fn last_known(&self) -> u64 {
        let known = self.sent.max(self.acknowledged);
        self.fin.map_or(known, |(fin, _)| fin.max(self.next))
    }

    /// Whether known bytes are not delivered.
    fn is_behind(&self) -> bool {
        !self.store.is_empty() || self.last_known() > self.next
    }

    /// A segment far outside the window: one is ignored, several in a row show that the capture
    /// missed more than a window.
    fn stray<R: Receiver>(
        &mut self,
        segment: &Segment<'_>,
        sequence: u32,
        count: &mut Statistics,
        to: &mut Listener<'_, R>,
    ) {
        let stray = &mut self.stray;
        if stray.run == 0 || sequence != stray.first.wrapping_add(stray.bytes.len() as u32) {
            *stray = Stray { first: sequence, ..Stray::NONE };
        }
        stray.bytes.extend_from_slice(segment.payload);
        stray.run += 1;
        if stray.run < Stray::MIN_SEGMENTS_IN_ROW {
            return;
        }
        let Stray { first, bytes, .. } = std::mem::replace(stray, Stray::NONE);
        while !self.store.is_empty() {
            self.give_up(segment.time, count, to);
        }
        let missing = u64::from(first.wrapping_sub(self.next as u32));
        count.holes += 1;
        count.missing_bytes += missing;
        self.framing.hole(segment.time, missing, (false, false), to);
        self.jump(self.next + missing);
        self.pass(&bytes);
        (self.acknowledged, self.acknowledged_at) = (self.next, None);
        (self.sent, self.front_at) = (self.next, segment.time);
        (self.waiting, self.fin) = (None, None);
        self.framing.data(segment.time, &bytes, false, to);
    }

    /// Applies a FIN at `sequence`.
    pub(super) fn finish(&mut self, time: Time, sequence: u32, settings: &Settings) {
        if matches!(self.stage, Stage::Unseen) {
            // The FIN may be captured before the last bytes.
            self.stage = Stage::Settling { since: time };
            self.jump(ORIGIN + u64::from(sequence));
            (self.acknowledged, self.acknowledged_at) = (self.next, None);
        }
        if self.is_closed() || !self.in_window(sequence, settings) {
            return;
        }
        let position = self.position(sequence);
        self.fin.get_or_insert((position, time)).0 = position;
        if position > self.next && self.waiting.is_none() {
            self.waiting = Some(time);
        }
    }

    /// Whether a receiver would accept a reset at `sequence` (RFC 5961 §3.2 requires the next one
    /// exactly, which is not known while bytes are missing).
    pub(super) fn takes_reset(&self, sequence: u32, settings: &Settings) -> bool {
        let ahead = self.position(sequence).wrapping_sub(self.next);
        let limit = if self.is_behind() { settings.window.count() } else { 0xffff };
        self.is_unseen() || ahead <= limit
    }

    /// Whether the stream ended earlier and the segment has new bytes: after its end, or from so
    /// far before it that they cannot be a retransmission.
    pub(super) fn is_new_data(&self, segment: &Segment<'_>, settings: &Settings) -> bool {
        if !self.is_closed() || segment.time <= self.ended + settings.settle {
            return false;
        }
        // A direction that was reset before its first byte has no position.
        let end = segment.sequence.wrapping_add(segment.payload.len() as u32);
        let is_ahead = self.position(end).wrapping_sub(self.next) as i64 > 0;
        let elsewhere = is_ahead || !self.in_window(segment.sequence, settings);
        elsewhere && !segment.payload.is_empty()
    }

    /// Applies a RST; earlier bytes may follow.
    pub(super) fn reset(&mut self, time: Time) {
        if !self.is_closed() {
            self.reset.get_or_insert(time);
        }
    }

    /// Whether and how the direction has ended. Gives up expired gaps; if the other direction has
    /// ended (`over`), a gap expires as if it were acknowledged.
    pub(super) fn advance<R: Receiver>(
        &mut self,
        now: Time,
        over: bool,
        settings: &Settings,
        count: &mut Statistics,
        to: &mut Listener<'_, R>,
    ) -> Option<Close> {
        self.settle(now, settings, to);
        while let Some(since) = self.waiting {
            let end = self.store.first().unwrap_or(self.next + 1);
            let proven = over || self.acknowledged >= end;
            let gap_timeout =
                if proven { settings.acknowledged_timeout } else { settings.gap_timeout };
            if now.since(since) < gap_timeout {
                break;
            }
            self.give_up(now, count, to);
        }
        if self.is_closed() {
            return None;
        }
        if self.has_sent_all() {
            return Some(Close::Finished);
        }
        let overdue = |since: Time| now.since(since) >= settings.settle;
        self.reset.filter(|since| overdue(*since)).map(|_| Close::Reset)
    }

    /// Whether all bytes up to the FIN are delivered.
    pub(super) fn has_sent_all(&self) -> bool {
        self.stage == Stage::Running && self.fin.is_some_and(|(fin, _)| fin <= self.next)
    }

    /// How and when the direction would end now: a FIN or a reset was received, and earlier
    /// bytes are awaited.
    pub(super) const fn pending_close(&self) -> Option<(Close, Time)> {
        match (self.fin, self.reset) {
            (Some((_, time)), _) => Some((Close::Finished, time)),
            (None, Some(time)) => Some((Close::Reset, time)),
            (None, None) => None,
        }
    }

    /// Delivers all held bytes, without those that are missing.
    pub(super) fn give_up_all<R: Receiver>(
        &mut self,
        now: Time,
        count: &mut Statistics,
        to: &mut Listener<'_, R>,
    ) {
        if let Stage::Settling { since } = self.stage {
            self.begin(since, to);
        }
        while self.stage == Stage::Running && self.is_behind() {
            self.give_up(now, count, to);
        }
    }

    /// Reports a gap now, after which no message was found.
    pub(super) fn interrupt<R: Receiver>(&mut self, time: Time, to: &mut Listener<'_, R>) {
        if self.stage == Stage::Running {
            self.framing.interrupt(time, to);
        }
    }

    /// Delivers all remaining bytes and ends the stream.
    pub(super) fn close<R: Receiver>(
        &mut self,
        now: Time,
        limit: Option<Limit>,
        count: &mut Statistics,
        to: &mut Listener<'_, R>,
    ) {
        self.give_up_all(now, count, to);
        if self.stage == Stage::Running {
            self.framing.end(now, limit, to);
        }
        self.stage = Stage::Closed;
        self.ended = now;
        self.doubtful = Store::new();
        (self.waiting, self.reset) = (None, None);
    }
}
