//! `BGP4MP`: messages and states of sessions (RFC 6396 §4.4, RFC 8050 §3).

use std::net::{IpAddr, Ipv4Addr};

use super::Fields;
use crate::negotiated::Families;
use crate::{Afi, Asn, MARKER, Message, Negotiated, Result, Safi};

/// Whose session it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Session {
    /// The neighbour's AS.
    pub peer_as: Asn,
    /// The AS of who wrote the record (or whose view it takes).
    pub local_as: Asn,
    /// Interface index, 0 if not known.
    pub interface: u16,
    /// The neighbour's address.
    pub peer: IpAddr,
    /// The address of the other end.
    pub local: IpAddr,
    /// Interface and addresses are not in the record: Zebra of 2000 left them out while a session
    /// had no socket. Both addresses are 0.0.0.0 then.
    pub abridged: bool,
}

impl Session {
    /// A session of two addresses.
    pub const fn new(peer_as: Asn, local_as: Asn, peer: IpAddr, local: IpAddr) -> Self {
        Self { peer_as, local_as, interface: 0, peer, local, abridged: false }
    }

    #[inline]
    fn parse(fields: &mut Fields<'_>, four_octets: bool) -> Result<Self> {
        let peer_as = fields.asn("peer AS", four_octets)?;
        let local_as = fields.asn("local AS", four_octets)?;
        let interface = fields.u16("interface index")?;
        let v6 = fields.is_ipv6("address family")?;
        let peer = fields.address("peer address", v6)?;
        let local = fields.address("local address", v6)?;
        Ok(Self { peer_as, local_as, interface, peer, local, abridged: false })
    }

    fn parse_abridged(fields: &mut Fields<'_>, four_octets: bool) -> Result<Self> {
        let peer_as = fields.asn("peer AS", four_octets)?;
        let local_as = fields.asn("local AS", four_octets)?;
        let nowhere = IpAddr::V4(Ipv4Addr::UNSPECIFIED);
        Ok(Self { abridged: true, ..Self::new(peer_as, local_as, nowhere, nowhere) })
    }
}

/// How the message in a record is written: what the subtype says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Form {
    /// AS numbers of four octets, in the record and in the message (`_AS4`).
    pub four_octet_as: bool,
    /// Sent by the local end, not by the peer (`_LOCAL`).
    pub local: bool,
    /// Prefixes carry path identifiers (`_ADDPATH`, RFC 8050).
    pub add_path: bool,
}

impl Form {
    /// Of a subtype of `BGP4MP`; `None` if that is no message.
    #[inline]
    pub const fn of(subtype: u16) -> Option<Self> {
        let (four_octet_as, local, add_path) = match subtype {
            1 => (false, false, false),
            4 => (true, false, false),
            6 => (false, true, false),
            7 => (true, true, false),
            8 => (false, false, true),
            9 => (true, false, true),
            10 => (false, true, true),
            11 => (true, true, true),
            _ => return None,
        };
        Some(Self { four_octet_as, local, add_path })
    }

    /// The subtype.
    pub const fn subtype(self) -> u16 {
        match (self.four_octet_as, self.local, self.add_path) {
            (false, false, false) => 1,
            (true, false, false) => 4,
            (false, true, false) => 6,
            (true, true, false) => 7,
            (false, false, true) => 8,
            (true, false, true) => 9,
            (false, true, true) => 10,
            (true, true, true) => 11,
        }
    }

    /// How to read the message. The subtype does not say which families have path identifiers:
    /// all that the message holds do.
    #[inline]
    pub const fn negotiated(self) -> Negotiated {
        Negotiated {
            four_octet_as: self.four_octet_as,
            extended_message: true,
            add_path: if self.add_path { Families::ALL } else { Families::NONE },
        }
    }
}

/// A BGP message and the session that it belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MessageRecord<'a> {
    /// The session.
    pub session: Session,
    /// How the message is written.
    pub form: Form,
    /// All of the message, header included. It may be longer or shorter than its length field
    /// says: see [`MessageRecord::message`].
    pub bytes: &'a [u8],
}

impl<'a> MessageRecord<'a> {
    #[inline]
    pub(super) fn parse(form: Form, body: &'a [u8]) -> Result<Self> {
        let mut fields = Fields::new(body);
        let cut = if form.four_octet_as { 8 } else { 4 };
        // The family would be 0xffff here, which is reserved.
        let abridged = body.get(cut..cut + 16) == Some(&MARKER[..]);
        let session = if abridged {
            Session::parse_abridged(&mut fields, form.four_octet_as)?
        } else {
            Session::parse(&mut fields, form.four_octet_as)?
        };
        Ok(Self { session, form, bytes: fields.rest() })
    }

    /// The message; `None` if its marker is not there or it is cut.
    pub fn message(&self) -> Option<Message<'a>> {
        Message::split(self.bytes)
    }
}

/// A session is in another state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StateChange {
    /// The session.
    pub session: Session,
    /// The record has AS numbers of four octets.
    pub four_octet_as: bool,
    /// What it was: 1 (Idle) to 6 (Established); Quagga has 7 (Clearing) and 8 (Deleted) as well.
    pub old: u16,
    /// What it is.
    pub new: u16,
}

impl StateChange {
    pub(super) fn parse(four_octet_as: bool, body: &[u8]) -> Result<Self> {
        let mut fields = Fields::new(body);
        let abridged = body.len() == if four_octet_as { 12 } else { 8 };
        let session = if abridged {
            Session::parse_abridged(&mut fields, four_octet_as)?
        } else {
            Session::parse(&mut fields, four_octet_as)?
        };
        let old = fields.u16("old state")?;
        let new = fields.u16("new state")?;
        Ok(Self { session, four_octet_as, old, new })
    }
}

/// One route of a table (`BGP4MP_ENTRY`, deprecated).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry<'a> {
    /// The session that it came by.
    pub session: Session,
    /// Which of several tables.
    pub view: u16,
    /// 1, by the RFC.
    pub status: u16,
    /// When it last changed, in seconds since 1970.
    pub originated: u32,
    /// Of the prefix.
    pub afi: Afi,
    /// Of the prefix.
    pub safi: Safi,
    /// Next hop, as in `MP_REACH_NLRI`.
    pub next_hop: &'a [u8],
    /// The prefix as in an UPDATE: length in bits, and the octets that hold them.
    pub nlri: &'a [u8],
    /// Path attributes, AS numbers of two octets.
    pub attributes: &'a [u8],
}

impl<'a> Entry<'a> {
    pub(super) fn parse(body: &'a [u8]) -> Result<Self> {
        let mut fields = Fields::new(body);
        let session = Session::parse(&mut fields, false)?;
        let view = fields.u16("view")?;
        let status = fields.u16("status")?;
        let originated = fields.u32("originated time")?;
        let afi = Afi(fields.u16("address family")?);
        let safi = Safi(fields.u8("subsequent address family")?);
        let length = fields.u8("next hop length")?;
        let next_hop = fields.take("next hop", length.into())?;
        let start = fields.at();
        let bits = fields.u8("prefix length")?;
        fields.take("prefix", usize::from(bits).div_ceil(8))?;
        let nlri = &body[start..fields.at()];
        let length = fields.u16("attribute length")?;
        let attributes = fields.take("attributes", length.into())?;
        Ok(Self { session, view, status, originated, afi, safi, next_hop, nlri, attributes })
    }
}

/// Names a file with a table (`BGP4MP_SNAPSHOT`, deprecated).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Snapshot<'a> {
    /// Which of several tables.
    pub view: u16,
    /// The file's name, without what ends it.
    pub file: &'a [u8],
}

impl<'a> Snapshot<'a> {
    pub(super) fn parse(body: &'a [u8]) -> Result<Self> {
        let mut fields = Fields::new(body);
        let view = fields.u16("view")?;
        let name = fields.rest();
        let end = name.iter().position(|byte| *byte == 0).unwrap_or(name.len());
        Ok(Self { view, file: &name[..end] })
    }
}
