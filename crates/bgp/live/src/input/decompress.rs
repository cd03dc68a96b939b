//! Decompresses in a separate thread.

use std::io::{self, BufRead, BufReader, ErrorKind, Read};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, SyncSender, channel, sync_channel};
use std::thread;
use std::time::Duration;

use super::format::Packing;

const BUFFER: usize = 256 << 10;
const MAX_QUEUED_BUFFERS: usize = 4;
/// Maximum zstd window: 128 MiB, as of `zstd --long`.
const ZSTD_WINDOW_LOG: u32 = 27;
/// Memory for xz, twice the need of `xz -9`.
const XZ_KIB: u32 = 160 << 10;

pub(super) struct Unpacked {
    full: Receiver<io::Result<Vec<u8>>>,
    empty: Sender<Vec<u8>>,
    /// The current buffer, and the number of bytes read.
    buffer: Vec<u8>,
    read: usize,
    failed: Option<io::Error>,
    ended: bool,
}

impl Unpacked {
    pub(super) fn start(packing: Packing, packed: impl Read + Send + 'static) -> io::Result<Self> {
        let (full, buffers) = sync_channel(MAX_QUEUED_BUFFERS);
        let (empty, used) = channel();
        let work = move || run(packing, packed, &full, &used);
        thread::Builder::new().name("unpack".to_owned()).spawn(work)?;
        let buffer = Vec::new();
        Ok(Self { full: buffers, empty, buffer, read: 0, failed: None, ended: false })
    }

    /// Waits for data, the end, or a failure.
    pub(super) fn wait(&mut self, wait: Duration) -> bool {
        if self.read < self.buffer.len() || self.ended || self.failed.is_some() {
            return true;
        }
        match self.full.recv_timeout(wait) {
            Ok(Ok(buffer)) => {
                let used = std::mem::replace(&mut self.buffer, buffer);
                self.read = 0;
                // The other thread may have ended.
                let _ = self.empty.send(used);
                true
            }
            Ok(Err(error)) => {
                self.failed = Some(error);
                true
            }
            Err(RecvTimeoutError::Timeout) => false,
            Err(RecvTimeoutError::Disconnected) => {
                self.ended = true;
                true
            }
        }
    }

    /// Reads available bytes; none at the end.
    pub(super) fn read(&mut self, room: &mut [u8]) -> io::Result<usize> {
        if let Some(error) = self.failed.take() {
            self.ended = true;
            return Err(error);
        }
        let rest = &self.buffer[self.read..];
        let count = rest.len().min(room.len());
        room[..count].copy_from_slice(&rest[..count]);
        self.read += count;
        Ok(count)
    }
}

/// Decompresses until the end, a failure, or the reader closes.
fn run(
    packing: Packing,
    packed: impl Read + Send + 'static,
    full: &SyncSender<io::Result<Vec<u8>>>,
    used: &Receiver<Vec<u8>>,
) {
    let mut reader = match open(packing, BufReader::with_capacity(BUFFER, packed)) {
        Ok(reader) => reader,
        Err(error) => {
            let _ = full.send(Err(error));
            return;
        }
    };
    loop {
        let mut buffer = used.try_recv().unwrap_or_default();
        buffer.resize(BUFFER, 0);
        let (count, failure) = fill(&mut *reader, &mut buffer);
        buffer.truncate(count);
        if count > 0 && full.send(Ok(buffer)).is_err() {
            return;
        }
        if let Some(error) = failure {
            let _ = full.send(Err(error));
            return;
        }
        if count == 0 {
            return;
        }
    }
}

/// Fills a buffer, except at the end or before damage.
fn fill(reader: &mut dyn Read, buffer: &mut [u8]) -> (usize, Option<io::Error>) {
    let mut count = 0;
    while count < buffer.len() {
        match reader.read(&mut buffer[count..]) {
            Ok(0) => break,
            Ok(more) => count += more,
            Err(e) if e.kind() == ErrorKind::Interrupted => {}
            Err(e) => return (count, Some(e)),
        }
    }
    (count, None)
}

fn open(
    packing: Packing,
    packed: BufReader<impl Read + Send + 'static>,
) -> io::Result<Box<dyn Read>> {
    Ok(match packing {
        Packing::Gzip => Box::new(flate2::bufread::MultiGzDecoder::new(packed)),
        Packing::Bzip2 => Box::new(bzip2::bufread::MultiBzDecoder::new(packed)),
        Packing::Zstd => {
            let mut decoder = zstd::stream::read::Decoder::with_buffer(packed)?;
            decoder.window_log_max(ZSTD_WINDOW_LOG)?;
            Box::new(decoder)
        }
        Packing::Lz4 => Box::new(Lz4 { frames: Some(lz4_flex::frame::FrameDecoder::new(packed)) }),
        Packing::Xz => Box::new(lzma_rust2::XzReader::new_mem_limit(packed, true, XZ_KIB)),
    })
}

/// Consecutive lz4 frames.
struct Lz4<R: Read> {
    frames: Option<lz4_flex::frame::FrameDecoder<R>>,
}

impl<R: BufRead> Read for Lz4<R> {
    fn read(&mut self, room: &mut [u8]) -> io::Result<usize> {
        loop {
            let Some(decoder) = &mut self.frames else { return Ok(0) };
            match decoder.read(room)? {
                0 => {
                    let rest = self.frames.take().map(lz4_flex::frame::FrameDecoder::into_inner);
                    let Some(mut rest) = rest else { return Ok(0) };
                    if rest.fill_buf()?.is_empty() {
                        return Ok(0);
                    }
                    self.frames = Some(lz4_flex::frame::FrameDecoder::new(rest));
                }
                count => return Ok(count),
            }
        }
    }
}
