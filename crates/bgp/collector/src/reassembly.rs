//! TCP segments to whole BGP messages: sequence numbers, gaps and resynchronisation.
//!
//! Segments in order are framed in place; only a message that spans segments is copied. A gap stays
//! open while it can still be filled: until the receiver acknowledges the missing bytes (then the
//! router has them and the mirror lost the clones), until [`Settings::gap_timeout`], or until more
//! bytes follow than fit a sender's window ([`Settings::out_of_order`]). Then it is reported, and
//! messages continue at the next boundary that embedded bytes cannot imitate (`resync`).
//!
//! The end of a session in one direction (a NOTIFICATION, FIN or RST) is delivered after the bytes
//! of the other direction that are still held because of a gap. The first messages of a new
//! connection follow all held bytes of the earlier ones between the same addresses.

mod ending;
mod framing;
mod half;
mod history;
mod listener;
mod resync;
mod settings;
mod store;
mod table;
#[cfg(test)]
mod tests;

use std::collections::HashMap;

use base::{Span, Time};

use crate::segment::flags::{ACK, FIN, RST, SYN};
use crate::{Checksum, Close, Connection, ConnectionId, End, Limit, MirrorId, Receiver, Segment};
use half::Half;
use listener::{Last, Listener};
pub use settings::{Settings, Statistics};
use table::{Candidate, Flow, Key, Table};

/// Maximum step of the time between two packets.
const MAX_STEP: Span = Span::from_secs(60);
/// Maximum number of pairs of addresses that are joined over mirrors.
const MAX_HOMES: usize = 1 << 16;
/// Maximum number of segments with the OPENs and KEEPALIVEs of a new session.
const FIRST_SEGMENTS: u8 = 16;
/// Maximum bytes of messages of one connection that follow held bytes of the other direction.
const MAX_LAST_BYTES: usize = 8 << 10;

#[derive(Debug, Default)]
pub struct Reassembler {
    settings: Settings,
    table: Table,
    /// Flows with a timeout.
    waiting: Vec<u32>,
    /// Flows with a pending end; at most [`ending::MAX_ENDING`].
    ending: Vec<u32>,
    next_check: Time,
    now: Option<Time>,
    memory: usize,
    statistics: Statistics,
    /// Start of complete observation of each mirror.
    watched: Vec<Time>,
    /// The mirror to which the connections of a pair at another mirror belong.
    homes: HashMap<(MirrorId, u128, u128), MirrorId>,
}

impl Reassembler {
    pub fn new(settings: Settings) -> Self {
        Self { settings, ..Self::default() }
    }

    pub const fn statistics(&self) -> &Statistics {
        &self.statistics
    }

    pub const fn memory(&self) -> usize {
        self.memory
    }

    /// Deadline of the next `advance`, which may be called at any time.
    pub fn next_wake(&self) -> Option<Time> {
        (self.table.len() > 0).then_some(self.next_check)
    }

    /// Processes a segment. Those of a connection should be in the order of capture.
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
        if segment.checksum == Checksum::Doubtful {
            self.doubt(segment, receiver);
            return;
        }
        let (key, from) = Key::of(segment);
        self.watch(segment.mirror, segment.time);
        let known = self.table.find(&key);
        let opens = segment.has(SYN) || !segment.payload.is_empty() || segment.missing > 0;
        let number = match known {
            Some(number) if self.is_replaced(number, from, segment) => {
                let flow = self.table.get(number);
                let (candidate, own) = (flow.candidate, flow.key);
                self.drop_flow(number, segment.time, Close::Replaced, receiver);
                let opener = candidate.map_or_else(|| opener(segment, from), |c| Some(c.opener));
                let number = self.create(own, segment, opener, receiver);
                if own != key {
                    self.table.join(number, key);
                }
                if let Some(Candidate { from, initial, time, .. }) = candidate {
                    self.synchronise(number, from, initial, time, receiver);
                }
                number
            }
            Some(number) => number,
            None if opens && !segment.has(RST) => self.open(key, from, segment, receiver),
            None => return,
        };
        self.process(number, from, segment, receiver);
    }

    /// Processes a segment that may be merged.
    #[cold]
    fn doubt<R: Receiver>(&mut self, segment: &Segment<'_>, receiver: &mut R) {
        let (key, from) = Key::of(segment);
        let Some(number) = self.table.find(&key) else { return };
        let flow = self.table.get(number);
        let held = held(flow);
        flow.halves[from.index()].doubt(segment, &self.settings);
        self.memory = self.memory + self::held(flow) - held;
        self.make_room(number, segment.time, receiver);
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
        let is_young = self.table.get(number).first_segments < FIRST_SEGMENTS;
        if is_young && segment.payload.first() == Some(&bgp::MARKER[0]) {
            self.follow(number, segment, receiver);
        }
        let flow = self.table.get(number);
        let held = held(flow);
        if segment.has(ACK) {
            flow.acknowledged[from.index()] = Some(segment.acknowledgment);
            let other = &mut flow.halves[from.other().index()];
            other.acknowledge(segment.time, segment.acknowledgment, &self.settings);
        }
        let watched = self.watched[segment.mirror.0 as usize];
        let sequence = segment.sequence.wrapping_add(u32::from(segment.has(SYN)));
        let (half, mut to) = flow.half(ConnectionId(number), from, receiver);
        half.note_watched(watched);
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
        if segment.has(FIN) || segment.has(RST) {
            let halves = &self.table.get(number).halves;
            if halves.iter().any(|half| half.pending_close().is_some() && half.is_waiting()) {
                self.note_ending(number, segment.time, receiver);
            }
        }
        if messages > 0 {
            self.release(number, segment.time, receiver);
        }
        self.make_room(number, segment.time, receiver);
    }

    /// Applies a SYN; returns false if nothing is left to process.
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
            let opener = if segment.has(ACK) { from.other() } else { from };
            flow.candidate = Some(Candidate { from, opener, initial, time: segment.time });
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
        let held = held(flow);
        let (half, mut to) = flow.half(ConnectionId(number), from, receiver);
        half.synchronise(time, initial, &mut to);
        let messages = to.messages;
        self.memory = self.memory + self::held(flow) - held;
        self.statistics.messages += messages;
        if messages > 0 {
            self.table.prove(number);
        }
    }

    /// Whether a segment belongs to a new connection with the same addresses: its SYN and matching
    /// segments, also if one of the two SYNs is missing, or bytes from an end that had closed.
    fn is_replaced(&mut self, number: u32, from: End, segment: &Segment<'_>) -> bool {
        /// Maximum distance of the first segment of a new connection from its SYN.
        const FIRST: u32 = 1 << 20;
        let flow = self.table.get(number);
        let half = &flow.halves[from.index()];
        if segment.has(SYN) {
            let repeated = half.initial == Some(segment.sequence);
            if flow.dead || (half.is_closed() && !repeated) {
                return !repeated;
            }
        } else if half.is_new_data(segment, &self.settings) {
            return true;
        }
        let Some(candidate) = flow.candidate else { return false };
        let begins = candidate.initial.wrapping_add(1);
        if from == candidate.from {
            let distance = segment.sequence.wrapping_sub(begins);
            let elsewhere = !half.in_window(segment.sequence, &self.settings);
            !segment.has(SYN) && (distance == 0 || (distance < FIRST && elsewhere))
        } else {
            segment.has(ACK) && segment.acknowledgment == begins
        }
    }

    /// The flow of the first segment of `key`: a new one, or that of a connection at another mirror
    /// which has the other direction.
    fn open<R: Receiver>(
        &mut self,
        key: Key,
        from: End,
        segment: &Segment<'_>,
        receiver: &mut R,
    ) -> u32 {
        let found = match self.homes.get(&key.pair()) {
            Some(home) => {
                let own = key.at(*home);
                Some(match self.table.find(&own) {
                    Some(number) => number,
                    None => self.create(own, segment, opener(segment, from), receiver),
                })
            }
            None => self.find_counterpart(&key, from, segment),
        };
        let Some(number) = found else {
            return self.create(key, segment, opener(segment, from), receiver);
        };
        self.table.join(number, key);
        let home = self.table.get(number).key.mirror;
        if self.homes.len() < MAX_HOMES && self.homes.insert(key.pair(), home).is_none() {
            self.statistics.joined += 1;
        }
        number
    }

    /// The flow at another mirror to which a segment belongs by its sequence numbers.
    fn find_counterpart(&mut self, key: &Key, from: End, segment: &Segment<'_>) -> Option<u32> {
        /// Mirrors above this number are not compared, so that a flood of SYNs has no high cost.
        const MAX_MIRRORS: usize = 64;
        let mirrors = self.watched.len().min(MAX_MIRRORS) as u32;
        let others = (0..mirrors).map(MirrorId).filter(|mirror| *mirror != key.mirror);
        let numbers: Vec<u32> =
            others.filter_map(|mirror| self.table.find(&key.at(mirror))).collect();
        numbers.into_iter().find(|number| is_counterpart(self.table.get(*number), from, segment))
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
        let connection = Connection { mirror: key.mirror, ends, opener };
        let number =
            self.table.insert(Flow::new(key, segment.time, self.settings.history.count() as usize));
        self.table.get(number).is_device = segment.is_device;
        self.statistics.connections += 1;
        receiver.opened(segment.time, ConnectionId(number), &connection);
        number
    }

    /// Processes what is due at the capture time `now`.
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

    /// Advances the time, never backwards, and by a limited step, because the time may be wrong.
    fn pass(&mut self, now: Time) -> Time {
        let now = self.now.map_or(now, |before| now.clamp(before, before + MAX_STEP));
        *self.now.insert(now)
    }

    /// Records that a mirror is observed at `now`, and possibly since earlier.
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

    /// Applies `work` to one half of a flow, and counts its output.
    fn with_half<R: Receiver, T>(
        &mut self,
        number: u32,
        from: End,
        receiver: &mut R,
        work: impl FnOnce(&mut Half, &Settings, &mut Statistics, &mut Listener<'_, R>) -> T,
    ) -> T {
        let flow = self.table.get(number);
        let held = held(flow);
        let (half, mut to) = flow.half(ConnectionId(number), from, receiver);
        let result = work(half, &self.settings, &mut self.statistics, &mut to);
        let (messages, skipped, foreign) = (to.messages, to.skipped, to.foreign);
        self.memory = self.memory + self::held(flow) - held;
        self.statistics.messages += messages;
        self.statistics.skipped_bytes += skipped;
        self.statistics.foreign += foreign;
        if messages > 0 {
            self.table.prove(number);
        }
        result
    }

    /// Gives up expired gaps, and closes ended connections.
    fn look_after<R: Receiver>(&mut self, number: u32, now: Time, receiver: &mut R) {
        let mut closes = [None; 2];
        for from in [End::Low, End::High] {
            let flow = self.table.get(number);
            let other = &flow.halves[from.other().index()];
            let over = other.is_closed()
                || other.has_sent_all()
                || flow.last_messages.iter().any(|messages| !messages.is_empty());
            closes[from.index()] =
                self.with_half(number, from, receiver, |half, settings, count, to| {
                    half.advance(now, over, settings, count, to)
                });
        }
        // A reset ends both directions.
        if !closes.contains(&Some(Close::Reset)) {
            for from in [End::Low, End::High] {
                let is_held = self.table.get(number).halves[from.other().index()].is_held();
                if is_held && closes[from.index()].take().is_some() {
                    self.note_ending(number, now, receiver);
                }
            }
        }
        self.close(number, now, closes, receiver);
        self.release(number, now, receiver);
        let flow = self.table.get(number);
        if !flow.dead && flow.halves.iter().all(Half::is_closed) {
            receiver.ended(now, ConnectionId(number));
            self.table.touch(number, |flow| flow.dead = true);
            self.ending.retain(|ending| *ending != number);
        }
    }

    /// Ends directions of a flow: delivers the remaining bytes of all of them first.
    fn close<R: Receiver>(
        &mut self,
        number: u32,
        now: Time,
        closes: [Option<Close>; 2],
        receiver: &mut R,
    ) {
        let mut times = [now; 2];
        let mut ends = [(End::Low, closes[0]), (End::High, closes[1])];
        for (from, _) in ends.into_iter().filter(|(_, close)| close.is_some()) {
            let half = &self.table.get(number).halves[from.index()];
            times[from.index()] = half.pending_close().map_or(now, |(_, time)| time);
            let limit = (closes[from.index()] == Some(Close::Ended)).then_some(Limit::End);
            self.with_half(number, from, receiver, |half, _, count, to| {
                half.close(now, limit, count, to);
            });
        }
        if closes.iter().any(Option::is_some) {
            self.release(number, now, receiver);
        }
        ends.sort_by_key(|(from, _)| times[from.index()]);
        for (from, close) in ends {
            if let Some(close) = close {
                receiver.closed(times[from.index()], ConnectionId(number), from, close);
            }
        }
    }

    /// Delivers the last messages of a direction if the other one has no held bytes, or if there
    /// are too many of them.
    #[inline]
    fn release<R: Receiver>(&mut self, number: u32, now: Time, receiver: &mut R) {
        if self.table.get(number).last_messages.iter().all(Vec::is_empty) {
            return;
        }
        self.release_last(number, now, receiver);
    }

    #[cold]
    fn release_last<R: Receiver>(&mut self, number: u32, now: Time, receiver: &mut R) {
        if self.table.get(number).last_bytes() > MAX_LAST_BYTES {
            self.give_up_all(number, now, receiver);
        }
        for from in [End::Low, End::High] {
            let flow = self.table.get(number);
            if flow.halves[from.other().index()].is_held() {
                continue;
            }
            let held = held(flow);
            let messages = std::mem::take(&mut flow.last_messages[from.index()]);
            self.memory = self.memory + self::held(flow) - held;
            for last in messages {
                match last {
                    Last::Message(time, bytes) => {
                        receiver.message(time, ConnectionId(number), from, &bytes);
                    }
                    Last::Hole(hole) => receiver.hole(ConnectionId(number), from, &hole),
                }
            }
        }
        if self.table.get(number).last_bytes() > 0 {
            self.note_ending(number, now, receiver);
        }
    }

    fn give_up_all<R: Receiver>(&mut self, number: u32, now: Time, receiver: &mut R) {
        for from in [End::Low, End::High] {
            self.with_half(number, from, receiver, |half, _, count, to| {
                half.give_up_all(now, count, to);
            });
        }
    }

    /// Delivers the remaining bytes of a connection and removes it.
    fn drop_flow<R: Receiver>(&mut self, number: u32, now: Time, close: Close, receiver: &mut R) {
        let flow = self.table.get(number);
        if close == Close::Evicted {
            // The next segment may start in the middle of a message.
            self.watched[flow.key.mirror.0 as usize] = now;
        }
        if !flow.dead {
            let close = |half: &Half| {
                let how = half.pending_close().map_or(close, |(close, _)| close);
                (!half.is_closed()).then_some(how)
            };
            let closes = [close(&flow.halves[0]), close(&flow.halves[1])];
            self.close(number, now, closes, receiver);
            receiver.ended(now, ConnectionId(number));
        }
        let flow = self.table.get(number);
        self.memory -= held(flow);
        if flow.queued {
            self.waiting.retain(|waiting| *waiting != number);
        }
        self.ending.retain(|ending| *ending != number);
        self.table.remove(number);
    }

    fn make_room<R: Receiver>(&mut self, newest: u32, now: Time, receiver: &mut R) {
        while self.memory as u64 > self.settings.memory.count() && self.table.len() > 1 {
            self.evict(Some(newest), now, receiver);
        }
    }

    /// Removes the least valuable connection, preferably one without messages.
    fn evict<R: Receiver>(&mut self, but: Option<u32>, now: Time, receiver: &mut R) {
        let other = |number: &u32| Some(*number) != but;
        let oldest = self.table.oldest(false).filter(other);
        let Some(number) = oldest.or_else(|| self.table.oldest(true)) else { return };
        self.statistics.evicted += 1;
        self.drop_flow(number, now, Close::Evicted, receiver);
    }

    /// Ends the input: delivers all remaining bytes.
    pub fn end<R: Receiver>(&mut self, receiver: &mut R) {
        for number in self.table.numbers() {
            let last = self.table.get(number).last;
            let now = self.now.map_or(last, |now| now.max(last));
            self.drop_flow(number, now, Close::Ended, receiver);
        }
    }
}

/// Whether the first segment at one mirror belongs to a flow that another mirror captured without
/// this direction: each acknowledges bytes of the other. Initial sequence numbers are random, so
/// connections of different routers do not match. Several devices of one host may show copies.
fn is_counterpart(flow: &Flow, from: End, segment: &Segment<'_>) -> bool {
    /// Maximum distance of segments that were captured at the same time.
    const MAX_DISTANCE: u32 = 1 << 16;
    let near = |one: u32, other: u32| {
        one.wrapping_sub(other).wrapping_add(MAX_DISTANCE) <= 2 * MAX_DISTANCE
    };
    let is = |known: Option<u32>, value: u32| known.is_some_and(|known| near(known, value));
    if flow.dead {
        return false;
    }
    let (own, other) = (&flow.halves[from.index()], &flow.halves[from.other().index()]);
    let acknowledges_other = segment.has(ACK) && is(other.next_sequence(), segment.acknowledgment);
    let begins = segment.sequence.wrapping_add(1);
    if own.is_unseen() {
        let acknowledged = flow.acknowledged[from.other().index()];
        let answers = other.initial.map(|initial| initial.wrapping_add(1));
        return if segment.has(SYN | ACK) {
            answers == Some(segment.acknowledgment)
        } else if segment.has(SYN) {
            acknowledged == Some(begins)
        } else {
            acknowledges_other && is(acknowledged, segment.sequence)
        };
    }
    let is_copy = if segment.has(SYN) {
        own.initial == Some(segment.sequence)
    } else {
        acknowledges_other && is(own.next_sequence(), segment.sequence)
    };
    flow.is_device && segment.is_device && is_copy
}

/// The end that opened the connection, if this is one of the first two segments.
fn opener(segment: &Segment<'_>, from: End) -> Option<End> {
    let end = if segment.has(ACK) { from.other() } else { from };
    segment.has(SYN).then_some(end)
}

fn held(flow: &Flow) -> usize {
    flow.halves.iter().map(Half::memory).sum::<usize>() + flow.last_bytes()
}
