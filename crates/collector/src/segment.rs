//! A TCP segment, taken out of whatever carried it.

use std::net::SocketAddr;

use base::Time;

/// The number of a mirror, from 1 on: packets with equal VLAN, ERSPAN session, VNI, GRE key, outer
/// source and interface. Two routers' clones of the same addresses are never one connection. It is
/// the interface index of MRT records; 0 where no mirror is known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct MirrorId(pub u32);

impl MirrorId {
    /// Of sessions that no mirror showed: those of BMP, and of MRT records without an index.
    pub const NONE: Self = Self(0);
    /// Numbers fit into the interface index of MRT (RFC 6396 §4.4.1).
    pub const MAX: Self = Self(u16::MAX as u32);

    /// No mirror of archive number `archive`: those of different archives are different mirrors.
    pub const fn of_archive(archive: u16) -> Self {
        Self((archive as u32) << 16)
    }

    /// The number of the archive; 0 outside of queries that read several.
    pub const fn archive(self) -> u16 {
        (self.0 >> 16) as u16
    }

    /// The interface index of its MRT records; 0 where no mirror is known.
    pub const fn interface(self) -> u16 {
        self.0 as u16
    }

    /// As an index into a table of mirrors.
    pub const fn index(self) -> Option<usize> {
        (self.0 as usize).checked_sub(1)
    }
}

/// What the TCP checksum says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Checksum {
    /// It is right.
    Right,
    /// It is wrong, and what is wrong is not the sender's offload.
    Wrong,
    /// The segment was cut short, or its sender left the sum to hardware behind the tap.
    Unknown,
}

/// Flags of a segment (RFC 9293 §3.1).
#[expect(missing_docs, reason = "the names are the RFC's")]
pub mod flags {
    pub const FIN: u8 = 1;
    pub const SYN: u8 = 2;
    pub const RST: u8 = 4;
    pub const PSH: u8 = 8;
    pub const ACK: u8 = 16;
}

/// One segment of a TCP connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segment<'a> {
    /// When it was captured, since 1970.
    pub time: Time,
    /// The stream of clones that it belongs to.
    pub mirror: MirrorId,
    /// Sender.
    pub source: SocketAddr,
    /// Receiver.
    pub destination: SocketAddr,
    /// Sequence number of the first octet (of the SYN, if there is one).
    pub sequence: u32,
    /// Next sequence number that the sender expects, if ACK is set.
    pub acknowledgment: u32,
    /// FIN to ACK, as in [`flags`].
    pub flags: u8,
    /// Octets that were captured.
    pub payload: &'a [u8],
    /// Octets behind `payload` that were on the wire but not captured.
    pub missing: u32,
    /// What the checksum says.
    pub checksum: Checksum,
}

impl Segment<'_> {
    /// Whether all of `flags` are set.
    pub const fn has(&self, flags: u8) -> bool {
        self.flags & flags == flags
    }
}
