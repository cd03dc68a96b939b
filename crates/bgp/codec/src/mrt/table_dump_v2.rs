//! `TABLE_DUMP_V2`: one prefix per record, peers by index (RFC 6396 §4.3, RFC 8050 §4).

use std::net::IpAddr;

use crate::cursor::Cursor;
use crate::{Afi, Asn, Family, Result, Safi};

/// A peer of a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Peer {
    /// Address of the peer.
    pub address: IpAddr,
    /// AS of the peer. `GoBGP` of 2024 writes 0 for all peers.
    pub asn: Asn,
    /// BGP identifier of the peer.
    pub id: u32,
    /// The AS has four octets in the record.
    pub four_octet_as: bool,
}

impl Peer {
    fn parse(fields: &mut Cursor<'_>) -> Result<Self> {
        let kind = fields.u8("peer type")?;
        let id = fields.u32("peer BGP identifier")?;
        let address = fields.address("peer address", kind & 1 != 0)?;
        let four_octet_as = kind & 2 != 0;
        let asn = fields.asn("peer AS", four_octet_as)?;
        Ok(Self { address, asn, id, four_octet_as })
    }
}

/// The peers that [`RibEntry::peer`] refers to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PeerIndexTable<'a> {
    /// BGP identifier of the collector.
    pub collector: u32,
    /// Name of the table, UTF-8 according to the RFC; often empty.
    pub view: &'a [u8],
    /// Number of peers according to the record.
    pub count: u16,
    peers: &'a [u8],
}

impl<'a> PeerIndexTable<'a> {
    pub(super) fn parse(body: &'a [u8]) -> Result<Self> {
        let mut fields = Cursor::new(body, 0);
        let collector = fields.u32("collector BGP identifier")?;
        let length = fields.u16("view name length")?;
        let view = fields.take(length.into(), "view name")?;
        let count = fields.u16("peer count")?;
        Ok(Self { collector, view, count, peers: fields.rest() })
    }

    /// Peers in the order of their indices.
    pub fn peers(&self) -> Peers<'a> {
        Peers { fields: Cursor::new(self.peers, 0), left: self.count }
    }
}

/// Iterator over the peers of a [`PeerIndexTable`].
#[derive(Clone, Debug)]
pub struct Peers<'a> {
    fields: Cursor<'a>,
    left: u16,
}

impl Iterator for Peers<'_> {
    type Item = Result<Peer>;

    fn next(&mut self) -> Option<Self::Item> {
        self.left = self.left.checked_sub(1)?;
        let peer = Peer::parse(&mut self.fields);
        if peer.is_err() {
            self.left = 0;
        }
        Some(peer)
    }
}

/// One prefix of a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rib<'a> {
    /// Sequence number of the record.
    pub sequence: u32,
    /// Address family of `nlri`.
    pub family: Family,
    /// The record contains its family (`RIB_GENERIC`), which may be other than IPv4 or IPv6
    /// unicast or multicast.
    pub generic: bool,
    /// Prefix as in an UPDATE, without path identifier.
    pub nlri: &'a [u8],
    /// Path identifier of all entries, if it precedes the prefix (RFC 8050 §4.2).
    pub path_id: Option<u32>,
    /// Each entry has a path identifier (RFC 8050 §4.1; also in `RIB_GENERIC` of `GoBGP` and
    /// `OpenBGPD`).
    pub add_path: bool,
    /// Number of entries according to the record.
    pub count: u16,
    entries: &'a [u8],
}

impl<'a> Rib<'a> {
    pub(super) fn parse(subtype: u16, body: &'a [u8]) -> Result<Self> {
        let add_path = subtype >= 8;
        let family = match if add_path { subtype - 6 } else { subtype } {
            2 => (Afi::IPV4, Safi::UNICAST),
            3 => (Afi::IPV4, Safi::MULTICAST),
            4 => (Afi::IPV6, Safi::UNICAST),
            5 => (Afi::IPV6, Safi::MULTICAST),
            _ if add_path => {
                // Some writers deviate from the RFC. The correct encoding is the one that ends at
                // the last byte.
                let by_rfc = Self::generic(body, true, false);
                return match by_rfc {
                    Ok(rib) if rib.fits() => Ok(rib),
                    _ => Self::generic(body, false, true),
                };
            }
            _ => return Self::generic(body, false, false),
        };
        let family = Family { afi: family.0, safi: family.1 };
        let mut fields = Cursor::new(body, 0);
        let sequence = fields.u32("sequence number")?;
        Self::rest(fields, sequence, family, None).map(|rib| Self { add_path, ..rib })
    }

    fn generic(body: &'a [u8], before: bool, add_path: bool) -> Result<Self> {
        let mut fields = Cursor::new(body, 0);
        let sequence = fields.u32("sequence number")?;
        let afi = Afi(fields.u16("address family")?);
        let safi = Safi(fields.u8("subsequent address family")?);
        let path_id = if before { Some(fields.u32("path identifier")?) } else { None };
        let rib = Self::rest(fields, sequence, Family { afi, safi }, path_id)?;
        Ok(Self { add_path, generic: true, ..rib })
    }

    fn rest(
        mut fields: Cursor<'a>,
        sequence: u32,
        family: Family,
        path_id: Option<u32>,
    ) -> Result<Self> {
        let length = nlri_length(family, fields.rest());
        let nlri = fields.take(length, "prefix")?;
        let count = fields.u16("entry count")?;
        let entries = fields.rest();
        Ok(Self {
            sequence,
            family,
            generic: false,
            nlri,
            path_id,
            add_path: false,
            count,
            entries,
        })
    }

    /// Routes to the prefix, one per peer (or several, with path identifiers).
    pub fn entries(&self) -> RibEntries<'a> {
        RibEntries {
            fields: Cursor::new(self.entries, 0),
            left: self.count,
            path_id: self.path_id,
            add_path: self.add_path,
        }
    }

    /// Whether the entries end at the last byte of the record.
    fn fits(&self) -> bool {
        let mut entries = self.entries();
        entries.by_ref().all(|entry| entry.is_ok()) && entries.fields.is_empty()
    }
}

/// Length of one NLRI in octets, by the length field of its family. At least one.
fn nlri_length(family: Family, bytes: &[u8]) -> usize {
    let octet = |at: usize| bytes.get(at).map_or(0, |byte| usize::from(*byte));
    match (family.afi, family.safi) {
        (_, Safi::EVPN | Safi::MCAST_VPN) => 2 + octet(1),
        (_, Safi::VPLS) => 2 + (octet(0) << 8 | octet(1)),
        (Afi::BGP_LS, _) => 4 + (octet(2) << 8 | octet(3)),
        (_, Safi::FLOWSPEC | Safi::FLOWSPEC_VPN) if octet(0) >= 0xf0 => {
            2 + ((octet(0) & 0xf) << 8 | octet(1))
        }
        (_, Safi::FLOWSPEC | Safi::FLOWSPEC_VPN) => 1 + octet(0),
        _ => 1 + octet(0).div_ceil(8),
    }
}

/// A route of a peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RibEntry<'a> {
    /// Index of the peer in the [`PeerIndexTable`].
    pub peer: u16,
    /// Time of the last change, in seconds since 1970.
    pub originated: u32,
    /// Path identifier of the route.
    pub path_id: Option<u32>,
    /// Path attributes. AS numbers always have four octets. `MP_REACH_NLRI` contains only the next
    /// hop (RFC 6396 §4.3.4), except for some writers: see [`mp_reach_next_hop`].
    pub attributes: &'a [u8],
}

/// Iterator over the entries of a [`Rib`].
#[derive(Clone, Debug)]
pub struct RibEntries<'a> {
    fields: Cursor<'a>,
    left: u16,
    path_id: Option<u32>,
    add_path: bool,
}

impl<'a> RibEntries<'a> {
    #[inline]
    fn parse(&mut self) -> Result<RibEntry<'a>> {
        let fields = &mut self.fields;
        let peer = fields.u16("peer index")?;
        let originated = fields.u32("originated time")?;
        let path_id =
            if self.add_path { Some(fields.u32("path identifier")?) } else { self.path_id };
        let length = fields.u16("attribute length")?;
        let attributes = fields.take(length.into(), "attributes")?;
        Ok(RibEntry { peer, originated, path_id, attributes })
    }
}

impl<'a> Iterator for RibEntries<'a> {
    type Item = Result<RibEntry<'a>>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        self.left = self.left.checked_sub(1)?;
        let entry = self.parse();
        if entry.is_err() {
            self.left = 0;
        }
        Some(entry)
    }
}

/// The next hop in the `MP_REACH_NLRI` value of a table: either abridged to length and next hop
/// (RFC 6396 §4.3.4), or complete as some writers encode it.
pub fn mp_reach_next_hop(value: &[u8]) -> Option<&[u8]> {
    let (&length, rest) = value.split_first()?;
    if usize::from(length) == rest.len() {
        return Some(rest);
    }
    let length = usize::from(*value.get(3)?);
    value.get(4..4 + length)
}
