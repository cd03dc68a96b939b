//! MRT records (RFC 6396 §4.4), parsed without code of the project.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

pub(crate) type Ends = (IpAddr, IpAddr);

/// Microseconds since 1970, and a message.
pub(crate) type Timed = (u64, Vec<u8>);

pub(crate) struct Record<'a> {
    /// Microseconds since 1970.
    pub(crate) time: u64,
    pub(crate) ends: Ends,
    pub(crate) is_state: bool,
    pub(crate) bytes: &'a [u8],
}

/// All records, which must be those of sessions.
pub(crate) fn records(file: &[u8]) -> Vec<Record<'_>> {
    let number = |at: usize| u32::from_be_bytes(*file[at..].first_chunk().unwrap());
    let (mut at, mut records) = (0, Vec::new());
    while at < file.len() {
        let (kind, subtype) = (number(at + 4) >> 16, number(at + 4) & 0xffff);
        let end = at + 12 + number(at + 8) as usize;
        let mut time = u64::from(number(at)) * 1_000_000;
        let mut body = at + 12;
        match kind {
            16 => {}
            17 => {
                time += u64::from(number(body));
                body += 4;
            }
            other => panic!("type {other}"),
        }
        let (systems, is_state) = match subtype {
            0 => (4, true),
            5 => (8, true),
            1 | 8 => (4, false),
            4 | 9 => (8, false),
            other => panic!("subtype {other}"),
        };
        body += systems + 2;
        let family = number(body) >> 16;
        body += 2;
        let address = |at: usize| match family {
            1 => (IpAddr::V4(Ipv4Addr::from_bits(number(at))), at + 4),
            2 => {
                let octets = *file[at..].first_chunk::<16>().unwrap();
                (IpAddr::V6(Ipv6Addr::from(octets)), at + 16)
            }
            other => panic!("family {other}"),
        };
        let (peer, next) = address(body);
        let (local, body) = address(next);
        records.push(Record { time, ends: (peer, local), is_state, bytes: &file[body..end] });
        at = end;
    }
    records
}

pub(crate) fn messages(file: &[u8]) -> BTreeMap<Ends, Vec<Timed>> {
    let mut by: BTreeMap<Ends, Vec<Timed>> = BTreeMap::new();
    for record in records(file).iter().filter(|record| !record.is_state) {
        by.entry(record.ends).or_default().push((record.time, record.bytes.to_vec()));
    }
    by
}
