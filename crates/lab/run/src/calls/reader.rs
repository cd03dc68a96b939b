//! The reader of call recordings.

use std::fs::File;
use std::io::{BufReader, ErrorKind, Read};
use std::path::{Path, PathBuf};

use base::{Time, fnv};

use super::code::{self, CallDecoder};
use super::{Call, FILE, MAGIC, MAX_FRAME_BYTES, MAX_LAB_BYTES, VERSION};
use crate::{Error, RunFolder, files};

/// The reason why a recording cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RecordingError {
    #[error("the file is not a recording of a netarium run")]
    NotARecording,
    #[error("its format version is {0}; this netarium reads version {VERSION}")]
    UnsupportedVersion(u32),
    /// The run was killed, or the file was truncated.
    #[error("the file is truncated: it ends before the end of the run")]
    Truncated,
    #[error("the file is damaged: a checksum is wrong or a call is invalid")]
    Damaged,
    #[error("the file is damaged: data follows the end of the run")]
    TrailingData,
    #[error("calls are missing because the disk was too slow during the run")]
    MissingCalls,
}

/// Reads a recording call by call. Memory is bounded by one frame and the lab file.
#[derive(Debug)]
pub struct CallReader<R> {
    source: R,
    path: PathBuf,
    lab: String,
    frame: Vec<u8>,
    /// Offset in the frame of the next call.
    next: usize,
    /// Offset in the file of the next byte to read.
    offset: u64,
    last: Time,
    ended: bool,
}

impl CallReader<BufReader<File>> {
    pub fn open(folder: &RunFolder) -> Result<Self, Error> {
        let path = folder.file(FILE);
        match files::open(&path) {
            Ok(file) => Self::new(BufReader::with_capacity(1 << 17, file), &path),
            Err(e) if e.kind() == ErrorKind::NotFound => Err(Error::NotRecorded { path }),
            Err(e) => Err(Error::io("open", &path, e)),
        }
    }
}

impl<R: Read> CallReader<R> {
    /// Reads the header of a recording. `path` is used in messages.
    pub fn new(source: R, path: &Path) -> Result<Self, Error> {
        let path = path.to_owned();
        let (lab, frame) = (String::new(), Vec::new());
        let (next, offset, last, ended) = (0, 0, Time::ZERO, false);
        let mut this = Self { source, path, lab, frame, next, offset, last, ended };
        if !this.try_fill(MAGIC.len())? || this.frame != MAGIC {
            return Err(this.fail(RecordingError::NotARecording));
        }
        let version = u32::from_le_bytes(this.array()?);
        if version != VERSION {
            return Err(this.fail(RecordingError::UnsupportedVersion(version)));
        }
        let length = u32::from_le_bytes(this.array()?) as usize;
        if length > MAX_LAB_BYTES {
            return Err(this.fail(RecordingError::Damaged));
        }
        this.fill(length)?;
        let lab = std::mem::take(&mut this.frame);
        if u64::from_le_bytes(this.array()?) != fnv::hash(&lab) {
            return Err(this.fail(RecordingError::Damaged));
        }
        this.lab = String::from_utf8(lab).map_err(|_| this.fail(RecordingError::Damaged))?;
        this.frame.clear();
        Ok(this)
    }

    /// The resolved lab file of the run.
    pub fn lab(&self) -> &str {
        &self.lab
    }

    /// The next call; `None` after [`Call::End`].
    pub fn next_call(&mut self) -> Result<Option<Call>, Error> {
        if self.next >= self.frame.len() {
            if self.ended {
                let more = self.try_fill(1)?;
                return if more { Err(self.fail(RecordingError::TrailingData)) } else { Ok(None) };
            }
            self.next_frame()?;
        }
        if self.ended {
            return Err(self.fail(RecordingError::TrailingData));
        }
        let rest = &self.frame[self.next..];
        if rest == [code::GAP] {
            return Err(self.fail(RecordingError::MissingCalls));
        }
        let mut decoder = CallDecoder(rest);
        let call = decoder.call(self.last);
        self.next = self.frame.len() - decoder.0.len();
        match &call {
            Some(
                Call::Inject { at, .. }
                | Call::Originate { at, .. }
                | Call::Forward { at, .. }
                | Call::Change { at, .. },
            ) => self.last = *at,
            Some(Call::End { .. }) => self.ended = true,
            None => return Err(self.fail(RecordingError::Damaged)),
        }
        Ok(call)
    }

    fn next_frame(&mut self) -> Result<(), Error> {
        self.next = 0;
        let length = u32::from_le_bytes(self.array()?) as usize;
        let sum = u64::from_le_bytes(self.array()?);
        if length == 0 || length > MAX_FRAME_BYTES {
            return Err(self.fail(RecordingError::Damaged));
        }
        self.fill(length)?;
        if fnv::hash(&self.frame) != sum {
            return Err(self.fail(RecordingError::Damaged));
        }
        Ok(())
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], Error> {
        let mut array = [0; N];
        self.fill(N)?;
        array.copy_from_slice(&self.frame);
        Ok(array)
    }

    /// Fills the frame with this many bytes.
    fn fill(&mut self, length: usize) -> Result<(), Error> {
        if self.try_fill(length)? || length == 0 {
            return Ok(());
        }
        Err(self.fail(RecordingError::Truncated))
    }

    /// Like [`Self::fill`], but returns false if the file ends early. Memory is allocated
    /// only for bytes that exist.
    fn try_fill(&mut self, length: usize) -> Result<bool, Error> {
        self.frame.clear();
        let mut part = self.source.by_ref().take(length as u64);
        part.read_to_end(&mut self.frame).map_err(|e| Error::io("read", &self.path, e))?;
        self.offset += self.frame.len() as u64;
        Ok(self.frame.len() == length)
    }

    fn fail(&self, error: RecordingError) -> Error {
        Error::Recording { path: self.path.clone(), error, offset: self.offset }
    }
}
