//! Encoding of numbers in messages between agents.

use base::{AgentId, leb128};

use crate::{Error, Result};

#[derive(Debug, Default)]
pub(crate) struct Writer(Vec<u8>);

impl Writer {
    pub(crate) fn byte(&mut self, byte: u8) {
        self.0.push(byte);
    }

    pub(crate) fn fixed(&mut self, bytes: &[u8]) {
        self.0.extend_from_slice(bytes);
    }

    pub(crate) fn number(&mut self, number: u64) {
        leb128::put(&mut self.0, number);
    }

    pub(crate) fn finish(self) -> Vec<u8> {
        self.0
    }
}

#[derive(Debug)]
pub(crate) struct Reader<'a> {
    from: AgentId,
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Reader<'a> {
    pub(crate) fn new(from: AgentId, bytes: &'a [u8]) -> Self {
        Self { from, bytes, at: 0 }
    }

    pub(crate) fn from(&self) -> AgentId {
        self.from
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.at == self.bytes.len()
    }

    pub(crate) fn malformed(&self, what: &'static str) -> Error {
        Error { from: self.from, at: self.at, what }
    }

    pub(crate) fn byte(&mut self) -> Result<u8> {
        let byte = self.bytes.get(self.at).copied();
        let byte = byte.ok_or_else(|| self.malformed("truncated message"))?;
        self.at += 1;
        Ok(byte)
    }

    pub(crate) fn fixed<const N: usize>(&mut self) -> Result<[u8; N]> {
        let rest = self.bytes.get(self.at..).unwrap_or_default();
        let Some((bytes, _)) = rest.split_first_chunk::<N>() else {
            return Err(self.malformed("truncated message"));
        };
        self.at += N;
        Ok(*bytes)
    }

    pub(crate) fn number(&mut self) -> Result<u64> {
        let number = leb128::get(|| self.byte())?;
        number.ok_or_else(|| self.malformed("number above 64 bits"))
    }

    pub(crate) fn small(&mut self) -> Result<u32> {
        let number = self.number()?;
        u32::try_from(number).map_err(|_| self.malformed("number above 32 bits"))
    }

    /// Fails if there are bytes left.
    pub(crate) fn end(&self) -> Result<()> {
        if self.is_empty() { Ok(()) } else { Err(self.malformed("trailing bytes")) }
    }
}
