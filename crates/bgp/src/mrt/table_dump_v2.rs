//! `TABLE_DUMP_V2`: a prefix a record, peers by number (RFC 6396 §4.3, RFC 6397, RFC 8050 §4).

use std::net::IpAddr;

use super::Fields;
use crate::{Afi, Asn, Family, Result, Safi};

/// A peer of a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Peer {
    /// Its address.
    pub address: IpAddr,
    /// Its AS. 0 is what `GoBGP` wrote for all peers in 2024.
    pub asn: Asn,
    /// Its BGP identifier.
    pub id: u32,
    /// Its AS takes four octets in the record.
    pub four_octet_as: bool,
}

impl Peer {
    fn parse(fields: &mut Fields<'_>) -> Result<Self> {
        let kind = fields.u8("peer type")?;
        let id = fields.u32("peer BGP identifier")?;
        let address = fields.address("peer address", kind & 1 != 0)?;
        let four_octet_as = kind & 2 != 0;
        let asn = fields.asn("peer AS", four_octet_as)?;
        Ok(Self { address, asn, id, four_octet_as })
    }
}

/// The peers that [`RibEntry::peer`] counts by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PeerIndexTable<'a> {
    /// BGP identifier of the collector.
    pub collector: u32,
    /// Name of the table, UTF-8 by the RFC; often empty.
    pub view: &'a [u8],
    /// How many peers there are, by the record.
    pub count: u16,
    peers: &'a [u8],
}

impl<'a> PeerIndexTable<'a> {
    pub(super) fn parse(body: &'a [u8]) -> Result<Self> {
        let mut fields = Fields::new(body);
        let collector = fields.u32("collector BGP identifier")?;
        let length = fields.u16("view name length")?;
        let view = fields.take("view name", length.into())?;
        let count = fields.u16("peer count")?;
        Ok(Self { collector, view, count, peers: fields.rest() })
    }

    /// The peers, in the order of their numbers.
    pub fn peers(&self) -> Peers<'a> {
        Peers { fields: Fields::new(self.peers), left: self.count }
    }
}

/// Peers of a [`PeerIndexTable`].
#[derive(Clone, Debug)]
pub struct Peers<'a> {
    fields: Fields<'a>,
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

/// Where the peers of a table are (RFC 6397 §3).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct GeoPeerTable<'a> {
    /// BGP identifier of the collector.
    pub collector: u32,
    /// Name of the table.
    pub view: &'a [u8],
    /// Of the collector, in degrees, north positive; not a number where it is private.
    pub latitude: f32,
    /// Of the collector, in degrees, east positive.
    pub longitude: f32,
    /// How many peers there are, by the record.
    pub count: u16,
    peers: &'a [u8],
}

impl<'a> GeoPeerTable<'a> {
    pub(super) fn parse(body: &'a [u8]) -> Result<Self> {
        let mut fields = Fields::new(body);
        let collector = fields.u32("collector BGP identifier")?;
        let length = fields.u16("view name length")?;
        let view = fields.take("view name", length.into())?;
        let latitude = f32::from_bits(fields.u32("collector latitude")?);
        let longitude = f32::from_bits(fields.u32("collector longitude")?);
        let count = fields.u16("peer count")?;
        Ok(Self { collector, view, latitude, longitude, count, peers: fields.rest() })
    }

    /// The peers, in the order of their numbers.
    pub fn peers(&self) -> GeoPeers<'a> {
        GeoPeers { fields: Fields::new(self.peers), left: self.count }
    }
}

/// Where a peer is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct GeoPeer {
    /// The peer.
    pub peer: Peer,
    /// In degrees, north positive; not a number where it is private.
    pub latitude: f32,
    /// In degrees, east positive.
    pub longitude: f32,
}

/// Peers of a [`GeoPeerTable`].
#[derive(Clone, Debug)]
pub struct GeoPeers<'a> {
    fields: Fields<'a>,
    left: u16,
}

impl GeoPeers<'_> {
    fn parse(fields: &mut Fields<'_>) -> Result<GeoPeer> {
        let peer = Peer::parse(fields)?;
        let latitude = f32::from_bits(fields.u32("peer latitude")?);
        let longitude = f32::from_bits(fields.u32("peer longitude")?);
        Ok(GeoPeer { peer, latitude, longitude })
    }
}

impl Iterator for GeoPeers<'_> {
    type Item = Result<GeoPeer>;

    fn next(&mut self) -> Option<Self::Item> {
        self.left = self.left.checked_sub(1)?;
        let peer = Self::parse(&mut self.fields);
        if peer.is_err() {
            self.left = 0;
        }
        Some(peer)
    }
}

/// One prefix of a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rib<'a> {
    /// Counts records.
    pub sequence: u32,
    /// What `nlri` is of.
    pub family: Family,
    /// The record names its family (`RIB_GENERIC`): it need not be IP unicast or multicast.
    pub generic: bool,
    /// The prefix as in an UPDATE, without path identifier.
    pub nlri: &'a [u8],
    /// The path identifier of all entries, where it stands before the prefix (RFC 8050 §4.2).
    pub path_id: Option<u32>,
    /// Each entry has a path identifier (RFC 8050 §4.1; `GoBGP` and `OpenBGPD` in `RIB_GENERIC`
    /// too).
    pub add_path: bool,
    /// How many entries there are, by the record.
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
                // The RFC and the writers differ: what fits to the last byte was meant.
                let by_rfc = Self::generic(body, true, false);
                return match by_rfc {
                    Ok(rib) if rib.fits() => Ok(rib),
                    _ => Self::generic(body, false, true),
                };
            }
            _ => return Self::generic(body, false, false),
        };
        let family = Family { afi: family.0, safi: family.1 };
        let mut fields = Fields::new(body);
        let sequence = fields.u32("sequence number")?;
        Self::rest(fields, sequence, family, None).map(|rib| Self { add_path, ..rib })
    }

    fn generic(body: &'a [u8], before: bool, add_path: bool) -> Result<Self> {
        let mut fields = Fields::new(body);
        let sequence = fields.u32("sequence number")?;
        let afi = Afi(fields.u16("address family")?);
        let safi = Safi(fields.u8("subsequent address family")?);
        let path_id = if before { Some(fields.u32("path identifier")?) } else { None };
        let rib = Self::rest(fields, sequence, Family { afi, safi }, path_id)?;
        Ok(Self { add_path, generic: true, ..rib })
    }

    fn rest(
        mut fields: Fields<'a>,
        sequence: u32,
        family: Family,
        path_id: Option<u32>,
    ) -> Result<Self> {
        let length = nlri_length(family, fields.rest());
        let nlri = fields.take("prefix", length)?;
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

    /// The routes to it, one a peer (or several, with path identifiers).
    pub fn entries(&self) -> RibEntries<'a> {
        RibEntries {
            fields: Fields::new(self.entries),
            left: self.count,
            path_id: self.path_id,
            add_path: self.add_path,
        }
    }

    /// Whether the entries take all bytes of the record, no more and no less.
    fn fits(&self) -> bool {
        let mut entries = self.entries();
        entries.by_ref().all(|entry| entry.is_ok()) && entries.fields.is_empty()
    }
}

/// Octets that one NLRI takes, by what its family says of lengths. At least one.
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
    /// Number of the peer in the [`PeerIndexTable`].
    pub peer: u16,
    /// When it last changed, in seconds since 1970.
    pub originated: u32,
    /// Its path identifier.
    pub path_id: Option<u32>,
    /// Path attributes; AS numbers have four octets always, and `MP_REACH_NLRI` holds the next hop
    /// alone (RFC 6396 §4.3.4), though not all writers do so: see [`mp_reach_next_hop`].
    pub attributes: &'a [u8],
}

/// Entries of a [`Rib`].
#[derive(Clone, Debug)]
pub struct RibEntries<'a> {
    fields: Fields<'a>,
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
        let attributes = fields.take("attributes", length.into())?;
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

/// The next hop in the value of an `MP_REACH_NLRI` of a table: abridged to length and next hop as
/// RFC 6396 §4.3.4 asks, or whole as some writers leave it.
pub fn mp_reach_next_hop(value: &[u8]) -> Option<&[u8]> {
    let (&length, rest) = value.split_first()?;
    if usize::from(length) == rest.len() {
        return Some(rest);
    }
    let length = usize::from(*value.get(3)?);
    value.get(4..4 + length)
}
