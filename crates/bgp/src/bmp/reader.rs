//! Framing: packets out of a stream, and how to go on where it is damaged.

use super::{HEADER, Packet, VERSION, kind};
use crate::mrt::{Cause, Damage};

/// Longest packet that is believed, in bytes: a Peer Up with two extended messages takes 128 kB.
const LIMIT: usize = 1 << 20;

/// What a [`Reader`] says of the bytes that it was given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step<'a> {
    /// They begin with a packet of `packet.bytes.len()` bytes: hand in what follows it next.
    Packet(Packet<'a>),
    /// Hand in at least as many, from the same place on.
    Need(usize),
    /// Some belong to no packet: hand in what follows [`Damage::skipped`] of them next.
    Damaged(Damage),
    /// There are none.
    End,
}

/// Frames packets. It holds no bytes: who calls it does.
///
/// What is no header is skipped up to two headers in a row, or one and the end.
#[derive(Clone, Debug, Default)]
pub struct Reader {
    offset: u64,
    lost: bool,
}

impl Reader {
    /// A reader at the start of a stream.
    pub fn new() -> Self {
        Self::default()
    }

    /// Bytes of the stream that were read or skipped.
    pub const fn offset(&self) -> u64 {
        self.offset
    }

    /// What `bytes` begin with. `end` says that no others will come.
    pub fn next<'a>(&mut self, bytes: &'a [u8], end: bool) -> Step<'a> {
        let Some(header) = bytes.first_chunk::<HEADER>() else {
            return match (bytes.is_empty(), end) {
                (true, true) => Step::End,
                (false, true) => self.skip(bytes.len(), Cause::Torn),
                _ => Step::Need(HEADER),
            };
        };
        if self.lost || !plausible(*header) {
            return self.search(bytes, end);
        }
        match Packet::split(bytes) {
            Some(packet) => {
                self.offset += packet.bytes.len() as u64;
                Step::Packet(packet)
            }
            None if end => self.skip(bytes.len(), Cause::Torn),
            None => Step::Need(length(*header)),
        }
    }

    fn skip(&mut self, skipped: usize, cause: Cause) -> Step<'static> {
        let offset = self.offset;
        self.offset += skipped as u64;
        Step::Damaged(Damage { offset, skipped, cause })
    }

    fn search<'a>(&mut self, bytes: &'a [u8], end: bool) -> Step<'a> {
        let first = usize::from(!self.lost);
        self.lost = true;
        for at in first..bytes.len() {
            let need = match chain(&bytes[at..]) {
                Chain::Sure => None,
                Chain::Ends(true) if end => None,
                Chain::Ends(_) if !end => Some(2 * HEADER),
                Chain::Need(need) if !end => Some(need),
                Chain::None | Chain::Ends(_) | Chain::Need(_) => continue,
            };
            self.lost = need.is_some();
            return match (at, need) {
                (0, Some(need)) => Step::Need(need.max(bytes.len() + 1)),
                (0, None) => self.next(bytes, end),
                _ => self.skip(at, Cause::Framing),
            };
        }
        self.skip(bytes.len(), Cause::Framing)
    }
}

/// What headers follow each other.
enum Chain {
    None,
    Sure,
    /// A packet ends where the bytes do.
    Ends(bool),
    Need(usize),
}

fn chain(bytes: &[u8]) -> Chain {
    let Some(&header) = bytes.first_chunk() else { return Chain::Need(HEADER) };
    if !plausible(header) {
        return Chain::None;
    }
    let length = length(header);
    match bytes.get(length..) {
        None => Chain::Need(length + HEADER),
        Some([]) => Chain::Ends(true),
        Some(rest) => match rest.first_chunk() {
            Some(next) if plausible(*next) => Chain::Sure,
            Some(_) => Chain::None,
            None => Chain::Ends(false),
        },
    }
}

/// Bytes of the whole packet, by its header.
pub(super) fn length(header: [u8; HEADER]) -> usize {
    u32::from_be_bytes([header[1], header[2], header[3], header[4]]) as usize
}

fn plausible(header: [u8; HEADER]) -> bool {
    // Types that are not known here stay opaque while their numbers are small.
    let least = match header[5] {
        kind::INITIATION | kind::TERMINATION => HEADER,
        kind::ROUTE_MONITORING..=kind::ROUTE_MIRRORING => HEADER + 42,
        7..=31 => HEADER,
        _ => return false,
    };
    header[0] == VERSION && (least..=LIMIT).contains(&length(header))
}
