//! `TABLE_DUMP`: one route per record (RFC 6396 §4.2).

use std::net::IpAddr;

use crate::cursor::Cursor;
use crate::{Asn, Prefix, Result};

/// One route of a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TableDump<'a> {
    /// Number of the table.
    pub view: u16,
    /// Sequence number of the record; wraps.
    pub sequence: u16,
    /// Prefix, including bits after its length.
    pub prefix: Prefix,
    /// Status; always 1 (RFC 6396).
    pub status: u8,
    /// Time of the last change, in seconds since 1970.
    pub originated: u32,
    /// Address of the peer.
    pub peer: IpAddr,
    /// AS of the peer.
    pub peer_as: Asn,
    /// AS numbers of the peer and of the attributes have four octets (subtypes 3 and 4 of old
    /// writers, not in the RFC).
    pub four_octet_as: bool,
    /// Path attributes, encoded.
    pub attributes: &'a [u8],
}

impl<'a> TableDump<'a> {
    pub(super) fn parse(subtype: u16, body: &'a [u8]) -> Result<Self> {
        let v6 = matches!(subtype, 2 | 4);
        let four_octet_as = subtype > 2;
        let mut fields = Cursor::new(body, 0);
        let view = fields.u16("view")?;
        let sequence = fields.u16("sequence number")?;
        let address = fields.address("prefix", v6)?;
        let at = fields.at();
        let length = fields.u8("prefix length")?;
        let prefix = match address {
            IpAddr::V4(address) if length <= 32 => Prefix::V4(address.to_bits(), length),
            IpAddr::V6(address) if length <= 128 => Prefix::V6(address.to_bits(), length),
            _ => {
                let wrong = "above the length of an address";
                let (field, value) = ("prefix length", length.into());
                return Err(crate::Error::Value { field, at, value, wrong });
            }
        };
        let status = fields.u8("status")?;
        let originated = fields.u32("originated time")?;
        let peer = fields.address("peer address", v6)?;
        let peer_as = fields.asn("peer AS", four_octet_as)?;
        let count = fields.u16("attribute length")?;
        let attributes = fields.take(count.into(), "attributes")?;
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
