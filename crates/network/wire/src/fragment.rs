//! IPv4 fragmentation by a router (RFC 791 §2.3).

use crate::checksum;
use crate::header::Header;

/// Splits an IPv4 packet (checksums complete) into fragments of at most `mtu` bytes each. Options
/// without the copied flag are in the first fragment only (RFC 791 §3.1). Empty if it is not an
/// IPv4 packet or the MTU has no space for eight bytes of payload.
pub fn fragment(packet: &[u8], mtu: usize) -> Vec<Vec<u8>> {
    let Some(header) = Header::parse(packet).filter(|header| header.version == 4) else {
        return Vec::new();
    };
    let ip = usize::from(header.ip_length);
    let later = later_header(&packet[..ip]);
    let step = |header: usize| mtu.saturating_sub(header) / 8 * 8;
    if step(ip) == 0 {
        return Vec::new();
    }
    let flags = u16::from_be_bytes([packet[6], packet[7]]);
    let base = flags & 0x1fff;
    let more_follow = flags & 0x2000 != 0;
    let payload = &packet[ip..];
    let mut fragments = Vec::new();
    let mut at = 0;
    while at < payload.len() {
        let front = if at == 0 { &packet[..ip] } else { later.as_slice() };
        let end = (at + step(front.len())).min(payload.len());
        let more = more_follow || end < payload.len();
        let mut bytes = front.to_vec();
        bytes.extend_from_slice(&payload[at..end]);
        let total = bytes.len() as u16;
        let offset = (base + (at / 8) as u16) | if more { 0x2000 } else { 0 };
        bytes[2..4].copy_from_slice(&total.to_be_bytes());
        bytes[6..8].copy_from_slice(&offset.to_be_bytes());
        bytes[10..12].fill(0);
        let sum = checksum::of(&bytes[..front.len()]);
        bytes[10..12].copy_from_slice(&sum.to_be_bytes());
        fragments.push(bytes);
        at = end;
    }
    fragments
}

/// The header of all fragments except the first: only options with the copied flag.
fn later_header(first: &[u8]) -> Vec<u8> {
    let mut header = first[..20].to_vec();
    let mut options = &first[20..];
    while let [kind, rest @ ..] = options {
        let length = match (*kind, rest.first()) {
            (0, _) => break,
            (1, _) => 1,
            (_, Some(length)) if (2..=options.len()).contains(&usize::from(*length)) => {
                usize::from(*length)
            }
            _ => break,
        };
        if kind & 0x80 != 0 {
            header.extend_from_slice(&options[..length]);
        }
        options = &options[length..];
    }
    header.resize(header.len().next_multiple_of(4), 0);
    header[0] = 0x40 | (header.len() / 4) as u8;
    header
}
