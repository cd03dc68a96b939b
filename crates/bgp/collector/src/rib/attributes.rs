//! Attribute sets of announcements, each stored once.

use bgp::attribute::{AsPath, LogicalPath, MpReach};

use super::interner::Interner;

const AS_PATH: u8 = 2;
const NEXT_HOP: u8 = 3;
const AGGREGATOR: u8 = 7;
const MP_REACH: u8 = 14;
const MP_UNREACH: u8 = 15;
const AS4_PATH: u8 = 17;
const AS4_AGGREGATOR: u8 = 18;
/// Flag of an attribute whose length has two octets (RFC 4271 §4.3).
const EXTENDED_LENGTH: u8 = 0x10;

#[derive(Clone, Copy)]
struct Raw<'a> {
    code: u8,
    bytes: &'a [u8],
    value: &'a [u8],
}

/// The path attributes of a field, up to the first with an invalid length.
struct Walk<'a>(&'a [u8]);

impl<'a> Iterator for Walk<'a> {
    type Item = Raw<'a>;

    #[inline]
    fn next(&mut self) -> Option<Raw<'a>> {
        let (header, length) = match *self.0 {
            [flags, _, high, low, ..] if flags & EXTENDED_LENGTH != 0 => {
                (4, usize::from(high) << 8 | usize::from(low))
            }
            [_, _, length, ..] => (3, usize::from(length)),
            _ => return None,
        };
        let (bytes, rest) = self.0.split_at_checked(header + length)?;
        self.0 = rest;
        Some(Raw { code: bytes[1], bytes, value: &bytes[header..] })
    }
}

/// Whether the value of this attribute usually differs between sets or peerings: path and next hop,
/// and the attribute before them.
const fn varies(code: u8) -> bool {
    matches!(code, 1..=3 | MP_REACH)
}

/// All attribute sets.
///
/// A set is stored in two parts: the leading attributes that vary from route to route (head), and
/// the rest, which many sets share (tail). Attributes keep their order and encoding, but the NLRI
/// of `MP_REACH_NLRI` is omitted as in RFC 6396 §4.3.4.
#[derive(Debug)]
pub(super) struct AttributeSets {
    /// Flags and number of the tail, announced NLRI if [`HAS_NLRI`], head.
    sets: Interner,
    tails: Interner,
    /// The tail of the last set, which is likely to occur again.
    last_tail: u32,
    record: Vec<u8>,
    rest: Vec<u8>,
}

const FOUR_OCTET_AS: u32 = 1 << 31;
const HAS_NLRI: u32 = 1 << 30;
const FIXED: usize = 4;
/// The tail is empty; also the mask for the number of the tail.
const NO_TAIL: u32 = HAS_NLRI - 1;

fn word(record: &[u8]) -> u32 {
    record.first_chunk().map_or(NO_TAIL, |word| u32::from_le_bytes(*word))
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct AttributeSet<'a> {
    /// AS numbers have four octets.
    pub(super) four_octet_as: bool,
    /// The announced NLRI, if it is longer than the key of the route.
    pub(super) nlri: Option<&'a [u8]>,
    head: &'a [u8],
    tail: &'a [u8],
}

#[derive(Clone, Copy, Debug)]
pub(super) struct NewSet<'a> {
    pub(super) attributes: &'a [u8],
    /// AS numbers have four octets.
    pub(super) four_octet_as: bool,
    /// `MP_REACH_NLRI` if the routes are in it, with their next hop; otherwise the attribute does
    /// not apply to the routes.
    pub(super) reach: Option<MpReach<'a>>,
    /// The NLRI, if the key of the route does not contain all of it.
    pub(super) nlri: Option<&'a [u8]>,
    /// Offsets of attributes that are not stored.
    pub(super) discarded: &'a [usize],
}

impl Default for AttributeSets {
    fn default() -> Self {
        Self::new()
    }
}

impl AttributeSets {
    pub(super) fn new() -> Self {
        Self {
            sets: Interner::new(),
            tails: Interner::new(),
            last_tail: NO_TAIL,
            record: Vec::new(),
            rest: Vec::new(),
        }
    }

    /// The number of a set; `hint` is tried first. The caller must hold or remove a new one.
    pub(super) fn intern(&mut self, given: &NewSet<'_>, hint: u32) -> u32 {
        let flags = self.split(given);
        if self.is_record(hint) {
            return hint;
        }
        if self.rest.is_empty() {
            return self.sets.intern(&self.record).0;
        }
        let last = Some(self.last_tail).filter(|last| self.tails.holds(*last));
        let tail = match last.filter(|last| self.tails.get(*last) == self.rest) {
            Some(last) => last,
            None => self.tails.intern(&self.rest).0,
        };
        self.last_tail = tail;
        self.record[..FIXED].copy_from_slice(&(flags | tail).to_le_bytes());
        let (number, new) = self.sets.intern(&self.record);
        if new {
            self.tails.hold(tail);
        }
        number
    }

    /// Whether the set `number` has the parts in `record` and `rest`.
    fn is_record(&self, number: u32) -> bool {
        if !self.sets.holds(number) {
            return false;
        }
        let record = self.sets.get(number);
        record[FIXED..] == self.record[FIXED..]
            && word(record) & !NO_TAIL == word(&self.record) & !NO_TAIL
            && match word(record) & NO_TAIL {
                NO_TAIL => self.rest.is_empty(),
                tail => self.tails.get(tail) == self.rest,
            }
    }

    /// Splits the attributes into a record without the number of its tail, and the tail; returns
    /// the flags of the record.
    fn split(&mut self, given: &NewSet<'_>) -> u32 {
        self.record.clear();
        let mut flags = if given.four_octet_as { FOUR_OCTET_AS } else { 0 };
        flags |= if given.nlri.is_some() { HAS_NLRI } else { 0 };
        self.record.extend_from_slice(&(flags | NO_TAIL).to_le_bytes());
        if let Some(nlri) = given.nlri {
            self.record.extend_from_slice(&(nlri.len() as u16).to_le_bytes());
            self.record.extend_from_slice(nlri);
        }
        self.rest.clear();
        let (mut at_head, mut at) = (true, 0);
        for raw in Walk(given.attributes) {
            let start = at;
            at += raw.bytes.len();
            if given.discarded.contains(&start) {
                continue;
            }
            at_head &= varies(raw.code);
            let part = if at_head { &mut self.record } else { &mut self.rest };
            match (raw.code, given.reach) {
                // NEXT_HOP does not apply to routes of MP_REACH_NLRI (RFC 4760 §3).
                (MP_UNREACH, _) | (MP_REACH, None) | (NEXT_HOP, Some(_)) => {}
                (MP_REACH, Some(reach)) => {
                    let length = reach.next_hop.len().min(254) as u8;
                    let flags = raw.bytes[0] & !EXTENDED_LENGTH;
                    part.extend_from_slice(&[flags, MP_REACH, length + 1, length]);
                    part.extend_from_slice(&reach.next_hop[..usize::from(length)]);
                }
                _ => part.extend_from_slice(raw.bytes),
            }
        }
        flags
    }

    pub(super) fn hold(&mut self, number: u32) {
        self.sets.hold(number);
    }

    pub(super) fn release(&mut self, number: u32) {
        if self.sets.release(number) {
            let tail = word(self.sets.get(number)) & NO_TAIL;
            self.sets.remove_unused(number);
            if tail != NO_TAIL && self.tails.release(tail) {
                self.tails.remove_unused(tail);
            }
        }
    }

    pub(super) fn get(&self, number: u32) -> AttributeSet<'_> {
        let record = self.sets.get(number);
        let word = word(record);
        let four_octet_as = word & FOUR_OCTET_AS != 0;
        let (mut nlri, mut head) = (None, &record[FIXED..]);
        if word & HAS_NLRI != 0 {
            let length = usize::from(u16::from_le_bytes([head[0], head[1]]));
            nlri = Some(&head[2..2 + length]);
            head = &head[2 + length..];
        }
        let tail = match word & NO_TAIL {
            NO_TAIL => &[][..],
            tail => self.tails.get(tail),
        };
        AttributeSet { four_octet_as, nlri, head, tail }
    }

    pub(super) const fn len(&self) -> usize {
        self.sets.len()
    }

    pub(super) fn memory(&self) -> usize {
        let scratch = self.record.capacity() + self.rest.capacity();
        self.sets.memory() + self.tails.memory() + scratch
    }
}

impl AttributeSet<'_> {
    fn raw(&self) -> impl Iterator<Item = Raw<'_>> {
        Walk(self.head).chain(Walk(self.tail))
    }

    /// Appends the attributes as in a table dump (RFC 6396 §4.3.4): with four-octet AS numbers,
    /// combined from both forms of two-octet speakers (RFC 6793 §4.2.3).
    pub(super) fn write(&self, out: &mut Vec<u8>) {
        if self.four_octet_as {
            out.extend_from_slice(self.head);
            out.extend_from_slice(self.tail);
            return;
        }
        let find = |code| self.raw().find(|raw| raw.code == code).map(|raw| raw.value);
        let trans = find(AGGREGATOR).is_some_and(|value| value.starts_with(&[0x5b, 0xa0]));
        let aggregator = find(AS4_AGGREGATOR).filter(|value| value.len() == 8 && trans);
        // An AGGREGATOR other than AS_TRANS means that the four-octet attributes are stale.
        let stale = !trans && find(AGGREGATOR).is_some();
        for raw in self.raw() {
            match (raw.code, raw.value) {
                (AS_PATH, value) => match AsPath::parse(value, false, 0) {
                    Ok(path) => {
                        let newer = find(AS4_PATH).filter(|_| !stale);
                        let newer = newer.and_then(|value| AsPath::parse(value, true, 0).ok());
                        append(out, raw.bytes[0], AS_PATH, &widened(path, newer));
                    }
                    Err(_) => out.extend_from_slice(raw.bytes),
                },
                (AGGREGATOR, [high, low, address @ ..]) if address.len() == 4 => {
                    let mut wide = vec![0, 0, *high, *low];
                    wide.extend_from_slice(address);
                    append(out, raw.bytes[0], AGGREGATOR, aggregator.unwrap_or(&wide));
                }
                (AS4_PATH | AS4_AGGREGATOR, _) => {}
                _ => out.extend_from_slice(raw.bytes),
            }
        }
    }
}

fn widened(path: AsPath<'_>, newer: Option<AsPath<'_>>) -> Vec<u8> {
    let mut value = Vec::new();
    for segment in LogicalPath::new(path, newer).segments() {
        value.extend_from_slice(&[segment.kind as u8, segment.asns.len() as u8]);
        value.extend(segment.asns.flat_map(|asn| asn.0.to_be_bytes()));
    }
    value
}

fn append(out: &mut Vec<u8>, flags: u8, code: u8, value: &[u8]) {
    if let Ok(length) = u8::try_from(value.len()) {
        out.extend_from_slice(&[flags & !EXTENDED_LENGTH, code, length]);
    } else {
        out.extend_from_slice(&[flags | EXTENDED_LENGTH, code]);
        out.extend_from_slice(&(value.len() as u16).to_be_bytes());
    }
    out.extend_from_slice(value);
}

#[cfg(test)]
mod tests {
    use super::*;

    const ORIGIN: [u8; 4] = [0x40, 1, 1, 0];
    const NEXT_HOP: [u8; 7] = [0x40, 3, 4, 192, 0, 2, 1];
    const COMMUNITY: [u8; 7] = [0xc0, 8, 4, 0, 1, 0, 2];

    fn given(attributes: &[u8], four_octet_as: bool) -> NewSet<'_> {
        NewSet { attributes, four_octet_as, reach: None, nlri: None, discarded: &[] }
    }

    fn written(sets: &AttributeSets, number: u32) -> Vec<u8> {
        let mut out = Vec::new();
        sets.get(number).write(&mut out);
        out
    }

    #[test]
    fn shares_equal_sets_until_last_use() {
        let mut sets = AttributeSets::new();
        let path = [0x40, 2, 6, 2, 1, 0, 0, 0xfd, 0xe8];
        let whole = [&ORIGIN[..], &path, &NEXT_HOP, &COMMUNITY].concat();
        let number = sets.intern(&given(&whole, true), 0);
        sets.hold(number);
        assert_eq!(sets.intern(&given(&whole, true), 0), number);
        assert_eq!(written(&sets, number), whole);
        let shorter = [&ORIGIN[..], &NEXT_HOP, &COMMUNITY].concat();
        let other = sets.intern(&given(&shorter, true), 0);
        sets.hold(other);
        assert_eq!((sets.len(), sets.tails.len()), (2, 1));
        sets.release(number);
        assert_eq!(written(&sets, other), shorter);
        sets.release(other);
        assert_eq!((sets.len(), sets.tails.len(), sets.sets.memory()), (0, 0, 0));
    }

    #[test]
    fn keeps_order_of_attributes() {
        let mut sets = AttributeSets::new();
        let whole = [&COMMUNITY[..], &NEXT_HOP, &ORIGIN].concat();
        let number = sets.intern(&given(&whole, true), 0);
        assert_eq!(written(&sets, number), whole);
    }

    #[test]
    fn keeps_next_hops_of_other_families_without_nlri() {
        let mut sets = AttributeSets::new();
        let mut value = vec![0, 2, 1, 16];
        value.extend([0x20; 16]);
        value.extend([0, 8, 0x2a]);
        let reach = MpReach::parse(&value, &bgp::Negotiated::default(), 0).unwrap();
        let attribute = [&[0x90, 14, 0, value.len() as u8][..], &value].concat();
        let whole = [&attribute[..], &ORIGIN].concat();
        let number = sets.intern(&NewSet { reach: Some(reach), ..given(&whole, true) }, 0);
        let expected = [&[0x80, 14, 17, 16][..], &[0x20; 16], &ORIGIN].concat();
        assert_eq!(written(&sets, number), expected);
        let without = sets.intern(&given(&whole, true), 0);
        assert_eq!(written(&sets, without), ORIGIN);
    }

    #[test]
    fn merges_as4_path_when_widening() {
        let mut sets = AttributeSets::new();
        let path = [0x40, 2, 8, 2, 3, 0, 10, 0x5b, 0xa0, 0x5b, 0xa0];
        let newer = [0xc0, 17, 10, 2, 2, 0, 3, 0, 1, 0, 3, 0, 2];
        let aggregator = [0xc0, 7, 6, 0x5b, 0xa0, 192, 0, 2, 9];
        let newer_aggregator = [0xc0, 18, 8, 0, 3, 0, 2, 192, 0, 2, 9];
        let whole = [&path[..], &aggregator, &newer, &newer_aggregator].concat();
        let number = sets.intern(&given(&whole, false), 0);
        let expected = [
            &[0x40, 2, 16, 2, 1, 0, 0, 0, 10, 2, 2, 0, 3, 0, 1, 0, 3, 0, 2][..],
            &[0xc0, 7, 8, 0, 3, 0, 2, 192, 0, 2, 9],
        ];
        assert_eq!(written(&sets, number), expected.concat());
    }
}
