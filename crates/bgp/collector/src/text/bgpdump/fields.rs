//! Reads fields as bgpdump does (missing bytes are zero), and writes them.

use crate::text::digits::{self, Zeros};

#[derive(Clone, Copy)]
pub(super) struct Octets<'a>(pub &'a [u8]);

impl<'a> Octets<'a> {
    pub(super) const fn is_empty(self) -> bool {
        self.0.is_empty()
    }

    /// The next `count` octets, or all if there are fewer.
    #[inline]
    pub(super) fn take(&mut self, count: usize) -> Octets<'a> {
        let (taken, rest) = self.0.split_at(count.min(self.0.len()));
        self.0 = rest;
        Octets(taken)
    }

    /// The next `N` octets; missing ones are zero.
    #[inline]
    pub(super) fn array<const N: usize>(&mut self) -> [u8; N] {
        if let Some((array, rest)) = self.0.split_first_chunk() {
            self.0 = rest;
            return *array;
        }
        let mut array = [0; N];
        array[..self.0.len()].copy_from_slice(self.0);
        self.0 = &[];
        array
    }

    #[inline]
    pub(super) fn u8(&mut self) -> u8 {
        self.array::<1>()[0]
    }

    #[inline]
    pub(super) fn u16(&mut self) -> u16 {
        u16::from_be_bytes(self.array())
    }

    #[inline]
    pub(super) fn u32(&mut self) -> u32 {
        u32::from_be_bytes(self.array())
    }

    #[inline]
    pub(super) fn asn(&mut self, width: usize) -> u32 {
        if width == 4 { self.u32() } else { u32::from(self.u16()) }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AddressFamily {
    V4,
    V6,
}

impl AddressFamily {
    /// Writes an address; of IPv4 the first four octets.
    pub(super) fn write(self, address: [u8; 16], out: &mut Vec<u8>) {
        match self {
            Self::V4 => digits::ipv4([address[0], address[1], address[2], address[3]], out),
            Self::V6 => digits::ipv6(address, Zeros::Bgpdump, out),
        }
    }
}

/// The part of a line before the peer: format, time and kind.
pub(super) fn head(
    format: &str,
    (seconds, micros): (u32, Option<u32>),
    kind: &str,
    out: &mut Vec<u8>,
) {
    out.extend_from_slice(format.as_bytes());
    out.push(b'|');
    digits::decimal(u64::from(seconds), out);
    if let Some(micros) = micros {
        out.push(b'.');
        digits::padded(u64::from(micros), 6, out);
    }
    out.push(b'|');
    out.extend_from_slice(kind.as_bytes());
    out.push(b'|');
}
