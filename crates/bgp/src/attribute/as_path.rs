//! The way a route took (RFC 4271 §5.1.2, confederations: RFC 5065, four octets: RFC 6793).

use crate::{Asn, Error, Result};

/// What a segment of a path is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "the names are the RFCs'")]
pub enum SegmentKind {
    Set = 1,
    Sequence = 2,
    ConfedSequence = 3,
    ConfedSet = 4,
}

impl SegmentKind {
    #[inline]
    const fn new(kind: u8) -> Option<Self> {
        Some(match kind {
            1 => Self::Set,
            2 => Self::Sequence,
            3 => Self::ConfedSequence,
            4 => Self::ConfedSet,
            _ => return None,
        })
    }

    /// Of member ASes of a confederation, which count for nothing outside (RFC 5065 §5.3).
    pub const fn of_confederation(self) -> bool {
        matches!(self, Self::ConfedSequence | Self::ConfedSet)
    }
}

/// AS numbers in a row.
#[derive(Clone, Debug)]
pub struct Asns<'a> {
    bytes: &'a [u8],
    four: bool,
}

impl<'a> Asns<'a> {
    /// How many there are.
    pub const fn len(&self) -> usize {
        self.bytes.len() / if self.four { 4 } else { 2 }
    }

    /// Whether there is none.
    pub const fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// The first `count`, or all.
    #[must_use]
    pub fn first(self, count: usize) -> Self {
        let size = count.saturating_mul(if self.four { 4 } else { 2 });
        Self { bytes: &self.bytes[..size.min(self.bytes.len())], four: self.four }
    }

    /// As they were sent: two octets each, or four if [`Asns::four_octet`].
    pub const fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// Whether they were sent as four octets each.
    pub const fn four_octet(&self) -> bool {
        self.four
    }
}

impl Iterator for Asns<'_> {
    type Item = Asn;

    #[inline]
    fn next(&mut self) -> Option<Asn> {
        if self.four {
            let (asn, rest) = self.bytes.split_first_chunk()?;
            self.bytes = rest;
            Some(Asn(u32::from_be_bytes(*asn)))
        } else {
            let (asn, rest) = self.bytes.split_first_chunk()?;
            self.bytes = rest;
            Some(Asn(u16::from_be_bytes(*asn).into()))
        }
    }

    #[inline]
    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.len(), Some(self.len()))
    }
}

impl ExactSizeIterator for Asns<'_> {}

/// A segment of a path.
#[derive(Clone, Debug)]
pub struct Segment<'a> {
    /// What it is.
    pub kind: SegmentKind,
    /// The ASes.
    pub asns: Asns<'a>,
}

impl Segment<'_> {
    /// How many ASes it counts for (RFC 4271 §9.1.2.2 a, RFC 5065 §5.3).
    pub const fn hops(&self) -> usize {
        match self.kind {
            SegmentKind::Sequence => self.asns.len(),
            SegmentKind::Set => 1,
            SegmentKind::ConfedSequence | SegmentKind::ConfedSet => 0,
        }
    }
}

/// An `AS_PATH` or `AS4_PATH` whose structure is right.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AsPath<'a> {
    bytes: &'a [u8],
    four: bool,
}

impl<'a> AsPath<'a> {
    /// The empty path: that of a route of the same AS.
    pub const EMPTY: AsPath<'static> = AsPath { bytes: &[], four: true };

    /// The path of `bytes`, whose AS numbers have four octets or two. Errors as RFC 7606 §7.2 has
    /// them: segment types that nobody defined, segments that do not end with the path, segments
    /// without an AS. Errors call the first byte `at`.
    pub fn parse(bytes: &'a [u8], four_octet_as: bool, at: usize) -> Result<Self> {
        Self::well_formed(bytes, four_octet_as).ok_or_else(|| wrong(bytes, four_octet_as, at))
    }

    /// The same without a reason.
    #[inline]
    pub(crate) fn well_formed(bytes: &'a [u8], four_octet_as: bool) -> Option<Self> {
        let rest = behind_segments(bytes, four_octet_as);
        rest.is_empty().then_some(Self { bytes, four: four_octet_as })
    }

    /// As it was sent.
    pub const fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// Whether its AS numbers have four octets.
    pub const fn four_octet(&self) -> bool {
        self.four
    }

    /// Its segments.
    #[inline]
    pub const fn segments(&self) -> Segments<'a> {
        Segments { bytes: self.bytes, four: self.four }
    }

    /// All ASes in the order of the bytes, whatever their segments are.
    #[inline]
    pub fn asns(&self) -> impl Iterator<Item = Asn> + use<'a> {
        self.segments().flat_map(|segment| segment.asns)
    }

    /// How many ASes it counts for (RFC 4271 §9.1.2.2 a).
    pub fn hops(&self) -> usize {
        self.segments().map(|segment| segment.hops()).sum()
    }

    /// The AS that the route comes from: the last of the path, if that is in a sequence.
    pub fn origin(&self) -> Option<Asn> {
        let last = self.segments().last()?;
        matches!(last.kind, SegmentKind::Sequence).then(|| last.asns.last())?
    }

    /// The AS that sent it: the first of the path, if that is in a sequence.
    pub fn first(&self) -> Option<Asn> {
        let mut first = self.segments().next()?;
        matches!(first.kind, SegmentKind::Sequence).then(|| first.asns.next())?
    }

    /// Whether AS 0 is in it, which nobody may use (RFC 7607).
    #[inline]
    pub fn has_zero(&self) -> bool {
        self.segments().any(|segment| {
            if segment.asns.four {
                segment.asns.bytes.as_chunks::<4>().0.contains(&[0; 4])
            } else {
                segment.asns.bytes.as_chunks::<2>().0.contains(&[0; 2])
            }
        })
    }

    /// Appends it with AS numbers of four octets, or of two with [`Asn::TRANS`] for those that do
    /// not fit.
    pub fn encode(&self, four_octet_as: bool, to: &mut Vec<u8>) {
        if self.four == four_octet_as {
            to.extend_from_slice(self.bytes);
            return;
        }
        for segment in self.segments() {
            to.extend_from_slice(&[segment.kind as u8, segment.asns.len() as u8]);
            for asn in segment.asns {
                if four_octet_as {
                    to.extend_from_slice(&asn.0.to_be_bytes());
                } else {
                    to.extend_from_slice(&asn.two_octets().to_be_bytes());
                }
            }
        }
    }
}

/// What is left of a path behind its last segment that is right.
#[inline]
fn behind_segments(mut rest: &[u8], four: bool) -> &[u8] {
    let shift = if four { 2 } else { 1 };
    while let [kind, count, behind @ ..] = rest {
        let size = usize::from(*count) << shift;
        if kind.wrapping_sub(1) > 3 || *count == 0 || behind.len() < size {
            break;
        }
        rest = &behind[size..];
    }
    rest
}

#[cold]
#[inline(never)]
fn wrong(bytes: &[u8], four: bool, at: usize) -> Error {
    let rest = behind_segments(bytes, four);
    let at = at + bytes.len() - rest.len();
    let have = rest.len();
    match *rest {
        [kind @ (0 | 5..), ..] => {
            let (value, wrong) = (kind.into(), "no type of segment");
            Error::Value { field: "path segment type", at, value, wrong }
        }
        [_] | [] => Error::Short { field: "path segment", at, need: 2, have },
        [_, 0, ..] => {
            let wrong = "no length of a segment: it names no AS";
            Error::Value { field: "path segment length", at: at + 1, value: 0, wrong }
        }
        [_, count, ..] => {
            let need = 2 + (usize::from(count) << if four { 2 } else { 1 });
            Error::Short { field: "path segment", at, need, have }
        }
    }
}

/// Segments of a path, in order.
#[derive(Clone, Debug)]
pub struct Segments<'a> {
    bytes: &'a [u8],
    four: bool,
}

impl<'a> Iterator for Segments<'a> {
    type Item = Segment<'a>;

    #[inline]
    fn next(&mut self) -> Option<Segment<'a>> {
        let [kind, count, rest @ ..] = self.bytes else { return None };
        let kind = SegmentKind::new(*kind)?;
        let size = usize::from(*count) << if self.four { 2 } else { 1 };
        let (bytes, rest) = rest.split_at_checked(size)?;
        self.bytes = rest;
        Some(Segment { kind, asns: Asns { bytes, four: self.four } })
    }
}

/// The path that a speaker of four octets meant, put together from what speakers of two octets
/// handed on (RFC 6793 §4.2.3): the front of `AS_PATH`, then `AS4_PATH`.
#[derive(Clone, Copy, Debug)]
pub struct LogicalPath<'a> {
    front: AsPath<'a>,
    /// Hops that `front` gives; all if there is nothing behind it.
    hops: usize,
    back: Option<AsPath<'a>>,
}

impl<'a> LogicalPath<'a> {
    /// Of both attributes. `AS4_PATH` is left out where it is longer than `AS_PATH`.
    pub fn new(path: AsPath<'a>, as4_path: Option<AsPath<'a>>) -> Self {
        let hops = path.hops();
        match as4_path {
            Some(back) if back.hops() <= hops => {
                Self { front: path, hops: hops - back.hops(), back: Some(back) }
            }
            _ => Self { front: path, hops: usize::MAX, back: None },
        }
    }

    /// Its segments. Where the front ends in the middle of a sequence, two sequences follow each
    /// other.
    pub fn segments(&self) -> impl Iterator<Item = Segment<'a>> + use<'a> {
        let mut left = self.hops;
        let front = self.front.segments().map_while(move |mut segment| {
            if left == 0 && !segment.kind.of_confederation() {
                return None;
            }
            let hops = segment.hops();
            if hops > left {
                segment.asns = segment.asns.first(left);
            }
            left = left.saturating_sub(hops);
            Some(segment)
        });
        // Segments of confederations do not belong there (RFC 6793 §6).
        let back = self.back.into_iter().flat_map(|path| path.segments());
        front.chain(back.filter(|segment| !segment.kind.of_confederation()))
    }

    /// Whether `AS4_PATH` had a part in it.
    pub const fn is_merged(&self) -> bool {
        self.back.is_some()
    }
}

/// A path to be sent.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AsPathBuf(Vec<u8>);

impl AsPathBuf {
    /// Appends a segment; one of more than 255 ASes is written as several.
    pub fn push(&mut self, kind: SegmentKind, asns: &[Asn]) -> &mut Self {
        for part in asns.chunks(255) {
            self.0.extend_from_slice(&[kind as u8, part.len() as u8]);
            self.0.extend(part.iter().flat_map(|asn| asn.0.to_be_bytes()));
        }
        self
    }

    /// A path of one sequence.
    pub fn sequence(asns: &[Asn]) -> Self {
        let mut path = Self::default();
        path.push(SegmentKind::Sequence, asns);
        path
    }

    /// As a view, of four octets.
    pub fn view(&self) -> AsPath<'_> {
        AsPath { bytes: &self.0, four: true }
    }
}

#[cfg(test)]
mod tests;
