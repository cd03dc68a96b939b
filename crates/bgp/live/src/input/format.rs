//! Recognises formats by their first bytes.

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Format {
    /// A capture: pcap or pcapng.
    Capture,
    /// Records of RFC 6396.
    Mrt,
    /// Messages of RFC 7854.
    Bmp,
    Json,
    /// A capture in the format of this name, which is not read.
    Foreign(&'static str),
    Empty,
    Unknown,
}

impl Format {
    /// Why the format is not read, and how to read its content.
    pub fn refusal(self) -> Option<String> {
        Some(match self {
            Self::Capture | Self::Mrt | Self::Bmp | Self::Empty => return None,
            Self::Json => "JSON Lines are an output only: convert the archive or capture that \
                           they are from"
                .to_owned(),
            Self::Foreign(name) => format!(
                "a capture in the format {name}; convert it with `editcap -F pcap -T ether IN OUT`"
            ),
            Self::Unknown => {
                "neither a capture (pcap, pcapng) nor MRT or BMP, by its first bytes".to_owned()
            }
        })
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Packing {
    Gzip,
    Bzip2,
    Zstd,
    Lz4,
    Xz,
}

/// Bytes that identify a compression.
pub(super) const PACKED: usize = 6;

/// Bytes that identify a format.
pub(super) const MAX_MAGIC_BYTES: usize = 16;

/// The compression of data that starts with `bytes`, if any.
pub(super) fn packing(bytes: &[u8]) -> Option<Packing> {
    match *bytes {
        [0x1f, 0x8b, ..] => Some(Packing::Gzip),
        [b'B', b'Z', b'h', b'1'..=b'9', ..] => Some(Packing::Bzip2),
        [0x28, 0xb5, 0x2f, 0xfd, ..] | [0x50..=0x5f, 0x2a, 0x4d, 0x18, ..] => Some(Packing::Zstd),
        [0x04, 0x22, 0x4d, 0x18, ..] => Some(Packing::Lz4),
        [0xfd, b'7', b'z', b'X', b'Z', 0, ..] => Some(Packing::Xz),
        _ => None,
    }
}

/// The format of data that starts with `bytes`.
pub(super) fn guess(bytes: &[u8]) -> Format {
    if bytes.is_empty() {
        return Format::Empty;
    }
    if let Some(magic) = bytes.first_chunk() {
        let (big, little) = (u32::from_be_bytes(*magic), u32::from_le_bytes(*magic));
        // Block type of pcapng; pcap with microseconds, nanoseconds, modified.
        let captures = [0x0a0d_0d0a, 0xa1b2_c3d4, 0xa1b2_3c4d, 0xa1b2_cd34];
        if captures.contains(&big) || captures.contains(&little) {
            return Format::Capture;
        }
    }
    if let Some(header) = bytes.first_chunk::<6>() {
        let [version, length @ .., kind] = *header;
        // Version 3, and the length of a message with its own header (RFC 7854 §4.1).
        if version == 3 && kind <= 6 && (6..1 << 20).contains(&u32::from_be_bytes(length)) {
            return Format::Bmp;
        }
    }
    if let Some(&[_, _, _, _, k0, k1, s0, s1, l0, l1, _, _]) = bytes.first_chunk::<12>() {
        let (kind, subtype) = (u16::from_be_bytes([k0, k1]), u16::from_be_bytes([s0, s1]));
        let known = matches!(kind, 0..=7 | 9..=13 | 16 | 17 | 32 | 33 | 48 | 49 | 64);
        if known && subtype < 64 && u16::from_be_bytes([l0, l1]) < 0x400 {
            return Format::Mrt;
        }
    }
    if bytes.starts_with(b"snoop\0\0\0") {
        return Format::Foreign("snoop (RFC 1761)");
    }
    if bytes.first_chunk().is_some_and(is_erf) {
        return Format::Foreign("ERF (Endace)");
    }
    match bytes.iter().find(|byte| !byte.is_ascii_whitespace()) {
        Some(b'{') => Format::Json,
        _ => Format::Unknown,
    }
}

/// Whether bytes are the header of an ERF record of an Ethernet frame, with a time from 2001 on.
fn is_erf(header: &[u8; 16]) -> bool {
    /// Types of records with Ethernet frames: plain, and with colours or hashes.
    const ETHERNET: [u8; 4] = [2, 11, 16, 20];
    let [.., kind, _, r0, r1, _, _, w0, w1] = *header;
    let (record, wire) = (u16::from_be_bytes([r0, r1]), u16::from_be_bytes([w0, w1]));
    // The highest byte of the seconds since 1970.
    header[7] >= 0x3a && ETHERNET.contains(&(kind & 0x7f)) && record > 16 && wire >= 14
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn recognises_first_bytes() {
        let format = |bytes: &[u8]| guess(bytes);
        assert_eq!(format(b""), Format::Empty);
        assert_eq!(format(&[0xd4, 0xc3, 0xb2, 0xa1, 2, 0, 4, 0]), Format::Capture);
        assert_eq!(format(&[0xa1, 0xb2, 0x3c, 0x4d, 0, 2, 0, 4]), Format::Capture);
        assert_eq!(format(&[0x0a, 0x0d, 0x0d, 0x0a]), Format::Capture);
        assert_eq!(format(&[3, 0, 0, 0, 32, 4, 0, 0, 0]), Format::Bmp);
        assert_eq!(format(&[0x65, 0xe1, 0, 0, 0, 16, 0, 4, 0, 0, 0, 51]), Format::Mrt);
        assert_eq!(format(&[0x65, 0xe1, 0, 0, 0, 13, 0, 1, 0, 0, 2, 1]), Format::Mrt);
        assert_eq!(format(b" {\"type\": \"UPDATE\"}"), Format::Json);
        assert_eq!(format(b"hello, world"), Format::Unknown);
        assert_eq!(format(b"hello, world, and more"), Format::Unknown);
        assert_eq!(format(&[0xd4]), Format::Unknown);
    }
}
