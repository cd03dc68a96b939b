//! What must come out: slow, simple, and nothing of the project in it.
//!
//! Each byte of each direction goes into a map by its place in the stream; the first one that was
//! captured of a place counts. A message must come out if all its places are taken.

use std::collections::BTreeMap;
use std::net::IpAddr;

use crate::damage::Damaged;
use crate::packet::{FIN, Original, SYN};

/// What one end of one connection sent, as far as it was captured.
#[derive(Clone, Debug, Default)]
pub(crate) struct Expected {
    pub(crate) connection: usize,
    /// Messages, with their numbers in the stream.
    pub(crate) messages: Vec<(usize, Vec<u8>)>,
    /// Bytes between the first one and the last one that are known of and were never captured.
    pub(crate) missing: u64,
    /// Bytes that were captured and belong to no whole message.
    pub(crate) skipped: u64,
    /// Messages of the stream.
    pub(crate) sent: usize,
}

/// Who sent to whom, by which mirror.
pub(crate) type Way = (u16, IpAddr, IpAddr);

#[derive(Default)]
struct Half {
    bytes: BTreeMap<u64, u8>,
    seen: bool,
    syn: bool,
    fin: Option<u64>,
    /// Up to where something is known to have been sent.
    known: u64,
}

/// By way, and in the order in which the connections began.
pub(crate) fn expect(original: &Original, damaged: &Damaged) -> BTreeMap<Way, Vec<Expected>> {
    let mut halves: BTreeMap<(u16, usize, usize), Half> = BTreeMap::new();
    let mut ways = BTreeMap::new();
    for packet in damaged.packets.iter().filter(|packet| packet.flipped.is_none()) {
        let key = (packet.mirror, packet.connection, packet.side);
        ways.insert(key, (packet.mirror, packet.from.ip(), packet.to.ip()));
        let half = halves.entry(key).or_default();
        let end = packet.offset + packet.payload.len() as u64;
        half.syn |= packet.flags & SYN != 0;
        half.seen |= packet.flags & (SYN | FIN) != 0 || !packet.payload.is_empty();
        if packet.flags & FIN != 0 {
            half.fin = Some(end);
        }
        let kept = packet.kept.unwrap_or(packet.payload.len());
        for (byte, at) in packet.payload[..kept].iter().zip(packet.offset..) {
            half.bytes.entry(at).or_insert(*byte);
        }
        if !packet.payload.is_empty() {
            half.known = half.known.max(end);
        }
        // What is acknowledged was sent; nothing can be said of a stream without a beginning.
        let other = halves.get_mut(&(packet.mirror, packet.connection, 1 - packet.side));
        if let Some(other) = other.filter(|other| other.seen) {
            other.known = other.known.max(packet.acked.min(u64::from(u32::MAX >> 1)));
        }
    }
    let mut expected: BTreeMap<Way, Vec<Expected>> = BTreeMap::new();
    for (key, half) in halves {
        let stream = &original.streams[&(damaged.original(key.1), key.2)];
        let messages = stream.messages.iter().map(|range| (range.start as u64, range.end as u64));
        let one = Expected { connection: key.1, ..half.expect(messages) };
        expected.entry(ways[&key]).or_default().push(one);
    }
    expected
}

impl Half {
    fn expect(self, messages: impl Iterator<Item = (u64, u64)>) -> Expected {
        let mut expected = Expected::default();
        let first = self.bytes.keys().next().copied();
        let start = if self.syn { 0 } else { first.unwrap_or(0) };
        let end = self.fin.unwrap_or(self.known);
        if self.syn || first.is_some() {
            let all = end.saturating_sub(start);
            expected.missing = all - self.bytes.range(start..end.max(start)).count() as u64;
        }
        let mut whole = 0;
        for (number, (from, to)) in messages.enumerate() {
            expected.sent += 1;
            let bytes: Vec<u8> = self.bytes.range(from..to).map(|(_, byte)| *byte).collect();
            if bytes.len() as u64 == to - from {
                whole += to - from;
                expected.messages.push((number, bytes));
            }
        }
        expected.skipped = self.bytes.len() as u64 - whole;
        expected
    }
}
