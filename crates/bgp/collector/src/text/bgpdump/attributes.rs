//! Path attributes as bgpdump interprets them.

use super::fields::Octets;
use crate::text::digits;

/// Maximum text length of an AS path; the rest is omitted.
const PATH_LIMIT: usize = 8000 - 100;
/// Maximum text length of all communities.
const COMMUNITIES_LIMIT: usize = 8192;
/// Text that replaces an undecodable path.
const DAMAGED: &[u8] = b"! Error !";

/// The content of `MP_REACH_NLRI` or `MP_UNREACH_NLRI` for one family.
#[derive(Clone, Copy)]
pub(super) struct Reach<'a> {
    /// Valid if 4, 16 or 32; otherwise the address was not read.
    pub(super) next_hop_length: u8,
    /// An IPv4 address is in the first four octets.
    pub(super) next_hop: [u8; 16],
    pub(super) prefixes: &'a [u8],
}

pub(super) struct Attributes<'a> {
    /// Bit `n - 1` is set if attribute `n` (up to 32) is present.
    seen: u32,
    origin: Option<u8>,
    next_hop: [u8; 4],
    med: u32,
    local_preference: u32,
    aggregator: (u32, [u8; 4]),
    new_aggregator: (u32, [u8; 4]),
    path: Option<&'a [u8]>,
    new_path: Option<&'a [u8]>,
    communities: Option<&'a [u8]>,
    /// By address family (IPv4, IPv6) and subsequent family 1 to 3.
    pub(super) announced: [[Option<Reach<'a>>; 3]; 2],
    pub(super) withdrawn: [[Option<&'a [u8]>; 3]; 2],
    width: usize,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Columns {
    /// Routes of plain BGP-4 and of table dumps: next hop from `NEXT_HOP` or as given.
    All([u8; 4]),
    /// As [`Columns::All`] with an IPv6 next hop.
    AllV6([u8; 16]),
    /// IPv4 routes of `MP_REACH_NLRI`: preference and metric are printed as signed numbers.
    Signed([u8; 4]),
    /// As [`Columns::Signed`] with an IPv6 next hop.
    SignedV6([u8; 16]),
    /// IPv4 routes of `MP_REACH_NLRI` whose next hop has an unknown length.
    WithoutNextHop,
    /// IPv6 routes of `MP_REACH_NLRI` whose next hop has an unknown length.
    WithoutPath,
}

impl<'a> Attributes<'a> {
    pub(super) fn read(octets: &mut Octets<'a>, width: usize) -> Self {
        let total = usize::from(octets.u16());
        let mut list = octets.take(total);
        let mut attributes = Self {
            seen: 0,
            origin: None,
            next_hop: [255; 4],
            med: 0,
            local_preference: 0,
            aggregator: (u32::MAX, [255; 4]),
            new_aggregator: (u32::MAX, [255; 4]),
            path: None,
            new_path: None,
            communities: None,
            announced: [[None; 3]; 2],
            withdrawn: [[None; 3]; 2],
            width,
        };
        while !list.is_empty() {
            attributes.one(&mut list);
        }
        if width == 2 && attributes.has(7) && attributes.has(18) {
            if attributes.aggregator.0 == 23456 {
                attributes.aggregator = attributes.new_aggregator;
            } else {
                // AGGREGATOR is not AS_TRANS, so AS4_PATH is ignored too (RFC 6793 §4.2.3).
                attributes.new_path = None;
            }
        }
        attributes
    }

    pub(super) const fn has(&self, code: u8) -> bool {
        self.seen & 1 << (code - 1) != 0
    }

    fn one(&mut self, list: &mut Octets<'a>) {
        let flags = list.u8();
        let code = list.u8();
        let length = if flags & 0x10 == 0 { usize::from(list.u8()) } else { list.u16().into() };
        let mut value = list.take(length);
        if value.0.len() != length {
            return;
        }
        if (1..=32).contains(&code) {
            self.seen |= 1 << (code - 1);
        }
        match code {
            1 => self.origin = Some(value.u8()),
            2 => self.path = Some(value.0),
            3 => self.next_hop = value.array(),
            4 => self.med = value.u32(),
            5 => self.local_preference = value.u32(),
            7 => self.aggregator = (value.asn(self.width), value.array()),
            8 => self.communities = Some(value.0),
            14 => self.reach(value),
            15 => {
                let (afi, safi) = (value.u16(), value.u8());
                if let Some(slot) = slot(&mut self.withdrawn, afi, safi) {
                    slot.get_or_insert(value.0);
                }
            }
            17 => self.new_path = Some(value.0),
            18 => self.new_aggregator = (value.u32(), value.array()),
            _ => {}
        }
    }

    fn reach(&mut self, mut value: Octets<'a>) {
        // In table dumps the attribute may contain only the next hop (RFC 6396 §4.3.4).
        if value.0.first().is_some_and(|first| *first != 0) {
            self.announced[1][0] = Some(next_hop(&mut value));
            return;
        }
        let (afi, safi) = (value.u16(), value.u8());
        let Some(slot) = slot(&mut self.announced, afi, safi) else { return };
        if slot.is_some() {
            return;
        }
        let mut reach = next_hop(&mut value);
        for _ in 0..value.u8() {
            let length = usize::from(value.u8());
            value.take(length);
        }
        reach.prefixes = value.0;
        *slot = Some(reach);
    }

    /// Columns for the next hop of plain BGP-4.
    pub(super) const fn plain(&self) -> Columns {
        Columns::All(self.next_hop)
    }

    /// Writes the fields after the prefix of an announcement, up to the end of the line.
    pub(super) fn columns(&self, columns: Columns, out: &mut Vec<u8>) {
        if columns != Columns::WithoutPath {
            self.path(out);
            out.extend_from_slice(match self.origin {
                Some(0) => b"|IGP|",
                Some(1) => b"|EGP|",
                _ => b"|INCOMPLETE|",
            });
        }
        match columns {
            Columns::All(address) | Columns::Signed(address) => digits::ipv4(address, out),
            Columns::AllV6(address) | Columns::SignedV6(address) => {
                digits::ipv6(address, digits::Zeros::Bgpdump, out);
            }
            Columns::WithoutNextHop | Columns::WithoutPath => return self.last_columns(out),
        }
        let signed = matches!(columns, Columns::Signed(_) | Columns::SignedV6(_));
        for value in [self.local_preference, self.med] {
            out.push(b'|');
            if signed && (value as i32) < 0 {
                out.push(b'-');
                digits::decimal(u64::from((value as i32).unsigned_abs()), out);
            } else {
                digits::decimal(u64::from(value), out);
            }
        }
        out.push(b'|');
        self.last_columns(out);
    }

    fn last_columns(&self, out: &mut Vec<u8>) {
        if let Some(communities) = self.communities {
            write_communities(communities, out);
        }
        out.extend_from_slice(if self.has(6) { b"|AG|" } else { b"|NAG|" });
        if self.aggregator.1 != [255; 4] {
            digits::decimal(u64::from(self.aggregator.0), out);
            out.push(b' ');
            digits::ipv4(self.aggregator.1, out);
        }
        out.extend_from_slice(b"|\n");
    }

    /// As [`Attributes::columns`] of plain routes, in the format of the deprecated type `BGP`, with
    /// one bar less after the metric.
    pub(super) fn columns_of_old_type(&self, out: &mut Vec<u8>) {
        let start = out.len();
        self.columns(self.plain(), out);
        let mut bars = (start..out.len()).filter(|at| out[*at] == b'|');
        if let Some(at) = bars.nth(4) {
            out.remove(at);
        }
    }

    fn path(&self, out: &mut Vec<u8>) {
        let Some(path) = self.path else { return };
        let new = match self.new_path {
            Some(new) if self.width == 2 => new,
            _ => return write_path(path, self.width, out),
        };
        let (hops, new_hops) = (hops(path, 2), hops(new, 4));
        if hops < new_hops {
            return write_path(path, 2, out);
        }
        let merged = merge(path, new, hops - new_hops);
        write_path(&merged, 4, out);
    }
}

/// The slot of a family; `None` for families that are not shown.
fn slot<T>(slots: &mut [[T; 3]; 2], afi: u16, safi: u8) -> Option<&mut T> {
    let row = slots.get_mut(usize::from(afi).checked_sub(1)?)?;
    row.get_mut(usize::from(safi).checked_sub(1)?)
}

fn next_hop<'a>(value: &mut Octets<'a>) -> Reach<'a> {
    let next_hop_length = value.u8();
    let mut next_hop = [0; 16];
    match next_hop_length {
        4 => next_hop[..4].copy_from_slice(&value.array::<4>()),
        16 => next_hop = value.array(),
        32 => {
            next_hop = value.array();
            value.take(16);
        }
        _ => {}
    }
    Reach { next_hop_length, next_hop, prefixes: &[] }
}

/// The first segment of a path: type, AS numbers, and the rest of the path.
fn segment(path: &[u8], width: usize) -> Option<(u8, &[u8], &[u8])> {
    let (&[kind, count], rest) = path.split_first_chunk()?;
    let numbers = rest.get(..usize::from(count) * width)?;
    (1..=4).contains(&kind).then(|| (kind, numbers, &rest[numbers.len()..]))
}

/// Number of hops of a path: a set counts once. 0 if the path is malformed.
fn hops(mut path: &[u8], width: usize) -> usize {
    let mut hops = 0;
    while !path.is_empty() {
        let Some((kind, numbers, rest)) = segment(path, width) else { return 0 };
        hops += if kind == 2 || kind == 3 { numbers.len() / width } else { 1 };
        path = rest;
    }
    hops
}

/// `AS_PATH` and `AS4_PATH` as one path in four octets. As in bgpdump, the first `missing`
/// hops come from the first segment of `AS_PATH`, repeated if it is too short; the second
/// segment is not used.
fn merge(path: &[u8], new: &[u8], missing: usize) -> Vec<u8> {
    let mut merged = Vec::with_capacity(path.len() * 2 + new.len());
    if let Some((kind, numbers, _)) = segment(path, 2) {
        let is_set = kind == 1 || kind == 4;
        let count = numbers.len() / 2;
        let mut done = 0;
        while done < missing && (is_set || count > 0) {
            let length = if is_set { count } else { count.min(missing - done) };
            merged.extend_from_slice(&[kind, length as u8]);
            for number in numbers.chunks_exact(2).take(length) {
                merged.extend_from_slice(&[0, 0, number[0], number[1]]);
            }
            done += if is_set { 1 } else { length };
        }
    }
    merged.extend_from_slice(new);
    merged
}

fn write_path(mut path: &[u8], width: usize, out: &mut Vec<u8>) {
    let start = out.len();
    let mut close = None;
    let mut space = false;
    while !path.is_empty() {
        let Some((kind, numbers, rest)) = segment(path, width) else {
            out.truncate(start);
            return out.extend_from_slice(DAMAGED);
        };
        out.extend(close);
        if space {
            out.push(b' ');
        }
        let (open, end, between) = match kind {
            1 => (Some(b'{'), Some(b'}'), b','),
            3 => (Some(b'('), Some(b')'), b' '),
            4 => (Some(b'['), Some(b']'), b','),
            _ => (None, None, b' '),
        };
        out.extend(open);
        space = false;
        for number in numbers.chunks_exact(width) {
            if space {
                out.push(between);
            }
            space = true;
            digits::decimal(u64::from(Octets(number).asn(width)), out);
            if out.len() - start > PATH_LIMIT {
                return out.extend_from_slice(b"...");
            }
        }
        close = end;
        path = rest;
    }
    out.extend(close);
}

fn write_communities(communities: &[u8], out: &mut Vec<u8>) {
    // The truncated text starts with a space.
    let start = out.len();
    for community in communities.as_chunks::<4>().0 {
        let [a, b, c, d] = *community;
        let name: &[u8] = match u32::from_be_bytes(*community) {
            0xffff_ff01 => b"no-export",
            0xffff_ff02 => b"no-advertise",
            0xffff_ff03 => b"local-AS",
            _ => {
                digits::decimal(u64::from(u16::from_be_bytes([a, b])), out);
                out.push(b':');
                digits::decimal(u64::from(u16::from_be_bytes([c, d])), out);
                out.push(b' ');
                out.truncate(start + COMMUNITIES_LIMIT - 1);
                continue;
            }
        };
        if out.len() - start + 1 + name.len() < COMMUNITIES_LIMIT {
            out.extend_from_slice(name);
            out.push(b' ');
            out.truncate(start + COMMUNITIES_LIMIT - 1);
        }
    }
    if out.len() > start {
        out.pop();
    }
}
