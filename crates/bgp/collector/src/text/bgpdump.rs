//! MRT records in the format of `bgpdump -m` of bgpdump 1.6.2: one line per route, byte for byte.
//!
//! A line of an UPDATE is a head (format, time, peer), a prefix, and a tail (the attributes). Head
//! and tail are the same for all prefixes of an UPDATE, and the tail of a line is followed by the
//! head of the next. So each prefix costs its own digits and one copy.
//!
//! Reproduced behaviour: fields beyond the end of a record are zero; at most 8,192 prefixes of a
//! list are shown; the `AS4_PATH` replaces the `AS_PATH` as in bgpdump; preference and metric of
//! IPv4 routes in `MP_REACH_NLRI` are signed; withdrawals of the deprecated type `BGP` show the
//! peer's address in place of the prefix's. Records on which bgpdump ends with a failed assertion
//! (a duplicate attribute, a peer outside of the index) show the last duplicate, or nothing, and
//! the next record follows.

mod attributes;
mod fields;
mod table;

use bgp::mrt::Record;

use super::digits;
use attributes::{Attributes, Columns, Reach};
use fields::{AddressFamily, Octets, head};
use table::Peers;

/// Maximum number of prefixes of a list that are shown.
const MAX_PREFIXES: usize = 8192;

/// Size of the block in which lines are assembled, in bytes.
const BLOCK: usize = 8192;
/// Number of bytes of a joint that are copied at once.
const STEP: usize = 32;
/// Maximum length of a joint that is copied in steps.
const SHORT_JOINT: usize = 1024;

/// Writes the lines of one file's records. It stores the peer index of table dumps.
#[derive(Clone, Debug, Default)]
pub struct Renderer {
    peers: Option<Peers>,
    head: Vec<u8>,
    /// The tail of a line and the head of the next.
    joint: Vec<u8>,
    block: Vec<u8>,
    ended: bool,
}

/// The fields of a `BGP4MP` record before the message.
struct Envelope {
    format: &'static str,
    time: (u32, Option<u32>),
    peer: [u8; 16],
    family: AddressFamily,
    asn: u32,
    width: usize,
    add_path: bool,
    local: bool,
}

impl Renderer {
    pub fn new() -> Self {
        Self::default()
    }

    /// Appends the lines of `record` to `out`. As in bgpdump, some records have no lines, and no
    /// lines follow an empty record.
    pub fn render(&mut self, record: &Record<'_>, out: &mut Vec<u8>) {
        self.ended |= record.body.is_empty();
        if self.ended {
            return;
        }
        let mut header = Octets(record.bytes);
        let seconds = header.u32();
        let body = Octets(record.body);
        match record.kind {
            5 => self.old_type(seconds, record.subtype, body, out),
            12 => table::table_dump(seconds, record.subtype, body, out),
            13 if record.subtype == 1 => self.peers = Some(Peers::read(body)),
            13 => {
                if let Some(peers) = &mut self.peers {
                    peers.table_dump_v2(seconds, record.subtype, body, out);
                }
            }
            16 => self.bgp4mp((seconds, None), record.subtype, body, out),
            17 => {
                header.take(8);
                self.bgp4mp((seconds, Some(header.u32())), record.subtype, body, out);
            }
            _ => {}
        }
    }

    fn bgp4mp(
        &mut self,
        time: (u32, Option<u32>),
        subtype: u16,
        body: Octets<'_>,
        out: &mut Vec<u8>,
    ) {
        match subtype {
            0 => state_change(time, 2, body, out),
            5 => state_change(time, 4, body, out),
            1 | 6 | 8 | 10 => self.message(time, subtype, 2, body, out),
            4 | 7 | 9 | 11 => self.message(time, subtype, 4, body, out),
            _ => {}
        }
    }

    fn message(
        &mut self,
        time: (u32, Option<u32>),
        subtype: u16,
        width: usize,
        mut body: Octets<'_>,
        out: &mut Vec<u8>,
    ) {
        let numbers = [body.asn(width), body.asn(width)];
        let interface = body.u16();
        let afi = body.u16();
        let mut addresses = [[0; 16]; 2];
        let (family, marker) = match (afi, interface) {
            (1, _) => {
                addresses[0][..4].copy_from_slice(&body.array::<4>());
                addresses[1][..4].copy_from_slice(&body.array::<4>());
                (AddressFamily::V4, body.array::<16>())
            }
            (2, _) => {
                addresses = [body.array(), body.array()];
                (AddressFamily::V6, body.array())
            }
            // Zebra of 2000 omits addresses: this is already the marker.
            (0xffff, 0xffff) => {
                let mut marker = [0xff; 16];
                marker[4..].copy_from_slice(&body.array::<12>());
                (AddressFamily::V4, marker)
            }
            _ => return,
        };
        if marker != [0xff; 16] {
            return;
        }
        let size = usize::from(body.u16());
        let mut message = body.take(size.checked_sub(18).unwrap_or(usize::MAX));
        if message.u8() != 2 {
            return;
        }
        // Messages that the router sent with path identifiers are shown as received.
        let shown = usize::from(subtype > 9);
        let add_path = subtype > 7;
        let local = matches!(subtype, 6 | 7);
        let envelope = Envelope {
            format: match (time.1.is_some(), local, add_path) {
                (false, false, false) => "BGP4MP",
                (false, true, _) => "BGP4MP_LOCAL",
                (false, false, true) => "BGP4MP_AP",
                (true, false, false) => "BGP4MP_ET",
                (true, true, _) => "BGP4MP_ET_LOCAL",
                (true, false, true) => "BGP4MP_ET_AP",
            },
            time,
            peer: addresses[shown],
            family,
            asn: numbers[shown],
            width,
            add_path,
            local,
        };
        self.update(&envelope, message, out);
    }

    fn update(&mut self, envelope: &Envelope, mut message: Octets<'_>, out: &mut Vec<u8>) {
        let length = usize::from(message.u16());
        let withdrawn = message.take(length);
        let attributes = Attributes::read(&mut message, envelope.width);
        if !withdrawn.is_empty() || attributes.has(15) {
            self.begin(envelope, "W", envelope.family);
            self.withdraw(envelope, withdrawn.0, AddressFamily::V4, out);
            for prefixes in attributes.withdrawn[0].iter().flatten() {
                self.withdraw(envelope, prefixes, AddressFamily::V4, out);
            }
            if envelope.local {
                // Here bgpdump interprets the address of an IPv4 peer as that of an IPv6 peer.
                self.begin(envelope, "W", AddressFamily::V6);
            }
            for prefixes in attributes.withdrawn[1].iter().flatten() {
                self.withdraw(envelope, prefixes, AddressFamily::V6, out);
            }
        }
        if message.is_empty() && !attributes.has(14) {
            return;
        }
        self.begin(envelope, "A", envelope.family);
        let plain = attributes.plain();
        self.announce(envelope, (message.0, AddressFamily::V4), (&attributes, plain), out);
        for (row, family) in [(0, AddressFamily::V4), (1, AddressFamily::V6)] {
            for reach in attributes.announced[row].iter().flatten() {
                let columns = multiprotocol(reach, family);
                self.announce(envelope, (reach.prefixes, family), (&attributes, columns), out);
            }
        }
    }

    fn begin(&mut self, envelope: &Envelope, kind: &str, family: AddressFamily) {
        self.head.clear();
        head(envelope.format, envelope.time, kind, &mut self.head);
        family.write(envelope.peer, &mut self.head);
        self.head.push(b'|');
        digits::decimal(u64::from(envelope.asn), &mut self.head);
        self.head.push(b'|');
    }

    fn withdraw(
        &mut self,
        envelope: &Envelope,
        prefixes: &[u8],
        family: AddressFamily,
        out: &mut Vec<u8>,
    ) {
        self.joint.clear();
        if envelope.add_path {
            self.joint.push(b'\n');
        }
        self.lines(prefixes, family, (envelope.add_path, b'\n'), out);
    }

    fn announce(
        &mut self,
        envelope: &Envelope,
        (prefixes, family): (&[u8], AddressFamily),
        (attributes, columns): (&Attributes<'_>, Columns),
        out: &mut Vec<u8>,
    ) {
        if prefixes.is_empty() {
            return;
        }
        self.joint.clear();
        if envelope.add_path {
            self.joint.push(b'|');
        }
        attributes.columns(columns, &mut self.joint);
        self.lines(prefixes, family, (envelope.add_path, b'|'), out);
    }

    /// Appends a line per prefix: head, prefix, `end`, joint. With path identifiers, `|` and the
    /// identifier follow the prefix instead of `end`.
    fn lines(
        &mut self,
        prefixes: &[u8],
        family: AddressFamily,
        (add_path, end): (bool, u8),
        out: &mut Vec<u8>,
    ) {
        self.joint.extend_from_slice(&self.head);
        out.extend_from_slice(&self.head);
        let mut list = Octets(prefixes);
        let mut left = MAX_PREFIXES;
        if family == AddressFamily::V4 && !add_path && self.joint.len() <= SHORT_JOINT {
            left = self.short_lines(&mut list, end, out);
        }
        while !list.is_empty() && left > 0 {
            let path_id = if add_path { list.u32() } else { 0 };
            let length = list.u8();
            let octets = usize::from(length).div_ceil(8);
            if list.0.len() < octets {
                break;
            }
            left -= 1;
            let end = if add_path { b'|' } else { end };
            let prefix = list.take(octets).0;
            let path_id = write_prefix(prefix, length, path_id, (family, end), out);
            if add_path {
                digits::decimal(u64::from(path_id), out);
            }
            out.extend_from_slice(&self.joint);
        }
        // Remove the head after the last line.
        out.truncate(out.len() - self.head.len());
    }

    /// Appends the lines of IPv4 prefixes, which are the most common ones, up to the first invalid
    /// prefix. They are assembled in a block of fixed size, in steps of fixed size. Returns the
    /// number of further prefixes that may be shown.
    fn short_lines(&mut self, list: &mut Octets<'_>, end: u8, out: &mut Vec<u8>) -> usize {
        let joint = self.joint.len();
        self.joint.resize(joint.next_multiple_of(STEP), 0);
        self.block.resize(BLOCK, 0);
        let longest = digits::IPV4_PREFIX + self.joint.len();
        let (mut at, mut left) = (0, MAX_PREFIXES);
        while let Some((length, rest)) = list.0.split_first() {
            let octets = usize::from(*length).div_ceil(8);
            if octets > 4 || rest.len() < octets || left == 0 {
                break;
            }
            let mut address = [0; 4];
            if let Some(four) = rest.first_chunk::<4>() {
                let kept = u32::from_be_bytes(*four)
                    & !(u32::MAX.checked_shr(octets as u32 * 8).unwrap_or(0));
                address = kept.to_be_bytes();
            } else {
                address[..octets].copy_from_slice(&rest[..octets]);
            }
            list.0 = &rest[octets..];
            left -= 1;
            if at + longest > BLOCK {
                out.extend_from_slice(&self.block[..at]);
                at = 0;
            }
            at += digits::ipv4_prefix(address, *length, end, &mut self.block[at..]);
            let room = &mut self.block[at..at + self.joint.len()];
            for (to, from) in
                room.as_chunks_mut::<STEP>().0.iter_mut().zip(self.joint.as_chunks::<STEP>().0)
            {
                *to = *from;
            }
            at += joint;
        }
        out.extend_from_slice(&self.block[..at]);
        self.joint.truncate(joint);
        left
    }

    /// The deprecated type `BGP` of MRT.
    fn old_type(&mut self, seconds: u32, subtype: u16, mut body: Octets<'_>, out: &mut Vec<u8>) {
        match subtype {
            1 => {
                let asn = u32::from(body.u16());
                let mut peer = [0; 16];
                peer[..4].copy_from_slice(&body.array::<4>());
                body.take(6);
                let envelope = Envelope {
                    format: "BGP",
                    time: (seconds, None),
                    peer,
                    family: AddressFamily::V4,
                    asn,
                    width: 2,
                    add_path: false,
                    local: false,
                };
                let length = usize::from(body.u16());
                let withdrawn = body.take(length);
                let attributes = Attributes::read(&mut body, 2);
                self.begin(&envelope, "W", AddressFamily::V4);
                for length in lengths(withdrawn.0) {
                    out.extend_from_slice(&self.head);
                    digits::ipv4([peer[0], peer[1], peer[2], peer[3]], out);
                    out.push(b'/');
                    digits::decimal(u64::from(length), out);
                    out.push(b'\n');
                }
                self.begin(&envelope, "A", AddressFamily::V4);
                self.joint.clear();
                attributes.columns_of_old_type(&mut self.joint);
                self.lines(body.0, AddressFamily::V4, (false, b'|'), out);
            }
            3 => {
                let asn = u32::from(body.u16());
                let mut peer = [0; 16];
                peer[..4].copy_from_slice(&body.array::<4>());
                head("BGP", (seconds, None), "STATE", out);
                states((AddressFamily::V4, peer), asn, body, out);
            }
            _ => {}
        }
    }
}

/// The records of a file as bgpdump frames them: by their length fields alone, up to the first
/// empty or truncated record. A damaged file ends there, even if further records follow.
pub fn records(mut bytes: &[u8]) -> impl Iterator<Item = Record<'_>> {
    std::iter::from_fn(move || {
        let header = bytes.first_chunk::<{ bgp::mrt::HEADER }>()?;
        let length = u32::from_be_bytes([header[8], header[9], header[10], header[11]]);
        let (record, rest) = bytes.split_at_checked(header.len() + length as usize)?;
        bytes = rest;
        Record::of(record).filter(|record| !record.body.is_empty())
    })
    .fuse()
}

fn lengths(prefixes: &[u8]) -> impl Iterator<Item = u8> {
    let mut list = Octets(prefixes);
    let next = move || {
        let length = list.0.first().copied()?;
        let octets = 1 + usize::from(length).div_ceil(8);
        let prefix = list.take(octets).0;
        // As in `write_prefix`.
        let shown = prefix.get(17).copied().unwrap_or(length);
        (prefix.len() == octets).then_some(shown)
    };
    std::iter::from_fn(next).take(MAX_PREFIXES)
}

fn multiprotocol(reach: &Reach<'_>, family: AddressFamily) -> Columns {
    let [a, b, c, d, ..] = reach.next_hop;
    match (family, reach.next_hop_length) {
        (AddressFamily::V4, 4) => Columns::Signed([a, b, c, d]),
        (AddressFamily::V4, 16 | 32) => Columns::SignedV6(reach.next_hop),
        (AddressFamily::V4, _) => Columns::WithoutNextHop,
        (AddressFamily::V6, 4) => Columns::All([a, b, c, d]),
        (AddressFamily::V6, 16 | 32) => Columns::AllV6(reach.next_hop),
        (AddressFamily::V6, _) => Columns::WithoutPath,
    }
}

/// Writes a prefix. As in bgpdump's memory layout, octets beyond the maximum address length
/// overwrite the length and the path identifier, which is returned.
fn write_prefix(
    octets: &[u8],
    length: u8,
    path_id: u32,
    (family, end): (AddressFamily, u8),
    out: &mut Vec<u8>,
) -> u32 {
    let mut place = [0; 24];
    place[16] = length;
    place[20..].copy_from_slice(&path_id.to_le_bytes());
    let count = octets.len().min(place.len());
    place[..count].copy_from_slice(&octets[..count]);
    let mut address = [0; 16];
    address.copy_from_slice(&place[..16]);
    family.write(address, out);
    out.push(b'/');
    digits::decimal(u64::from(place[16]), out);
    out.push(end);
    u32::from_le_bytes([place[20], place[21], place[22], place[23]])
}

fn state_change(time: (u32, Option<u32>), width: usize, mut body: Octets<'_>, out: &mut Vec<u8>) {
    let length = body.0.len();
    let asn = body.asn(width);
    body.asn(width);
    let mut peer = [0; 16];
    let mut family = AddressFamily::V4;
    // Records of 8 octets (an error of Zebra) have no addresses.
    if length != 8 {
        body.u16();
        match body.u16() {
            1 if length == 20 || length == 24 => {
                peer[..4].copy_from_slice(&body.array::<4>());
                body.take(4);
            }
            2 if length == 44 || length == 48 => {
                peer = body.array();
                body.take(16);
                family = AddressFamily::V6;
            }
            _ => return,
        }
    }
    let format = if time.1.is_some() { "BGP4MP_ET" } else { "BGP4MP" };
    head(format, time, "STATE", out);
    states((family, peer), asn, body, out);
}

/// Writes the rest of a state line: peer, its AS, both states.
fn states(
    (family, peer): (AddressFamily, [u8; 16]),
    asn: u32,
    mut body: Octets<'_>,
    out: &mut Vec<u8>,
) {
    family.write(peer, out);
    for number in [asn, u32::from(body.u16()), u32::from(body.u16())] {
        out.push(b'|');
        digits::decimal(u64::from(number), out);
    }
    out.push(b'\n');
}
