//! Compression of finished files, block by block on several threads.
//!
//! Each format is one that every reader of public archives takes: gzip as one member (blocks
//! joined by sync flushes, RFC 1951 §3.2.4), bzip2 as one stream (readers built on libbz2's
//! high-level calls stop at the end of the first), zstd as frames in a row (RFC 8878 §3.1).

use std::io::{self, Read, Write};
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};

use flate2::{Compress, Crc, FlushCompress, Status};
use sha2::{Digest, Sha256};

use super::bzip2_join::{self, Joiner};

/// How finished files are compressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Compression {
    /// Not at all.
    None,
    /// gzip, level 1 to 9.
    Gzip(u8),
    /// bzip2, blocks of the largest size.
    Bzip2,
    /// zstd, level 1 to 19.
    Zstd(u8),
}

impl Compression {
    /// What a file's name ends with.
    pub const fn suffix(self) -> &'static str {
        match self {
            Self::None => "",
            Self::Gzip(_) => ".gz",
            Self::Bzip2 => ".bz2",
            Self::Zstd(_) => ".zst",
        }
    }

    /// Bytes of content that are compressed as one block.
    const fn block(self) -> usize {
        match self {
            Self::None | Self::Gzip(_) => 1 << 20,
            Self::Bzip2 => bzip2_join::BLOCK,
            Self::Zstd(_) => 8 << 20,
        }
    }
}

/// All suffixes that a finished file may have.
pub(super) const SUFFIXES: [&str; 4] = ["", ".gz", ".bz2", ".zst"];

/// A block on its way through a worker.
struct Job {
    compression: Compression,
    content: Vec<u8>,
    last: bool,
    answer: SyncSender<io::Result<Packed>>,
}

/// A compressed block.
struct Packed {
    bytes: Vec<u8>,
    /// Of the content, for gzip.
    sum: Crc,
}

/// Threads that compress blocks.
pub(super) struct Pool {
    jobs: Option<Sender<Job>>,
    threads: Vec<JoinHandle<()>>,
}

impl Pool {
    /// Starts `workers` threads (at least one).
    pub(super) fn start(workers: usize) -> io::Result<Self> {
        let (jobs, queue) = channel::<Job>();
        let queue = Arc::new(Mutex::new(queue));
        let threads = (0..workers.max(1))
            .map(|_| {
                let queue = Arc::clone(&queue);
                thread::Builder::new().name("compress".to_owned()).spawn(move || work(&queue))
            })
            .collect::<io::Result<_>>()?;
        Ok(Self { jobs: Some(jobs), threads })
    }

    fn submit(
        &self,
        compression: Compression,
        content: Vec<u8>,
        last: bool,
    ) -> Receiver<io::Result<Packed>> {
        let (answer, place) = sync_channel(1);
        if let Some(jobs) = &self.jobs {
            // A failure shows when the answer is waited for.
            let _ = jobs.send(Job { compression, content, last, answer });
        }
        place
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        self.jobs = None;
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

fn work(queue: &Mutex<Receiver<Job>>) {
    loop {
        let job = queue.lock().unwrap_or_else(PoisonError::into_inner).recv();
        let Ok(job) = job else { return };
        let packed = pack(job.compression, &job.content, job.last);
        // Whoever asked may have failed meanwhile.
        let _ = job.answer.send(packed);
    }
}

fn pack(compression: Compression, content: &[u8], last: bool) -> io::Result<Packed> {
    let mut sum = Crc::new();
    let bytes = match compression {
        Compression::None => content.to_vec(),
        Compression::Gzip(level) => {
            sum.update(content);
            deflate(content, level, last)?
        }
        Compression::Bzip2 => bzip2_join::pack(content)?,
        Compression::Zstd(level) => zstd::bulk::compress(content, i32::from(level))?,
    };
    Ok(Packed { bytes, sum })
}

/// A part of a deflate stream that ends at a byte, and ends the stream if it is the last.
fn deflate(content: &[u8], level: u8, last: bool) -> io::Result<Vec<u8>> {
    let mut state = Compress::new(flate2::Compression::new(level.into()), false);
    let flush = if last { FlushCompress::Finish } else { FlushCompress::Sync };
    let mut bytes = Vec::with_capacity(content.len() / 3 + 1024);
    loop {
        let rest = content.get(state.total_in() as usize..).unwrap_or_default();
        if bytes.capacity() - bytes.len() < 64 {
            bytes.reserve(bytes.capacity());
        }
        let status = state.compress_vec(rest, &mut bytes, flush).map_err(io::Error::other)?;
        let all = state.total_in() as usize == content.len();
        // A sync flush is over once it leaves room unused.
        let flushed = all && !last && bytes.len() < bytes.capacity();
        if status == Status::StreamEnd || flushed {
            return Ok(bytes);
        }
    }
}

/// What was written of a finished file.
pub(super) struct Finished {
    /// Its length.
    pub bytes: u64,
    /// SHA-256 of all of it.
    pub digest: [u8; 32],
}

/// Compresses the `length` bytes of `source` into `target`.
pub(super) fn copy(
    pool: &Pool,
    compression: Compression,
    source: &mut impl Read,
    length: u64,
    target: &mut impl Write,
) -> io::Result<Finished> {
    let ahead = pool.threads.len() * 2;
    let mut writer = Writer { target, hash: Sha256::new(), bytes: 0 };
    let mut assembly = Assembly::new(compression);
    assembly.begin(&mut writer)?;
    let mut waiting = std::collections::VecDeque::with_capacity(ahead);
    let mut left = length;
    let mut over = false;
    while !over || !waiting.is_empty() {
        if !over && waiting.len() < ahead {
            let size = left.min(compression.block() as u64);
            let mut content = Vec::with_capacity(size as usize);
            source.by_ref().take(size).read_to_end(&mut content)?;
            if content.len() as u64 != size {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            left -= size;
            over = left == 0;
            waiting.push_back(pool.submit(compression, content, over));
        } else if let Some(answer) = waiting.pop_front() {
            let packed = answer.recv().map_err(|_| io::Error::other("a worker ended"))??;
            assembly.block(&packed, &mut writer)?;
        }
    }
    assembly.end(&mut writer)?;
    Ok(Finished { bytes: writer.bytes, digest: writer.hash.finalize().into() })
}

struct Writer<'a, W> {
    target: &'a mut W,
    hash: Sha256,
    bytes: u64,
}

impl<W: Write> Writer<'_, W> {
    fn put(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.target.write_all(bytes)?;
        self.hash.update(bytes);
        self.bytes += bytes.len() as u64;
        Ok(())
    }
}

/// What stands before, between and behind the blocks.
enum Assembly {
    Plain,
    Gzip(Crc),
    Bzip2(Joiner),
}

impl Assembly {
    fn new(compression: Compression) -> Self {
        match compression {
            Compression::None | Compression::Zstd(_) => Self::Plain,
            Compression::Gzip(_) => Self::Gzip(Crc::new()),
            Compression::Bzip2 => Self::Bzip2(Joiner::new()),
        }
    }

    fn begin<W: Write>(&self, writer: &mut Writer<'_, W>) -> io::Result<()> {
        /// Deflate, no name, no time, system unknown (RFC 1952 §2.3).
        const GZIP: [u8; 10] = [0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 255];
        if let Self::Gzip(_) = self { writer.put(&GZIP) } else { Ok(()) }
    }

    fn block<W: Write>(&mut self, packed: &Packed, writer: &mut Writer<'_, W>) -> io::Result<()> {
        match self {
            Self::Plain => writer.put(&packed.bytes),
            Self::Gzip(sum) => {
                sum.combine(&packed.sum);
                writer.put(&packed.bytes)
            }
            Self::Bzip2(joiner) => writer.put(&joiner.add(&packed.bytes)?),
        }
    }

    fn end<W: Write>(&mut self, writer: &mut Writer<'_, W>) -> io::Result<()> {
        match self {
            Self::Plain => Ok(()),
            Self::Gzip(sum) => {
                writer.put(&sum.sum().to_le_bytes())?;
                writer.put(&sum.amount().to_le_bytes())
            }
            Self::Bzip2(joiner) => writer.put(&joiner.end()),
        }
    }
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
        // Runs and noise by turns: both the best and the worst of a compressor.
        (0..length).map(|at| if at / 5_000 % 2 == 0 { next() } else { 0xff }).collect()
    }

    fn unpack(compression: Compression, bytes: &[u8]) -> Vec<u8> {
        let mut content = Vec::new();
        match compression {
            Compression::None => content.extend_from_slice(bytes),
            // Readers of one member, one stream: nothing may stand behind it.
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
    fn every_format_gives_the_content_back() {
        let pool = Pool::start(2).unwrap();
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
                let done =
                    copy(&pool, compression, &mut &content[..], length as u64, &mut bytes).unwrap();
                assert_eq!(done.bytes, bytes.len() as u64);
                assert_eq!(done.digest, <[u8; 32]>::from(Sha256::digest(&bytes)));
                assert!(unpack(compression, &bytes) == content, "{compression:?} {length}");
            }
        }
    }

    #[test]
    fn a_file_that_shrinks_is_an_error() {
        let pool = Pool::start(1).unwrap();
        let result = copy(&pool, Compression::Gzip(6), &mut &[0_u8; 10][..], 11, &mut Vec::new());
        assert_eq!(result.err().unwrap().kind(), io::ErrorKind::UnexpectedEof);
    }
}
