//! Blocks of the pcapng format (draft-ietf-opsawg-pcapng), little-endian, raw IP packets.

mod merge;

pub use merge::{Part, merge};

const SECTION_HEADER: u32 = 0x0a0d_0d0a;
const INTERFACE_DESCRIPTION: u32 = 1;
const ENHANCED_PACKET: u32 = 6;
/// `LINKTYPE_RAW`: packets begin with an IPv4 or IPv6 header.
const LINKTYPE_RAW: u16 = 101;

const OPT_END: u16 = 0;
const OPT_COMMENT: u16 = 1;
const SHB_USERAPPL: u16 = 4;
const IF_NAME: u16 = 2;
const IF_DESCRIPTION: u16 = 3;
const IF_TSRESOL: u16 = 9;
const EPB_FLAGS: u16 = 2;

/// Appends a section header that names the writing application.
pub fn section_header(out: &mut Vec<u8>, application: &str) {
    block(out, SECTION_HEADER, |out| {
        out.extend_from_slice(&0x1a2b_3c4d_u32.to_le_bytes());
        out.extend_from_slice(&1u16.to_le_bytes());
        out.extend_from_slice(&0u16.to_le_bytes());
        out.extend_from_slice(&u64::MAX.to_le_bytes());
        option(out, SHB_USERAPPL, application.as_bytes());
        option(out, OPT_END, &[]);
    });
}

/// Appends the description of an interface with nanosecond time stamps and no snap length.
pub fn interface_description(out: &mut Vec<u8>, name: &str, description: &str) {
    block(out, INTERFACE_DESCRIPTION, |out| {
        out.extend_from_slice(&LINKTYPE_RAW.to_le_bytes());
        out.extend_from_slice(&[0; 6]);
        option(out, IF_NAME, name.as_bytes());
        if !description.is_empty() {
            option(out, IF_DESCRIPTION, description.as_bytes());
        }
        option(out, IF_TSRESOL, &[9]);
        option(out, OPT_END, &[]);
    });
}

/// Appends a packet of the section's first interface. `bytes` are the first ones of its `length`
/// bytes, `unix_ns` is its time stamp, an empty `comment` is omitted.
pub fn enhanced_packet(
    out: &mut Vec<u8>,
    unix_ns: u64,
    outbound: bool,
    (bytes, length): (&[u8], u32),
    comment: &str,
) {
    block(out, ENHANCED_PACKET, |out| {
        out.extend_from_slice(&0u32.to_le_bytes());
        out.extend_from_slice(&((unix_ns >> 32) as u32).to_le_bytes());
        out.extend_from_slice(&(unix_ns as u32).to_le_bytes());
        out.extend_from_slice(&(bytes.len() as u32).to_le_bytes());
        out.extend_from_slice(&length.to_le_bytes());
        out.extend_from_slice(bytes);
        pad(out, bytes.len());
        if !comment.is_empty() {
            option(out, OPT_COMMENT, comment.as_bytes());
        }
        option(out, EPB_FLAGS, &(if outbound { 2u32 } else { 1 }).to_le_bytes());
        option(out, OPT_END, &[]);
    });
}

fn block(out: &mut Vec<u8>, kind: u32, body: impl FnOnce(&mut Vec<u8>)) {
    let start = out.len();
    out.extend_from_slice(&kind.to_le_bytes());
    out.extend_from_slice(&[0; 4]);
    body(out);
    let length = ((out.len() - start + 4) as u32).to_le_bytes();
    out[start + 4..start + 8].copy_from_slice(&length);
    out.extend_from_slice(&length);
}

/// Appends an option. A value above the format's maximum of 65,535 B is truncated.
fn option(out: &mut Vec<u8>, code: u16, value: &[u8]) {
    let value = &value[..value.len().min(usize::from(u16::MAX))];
    out.extend_from_slice(&code.to_le_bytes());
    out.extend_from_slice(&(value.len() as u16).to_le_bytes());
    out.extend_from_slice(value);
    pad(out, value.len());
}

fn pad(out: &mut Vec<u8>, length: usize) {
    out.extend_from_slice(&[0; 3][..length.wrapping_neg() % 4]);
}
