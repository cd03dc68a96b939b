//! Keyed digests of packets: how both boxes pick the same packets without touching them.
//!
//! A packet ends an epoch iff the low bits of its digest are zero. What goes into the digest is
//! the same at both boxes, is not changed by routers, and differs from packet to packet, also
//! between a segment and its retransmission. The paper takes the IPv4 identification, the
//! destination and its port (§4.5), which fails for IPv6, for packets whose identification is 0
//! (RFC 6864), and once identifications wrap within a round trip.
//!
//! | part | IPv4 | IPv6 |
//! |---|---|---|
//! | addresses | both | both |
//! | what is carried | protocol, total length | protocol behind the extension headers, payload length |
//! | which piece | identification, fragment offset | those of a fragment header |
//! | the first 20 bytes behind the IP header | ports, sequence numbers, checksum | the same |
//!
//! A transport's checksum covers the payload and TCP's time stamps, so it tells retransmissions
//! apart; where a router or middlebox changes another of these 20 bytes, it changes the checksum
//! too. TTL, DSCP, ECN, flow label, the header's checksum, IP options and the flags DF and MF stay
//! out.
//= deviation

mod key;
mod siphash;
#[cfg(test)]
mod tests;

pub use key::{DigestKey, Key};
pub(crate) use key::{MacKey, PacketKey};

/// Bytes behind the IP header that count: up to and with TCP's checksum, in whole words.
const TRANSPORT: usize = 20;
/// Extension headers that are walked at most (RFC 8200 §4.1 names seven, once each).
const EXTENSIONS: usize = 8;

/// What tells packets apart where they have no bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Fields {
    /// Hash of addresses, protocol and ports.
    pub flow: u32,
    /// Layer-3 bytes.
    pub length: u32,
    /// Sequence number.
    pub sequence: u64,
    /// Acknowledgement number.
    pub acknowledgement: u64,
    /// Flags, or whatever else tells kinds of packets of a flow apart.
    pub flags: u32,
    /// When its sender sent it, in nanoseconds: plays the part of identification, time stamps and
    /// checksum.
    pub entered: u64,
}

/// The digest of a packet that begins with its IP header; `None` if it is none, or cut short
/// within what counts.
///
/// Bytes behind the packet's own length, such as the padding of a short frame, do not count.
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
    // Version and DSCP give way to the protocol, DF and MF to nothing, as do TTL, protocol and the
    // header's checksum, which follow.
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
            // Hop-by-hop options, routing, destination options: some of it changes on the way.
            0 | 43 | 60 => {
                let extension = packet.get(at..at + 2)?;
                protocol = extension[0];
                at += usize::from(extension[1]) * 8 + 8;
            }
            44 => {
                let fragment = packet.get(at..)?.first_chunk::<8>()?;
                protocol = fragment[0];
                // Offset and identification, and a bit that is set in every piece; not MF.
                piece = word(fragment, 0) & 0x0000_fff8_ffff_ffff | 1 << 48;
                at += 8;
                // Whatever follows is the first bytes of a piece.
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

/// What counts of the bytes behind an IP header, filled up with zeros; `None` if the slice lacks
/// some of it.
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

/// The eight bytes at `at`, which all callers know to be there.
#[inline]
pub(crate) fn word(bytes: &[u8], at: usize) -> u64 {
    let mut word = [0; 8];
    word.copy_from_slice(&bytes[at..at + 8]);
    u64::from_be_bytes(word)
}
