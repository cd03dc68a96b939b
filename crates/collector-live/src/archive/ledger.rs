//! Two lists beside the files, one JSON object a line: what there is, and what is missing.

use std::fs::{self, File, OpenOptions};
use std::io::{Read, Seek, SeekFrom, Write};
use std::net::IpAddr;
use std::path::{Path, PathBuf};

use base::Time;
use rustix::fs::FallocateFlags;
use serde::{Deserialize, Serialize};

use super::layout::Kind;
use crate::{Error, Result};

/// The list of finished files.
pub const MANIFEST: &str = "MANIFEST";

/// The list of what is known to be missing.
pub const GAPS: &str = "GAPS";

/// The list of which mirror showed each peer of a table.
pub(crate) const TABLES: &str = "TABLES";

/// The mirrors of a table's peers: `TABLE_DUMP_V2` has no place for them.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct TableMirrors {
    /// Path of the table within the collector's folder, without suffix.
    pub(crate) table: String,
    /// Numbers of mirrors, in the order of the peer index table; 0 where there is none.
    pub(crate) mirrors: Vec<u32>,
}

/// A finished file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    /// Path within the collector's folder.
    pub file: String,
    /// What it holds.
    #[serde(with = "kind")]
    pub kind: Kind,
    /// How many records.
    pub records: u64,
    /// Time of the first record in microseconds since 1970.
    pub first_us: Option<u64>,
    /// Time of the last record.
    pub last_us: Option<u64>,
    /// Bytes of MRT.
    pub content: u64,
    /// Bytes of the file.
    pub bytes: u64,
    /// SHA-256 of the file.
    pub sha256: String,
}

mod kind {
    use serde::{Deserialize, Deserializer, Serializer, de};

    use super::Kind;

    #[expect(clippy::trivially_copy_pass_by_ref, reason = "serde hands a reference over")]
    pub(super) fn serialize<S: Serializer>(kind: &Kind, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(match kind {
            Kind::Updates => "updates",
            Kind::Routes => "routes",
        })
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Kind, D::Error> {
        match <&str>::deserialize(from)? {
            "updates" => Ok(Kind::Updates),
            "routes" => Ok(Kind::Routes),
            other => Err(de::Error::unknown_variant(other, &["updates", "routes"])),
        }
    }
}

/// Something that the archive ought to hold and does not, or may not. Times are microseconds
/// since 1970, of the capture's clock.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(tag = "loss", rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Loss {
    /// A file ended in the middle of a record after a crash: what followed `at` was cut off.
    TornTail {
        /// The file, without suffix.
        file: String,
        /// Bytes that were kept.
        at: u64,
        /// Bytes that were cut off.
        bytes: u64,
        /// The last record that was kept.
        since_us: Option<u64>,
    },
    /// No collector ran here, or it was killed: nothing is known of the time between.
    Down {
        /// The last record before.
        since_us: u64,
        /// The first record after.
        until_us: u64,
        /// It had been stopped in order; otherwise records after `since_us` may have been lost.
        stopped: bool,
    },
    /// The disk took nothing.
    NotWritten {
        /// The last record before.
        since_us: u64,
        /// The last record that is missing.
        until_us: u64,
        /// Records that are missing.
        records: u64,
        /// Their bytes.
        bytes: u64,
        /// What the kernel said.
        cause: String,
    },
    /// The capture's clock made a step that is too large to be filled with empty files.
    ClockStep {
        /// Before it.
        since_us: u64,
        /// Behind it.
        until_us: u64,
    },
    /// The capture says that it lost packets.
    Captured {
        /// When it last said that all was well.
        since_us: u64,
        /// When it said so.
        until_us: u64,
        /// The interface.
        interface: u32,
        /// How many packets.
        packets: u64,
    },
    /// Bytes of a peer's stream are not in the archive.
    Stream {
        /// The last time at which all was well.
        since_us: u64,
        /// The first time at which all was well again.
        until_us: u64,
        /// The number of the mirror; 0 if there is none.
        #[serde(default)]
        mirror: u32,
        /// The peer's address.
        peer: IpAddr,
        /// Its AS; 0 if that is not known.
        peer_as: u32,
        /// Whose bytes they are.
        from: String,
        /// Why they are not there.
        cause: String,
        /// Bytes that were never seen.
        missing: u64,
        /// Bytes that were seen and belong to no whole message.
        skipped: u64,
    },
    /// A file of routes was not complete when the collector ended.
    UnfinishedRoutes {
        /// The file, without suffix.
        file: String,
    },
}

/// Microseconds since 1970.
pub(crate) fn micros(time: Time) -> u64 {
    time.as_nanos() / 1_000
}

/// Disk space that a list keeps for itself behind its end: a full disk must not keep it from
/// stating what is lost.
const RESERVE: u64 = 64 << 10;

/// A file of lines that is only ever appended to, by whole lines.
pub(crate) struct Ledger {
    path: PathBuf,
    file: File,
    /// Up to where the disk has space for it.
    reserved: u64,
}

impl Ledger {
    /// Opens the list; half a line at its end goes.
    pub(crate) fn open(path: PathBuf) -> Result<Self> {
        let file = OpenOptions::new().read(true).append(true).create(true).open(&path);
        let mut ledger =
            Self { file: file.map_err(|e| Error::file("open", &path, e))?, path, reserved: 0 };
        ledger.mend()?;
        let length = ledger.length()?;
        ledger.reserve(length);
        Ok(ledger)
    }

    fn mend(&mut self) -> Result<()> {
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
        work().map_err(|e| Error::file("mend", &self.path, e))
    }

    /// Keeps disk space behind `length`, where the file system can do that.
    fn reserve(&mut self, length: u64) {
        if length + RESERVE / 2 > self.reserved
            && rustix::fs::fallocate(&self.file, FallocateFlags::KEEP_SIZE, length, RESERVE).is_ok()
        {
            self.reserved = length + RESERVE;
        }
    }

    /// All lines that can be read.
    pub(super) fn lines<T: for<'a> Deserialize<'a>>(&self) -> Result<Vec<T>> {
        read(&self.path)
    }

    /// Appends one line and waits until the disk has it.
    pub(super) fn append(&mut self, line: &impl Serialize) -> Result<()> {
        self.append_all(std::slice::from_ref(line))
    }

    /// Appends lines and waits until the disk has them.
    pub(crate) fn append_all(&mut self, lines: &[impl Serialize]) -> Result<()> {
        self.write(lines)?;
        self.sync()
    }

    /// Waits until the disk has all lines.
    pub(super) fn sync(&mut self) -> Result<()> {
        self.file.sync_data().map_err(|e| Error::file("sync", &self.path, e))
    }

    /// The file, for another thread to wait until the disk has it.
    pub(super) fn file(&self) -> std::io::Result<File> {
        self.file.try_clone()
    }

    /// How long it is.
    pub(crate) fn length(&self) -> Result<u64> {
        let data = self.file.metadata().map_err(|e| Error::file("read", &self.path, e))?;
        Ok(data.len())
    }

    /// Forgets what is behind the first `length` bytes.
    pub(crate) fn cut(&mut self, length: u64) -> Result<()> {
        self.file.set_len(length).map_err(|e| Error::file("cut", &self.path, e))
    }

    /// Appends lines, all or none. They outlive this process, but not the machine.
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
            // A full disk may have taken half of it. What was reserved goes with that half.
            let cut = self.file.set_len(length);
            self.reserved = 0;
            self.reserve(length);
            return Err(failed(cut.err().unwrap_or(error)));
        }
        self.reserve(length + text.len() as u64);
        Ok(())
    }
}

/// The lines of `MANIFEST` ([`Entry`]) or `GAPS` ([`Loss`]); none if there is no such file.
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
    fn half_a_line_goes() {
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
