//! Bundles whose packets travel inside UDP datagrams between the boxes.
//!
//! The payload of a datagram is a header and one whole IP packet. The header numbers the packets,
//! so their digests need nothing of what they carry, and duplicates and losses show. Its tag makes
//! numbers unforgeable; the packet itself is neither hidden nor protected.
//!
//! | at | bytes | field |
//! |---|---|---|
//! | 0 | 2 | magic, 0x4e42 |
//! | 2 | 1 | version, 1 |
//! | 3 | 1 | type, 4 |
//! | 4 | 4 | bundle |
//! | 8 | 8 | sendbox's incarnation, not 0 |
//! | 16 | 8 | sequence number within the incarnation, from 1 |
//! | 24 | 8 | SipHash-2-4 of all before it and of the packet's length (8), in words |
//! | 32 | | packet |

#[cfg(test)]
mod tests;

use std::ops::Range;

use crate::association::window::ReplayWindow;
use crate::digest::{self, DigestKey, Key, TagKey, word};
use crate::message::{ENCAPSULATED, MAGIC, VERSION};
use crate::rejection::Rejection;

/// Bytes of the header.
pub const HEADER: usize = 32;
/// What the tag covers of the header.
const SIGNED: usize = 24;
/// Words of the replay window: 8,192 packets, 100 ms of a gigabit per second.
const WINDOW: usize = 129;

/// Bytes that encapsulation adds to each packet, behind the link's own header: what the MTU inside
/// the bundle is less than that of the path.
pub const fn overhead(outer_is_v6: bool) -> u32 {
    let ip = if outer_is_v6 { 40 } else { 20 };
    ip + 8 + HEADER as u32
}

/// What the boxes add to the size of each packet of an encapsulated bundle, whichever the outer
/// protocol: both must count alike, and neither knows how the other reached it.
pub const OVERHEAD: u32 = overhead(false);

/// What precedes a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// The bundle.
    pub bundle: u32,
    /// The sendbox's incarnation.
    pub incarnation: u64,
    /// Counts the packets of the incarnation, from 1.
    pub sequence: u64,
}

/// An encapsulated packet that was accepted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Opened {
    /// Where in the payload the packet is.
    pub inner: Range<usize>,
    /// Its digest; `None` if the sendbox's incarnation has not been adopted, so that the packet
    /// may be an old one sent again and must not be counted.
    pub digest: Option<u64>,
}

/// The bundle that the payload of a datagram claims to belong to, before anything is checked;
/// `None` if it is no encapsulated packet of this version.
pub fn bundle_of(payload: &[u8]) -> Option<u32> {
    Header::parse(payload).ok().map(|header| header.bundle)
}

/// Makes the headers of a bundle at the sendbox.
#[derive(Clone, Debug)]
pub struct Encapsulator {
    tag: TagKey,
}

impl Encapsulator {
    /// For the bundle with this key.
    pub const fn new(key: &Key) -> Self {
        Self { tag: key.tag() }
    }

    /// The bytes that precede a packet of `length` bytes.
    pub fn seal(&self, header: Header, length: usize) -> [u8; HEADER] {
        let mut bytes = [0; HEADER];
        bytes[..8].copy_from_slice(&start(header.bundle).to_be_bytes());
        bytes[8..16].copy_from_slice(&header.incarnation.to_be_bytes());
        bytes[16..SIGNED].copy_from_slice(&header.sequence.to_be_bytes());
        bytes[SIGNED..].copy_from_slice(&tag(self.tag, header, length));
        bytes
    }
}

impl Header {
    /// Reads the header of a payload. Its tag is not checked.
    pub fn parse(payload: &[u8]) -> Result<Self, Rejection> {
        let Some(bytes) = payload.first_chunk::<HEADER>() else {
            return Err(Rejection::Truncated { field: "header", at: 0 });
        };
        let number = |at: usize| word(bytes, at);
        let magic = u16::from_be_bytes([bytes[0], bytes[1]]);
        if magic != MAGIC {
            return Err(Rejection::Foreign(magic));
        }
        if bytes[2] != VERSION {
            return Err(Rejection::UnknownVersion(bytes[2]));
        }
        if bytes[3] != ENCAPSULATED {
            return Err(Rejection::UnknownType(bytes[3]));
        }
        let (incarnation, sequence) = (number(8), number(16));
        if incarnation == 0 {
            return Err(Rejection::BadValue { field: "incarnation", at: 8, value: 0 });
        }
        if sequence == 0 {
            return Err(Rejection::BadValue { field: "sequence number", at: 16, value: 0 });
        }
        if payload.len() == HEADER {
            return Err(Rejection::Truncated { field: "packet", at: HEADER });
        }
        Ok(Self { bundle: number(0) as u32, incarnation, sequence })
    }

    /// The packet's digest.
    pub fn digest(&self, key: &DigestKey) -> u64 {
        digest::of_sequence(key, self.incarnation, self.sequence)
    }
}

/// Takes the headers of a bundle off at the receivebox.
#[derive(Clone, Debug)]
pub struct Decapsulator {
    bundle: u32,
    tag: TagKey,
    digest: DigestKey,
    adopted: Option<u64>,
    window: ReplayWindow<WINDOW>,
}

impl Decapsulator {
    /// For the bundle with this number and key.
    pub fn new(bundle: u32, key: &Key) -> Self {
        Self {
            bundle,
            tag: key.tag(),
            digest: key.digest(),
            adopted: None,
            window: ReplayWindow::default(),
        }
    }

    /// Believes this incarnation of the sendbox from now on.
    pub fn adopt(&mut self, incarnation: u64) {
        if self.adopted != Some(incarnation) {
            self.adopted = Some(incarnation);
            self.window = ReplayWindow::default();
        }
    }

    /// Takes any payload of a datagram. A packet of the adopted incarnation is accepted once.
    pub fn open(&mut self, payload: &[u8]) -> Result<Opened, Rejection> {
        let header = Header::parse(payload)?;
        if header.bundle != self.bundle {
            return Err(Rejection::UnknownBundle(header.bundle));
        }
        let expected = tag(self.tag, header, payload.len() - HEADER);
        if !equal(&payload[SIGNED..HEADER], &expected) {
            return Err(Rejection::BadTag);
        }
        let inner = HEADER..payload.len();
        if self.adopted != Some(header.incarnation) {
            return Ok(Opened { inner, digest: None });
        }
        self.window.take(header.sequence)?;
        Ok(Opened { inner, digest: Some(header.digest(&self.digest)) })
    }
}

/// The tag of a packet of `length` bytes behind this header.
fn tag(key: TagKey, header: Header, length: usize) -> [u8; 8] {
    let Header { bundle, incarnation, sequence } = header;
    key.tag([start(bundle), incarnation, sequence, length as u64]).to_be_bytes()
}

/// The first eight bytes of a header.
fn start(bundle: u32) -> u64 {
    u64::from(MAGIC) << 48
        | u64::from(VERSION) << 40
        | u64::from(ENCAPSULATED) << 32
        | u64::from(bundle)
}

/// Takes the same time wherever they differ.
fn equal(one: &[u8], other: &[u8]) -> bool {
    one.iter().zip(other).fold(0, |differs, (a, b)| differs | (a ^ b)) == 0
}
