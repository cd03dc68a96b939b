//! Byte inputs: files, pipes, growing files, compressed files.
//!
//! An [`Input`] is a sliding window over the bytes. Parsers (captures, MRT, BMP) read the unread
//! bytes and return the number of bytes that they used. Compression is recognised by the first
//! bytes; a separate thread decompresses, a few buffers ahead.

mod captures;
mod decompress;
mod format;

use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Read};
use std::ops::ControlFlow;
use std::os::fd::AsFd;
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use bgp::mrt::{Cause, Damage, Reader, Record, Step};
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::fs::OFlags;

use crate::{Error, Result};
use decompress::Unpacked;

pub use captures::{Captures, Item, Progress};
pub use format::Format;

/// Bytes per read, which stay in the second-level cache.
const WINDOW: usize = 256 << 10;

const LIMIT: usize = 17 << 20;

const STANDARD: &str = "-";

/// Interval at which [`Input::await_format`] and [`records`] check whether to stop.
const STOP_INTERVAL: Duration = Duration::from_millis(50);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fill {
    More,
    Waiting,
    /// The file was replaced or truncated, and is read from its start. Unread bytes of the old
    /// one are dropped.
    Restarted,
    End,
}

enum Source {
    File(File),
    Pipe(File),
    Packed(Unpacked),
}

pub struct Input {
    path: PathBuf,
    source: Source,
    window: Vec<u8>,
    start: usize,
    end: usize,
    follow: bool,
    ended: bool,
    /// The compression is known.
    is_detected: bool,
    offset: u64,
}

impl Input {
    /// Opens a file; `-` is standard input. With `follow`, the end of the file is not the end of
    /// the input, and a file that replaces it is read next. Waits neither for a writer of a pipe
    /// nor for its data.
    pub fn open(path: &Path, follow: bool) -> Result<Self> {
        let refused = |e| Error::file("open", path, e);
        let file = if path == Path::new(STANDARD) {
            io::stdin().as_fd().try_clone_to_owned().map(File::from)
        } else {
            open_at_once(path)
        };
        let file = file.map_err(refused)?;
        let kind = file.metadata().map_err(refused)?.file_type();
        if kind.is_dir() {
            return Err(refused(ErrorKind::IsADirectory.into()));
        }
        let waits = kind.is_fifo() || kind.is_socket() || kind.is_char_device();
        let mut input = Self {
            path: path.to_owned(),
            source: if waits { Source::Pipe(file) } else { Source::File(file) },
            window: vec![0; WINDOW],
            start: 0,
            end: 0,
            follow,
            ended: false,
            is_detected: false,
            offset: 0,
        };
        if !waits {
            while input.end < format::PACKED && input.read()? > 0 {}
            input.detect(true)?;
        }
        Ok(input)
    }

    /// Starts decompression if the first bytes show a compression; fewer than required are all
    /// bytes if `is_end`. Returns whether other bytes are unread.
    fn detect(&mut self, is_end: bool) -> Result<bool> {
        if self.is_detected || self.unread().len() < format::PACKED && !is_end {
            return Ok(false);
        }
        self.is_detected = true;
        let Some(packing) = format::packing(self.unread()) else { return Ok(false) };
        if self.follow {
            return Err(Error::CompressedFollow(self.path.clone()));
        }
        self.unpack(packing)?;
        Ok(true)
    }

    fn unpack(&mut self, packing: format::Packing) -> Result<()> {
        let begin = io::Cursor::new(self.unread().to_vec());
        let (Source::File(file) | Source::Pipe(file)) = &self.source else { return Ok(()) };
        let file = file.try_clone().map_err(|e| Error::file("open", &self.path, e))?;
        let unpacked = Unpacked::start(packing, begin.chain(file));
        self.source = Source::Packed(unpacked.map_err(|e| Error::file("unpack", &self.path, e))?);
        (self.start, self.end) = (0, 0);
        Ok(())
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    pub fn unread(&self) -> &[u8] {
        &self.window[self.start..self.end]
    }

    pub fn is_ended(&self) -> bool {
        self.ended
    }

    /// Marks the first `count` unread bytes as used.
    pub fn consume(&mut self, count: usize) {
        self.start = self.end.min(self.start + count);
    }

    /// The format, detected by the first bytes. Call it before any byte is used.
    pub fn format(&mut self) -> Result<Format> {
        self.await_format(&AtomicBool::new(false))
    }

    /// As [`Self::format`]; the format is undefined after `stop` is set.
    pub fn await_format(&mut self, stop: &AtomicBool) -> Result<Format> {
        while self.unread().len() < format::MAX_MAGIC_BYTES && !stop.load(Ordering::Relaxed) {
            let waits = !self.follow || matches!(self.source, Source::Pipe(_));
            match self.fill(format::MAX_MAGIC_BYTES, STOP_INTERVAL)? {
                Fill::More => {}
                Fill::Waiting if waits => {}
                _ => break,
            }
        }
        Ok(format::guess(self.unread()))
    }

    /// Reads until at least `want` bytes are unread or no more are available; waits up to `wait`.
    pub fn fill(&mut self, want: usize, wait: Duration) -> Result<Fill> {
        if want > LIMIT {
            return Err(Error::TooLong { path: self.path.clone(), limit: LIMIT });
        }
        let want = if self.is_detected { want } else { want.max(format::PACKED) };
        let mut before = self.unread().len();
        self.make_room(want);
        let mut wait = wait;
        while self.end - self.start < want.max(before + 1) {
            if self.ended {
                break;
            }
            if !self.is_ready(wait)? {
                return Ok(Fill::Waiting);
            }
            let is_end = self.read()? == 0;
            if self.detect(is_end)? {
                before = 0;
                continue;
            }
            if !is_end {
                continue;
            }
            if !self.follow {
                self.ended = true;
                break;
            }
            if self.restart()? {
                return Ok(Fill::Restarted);
            }
            if wait.is_zero() {
                return Ok(Fill::Waiting);
            }
            thread::sleep(wait);
            wait = Duration::ZERO;
        }
        let more = self.end - self.start > before;
        Ok(if more { Fill::More } else { Fill::End })
    }

    /// Moves the unread bytes to the front of a window of at least `want` bytes.
    fn make_room(&mut self, want: usize) {
        self.window.copy_within(self.start..self.end, 0);
        (self.start, self.end) = (0, self.end - self.start);
        if want > self.window.len() {
            // Half as much again, for the following items.
            self.window.resize(want + want / 2, 0);
        }
    }

    /// Whether a read succeeds after at most `wait`.
    fn is_ready(&mut self, wait: Duration) -> Result<bool> {
        match &mut self.source {
            Source::File(_) => Ok(true),
            Source::Packed(unpacked) => Ok(unpacked.wait(wait)),
            Source::Pipe(file) => {
                let timeout = Timespec::try_from(wait).ok();
                let mut polled = [PollFd::new(&*file, PollFlags::IN)];
                match rustix::event::poll(&mut polled, timeout.as_ref()) {
                    Ok(count) => Ok(count > 0),
                    Err(rustix::io::Errno::INTR) => Ok(false),
                    Err(e) => Err(Error::file("wait for", &self.path, e.into())),
                }
            }
        }
    }

    /// Reads once into the free space. No bytes: the end, for now.
    fn read(&mut self) -> Result<usize> {
        let room = &mut self.window[self.end..];
        let count = match &mut self.source {
            Source::File(file) | Source::Pipe(file) => loop {
                match file.read(room) {
                    Err(e) if e.kind() == ErrorKind::Interrupted => {}
                    other => break other.map_err(|e| Error::file("read", &self.path, e)),
                }
            },
            Source::Packed(unpacked) => {
                let offset = self.offset;
                unpacked.read(room).map_err(|cause| {
                    self.ended = true;
                    let path = self.path.clone();
                    Error::Damaged { path, after: offset, cause }
                })
            }
        }?;
        self.end += count;
        self.offset += count as u64;
        Ok(count)
    }

    /// At the end of a followed file: whether it was truncated or replaced.
    fn restart(&mut self) -> Result<bool> {
        let Source::File(file) = &mut self.source else { return Ok(false) };
        let refused = |e| Error::file("follow", &self.path, e);
        let own = file.metadata().map_err(refused)?;
        if own.len() < self.offset {
            io::Seek::rewind(file).map_err(refused)?;
        } else {
            // The name may be absent for a moment during rotation.
            let Ok(named) = fs::metadata(&self.path) else { return Ok(false) };
            if (named.dev(), named.ino()) == (own.dev(), own.ino()) {
                return Ok(false);
            }
            let Ok(next) = File::open(&self.path) else { return Ok(false) };
            *file = next;
        }
        (self.start, self.end, self.offset) = (0, 0, 0);
        Ok(true)
    }
}

/// Opens a file. A pipe without a writer is opened as well: opening it in blocking mode would wait.
fn open_at_once(path: &Path) -> io::Result<File> {
    let flags = OFlags::NONBLOCK.bits().cast_signed();
    let file = OpenOptions::new().read(true).custom_flags(flags).open(path)?;
    let flags = rustix::fs::fcntl_getfl(&file)?;
    rustix::fs::fcntl_setfl(&file, flags - OFlags::NONBLOCK)?;
    Ok(file)
}

#[derive(Debug)]
pub enum RecordStep<'a> {
    Record(Record<'a>),
    Damage(Damage),
    /// The compression is damaged, and no records follow.
    Broken(Error),
}

/// Passes the records of `input` to `each` until it breaks. At the end of a window, and while a
/// pipe has no data, `pause` decides whether to continue.
pub fn records(
    input: &mut Input,
    pause: &mut impl FnMut() -> ControlFlow<()>,
    each: &mut impl FnMut(RecordStep<'_>) -> ControlFlow<()>,
) -> Result<()> {
    let mut reader = Reader::new();
    loop {
        let end = input.is_ended();
        let unread = input.unread();
        let mut at = 0;
        let need = loop {
            let (read, used) = match reader.next(&unread[at..], end) {
                Step::Record(record) => (RecordStep::Record(record), record.bytes.len()),
                Step::Damaged(damage) => (RecordStep::Damage(damage), damage.skipped),
                Step::Need(need) => break Some(need),
                Step::End => break None,
            };
            at += used;
            if each(read).is_break() {
                return Ok(());
            }
        };
        input.consume(at);
        let Some(need) = need else { return Ok(()) };
        if pause().is_break() {
            return Ok(());
        }
        match input.fill(need, STOP_INTERVAL) {
            Ok(Fill::More | Fill::End | Fill::Waiting) => {}
            Ok(Fill::Restarted) => reader = Reader::new(),
            Err(error @ Error::Damaged { .. }) => {
                if each(RecordStep::Broken(error)).is_break() {
                    return Ok(());
                }
            }
            Err(error) => return Err(error),
        }
    }
}

pub(crate) fn words(damage: &Damage) -> String {
    let Damage { offset, skipped, cause } = damage;
    match cause {
        Cause::Torn => format!("cut off within the record at byte {offset}"),
        Cause::Framing => format!("{skipped} bytes from byte {offset} on belong to no record"),
    }
}

#[cfg(test)]
mod tests;
