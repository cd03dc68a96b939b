//! TCP segments to whole BGP messages: sequence numbers, holes, and finding the way back behind
//! them.
//!
//! Segments in order are framed where they lie; only the message that a segment cuts is copied.
//! A hole is waited for as long as it can still be filled: until the receiver has acknowledged
//! what is missing (then the router has it and the mirror lost it), or for
//! [`Settings::patience`], or until more follows it than fits a sender's window
//! ([`Settings::out_of_order`]). Then it is reported, and messages are handed out again from the
//! next boundary on that no embedded bytes can imitate (`resync`).

mod framing;
mod half;
mod history;
mod resync;
mod store;
mod table;
#[cfg(test)]
mod tests;

use base::{Bytes, Span, Time};
use bgp::MessageType;
use bgp::capability::Capability;

use crate::segment::flags::{ACK, FIN, RST, SYN};
use crate::{Checksum, Close, Connection, ConnectionId, End, Hole, MirrorId, Receiver, Segment};
use half::Half;
use table::{Candidate, Flow, Key, Table};

/// Whose bytes count where two segments overlap before either was handed out. Bytes that were
/// handed out stay what they were.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Overlap {
    /// Those that came first, as in Linux.
    #[default]
    First,
    /// Those that came last.
    Last,
}

/// Limits and patience of reassembly.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Connections that are kept at a time.
    pub connections: usize,
    /// Memory for bytes of all connections that cannot be handed out yet.
    pub memory: Bytes,
    /// Memory for bytes of one direction behind a hole. More than a sender's window: whoever
    /// sends this much has had the hole acknowledged.
    pub out_of_order: Bytes,
    /// How far from the next byte a segment may lie.
    pub window: Bytes,
    /// How long segments may be overtaken by others.
    pub settle: Span,
    /// So many segments show where a connection begins that is met in the middle.
    pub settle_segments: usize,
    /// How long a hole is waited for that nobody acknowledged.
    pub patience: Span,
    /// How long a hole is waited for that the receiver acknowledged. Where latency does not matter,
    /// as in files, a segment may be captured late by more than [`Self::settle`].
    pub acknowledged_patience: Span,
    /// How long a connection that has brought messages may be silent.
    pub idle: Span,
    /// How long one may that has brought none, or has ended.
    pub embryonic: Span,
    /// Which of two overlapping segments wins.
    pub overlap: Overlap,
    /// So many bytes that were handed out are kept, to notice a retransmission that differs.
    pub history: Bytes,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            connections: 65_536,
            memory: Bytes::new(256 << 20),
            out_of_order: Bytes::new(4 << 20),
            window: Bytes::new(16 << 20),
            settle: Span::from_millis(200),
            settle_segments: 32,
            patience: Span::from_secs(30),
            acknowledged_patience: Span::from_millis(200),
            idle: Span::from_secs(24 * 3600),
            embryonic: Span::from_secs(60),
            overlap: Overlap::First,
            history: Bytes::new(16 << 10),
        }
    }
}

/// What was seen and what was done about it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Statistics {
    /// Segments that were looked at.
    pub segments: u64,
    /// Octets of payload in them.
    pub payload_bytes: u64,
    /// Octets that were on the wire but not captured.
    pub snapped_bytes: u64,
    /// Segments with a wrong checksum: ignored.
    pub wrong_checksums: u64,
    /// Octets that had come before.
    pub duplicate_bytes: u64,
    /// Octets among those that differ from what had come before.
    pub conflicting_bytes: u64,
    /// Segments that came before their turn.
    pub out_of_order: u64,
    /// Segments from outside the window: ignored, unless they go on.
    pub out_of_window: u64,
    /// Whole messages.
    pub messages: u64,
    /// Holes.
    pub holes: u64,
    /// Octets that never came.
    pub missing_bytes: u64,
    /// Octets that came and belong to no whole message.
    pub skipped_bytes: u64,
    /// Connections that were seen.
    pub connections: u64,
    /// Connections that were forgotten for want of room.
    pub evicted: u64,
}

/// Who listens, for one direction of one connection.
pub(crate) struct Listener<'a, R> {
    receiver: &'a mut R,
    id: ConnectionId,
    from: End,
    messages: u64,
    skipped: u64,
    /// An OPEN offers extended messages, or does not.
    extended: Option<bool>,
}

impl<'a, R: Receiver> Listener<'a, R> {
    const fn new(receiver: &'a mut R, id: ConnectionId, from: End) -> Self {
        Self { receiver, id, from, messages: 0, skipped: 0, extended: None }
    }

    #[inline]
    fn message(&mut self, time: Time, bytes: &[u8]) {
        self.messages += 1;
        if bytes.get(18) == Some(&MessageType::OPEN.0) {
            self.extended = Some(offers_extended(bytes));
        }
        self.receiver.message(time, self.id, self.from, bytes);
    }

    fn hole(&mut self, hole: &Hole) {
        self.skipped += hole.skipped;
        self.receiver.hole(self.id, self.from, hole);
    }
}

/// Whether an OPEN offers extended messages (RFC 8654).
#[cold]
fn offers_extended(message: &[u8]) -> bool {
    bgp::open::Open::parse(&message[bgp::HEADER..])
        .is_ok_and(|open| open.capabilities().any(|one| matches!(one, Capability::ExtendedMessage)))
}

/// Reassembly of all connections.
#[derive(Debug, Default)]
pub struct Reassembler {
    settings: Settings,
    table: Table,
    /// Flows that something must be done about when time has passed.
    waiting: Vec<u32>,
    /// When to look at them.
    next_check: Time,
    /// How late it is.
    now: Option<Time>,
    memory: usize,
    statistics: Statistics,
    /// By stream of clones: since when every segment of it was seen and remembered.
    watched: Vec<Time>,
}

impl Reassembler {
    /// An empty one.
    pub fn new(settings: Settings) -> Self {
        Self { settings, ..Self::default() }
    }

    /// What was seen so far.
    pub const fn statistics(&self) -> &Statistics {
        &self.statistics
    }

    /// Bytes of memory that wait to be handed out.
    pub const fn memory(&self) -> usize {
        self.memory
    }

    /// When `advance` has something to do; it may be called at any time.
    pub fn next_wake(&self) -> Option<Time> {
        (self.table.len() > 0).then_some(self.next_check)
    }

    /// One more segment. Those of a connection should come in the order of capture.
    pub fn segment<R: Receiver>(&mut self, segment: &Segment<'_>, receiver: &mut R) {
        self.statistics.segments += 1;
        self.statistics.payload_bytes += segment.payload.len() as u64;
        self.statistics.snapped_bytes += u64::from(segment.missing);
        if segment.checksum == Checksum::Wrong {
            self.statistics.wrong_checksums += 1;
            return;
        }
        if segment.time >= self.next_check {
            self.advance(segment.time, receiver);
        }
        let (key, from) = Key::of(segment);
        self.watch(segment.mirror, segment.time);
        let known = self.table.find(&key);
        let opens = segment.has(SYN) || !segment.payload.is_empty() || segment.missing > 0;
        let number = match known {
            Some(number) if self.is_replaced(number, from, segment) => {
                let candidate = self.table.get(number).candidate;
                self.drop_flow(number, segment.time, Close::Replaced, receiver);
                let opener = candidate.map_or_else(|| opener(segment, from), |c| Some(c.from));
                let number = self.create(key, segment, opener, receiver);
                if let Some(Candidate { from, initial, time }) = candidate {
                    self.synchronise(number, from, initial, time, receiver);
                }
                number
            }
            Some(number) => number,
            None if opens && !segment.has(RST) => {
                self.create(key, segment, opener(segment, from), receiver)
            }
            None => return,
        };
        self.process(number, from, segment, receiver);
    }

    fn process<R: Receiver>(
        &mut self,
        number: u32,
        from: End,
        segment: &Segment<'_>,
        receiver: &mut R,
    ) {
        if self.table.get(number).dead || !self.take_syn(number, from, segment, receiver) {
            return;
        }
        let flow = self.table.get(number);
        let held = held(flow);
        if segment.has(ACK) {
            let other = &mut flow.halves[from.other().index()];
            other.acknowledge(segment.time, segment.acknowledgment, &self.settings);
        }
        let watched = self.watched[segment.mirror.0 as usize];
        let half = &mut flow.halves[from.index()];
        let sequence = segment.sequence.wrapping_add(u32::from(segment.has(SYN)));
        let id = ConnectionId(number);
        half.note_watched(watched);
        let mut to = Listener::new(receiver, id, from);
        half.segment(segment, sequence, &self.settings, &mut self.statistics, &mut to);
        let (messages, skipped) = (to.messages, to.skipped);
        if messages > 0 {
            flow.agree_on_length();
        }
        if segment.has(FIN) {
            let half = &mut flow.halves[from.index()];
            let length = segment.payload.len() as u32 + segment.missing;
            half.finish(segment.time, sequence.wrapping_add(length), &self.settings);
        }
        let half = &flow.halves[from.index()];
        if segment.has(RST) && half.takes_reset(segment.sequence, &self.settings) {
            flow.halves.iter_mut().for_each(|half| half.reset(segment.time));
        }
        self.memory = self.memory + self::held(flow) - held;
        let waits = flow.halves.iter().any(Half::is_waiting) || segment.has(FIN);
        self.statistics.messages += messages;
        self.statistics.skipped_bytes += skipped;
        self.table.touch(number, |flow| {
            flow.last = segment.time;
            flow.proven |= messages > 0;
        });
        if waits {
            self.queue(number);
            if segment.has(FIN) {
                self.look_after(number, segment.time, receiver);
            }
        }
        self.make_room(number, segment.time, receiver);
    }

    /// What a SYN changes; false if the segment is not to be read on.
    fn take_syn<R: Receiver>(
        &mut self,
        number: u32,
        from: End,
        segment: &Segment<'_>,
        receiver: &mut R,
    ) -> bool {
        if !segment.has(SYN) {
            return true;
        }
        let initial = segment.sequence;
        let flow = self.table.get(number);
        let half = &flow.halves[from.index()];
        if half.initial == Some(initial) {
            return true;
        }
        let begins = initial.wrapping_add(1);
        let fits = half.initial.is_none()
            && half.is_fresh()
            && half.in_window(begins, &self.settings)
            && (segment.has(ACK) || flow.halves[from.other().index()].may_follow_syn());
        if !fits {
            flow.candidate = Some(Candidate { from, initial, time: segment.time });
            return false;
        }
        self.synchronise(number, from, initial, segment.time, receiver);
        true
    }

    fn synchronise<R: Receiver>(
        &mut self,
        number: u32,
        from: End,
        initial: u32,
        time: Time,
        receiver: &mut R,
    ) {
        let flow = self.table.get(number);
        let id = ConnectionId(number);
        let mut to = Listener::new(receiver, id, from);
        let held = held(flow);
        flow.halves[from.index()].synchronise(time, initial, &mut to);
        self.memory = self.memory + self::held(flow) - held;
        self.statistics.messages += to.messages;
        if to.messages > 0 {
            self.table.prove(number);
        }
    }

    /// Whether a segment shows that another connection has these addresses now: its SYN and what
    /// fits that, or bytes from an end that had closed.
    fn is_replaced(&mut self, number: u32, from: End, segment: &Segment<'_>) -> bool {
        /// How far behind its SYN the first segment of a new connection may lie.
        const FIRST: u32 = 1 << 20;
        let flow = self.table.get(number);
        let half = &flow.halves[from.index()];
        if segment.has(SYN) {
            let repeated = half.initial == Some(segment.sequence);
            if flow.dead || (half.is_closed() && !repeated) {
                return !repeated;
            }
        } else if half.is_news(segment, &self.settings) {
            return true;
        }
        let Some(candidate) = flow.candidate else { return false };
        let begins = candidate.initial.wrapping_add(1);
        if from == candidate.from {
            let distance = segment.sequence.wrapping_sub(begins);
            let elsewhere = !half.in_window(segment.sequence, &self.settings);
            !segment.has(SYN) && (distance == 0 || (distance < FIRST && elsewhere))
        } else {
            segment.has(SYN | ACK) && segment.acknowledgment == begins
        }
    }

    fn create<R: Receiver>(
        &mut self,
        key: Key,
        segment: &Segment<'_>,
        opener: Option<End>,
        receiver: &mut R,
    ) -> u32 {
        while self.table.len() >= self.settings.connections.max(1) {
            self.evict(None, segment.time, receiver);
        }
        let (_, from) = Key::of(segment);
        let mut ends = [segment.source, segment.destination];
        if from == End::High {
            ends.swap(0, 1);
        }
        let connection = Connection { mirror: segment.mirror, ends, opener };
        let number =
            self.table.insert(Flow::new(key, segment.time, self.settings.history.count() as usize));
        self.statistics.connections += 1;
        receiver.opened(segment.time, ConnectionId(number), &connection);
        number
    }

    /// Does what is due at `now`, which is time of the capture.
    pub fn advance<R: Receiver>(&mut self, now: Time, receiver: &mut R) {
        let now = self.pass(now);
        let mut waiting = std::mem::take(&mut self.waiting);
        waiting.retain(|number| {
            let flow = self.table.get(*number);
            flow.queued = false;
            !flow.dead
        });
        for number in waiting {
            self.look_after(number, now, receiver);
            let flow = self.table.get(number);
            if !flow.dead && flow.halves.iter().any(Half::is_waiting) {
                self.queue(number);
            }
        }
        for proven in [false, true] {
            let limit = if proven { self.settings.idle } else { self.settings.embryonic };
            while let Some(number) = self.table.oldest(proven) {
                if now.since(self.table.get(number).last) < limit {
                    break;
                }
                self.drop_flow(number, now, Close::Idle, receiver);
            }
        }
        let pause = if self.waiting.is_empty() { 1000 } else { 10 };
        self.next_check = now + Span::from_millis(pause);
    }

    /// Time passes, never backwards, and in steps that a single wrong time cannot do much with.
    fn pass(&mut self, now: Time) -> Time {
        const STEP: Span = Span::from_secs(60);
        let now = self.now.map_or(now, |before| now.clamp(before, before + STEP));
        *self.now.insert(now)
    }

    /// A stream of clones is seen; at the latest from now on.
    fn watch(&mut self, mirror: MirrorId, now: Time) {
        let mirror = mirror.0 as usize;
        if self.watched.len() <= mirror {
            self.watched.resize(mirror + 1, now);
        }
    }

    fn queue(&mut self, number: u32) {
        let flow = self.table.get(number);
        if !std::mem::replace(&mut flow.queued, true) {
            self.waiting.push(number);
            self.next_check = self.next_check.min(flow.last + Span::from_millis(10));
        }
    }

    /// Gives up what is waited for in vain, and closes what has ended.
    fn look_after<R: Receiver>(&mut self, number: u32, now: Time, receiver: &mut R) {
        for from in [End::Low, End::High] {
            let flow = self.table.get(number);
            let held = held(flow);
            let half = &mut flow.halves[from.index()];
            let id = ConnectionId(number);
            let mut to = Listener::new(receiver, id, from);
            let close = half.advance(now, &self.settings, &mut self.statistics, &mut to);
            if close.is_some() {
                half.close(now, &mut self.statistics, &mut to);
            }
            self.memory = self.memory + self::held(flow) - held;
            self.statistics.messages += to.messages;
            self.statistics.skipped_bytes += to.skipped;
            if to.messages > 0 {
                self.table.prove(number);
            }
            if let Some(close) = close {
                receiver.closed(now, id, from, close);
            }
        }
        let flow = self.table.get(number);
        if !flow.dead && flow.halves.iter().all(Half::is_closed) {
            receiver.ended(now, ConnectionId(number));
            self.table.touch(number, |flow| flow.dead = true);
        }
    }

    /// Hands out what there is of a connection and forgets it.
    fn drop_flow<R: Receiver>(&mut self, number: u32, now: Time, close: Close, receiver: &mut R) {
        let flow = self.table.get(number);
        let (dead, id) = (flow.dead, ConnectionId(number));
        if close == Close::Evicted {
            // Its next segment may be in the middle of a message.
            self.watched[flow.key.mirror.0 as usize] = now;
        }
        self.memory -= held(flow);
        if !dead {
            let mut closes = [None; 2];
            for from in [End::Low, End::High] {
                let half = &mut flow.halves[from.index()];
                if !half.is_closed() {
                    let mut to = Listener::new(receiver, id, from);
                    closes[from.index()] = Some(half.pending_close().unwrap_or(close));
                    half.close(now, &mut self.statistics, &mut to);
                    self.statistics.messages += to.messages;
                    self.statistics.skipped_bytes += to.skipped;
                }
            }
            for from in [End::Low, End::High] {
                if let Some(close) = closes[from.index()] {
                    receiver.closed(now, id, from, close);
                }
            }
            receiver.ended(now, id);
        }
        if flow.queued {
            self.waiting.retain(|waiting| *waiting != number);
        }
        self.table.remove(number);
    }

    /// Keeps to the limit of memory.
    fn make_room<R: Receiver>(&mut self, newest: u32, now: Time, receiver: &mut R) {
        while self.memory as u64 > self.settings.memory.count() && self.table.len() > 1 {
            self.evict(Some(newest), now, receiver);
        }
    }

    /// Forgets the connection that matters least: one that has brought no message if there is one.
    fn evict<R: Receiver>(&mut self, but: Option<u32>, now: Time, receiver: &mut R) {
        let other = |number: &u32| Some(*number) != but;
        let oldest = self.table.oldest(false).filter(other);
        let Some(number) = oldest.or_else(|| self.table.oldest(true)) else { return };
        self.statistics.evicted += 1;
        self.drop_flow(number, now, Close::Evicted, receiver);
    }

    /// The input has ended: hands out whatever there is.
    pub fn end<R: Receiver>(&mut self, receiver: &mut R) {
        for number in self.table.numbers() {
            let last = self.table.get(number).last;
            let now = self.now.map_or(last, |now| now.max(last));
            self.drop_flow(number, now, Close::Ended, receiver);
        }
    }
}

/// The end that opened the connection, if this is one of the first two segments.
fn opener(segment: &Segment<'_>, from: End) -> Option<End> {
    let end = if segment.has(ACK) { from.other() } else { from };
    segment.has(SYN).then_some(end)
}

/// Bytes of memory that a connection holds.
fn held(flow: &Flow) -> usize {
    flow.halves.iter().map(Half::memory).sum()
}
