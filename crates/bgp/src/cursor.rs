//! Fields in the order of the bytes, each checked against the bytes that are there.

use crate::{Error, Result};

/// A place in bytes that are being read. Names of fields go into errors.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cursor<'a> {
    rest: &'a [u8],
    at: usize,
}

impl<'a> Cursor<'a> {
    /// At the start of `bytes`, which errors call byte `at`.
    pub(crate) const fn new(bytes: &'a [u8], at: usize) -> Self {
        Self { rest: bytes, at }
    }

    /// Where the next byte is.
    pub(crate) const fn at(&self) -> usize {
        self.at
    }

    /// What is left.
    pub(crate) const fn rest(&self) -> &'a [u8] {
        self.rest
    }

    /// Whether nothing is left.
    pub(crate) const fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    #[cold]
    fn short(&self, field: &'static str, need: usize) -> Error {
        Error::Short { field, at: self.at, need, have: self.rest.len() }
    }

    /// The next `N` bytes.
    #[inline]
    pub(crate) fn array<const N: usize>(&mut self, field: &'static str) -> Result<[u8; N]> {
        let Some((array, rest)) = self.rest.split_first_chunk::<N>() else {
            return Err(self.short(field, N));
        };
        self.rest = rest;
        self.at += N;
        Ok(*array)
    }

    /// The next `length` bytes.
    #[inline]
    pub(crate) fn take(&mut self, length: usize, field: &'static str) -> Result<&'a [u8]> {
        let Some((taken, rest)) = self.rest.split_at_checked(length) else {
            return Err(self.short(field, length));
        };
        self.rest = rest;
        self.at += length;
        Ok(taken)
    }

    /// One octet.
    #[inline]
    pub(crate) fn u8(&mut self, field: &'static str) -> Result<u8> {
        self.array(field).map(u8::from_be_bytes)
    }

    /// Two octets.
    #[inline]
    pub(crate) fn u16(&mut self, field: &'static str) -> Result<u16> {
        self.array(field).map(u16::from_be_bytes)
    }

    /// Four octets.
    #[inline]
    pub(crate) fn u32(&mut self, field: &'static str) -> Result<u32> {
        self.array(field).map(u32::from_be_bytes)
    }
}
