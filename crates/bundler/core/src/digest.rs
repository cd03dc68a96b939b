//! Keyed digests of packets, by which both gateways select the same packets without modifying them.
//!
//! A packet ends an epoch iff the low bits of its digest are zero. The digest covers fields that
//! are the same at both gateways, are not changed by routers, and differ from packet to packet,
//! also between a segment and its retransmission. The paper uses the IPv4 identification, the
//! destination and its port (§4.5), which fails for IPv6, for packets whose identification is 0
//! (RFC 6864), and once identifications wrap within a round trip.
//!
//! | part | IPv4 | IPv6 |
//! |---|---|---|
//! | addresses | both | both |
//! | protocol and length | protocol, total length | protocol after the extension headers, payload
//! length |
//! | fragment | identification, fragment offset | those of a fragment header |
//! | the first 20 bytes after the IP header | ports, sequence numbers, checksum | the same |
//!
//! A transport's checksum covers the payload and TCP's timestamps, so it distinguishes
//! retransmissions; if a router or middlebox changes another of these 20 bytes, it changes the
//! checksum too. TTL, DSCP, ECN, flow label, the header's checksum, IP options and the flags DF and
//! MF are not covered.
//= deviation

mod key;
mod siphash;
#[cfg(test)]
mod tests;

pub use key::{DigestKey, Key};
pub(crate) use key::{MacKey, PacketKey};

/// Covered bytes after the IP header: up to and including TCP's checksum, in whole words.
const TRANSPORT: usize = 20;
/// Maximum number of extension headers (RFC 8200 §4.1 names seven, once each).
const EXTENSIONS: usize = 8;

/// Fields that distinguish packets without bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Fields {
    /// Hash of addresses, protocol and ports.
    pub flow: u32,
    /// Layer-3 bytes.
    pub length: u32,
    /// TCP sequence number, or a packet number of the flow.
    pub sequence: u64,
    /// TCP acknowledgement number; 0 without one.
    pub acknowledgement: u64,
    /// Flags, or another value that distinguishes types of packets of a flow.
    pub flags: u32,
    /// Send time at the source in nanoseconds; replaces identification, timestamps and checksum.
    pub entered: u64,
}

/// The digest of a packet that starts with its IP header; `None` if it is not an IP packet, or is
/// truncated within the covered fields.
///
/// Bytes after the packet's own length, such as the padding of a short frame, are not covered.
pub fn of_packet(key: &DigestKey, packet: &[u8]) -> Option<u64> {
    match packet.first()? >> 4 {
        4 => of_v4(key, packet),
        6 => of_v6(key, packet),
        _ => None,
    }
}

/// The digest of a packet without bytes.
#[inline]
pub fn of_fields(key: &DigestKey, fields: &Fields) -> u64 {
    let flow = u64::from(fields.flow) << 32 | u64::from(fields.length);
    let (sequence, acknowledgement) = (fields.sequence, fields.acknowledgement);
    key.hash([flow, sequence, acknowledgement, u64::from(fields.flags), fields.entered])
}

/// The digest of the packet with this number in an encapsulated bundle.
pub fn of_sequence(key: &DigestKey, incarnation: u64, sequence: u64) -> u64 {
    key.hash([incarnation, sequence])
}

/// Whether the packet with this digest ends an epoch of `period` packets, a power of two.
pub const fn ends_epoch(digest: u64, period: u32) -> bool {
    digest & (period as u64).wrapping_sub(1) == 0
}

fn of_v4(key: &DigestKey, packet: &[u8]) -> Option<u64> {
    let fixed = packet.first_chunk::<20>()?;
    let header = usize::from(fixed[0] & 15) * 4;
    let total = usize::from(u16::from_be_bytes([fixed[2], fixed[3]]));
    if header < 20 || total < header {
        return None;
    }
    // The protocol replaces version and DSCP. DF and MF are cleared, and so are TTL, protocol and
    // the header's checksum, which follow.
    let start = word(fixed, 0) & 0x0000_ffff_ffff_1fff;
    let protocol = u64::from(fixed[9]) << 48 | 4 << 60;
    let [a, b, c] = transport(packet, header, total)?;
    Some(key.hash([start | protocol, word(fixed, 12), a, b, c]))
}

fn of_v6(key: &DigestKey, packet: &[u8]) -> Option<u64> {
    let fixed = packet.first_chunk::<40>()?;
    let total = 40 + usize::from(u16::from_be_bytes([fixed[4], fixed[5]]));
    let (mut protocol, mut at, mut piece) = (fixed[6], 40, 0);
    for _ in 0..EXTENSIONS {
        match protocol {
            // Hop-by-hop options, routing, destination options: parts of them change on the path.
            0 | 43 | 60 => {
                let extension = packet.get(at..at + 2)?;
                protocol = extension[0];
                at += usize::from(extension[1]) * 8 + 8;
            }
            44 => {
                let fragment = packet.get(at..)?.first_chunk::<8>()?;
                protocol = fragment[0];
                // Offset and identification, and a bit that is set in every fragment; without MF.
                piece = word(fragment, 0) & 0x0000_fff8_ffff_ffff | 1 << 48;
                at += 8;
                // The following bytes are the first bytes of a fragment.
                break;
            }
            _ => break,
        }
    }
    if total < at {
        return None;
    }
    let start = (total as u64) << 8 | u64::from(protocol) | 6 << 60;
    let [a, b, c] = transport(packet, at, total)?;
    let [from, source, to, destination] = [8, 16, 24, 32].map(|at| word(fixed, at));
    Some(key.hash([start, piece, from, source, to, destination, a, b, c]))
}

/// The covered bytes after an IP header, padded with zeros; `None` if the slice lacks some of them.
fn transport(packet: &[u8], at: usize, total: usize) -> Option<[u64; 3]> {
    let mut short = [0; TRANSPORT];
    let bytes: &[u8; TRANSPORT] = if total >= at + TRANSPORT {
        packet.get(at..)?.first_chunk()?
    } else {
        short[..total - at].copy_from_slice(packet.get(at..total)?);
        &short
    };
    Some([word(bytes, 0), word(bytes, 8), word(bytes, TRANSPORT - 8)])
}

/// The eight bytes at `at`; callers must ensure that they exist.
#[inline]
pub(crate) fn word(bytes: &[u8], at: usize) -> u64 {
    let mut word = [0; 8];
    word.copy_from_slice(&bytes[at..at + 8]);
    u64::from_be_bytes(word)
}
