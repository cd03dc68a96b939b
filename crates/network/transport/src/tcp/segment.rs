//! Segments: headers in full, payload as a number.

use std::fmt;
use std::ops::BitOr;

use super::packed::packed_choice;

/// Control bits of a segment.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub struct Flags(u8);

/// Value at which the counters of marked packets start (RFC 9768 §3.2.1).
pub(super) const FIRST_MARKS: u64 = 5;

/// Where [`Flags`] stores AE, whose bit in the header is the ninth.
const STORED_AE: u8 = 0x20;

impl Flags {
    /// A segment without any flag.
    pub const NONE: Self = Self(0);
    /// The sender has no more data.
    pub const FIN: Self = Self(0x01);
    /// Synchronise sequence numbers.
    pub const SYN: Self = Self(0x02);
    /// The connection is rejected or aborted.
    pub const RST: Self = Self(0x04);
    /// The acknowledgement number is valid.
    pub const ACK: Self = Self(0x10);
    /// Echo of a congestion mark (RFC 3168).
    pub const ECE: Self = Self(0x40);
    /// The congestion window was reduced (RFC 3168).
    pub const CWR: Self = Self(0x80);

    /// Accurate ECN (RFC 9768).
    pub const AE: Self = Self(STORED_AE);

    /// Whether all bits of `other` are set.
    pub const fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// Whether any bit of `other` is set.
    pub const fn intersects(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }

    /// The bits as in the header.
    pub const fn bits(self) -> u16 {
        let ae = self.0 & STORED_AE;
        (self.0 ^ ae) as u16 | (ae as u16) << 3
    }

    /// With a number modulo 8 in AE, CWR and ECE: the counter of marked packets (RFC 9768 §3.2.2).
    #[must_use]
    pub const fn with_marks(self, marks: u64) -> Self {
        let ae = if marks & 4 > 0 { Self::AE.0 } else { 0 };
        let cwr = if marks & 2 > 0 { Self::CWR.0 } else { 0 };
        let ece = if marks & 1 > 0 { Self::ECE.0 } else { 0 };
        Self(self.0 | ae | cwr | ece)
    }

    /// Inverse of [`Self::with_marks`].
    pub const fn marks(self) -> u64 {
        (self.contains(Self::AE) as u64) << 2
            | (self.contains(Self::CWR) as u64) << 1
            | self.contains(Self::ECE) as u64
    }
}

impl BitOr for Flags {
    type Output = Self;
    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

impl fmt::Debug for Flags {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = [
            (Self::AE, "A"),
            (Self::SYN, "S"),
            (Self::FIN, "F"),
            (Self::RST, "R"),
            (Self::ACK, "."),
            (Self::ECE, "E"),
            (Self::CWR, "W"),
        ];
        let set = names.iter().filter(|(flag, _)| self.contains(*flag));
        set.map(|(_, name)| *name).collect::<String>().fmt(f)
    }
}

/// How the two ends of a connection report marks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Feedback {
    /// Without ECN.
    #[default]
    Off,
    /// ECE until the sender has reduced its window (RFC 3168).
    Classic,
    /// A counter of marked packets in each segment (RFC 9768, without its TCP option).
    Accurate,
    /// The same, and packets have ECT(1) (RFC 9331).
    L4s,
}

packed_choice!(Feedback { Off, Classic, Accurate, L4s });

impl Feedback {
    pub(super) const fn is_accurate(self) -> bool {
        matches!(self, Self::Accurate | Self::L4s)
    }

    /// ECN field of packets with new data.
    pub(super) const fn ect(self) -> Ect {
        match self {
            Self::Off => Ect::Not,
            Self::Classic | Self::Accurate => Ect::Zero,
            Self::L4s => Ect::One,
        }
    }

    /// ECN field of other packets: SYN, acknowledgements, retransmissions. Linux sets it for
    /// controllers that need ECN.
    pub(super) const fn control_ect(self) -> Ect {
        if self.is_accurate() { self.ect() } else { Ect::Not }
    }
}

/// A segment. Its payload is counted, not stored.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Segment {
    /// Sequence number of the first byte (or of the SYN or FIN).
    pub seq: u32,
    /// Next sequence number that the sender of this segment expects.
    pub ack: u32,
    /// Receive window in bytes, after scaling.
    pub window: u32,
    /// Payload in bytes.
    pub length: u16,
    /// Control bits of the header.
    pub flags: Flags,
    pub(super) blocks: u8,
    pub(super) sack: [(u32, u32); 3],
}

impl Segment {
    /// SACK blocks, as (first, last + 1) (RFC 2018); the first may report a duplicate (RFC 2883).
    pub fn sack(&self) -> &[(u32, u32)] {
        &self.sack[..usize::from(self.blocks)]
    }

    /// Adds a block, unless there are three: no more fit beside time stamps.
    pub fn add_sack(&mut self, block: (u32, u32)) -> bool {
        let free = self.sack.get_mut(usize::from(self.blocks));
        let added = free.map(|free| *free = block).is_some();
        self.blocks += u8::from(added);
        added
    }

    /// Length of the TCP header: 20 bytes and the options that Linux would send. Every segment
    /// except a RST has time stamps (12 bytes with padding), although their values are not
    /// modelled; a SYN has maximum segment size, SACK permitted, time stamps and window scale.
    pub fn header_bytes(&self) -> u32 {
        if self.flags.contains(Flags::SYN) {
            40
        } else if self.flags.contains(Flags::RST) {
            20
        } else if self.blocks > 0 {
            20 + 12 + 4 + 8 * u32::from(self.blocks)
        } else {
            20 + 12
        }
    }
}

/// An output of an endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Transmit {
    /// The segment to send.
    pub segment: Segment,
    /// The ECN field of its packet.
    pub ect: Ect,
}

/// The ECN field of a packet that is sent (RFC 3168 §5, RFC 9331 §4.1).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Ect {
    /// Not capable.
    #[default]
    Not,
    /// ECT(0).
    Zero,
    /// ECT(1), the identifier of L4S.
    One,
}

/// The 64-bit sequence number closest to `near` of which `wire` is the low half.
pub(super) const fn unwrap(near: u64, wire: u32) -> u64 {
    near.wrapping_add_signed(wire.wrapping_sub(near as u32) as i32 as i64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sequence_numbers_wrap() {
        let near = (7 << 32) + 5;
        assert_eq!(unwrap(near, 9), near + 4);
        assert_eq!(unwrap(near, u32::MAX), near - 6);
        assert_eq!(unwrap((7 << 32) - 2, 3), (7 << 32) + 3);
    }

    #[test]
    fn counter_of_marks_is_in_the_ecn_bits() {
        for marks in 0..8 {
            assert_eq!(Flags::ACK.with_marks(marks).marks(), marks);
        }
        // AE, CWR and ECE are bits 8, 7 and 6 of the header's flags (RFC 9768 §3.2.2).
        assert_eq!(Flags::ACK.with_marks(7).bits(), 0x1d0);
        assert_eq!((Flags::AE.bits(), Flags::NONE.with_marks(9).bits()), (0x100, 0x40));
    }

    #[test]
    fn headers_carry_options() {
        assert_eq!(size_of::<Segment>(), 40);
        let mut segment = Segment { flags: Flags::ACK, ..Segment::default() };
        assert_eq!(segment.header_bytes(), 32);
        assert!(segment.add_sack((1, 2)));
        assert_eq!(segment.header_bytes(), 44);
        assert!(segment.add_sack((3, 4)) && segment.add_sack((5, 6)));
        assert!(!segment.add_sack((7, 8)));
        assert_eq!((segment.header_bytes(), segment.sack().len()), (60, 3));
        segment.flags = Flags::SYN;
        assert_eq!(segment.header_bytes(), 40);
    }
}
