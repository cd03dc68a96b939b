//! Super-packets: many equal segments with one set of headers, segmented and rewritten lazily.

use crate::checksum;
use crate::header::{Header, Protocol};
use crate::virtio::Offload;

/// Space for any headers of a segment range: IP with options or extensions, and TCP's 60 bytes.
pub const HEADER_MAX: usize = 256;

/// TCP flags that only the last segment carries.
const FIN_PSH: u8 = 0x09;
/// The TCP flag that only the first segment carries.
const CWR: u8 = 0x80;

/// Changes of a packet's headers by the emulated network.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Change {
    /// The new TTL or hop limit.
    pub ttl: u8,
    /// Set the ECN field to congestion experienced.
    pub marked: bool,
}

/// The layout of the bytes of one read: one packet, or a super-packet of TCP or UDP segments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SuperPacket {
    offload: Offload,
    version: u8,
    protocol: u8,
    ip_length: u16,
    /// Length of IP and transport headers together.
    headers: u16,
    /// Length of all bytes.
    length: u32,
}

/// Consecutive segments of a super-packet, ready to be written: new headers, then a slice of
/// the original payload.
#[derive(Clone, Debug)]
pub struct SegmentRange {
    /// Offload work left to the receiver.
    pub offload: Offload,
    /// Header bytes, of which the first `header_length` are valid.
    pub headers: [u8; HEADER_MAX],
    /// Number of bytes of `headers` to write; 0 if the original headers precede
    /// the payload unchanged.
    pub header_length: usize,
    /// The range of the payload in the original bytes.
    pub payload: std::ops::Range<usize>,
}

impl SuperPacket {
    /// Parses a packet with its offload state. `None` if the two are inconsistent, which
    /// no kernel produces.
    pub fn new(bytes: &[u8], header: &Header, offload: Offload) -> Option<Self> {
        let mut layout = Self {
            offload,
            version: header.version,
            protocol: header.protocol,
            ip_length: header.ip_length,
            headers: header.ip_length,
            length: u32::try_from(bytes.len()).ok()?,
        };
        if offload.segment.is_some() {
            let transport = bytes.get(usize::from(header.ip_length)..)?;
            let length = match header.protocol {
                Protocol::TCP => usize::from(transport.get(12)? >> 4) * 4,
                Protocol::UDP => 8,
                _ => return None,
            };
            let headers = usize::from(header.ip_length) + length;
            let long_enough = length >= 8 && headers < bytes.len() && transport.len() >= length;
            let tcp = header.protocol == Protocol::TCP && length < 20;
            if !long_enough || tcp || headers > HEADER_MAX {
                return None;
            }
            layout.headers = headers as u16;
        }
        Some(layout)
    }

    pub fn count(&self) -> u16 {
        let Some(segment) = self.offload.segment else { return 1 };
        let payload = self.length - u32::from(self.headers);
        u16::try_from(payload.div_ceil(u32::from(segment))).unwrap_or(u16::MAX)
    }

    /// Layer-3 bytes of every segment except the last, and of the last.
    pub fn sizes(&self) -> (u32, u32) {
        let Some(segment) = self.offload.segment else { return (self.length, self.length) };
        let headers = u32::from(self.headers);
        let full = headers + u32::from(segment);
        let before_last = (u32::from(self.count()) - 1) * u32::from(segment);
        (full, self.length - before_last)
    }

    /// Offload work that the sender left undone.
    pub fn offload(&self) -> Offload {
        self.offload
    }

    /// Extracts `count` segments from `first` on, with their own headers.
    ///
    /// TCP: sequence numbers advance, FIN and PSH stay with the last segment, CWR with the
    /// first (RFC 3168 §6.1.2). The IPv4 identification advances by one per segment.
    /// Partial checksums stay partial.
    pub fn piece(&self, bytes: &[u8], first: u16, count: u16, change: Change) -> SegmentRange {
        let ip = usize::from(self.ip_length).min(bytes.len());
        let mut piece = SegmentRange {
            offload: self.offload,
            headers: [0; HEADER_MAX],
            header_length: usize::from(self.headers).min(bytes.len()).min(HEADER_MAX),
            payload: 0..bytes.len(),
        };
        let length = piece.header_length;
        piece.headers[..length].copy_from_slice(&bytes[..length]);
        piece.payload.start = length;
        let mut payload = bytes.len() - length;
        if let Some(segment) = self.offload.segment {
            let segment = usize::from(segment);
            let start = length + usize::from(first) * segment;
            let end = (start + usize::from(count) * segment).min(bytes.len());
            piece.payload = start.min(end)..end;
            payload = piece.payload.len();
            if payload <= segment {
                piece.offload = self.offload.single();
            }
            if first > 0 || end < bytes.len() {
                let is_last = end == bytes.len();
                self.rewrite_transport(&mut piece.headers[..length], payload, first, is_last);
            }
        }
        self.rewrite_ip(&mut piece.headers[..length], ip, payload, first, change);
        piece
    }

    fn rewrite_ip(
        &self,
        headers: &mut [u8],
        ip: usize,
        payload: usize,
        first: u16,
        change: Change,
    ) {
        let total = headers.len() + payload;
        if self.version == 4 {
            if self.offload.segment.is_some() {
                headers[2..4].copy_from_slice(&(total as u16).to_be_bytes());
                let id = u16::from_be_bytes([headers[4], headers[5]]).wrapping_add(first);
                headers[4..6].copy_from_slice(&id.to_be_bytes());
            }
            headers[8] = change.ttl;
            if change.marked {
                headers[1] |= 3;
            }
            headers[10..12].fill(0);
            let sum = checksum::of(&headers[..ip]);
            headers[10..12].copy_from_slice(&sum.to_be_bytes());
        } else {
            if self.offload.segment.is_some() {
                headers[4..6].copy_from_slice(&((total - 40) as u16).to_be_bytes());
            }
            headers[7] = change.ttl;
            if change.marked {
                headers[1] |= 0x30;
            }
        }
    }

    fn rewrite_transport(&self, headers: &mut [u8], payload: usize, first: u16, is_last: bool) {
        let ip = usize::from(self.ip_length);
        let length = (headers.len() - ip + payload) as u32;
        let addresses = if self.version == 4 { 12..20 } else { 8..40 };
        let pseudo = checksum::pseudo_header(&headers[addresses], self.protocol, length);
        let pseudo = checksum::fold(pseudo).to_be_bytes();
        let transport = &mut headers[ip..];
        if self.protocol == Protocol::UDP {
            transport[4..6].copy_from_slice(&(length as u16).to_be_bytes());
            transport[6..8].copy_from_slice(&pseudo);
            return;
        }
        let skipped = u32::from(first) * u32::from(self.offload.segment.unwrap_or(0));
        let sequence = u32::from_be_bytes([transport[4], transport[5], transport[6], transport[7]]);
        transport[4..8].copy_from_slice(&sequence.wrapping_add(skipped).to_be_bytes());
        if !is_last {
            transport[13] &= !FIN_PSH;
        }
        if first > 0 {
            transport[13] &= !CWR;
        }
        transport[16..18].copy_from_slice(&pseudo);
    }
}

/// Completes a partial checksum in the assembled bytes of one packet.
pub fn finish_checksum(packet: &mut [u8], offload: Offload) {
    let Some((start, offset)) = offload.checksum else { return };
    let (start, at) = (usize::from(start), usize::from(start) + usize::from(offset));
    if at + 2 > packet.len() {
        return;
    }
    // The field contains the pseudo-header's sum, so that summing all bytes includes it.
    let sum = match checksum::of(&packet[start..]) {
        0 => 0xffff,
        sum => sum,
    };
    packet[at..at + 2].copy_from_slice(&sum.to_be_bytes());
}

/// Flips the bit that `seed` selects, after the IP header if there are bytes after it.
pub fn flip_bit(packet: &mut [u8], seed: u32) {
    let ip = Header::parse(packet).map_or(0, |header| usize::from(header.ip_length));
    let start = if ip < packet.len() { ip } else { 0 };
    let bits = (packet.len() - start) * 8;
    if bits > 0 {
        let bit = seed as usize % bits;
        packet[start + bit / 8] ^= 1 << (bit % 8);
    }
}
