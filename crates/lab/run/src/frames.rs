//! Files of checksummed frames, written by a separate thread.
//!
//! ```text
//! file  = magic, version u32, frame …
//! frame = length u32, checksum u64, contents      (a frame is at most 1 MiB long)
//! ```
//!
//! Numbers are little-endian, checksums FNV-1a. A killed writer leaves complete frames and at most
//! one truncated frame, which the reader detects.

use std::fs::File;
use std::io::{BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::JoinHandle;

use base::fnv;

use crate::{Error, files};

pub const MAX_FRAME_BYTES: usize = 1 << 20;

const MAX_QUEUED_FRAMES: usize = 256;

/// The header of a file: its kind, and the version of the frames' contents.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kind {
    pub magic: &'static [u8],
    pub version: u32,
}

/// Writes frames. Only `start`, `push_blocking` and `finish` block.
#[derive(Debug)]
pub struct FrameWriter {
    frames: SyncSender<Vec<u8>>,
    failed: Arc<AtomicBool>,
    thread: JoinHandle<Option<Error>>,
}

impl FrameWriter {
    /// Creates the file and starts the thread.
    ///
    /// # Errors
    /// If the file exists or cannot be created.
    pub fn start(path: &Path, kind: Kind) -> Result<Self, Error> {
        let file = files::create_new(path).map_err(|e| Error::io("create", path, e))?;
        let failed = Arc::new(AtomicBool::new(false));
        let mut disk = WriterThread { path: path.to_owned(), file, failed: Arc::clone(&failed) };
        disk.write(&[kind.magic, &kind.version.to_le_bytes()].concat())?;
        let (frames, inbox) = sync_channel(MAX_QUEUED_FRAMES);
        let thread = std::thread::Builder::new()
            .name("frames".to_owned())
            .spawn(move || disk.run(&inbox))
            .map_err(|e| Error::io("start a thread for", path, e))?;
        Ok(Self { frames, failed, thread })
    }

    /// Queues a frame; `false` if it was dropped because the disk is too slow or it is too long.
    pub fn push(&self, contents: Vec<u8>) -> bool {
        contents.len() <= MAX_FRAME_BYTES && self.frames.try_send(contents).is_ok()
    }

    /// Like [`Self::push`], but waits for the disk.
    pub fn push_blocking(&self, contents: Vec<u8>) -> bool {
        contents.len() <= MAX_FRAME_BYTES && self.frames.send(contents).is_ok()
    }

    /// Whether writing has failed, for example on a full disk.
    pub fn failed(&self) -> bool {
        self.failed.load(Relaxed)
    }

    /// Writes the queued frames. Returns the first error.
    pub fn finish(self) -> Option<Error> {
        drop(self.frames);
        self.thread.join().unwrap_or(Some(Error::WriterGone))
    }
}

struct WriterThread {
    path: PathBuf,
    file: File,
    failed: Arc<AtomicBool>,
}

impl WriterThread {
    /// Receives frames until the end, even after an error, so that the sender does not block.
    fn run(mut self, frames: &Receiver<Vec<u8>>) -> Option<Error> {
        let (mut error, mut bytes) = (None, Vec::new());
        for frame in frames {
            if error.is_some() {
                continue;
            }
            bytes.clear();
            bytes.extend((frame.len() as u32).to_le_bytes());
            bytes.extend(fnv::hash(&frame).to_le_bytes());
            bytes.extend(&frame);
            error = self.write(&bytes).err();
            self.failed.store(error.is_some(), Relaxed);
        }
        error
    }

    fn write(&mut self, bytes: &[u8]) -> Result<(), Error> {
        self.file.write_all(bytes).map_err(|e| Error::io("write", &self.path, e))
    }
}

/// Reads frames. Memory is bounded by the largest frame.
#[derive(Debug)]
pub struct FrameReader<R> {
    source: R,
    path: PathBuf,
    frame: Vec<u8>,
    /// Offset in the file of the next byte to read.
    offset: u64,
}

impl FrameReader<BufReader<File>> {
    /// Opens a file of this kind.
    ///
    /// # Errors
    /// If the file does not exist, or is of another kind or version.
    pub fn open(path: &Path, kind: Kind) -> Result<Self, Error> {
        let file = files::open(path).map_err(|e| Error::io("open", path, e))?;
        Self::new(BufReader::with_capacity(1 << 17, file), path, kind)
    }
}

impl<R: Read> FrameReader<R> {
    /// Reads the header of a file of this kind. `path` is used in messages.
    ///
    /// # Errors
    /// If the file is of another kind or version.
    pub fn new(source: R, path: &Path, kind: Kind) -> Result<Self, Error> {
        let mut this = Self { source, path: path.to_owned(), frame: Vec::new(), offset: 0 };
        let is_kind = this.fill(kind.magic.len())? && this.frame == kind.magic;
        if !is_kind || !this.fill(4)? || this.frame != kind.version.to_le_bytes() {
            return Err(Error::Foreign { path: this.path });
        }
        Ok(this)
    }

    /// The next frame's contents; `None` at the end of the file.
    ///
    /// # Errors
    /// If the file is damaged or truncated. The rest cannot be read.
    pub fn next_frame(&mut self) -> Result<Option<&[u8]>, Error> {
        if !self.fill(12)? {
            return if self.frame.is_empty() { Ok(None) } else { Err(self.damaged()) };
        }
        let (length, sum) = self.frame.split_at(4);
        let length = length.try_into().map_or(usize::MAX, |b| u32::from_le_bytes(b) as usize);
        let sum = sum.try_into().map_or(0, u64::from_le_bytes);
        if length > MAX_FRAME_BYTES || !self.fill(length)? || fnv::hash(&self.frame) != sum {
            return Err(self.damaged());
        }
        Ok(Some(&self.frame))
    }

    /// The error for a frame with invalid contents.
    pub fn damaged(&self) -> Error {
        Error::Damaged { path: self.path.clone(), offset: self.offset }
    }

    /// Reads `length` bytes; false if the file ends before. Memory is allocated only for
    /// bytes that exist.
    fn fill(&mut self, length: usize) -> Result<bool, Error> {
        self.frame.clear();
        let mut part = self.source.by_ref().take(length as u64);
        part.read_to_end(&mut self.frame).map_err(|e| Error::io("read", &self.path, e))?;
        self.offset += self.frame.len() as u64;
        Ok(self.frame.len() == length)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KIND: Kind = Kind { magic: b"test frames\n", version: 3 };

    fn read(bytes: &[u8]) -> (Vec<Vec<u8>>, Option<Error>) {
        let mut frames = Vec::new();
        let mut reader = match FrameReader::new(bytes, Path::new("f"), KIND) {
            Ok(reader) => reader,
            Err(error) => return (frames, Some(error)),
        };
        loop {
            match reader.next_frame() {
                Ok(Some(frame)) => frames.push(frame.to_vec()),
                Ok(None) => return (frames, None),
                Err(error) => return (frames, Some(error)),
            }
        }
    }

    #[test]
    fn reader_returns_written_frames_and_detects_damage() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("f");
        let writer = FrameWriter::start(&path, KIND).unwrap();
        let frames = [vec![1, 2, 3], Vec::new(), vec![9; 5000]];
        assert!(frames.iter().all(|frame| writer.push(frame.clone())));
        assert!(!writer.push(vec![0; MAX_FRAME_BYTES + 1]), "too long");
        assert!(writer.finish().is_none());
        let bytes = std::fs::read(&path).unwrap();
        let (back, error) = read(&bytes);
        assert!(error.is_none() && back == frames);
        // A file truncated at any byte has the frames before; truncation inside a
        // frame is detected.
        let complete = [16, 16 + 15, 16 + 15 + 12, bytes.len()];
        for end in 0..bytes.len() {
            let (back, error) = read(&bytes[..end]);
            assert_eq!(error.is_none(), complete.contains(&end), "cut to {end}");
            assert!(frames.starts_with(&back));
        }
        let mut flipped = bytes.clone();
        flipped[16 + 13] ^= 1;
        let (back, error) = read(&flipped);
        assert!(back.is_empty() && matches!(error, Some(Error::Damaged { offset: 31, .. })));
        flipped[14] ^= 1;
        assert!(matches!(read(&flipped).1, Some(Error::Foreign { .. })), "another version");
        let huge = [KIND.magic, &3u32.to_le_bytes(), &[0xff; 12]].concat();
        assert!(matches!(read(&huge).1, Some(Error::Damaged { .. })));
    }
}
