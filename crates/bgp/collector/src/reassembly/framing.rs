//! Frames messages in a stream of bytes, and resynchronises after a gap.

use std::cmp::Ordering;

use base::Time;
use bgp::message::{MAX, MAX_EXTENDED};
use bgp::{HEADER, MARKER, Message};

use super::listener::Listener;
use super::resync::{Resync, is_beginning};
use crate::{Hole, Limit, Receiver};

#[derive(Clone, Copy, Debug)]
struct Open {
    since: Time,
    missing: u64,
    skipped: u64,
    acknowledged: bool,
    /// All missing bytes were cut off by the capture.
    cut: bool,
}

impl Open {
    const fn new(since: Time) -> Self {
        Self { since, missing: 0, skipped: 0, acknowledged: false, cut: false }
    }
}

#[derive(Debug)]
enum State {
    Aligned,
    /// After this many bytes: a gap cut a message with a known header.
    Within(u64),
    Searching(Box<Resync>),
}

#[derive(Debug)]
pub(super) struct Framing {
    state: State,
    carry: Vec<u8>,
    /// A message was delivered, or the start of the stream was not captured.
    begun: bool,
    /// The stream does not start with a message: it is not BGP.
    foreign: bool,
    open: Option<Open>,
    /// Time of the last byte of a message.
    last: Time,
    max: usize,
    /// A message of more than 4,096 bytes was received.
    has_long: bool,
    /// Whether the sender's OPEN offers extended messages (RFC 8654).
    extended: Option<bool>,
}

impl Framing {
    pub(super) const fn aligned(time: Time) -> Self {
        Self {
            state: State::Aligned,
            carry: Vec::new(),
            begun: false,
            foreign: false,
            open: None,
            last: time,
            max: MAX,
            has_long: false,
            extended: None,
        }
    }

    /// In the middle of a stream: the first message must be found.
    pub(super) fn searching(time: Time) -> Self {
        let state = State::Searching(Box::new(Resync::new(MAX, true)));
        Self { state, begun: true, open: Some(Open::new(time)), ..Self::aligned(time) }
    }

    pub(super) fn memory(&self) -> usize {
        let search = match &self.state {
            State::Searching(search) => search.memory(),
            State::Aligned | State::Within(_) => 0,
        };
        self.carry.capacity() + search
    }

    pub(super) const fn is_searching(&self) -> bool {
        matches!(self.state, State::Searching(_))
    }

    pub(super) const fn is_foreign(&self) -> bool {
        self.foreign
    }

    pub(super) const fn extended(&self) -> Option<bool> {
        self.extended
    }

    /// Applies the OPENs' support for messages above 4,096 bytes. A received message of that length
    /// is stronger evidence.
    pub(super) const fn allow_extended(&mut self, allowed: bool) {
        self.max = if allowed || self.has_long { MAX_EXTENDED } else { MAX };
    }

    /// Processes the next bytes of the stream, which end with a segment. `rested`: the sender was
    /// idle before it sent them.
    #[inline]
    pub(super) fn data<R: Receiver>(
        &mut self,
        time: Time,
        bytes: &[u8],
        rested: bool,
        to: &mut Listener<'_, R>,
    ) {
        match &self.state {
            State::Aligned => self.aligned_data(time, bytes, to),
            State::Within(_) | State::Searching(_) => self.recover(time, bytes, rested, to),
        }
        if let Some(extended) = to.extended.take() {
            self.extended = Some(extended);
        }
    }

    #[inline]
    fn aligned_data<R: Receiver>(
        &mut self,
        time: Time,
        mut bytes: &[u8],
        to: &mut Listener<'_, R>,
    ) {
        self.last = time;
        if !self.carry.is_empty() {
            match self.complete(time, bytes, to) {
                Some(rest) => bytes = rest,
                None => return,
            }
        }
        let rest = split(time, bytes, to);
        self.begun |= rest.len() < bytes.len();
        if bytes.len() > MAX && !self.has_long {
            self.note_lengths(&bytes[..bytes.len() - rest.len()]);
        }
        if rest.is_empty() {
            return;
        }
        if may_begin(rest) {
            self.note_length(rest);
            self.carry.extend_from_slice(rest);
        } else {
            self.lose(time, rest, to);
        }
    }

    /// Completes the started message; returns the rest.
    fn complete<'a, R: Receiver>(
        &mut self,
        time: Time,
        mut bytes: &'a [u8],
        to: &mut Listener<'_, R>,
    ) -> Option<&'a [u8]> {
        if self.carry.len() < HEADER {
            let need = (HEADER - self.carry.len()).min(bytes.len());
            self.carry.extend_from_slice(&bytes[..need]);
            bytes = &bytes[need..];
            if !may_begin(&self.carry) {
                self.carry.extend_from_slice(bytes);
                let carry = std::mem::take(&mut self.carry);
                self.lose(time, &carry, to);
                return None;
            }
            if self.carry.len() < HEADER {
                return None;
            }
            self.note_length(&self.carry.clone());
        }
        let need = (self.need() as usize).min(bytes.len());
        let (mine, rest) = bytes.split_at(need);
        self.carry.extend_from_slice(mine);
        if self.need() > 0 {
            return None;
        }
        to.message(time, &self.carry);
        self.carry.clear();
        self.begun = true;
        Some(rest)
    }

    /// Number of missing bytes of the started message; 0 without its header.
    fn need(&self) -> u64 {
        let header = self.carry.first_chunk::<HEADER>();
        let length = header.map_or(0, |h| u64::from(u16::from_be_bytes([h[16], h[17]])));
        length.saturating_sub(self.carry.len() as u64)
    }

    /// Records a message of more than 4,096 bytes, after which others may follow.
    fn note_length(&mut self, message: &[u8]) {
        if let Some(length) = message.get(16..18)
            && usize::from(u16::from_be_bytes([length[0], length[1]])) > MAX
        {
            (self.has_long, self.max) = (true, MAX_EXTENDED);
        }
    }

    /// As [`Self::note_length`], for whole messages of one segment.
    #[cold]
    fn note_lengths(&mut self, mut messages: &[u8]) {
        while let Some(message) = bgp::Message::split(messages) {
            self.note_length(messages);
            messages = &messages[message.bytes().len()..];
        }
    }

    #[cold]
    fn lose<R: Receiver>(&mut self, time: Time, bytes: &[u8], to: &mut Listener<'_, R>) {
        self.foreign |= !self.begun;
        self.open.get_or_insert(Open::new(self.last));
        self.state = State::Searching(Box::new(Resync::new(self.max, false)));
        self.recover(time, bytes, false, to);
    }

    /// Handles bytes without a known message boundary, or of a skipped message.
    #[cold]
    fn recover<R: Receiver>(
        &mut self,
        time: Time,
        bytes: &[u8],
        rested: bool,
        to: &mut Listener<'_, R>,
    ) {
        match &mut self.state {
            State::Aligned => {}
            State::Within(left) => {
                let part = (*left).min(bytes.len() as u64);
                *left -= part;
                let is_over = *left == 0;
                self.skip(part);
                if is_over {
                    self.align(time, to);
                    self.aligned_data(time, &bytes[part as usize..], to);
                }
            }
            State::Searching(search) if rested && search.is_boundary(bytes) => {
                let skipped = search.skipped();
                self.skip(skipped);
                self.align(time, to);
                self.aligned_data(time, bytes, to);
            }
            State::Searching(search) => {
                if let Some((skipped, rest)) = search.data(time, bytes) {
                    self.skip(skipped);
                    self.align(time, to);
                    self.aligned_data(time, &rest, to);
                }
            }
        }
    }

    fn skip(&mut self, bytes: u64) {
        if let Some(open) = &mut self.open {
            open.skipped += bytes;
        }
    }

    fn align<R: Receiver>(&mut self, time: Time, to: &mut Listener<'_, R>) {
        self.state = State::Aligned;
        (self.begun, self.foreign) = (true, false);
        if let Some(open) = self.open.take().filter(|open| open.missing + open.skipped > 0) {
            to.hole(&close(open, time, true, 0));
        }
    }

    /// Handles a gap of `missing` bytes in the stream. `cut`: the capture cut all of them off.
    pub(super) fn hole<R: Receiver>(
        &mut self,
        time: Time,
        missing: u64,
        (acknowledged, cut): (bool, bool),
        to: &mut Listener<'_, R>,
    ) {
        self.begun = true;
        let within = match &self.state {
            State::Aligned => self.need(),
            State::Within(left) => *left,
            State::Searching(_) => 0,
        };
        let rest = self.give_up(to);
        let fresh = Open { acknowledged: true, cut: true, ..Open::new(self.last) };
        let open = self.open.get_or_insert(fresh);
        open.missing += missing;
        open.skipped += rest;
        open.acknowledged &= acknowledged;
        open.cut &= cut;
        match within.cmp(&missing) {
            Ordering::Greater => self.state = State::Within(within - missing),
            Ordering::Equal => self.align(time, to),
            Ordering::Less => {
                self.state = State::Searching(Box::new(Resync::new(self.max, false)));
            }
        }
    }

    /// Reports the gap, and the bytes after it that belong to no whole message. If the stream
    /// continues, the next message must be found.
    pub(super) fn interrupt<R: Receiver>(&mut self, time: Time, to: &mut Listener<'_, R>) {
        if !matches!(self.state, State::Aligned) || !self.carry.is_empty() {
            self.report(time, None, to);
            self.state = State::Searching(Box::new(Resync::new(self.max, false)));
            self.open = Some(Open::new(time));
        }
    }

    /// Ends the stream: the remaining bytes belong to no whole message. `limit` is set if the
    /// capture ended before the stream.
    pub(super) fn end<R: Receiver>(
        &mut self,
        time: Time,
        limit: Option<Limit>,
        to: &mut Listener<'_, R>,
    ) {
        // A scan may send the start of a header and close the connection.
        let is_part = !self.carry.is_empty() && self.carry.len() < HEADER;
        self.foreign |= !self.begun && is_part && limit.is_none();
        self.report(time, limit, to);
    }

    fn report<R: Receiver>(&mut self, time: Time, limit: Option<Limit>, to: &mut Listener<'_, R>) {
        let rest = self.give_up(to);
        if self.foreign {
            to.foreign += 1;
            return;
        }
        let limit = limit.filter(|_| self.open.is_none());
        if rest > 0 {
            self.open.get_or_insert(Open::new(self.last)).skipped += rest;
        }
        if let Some(open) = self.open.take().filter(|open| open.missing + open.skipped > 0) {
            let hole = close(open, time, false, 0);
            to.hole(&Hole { limit: hole.limit.or(limit), ..hole });
        }
    }

    /// Handles a loss of the next bytes. Delivers messages from the start of a capture; returns the
    /// number of other bytes, which belong to no whole message.
    fn give_up<R: Receiver>(&mut self, to: &mut Listener<'_, R>) -> u64 {
        let cut = std::mem::take(&mut self.carry).len() as u64;
        let search = match std::mem::replace(&mut self.state, State::Aligned) {
            State::Searching(search) => search,
            State::Aligned | State::Within(_) => return cut,
        };
        let cut = search.skipped();
        let held = search.end();
        let (all, rest) = messages(&held.bytes);
        let is_chain = is_beginning(rest);
        let whole = if is_chain { (held.bytes.len() - rest.len()) as u64 } else { 0 };
        if whole > 0 {
            if let Some(open) = self.open.take() {
                to.hole(&close(open, held.time(1), true, whole));
            }
            let mut end = 0;
            for message in all {
                end += message.len();
                self.last = held.time(end);
                to.message(self.last, message);
            }
        }
        cut - whole
    }
}

/// Whole messages at the start of `bytes`, and the rest.
fn messages(mut bytes: &[u8]) -> (Vec<&[u8]>, &[u8]) {
    let mut all = Vec::new();
    while let Some(message) = Message::split(bytes) {
        all.push(message.bytes());
        bytes = &bytes[message.bytes().len()..];
    }
    (all, bytes)
}

/// Delivers the whole messages at the start of `bytes`; returns the rest.
#[inline]
fn split<'a, R: Receiver>(time: Time, mut bytes: &'a [u8], to: &mut Listener<'_, R>) -> &'a [u8] {
    while let Some(message) = Message::split(bytes) {
        let message = message.bytes();
        to.message(time, message);
        bytes = &bytes[message.len()..];
    }
    bytes
}

fn close(open: Open, time: Time, resynchronised: bool, unconfirmed: u64) -> Hole {
    Hole {
        time: time.max(open.since),
        since: open.since,
        missing: open.missing,
        skipped: open.skipped,
        unconfirmed,
        acknowledged: open.acknowledged && open.missing > 0,
        resynchronised,
        limit: (open.cut && open.missing > 0).then_some(Limit::Length),
    }
}

/// Whether a message may start with these bytes. At a known boundary its type is ignored.
fn may_begin(bytes: &[u8]) -> bool {
    let marker = bytes.len().min(MARKER.len());
    let length = bytes
        .get(16..18)
        .is_none_or(|length| usize::from(u16::from_be_bytes([length[0], length[1]])) >= HEADER);
    bytes[..marker] == MARKER[..marker] && length
}
