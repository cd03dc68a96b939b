//! Fragments of IPv4 and IPv6, put together within bounds of memory and time.

use std::net::IpAddr;

use base::{Span, Time};
use rustc_hash::FxHashMap;

use super::ip::{Ip, Part};
use super::{Counters, Tag};

/// Longest datagram.
const LENGTH_MAX: u32 = 65_535;
/// Bytes that a fragment is counted as, beside its own.
const OVERHEAD: usize = 128;

/// Bounds on what is kept of incomplete datagrams.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FragmentLimits {
    /// Memory, in bytes.
    pub bytes: usize,
    /// How long a datagram may take, by the capture's time (RFC 8200 §4.5: 60 s).
    pub time: Span,
}

impl Default for FragmentLimits {
    fn default() -> Self {
        Self { bytes: 4 << 20, time: Span::from_secs(60) }
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
    /// In the order of their offsets, without overlap.
    pieces: Vec<(u32, Box<[u8]>)>,
    /// Its length, once the last fragment came.
    length: Option<u32>,
    /// What it carries, once the first came.
    protocol: Option<u8>,
    have: u32,
    /// Fragments overlapped: nothing of it is used (RFC 5722 §3).
    refused: bool,
}

/// A datagram that became whole.
pub(super) struct Whole {
    pub(super) protocol: u8,
    pub(super) bytes: Vec<u8>,
}

/// Incomplete datagrams.
#[derive(Debug, Default)]
pub(super) struct Fragments {
    datagrams: FxHashMap<Key, Datagram>,
    bytes: usize,
    /// When the oldest one began, or before.
    oldest: Time,
}

impl Fragments {
    /// Adds a fragment; answers the datagram if that makes it whole.
    pub(super) fn add(
        &mut self,
        time: Time,
        tags: &[Tag],
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
            pieces: Vec::new(),
            length: None,
            protocol: None,
            have: 0,
            refused: false,
        });
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

    fn expire(&mut self, time: Time, limits: &FragmentLimits, counters: &mut Counters) {
        if self.datagrams.is_empty() || time.since(self.oldest) <= limits.time {
            return;
        }
        let mut freed = 0;
        let mut oldest = time;
        self.datagrams.retain(|_, datagram| {
            let stays = time.since(datagram.since) <= limits.time;
            if stays {
                oldest = oldest.min(datagram.since);
            } else {
                freed += datagram.size();
                counters.fragments_expired += datagram.pieces.len() as u64;
            }
            stays
        });
        self.oldest = oldest;
        self.bytes = self.bytes.saturating_sub(freed);
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
        let mut freed = 0;
        self.datagrams.retain(|_, datagram| {
            let stays = datagram.since > limit;
            if !stays {
                freed += datagram.size();
                counters.fragments_expired += datagram.pieces.len() as u64;
            }
            stays
        });
        self.bytes = self.bytes.saturating_sub(freed);
        true
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
