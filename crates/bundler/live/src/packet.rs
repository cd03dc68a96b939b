//! Packets of the kernel: single ones, and super-packets of many segments that a network card or
//! the kernel has coalesced. Gateways process each segment as the packet on the wire, and pass
//! segments back to the kernel coalesced if they leave together.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use bundler::digest::{self, DigestKey};
use wire::{Change, Header, Offload, Protocol, SuperPacket, VIRTIO_HEADER, checksum};

/// Maximum length of a read: virtio header and 64 KiB.
const MAX_LEN: usize = VIRTIO_HEADER + 65_536;
/// Maximum size of packets that are copied out of the read buffer, which is cheaper
/// than keeping it.
const COPIED: usize = 4096;
/// Maximum number of read buffers kept for reuse.
const MAX_SPARE: usize = 64;
/// Bytes after the IP header that a digest covers.
const DIGESTED: usize = 20;

/// A pool of read buffers.
#[derive(Clone, Debug, Default)]
pub(crate) struct Pool(Rc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    spare: RefCell<Vec<Vec<u8>>>,
    held: Cell<usize>,
}

/// The result of one read: a packet, or a super-packet.
#[derive(Debug)]
pub(crate) struct Packet {
    bytes: Vec<u8>,
    start: usize,
    pub(crate) header: Header,
    layout: SuperPacket,
    /// All segments have the identification 0, like those of hosts that do not need it (RFC 6864
    /// §4.1).
    fixed_id: bool,
    pool: Pool,
}

#[derive(Clone, Debug)]
pub(crate) struct Segment {
    pub(crate) packet: Rc<Packet>,
    pub(crate) number: u16,
}

impl Pool {
    /// Calls `read` with a buffer for one packet. `None`: not a packet.
    pub(crate) fn read<E>(
        &self,
        read: impl FnOnce(&mut Vec<u8>) -> Result<usize, E>,
    ) -> Result<Option<Rc<Packet>>, E> {
        let spare = self.0.spare.borrow_mut().pop();
        let mut bytes = spare.unwrap_or_else(|| Vec::with_capacity(MAX_LEN));
        let result = read(&mut bytes);
        if let Err(error) = result {
            self.give_back(bytes);
            return Err(error);
        }
        Ok(self.packet(bytes).map(Rc::new))
    }

    fn packet(&self, bytes: Vec<u8>) -> Option<Packet> {
        let understood = (|| {
            let (virtio, packet) = bytes.split_first_chunk::<VIRTIO_HEADER>()?;
            let header = Header::parse(packet)?;
            let offload = Offload::read(*virtio, 0);
            Some((header, SuperPacket::new(packet, &header, offload)?))
        })();
        let Some((header, layout)) = understood else {
            self.give_back(bytes);
            return None;
        };
        let (mut bytes, start) = if bytes.len() <= COPIED {
            let copy = bytes[VIRTIO_HEADER..].to_vec();
            self.give_back(bytes);
            (copy, 0)
        } else {
            (bytes, VIRTIO_HEADER)
        };
        let packet = &mut bytes[start..];
        let is_single = layout.count() == 1 && layout.offload().segment.is_none();
        let layout = if is_single {
            // The kernel left the checksum to the device, but the digest requires it.
            wire::finish_checksum(packet, layout.offload());
            SuperPacket::new(packet, &header, Offload::default())?
        } else {
            layout
        };
        let fixed_id = header.version == 4 && header.dont_fragment && packet[4..6] == [0, 0];
        self.0.held.set(self.0.held.get() + bytes.capacity());
        Some(Packet { bytes, start, header, layout, fixed_id, pool: self.clone() })
    }

    /// Memory of all packets in bytes.
    pub(crate) fn held(&self) -> usize {
        self.0.held.get()
    }

    fn give_back(&self, mut bytes: Vec<u8>) {
        let mut spare = self.0.spare.borrow_mut();
        if bytes.capacity() >= MAX_LEN && spare.len() < MAX_SPARE {
            bytes.clear();
            spare.push(bytes);
        }
    }
}

impl Drop for Packet {
    fn drop(&mut self) {
        let bytes = std::mem::take(&mut self.bytes);
        let held = &self.pool.0.held;
        held.set(held.get() - bytes.capacity());
        self.pool.give_back(bytes);
    }
}

impl Packet {
    /// All bytes from the IP header on.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes[self.start..]
    }

    pub(crate) fn count(&self) -> u16 {
        self.layout.count()
    }

    /// Layer-3 bytes of a segment.
    pub(crate) fn size(&self, number: u16) -> u32 {
        let (full, last) = self.layout.sizes();
        if number + 1 < self.count() { full } else { last }
    }

    /// Whether several segments can be passed to the kernel at once.
    pub(crate) fn can_be_joined(&self) -> bool {
        !self.fixed_id
    }

    fn change(&self, marked: bool) -> Change {
        Change { ttl: self.header.ttl, marked }
    }

    /// The digest of a segment as on the wire; `None` if it has none.
    pub(crate) fn digest(&self, key: &DigestKey, number: u16) -> Option<u64> {
        if self.layout.offload().segment.is_none() {
            return digest::of_packet(key, self.bytes());
        }
        digest_of(key, &self.layout, self.bytes(), number, self.fixed_id)
    }

    /// Passes `count` segments from `first` on to `write`: virtio header, headers, payload.
    pub(crate) fn pieces<T>(
        &self,
        first: u16,
        count: u16,
        marked: bool,
        write: impl FnOnce([&[u8]; 3]) -> T,
    ) -> T {
        let bytes = self.bytes();
        let whole = first == 0 && count == self.count();
        if whole && !marked && !(self.fixed_id && count > 1) {
            return write([&self.layout.offload().write(0), bytes, &[]]);
        }
        let mut piece = self.layout.piece(bytes, first, count, self.change(marked));
        let length = piece.header_length;
        if self.fixed_id {
            clear_id(&mut piece.headers[..length], self.header.ip_length);
        }
        let payload = bytes.get(piece.payload).unwrap_or_default();
        write([&piece.offload.write(0), &piece.headers[..length], payload])
    }

    /// Appends one segment with complete checksums.
    pub(crate) fn assemble(&self, number: u16, marked: bool, into: &mut Vec<u8>) {
        let bytes = self.bytes();
        let mut piece = self.layout.piece(bytes, number, 1, self.change(marked));
        let length = piece.header_length;
        if self.fixed_id {
            clear_id(&mut piece.headers[..length], self.header.ip_length);
        }
        let start = into.len();
        into.extend_from_slice(&piece.headers[..length]);
        into.extend_from_slice(bytes.get(piece.payload).unwrap_or_default());
        wire::finish_checksum(&mut into[start..], piece.offload);
    }
}

/// Sets the identification to 0, and updates the checksum.
fn clear_id(headers: &mut [u8], ip_length: u16) {
    headers[4..6].fill(0);
    headers[10..12].fill(0);
    let sum = checksum::of(&headers[..usize::from(ip_length)]);
    headers[10..12].copy_from_slice(&sum.to_be_bytes());
}

/// The digest of one segment of a super-packet, without writing the segment to memory.
fn digest_of(
    key: &DigestKey,
    layout: &SuperPacket,
    bytes: &[u8],
    number: u16,
    fixed_id: bool,
) -> Option<u64> {
    let piece = layout.piece(bytes, number, 1, Change::default());
    let (start, offset) = piece.offload.checksum?;
    let (start, length) = (usize::from(start), piece.header_length);
    let payload = bytes.get(piece.payload)?;
    let mut prefix = [0; wire::HEADER_MAX + DIGESTED];
    let more = payload.len().min(DIGESTED);
    prefix[..length].copy_from_slice(&piece.headers[..length]);
    prefix[length..length + more].copy_from_slice(&payload[..more]);
    if fixed_id {
        prefix[4..6].fill(0);
    }
    // The field contains the sum of the pseudo-header. Headers of TCP and UDP have an even length.
    let sum = checksum::add(checksum::add(0, prefix.get(start..length)?), payload);
    let sum = match !checksum::fold(sum) {
        0 => 0xffff,
        sum => sum,
    };
    let at = start + usize::from(offset);
    prefix.get_mut(at..at + 2)?.copy_from_slice(&sum.to_be_bytes());
    digest::of_packet(key, &prefix[..length + more])
}

/// Calls `each` with the layer-3 bytes and the digest of each segment of an observed packet or
/// super-packet.
pub(crate) fn each_segment(
    key: &DigestKey,
    bytes: &[u8],
    header: &Header,
    offload: Offload,
    mut each: impl FnMut(u32, u64),
) {
    let Some(layout) = SuperPacket::new(bytes, header, offload) else { return };
    if offload.segment.is_none() {
        let digest = match offload.checksum {
            None => digest::of_packet(key, bytes),
            Some(_) => complete_digest(key, bytes, header, offload),
        };
        if let Some(digest) = digest {
            each(bytes.len() as u32, digest);
        }
        return;
    }
    let fixed_id = header.version == 4 && header.dont_fragment && bytes[4..6] == [0, 0];
    let (full, last) = layout.sizes();
    for number in 0..layout.count() {
        let size = if number + 1 < layout.count() { full } else { last };
        if let Some(digest) = digest_of(key, &layout, bytes, number, fixed_id) {
            each(size, digest);
        }
    }
}

/// The digest of a packet whose checksum was left to the network card.
fn complete_digest(
    key: &DigestKey,
    bytes: &[u8],
    header: &Header,
    offload: Offload,
) -> Option<u64> {
    let (start, offset) = offload.checksum?;
    let at = usize::from(start) + usize::from(offset);
    let sum = match checksum::of(bytes.get(usize::from(start)..)?) {
        0 => 0xffff,
        sum => sum,
    };
    let ip = usize::from(header.ip_length);
    let end = bytes.len().min(ip + DIGESTED).min(wire::HEADER_MAX + DIGESTED);
    let mut prefix = [0; wire::HEADER_MAX + DIGESTED];
    prefix[..end].copy_from_slice(&bytes[..end]);
    prefix.get_mut(at..at + 2)?.copy_from_slice(&sum.to_be_bytes());
    digest::of_packet(key, &prefix[..end])
}

/// Position of TCP's options in a SYN, if they can be rewritten.
fn syn_options(packet: &[u8], header: &Header) -> Option<std::ops::Range<usize>> {
    const SYN: u8 = 2;
    let (flags, _) = header.tcp?;
    if header.protocol != Protocol::TCP || flags & SYN == 0 || header.is_fragment {
        return None;
    }
    let start = usize::from(header.ip_length);
    let end = start + usize::from(packet.get(start + 12)? >> 4) * 4;
    (end >= start + 20 && end <= packet.len()).then_some(start + 20..end)
}

/// Lowers the maximum segment size in a SYN (RFC 9293 §3.7.1), so that responses fit an
/// encapsulated path of `mtu` bytes. Checksums must be complete, and stay so.
pub(crate) fn clamp_segment_size(packet: &mut [u8], header: &Header, mtu: u32) {
    const END: u8 = 0;
    const PADDING: u8 = 1;
    const SEGMENT_SIZE: u8 = 2;
    let Some(options) = syn_options(packet, header) else { return };
    let headers = if header.version == 4 { 40 } else { 60 };
    let Ok(most) = u16::try_from(mtu.saturating_sub(headers)) else { return };
    let mut at = options.start;
    while at < options.end {
        let length = match packet[at] {
            END => return,
            PADDING => 1,
            _ => usize::from(packet.get(at + 1).copied().unwrap_or(0)),
        };
        if packet[at] == SEGMENT_SIZE && length == 4 && at + 4 <= options.end {
            let old = u16::from_be_bytes([packet[at + 2], packet[at + 3]]);
            if old > most {
                packet[at + 2..at + 4].copy_from_slice(&most.to_be_bytes());
                let odd = (at + 2 - options.start) % 2 == 1;
                let sum = options.start - 4;
                update_checksum(&mut packet[sum..sum + 2], old, most, odd);
            }
            return;
        }
        if length == 0 || (packet[at] != PADDING && length < 2) {
            return;
        }
        at += length;
    }
}

/// Updates a checksum for a changed word (RFC 1624 §3); a word at an odd offset counts with
/// its bytes swapped.
fn update_checksum(field: &mut [u8], old: u16, new: u16, odd: bool) {
    let [old, new] = [old, new].map(|word| if odd { word.swap_bytes() } else { word });
    let sum = u16::from_be_bytes([field[0], field[1]]);
    let sum = u64::from(!sum) + u64::from(!old) + u64::from(new);
    field.copy_from_slice(&(!checksum::fold(sum)).to_be_bytes());
}

#[cfg(test)]
mod tests;
