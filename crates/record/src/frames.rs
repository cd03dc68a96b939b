//! Files of checksummed frames, written from a thread of their own.
//!
//! ```text
//! file  = magic, version u32, frame …
//! frame = length u32, checksum u64, contents      (a frame is at most 1 MiB long)
//! ```
//!
//! Numbers are little-endian, checksums FNV-1a. A writer that is killed leaves whole frames and at
//! most one that is cut short, which a reader tells from the end of the file.

use std::fs::File;
use std::io::{BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::JoinHandle;

use crate::{Error, checksum};

/// The longest frame.
pub const FRAME_LIMIT: usize = 1 << 20;

/// Frames that may wait for the disk.
const WAITING: usize = 256;

/// What a file begins with: its kind, and the version of what is in its frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kind {
    /// Tells it from files of other kinds.
    pub magic: &'static [u8],
    /// Of the contents.
    pub version: u32,
}

/// Writes frames. No method but `start` and `finish` ever blocks.
#[derive(Debug)]
pub struct FrameWriter {
    frames: SyncSender<Vec<u8>>,
    failed: Arc<AtomicBool>,
    thread: JoinHandle<Option<Error>>,
}

impl FrameWriter {
    /// Makes the file and starts the thread.
    ///
    /// # Errors
    /// If there is such a file, or none can be made.
    pub fn start(path: &Path, kind: Kind) -> Result<Self, Error> {
        let file = File::create_new(path).map_err(|e| Error::io("create", path, e))?;
        let failed = Arc::new(AtomicBool::new(false));
        let mut disk = Disk { path: path.to_owned(), file, failed: Arc::clone(&failed) };
        disk.write(&[kind.magic, &kind.version.to_le_bytes()].concat())?;
        let (frames, inbox) = sync_channel(WAITING);
        let thread = std::thread::Builder::new()
            .name("frames".to_owned())
            .spawn(move || disk.run(&inbox))
            .map_err(|e| Error::io("start a thread for", path, e))?;
        Ok(Self { frames, failed, thread })
    }

    /// Writes a frame; `false`: the disk is too slow, or it is too long, and it is left out.
    pub fn push(&self, contents: Vec<u8>) -> bool {
        contents.len() <= FRAME_LIMIT && self.frames.try_send(contents).is_ok()
    }

    /// The same for frames that must not be left out: waits for the disk.
    pub fn push_waiting(&self, contents: Vec<u8>) -> bool {
        contents.len() <= FRAME_LIMIT && self.frames.send(contents).is_ok()
    }

    /// Whether writing has failed, as on a full disk.
    pub fn failed(&self) -> bool {
        self.failed.load(Relaxed)
    }

    /// Writes what still waits. The error is the first that there was.
    pub fn finish(self) -> Option<Error> {
        drop(self.frames);
        self.thread.join().unwrap_or(Some(Error::WriterGone))
    }
}

/// The thread's side.
struct Disk {
    path: PathBuf,
    file: File,
    failed: Arc<AtomicBool>,
}

impl Disk {
    /// Takes frames to the end, even after a failure, so that nobody waits for it in vain.
    fn run(mut self, frames: &Receiver<Vec<u8>>) -> Option<Error> {
        let (mut error, mut whole) = (None, Vec::new());
        for frame in frames {
            if error.is_some() {
                continue;
            }
            whole.clear();
            whole.extend((frame.len() as u32).to_le_bytes());
            whole.extend(checksum(&frame).to_le_bytes());
            whole.extend(&frame);
            error = self.write(&whole).err();
            self.failed.store(error.is_some(), Relaxed);
        }
        error
    }

    fn write(&mut self, bytes: &[u8]) -> Result<(), Error> {
        self.file.write_all(bytes).map_err(|e| Error::io("write", &self.path, e))
    }
}

/// Reads frames; memory is bounded by the longest.
#[derive(Debug)]
pub struct FrameReader<R> {
    source: R,
    path: PathBuf,
    frame: Vec<u8>,
    /// How far the file has been read.
    offset: u64,
}

impl FrameReader<BufReader<File>> {
    /// Opens a file of this kind.
    ///
    /// # Errors
    /// If there is none, or it is of another kind or version.
    pub fn open(path: &Path, kind: Kind) -> Result<Self, Error> {
        let file = File::open(path).map_err(|e| Error::io("open", path, e))?;
        Self::new(BufReader::with_capacity(1 << 17, file), path, kind)
    }
}

impl<R: Read> FrameReader<R> {
    /// Reads the head of a file of this kind; `path` is for messages.
    ///
    /// # Errors
    /// If it is of another kind or version.
    pub fn new(source: R, path: &Path, kind: Kind) -> Result<Self, Error> {
        let mut this = Self { source, path: path.to_owned(), frame: Vec::new(), offset: 0 };
        let head = this.fill(kind.magic.len())? && this.frame == kind.magic;
        if !head || !this.fill(4)? || this.frame != kind.version.to_le_bytes() {
            return Err(Error::Foreign { path: this.path });
        }
        Ok(this)
    }

    /// The next frame's contents; `None` at the end of the file.
    ///
    /// # Errors
    /// If the file is damaged or cut short here: nothing follows then.
    pub fn next_frame(&mut self) -> Result<Option<&[u8]>, Error> {
        if !self.fill(12)? {
            return if self.frame.is_empty() { Ok(None) } else { Err(self.damaged()) };
        }
        let (length, sum) = self.frame.split_at(4);
        let length = length.try_into().map_or(usize::MAX, |b| u32::from_le_bytes(b) as usize);
        let sum = sum.try_into().map_or(0, u64::from_le_bytes);
        if length > FRAME_LIMIT || !self.fill(length)? || checksum(&self.frame) != sum {
            return Err(self.damaged());
        }
        Ok(Some(&self.frame))
    }

    /// What to say of a frame whose contents mean nothing.
    pub fn damaged(&self) -> Error {
        Error::Damaged { path: self.path.clone(), offset: self.offset }
    }

    /// Reads this many bytes; false if the file ends before. What is not there takes no memory.
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

    const KIND: Kind = Kind { magic: b"some frames\n", version: 3 };

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
    fn frames_survive_and_damage_is_told() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("f");
        let writer = FrameWriter::start(&path, KIND).unwrap();
        let frames = [vec![1, 2, 3], Vec::new(), vec![9; 5000]];
        assert!(frames.iter().all(|frame| writer.push(frame.clone())));
        assert!(!writer.push(vec![0; FRAME_LIMIT + 1]), "too long");
        assert!(writer.finish().is_none());
        let bytes = std::fs::read(&path).unwrap();
        let (back, error) = read(&bytes);
        assert!(error.is_none() && back == frames);
        // Cut anywhere, what came before is there, and the cut is noticed but between frames.
        let whole = [16, 16 + 15, 16 + 15 + 12, bytes.len()];
        for end in 0..bytes.len() {
            let (back, error) = read(&bytes[..end]);
            assert_eq!(error.is_none(), whole.contains(&end), "cut to {end}");
            assert!(frames.starts_with(&back));
        }
        let mut turned = bytes.clone();
        turned[16 + 13] ^= 1;
        let (back, error) = read(&turned);
        assert!(back.is_empty() && matches!(error, Some(Error::Damaged { offset: 31, .. })));
        turned[14] ^= 1;
        assert!(matches!(read(&turned).1, Some(Error::Foreign { .. })), "another version");
        let huge = [KIND.magic, &3u32.to_le_bytes(), &[0xff; 12]].concat();
        assert!(matches!(read(&huge).1, Some(Error::Damaged { .. })));
    }
}
