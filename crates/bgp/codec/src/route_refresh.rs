//! ROUTE-REFRESH (RFC 2918) with begin and end markers (RFC 7313). Outbound route filters (RFC
//! 5291) stay opaque.

use crate::cursor::Cursor;
use crate::{Afi, Family, Result, Safi};

/// A ROUTE-REFRESH.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RouteRefresh<'a> {
    /// Family of the requested routes.
    pub family: Family,
    /// Request (0), begin (1) or end (2) of the routes (RFC 7313 §3.2).
    pub subtype: u8,
    /// Outbound route filters, encoded.
    pub filters: &'a [u8],
}

impl<'a> RouteRefresh<'a> {
    /// Subtype before all routes of a family are announced again (RFC 7313 §3.2).
    pub const BEGIN: u8 = 1;
    /// Subtype after the last of these routes.
    pub const END: u8 = 2;

    /// Parses the body of a message.
    pub fn parse(body: &'a [u8]) -> Result<Self> {
        let mut cursor = Cursor::new(body, 0);
        let afi = Afi(cursor.u16("address family")?);
        let subtype = cursor.u8("subtype")?;
        let safi = Safi(cursor.u8("subsequent address family")?);
        Ok(Self { family: Family { afi, safi }, subtype, filters: cursor.rest() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parses_begin_marker() {
        let begin = RouteRefresh { family: Family::IPV6_UNICAST, subtype: 1, filters: &[] };
        assert_eq!(RouteRefresh::parse(&[0, 2, 1, 1]), Ok(begin));
        assert!(RouteRefresh::parse(&[0, 1, 0]).is_err());
    }
}
