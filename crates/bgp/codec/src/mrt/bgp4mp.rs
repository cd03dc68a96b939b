//! `BGP4MP`: messages and states of sessions (RFC 6396 §4.4, RFC 8050 §3).

use std::net::{IpAddr, Ipv4Addr};

use crate::cursor::Cursor;
use crate::negotiated::Families;
use crate::{Afi, Asn, MARKER, Message, Negotiated, Result, Safi};

/// The session that a record describes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Session {
    /// AS of the peer.
    pub peer_as: Asn,
    /// AS of the recording router or collector.
    pub local_as: Asn,
    /// Interface index; 0 if unknown.
    pub interface: u16,
    /// Address of the peer.
    pub peer: IpAddr,
    /// Address of the local end.
    pub local: IpAddr,
    /// Whether the record omits interface and addresses: Zebra of 2000 did while a session had no
    /// socket. Both addresses are then 0.0.0.0.
    pub abridged: bool,
}

impl Session {
    /// A session between two addresses.
    pub const fn new(peer_as: Asn, local_as: Asn, peer: IpAddr, local: IpAddr) -> Self {
        Self { peer_as, local_as, interface: 0, peer, local, abridged: false }
    }

    #[inline]
    fn parse(fields: &mut Cursor<'_>, four_octets: bool) -> Result<Self> {
        let peer_as = fields.asn("peer AS", four_octets)?;
        let local_as = fields.asn("local AS", four_octets)?;
        let interface = fields.u16("interface index")?;
        let v6 = fields.is_ipv6("address family")?;
        let peer = fields.address("peer address", v6)?;
        let local = fields.address("local address", v6)?;
        Ok(Self { peer_as, local_as, interface, peer, local, abridged: false })
    }

    fn parse_abridged(fields: &mut Cursor<'_>, four_octets: bool) -> Result<Self> {
        let peer_as = fields.asn("peer AS", four_octets)?;
        let local_as = fields.asn("local AS", four_octets)?;
        let nowhere = IpAddr::V4(Ipv4Addr::UNSPECIFIED);
        Ok(Self { abridged: true, ..Self::new(peer_as, local_as, nowhere, nowhere) })
    }
}

/// Encoding of the message in a record, from the record's subtype.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Form {
    /// AS numbers have four octets, in the record and in the message (`_AS4`).
    pub four_octet_as: bool,
    /// The local end sent the message (`_LOCAL`).
    pub local: bool,
    /// Prefixes carry path identifiers (`_ADDPATH`, RFC 8050).
    pub add_path: bool,
}

impl Form {
    /// The encoding of a subtype of `BGP4MP`; `None` if it is not a message.
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

    /// Subtype of the encoding.
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

    /// Parameters for decoding the message. The subtype does not specify the families with path
    /// identifiers, so all families of the message have them.
    #[inline]
    pub const fn negotiated(self) -> Negotiated {
        Negotiated {
            four_octet_as: self.four_octet_as,
            extended_message: true,
            add_path: if self.add_path { Families::ALL } else { Families::NONE },
        }
    }
}

/// A BGP message and its session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MessageRecord<'a> {
    /// Session of the message.
    pub session: Session,
    /// Encoding of the message.
    pub form: Form,
    /// All bytes of the message, including the header. Their number may differ from the length
    /// field: see [`MessageRecord::message`].
    pub bytes: &'a [u8],
}

impl<'a> MessageRecord<'a> {
    #[inline]
    pub(super) fn parse(form: Form, body: &'a [u8]) -> Result<Self> {
        let mut fields = Cursor::new(body, 0);
        let cut = if form.four_octet_as { 8 } else { 4 };
        // The family would be the reserved value 0xffff.
        let abridged = body.get(cut..cut + 16) == Some(&MARKER[..]);
        let session = if abridged {
            Session::parse_abridged(&mut fields, form.four_octet_as)?
        } else {
            Session::parse(&mut fields, form.four_octet_as)?
        };
        Ok(Self { session, form, bytes: fields.rest() })
    }

    /// The message; `None` if its marker is missing or it is truncated.
    pub fn message(&self) -> Option<Message<'a>> {
        Message::split(self.bytes)
    }
}

/// A state change of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StateChange {
    /// Session that changed.
    pub session: Session,
    /// The AS numbers in the record have four octets.
    pub four_octet_as: bool,
    /// Old state: 1 (Idle) to 6 (Established); Quagga also has 7 (Clearing) and 8 (Deleted).
    pub old: u16,
    /// New state, with the same numbers.
    pub new: u16,
}

impl StateChange {
    pub(super) fn parse(four_octet_as: bool, body: &[u8]) -> Result<Self> {
        let mut fields = Cursor::new(body, 0);
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
    /// Session that the route was received in.
    pub session: Session,
    /// Number of the table.
    pub view: u16,
    /// Status; always 1 (RFC 6396).
    pub status: u16,
    /// Time of the last change, in seconds since 1970.
    pub originated: u32,
    /// Address family of the prefix.
    pub afi: Afi,
    /// Subsequent address family of the prefix.
    pub safi: Safi,
    /// Next hop, encoded as in `MP_REACH_NLRI`.
    pub next_hop: &'a [u8],
    /// Prefix, encoded as in an UPDATE: length in bits, and the octets that hold them.
    pub nlri: &'a [u8],
    /// Path attributes with AS numbers of two octets.
    pub attributes: &'a [u8],
}

impl<'a> Entry<'a> {
    pub(super) fn parse(body: &'a [u8]) -> Result<Self> {
        let mut fields = Cursor::new(body, 0);
        let session = Session::parse(&mut fields, false)?;
        let view = fields.u16("view")?;
        let status = fields.u16("status")?;
        let originated = fields.u32("originated time")?;
        let afi = Afi(fields.u16("address family")?);
        let safi = Safi(fields.u8("subsequent address family")?);
        let length = fields.u8("next hop length")?;
        let next_hop = fields.take(length.into(), "next hop")?;
        let start = fields.at();
        let bits = fields.u8("prefix length")?;
        fields.take(usize::from(bits).div_ceil(8), "prefix")?;
        let nlri = &body[start..fields.at()];
        let length = fields.u16("attribute length")?;
        let attributes = fields.take(length.into(), "attributes")?;
        Ok(Self { session, view, status, originated, afi, safi, next_hop, nlri, attributes })
    }
}
