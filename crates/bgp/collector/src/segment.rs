//! A TCP segment, extracted from its encapsulation.

use std::net::SocketAddr;

use base::Time;

/// The number of a mirror, from 1 on: packets with equal VLAN, ERSPAN session, VNI, GRE key, outer
/// source and interface. Clones of two routers with the same addresses are never one connection. In
/// MRT records it is the interface index; 0 if no mirror is known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct MirrorId(pub u32);

impl MirrorId {
    /// Mirror of sessions without one: those of BMP, and of MRT records without an index.
    pub const NONE: Self = Self(0);
    /// Maximum number, limited by the interface index of MRT (RFC 6396 §4.4.1).
    pub const MAX: Self = Self(u16::MAX as u32);

    /// Mirror of records of archive number `archive` without a mirror: those of different archives
    /// are different mirrors.
    pub const fn of_archive(archive: u16) -> Self {
        Self((archive as u32) << 16)
    }

    /// The number of the archive; 0 except in queries of several archives.
    pub const fn archive(self) -> u16 {
        (self.0 >> 16) as u16
    }

    /// The interface index in MRT records; 0 if no mirror is known.
    pub const fn interface(self) -> u16 {
        self.0 as u16
    }

    pub const fn index(self) -> Option<usize> {
        (self.0 as usize).checked_sub(1)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Checksum {
    Right,
    /// The checksum is wrong, and offload is not the cause.
    Wrong,
    /// The checksum is wrong, and the capturing host merges segments: the segment is used if its
    /// receiver acknowledges it and no other copy is captured.
    Doubtful,
    /// The segment was truncated, or its sender uses checksum offload.
    Unknown,
}

#[expect(missing_docs, reason = "the names are the RFC's")]
pub mod flags {
    pub const FIN: u8 = 1;
    pub const SYN: u8 = 2;
    pub const RST: u8 = 4;
    pub const PSH: u8 = 8;
    pub const ACK: u8 = 16;
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segment<'a> {
    /// Capture time since 1970.
    pub time: Time,
    pub mirror: MirrorId,
    /// The mirror is one device of a capture of all devices of a host, which may have the same
    /// packet at several of them (a bond and its ports).
    pub is_device: bool,
    pub source: SocketAddr,
    pub destination: SocketAddr,
    /// Sequence number of the first octet (of the SYN, if there is one).
    pub sequence: u32,
    /// Next sequence number that the sender expects, if ACK is set.
    pub acknowledgment: u32,
    /// FIN to ACK, as in [`flags`].
    pub flags: u8,
    pub payload: &'a [u8],
    /// Number of octets after `payload` that were on the wire but not captured.
    pub missing: u32,
    pub checksum: Checksum,
}

impl Segment<'_> {
    pub const fn has(&self, flags: u8) -> bool {
        self.flags & flags == flags
    }
}
