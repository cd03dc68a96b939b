//! Reads fields in order, each checked against the bytes that remain.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::{Afi, Asn, Error, Prefix, Result};

/// Read position in a byte slice. The names of fields appear in errors.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cursor<'a> {
    rest: &'a [u8],
    at: usize,
}

impl<'a> Cursor<'a> {
    /// A cursor at the start of `bytes`, whose first byte has the offset `at` in errors.
    pub(crate) const fn new(bytes: &'a [u8], at: usize) -> Self {
        Self { rest: bytes, at }
    }

    /// Offset of the next byte.
    pub(crate) const fn at(&self) -> usize {
        self.at
    }

    /// Remaining bytes, without reading them.
    pub(crate) const fn rest(&self) -> &'a [u8] {
        self.rest
    }

    /// Whether no bytes remain.
    pub(crate) const fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    #[cold]
    fn short(&self, field: &'static str, need: usize) -> Error {
        Error::Short { field, at: self.at, need, have: self.rest.len() }
    }

    /// Reads the next `N` bytes.
    #[inline]
    pub(crate) fn array<const N: usize>(&mut self, field: &'static str) -> Result<[u8; N]> {
        let Some((array, rest)) = self.rest.split_first_chunk::<N>() else {
            return Err(self.short(field, N));
        };
        self.rest = rest;
        self.at += N;
        Ok(*array)
    }

    /// Reads the next `length` bytes.
    #[inline]
    pub(crate) fn take(&mut self, length: usize, field: &'static str) -> Result<&'a [u8]> {
        let Some((taken, rest)) = self.rest.split_at_checked(length) else {
            return Err(self.short(field, length));
        };
        self.rest = rest;
        self.at += length;
        Ok(taken)
    }

    /// Reads one octet.
    #[inline]
    pub(crate) fn u8(&mut self, field: &'static str) -> Result<u8> {
        self.array(field).map(u8::from_be_bytes)
    }

    /// Reads two octets, big-endian.
    #[inline]
    pub(crate) fn u16(&mut self, field: &'static str) -> Result<u16> {
        self.array(field).map(u16::from_be_bytes)
    }

    /// Reads four octets, big-endian.
    #[inline]
    pub(crate) fn u32(&mut self, field: &'static str) -> Result<u32> {
        self.array(field).map(u32::from_be_bytes)
    }

    /// Number of remaining bytes.
    pub(crate) const fn left(&self) -> usize {
        self.rest.len()
    }

    /// The error for an invalid `value` of the field before the cursor.
    pub(crate) const fn wrong(
        &self,
        field: &'static str,
        value: u64,
        wrong: &'static str,
    ) -> Error {
        Error::Value { field, at: self.at, value, wrong }
    }

    /// Fails unless all bytes have been read.
    pub(crate) fn end(&self, field: &'static str) -> Result<()> {
        if self.is_empty() {
            return Ok(());
        }
        Err(self.wrong(field, self.left() as u64, "a number of excess bytes"))
    }

    /// Reads the next `count` bytes as a separate cursor with the same offsets.
    pub(crate) fn part(&mut self, count: usize, field: &'static str) -> Result<Self> {
        let at = self.at;
        self.take(count, field).map(|part| Self::new(part, at))
    }

    /// Reads a prefix of `bits` bits in the minimum number of octets.
    pub(crate) fn prefix(&mut self, afi: Afi, bits: u8, field: &'static str) -> Result<Prefix> {
        let limit = if afi == Afi::IPV4 { 32 } else { 128 };
        if bits > limit {
            return Err(self.wrong(field, bits.into(), "longer than an address"));
        }
        let octets = self.take(usize::from(bits).div_ceil(8), field)?;
        let mut address = [0; 16];
        address[..octets.len()].copy_from_slice(octets);
        let address = u128::from_be_bytes(address);
        Ok(match afi {
            Afi::IPV4 => Prefix::V4((address >> 96) as u32, bits),
            _ => Prefix::V6(address, bits),
        })
    }

    #[inline]
    pub(crate) fn asn(&mut self, field: &'static str, four_octets: bool) -> Result<Asn> {
        if four_octets {
            self.u32(field).map(Asn)
        } else {
            self.u16(field).map(|number| Asn(number.into()))
        }
    }

    #[inline]
    pub(crate) fn ipv4(&mut self, field: &'static str) -> Result<IpAddr> {
        self.u32(field).map(|bits| IpAddr::V4(Ipv4Addr::from_bits(bits)))
    }

    #[inline]
    pub(crate) fn ipv6(&mut self, field: &'static str) -> Result<IpAddr> {
        self.array::<16>(field).map(|octets| IpAddr::V6(Ipv6Addr::from(octets)))
    }

    #[inline]
    pub(crate) fn address(&mut self, field: &'static str, v6: bool) -> Result<IpAddr> {
        if v6 { self.ipv6(field) } else { self.ipv4(field) }
    }

    /// Reads an address family of IP; `true` for IPv6.
    #[inline]
    pub(crate) fn is_ipv6(&mut self, field: &'static str) -> Result<bool> {
        let at = self.at();
        match Afi(self.u16(field)?) {
            Afi::IPV4 => Ok(false),
            Afi::IPV6 => Ok(true),
            Afi(other) => {
                let wrong = "neither IPv4 (1) nor IPv6 (2)";
                Err(Error::Value { field, at, value: other.into(), wrong })
            }
        }
    }
}
