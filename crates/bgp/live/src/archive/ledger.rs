//! Two lists beside the files, one JSON object per line: finished files and gaps.

use std::fs::{self, File, OpenOptions};
use std::io::{Read, Seek, SeekFrom, Write};
use std::net::IpAddr;
use std::path::{Path, PathBuf};

use base::Time;
use rustix::fs::FallocateFlags;
use serde::{Deserialize, Serialize};

use super::layout::Kind;
use crate::{Error, Result};

pub const MANIFEST: &str = "MANIFEST";

pub const GAPS: &str = "GAPS";

/// The list of the mirrors of table peers.
pub(crate) const TABLES: &str = "TABLES";

/// Mirrors of a table's peers, which `TABLE_DUMP_V2` cannot state.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct TableMirrors {
    /// Path of the table within the collector's folder, without suffix.
    pub(crate) table: String,
    /// Numbers of mirrors, in the order of the peer index table; 0 for none.
    pub(crate) mirrors: Vec<u32>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    pub file: String,
    pub kind: Kind,
    pub records: u64,
    /// Time of the first record in microseconds since 1970.
    pub first_us: Option<u64>,
    pub last_us: Option<u64>,
    pub content: u64,
    pub bytes: u64,
    pub sha256: String,
}

/// Data that is or may be missing in the archive. Times are microseconds since 1970, of the
/// capture's clock.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(tag = "loss", rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Loss {
    /// A file ended within a record after a crash: it was truncated at `at`.
    TornTail {
        file: String,
        at: u64,
        bytes: u64,
        since_us: Option<u64>,
    },
    /// No collector was running, or it was killed: the time between is unknown.
    Down {
        since_us: u64,
        until_us: u64,
        /// It was stopped in order; otherwise records after `since_us` may be lost.
        stopped: bool,
    },
    NotWritten {
        since_us: u64,
        until_us: u64,
        records: u64,
        bytes: u64,
        cause: String,
    },
    /// A step of the capture's clock that is too large for empty files.
    ClockStep {
        since_us: u64,
        until_us: u64,
    },
    Captured {
        since_us: u64,
        until_us: u64,
        interface: u32,
        packets: u64,
    },
    /// Bytes of a peer's stream are missing in the archive.
    Stream {
        since_us: u64,
        until_us: u64,
        /// Number of the mirror; 0 if there is none.
        #[serde(default)]
        mirror: u32,
        peer: IpAddr,
        /// AS of the peer; 0 if unknown.
        peer_as: u32,
        from: String,
        cause: String,
        missing: u64,
        /// Captured bytes outside of whole messages.
        skipped: u64,
    },
    /// A file of routes that was incomplete when the collector ended.
    UnfinishedRoutes {
        file: String,
    },
}

pub(crate) fn micros(time: Time) -> u64 {
    time.as_nanos() / 1_000
}

/// Disk space that a list reserves after its end, so that losses can be stated on a full disk.
const RESERVE: u64 = 64 << 10;

/// An append-only file of whole lines.
pub(crate) struct Ledger {
    path: PathBuf,
    file: File,
    reserved: u64,
}

impl Ledger {
    /// Opens the list; removes a partial line at its end.
    pub(crate) fn open(path: PathBuf) -> Result<Self> {
        let file = OpenOptions::new().read(true).append(true).create(true).open(&path);
        let mut ledger =
            Self { file: file.map_err(|e| Error::file("open", &path, e))?, path, reserved: 0 };
        ledger.repair()?;
        let length = ledger.length()?;
        ledger.reserve(length);
        Ok(ledger)
    }

    fn repair(&mut self) -> Result<()> {
        let mut work = || {
            let length = self.file.seek(SeekFrom::End(0))?;
            let mut end = length;
            let mut block = [0_u8; 4096];
            while end > 0 {
                let start = end.saturating_sub(block.len() as u64);
                let part = &mut block[..(end - start) as usize];
                self.file.seek(SeekFrom::Start(start))?;
                self.file.read_exact(part)?;
                if let Some(at) = part.iter().rposition(|byte| *byte == b'\n') {
                    end = start + at as u64 + 1;
                    break;
                }
                end = start;
            }
            if end < length { self.file.set_len(end) } else { Ok(()) }
        };
        work().map_err(|e| Error::file("repair", &self.path, e))
    }

    /// Reserves disk space after `length`, if the file system supports it.
    fn reserve(&mut self, length: u64) {
        if length + RESERVE / 2 > self.reserved
            && rustix::fs::fallocate(&self.file, FallocateFlags::KEEP_SIZE, length, RESERVE).is_ok()
        {
            self.reserved = length + RESERVE;
        }
    }

    pub(super) fn lines<T: for<'a> Deserialize<'a>>(&self) -> Result<Vec<T>> {
        read(&self.path)
    }

    /// Appends one line and syncs it.
    pub(super) fn append(&mut self, line: &impl Serialize) -> Result<()> {
        self.append_all(std::slice::from_ref(line))
    }

    pub(crate) fn append_all(&mut self, lines: &[impl Serialize]) -> Result<()> {
        self.write(lines)?;
        self.sync()
    }

    pub(super) fn sync(&mut self) -> Result<()> {
        self.file.sync_data().map_err(|e| Error::file("sync", &self.path, e))
    }

    /// The file, for another thread to sync.
    pub(super) fn file(&self) -> std::io::Result<File> {
        self.file.try_clone()
    }

    pub(crate) fn length(&self) -> Result<u64> {
        let data = self.file.metadata().map_err(|e| Error::file("read", &self.path, e))?;
        Ok(data.len())
    }

    /// Removes the first `length` bytes.
    pub(crate) fn cut(&mut self, length: u64) -> Result<()> {
        self.file.set_len(length).map_err(|e| Error::file("cut", &self.path, e))
    }

    /// Appends lines, all or none. They are kept if this process ends, but not if the host crashes.
    pub(super) fn write(&mut self, lines: &[impl Serialize]) -> Result<()> {
        let path = self.path.clone();
        let failed = |e| Error::file("append to", path, e);
        let mut text = Vec::new();
        for line in lines {
            if let Err(error) = serde_json::to_writer(&mut text, line) {
                return Err(failed(error.into()));
            }
            text.push(b'\n');
        }
        let length = self.length()?;
        if let Err(error) = self.file.write_all(&text) {
            // A full disk may have a part of it. Removing the part also removes the reserved space.
            let cut = self.file.set_len(length);
            self.reserved = 0;
            self.reserve(length);
            return Err(failed(cut.err().unwrap_or(error)));
        }
        self.reserve(length + text.len() as u64);
        Ok(())
    }
}

/// The lines of `MANIFEST` ([`Entry`]) or `GAPS` ([`Loss`]); empty if the file does not exist.
pub fn read<T: for<'a> Deserialize<'a>>(path: &Path) -> Result<Vec<T>> {
    match fs::read(path) {
        Ok(text) => {
            let lines = text.split_inclusive(|byte| *byte == b'\n');
            Ok(lines.filter_map(|line| serde_json::from_slice(line).ok()).collect())
        }
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => Ok(Vec::new()),
        Err(e) => Err(Error::file("read", path, e)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn removes_partial_line() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(GAPS);
        let loss = Loss::Down { since_us: 1, until_us: 2, stopped: false };
        for tail in [String::new(), "{\"loss\":".to_owned(), "x".repeat(10_000)] {
            let mut ledger = Ledger::open(path.clone()).unwrap();
            ledger.append(&loss).unwrap();
            let mut text = fs::read(&path).unwrap();
            text.extend(tail.bytes());
            fs::write(&path, text).unwrap();
        }
        let ledger = Ledger::open(path.clone()).unwrap();
        assert_eq!(ledger.lines::<Loss>().unwrap(), vec![loss; 3]);
        assert!(fs::read(&path).unwrap().ends_with(b"}\n"));
        fs::write(&path, "x".repeat(10_000)).unwrap();
        assert_eq!(Ledger::open(path.clone()).unwrap().lines::<Loss>().unwrap(), []);
        assert_eq!(fs::metadata(&path).unwrap().len(), 0);
    }
}
