//! ROUTE-REFRESH (RFC 2918), its marks of beginning and end (RFC 7313), and filters that a speaker
//! wants its neighbour to apply (RFC 5291, 5292).

use crate::cursor::Cursor;
use crate::message::{MAX, encode};
use crate::nlri::{v4, v6};
use crate::{Afi, Family, MessageType, Prefix, Result, Safi};

/// What a ROUTE-REFRESH is for (RFC 7313 §3.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Subtype(pub u8);

#[expect(missing_docs, reason = "the names are the RFC's")]
impl Subtype {
    pub const REQUEST: Self = Self(0);
    pub const BEGIN: Self = Self(1);
    pub const END: Self = Self(2);
}

/// A ROUTE-REFRESH.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RouteRefresh<'a> {
    /// Of which routes.
    pub family: Family,
    /// What it is for.
    pub subtype: Subtype,
    /// Filters, all of them: see [`RouteRefresh::filters`].
    pub filters: &'a [u8],
}

impl<'a> RouteRefresh<'a> {
    /// Of the body of a message.
    pub fn parse(body: &'a [u8]) -> Result<Self> {
        let mut cursor = Cursor::new(body, 0);
        let afi = Afi(cursor.u16("address family")?);
        let subtype = Subtype(cursor.u8("subtype")?);
        let safi = Safi(cursor.u8("subsequent address family")?);
        Ok(Self { family: Family { afi, safi }, subtype, filters: cursor.rest() })
    }

    /// Whether the routes are to be sent at once (RFC 5291 §4); `None` if there are no filters.
    pub fn immediate(&self) -> Option<bool> {
        self.filters.first().map(|when| *when == 1)
    }

    /// Filters by type, in order; it ends behind the first that does not fit.
    pub fn filters(&self) -> impl Iterator<Item = Result<Filters<'a>>> + use<'a> {
        let mut cursor = Cursor::new(self.filters.get(1..).unwrap_or_default(), 5);
        let afi = self.family.afi;
        std::iter::from_fn(move || {
            if cursor.is_empty() {
                return None;
            }
            let filters = filters(&mut cursor, afi);
            if filters.is_err() {
                cursor = Cursor::new(&[], 0);
            }
            Some(filters)
        })
    }

    /// The whole message.
    pub fn build(&self) -> Result<Vec<u8>> {
        let [high, low] = self.family.afi.0.to_be_bytes();
        let mut body = vec![high, low, self.subtype.0, self.family.safi.0];
        body.extend_from_slice(self.filters);
        encode(MessageType::ROUTE_REFRESH, &body, MAX)
    }
}

fn filters<'a>(cursor: &mut Cursor<'a>, afi: Afi) -> Result<Filters<'a>> {
    let kind = cursor.u8("type of filters")?;
    let length = cursor.u16("length of filters")?;
    let at = cursor.at();
    let entries = cursor.take(length.into(), "filters")?;
    Ok(Filters { kind, entries, at, afi })
}

/// Filters of one type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Filters<'a> {
    /// The type: 64 for address prefixes (RFC 5292), 128 for those from before the standard.
    pub kind: u8,
    /// All entries.
    pub entries: &'a [u8],
    /// Where the entries begin, in bytes of the body.
    pub at: usize,
    afi: Afi,
}

/// What is to be done with a filter (RFC 5291 §4).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "the names are the RFC's")]
pub enum Action {
    Add,
    Remove,
    RemoveAll,
}

/// A filter of address prefixes (RFC 5292 §2).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct PrefixFilter {
    /// Routes that match are wanted; otherwise they are not.
    pub permit: bool,
    /// Place in the order of filters.
    pub sequence: u32,
    /// Shortest and longest length that matches; 0 for none.
    pub lengths: (u8, u8),
    /// What the prefixes lie in.
    pub prefix: Prefix,
}

impl<'a> Filters<'a> {
    /// Filters of address prefixes, in order: nothing but the action for `RemoveAll`. `None` for
    /// other types. It ends behind the first that does not fit.
    pub fn prefixes(
        &self,
    ) -> Option<impl Iterator<Item = Result<(Action, Option<PrefixFilter>)>> + use<'a>> {
        if !matches!(self.kind, 64 | 128) {
            return None;
        }
        let (mut cursor, afi) = (Cursor::new(self.entries, self.at), self.afi);
        Some(std::iter::from_fn(move || {
            if cursor.is_empty() {
                return None;
            }
            let entry = entry(&mut cursor, afi);
            if entry.is_err() {
                cursor = Cursor::new(&[], 0);
            }
            Some(entry)
        }))
    }
}

fn entry(cursor: &mut Cursor<'_>, afi: Afi) -> Result<(Action, Option<PrefixFilter>)> {
    let first = cursor.u8("action of a filter")?;
    let action = match first >> 6 {
        0 => Action::Add,
        1 => Action::Remove,
        _ => return Ok((Action::RemoveAll, None)),
    };
    let sequence = cursor.u32("sequence of a filter")?;
    let lengths = (cursor.u8("shortest length")?, cursor.u8("longest length")?);
    let found = if afi == Afi::IPV6 { v6(cursor.rest(), 0) } else { v4(cursor.rest(), 0) };
    let Some((prefix, size)) = found else {
        // The same error that prefixes of routes would give.
        let mut wrong = crate::nlri::Prefixes::new(cursor.rest(), afi, false);
        let error = wrong.next().and_then(Result::err);
        let missing = crate::Error::Missing { field: "prefix of a filter", at: 0 };
        return Err(error.unwrap_or(missing).behind(cursor.at()));
    };
    cursor.take(size, "prefix of a filter")?;
    Ok((action, Some(PrefixFilter { permit: first & 0x20 == 0, sequence, lengths, prefix })))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Message;

    #[test]
    fn marks_of_beginning_and_end() {
        let begin =
            RouteRefresh { family: Family::IPV6_UNICAST, subtype: Subtype::BEGIN, filters: &[] };
        let bytes = begin.build().unwrap();
        assert_eq!(bytes[16..], [0, 23, 5, 0, 2, 1, 1]);
        assert_eq!(RouteRefresh::parse(Message::split(&bytes).unwrap().body()), Ok(begin));
        assert!(RouteRefresh::parse(&[0, 1, 0]).is_err());
    }

    #[test]
    fn filters_of_prefixes() {
        let body = [
            &[0, 1, 0, 1, 1, 64, 0, 12][..],
            &[0x80],
            &[0x20, 0, 0, 0, 5, 24, 32, 16, 10, 1],
            &[0xff],
        ]
        .concat();
        let refresh = RouteRefresh::parse(&body).unwrap();
        assert_eq!(refresh.immediate(), Some(true));
        let filters = refresh.filters().next().unwrap().unwrap();
        let entries: Vec<_> = filters.prefixes().unwrap().map(Result::unwrap).collect();
        assert_eq!(entries[0], (Action::RemoveAll, None));
        let prefix = Prefix::V4(0x0a01_0000, 16);
        let filter = PrefixFilter { permit: false, sequence: 5, lengths: (24, 32), prefix };
        assert_eq!(entries[1], (Action::Add, Some(filter)));
        assert_eq!(entries[2], (Action::RemoveAll, None));
        let cut = RouteRefresh::parse(&body[..17]).unwrap();
        assert!(cut.filters().next().unwrap().is_err());
    }
}
