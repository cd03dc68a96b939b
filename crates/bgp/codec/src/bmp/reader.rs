//! Framing: packets from a stream, and resynchronisation after damage.

use super::{HEADER, Packet, VERSION, kind, length};
use crate::mrt::{Cause, Damage};

/// Maximum packet length in bytes: a Peer Up with two extended messages takes 128 kB.
const LIMIT: usize = 1 << 20;

/// Result of [`Reader::next`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step<'a> {
    /// The bytes begin with a packet of `packet.bytes.len()` bytes; the next call starts after it.
    Packet(Packet<'a>),
    /// At least this many bytes from the same position are required.
    Need(usize),
    /// [`Damage::skipped`] bytes belong to no packet; the next call starts after them.
    Damaged(Damage),
    /// No bytes are left.
    End,
}

/// Frames packets. The caller holds the bytes.
///
/// After damage, the reader skips to two consecutive headers, or to one header whose packet ends
/// with the input.
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

    /// Bytes of the stream that have been read or skipped.
    pub const fn offset(&self) -> u64 {
        self.offset
    }

    /// Frames the packet at the start of `bytes`. With `end`, no more bytes follow.
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

/// Whether two consecutive headers are required.
enum Chain {
    None,
    Sure,
    /// Whether a packet may end with the input.
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

fn plausible(header: [u8; HEADER]) -> bool {
    // Unknown types are accepted while their numbers are small.
    let least = match header[5] {
        kind::INITIATION | kind::TERMINATION => HEADER,
        kind::ROUTE_MONITORING..=kind::ROUTE_MIRRORING => HEADER + 42,
        7..=31 => HEADER,
        _ => return false,
    };
    header[0] == VERSION && (least..=LIMIT).contains(&length(header))
}
