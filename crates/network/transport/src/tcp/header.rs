//! The header of a segment as bytes, for captures.

use super::segment::{Flags, Segment};

const NOP: u8 = 1;
const MAXIMUM_SEGMENT_SIZE: u8 = 2;
const WINDOW_SCALE: u8 = 3;
const SACK_PERMITTED: u8 = 4;
const SACK: u8 = 5;
/// Bytes of time stamps with padding.
const TIMESTAMPS: usize = 12;

/// What a header contains beside its segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeaderFields {
    /// Source and destination port.
    pub ports: [u16; 2],
    /// Maximum payload that the sender of the segment accepts, in bytes.
    pub mss: u16,
    /// Shift of the sender's window (RFC 7323 §2).
    pub window_scale: u8,
}

impl Segment {
    /// Appends the TCP header (RFC 9293 §3.1) of [`header_bytes`](Self::header_bytes) bytes, with a
    /// checksum of zero. As values of time stamps are not modelled, NOPs take their place.
    pub fn put_header(&self, out: &mut Vec<u8>, fields: &HeaderFields) {
        let is_syn = self.flags.contains(Flags::SYN);
        let window = if is_syn { self.window } else { self.window >> fields.window_scale };
        let window = u16::try_from(window).unwrap_or(u16::MAX);
        let words = (self.header_bytes() / 4) as u16;
        out.extend(fields.ports.iter().flat_map(|port| port.to_be_bytes()));
        out.extend(self.seq.to_be_bytes());
        out.extend(self.ack.to_be_bytes());
        out.extend((words << 12 | self.flags.bits()).to_be_bytes());
        out.extend(window.to_be_bytes());
        // Checksum and urgent pointer.
        out.extend([0; 4]);
        if is_syn {
            let [high, low] = fields.mss.to_be_bytes();
            out.extend([MAXIMUM_SEGMENT_SIZE, 4, high, low, SACK_PERMITTED, 2]);
            out.extend([NOP; TIMESTAMPS - 2]);
            out.extend([NOP, WINDOW_SCALE, 3, fields.window_scale]);
        } else if !self.flags.contains(Flags::RST) {
            out.extend([NOP; TIMESTAMPS]);
            if !self.sack().is_empty() {
                out.extend([NOP, NOP, SACK, 2 + 8 * self.sack().len() as u8]);
                let edges = self.sack().iter().flat_map(|(first, end)| [*first, *end]);
                out.extend(edges.flat_map(u32::to_be_bytes));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header(segment: Segment) -> Vec<u8> {
        let mut out = Vec::new();
        let fields = HeaderFields { ports: [40_000, 5001], mss: 1448, window_scale: 7 };
        segment.put_header(&mut out, &fields);
        assert_eq!(out.len(), segment.header_bytes() as usize);
        out
    }

    #[test]
    fn header_has_the_fields_of_the_segment() {
        let segment = Segment { seq: 1, ack: 2, window: 1 << 20, ..Segment::default() };
        let syn = header(Segment { flags: Flags::SYN, ..segment });
        let fixed = [0x9c, 0x40, 0x13, 0x89, 0, 0, 0, 1, 0, 0, 0, 2, 0xa0, 0x02, 0xff, 0xff];
        assert_eq!(syn[..16], fixed, "the window of a SYN is not scaled");
        assert_eq!(syn[20..26], [2, 4, 5, 0xa8, 4, 2]);
        assert_eq!(syn[36..], [1, 3, 3, 7]);

        let mut ack = Segment { flags: Flags::ACK.with_marks(4), ..segment };
        ack.add_sack((5, 9));
        let ack = header(ack);
        assert_eq!(ack[12..16], [0xb1, 0x10, 0x20, 0], "AE is the ninth flag");
        assert_eq!(ack[32..], [1, 1, 5, 10, 0, 0, 0, 5, 0, 0, 0, 9]);

        let reset = header(Segment { flags: Flags::RST, ..segment });
        assert_eq!((reset.len(), reset[13]), (20, 4));
    }
}
