//! Framing: records from bytes, and resynchronisation where the framing is damaged.

use super::{HEADER, Record, kind, record, seconds, total};

/// Maximum length of a table record in bytes: four times that of 65,535 entries with attributes
/// of common size.
const TABLE_LIMIT: usize = 16 << 20;
/// Maximum length of any other record: a message of 65,535 bytes and its header fields.
const LIMIT: usize = 65_535 + 64;
/// Maximum difference in seconds between the times of neighbouring records, if one of the two
/// is in doubt.
const MAX_TIME_GAP: u32 = 86_400;
/// Number of consecutive headers required to resynchronise: if their times match the previous
/// records, and if not.
const CHAIN: [usize; 2] = [2, 4];
/// Search range for headers within a doubtful record, in bytes.
const SEARCH: usize = 1 << 20;

/// Result of [`Reader::next`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step<'a> {
    /// The bytes begin with a record of `record.bytes.len()` bytes; the next call starts after it.
    Record(Record<'a>),
    /// At least this many bytes from the same position are required.
    Need(usize),
    /// [`Damage::skipped`] bytes belong to no record; the next call starts after them.
    Damaged(Damage),
    /// No bytes are left.
    End,
}

/// Bytes that belong to no record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Damage {
    /// Offset from the start of the input.
    pub offset: u64,
    /// Number of bytes.
    pub skipped: usize,
    /// Cause of the damage.
    pub cause: Cause,
}

/// Cause of damage.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Cause {
    /// The header is invalid, or no valid header follows the record.
    Framing,
    /// The record is truncated by the end of the input.
    Torn,
}

/// Frames records. The caller holds the bytes.
///
/// A header is accepted if its type is known and its length possible, or if its time is near that
/// of the previous record and another header follows. If the bytes after a record are not a header,
/// the record is in doubt: if a chain of headers starts within it, its length field is wrong
/// (`MRTd` in 2000 sometimes omitted half of such fields). To detect this, pass more than one
/// record per call where available.
#[derive(Clone, Debug, Default)]
pub struct Reader {
    offset: u64,
    /// Time of the last record in seconds.
    last: Option<u32>,
    /// After damage: the next bytes may not be a header.
    lost: bool,
}

impl Reader {
    /// A reader at the start of an input.
    pub fn new() -> Self {
        Self::default()
    }

    /// Bytes of the input that have been read or skipped.
    pub const fn offset(&self) -> u64 {
        self.offset
    }

    /// Frames the record at the start of `bytes`. With `end`, no more bytes follow: the result is
    /// never [`Step::Need`], and a partial record is [`Cause::Torn`].
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

    /// Slow path: the record is incomplete or in doubt.
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
            // The last record of a truncated file, or a record with a wrong length.
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
        // The type requires microseconds, but the record is too short for them.
        let Some(record) = record(header, found) else { return self.skip(total, Cause::Framing) };
        self.last = Some(seconds(header));
        self.offset += total as u64;
        Step::Record(record)
    }

    /// Whether the header is plausible after a record: a known type, or a time near
    /// the previous one.
    fn follows(&self, header: &[u8; HEADER]) -> bool {
        let total = total(header);
        is_possible(header) || self.is_near(header) && total <= LIMIT
    }

    fn is_near(&self, header: &[u8; HEADER]) -> bool {
        self.last.is_some_and(|last| last.abs_diff(seconds(header)) <= MAX_TIME_GAP)
    }

    fn skip(&mut self, skipped: usize, cause: Cause) -> Step<'static> {
        let offset = self.offset;
        self.offset += skipped as u64;
        self.lost = false;
        Step::Damaged(Damage { offset, skipped, cause })
    }

    /// Continues at the next chain of headers.
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

    /// Whether a chain of headers starts at `at`.
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
                // Too few bytes for a header: invalid at the end of the input.
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

    /// Offset within a record at which a chain of headers starts that extends beyond `total`.
    fn inside(&self, bytes: &[u8], total: usize) -> Option<usize> {
        let within = total.min(SEARCH);
        let is_start = |at: usize| {
            let mut next = at;
            for count in 0.. {
                if next >= total || count == 64 {
                    // A single header is not sufficient, even if its record ends at
                    // the right position.
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
        // The wrong length field itself may be the start of the next record.
        (HEADER - 4..within).find(|at| is_start(*at))
    }
}

/// Result of [`Reader::chain`].
enum Chain {
    None,
    Sure,
    Need(usize),
}

/// Whether the type is known and the length is possible for it.
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

/// Iterator over all complete records in a byte slice.
#[derive(Clone, Debug)]
pub struct Records<'a> {
    reader: Reader,
    bytes: &'a [u8],
}

impl<'a> Records<'a> {
    /// Records in `bytes`.
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
            // At the end no bytes are required.
            Step::Need(_) | Step::End => None,
        }
    }
}
