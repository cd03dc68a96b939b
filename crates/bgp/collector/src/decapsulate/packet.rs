//! The rest of a packet during the descent through its headers.

/// Remaining bytes from a header on, and the number of bytes that the capture truncated.
#[derive(Clone, Copy, Debug)]
pub(super) struct Packet<'a> {
    pub(super) bytes: &'a [u8],
    pub(super) cut: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Layer {
    Ethernet,
    Type(u16),
    Ppp,
    Hdlc,
    Mpls,
    /// IPv4 or IPv6, by the version field.
    Ip,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Skip {
    Foreign,
    OtherPort,
    /// Unknown link type.
    Link(u16),
    Truncated,
    Malformed,
    Deep,
    Mirrors,
    Fragment,
}

/// Whether `bytes` start with the header of a BGP message.
pub(super) fn begins_message(bytes: &[u8]) -> bool {
    let header = bytes.first_chunk::<{ bgp::HEADER }>();
    header.is_some_and(|header| header[..16] == bgp::MARKER && matches!(header[18], 1..=5))
}

pub(super) fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_be_bytes(*bytes.get(at..)?.first_chunk()?))
}

pub(super) fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_be_bytes(*bytes.get(at..)?.first_chunk()?))
}
