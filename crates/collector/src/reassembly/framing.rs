//! From a stream of bytes to whole messages, and back to them behind a hole.

use base::Time;
use bgp::{HEADER, MARKER, Message, MessageType};

use super::Listener;
use crate::{Hole, Receiver};

/// A hole whose end is not known yet.
#[derive(Clone, Copy, Debug)]
struct Open {
    since: Time,
    missing: u64,
    skipped: u64,
    acknowledged: bool,
}

/// The messages of one direction.
#[derive(Debug)]
pub(super) struct Framing {
    /// The beginning of a message; while searching, bytes that may be one.
    carry: Vec<u8>,
    /// Where the next message begins is not known.
    searching: bool,
    open: Option<Open>,
    /// When the last byte came that belongs to a message.
    last: Time,
}

/// What bytes that may begin a message are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Candidate {
    /// No message begins here.
    No,
    /// More bytes must come to tell.
    Unclear,
    /// One does.
    Yes,
}

impl Framing {
    /// At the beginning of a connection.
    pub(super) const fn aligned(time: Time) -> Self {
        Self { carry: Vec::new(), searching: false, open: None, last: time }
    }

    /// In mid-stream: the first message must be found.
    pub(super) const fn searching(time: Time) -> Self {
        let open = Open { since: time, missing: 0, skipped: 0, acknowledged: false };
        Self { carry: Vec::new(), searching: true, open: Some(open), last: time }
    }

    /// Bytes of memory that it holds.
    pub(super) const fn memory(&self) -> usize {
        self.carry.capacity()
    }

    /// The next bytes of the stream, which end where a segment does.
    #[inline]
    pub(super) fn data<R: Receiver>(
        &mut self,
        time: Time,
        mut bytes: &[u8],
        to: &mut Listener<'_, R>,
    ) {
        if self.searching {
            self.carry.extend_from_slice(bytes);
            self.search(time, false, to);
            return;
        }
        self.last = time;
        if !self.carry.is_empty() {
            match self.complete(time, bytes, to) {
                Some(rest) => bytes = rest,
                None => return,
            }
        }
        let rest = split(time, bytes, to);
        if rest.is_empty() {
            return;
        }
        self.carry.extend_from_slice(rest);
        if !is_beginning(rest) {
            self.lose();
            self.search(time, false, to);
        }
    }

    /// Fills the message that has begun; what follows it, once it is whole.
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
            if !is_beginning(&self.carry) {
                self.carry.extend_from_slice(bytes);
                self.lose();
                self.search(time, false, to);
                return None;
            }
            if self.carry.len() < HEADER {
                return None;
            }
        }
        let length = usize::from(u16::from_be_bytes([self.carry[16], self.carry[17]]));
        let need = (length - self.carry.len()).min(bytes.len());
        let (mine, rest) = bytes.split_at(need);
        self.carry.extend_from_slice(mine);
        if self.carry.len() < length {
            return None;
        }
        to.message(time, &self.carry);
        self.carry.clear();
        Some(rest)
    }

    /// Where a message should begin, none does.
    fn lose(&mut self) {
        self.open = Some(Open { since: self.last, missing: 0, skipped: 0, acknowledged: false });
        self.searching = true;
    }

    /// `missing` bytes of the stream will never come.
    pub(super) fn hole<R: Receiver>(
        &mut self,
        time: Time,
        missing: u64,
        acknowledged: bool,
        to: &mut Listener<'_, R>,
    ) {
        if self.searching {
            self.search(time, true, to);
        }
        let cut = self.carry.len() as u64;
        self.carry.clear();
        let fresh = Open { since: self.last, missing: 0, skipped: 0, acknowledged: true };
        let open = self.open.get_or_insert(fresh);
        open.missing += missing;
        open.skipped += cut;
        open.acknowledged &= acknowledged;
        self.searching = true;
    }

    /// Nothing more comes: whatever is left belongs to no whole message.
    pub(super) fn end<R: Receiver>(&mut self, time: Time, to: &mut Listener<'_, R>) {
        if self.searching {
            self.search(time, true, to);
        }
        let cut = std::mem::take(&mut self.carry).len() as u64;
        if cut > 0 {
            let fresh = Open { since: self.last, missing: 0, skipped: 0, acknowledged: false };
            self.open.get_or_insert(fresh).skipped += cut;
        }
        if let Some(open) = self.open.take() {
            to.hole(&close(open, time, false));
        }
    }

    /// Looks for the next message in `carry`; `last` says that no bytes will follow these without
    /// a hole.
    fn search<R: Receiver>(&mut self, time: Time, last: bool, to: &mut Listener<'_, R>) {
        let mut bytes = std::mem::take(&mut self.carry);
        let mut at = 0;
        loop {
            let found = first_candidate(&bytes[at..], last);
            let skipped = found.map_or(bytes.len() - at, |(skipped, _)| skipped);
            at += skipped;
            if let Some(open) = &mut self.open {
                open.skipped += skipped as u64;
            }
            if !matches!(found, Some((_, Candidate::Yes))) {
                break;
            }
            self.searching = false;
            self.last = time;
            if let Some(open) = self.open.take().filter(|o| o.missing + o.skipped > 0) {
                to.hole(&close(open, time, true));
            }
            at = bytes.len() - split(time, &bytes[at..], to).len();
            if is_beginning(&bytes[at..]) {
                break;
            }
            self.lose();
        }
        bytes.drain(..at);
        self.carry = bytes;
    }
}

/// The first place where a message begins or may begin.
fn first_candidate(bytes: &[u8], last: bool) -> Option<(usize, Candidate)> {
    (0..bytes.len()).filter(|at| bytes[*at] == 0xff).find_map(|at| match judge(&bytes[at..]) {
        Candidate::No => None,
        Candidate::Unclear if last => None,
        candidate => Some((at, candidate)),
    })
}

/// Hands out the messages that lie whole in `bytes`; what is left.
#[inline]
fn split<'a, R: Receiver>(time: Time, mut bytes: &'a [u8], to: &mut Listener<'_, R>) -> &'a [u8] {
    while let Some(message) = Message::split(bytes) {
        let message = message.bytes();
        to.message(time, message);
        bytes = &bytes[message.len()..];
    }
    bytes
}

fn close(open: Open, time: Time, resynchronised: bool) -> Hole {
    Hole {
        time,
        since: open.since,
        missing: open.missing,
        skipped: open.skipped,
        acknowledged: open.acknowledged && open.missing > 0,
        resynchronised,
    }
}

/// Whether a message can begin with these bytes, as far as they go.
fn is_beginning(bytes: &[u8]) -> bool {
    let marker = bytes.len().min(MARKER.len());
    let length = bytes
        .get(16..18)
        .is_none_or(|length| usize::from(u16::from_be_bytes([length[0], length[1]])) >= HEADER);
    bytes[..marker] == MARKER[..marker] && length
}

/// Whether bytes behind a hole begin a message. Communities of all ones look like markers, so
/// more is asked for than a header: a body that holds together, and either attributes that fill
/// it exactly or another marker (or the end of a segment) behind it.
fn judge(bytes: &[u8]) -> Candidate {
    if !is_beginning(bytes) {
        return Candidate::No;
    }
    let Some(header) = bytes.first_chunk::<HEADER>() else { return Candidate::Unclear };
    let length = usize::from(u16::from_be_bytes([header[16], header[17]]));
    let kind = MessageType(header[18]);
    let body = &bytes[HEADER..length.min(bytes.len())];
    let fits = match kind {
        MessageType::OPEN => length >= 29 && body.first().is_none_or(|version| *version == 4),
        MessageType::UPDATE | MessageType::ROUTE_REFRESH => length >= 23,
        MessageType::NOTIFICATION => {
            length >= 21 && body.first().is_none_or(|c| (1..9).contains(c))
        }
        MessageType::KEEPALIVE => length == HEADER,
        _ => false,
    };
    if !fits {
        return Candidate::No;
    }
    let whole = bytes.len() >= length;
    let strong = match (kind, update_structure(body, length - HEADER)) {
        (MessageType::UPDATE, Structure::Broken) => return Candidate::No,
        (MessageType::UPDATE, Structure::Attributes) => true,
        _ => false,
    };
    if !whole {
        return Candidate::Unclear;
    }
    let behind = &bytes[length..];
    let marker = behind.len().min(MARKER.len());
    if strong || behind[..marker] == MARKER[..marker] { Candidate::Yes } else { Candidate::No }
}

/// How the body of an UPDATE holds together (RFC 4271 §4.3).
enum Structure {
    Broken,
    /// As far as it is there, but it has no attributes to hold on to.
    Bare,
    /// Attributes that end exactly where they should.
    Attributes,
}

/// Lengths of an UPDATE's parts; `length` bytes belong to the body, `body` is what is there of it.
fn update_structure(body: &[u8], length: usize) -> Structure {
    let word = |at: usize| {
        body.get(at..at + 2).map(|word| usize::from(u16::from_be_bytes([word[0], word[1]])))
    };
    let Some(withdrawn) = word(0) else { return Structure::Bare };
    if withdrawn + 4 > length {
        return Structure::Broken;
    }
    let Some(attributes) = word(2 + withdrawn) else { return Structure::Bare };
    let (mut at, end) = (4 + withdrawn, 4 + withdrawn + attributes);
    if end > length {
        return Structure::Broken;
    }
    while at < end {
        let Some(flags) = body.get(at) else { return Structure::Bare };
        let value = if flags & 0x10 == 0 {
            body.get(at + 2).map(|length| 3 + usize::from(*length))
        } else {
            word(at + 2).map(|length| 4 + length)
        };
        match value {
            Some(size) => at += size,
            None if body.len() == length => return Structure::Broken,
            None => return Structure::Bare,
        }
    }
    match (at == end, attributes) {
        (false, _) => Structure::Broken,
        (true, 0) => Structure::Bare,
        (true, _) => Structure::Attributes,
    }
}
