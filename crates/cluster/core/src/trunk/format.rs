//! The layout of datagrams and messages.

use base::{IfaceId, Time};

/// Bytes of a datagram before the sealed part.
pub(super) const CLEAR: usize = 16;
pub(super) const TRAILER: usize = 16;
pub(super) const TAG: usize = 16;
/// Bytes of a datagram after the content.
pub(super) const SEALED: usize = TRAILER + TAG;
/// Bytes of a message before its virtio header.
pub(super) const RECORD: usize = 16;
/// Bytes of a virtio header.
pub(super) const VIRTIO: usize = 10;
pub(super) const MAX_MESSAGE_BYTES: usize = RECORD + VIRTIO + 65_536;
/// Every IPv6 link must carry larger datagrams (RFC 8200 §5).
pub(super) const MIN_DATAGRAM_BYTES: usize = 512;

/// A packet or super-packet for another machine.
#[derive(Clone, Copy, Debug)]
pub struct Message<'a> {
    /// The destination interface.
    pub iface: IfaceId,
    /// Due time at that interface, in lab time.
    pub due: Time,
    /// 4 or 6.
    pub version: u8,
    /// Describes its segmentation and the completion of its checksum.
    pub virtio: [u8; VIRTIO],
    /// Its headers, from the IP header on.
    pub headers: &'a [u8],
    pub payload: &'a [u8],
}

impl Message<'_> {
    pub(super) fn head(&self) -> [u8; RECORD + VIRTIO] {
        let length = VIRTIO + self.headers.len() + self.payload.len();
        let mut head = [0; RECORD + VIRTIO];
        head[..4].copy_from_slice(&((length as u32) << 8 | u32::from(self.version)).to_be_bytes());
        head[4..8].copy_from_slice(&self.iface.0.to_be_bytes());
        head[8..RECORD].copy_from_slice(&self.due.as_nanos().to_be_bytes());
        head[RECORD..].copy_from_slice(&self.virtio);
        head
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Trailer {
    pub(super) sent: Time,
    pub(super) position: usize,
    pub(super) left: usize,
    pub(super) back: usize,
}

impl Trailer {
    pub(super) fn encode(&self) -> [u8; TRAILER] {
        let (position, left) = (self.position as u64, self.left as u64);
        let rest = position << 40 | left << 16 | (self.back as u64) << 8;
        (u128::from(self.sent.as_nanos()) << 64 | u128::from(rest)).to_be_bytes()
    }

    pub(super) fn decode(bytes: [u8; TRAILER]) -> Self {
        let both = u128::from_be_bytes(bytes);
        let rest = both as u64;
        Self {
            sent: Time::from_nanos((both >> 64) as u64),
            position: (rest >> 40) as usize,
            left: (rest >> 16 & 0xff_ffff) as usize,
            back: (rest >> 8 & 0xff) as usize,
        }
    }

    /// Writes the send time into an encoded trailer.
    pub(super) fn stamp(trailer: &mut [u8], now: Time) {
        trailer[..8].copy_from_slice(&now.as_nanos().to_be_bytes());
    }
}
