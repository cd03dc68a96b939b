//! Framing: records out of bytes, and how to go on where the framing is damaged.

use base::Time;

use super::{HEADER, Record, is_extended, kind};

/// Longest record of a table that is believed, in bytes: 65,535 entries with attributes of common
/// size, four times over.
const TABLE_LIMIT: usize = 16 << 20;
/// Longest record of any other type: a message of 65,535 bytes and what stands around it.
const LIMIT: usize = 65_535 + 64;
/// How far times of neighbouring records may lie apart if one of them is in doubt, in seconds.
const NEAR: u32 = 86_400;
/// Headers in a row that make it sure that records begin: where their times fit to what was read
/// before, and where they do not.
const CHAIN: [usize; 2] = [2, 4];
/// How far into a doubtful record others are searched, in bytes.
const SEARCH: usize = 1 << 20;

/// What a [`Reader`] says of the bytes that it was given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step<'a> {
    /// They begin with a record of `record.bytes.len()` bytes: hand in what follows it next.
    Record(Record<'a>),
    /// Hand in at least as many, from the same place on.
    Need(usize),
    /// Some belong to no record: hand in what follows [`Damage::skipped`] of them next.
    Damaged(Damage),
    /// There are none.
    End,
}

/// Bytes that belong to no record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Damage {
    /// Where they begin, in bytes from the start of the input.
    pub offset: u64,
    /// How many.
    pub skipped: usize,
    /// Why they belong to none.
    pub cause: Cause,
}

/// What is wrong with bytes that belong to no record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Cause {
    /// There should be a header and there is none, or its length leads to no other record.
    Framing,
    /// The input ends before the record does.
    Torn,
}

/// Frames records. It holds no bytes: who calls it does.
///
/// A header is believed if its type is known and its length possible, or if its time fits and
/// another header follows. If the bytes behind a record are no header, the record itself is in
/// doubt: when headers chain out of its middle, its length field lies (`MRTd` in 2000 left out half
/// of such fields now and then). To see that, hand in more than one record at a time where there
/// is more.
#[derive(Clone, Debug, Default)]
pub struct Reader {
    offset: u64,
    /// Seconds of the last record.
    last: Option<u32>,
    /// What comes next need not be a header.
    lost: bool,
}

impl Reader {
    /// A reader at the start of an input.
    pub fn new() -> Self {
        Self::default()
    }

    /// Bytes of the input that were read or skipped.
    pub const fn offset(&self) -> u64 {
        self.offset
    }

    /// What `bytes` begin with. `end` says that no others will come: then [`Step::Need`] is no
    /// answer, and what is no whole record is [`Cause::Torn`].
    #[inline]
    pub fn next<'a>(&mut self, bytes: &'a [u8], end: bool) -> Step<'a> {
        if !self.lost
            && let Some(header) = bytes.first_chunk::<HEADER>()
        {
            let total = total(header);
            if let Some((found, behind)) = bytes.split_at_checked(total)
                && is_possible(header)
                && behind.first_chunk().is_none_or(is_possible)
                && let Some(record) = record(header, found)
            {
                self.last = Some(seconds(header));
                self.offset += total as u64;
                return Step::Record(record);
            }
        }
        self.doubtful(bytes, end)
    }

    /// The way for everything but whole records among whole records.
    #[cold]
    fn doubtful<'a>(&mut self, bytes: &'a [u8], end: bool) -> Step<'a> {
        let Some(header) = bytes.first_chunk::<HEADER>() else {
            return match (bytes.is_empty(), end) {
                (true, true) => Step::End,
                (false, true) => self.skip(bytes.len(), Cause::Torn),
                _ => Step::Need(HEADER),
            };
        };
        if self.lost {
            return self.search(bytes, end);
        }
        let total = total(header);
        let known = is_possible(header);
        if !(known || self.is_near(header) && total <= LIMIT) {
            return self.search(bytes, end);
        }
        if bytes.len() < total {
            if !end {
                return Step::Need(total);
            }
            // The last record of a torn file, or one whose length lies.
            return match self.inside(bytes, bytes.len()) {
                Some(at) => self.skip(at, Cause::Framing),
                None => self.skip(bytes.len(), Cause::Torn),
            };
        }
        let (found, behind) = bytes.split_at(total);
        if !behind.first_chunk().is_none_or(|next| self.follows(next)) {
            if let Some(at) = self.inside(bytes, total) {
                return self.skip(at, Cause::Framing);
            }
            if !known {
                return self.search(bytes, end);
            }
            self.lost = true;
        }
        // Other headers follow one with microseconds and no room for them.
        let Some(record) = record(header, found) else { return self.skip(total, Cause::Framing) };
        self.last = Some(seconds(header));
        self.offset += total as u64;
        Step::Record(record)
    }

    /// Whether a header may stand behind a record: of a known type, or at a fitting time.
    fn follows(&self, header: &[u8; HEADER]) -> bool {
        let total = total(header);
        is_possible(header) || self.is_near(header) && total <= LIMIT
    }

    fn is_near(&self, header: &[u8; HEADER]) -> bool {
        self.last.is_some_and(|last| last.abs_diff(seconds(header)) <= NEAR)
    }

    fn skip(&mut self, skipped: usize, cause: Cause) -> Step<'static> {
        let offset = self.offset;
        self.offset += skipped as u64;
        self.lost = false;
        Step::Damaged(Damage { offset, skipped, cause })
    }

    /// Goes on to where headers chain again.
    fn search<'a>(&mut self, bytes: &'a [u8], end: bool) -> Step<'a> {
        let first = usize::from(!self.lost);
        for at in first..bytes.len() {
            match self.chain(bytes, at, end) {
                Chain::None => {}
                Chain::Sure if at == 0 => {
                    self.lost = false;
                    return self.doubtful(bytes, end);
                }
                Chain::Sure => return self.skip(at, Cause::Framing),
                Chain::Need(need) if at == 0 => return Step::Need(need),
                Chain::Need(_) => {
                    let step = self.skip(at, Cause::Framing);
                    self.lost = true;
                    return step;
                }
            }
        }
        let step = self.skip(bytes.len(), Cause::Framing);
        self.lost = true;
        step
    }

    /// Whether headers chain from `at` on.
    fn chain(&self, bytes: &[u8], at: usize, end: bool) -> Chain {
        let mut next = at;
        let mut near = true;
        for count in 0..CHAIN[1] {
            if count >= CHAIN[0] && near {
                return Chain::Sure;
            }
            if end && next == bytes.len() && count > 0 {
                return if near { Chain::Sure } else { Chain::None };
            }
            let Some(header) = bytes.get(next..).and_then(<[u8]>::first_chunk) else {
                // Too few bytes for a header: at the end it cannot be one.
                return if end { Chain::None } else { Chain::Need(next + HEADER - at) };
            };
            let total = total(header);
            if total > LIMIT || !is_possible(header) {
                return Chain::None;
            }
            near &= self.is_near(header);
            next += total;
        }
        Chain::Sure
    }

    /// Where in a record others begin that chain beyond `total`, if they do.
    fn inside(&self, bytes: &[u8], total: usize) -> Option<usize> {
        let within = total.min(SEARCH);
        let is_start = |at: usize| {
            let mut next = at;
            for count in 0.. {
                if next >= total || count == 64 {
                    // A single header that happens to end right is not enough.
                    return count > 1 && (next > total || count == 64 || total == bytes.len());
                }
                let header = bytes.get(next..).and_then(<[u8]>::first_chunk);
                let Some(header) = header.filter(|header| self.is_near(header)) else {
                    return false;
                };
                let length = self::total(header);
                if length > LIMIT || !is_possible(header) {
                    return false;
                }
                next += length;
            }
            false
        };
        // The lying length field itself may be where the next record begins.
        (HEADER - 4..within).find(|at| is_start(*at))
    }
}

/// What [`Reader::chain`] found.
enum Chain {
    None,
    Sure,
    Need(usize),
}

#[inline]
fn seconds(header: &[u8; HEADER]) -> u32 {
    u32::from_be_bytes([header[0], header[1], header[2], header[3]])
}

/// Bytes of the whole record, by its header.
#[inline]
pub(super) fn total(header: &[u8; HEADER]) -> usize {
    let length = u32::from_be_bytes([header[8], header[9], header[10], header[11]]);
    HEADER.saturating_add(length as usize)
}

/// Whether the type is known and the length is one that its records can have.
#[inline]
fn is_possible(header: &[u8; HEADER]) -> bool {
    let kind = u16::from_be_bytes([header[4], header[5]]);
    let subtype = u16::from_be_bytes([header[6], header[7]]);
    let (subtypes, least, most) = match kind {
        kind::BGP4MP => (0..=11, 8, LIMIT),
        kind::BGP4MP_ET => (0..=11, 12, LIMIT),
        kind::TABLE_DUMP_V2 => (1..=12, 8, TABLE_LIMIT),
        kind::TABLE_DUMP => (1..=4, 22, LIMIT),
        kind::BGP | kind::BGP4PLUS => (0..=7, 2, LIMIT),
        kind::ISIS_ET | kind::OSPFV3_ET => (0..=0, 4, LIMIT),
        kind::OSPFV2 | kind::ISIS | kind::OSPFV3 => (0..=0, 1, LIMIT),
        _ => return false,
    };
    subtypes.contains(&subtype) && (HEADER + least..=most).contains(&total(header))
}

/// A record of `bytes`, which are as long as `header` says; `None` if it has no room for its
/// microseconds.
#[inline]
pub(super) fn record<'a>(header: &[u8; HEADER], bytes: &'a [u8]) -> Option<Record<'a>> {
    let kind = u16::from_be_bytes([header[4], header[5]]);
    let subtype = u16::from_be_bytes([header[6], header[7]]);
    let mut nanos = u64::from(seconds(header)) * 1_000_000_000;
    let mut body = &bytes[HEADER..];
    if is_extended(kind) {
        let (micros, rest) = body.split_first_chunk()?;
        nanos += u64::from(u32::from_be_bytes(*micros)) * 1000;
        body = rest;
    }
    Some(Record { time: Time::from_nanos(nanos), kind, subtype, body, bytes })
}

/// All records of bytes that are wholly there.
#[derive(Clone, Debug)]
pub struct Records<'a> {
    reader: Reader,
    bytes: &'a [u8],
}

impl<'a> Records<'a> {
    /// Of `bytes`.
    pub fn new(bytes: &'a [u8]) -> Self {
        Self { reader: Reader::new(), bytes }
    }
}

impl<'a> Iterator for Records<'a> {
    type Item = std::result::Result<Record<'a>, Damage>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        match self.reader.next(self.bytes, true) {
            Step::Record(record) => {
                self.bytes = &self.bytes[record.bytes.len()..];
                Some(Ok(record))
            }
            Step::Damaged(damage) => {
                self.bytes = &self.bytes[damage.skipped..];
                Some(Err(damage))
            }
            // At the end nothing is needed.
            Step::Need(_) | Step::End => None,
        }
    }
}
