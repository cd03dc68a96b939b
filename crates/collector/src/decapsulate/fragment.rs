//! Fragments of IPv4 and IPv6, put together within bounds of memory and time.

use std::collections::HashMap;
use std::net::IpAddr;

use base::{Span, Time};

use super::ip::{Ip, Part};
use super::{Counters, Tag, TunnelId};

/// Longest datagram.
const LENGTH_MAX: u32 = 65_535;
/// Bytes that a fragment is counted as, beside its own.
const OVERHEAD: usize = 128;

/// Bounds on what is kept of incomplete datagrams.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FragmentLimits {
    /// Memory, in bytes.
    pub bytes: usize,
    /// How long a datagram may take, by the capture's time. A receiver waits for a minute
    /// (RFC 8200 §4.5); fragments that were cloned follow each other at once.
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
    /// IPv4 tells datagrams of different protocols apart.
    protocol: u8,
}

/// What came of a datagram so far.
#[derive(Debug)]
struct Datagram {
    since: Time,
    /// Later ones have a higher number.
    order: u64,
    /// In the order of their offsets, without overlap.
    pieces: Vec<(u32, Box<[u8]>)>,
    /// Its length, once the last fragment came.
    length: Option<u32>,
    /// What it carries, once the first came.
    protocol: Option<u8>,
    have: u32,
    /// Fragments overlapped: nothing of it is used (RFC 5722 §3).
    refused: bool,
    tunnel: Option<TunnelId>,
    depth: u8,
}

/// A datagram that became whole.
pub(super) struct Whole {
    pub(super) protocol: u8,
    pub(super) bytes: Vec<u8>,
}

/// The beginning of a datagram whose end did not come.
#[derive(Debug)]
pub(super) struct Beginning {
    order: u64,
    pub(super) within: Within,
    pub(super) source: IpAddr,
    pub(super) destination: IpAddr,
    pub(super) protocol: u8,
    pub(super) bytes: Vec<u8>,
    /// At least so much is missing.
    pub(super) missing: u32,
}

/// What a datagram was found in.
#[derive(Debug)]
pub(super) struct Within {
    pub(super) tags: Vec<Tag>,
    pub(super) tunnel: Option<TunnelId>,
    pub(super) depth: u8,
}

/// Incomplete datagrams.
#[derive(Debug, Default)]
pub(super) struct Fragments {
    /// Datagrams that were given up and are still to be read as far as they are there.
    beginnings: Vec<Beginning>,
    datagrams: HashMap<Key, Datagram>,
    /// The next datagram's `order`: fragments that were added.
    begun: u64,
    bytes: usize,
    /// When the oldest one began, or before.
    oldest: Time,
}

impl Fragments {
    /// Adds a fragment; answers the datagram if that makes it whole.
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
        let room = bytes.len() + OVERHEAD;
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
                // Its key stays, so that the rest of it is refused too.
                self.bytes = self.bytes.saturating_sub(datagram.clear()) + OVERHEAD;
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

    /// Fragments that wait.
    pub(super) fn pending(&self) -> u64 {
        self.datagrams.values().map(|datagram| datagram.pieces.len() as u64).sum()
    }

    /// A datagram that was given up.
    pub(super) fn beginning(&mut self) -> Option<Beginning> {
        self.beginnings.pop()
    }

    /// Gives up all.
    pub(super) fn end(&mut self, counters: &mut Counters) {
        self.give_up(counters, |_| true);
    }

    fn expire(&mut self, time: Time, limits: &FragmentLimits, counters: &mut Counters) {
        if !self.datagrams.is_empty() && time.since(self.oldest) > limits.time {
            self.give_up(counters, |since| time.since(since) > limits.time);
        }
    }

    /// Forgets the older half: a flood then costs each of its fragments a constant time.
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

    /// Gives up datagrams by the time at which they began.
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
        // The map has a random order; the last one is taken first.
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

    /// What is there of it without a hole, from its first byte on.
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

    /// What it is counted as.
    fn size(&self) -> usize {
        let refused = if self.refused { OVERHEAD } else { 0 };
        self.pieces.iter().map(|(_, piece)| piece.len() + OVERHEAD).sum::<usize>() + refused
    }

    /// Drops all of it but that it was refused; answers what that frees.
    fn clear(&mut self) -> usize {
        let size = self.size();
        self.pieces = Vec::new();
        self.refused = true;
        size
    }

    /// All of it; `bytes` at `offset` are what made it whole.
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
