//! Fields that the address families and the richer attributes are made of: addresses, prefixes,
//! parts with a length before them; read and written.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::cursor::Cursor;
use crate::{Afi, Error, Prefix, Result};

impl<'a> Cursor<'a> {
    /// Bytes that are left.
    pub(crate) const fn left(&self) -> usize {
        self.rest().len()
    }

    /// All that is left; the cursor is at the end then.
    pub(crate) fn finish(&mut self) -> &'a [u8] {
        let rest = self.rest();
        *self = Self::new(&[], self.at() + rest.len());
        rest
    }

    /// That `value` of the field before the cursor is wrong.
    pub(crate) fn wrong(&self, field: &'static str, value: u64, wrong: &'static str) -> Error {
        Error::Value { field, at: self.at(), value, wrong }
    }

    /// An error unless everything has been read.
    pub(crate) fn end(&self, field: &'static str) -> Result<()> {
        if self.is_empty() {
            return Ok(());
        }
        Err(self.wrong(field, self.left() as u64, "bytes too many"))
    }

    /// The next `count` bytes as a cursor of their own, which counts offsets as this one does.
    pub(crate) fn part(&mut self, count: usize, field: &'static str) -> Result<Self> {
        let at = self.at();
        self.take(count, field).map(|part| Self::new(part, at))
    }

    /// Three octets.
    pub(crate) fn u24(&mut self, field: &'static str) -> Result<u32> {
        self.array(field).map(|[high, middle, low]| u32::from_be_bytes([0, high, middle, low]))
    }

    pub(crate) fn u64(&mut self, field: &'static str) -> Result<u64> {
        self.array(field).map(u64::from_be_bytes)
    }

    pub(crate) fn ipv4(&mut self, field: &'static str) -> Result<Ipv4Addr> {
        self.u32(field).map(Ipv4Addr::from_bits)
    }

    pub(crate) fn ipv6(&mut self, field: &'static str) -> Result<Ipv6Addr> {
        self.array::<16>(field).map(Ipv6Addr::from)
    }

    /// An address of `octets` octets, 4 or 16.
    pub(crate) fn address(&mut self, octets: usize, field: &'static str) -> Result<IpAddr> {
        match octets {
            4 => self.ipv4(field).map(IpAddr::V4),
            16 => self.ipv6(field).map(IpAddr::V6),
            _ => Err(self.wrong(field, octets as u64, "no length of an address (4 or 16)")),
        }
    }

    /// An address whose length in bits stands before it; 0 means that there is none.
    pub(crate) fn sized_address(&mut self, field: &'static str) -> Result<Option<IpAddr>> {
        match self.u8(field)? {
            0 => Ok(None),
            32 => self.address(4, field).map(Some),
            128 => self.address(16, field).map(Some),
            bits => Err(self.wrong(field, bits.into(), "no length of an address (0, 32, 128)")),
        }
    }

    /// A prefix of `bits` bits in as few octets as hold them.
    pub(crate) fn prefix(&mut self, afi: Afi, bits: u8, field: &'static str) -> Result<Prefix> {
        let limit = if afi == Afi::IPV4 { 32 } else { 128 };
        if bits > limit {
            return Err(self.wrong(field, bits.into(), "longer than an address"));
        }
        let octets = self.take(usize::from(bits).div_ceil(8), field)?;
        Ok(if afi == Afi::IPV4 {
            let mut address = [0; 4];
            address[..octets.len()].copy_from_slice(octets);
            Prefix::V4(u32::from_be_bytes(address), bits)
        } else {
            let mut address = [0; 16];
            address[..octets.len()].copy_from_slice(octets);
            Prefix::V6(u128::from_be_bytes(address), bits)
        })
    }
}

/// Writes an address.
pub(crate) fn put_address(out: &mut Vec<u8>, address: IpAddr) {
    match address {
        IpAddr::V4(address) => out.extend(address.octets()),
        IpAddr::V6(address) => out.extend(address.octets()),
    }
}

/// Writes an address behind its length in bits; nothing but a zero if there is none.
pub(crate) fn put_sized_address(out: &mut Vec<u8>, address: Option<IpAddr>) {
    match address {
        None => out.push(0),
        Some(address) => {
            out.push(if address.is_ipv4() { 32 } else { 128 });
            put_address(out, address);
        }
    }
}

/// Writes the octets of a prefix, without its length.
pub(crate) fn put_prefix(out: &mut Vec<u8>, prefix: Prefix) {
    let octets = usize::from(prefix.length()).div_ceil(8);
    match prefix {
        Prefix::V4(bits, _) => out.extend(&bits.to_be_bytes()[..octets]),
        Prefix::V6(bits, _) => out.extend(&bits.to_be_bytes()[..octets]),
    }
}

/// Writes what `write` writes behind its length in one octet.
pub(crate) fn put_sized_u8(
    out: &mut Vec<u8>,
    field: &'static str,
    write: impl FnOnce(&mut Vec<u8>) -> Result<()>,
) -> Result<()> {
    let start = out.len();
    out.push(0);
    write(out)?;
    let size = out.len() - start - 1;
    out[start] = u8::try_from(size).map_err(|_| Error::Long { field, size, limit: 255 })?;
    Ok(())
}

/// Writes what `write` writes behind its length in two octets.
pub(crate) fn put_sized_u16(
    out: &mut Vec<u8>,
    field: &'static str,
    write: impl FnOnce(&mut Vec<u8>) -> Result<()>,
) -> Result<()> {
    let start = out.len();
    out.extend([0, 0]);
    write(out)?;
    let size = out.len() - start - 2;
    let length = u16::try_from(size).map_err(|_| Error::Long { field, size, limit: 65535 })?;
    out[start..start + 2].copy_from_slice(&length.to_be_bytes());
    Ok(())
}

/// Bytes in hexadecimal digits, without anything between.
pub(crate) struct Hex<'a>(pub(crate) &'a [u8]);

impl fmt::Display for Hex<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

/// Values with a separator between them.
pub(crate) fn write_list<T: fmt::Display>(
    f: &mut fmt::Formatter<'_>,
    separator: &str,
    values: impl IntoIterator<Item = T>,
) -> fmt::Result {
    for (at, value) in values.into_iter().enumerate() {
        if at > 0 {
            f.write_str(separator)?;
        }
        write!(f, "{value}")?;
    }
    Ok(())
}
