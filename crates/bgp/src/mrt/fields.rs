//! Fields one after the other, each with its name and place for errors.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::{Afi, Asn, Error, Result};

/// What is left of bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Fields<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Fields<'a> {
    pub(crate) const fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, at: 0 }
    }

    pub(crate) const fn at(&self) -> usize {
        self.at
    }

    pub(crate) fn rest(&self) -> &'a [u8] {
        &self.bytes[self.at..]
    }

    pub(crate) const fn is_empty(&self) -> bool {
        self.at == self.bytes.len()
    }

    #[cold]
    fn short(&self, field: &'static str, need: usize) -> Error {
        Error::Short { field, at: self.at, need, have: self.bytes.len() - self.at }
    }

    #[inline]
    pub(crate) fn take(&mut self, field: &'static str, count: usize) -> Result<&'a [u8]> {
        let end = self.at.checked_add(count).filter(|end| *end <= self.bytes.len());
        let Some(end) = end else { return Err(self.short(field, count)) };
        let taken = &self.bytes[self.at..end];
        self.at = end;
        Ok(taken)
    }

    #[inline]
    fn array<const N: usize>(&mut self, field: &'static str) -> Result<[u8; N]> {
        match self.bytes[self.at..].first_chunk::<N>() {
            Some(chunk) => {
                self.at += N;
                Ok(*chunk)
            }
            None => Err(self.short(field, N)),
        }
    }

    #[inline]
    pub(crate) fn u8(&mut self, field: &'static str) -> Result<u8> {
        self.array::<1>(field).map(|[byte]| byte)
    }

    #[inline]
    pub(crate) fn u16(&mut self, field: &'static str) -> Result<u16> {
        self.array(field).map(u16::from_be_bytes)
    }

    #[inline]
    pub(crate) fn u32(&mut self, field: &'static str) -> Result<u32> {
        self.array(field).map(u32::from_be_bytes)
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

    /// An address family of IP: whether it is IPv6.
    #[inline]
    pub(crate) fn is_ipv6(&mut self, field: &'static str) -> Result<bool> {
        let at = self.at;
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
