//! Numbers and fields of messages between members.

use crate::{AgentId, Error, Result};

/// Puts a message together.
#[derive(Debug, Default)]
pub(crate) struct Writer(Vec<u8>);

impl Writer {
    pub(crate) fn byte(&mut self, byte: u8) {
        self.0.push(byte);
    }

    pub(crate) fn fixed(&mut self, bytes: &[u8]) {
        self.0.extend_from_slice(bytes);
    }

    /// LEB128: seven bits a byte, lowest first, the highest bit set on all but the last.
    pub(crate) fn number(&mut self, mut number: u64) {
        while number >= 0x80 {
            self.0.push(number as u8 | 0x80);
            number >>= 7;
        }
        self.0.push(number as u8);
    }

    pub(crate) fn finish(self) -> Vec<u8> {
        self.0
    }
}

/// Takes a message apart.
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

    /// Who sent it.
    pub(crate) fn from(&self) -> AgentId {
        self.from
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.at == self.bytes.len()
    }

    pub(crate) fn malformed(&self, what: &'static str) -> Error {
        Error::Malformed { from: self.from, at: self.at, what }
    }

    pub(crate) fn byte(&mut self) -> Result<u8> {
        let byte = self.bytes.get(self.at).copied();
        let byte = byte.ok_or_else(|| self.malformed("it ends too soon"))?;
        self.at += 1;
        Ok(byte)
    }

    pub(crate) fn fixed<const N: usize>(&mut self) -> Result<[u8; N]> {
        let rest = self.bytes.get(self.at..).unwrap_or_default();
        let Some((bytes, _)) = rest.split_first_chunk::<N>() else {
            return Err(self.malformed("it ends too soon"));
        };
        self.at += N;
        Ok(*bytes)
    }

    /// See [`Writer::number`].
    pub(crate) fn number(&mut self) -> Result<u64> {
        let mut number = 0;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            let bits = u64::from(byte & 0x7f);
            if bits << shift >> shift != bits {
                break;
            }
            number |= bits << shift;
            if byte & 0x80 == 0 {
                return Ok(number);
            }
        }
        Err(self.malformed("a number beyond 64 bits"))
    }

    /// A number of at most 32 bits.
    pub(crate) fn small(&mut self) -> Result<u32> {
        let number = self.number()?;
        u32::try_from(number).map_err(|_| self.malformed("a number beyond 32 bits"))
    }

    /// Nothing may follow.
    pub(crate) fn end(&self) -> Result<()> {
        if self.is_empty() { Ok(()) } else { Err(self.malformed("more than there should be")) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_survive_and_too_large_ones_are_refused() {
        for number in [0, 1, 127, 128, 300, u64::from(u32::MAX), u64::MAX] {
            let mut out = Writer::default();
            out.number(number);
            let bytes = out.finish();
            let mut reader = Reader::new(AgentId(3), &bytes);
            assert_eq!(reader.number(), Ok(number));
            assert_eq!(reader.end(), Ok(()));
        }
        let too_large = [0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x02];
        assert!(Reader::new(AgentId(0), &too_large).number().is_err());
        assert!(Reader::new(AgentId(0), &[0x80]).number().is_err());
        assert!(Reader::new(AgentId(0), &[0x80; 20]).number().is_err());
    }
}
