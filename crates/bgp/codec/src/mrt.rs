//! The archive format MRT: RFC 6396, its extension RFC 8050 and the formats before it.
//!
//! # Problem
//!
//! Archives of 25 years contain records of many writers. Some files are truncated, or overwritten
//! in the middle. A reader must report which bytes it read and which it skipped, at memory speed.
//!
//! # Reading
//!
//! [`Reader`] frames: it returns a [`Record`], the number of bytes that it requires, or the damage
//! that it found. [`Record::parse`] decodes a record into views of its bytes. [`mod@write`] encodes
//! a decoded record to the same bytes.
//!
//! | type | subtypes | body | source |
//! |---|---|---|---|
//! | 5, 9 | 1 to 7 | [`Body::Old`] | RFC 6396 appendix B.2 |
//! | 12 `TABLE_DUMP` | 1 to 4 | [`Body::TableDump`] | RFC 6396 §4.2 (3, 4: AS of four octets) |
//! | 13 `TABLE_DUMP_V2` | 1 | [`Body::PeerIndexTable`] | RFC 6396 §4.3.1 |
//! | 13 | 2 to 6, 8 to 12 | [`Body::Rib`] | RFC 6396 §4.3.2, §4.3.3; RFC 8050 §4 |
//! | 16, 17 `BGP4MP`, `BGP4MP_ET` | 0, 5 | [`Body::StateChange`] | RFC 6396 §4.4.1, §4.4.4 |
//! | 16, 17 | 1, 4, 6, 7, 8 to 11 | [`Body::Message`] | RFC 6396 §4.4.2 to §4.4.6; RFC 8050 §3 |
//! | 16, 17 | 2 | [`Body::Entry`] | RFC 6396 appendix B.3.1 |
//! | all others | | [`Body::Opaque`] | |

mod announce;
mod bgp4mp;
mod old;
mod reader;
mod table_dump;
mod table_dump_v2;
pub mod write;

pub use announce::announcement;
pub use bgp4mp::{Entry, Form, MessageRecord, Session, StateChange};
pub use old::Old;
pub use reader::{Cause, Damage, Reader, Records, Step};
pub use table_dump::TableDump;
pub use table_dump_v2::{
    Peer, PeerIndexTable, Peers, Rib, RibEntries, RibEntry, mp_reach_next_hop,
};

use base::Time;

use crate::Result;

/// Types of records (RFC 6396 §4, appendix B).
#[expect(missing_docs, reason = "the names are the RFC's")]
pub mod kind {
    pub const BGP: u16 = 5;
    pub const BGP4PLUS: u16 = 9;
    pub const OSPFV2: u16 = 11;
    pub const TABLE_DUMP: u16 = 12;
    pub const TABLE_DUMP_V2: u16 = 13;
    pub const BGP4MP: u16 = 16;
    pub const BGP4MP_ET: u16 = 17;
    pub const ISIS: u16 = 32;
    pub const ISIS_ET: u16 = 33;
    pub const OSPFV3: u16 = 48;
    pub const OSPFV3_ET: u16 = 49;
}

/// Bytes of the header that all records share (RFC 6396 §2).
pub const HEADER: usize = 12;

/// Whether records of a type have a field of microseconds (RFC 6396 §3).
pub const fn is_extended(kind: u16) -> bool {
    matches!(kind, kind::BGP4MP_ET | kind::ISIS_ET | kind::OSPFV3_ET)
}

/// One record, framed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record<'a> {
    /// Time since 1970, with microseconds where the type has them.
    pub time: Time,
    /// Record type: see [`kind`].
    pub kind: u16,
    /// Subtype of the record.
    pub subtype: u16,
    /// Body, after the header (and the microseconds).
    pub body: &'a [u8],
    /// All bytes, including the header.
    pub bytes: &'a [u8],
}

impl<'a> Record<'a> {
    /// The record in `bytes`; `None` if its length field does not match their number.
    pub fn of(bytes: &'a [u8]) -> Option<Self> {
        let header = bytes.first_chunk::<HEADER>()?;
        (total(header) == bytes.len()).then(|| record(header, bytes)).flatten()
    }

    /// Decodes the body. Unknown types and subtypes are [`Body::Opaque`], not errors.
    #[inline]
    pub fn parse(&self) -> Result<Body<'a>> {
        let body = self.body;
        Ok(match (self.kind, self.subtype) {
            (kind::BGP4MP | kind::BGP4MP_ET, subtype) => return Body::bgp4mp(subtype, body),
            (kind::TABLE_DUMP_V2, 1) => Body::PeerIndexTable(PeerIndexTable::parse(body)?),
            (kind::TABLE_DUMP_V2, subtype @ (2..=6 | 8..=12)) => {
                Body::Rib(Rib::parse(subtype, body)?)
            }
            (kind::TABLE_DUMP, subtype @ 1..=4) => {
                Body::TableDump(TableDump::parse(subtype, body)?)
            }
            (kind::BGP | kind::BGP4PLUS, subtype @ 1..=7) => {
                Body::Old(Old::parse(self.kind == kind::BGP4PLUS, subtype, body)?)
            }
            _ => Body::Opaque(body),
        })
    }
}

#[inline]
fn seconds(header: &[u8; HEADER]) -> u32 {
    u32::from_be_bytes([header[0], header[1], header[2], header[3]])
}

/// Total length of the record in bytes, from its header.
#[inline]
fn total(header: &[u8; HEADER]) -> usize {
    let length = u32::from_be_bytes([header[8], header[9], header[10], header[11]]);
    HEADER.saturating_add(length as usize)
}

/// The record in `bytes`, whose number is the length in the header; `None` if the record is too
/// short for its microseconds.
#[inline]
fn record<'a>(header: &[u8; HEADER], bytes: &'a [u8]) -> Option<Record<'a>> {
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

/// Decoded body of a record.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub enum Body<'a> {
    /// A BGP message and its session.
    Message(MessageRecord<'a>),
    /// A state change of a session.
    StateChange(StateChange),
    /// One route of a table (writers of about 2000).
    Entry(Entry<'a>),
    /// One route of a table.
    TableDump(TableDump<'a>),
    /// The peers that entries of the following [`Rib`] records refer to by index.
    PeerIndexTable(PeerIndexTable<'a>),
    /// One prefix of a table, with a route per peer.
    Rib(Rib<'a>),
    /// Formats before 2000.
    Old(Old<'a>),
    /// Body of an unknown type.
    Opaque(&'a [u8]),
}

impl<'a> Body<'a> {
    #[inline]
    fn bgp4mp(subtype: u16, body: &'a [u8]) -> Result<Self> {
        Ok(match subtype {
            0 | 5 => Self::StateChange(StateChange::parse(subtype == 5, body)?),
            2 => Self::Entry(Entry::parse(body)?),
            _ => match Form::of(subtype) {
                Some(form) => Self::Message(MessageRecord::parse(form, body)?),
                None => Self::Opaque(body),
            },
        })
    }
}
