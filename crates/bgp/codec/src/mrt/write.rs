//! Encodes records. A record decoded by [`super::Record::parse`] is encoded to the same bytes.
//!
//! All functions append to a `Vec<u8>`. A function that fails leaves it unchanged.

use std::net::IpAddr;

use base::Time;

use super::{
    Entry, Form, HEADER, Old, Peer, RibEntry, Session, StateChange, TableDump, is_extended, kind,
};
use crate::{Afi, Asn, Error, Family, Prefix, Result};

/// A record whose body is being written. The caller must call [`Open::close`], which sets
/// the length field.
#[derive(Debug)]
#[must_use = "its length is written when it is closed"]
pub struct Open {
    start: usize,
}

/// Starts a record: header, and microseconds where the type has them. Seconds since 1970 have 32
/// bits and end in 2106.
#[inline]
pub fn open(out: &mut Vec<u8>, time: Time, kind: u16, subtype: u16) -> Open {
    let start = out.len();
    let nanos = time.as_nanos();
    let seconds = (nanos / 1_000_000_000) as u32;
    let mut header = [0; HEADER];
    header[..4].copy_from_slice(&seconds.to_be_bytes());
    header[4..6].copy_from_slice(&kind.to_be_bytes());
    header[6..8].copy_from_slice(&subtype.to_be_bytes());
    out.extend_from_slice(&header);
    if is_extended(kind) {
        let micros = (nanos % 1_000_000_000 / 1000) as u32;
        out.extend_from_slice(&micros.to_be_bytes());
    }
    Open { start }
}

impl Open {
    /// Ends the record: its body is everything appended since `open`.
    #[inline]
    pub fn close(self, out: &mut [u8]) {
        let length = (out.len() - self.start - HEADER) as u32;
        out[self.start + 8..self.start + HEADER].copy_from_slice(&length.to_be_bytes());
    }
}

/// `BGP4MP_ET` for times with microseconds, `BGP4MP` for times without.
pub const fn bgp4mp(microseconds: bool) -> u16 {
    if microseconds { kind::BGP4MP_ET } else { kind::BGP4MP }
}

/// Appends a record of a message. `kind` is `BGP4MP` or `BGP4MP_ET`.
#[inline]
pub fn message(
    out: &mut Vec<u8>,
    time: Time,
    kind: u16,
    session: &Session,
    form: Form,
    bytes: &[u8],
) {
    let record = open(out, time, kind, form.subtype());
    self::session(out, session, form.four_octet_as);
    out.extend_from_slice(bytes);
    record.close(out);
}

/// Appends a record of a state change. `kind` is `BGP4MP` or `BGP4MP_ET`.
pub fn state_change(out: &mut Vec<u8>, time: Time, kind: u16, change: &StateChange) {
    let record = open(out, time, kind, if change.four_octet_as { 5 } else { 0 });
    session(out, &change.session, change.four_octet_as);
    out.extend_from_slice(&change.old.to_be_bytes());
    out.extend_from_slice(&change.new.to_be_bytes());
    record.close(out);
}

/// Appends AS numbers, interface, family and addresses. An AS that needs four octets becomes
/// `AS_TRANS` where the record has two. If only one address is IPv4, it is written as an
/// IPv4-mapped IPv6 address.
pub fn session(out: &mut Vec<u8>, session: &Session, four_octet_as: bool) {
    asn(out, session.peer_as, four_octet_as);
    asn(out, session.local_as, four_octet_as);
    if session.abridged {
        return;
    }
    out.extend_from_slice(&session.interface.to_be_bytes());
    match (session.peer, session.local) {
        (IpAddr::V4(peer), IpAddr::V4(local)) => {
            out.extend_from_slice(&Afi::IPV4.0.to_be_bytes());
            out.extend_from_slice(&peer.octets());
            out.extend_from_slice(&local.octets());
        }
        (peer, local) => {
            out.extend_from_slice(&Afi::IPV6.0.to_be_bytes());
            out.extend_from_slice(&mapped(peer));
            out.extend_from_slice(&mapped(local));
        }
    }
}

fn mapped(address: IpAddr) -> [u8; 16] {
    match address {
        IpAddr::V4(address) => address.to_ipv6_mapped().octets(),
        IpAddr::V6(address) => address.octets(),
    }
}

fn address(out: &mut Vec<u8>, address: IpAddr) {
    match address {
        IpAddr::V4(address) => out.extend_from_slice(&address.octets()),
        IpAddr::V6(address) => out.extend_from_slice(&address.octets()),
    }
}

fn asn(out: &mut Vec<u8>, number: Asn, four_octets: bool) {
    if four_octets {
        out.extend_from_slice(&number.0.to_be_bytes());
    } else {
        out.extend_from_slice(&number.two_octets().to_be_bytes());
    }
}

fn length(field: &'static str, bytes: &[u8]) -> Result<[u8; 2]> {
    let fits = u16::try_from(bytes.len());
    fits.map(u16::to_be_bytes).map_err(|_| Error::Long {
        field,
        size: bytes.len(),
        limit: u16::MAX.into(),
    })
}

/// Appends a `PEER_INDEX_TABLE`, which defines the peer indices of the following records.
pub fn peer_index_table(
    out: &mut Vec<u8>,
    time: Time,
    collector: u32,
    view: &[u8],
    peers: &[Peer],
) -> Result<()> {
    let view_length = length("view name", view)?;
    let count = u16::try_from(peers.len()).map_err(|_| Error::Long {
        field: "peer count",
        size: peers.len(),
        limit: u16::MAX.into(),
    })?;
    let record = open(out, time, kind::TABLE_DUMP_V2, 1);
    out.extend_from_slice(&collector.to_be_bytes());
    out.extend_from_slice(&view_length);
    out.extend_from_slice(view);
    out.extend_from_slice(&count.to_be_bytes());
    for entry in peers {
        peer(out, entry);
    }
    record.close(out);
    Ok(())
}

fn peer(out: &mut Vec<u8>, peer: &Peer) {
    let v6 = u8::from(peer.address.is_ipv6());
    out.push(v6 | u8::from(peer.four_octet_as) << 1);
    out.extend_from_slice(&peer.id.to_be_bytes());
    address(out, peer.address);
    asn(out, peer.asn, peer.four_octet_as);
}

/// Writer of a record of one prefix of a table, entry by entry.
#[derive(Debug)]
#[must_use = "its counts are written when it is closed"]
pub struct Rib {
    record: Open,
    count_at: usize,
    count: u16,
    add_path: bool,
}

impl Rib {
    /// Starts the record. `nlri` is the prefix as in an UPDATE, without path identifier. IPv4 and
    /// IPv6 unicast and multicast have their own subtypes, all other families are `RIB_GENERIC`.
    /// With `add_path` each entry has a path identifier (RFC 8050 §4.1). `RIB_GENERIC_ADDPATH` has
    /// it there too, as in `GoBGP` and `OpenBGPD` but unlike the RFC.
    pub fn open(
        out: &mut Vec<u8>,
        time: Time,
        sequence: u32,
        family: Family,
        add_path: bool,
        nlri: &[u8],
    ) -> Self {
        let subtype = match (family.afi.0, family.safi.0) {
            (1, 1) => 2,
            (1, 2) => 3,
            (2, 1) => 4,
            (2, 2) => 5,
            _ => 6,
        };
        let record =
            open(out, time, kind::TABLE_DUMP_V2, if add_path { subtype + 6 } else { subtype });
        out.extend_from_slice(&sequence.to_be_bytes());
        if subtype == 6 {
            out.extend_from_slice(&family.afi.0.to_be_bytes());
            out.push(family.safi.0);
        }
        out.extend_from_slice(nlri);
        let count_at = out.len();
        out.extend_from_slice(&[0; 2]);
        Self { record, count_at, count: 0, add_path }
    }

    /// Adds a route. A missing path identifier is written as 0 where the record has one.
    #[inline]
    pub fn entry(&mut self, out: &mut Vec<u8>, entry: &RibEntry<'_>) -> Result<()> {
        let attributes = length("path attributes", entry.attributes)?;
        let full = Error::Long { field: "entry count", size: 65_536, limit: 65_535 };
        self.count = self.count.checked_add(1).ok_or(full)?;
        out.extend_from_slice(&entry.peer.to_be_bytes());
        out.extend_from_slice(&entry.originated.to_be_bytes());
        if self.add_path {
            out.extend_from_slice(&entry.path_id.unwrap_or(0).to_be_bytes());
        }
        out.extend_from_slice(&attributes);
        out.extend_from_slice(entry.attributes);
        Ok(())
    }

    /// Ends the record.
    pub fn close(self, out: &mut [u8]) {
        out[self.count_at..self.count_at + 2].copy_from_slice(&self.count.to_be_bytes());
        self.record.close(out);
    }
}

/// Appends a record of `TABLE_DUMP`.
pub fn table_dump(out: &mut Vec<u8>, time: Time, dump: &TableDump<'_>) -> Result<()> {
    let attributes = length("path attributes", dump.attributes)?;
    let v6 = matches!(dump.prefix, Prefix::V6(..));
    let subtype = 1 + u16::from(v6) + 2 * u16::from(dump.four_octet_as);
    let record = open(out, time, kind::TABLE_DUMP, subtype);
    out.extend_from_slice(&dump.view.to_be_bytes());
    out.extend_from_slice(&dump.sequence.to_be_bytes());
    address(out, dump.prefix.address());
    out.push(dump.prefix.length());
    out.push(dump.status);
    out.extend_from_slice(&dump.originated.to_be_bytes());
    match (v6, dump.peer) {
        (true, peer) => out.extend_from_slice(&mapped(peer)),
        (false, peer) => address(out, peer),
    }
    asn(out, dump.peer_as, dump.four_octet_as);
    out.extend_from_slice(&attributes);
    out.extend_from_slice(dump.attributes);
    record.close(out);
    Ok(())
}

/// Appends a record of `BGP4MP_ENTRY` (deprecated).
pub fn entry(out: &mut Vec<u8>, time: Time, entry: &Entry<'_>) -> Result<()> {
    let attributes = length("path attributes", entry.attributes)?;
    let record = open(out, time, kind::BGP4MP, 2);
    session(out, &entry.session, false);
    out.extend_from_slice(&entry.view.to_be_bytes());
    out.extend_from_slice(&entry.status.to_be_bytes());
    out.extend_from_slice(&entry.originated.to_be_bytes());
    out.extend_from_slice(&entry.afi.0.to_be_bytes());
    out.extend_from_slice(&[entry.safi.0, entry.next_hop.len() as u8]);
    out.extend_from_slice(entry.next_hop);
    out.extend_from_slice(entry.nlri);
    out.extend_from_slice(&attributes);
    out.extend_from_slice(entry.attributes);
    record.close(out);
    Ok(())
}

/// Appends a record of type 5, or of type 9 if the peer has an IPv6 address.
pub fn old(out: &mut Vec<u8>, time: Time, old: &Old<'_>) {
    let type_for = |peer: &IpAddr| if peer.is_ipv6() { kind::BGP4PLUS } else { kind::BGP };
    let record = match old {
        Old::Message { subtype, peer_as, peer, local_as, local, body } => {
            let record = open(out, time, type_for(peer), *subtype);
            asn(out, *peer_as, false);
            address(out, *peer);
            asn(out, *local_as, false);
            address(out, *local);
            out.extend_from_slice(body);
            record
        }
        Old::StateChange { peer_as, peer, old, new } => {
            let record = open(out, time, type_for(peer), 3);
            asn(out, *peer_as, false);
            address(out, *peer);
            out.extend_from_slice(&old.to_be_bytes());
            out.extend_from_slice(&new.to_be_bytes());
            record
        }
        Old::Sync { view, file } => {
            let record = open(out, time, kind::BGP, 4);
            out.extend_from_slice(&view.to_be_bytes());
            out.extend_from_slice(file);
            record
        }
    };
    record.close(out);
}
