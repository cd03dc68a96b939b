//! Reassembles fragments of IPv4 and IPv6 within limits of memory and time.

use std::collections::HashMap;
use std::net::IpAddr;

use base::{Span, Time};

use super::ip::{Ip, Part};
use super::{Counters, Tag, TunnelId};

const LENGTH_MAX: u32 = 65_535;
/// Memory overhead that each fragment counts for, in bytes.
const FRAGMENT_COST: usize = 128;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FragmentLimits {
    pub bytes: usize,
    /// Timeout of an incomplete datagram, in capture time. A receiver waits for 60 s (RFC 8200
    /// §4.5), but cloned fragments follow each other at once.
    pub time: Span,
}

impl Default for FragmentLimits {
    fn default() -> Self {
        Self { bytes: 4 << 20, time: Span::from_secs(2) }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Key {
    tags: Vec<Tag>,
    source: IpAddr,
    destination: IpAddr,
    id: u32,
    /// Part of the key because IPv4 identifications are per protocol.
    protocol: u8,
}

#[derive(Debug)]
struct Datagram {
    since: Time,
    order: u64,
    pieces: Vec<(u32, Box<[u8]>)>,
    length: Option<u32>,
    protocol: Option<u8>,
    have: u32,
    /// Fragments overlapped: the datagram is dropped (RFC 5722 §3).
    refused: bool,
    tunnel: Option<TunnelId>,
    depth: u8,
}

pub(super) struct Whole {
    pub(super) protocol: u8,
    pub(super) bytes: Vec<u8>,
}

/// The start of a datagram that stayed incomplete.
#[derive(Debug)]
pub(super) struct Beginning {
    order: u64,
    pub(super) within: Within,
    pub(super) source: IpAddr,
    pub(super) destination: IpAddr,
    pub(super) protocol: u8,
    pub(super) bytes: Vec<u8>,
    pub(super) missing: u32,
}

#[derive(Debug)]
pub(super) struct Within {
    pub(super) tags: Vec<Tag>,
    pub(super) tunnel: Option<TunnelId>,
    pub(super) depth: u8,
}

#[derive(Debug, Default)]
pub(super) struct Fragments {
    /// Incomplete datagrams that were discarded, and whose available start is to be processed.
    beginnings: Vec<Beginning>,
    datagrams: HashMap<Key, Datagram>,
    /// `order` of the next datagram: the number of added fragments.
    begun: u64,
    bytes: usize,
    oldest: Time,
}

impl Fragments {
    /// Adds a fragment; returns the datagram if it is now complete.
    pub(super) fn add(
        &mut self,
        time: Time,
        (tags, tunnel, depth): (&[Tag], Option<TunnelId>, u8),
        ip: &Ip<'_>,
        part: Part,
        limits: &FragmentLimits,
        counters: &mut Counters,
    ) -> Option<Whole> {
        self.expire(time, limits, counters);
        let bytes = ip.payload.bytes;
        let end = part.offset + bytes.len() as u32;
        let torn = part.more && !bytes.len().is_multiple_of(8);
        if ip.payload.cut > 0 || ip.damaged || torn || bytes.is_empty() || end > LENGTH_MAX {
            counters.fragments_bad += 1;
            return None;
        }
        let protocol = if ip.source.is_ipv4() { ip.protocol } else { 0 };
        let (source, destination) = (ip.source, ip.destination);
        let key = Key { tags: tags.to_vec(), source, destination, id: part.id, protocol };
        let room = bytes.len() + FRAGMENT_COST;
        while self.bytes + room > limits.bytes {
            if !self.forget_oldest(counters) {
                counters.fragments_bad += 1;
                return None;
            }
        }
        if self.datagrams.is_empty() {
            self.oldest = time;
        }
        let datagram = self.datagrams.entry(key.clone()).or_insert_with(|| Datagram {
            since: time,
            order: self.begun,
            pieces: Vec::new(),
            length: None,
            protocol: None,
            have: 0,
            refused: false,
            tunnel,
            depth,
        });
        self.begun += 1;
        match datagram.add(part, bytes, ip.protocol) {
            Added::Doubled => counters.fragments_doubled += 1,
            Added::Refused => {
                counters.fragments_overlapping += 1;
                // The key is retained, so that the remaining fragments are rejected too.
                self.bytes = self.bytes.saturating_sub(datagram.clear()) + FRAGMENT_COST;
            }
            Added::Piece => self.bytes += room,
            Added::Whole => {
                let datagram = self.datagrams.remove(&key)?;
                self.bytes = self.bytes.saturating_sub(datagram.size());
                counters.fragments_joined += datagram.pieces.len() as u64 + 1;
                return Some(datagram.join(part.offset, bytes));
            }
        }
        None
    }

    pub(super) fn pending(&self) -> u64 {
        self.datagrams.values().map(|datagram| datagram.pieces.len() as u64).sum()
    }

    pub(super) fn beginning(&mut self) -> Option<Beginning> {
        self.beginnings.pop()
    }

    /// Discards all datagrams; returns whether the start of one is available.
    pub(super) fn end(&mut self, counters: &mut Counters) -> bool {
        self.give_up(counters, |_| true);
        !self.beginnings.is_empty()
    }

    fn expire(&mut self, time: Time, limits: &FragmentLimits, counters: &mut Counters) {
        if !self.datagrams.is_empty() && time.since(self.oldest) > limits.time {
            self.give_up(counters, |since| time.since(since) > limits.time);
        }
    }

    /// Discards the older half, so that the cost per fragment is constant during a flood.
    fn forget_oldest(&mut self, counters: &mut Counters) -> bool {
        let mut begins: Vec<Time> =
            self.datagrams.values().map(|datagram| datagram.since).collect();
        if begins.is_empty() {
            return false;
        }
        let middle = begins.len() / 2;
        let limit = *begins.select_nth_unstable(middle).1;
        self.give_up(counters, |since| since <= limit);
        true
    }

    /// Discards datagrams, selected by their start time.
    fn give_up(&mut self, counters: &mut Counters, old: impl Fn(Time) -> bool) {
        let mut oldest: Option<Time> = None;
        let (bytes, beginnings) = (&mut self.bytes, &mut self.beginnings);
        let start = beginnings.len();
        self.datagrams.retain(|key, datagram| {
            if old(datagram.since) {
                *bytes = bytes.saturating_sub(datagram.size());
                counters.fragments_expired += datagram.pieces.len() as u64;
                beginnings.extend(datagram.beginning(key));
                return false;
            }
            oldest = Some(oldest.map_or(datagram.since, |oldest| oldest.min(datagram.since)));
            true
        });
        self.oldest = oldest.unwrap_or_default();
        // The map has a random order. Sorted in reverse, because the last one is removed first.
        beginnings[start..].sort_unstable_by_key(|beginning| std::cmp::Reverse(beginning.order));
    }
}

enum Added {
    Piece,
    Doubled,
    Refused,
    Whole,
}

impl Datagram {
    fn add(&mut self, part: Part, bytes: &[u8], protocol: u8) -> Added {
        if self.refused {
            return Added::Doubled;
        }
        let end = part.offset + bytes.len() as u32;
        let at = self.pieces.partition_point(|(offset, _)| *offset < part.offset);
        if let Some((offset, piece)) = self.pieces.get(at)
            && *offset == part.offset
            && **piece == *bytes
        {
            return Added::Doubled;
        }
        let before = at.checked_sub(1).map(|at| &self.pieces[at]);
        let overlaps = before
            .is_some_and(|(offset, piece)| offset + piece.len() as u32 > part.offset)
            || self.pieces.get(at).is_some_and(|(offset, _)| *offset < end);
        let behind = self.pieces.last().map_or(0, |(offset, piece)| offset + piece.len() as u32);
        let length = if part.more { self.length } else { Some(end) };
        let beyond = length.is_some_and(|length| end > length || behind > length)
            || !part.more && self.length.is_some_and(|length| length != end);
        if overlaps || beyond {
            return Added::Refused;
        }
        self.length = length;
        if part.offset == 0 {
            self.protocol = Some(protocol);
        }
        self.have += bytes.len() as u32;
        if self.length == Some(self.have) && self.protocol.is_some() {
            return Added::Whole;
        }
        self.pieces.insert(at, (part.offset, bytes.into()));
        Added::Piece
    }

    /// The bytes from the start of the datagram up to the first gap.
    fn beginning(&mut self, key: &Key) -> Option<Beginning> {
        let protocol = self.protocol.filter(|_| !self.refused)?;
        let furthest = self.pieces.last().map(|(at, piece)| at + piece.len() as u32);
        let mut bytes = Vec::new();
        for (at, piece) in &self.pieces {
            if *at as usize != bytes.len() {
                break;
            }
            bytes.extend_from_slice(piece);
        }
        let end = self.length.or(furthest).unwrap_or_default();
        let missing = end.saturating_sub(bytes.len() as u32).max(1);
        let within = Within { tags: key.tags.clone(), tunnel: self.tunnel, depth: self.depth };
        let (source, destination, order) = (key.source, key.destination, self.order);
        Some(Beginning { order, within, source, destination, protocol, bytes, missing })
    }

    fn size(&self) -> usize {
        let refused = if self.refused { FRAGMENT_COST } else { 0 };
        self.pieces.iter().map(|(_, piece)| piece.len() + FRAGMENT_COST).sum::<usize>() + refused
    }

    /// Drops the content but not the rejection; returns the number of freed bytes.
    fn clear(&mut self) -> usize {
        let size = self.size();
        self.pieces = Vec::new();
        self.refused = true;
        size
    }

    /// The whole datagram; `bytes` at `offset` completed it.
    fn join(self, offset: u32, bytes: &[u8]) -> Whole {
        let mut all = Vec::with_capacity(self.have as usize);
        let mut last = Some(bytes);
        for (at, piece) in &self.pieces {
            if *at > offset
                && let Some(bytes) = last.take()
            {
                all.extend_from_slice(bytes);
            }
            all.extend_from_slice(piece);
        }
        all.extend_from_slice(last.unwrap_or_default());
        Whole { protocol: self.protocol.unwrap_or_default(), bytes: all }
    }
}
