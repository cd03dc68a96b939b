//! Types 5 (`BGP`) and 9 (`BGP4PLUS`), as `MRTd` wrote them until 2000 (RFC 6396 appendix B.2).

use std::net::IpAddr;

use super::Fields;
use crate::{Asn, MessageType, Result};

/// A message without its header, a state change or the name of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Old<'a> {
    /// A message from the peer (`MSG_BGP_UPDATE`, `_OPEN`, `_NOTIFY`, `_KEEPALIVE`), or
    /// one that `MRTd` preferred (`MSG_BGP_PREF_UPDATE`).
    Message {
        /// The subtype.
        subtype: u16,
        /// The neighbour's AS.
        peer_as: Asn,
        /// The neighbour's address.
        peer: IpAddr,
        /// The AS of who wrote the record.
        local_as: Asn,
        /// The address of who wrote the record.
        local: IpAddr,
        /// What follows the header of the message.
        body: &'a [u8],
    },
    /// A session is in another state (`MSG_BGP_STATE_CHANGE`).
    StateChange {
        /// The neighbour's AS.
        peer_as: Asn,
        /// The neighbour's address.
        peer: IpAddr,
        /// What it was, numbered as by RFC 6396 §4.4.1.
        old: u16,
        /// What it is.
        new: u16,
    },
    /// Names a file with a table (`MSG_BGP_SYNC`).
    Sync {
        /// Which of several tables.
        view: u16,
        /// The file's name, with what ends it.
        file: &'a [u8],
    },
}

impl<'a> Old<'a> {
    pub(super) fn parse(v6: bool, subtype: u16, body: &'a [u8]) -> Result<Self> {
        let mut fields = Fields::new(body);
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

    /// What kind of message a subtype holds; `None` for the others.
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
