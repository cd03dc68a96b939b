//! AS paths of routes (RFC 4271 §5.1.2, confederations: RFC 5065, four octets: RFC 6793).

use crate::{Asn, Error, Result};

/// Type of a path segment.
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

    /// Whether the segment lists member ASes of a confederation, which are not counted outside of
    /// it (RFC 5065 §5.3).
    pub const fn of_confederation(self) -> bool {
        matches!(self, Self::ConfedSequence | Self::ConfedSet)
    }
}

/// AS numbers of a segment, encoded.
#[derive(Clone, Debug)]
pub struct Asns<'a> {
    bytes: &'a [u8],
    four: bool,
}

impl<'a> Asns<'a> {
    /// Number of AS numbers.
    pub const fn len(&self) -> usize {
        self.bytes.len() / if self.four { 4 } else { 2 }
    }

    /// Whether the list is empty.
    pub const fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// The first `count` AS numbers, or all if there are fewer.
    #[must_use]
    pub fn first(self, count: usize) -> Self {
        let size = count.saturating_mul(if self.four { 4 } else { 2 });
        Self { bytes: &self.bytes[..size.min(self.bytes.len())], four: self.four }
    }

    /// Encoded: two octets each, or four if [`Asns::four_octet`].
    pub const fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// Whether the AS numbers are encoded in four octets.
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
    /// Type of the segment.
    pub kind: SegmentKind,
    /// AS numbers of the segment.
    pub asns: Asns<'a>,
}

impl Segment<'_> {
    /// Number of hops of the segment (RFC 4271 §9.1.2.2 a, RFC 5065 §5.3).
    pub const fn hops(&self) -> usize {
        match self.kind {
            SegmentKind::Sequence => self.asns.len(),
            SegmentKind::Set => 1,
            SegmentKind::ConfedSequence | SegmentKind::ConfedSet => 0,
        }
    }
}

/// An `AS_PATH` or `AS4_PATH` with a valid structure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AsPath<'a> {
    bytes: &'a [u8],
    four: bool,
}

impl<'a> AsPath<'a> {
    /// The empty path of a route from the same AS.
    pub const EMPTY: AsPath<'static> = AsPath { bytes: &[], four: true };

    /// Parses a path with AS numbers of four or two octets. Fails as RFC 7606 §7.2 requires: for
    /// undefined segment types, segments that exceed the path, and segments without an AS. The
    /// first byte has the offset `at` in errors.
    pub fn parse(bytes: &'a [u8], four_octet_as: bool, at: usize) -> Result<Self> {
        Self::well_formed(bytes, four_octet_as).ok_or_else(|| wrong(bytes, four_octet_as, at))
    }

    /// As [`Self::parse`], without a reason for the failure.
    #[inline]
    pub(crate) fn well_formed(bytes: &'a [u8], four_octet_as: bool) -> Option<Self> {
        let rest = behind_segments(bytes, four_octet_as);
        rest.is_empty().then_some(Self { bytes, four: four_octet_as })
    }

    /// The encoded AS path.
    pub const fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// Whether AS numbers are encoded in four octets.
    pub const fn four_octet(&self) -> bool {
        self.four
    }

    /// Segments in order.
    #[inline]
    pub const fn segments(&self) -> Segments<'a> {
        Segments { bytes: self.bytes, four: self.four }
    }

    /// All ASes in the order of the bytes, for all segment types.
    #[inline]
    pub fn asns(&self) -> impl Iterator<Item = Asn> + use<'a> {
        self.segments().flat_map(|segment| segment.asns)
    }

    /// Number of hops (RFC 4271 §9.1.2.2 a).
    pub fn hops(&self) -> usize {
        self.segments().map(|segment| segment.hops()).sum()
    }

    /// Origin AS of the route: the last AS of the path, if the last segment is a sequence.
    pub fn origin(&self) -> Option<Asn> {
        let last = self.segments().last()?;
        matches!(last.kind, SegmentKind::Sequence).then(|| last.asns.last())?
    }

    /// Neighbour that sent the route: the first AS of the path, if the first segment is a sequence.
    pub fn first(&self) -> Option<Asn> {
        let mut first = self.segments().next()?;
        matches!(first.kind, SegmentKind::Sequence).then(|| first.asns.next())?
    }

    /// Whether the path contains AS 0, which is reserved (RFC 7607).
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

    /// Appends the path with AS numbers of four octets, or of two with [`Asn::TRANS`]
    /// for larger ones.
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

/// The part of a path after its last valid segment.
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
            let (value, wrong) = (kind.into(), "not a segment type");
            Error::Value { field: "path segment type", at, value, wrong }
        }
        [_] | [] => Error::Short { field: "path segment", at, need: 2, have },
        [_, 0, ..] => {
            let wrong = "not a valid segment length: the segment has no AS";
            Error::Value { field: "path segment length", at: at + 1, value: 0, wrong }
        }
        [_, count, ..] => {
            let need = 2 + (usize::from(count) << if four { 2 } else { 1 });
            Error::Short { field: "path segment", at, need, have }
        }
    }
}

/// Iterator over the segments of a path.
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

/// The path in four-octet AS numbers, restored from `AS_PATH` and `AS4_PATH` of speakers that
/// support only two octets (RFC 6793 §4.2.3): the front of `AS_PATH`, then `AS4_PATH`.
#[derive(Clone, Copy, Debug)]
pub struct LogicalPath<'a> {
    front: AsPath<'a>,
    /// Number of hops from `front`; all of them if `AS4_PATH` is not used.
    hops: usize,
    back: Option<AsPath<'a>>,
}

impl<'a> LogicalPath<'a> {
    /// Combines both attributes. `AS4_PATH` is ignored if it is longer than `AS_PATH`.
    pub fn new(path: AsPath<'a>, as4_path: Option<AsPath<'a>>) -> Self {
        let hops = path.hops();
        match as4_path {
            Some(back) if back.hops() <= hops => {
                Self { front: path, hops: hops - back.hops(), back: Some(back) }
            }
            _ => Self { front: path, hops: usize::MAX, back: None },
        }
    }

    /// Segments in order. If the front ends within a sequence, two sequences follow each other.
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
        // Confederation segments are invalid in `AS4_PATH` (RFC 6793 §6).
        let back = self.back.into_iter().flat_map(|path| path.segments());
        front.chain(back.filter(|segment| !segment.kind.of_confederation()))
    }
}

/// Builder of a path.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AsPathBuf(Vec<u8>);

impl AsPathBuf {
    /// Appends a segment; more than 255 ASes become several segments.
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

    /// The path as a view with AS numbers of four octets.
    pub fn view(&self) -> AsPath<'_> {
        AsPath { bytes: &self.0, four: true }
    }
}

#[cfg(test)]
mod tests;
