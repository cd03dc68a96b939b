//! `TABLE_DUMP`: one route a record (RFC 6396 §4.2).

use std::net::IpAddr;

use super::Fields;
use crate::{Asn, Prefix, Result};

/// One route of a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TableDump<'a> {
    /// Which of several tables.
    pub view: u16,
    /// Counts records, and wraps.
    pub sequence: u16,
    /// The prefix, with all bits that the record has.
    pub prefix: Prefix,
    /// 1, by the RFC.
    pub status: u8,
    /// When it last changed, in seconds since 1970.
    pub originated: u32,
    /// The neighbour's address.
    pub peer: IpAddr,
    /// The neighbour's AS.
    pub peer_as: Asn,
    /// The AS of the peer and those in the attributes have four octets (subtypes 3 and 4, which
    /// the RFC does not know but old writers do).
    pub four_octet_as: bool,
    /// Path attributes.
    pub attributes: &'a [u8],
}

impl<'a> TableDump<'a> {
    pub(super) fn parse(subtype: u16, body: &'a [u8]) -> Result<Self> {
        let v6 = matches!(subtype, 2 | 4);
        let four_octet_as = subtype > 2;
        let mut fields = Fields::new(body);
        let view = fields.u16("view")?;
        let sequence = fields.u16("sequence number")?;
        let address = fields.address("prefix", v6)?;
        let at = fields.at();
        let length = fields.u8("prefix length")?;
        let prefix = match address {
            IpAddr::V4(address) if length <= 32 => Prefix::V4(address.to_bits(), length),
            IpAddr::V6(address) if length <= 128 => Prefix::V6(address.to_bits(), length),
            _ => {
                let wrong = "more than an address has";
                let (field, value) = ("prefix length", length.into());
                return Err(crate::Error::Value { field, at, value, wrong });
            }
        };
        let status = fields.u8("status")?;
        let originated = fields.u32("originated time")?;
        let peer = fields.address("peer address", v6)?;
        let peer_as = fields.asn("peer AS", four_octet_as)?;
        let count = fields.u16("attribute length")?;
        let attributes = fields.take("attributes", count.into())?;
        Ok(Self {
            view,
            sequence,
            prefix,
            status,
            originated,
            peer,
            peer_as,
            four_octet_as,
            attributes,
        })
    }
}
