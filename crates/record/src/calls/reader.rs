//! Reads calls back.

use std::fs::File;
use std::io::{BufReader, ErrorKind, Read};
use std::path::{Path, PathBuf};

use base::Time;

use super::code::{self, Bytes};
use super::{Call, FILE, FRAME_LIMIT, LAB_LIMIT, MAGIC, VERSION, checksum};
use crate::{Error, RunFolder};

/// Why a file is no recording.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Flaw {
    /// It does not begin as one.
    #[error("it is of another kind")]
    Foreign,
    /// A version that is not known here.
    #[error("its version {0} is not known here")]
    Version(u32),
    /// It ends before the run does: the run was killed, or the file was cut.
    #[error("it is cut short")]
    Truncated,
    /// A checksum is wrong, or what stands there means nothing.
    #[error("it is damaged")]
    Damaged,
    /// Something follows the end of the run.
    #[error("something follows its end")]
    Trailing,
    /// The disk was too slow for the run.
    #[error("the disk was too slow while it was recorded, and calls are missing")]
    Gap,
}

/// Reads a recording call by call; memory is bounded by a frame and the lab file.
#[derive(Debug)]
pub struct CallReader<R> {
    source: R,
    path: PathBuf,
    lab: String,
    frame: Vec<u8>,
    /// Where in the frame the next call begins.
    next: usize,
    /// Where in the file the frame begins.
    offset: u64,
    last: Time,
    ended: bool,
}

impl CallReader<BufReader<File>> {
    /// Opens the recording of a run.
    pub fn open(folder: &RunFolder) -> Result<Self, Error> {
        let path = folder.file(FILE);
        match File::open(&path) {
            Ok(file) => Self::new(BufReader::with_capacity(1 << 17, file), &path),
            Err(e) if e.kind() == ErrorKind::NotFound => Err(Error::NotRecorded { path }),
            Err(e) => Err(Error::io("open", &path, e)),
        }
    }
}

impl<R: Read> CallReader<R> {
    /// Reads a recording's head; `path` is for messages.
    pub fn new(source: R, path: &Path) -> Result<Self, Error> {
        let path = path.to_owned();
        let (lab, frame) = (String::new(), Vec::new());
        let (next, offset, last, ended) = (0, 0, Time::ZERO, false);
        let mut this = Self { source, path, lab, frame, next, offset, last, ended };
        if !this.read_some(MAGIC.len())? || this.frame != MAGIC {
            return Err(this.flaw(Flaw::Foreign));
        }
        let version = u32::from_le_bytes(this.array()?);
        if version != VERSION {
            return Err(this.flaw(Flaw::Version(version)));
        }
        let length = u32::from_le_bytes(this.array()?) as usize;
        if length > LAB_LIMIT {
            return Err(this.flaw(Flaw::Damaged));
        }
        this.read_whole(length)?;
        let lab = std::mem::take(&mut this.frame);
        if u64::from_le_bytes(this.array()?) != checksum(&lab) {
            return Err(this.flaw(Flaw::Damaged));
        }
        this.lab = String::from_utf8(lab).map_err(|_| this.flaw(Flaw::Damaged))?;
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
                let more = self.read_some(1)?;
                return if more { Err(self.flaw(Flaw::Trailing)) } else { Ok(None) };
            }
            self.next_frame()?;
        }
        if self.ended {
            return Err(self.flaw(Flaw::Trailing));
        }
        let rest = &self.frame[self.next..];
        if rest == [code::GAP] {
            return Err(self.flaw(Flaw::Gap));
        }
        let mut bytes = Bytes(rest);
        let call = bytes.call(self.last);
        self.next = self.frame.len() - bytes.0.len();
        match &call {
            Some(
                Call::Inject { at, .. }
                | Call::Originate { at, .. }
                | Call::Forward { at, .. }
                | Call::Change { at, .. },
            ) => self.last = *at,
            Some(Call::End { .. }) => self.ended = true,
            None => return Err(self.flaw(Flaw::Damaged)),
        }
        Ok(call)
    }

    fn next_frame(&mut self) -> Result<(), Error> {
        self.next = 0;
        let length = u32::from_le_bytes(self.array()?) as usize;
        let sum = u64::from_le_bytes(self.array()?);
        if length == 0 || length > FRAME_LIMIT {
            return Err(self.flaw(Flaw::Damaged));
        }
        self.read_whole(length)?;
        if checksum(&self.frame) != sum {
            return Err(self.flaw(Flaw::Damaged));
        }
        Ok(())
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], Error> {
        let mut array = [0; N];
        self.read_whole(N)?;
        array.copy_from_slice(&self.frame);
        Ok(array)
    }

    /// Fills the frame with this many bytes.
    fn read_whole(&mut self, length: usize) -> Result<(), Error> {
        if self.read_some(length)? || length == 0 {
            return Ok(());
        }
        Err(self.flaw(Flaw::Truncated))
    }

    /// The same; false if the file ends before. What is not there takes no memory.
    fn read_some(&mut self, length: usize) -> Result<bool, Error> {
        self.frame.clear();
        let mut part = self.source.by_ref().take(length as u64);
        part.read_to_end(&mut self.frame).map_err(|e| Error::io("read", &self.path, e))?;
        self.offset += self.frame.len() as u64;
        Ok(self.frame.len() == length)
    }

    fn flaw(&self, flaw: Flaw) -> Error {
        Error::Recording { path: self.path.clone(), flaw, offset: self.offset }
    }
}
