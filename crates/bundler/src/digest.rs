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
#[cfg(test)]
mod tests;

pub use key::{DigestKey, Key};
pub(crate) use key::{MacKey, TagKey};

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
pub fn of_fields(key: &DigestKey, fields: &Fields) -> u64 {
    let mut bytes = [0; 36];
    bytes[..4].copy_from_slice(&fields.flow.to_be_bytes());
    bytes[4..8].copy_from_slice(&fields.length.to_be_bytes());
    bytes[8..16].copy_from_slice(&fields.sequence.to_be_bytes());
    bytes[16..24].copy_from_slice(&fields.acknowledgement.to_be_bytes());
    bytes[24..28].copy_from_slice(&fields.flags.to_be_bytes());
    bytes[28..].copy_from_slice(&fields.entered.to_be_bytes());
    key.hash(&bytes)
}

/// The digest of the packet with this number in an encapsulated bundle.
pub fn of_sequence(key: &DigestKey, incarnation: u64, sequence: u64) -> u64 {
    let mut bytes = [0; 16];
    bytes[..8].copy_from_slice(&incarnation.to_be_bytes());
    bytes[8..].copy_from_slice(&sequence.to_be_bytes());
    key.hash(&bytes)
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
    let offset = u16::from_be_bytes([fixed[6], fixed[7]]) & 0x1fff;
    let mut bytes = [0; 16 + TRANSPORT];
    bytes[..8].copy_from_slice(&fixed[12..]);
    // Total length and identification.
    bytes[8..12].copy_from_slice(&fixed[2..6]);
    bytes[12..14].copy_from_slice(&offset.to_be_bytes());
    bytes[14] = fixed[9];
    bytes[15] = 4;
    copy(&mut bytes[16..], packet, header, total)?;
    Some(key.hash(&bytes))
}

fn of_v6(key: &DigestKey, packet: &[u8]) -> Option<u64> {
    let fixed = packet.first_chunk::<40>()?;
    let total = 40 + usize::from(u16::from_be_bytes([fixed[4], fixed[5]]));
    let (mut protocol, mut at, mut piece) = (fixed[6], 40, [0; 8]);
    for _ in 0..EXTENSIONS {
        match protocol {
            // Hop-by-hop options, routing, destination options: some of it changes on the way.
            0 | 43 | 60 => {
                let extension = packet.get(at..at + 2)?;
                protocol = extension[0];
                at += usize::from(extension[1]) * 8 + 8;
            }
            44 => {
                piece.copy_from_slice(packet.get(at..at + 8)?);
                // The next header, the offset and the identification; not reserved bits and MF.
                (protocol, piece[0], piece[1], piece[3]) = (piece[0], 0, 1, piece[3] & !7);
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
    let mut bytes = [0; 44 + TRANSPORT];
    bytes[..32].copy_from_slice(&fixed[8..]);
    bytes[32..34].copy_from_slice(&fixed[4..6]);
    bytes[34] = protocol;
    bytes[35] = 6;
    bytes[36..44].copy_from_slice(&piece);
    copy(&mut bytes[44..], packet, at, total)?;
    Some(key.hash(&bytes))
}

/// Copies what the packet has of the bytes behind its IP header; `None` if the slice lacks some of
/// them.
fn copy(into: &mut [u8], packet: &[u8], at: usize, total: usize) -> Option<()> {
    // The usual case first, with a length that the compiler knows.
    if total >= at + TRANSPORT {
        into.copy_from_slice(packet.get(at..at + TRANSPORT)?);
    } else {
        into[..total - at].copy_from_slice(packet.get(at..total)?);
    }
    Some(())
}
