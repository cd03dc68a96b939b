//! Types 5 (`BGP`) and 9 (`BGP4PLUS`), as `MRTd` wrote them until 2000 (RFC 6396 appendix B.2).

use std::net::IpAddr;

use crate::cursor::Cursor;
use crate::{Asn, MessageType, Result};

/// A message without its header, a state change or the name of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Old<'a> {
    /// A message from the peer (`MSG_BGP_UPDATE`, `_OPEN`, `_NOTIFY`, `_KEEPALIVE`), or a preferred
    /// one (`MSG_BGP_PREF_UPDATE`).
    Message {
        /// Subtype of the record.
        subtype: u16,
        /// AS of the peer.
        peer_as: Asn,
        /// Address of the peer.
        peer: IpAddr,
        /// AS of the recording router.
        local_as: Asn,
        /// Address of the recording router.
        local: IpAddr,
        /// Body of the message, without its header.
        body: &'a [u8],
    },
    /// A state change of a session (`MSG_BGP_STATE_CHANGE`).
    StateChange {
        /// AS of the peer.
        peer_as: Asn,
        /// Address of the peer.
        peer: IpAddr,
        /// Old state, numbered as in RFC 6396 §4.4.1.
        old: u16,
        /// New state, with the same numbers.
        new: u16,
    },
    /// Name of a file with a table (`MSG_BGP_SYNC`).
    Sync {
        /// Number of the table.
        view: u16,
        /// File name, including the terminating zero.
        file: &'a [u8],
    },
}

impl<'a> Old<'a> {
    pub(super) fn parse(v6: bool, subtype: u16, body: &'a [u8]) -> Result<Self> {
        let mut fields = Cursor::new(body, 0);
        if subtype == 4 {
            return Ok(Self::Sync { view: fields.u16("view")?, file: fields.rest() });
        }
        let peer_as = fields.asn("peer AS", false)?;
        let peer = fields.address("peer address", v6)?;
        if subtype == 3 {
            let old = fields.u16("old state")?;
            let new = fields.u16("new state")?;
            return Ok(Self::StateChange { peer_as, peer, old, new });
        }
        let local_as = fields.asn("local AS", false)?;
        let local = fields.address("local address", v6)?;
        Ok(Self::Message { subtype, peer_as, peer, local_as, local, body: fields.rest() })
    }

    /// Message type of a subtype; `None` for other subtypes.
    pub const fn message_type(subtype: u16) -> Option<MessageType> {
        Some(match subtype {
            1 | 2 => MessageType::UPDATE,
            5 => MessageType::OPEN,
            6 => MessageType::NOTIFICATION,
            7 => MessageType::KEEPALIVE,
            _ => return None,
        })
    }
}
