//! The virtio network header that TUN devices and packet sockets prepend to packets.

/// Bytes of `struct virtio_net_hdr`.
pub const VIRTIO_HEADER: usize = 10;

const NEEDS_CHECKSUM: u8 = 1;
const GSO_TCPV4: u8 = 1;
const GSO_TCPV6: u8 = 4;
const GSO_UDP_L4: u8 = 5;
const GSO_ECN: u8 = 0x80;

/// Offload work left to the packet's receiver. Offsets are from the start of the IP header.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Offload {
    /// Start of checksumming, and the checksum's offset from there; `None`:
    /// the checksum is complete.
    pub checksum: Option<(u16, u16)>,
    /// Payload bytes of each segment of a super-packet; `None`: a single packet.
    pub segment: Option<u16>,
    /// Bytes of all headers of a super-packet.
    pub headers: u16,
    kind: u8,
}

impl Offload {
    /// Decodes the header; `link` is the length of the link-layer header after it.
    pub fn read(header: [u8; VIRTIO_HEADER], link: u16) -> Self {
        let word = |at: usize| u16::from_ne_bytes([header[at], header[at + 1]]);
        let kind = header[1] & !GSO_ECN;
        let is_super = matches!(kind, GSO_TCPV4 | GSO_TCPV6 | GSO_UDP_L4) && word(4) > 0;
        Self {
            checksum: (header[0] & NEEDS_CHECKSUM != 0)
                .then(|| (word(6).saturating_sub(link), word(8))),
            segment: is_super.then(|| word(4)),
            headers: word(2).saturating_sub(link),
            kind: header[1],
        }
    }

    /// Encodes the header of a packet with `link` bytes of link-layer header.
    pub fn write(self, link: u16) -> [u8; VIRTIO_HEADER] {
        let mut header = [0; VIRTIO_HEADER];
        let mut word = |at: usize, value: u16| {
            header[at..at + 2].copy_from_slice(&value.to_ne_bytes());
        };
        if let Some(segment) = self.segment {
            word(2, self.headers + link);
            word(4, segment);
        }
        if let Some((start, offset)) = self.checksum {
            word(6, start + link);
            word(8, offset);
            header[0] = NEEDS_CHECKSUM;
        }
        if self.segment.is_some() {
            header[1] = self.kind;
        }
        header
    }

    /// The same for one segment of a super-packet.
    #[must_use]
    pub fn single(self) -> Self {
        Self { segment: None, kind: 0, ..self }
    }
}
