//! The expected output, computed slowly and simply, without code of the project.
//!
//! Each byte of each direction is stored in a map by its position in the stream; the first captured
//! byte of a position counts. A message may be delivered if all its positions are known. It must be
//! delivered if the start of the stream, a header before the gap or the distance from the gap
//! determines where it starts.

use std::collections::BTreeMap;
use std::net::IpAddr;

use crate::damage::Damaged;
use crate::packet::{FIN, Original, SYN};

/// The captured bytes that one end of one connection sent.
#[derive(Clone, Debug, Default)]
pub(crate) struct Expected {
    pub(crate) connection: usize,
    /// Messages of the stream; `None` where bytes are missing.
    pub(crate) messages: Vec<Option<Vec<u8>>>,
    pub(crate) certain: Vec<bool>,
    /// Bytes between the first and the last one that are known to exist and were never captured.
    pub(crate) missing: u64,
    pub(crate) captured: u64,
}

impl Expected {
    pub(crate) fn whole(&self) -> impl Iterator<Item = &Vec<u8>> {
        self.messages.iter().flatten()
    }
}

pub(crate) type Way = (u16, IpAddr, IpAddr);

#[derive(Default)]
struct Half {
    bytes: BTreeMap<u64, u8>,
    seen: bool,
    syn: bool,
    fin: Option<u64>,
    /// End of the bytes that are known to have been sent.
    known: u64,
}

/// By direction, in the order in which the connections began.
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
        // Acknowledged bytes were sent; a stream without a start is not judged.
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
        expected.captured = self.bytes.len() as u64;
        let messages: Vec<(u64, u64)> = messages.collect();
        let longest = messages.iter().map(|(from, to)| to - from).max().unwrap_or(0);
        // A search ends after the maximum message length, and one more message.
        let open: Vec<u8> = self.bytes.values().take(200).copied().collect();
        let offers = open.windows(2).any(|pair| pair == [6, 0]);
        let extended = longest > 4096 || offers || self.bytes.range(0..100).count() < 100;
        let search = if extended { 131_072 } else { 9_000 };
        let (mut known, mut run) = (self.syn, start);
        for (from, to) in messages {
            let bytes: Vec<u8> = self.bytes.range(from..to).map(|(_, byte)| *byte).collect();
            let is_whole = bytes.len() as u64 == to - from;
            known |= is_whole && from > run + search;
            expected.messages.push(is_whole.then_some(bytes));
            expected.certain.push(is_whole && known);
            if !is_whole {
                let missing = |at: &u64| !self.bytes.contains_key(at);
                let gaps =
                    (from..to).filter(|at| missing(at) && (*at == from || !missing(&(at - 1))));
                known &= gaps.count() == 1 && !(from..to.min(from + 19)).any(|at| missing(&at));
                run = (from..to).filter(missing).max().unwrap_or(from) + 1;
            }
        }
        expected
    }
}
