//! Compression of files. gzip is written as one member and bzip2 as one stream: readers that use
//! the high-level functions of libbz2 stop at the end of the first stream.

use std::io::{self, Read, Write};

use bzip2::write::BzEncoder;
use flate2::write::GzEncoder;
use sha2::{Digest, Sha256};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Compression {
    None,
    /// gzip, level 1 to 9.
    Gzip(u8),
    /// bzip2, blocks of the largest size.
    Bzip2,
    /// zstd, level 1 to 19.
    Zstd(u8),
}

impl Compression {
    pub const fn suffix(self) -> &'static str {
        match self {
            Self::None => "",
            Self::Gzip(_) => ".gz",
            Self::Bzip2 => ".bz2",
            Self::Zstd(_) => ".zst",
        }
    }
}

pub(super) const SUFFIXES: [&str; 4] = ["", ".gz", ".bz2", ".zst"];

pub(crate) enum Compressor<W: Write> {
    None(W),
    Gzip(GzEncoder<W>),
    Bzip2(BzEncoder<W>),
    Zstd(zstd::Encoder<'static, W>),
}

impl<W: Write> Compressor<W> {
    pub(crate) fn new(compression: Compression, target: W) -> io::Result<Self> {
        Ok(match compression {
            Compression::None => Self::None(target),
            Compression::Gzip(level) => {
                Self::Gzip(GzEncoder::new(target, flate2::Compression::new(level.into())))
            }
            Compression::Bzip2 => Self::Bzip2(BzEncoder::new(target, bzip2::Compression::best())),
            Compression::Zstd(level) => Self::Zstd(zstd::Encoder::new(target, level.into())?),
        })
    }

    pub(crate) fn writer(&mut self) -> &mut dyn Write {
        match self {
            Self::None(target) => target,
            Self::Gzip(encoder) => encoder,
            Self::Bzip2(encoder) => encoder,
            Self::Zstd(encoder) => encoder,
        }
    }

    pub(crate) fn finish(self) -> io::Result<W> {
        match self {
            Self::None(target) => Ok(target),
            Self::Gzip(encoder) => encoder.finish(),
            Self::Bzip2(encoder) => encoder.finish(),
            Self::Zstd(encoder) => encoder.finish(),
        }
    }
}

/// Length and SHA-256 of what is written to `target`.
pub(crate) struct Digester<W> {
    target: W,
    hash: Sha256,
    bytes: u64,
}

impl<W: Write> Digester<W> {
    pub(crate) fn new(target: W) -> Self {
        Self { target, hash: Sha256::new(), bytes: 0 }
    }

    pub(crate) fn finish(self) -> Finished {
        Finished { bytes: self.bytes, sha256: crate::query::hex(&self.hash.finalize()) }
    }
}

impl<W: Write> Write for Digester<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let count = self.target.write(bytes)?;
        self.hash.update(&bytes[..count]);
        self.bytes += count as u64;
        Ok(count)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.target.flush()
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Finished {
    pub(crate) bytes: u64,
    pub(crate) sha256: String,
}

pub(super) fn copy(
    compression: Compression,
    source: &mut impl Read,
    length: u64,
    target: &mut impl Write,
) -> io::Result<Finished> {
    let mut compressor = Compressor::new(compression, Digester::new(target))?;
    let mut block = vec![0; 1 << 18];
    let mut left = length;
    while left > 0 {
        let part = &mut block[..left.min(1 << 18) as usize];
        source.read_exact(part)?;
        compressor.writer().write_all(part)?;
        left -= part.len() as u64;
    }
    Ok(compressor.finish()?.finish())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn noise(length: usize) -> Vec<u8> {
        let mut state = 7_u64;
        let mut next = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (state >> 33) as u8
        };
        // Alternating runs and noise: the best and the worst case of a compressor.
        (0..length).map(|at| if at / 5_000 % 2 == 0 { next() } else { 0xff }).collect()
    }

    fn unpack(compression: Compression, bytes: &[u8]) -> Vec<u8> {
        let mut content = Vec::new();
        match compression {
            Compression::None => content.extend_from_slice(bytes),
            // For readers of one member or one stream, nothing may follow it.
            Compression::Gzip(_) => {
                let mut reader = flate2::bufread::GzDecoder::new(bytes);
                reader.read_to_end(&mut content).unwrap();
                assert!(reader.into_inner().is_empty());
            }
            Compression::Bzip2 => {
                let mut reader = bzip2::bufread::BzDecoder::new(bytes);
                reader.read_to_end(&mut content).unwrap();
                assert!(reader.into_inner().is_empty());
            }
            Compression::Zstd(_) => content = zstd::stream::decode_all(bytes).unwrap(),
        }
        content
    }

    #[test]
    fn round_trips_each_format() {
        for compression in [
            Compression::None,
            Compression::Gzip(1),
            Compression::Gzip(6),
            Compression::Bzip2,
            Compression::Zstd(3),
        ] {
            for length in [0, 1, 719_901, 1_500_000] {
                let content = noise(length);
                let mut bytes = Vec::new();
                let done = copy(compression, &mut &content[..], length as u64, &mut bytes).unwrap();
                let sha256 = crate::query::hex(&Sha256::digest(&bytes));
                assert_eq!(done, Finished { bytes: bytes.len() as u64, sha256 });
                assert!(unpack(compression, &bytes) == content, "{compression:?} {length}");
            }
        }
    }

    #[test]
    fn fails_on_shrinking_file() {
        let result = copy(Compression::Gzip(6), &mut &[0_u8; 10][..], 11, &mut Vec::new());
        assert_eq!(result.err().unwrap().kind(), io::ErrorKind::UnexpectedEof);
    }
}
