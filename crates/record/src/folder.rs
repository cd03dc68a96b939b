//! The folder of one run.

use std::fs::{self, File};
use std::hash::{BuildHasher, Hasher, RandomState};
use std::io::{self, ErrorKind, Read, Write};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use crate::reserve::{self, Reserve};
use crate::run::{Failure, FailureKind, SCHEMA, Status, Topology};
use crate::{Error, RunRecord, bundle, control, shares, subflow, table};

/// `run.json` of 1,100 routers takes under 2 MB.
const RECORD_LIMIT: u64 = 256 << 20;

/// The folder of one run, `<parent>/<name>-<id>/`. Files in it are replaced atomically.
#[derive(Clone, Debug)]
pub struct RunFolder {
    path: PathBuf,
    id: String,
    /// Of a run under way in this process.
    reserve: Option<Reserve>,
}

impl RunFolder {
    /// The file with the lab as it ran, every default written out.
    pub const RESOLVED_LAB: &str = "lab.toml";

    /// Makes a new folder under `parent` (which is made too), with an absolute path.
    pub fn create(parent: &Path, name: &str) -> Result<Self, Error> {
        Self::make(parent, name, |folder| fs::create_dir(&folder.path).map_err(io_error(folder)))
    }

    /// Makes a folder for a run that begins now, with its lab, its first record, and space for the
    /// final one. Nothing is left behind where that fails.
    pub fn begin(
        parent: &Path,
        name: &str,
        lab: &str,
        record: impl Fn(&Self) -> RunRecord,
    ) -> Result<(Self, RunRecord), Error> {
        let mut first = None;
        let mut folder = Self::make(parent, name, |folder| {
            let record = first.insert(record(folder));
            let starved = folder.encode_starved(record)?;
            let reserve = Reserve::create(&folder.path, &starved).map_err(io_error(folder))?;
            folder.reserve = Some(reserve);
            Ok(())
        })?;
        let record = first.unwrap_or_default();
        let begun = folder.write_first(lab, &record);
        if begun.is_err() {
            folder.reserve = None;
            // The folder has nothing of interest; the first error is the one to report.
            let _ = fs::remove_dir_all(&folder.path);
        }
        begun.map(|()| (folder, record))
    }

    /// Has `make` make a folder under a name that is free.
    fn make(
        parent: &Path,
        name: &str,
        mut make: impl FnMut(&mut Self) -> Result<(), Error>,
    ) -> Result<Self, Error> {
        fs::create_dir_all(parent).map_err(|e| Error::io("create", parent, e))?;
        let parent = parent.canonicalize().map_err(|e| Error::io("open", parent, e))?;
        let name = file_name(name);
        loop {
            // Unique names matter here, not secrecy: the seed of a hash map is random enough.
            let random = RandomState::new().build_hasher().finish();
            let id = format!("{:06x}", random & 0xff_ffff);
            let path = parent.join(format!("{name}-{id}"));
            let mut folder = Self { path, id, reserve: None };
            match make(&mut folder) {
                Ok(()) => return Ok(folder),
                Err(Error::Io { source, .. }) if source.kind() == ErrorKind::AlreadyExists => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// Makes this the folder of a run under way in this process.
    pub fn write_beginning(&mut self, lab: &str, record: &RunRecord) -> Result<(), Error> {
        let reserve = Reserve::create_in(&self.path, &self.encode_starved(record)?);
        self.reserve = Some(reserve.map_err(io_error(self))?);
        self.write_first(lab, record)
    }

    fn write_first(&self, lab: &str, record: &RunRecord) -> Result<(), Error> {
        self.write(Self::RESOLVED_LAB, lab.as_bytes())?;
        self.write_record(record)
    }

    /// The record of a run that ends because an allocation failed.
    fn encode_starved(&self, record: &RunRecord) -> Result<Vec<u8>, Error> {
        let mut starved = record.clone();
        let text = "out of memory: an allocation failed".to_owned();
        starved.fail(Failure { kind: FailureKind::OutOfMemory, text });
        self.encode(&starved)
    }

    /// Opens the folder of an earlier (or running) run.
    pub fn open(path: &Path) -> Result<Self, Error> {
        let path = path.canonicalize().map_err(|e| Error::io("open", path, e))?;
        if !path.join("run.json").is_file() {
            return Err(Error::NotARun { path });
        }
        let name = path.file_name().map(|n| n.to_string_lossy().into_owned()).unwrap_or_default();
        let id = name.rsplit_once('-').map(|(_, id)| id.to_owned()).unwrap_or_default();
        Ok(Self { path, id, reserve: None })
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The six hexadecimal digits at the end of its name.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// Where a file of the run is or will be.
    pub fn file(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    /// Makes `programs/<name>/`, where a program's output goes, and says where it is.
    pub fn program(&self, name: &str) -> Result<PathBuf, Error> {
        let path = self.path.join("programs").join(file_name(name));
        fs::create_dir_all(&path).map_err(|e| Error::io("create", &path, e))?;
        Ok(path)
    }

    /// Writes a whole file: readers see the old contents or the new, never a part.
    pub fn write(&self, name: &str, contents: &[u8]) -> Result<PathBuf, Error> {
        let path = self.path.join(name);
        write_atomic(&path, contents)?;
        Ok(path)
    }

    /// Writes `run.json`. A final record is on the disk when this returns, even if the disk is
    /// full: where there is no room for all of it, its tables of links, flows and nodes are left
    /// out, and the error says so.
    pub fn write_record(&self, record: &RunRecord) -> Result<(), Error> {
        let path = reserve::record_path(&self.path);
        let text = self.encode(record)?;
        if record.status == Status::Running {
            return write_atomic(&path, &text);
        }
        let write = |text: &[u8]| reserve::write_final(&self.path, text);
        // A disk may fail once. A full one does not get better.
        let Err(error) = write(&text).or_else(|_| write(&text)) else { return Ok(()) };
        let error = Error::io("write", &path, error);
        let mut short = RunRecord {
            topology: Topology::default(),
            links: Vec::new(),
            flows: Vec::new(),
            programs: Vec::new(),
            ..record.clone()
        };
        let text = format!("{}; the record is not complete", error.failure().text);
        short.fail(Failure { kind: error.kind(), text });
        let _ = write(&self.encode(&short)?);
        Err(error)
    }

    fn encode(&self, record: &RunRecord) -> Result<Vec<u8>, Error> {
        let mut text = serde_json::to_vec_pretty(&record.document())
            .map_err(|source| Error::Record { path: self.file("run.json"), source })?;
        text.push(b'\n');
        Ok(text)
    }

    /// Reads `run.json`. A run whose processes are gone without a final record is `killed`.
    pub fn read_record(&self) -> Result<RunRecord, Error> {
        let mut record = self.read_written()?;
        if record.status != Status::Running || self.reserve.is_some() {
            return Ok(record);
        }
        if reserve::is_abandoned(&self.path) == Some(true) {
            // It may have become final between the two looks.
            record = self.read_written()?;
            if record.status == Status::Running {
                record.fail(vanished());
            }
        }
        Ok(record)
    }

    /// Reads `run.json` as it is.
    fn read_written(&self) -> Result<RunRecord, Error> {
        let path = self.path.join("run.json");
        let text = read_bounded(&path, RECORD_LIMIT)?;
        let record: RunRecord = serde_json::from_slice(&text)
            .map_err(|source| Error::Record { path: path.clone(), source })?;
        if record.schema != SCHEMA {
            return Err(Error::Schema { path, found: record.schema });
        }
        Ok(record)
    }

    /// Reads the start of a file of the run, at most `limit` bytes; `None` if there is none.
    pub fn read_start(&self, name: &str, limit: u64) -> Result<Option<Vec<u8>>, Error> {
        let path = self.path.join(name);
        let file = match File::open(&path) {
            Ok(file) => file,
            Err(e) if e.kind() == ErrorKind::NotFound => return Ok(None),
            Err(e) => return Err(Error::io("open", &path, e)),
        };
        let mut bytes = Vec::new();
        file.take(limit).read_to_end(&mut bytes).map_err(|e| Error::io("read", &path, e))?;
        Ok(Some(bytes))
    }

    /// Puts the folder of a run whose process is gone in order: the samples that had been written
    /// become whole tables, and the record becomes final. Says whether it was not. The caller knows
    /// that nobody writes to the folder any more.
    pub fn mark_killed(&self) -> Result<bool, Error> {
        self.end(vanished())
    }

    /// Ends a run without a final record for this reason, like [`RunFolder::mark_killed`].
    pub fn end(&self, failure: Failure) -> Result<bool, Error> {
        let mut record = self.read_written()?;
        if record.status != Status::Running {
            return Ok(false);
        }
        let joined = self.join_tables();
        record.warnings.extend(joined.err().map(|error| error.failure().text));
        record.fail(failure);
        let ended = self.last_written().and_then(|t| t.duration_since(SystemTime::UNIX_EPOCH).ok());
        if let Some(ended) = ended {
            let ended = ended.as_millis() as u64;
            record.ended_unix_ms = Some(ended);
            record.elapsed_s = ended.saturating_sub(record.started_unix_ms) as f64 / 1e3;
        }
        self.write_record(&record)?;
        Ok(true)
    }

    fn join_tables(&self) -> Result<(), Error> {
        let tables = ["links.parquet", "flows.parquet", "transfers.parquet", shares::FILE];
        let more = [control::FILE, control::SESSIONS_FILE, bundle::FILE, subflow::FILE];
        let each = tables.into_iter().chain(more).map(|name| table::join_parts(&self.file(name)));
        each.fold(Ok(()), Result::and)
    }

    fn last_written(&self) -> Option<SystemTime> {
        let entries = fs::read_dir(&self.path).ok()?;
        entries.filter_map(|entry| entry.ok()?.metadata().ok()?.modified().ok()).max()
    }
}

fn io_error(folder: &RunFolder) -> impl FnOnce(io::Error) -> Error + use<> {
    let path = folder.path.clone();
    move |error| Error::io("create", &path, error)
}

/// What is known of a run that has neither a process nor a final record.
fn vanished() -> Failure {
    let text = "the run's process is gone and left no final record: it was killed, or the machine \
                stopped";
    Failure { kind: FailureKind::Killed, text: text.to_owned() }
}

/// A name as a single path component.
pub(crate) fn file_name(name: &str) -> String {
    let fit = |c: char| c.is_alphanumeric() || matches!(c, '-' | '_' | '.');
    let mut text: String = name.chars().take(100).map(|c| if fit(c) { c } else { '-' }).collect();
    if text.is_empty() || text.starts_with('.') {
        text.insert(0, '_');
    }
    text
}

fn read_bounded(path: &Path, limit: u64) -> Result<Vec<u8>, Error> {
    let file = File::open(path).map_err(|e| Error::io("open", path, e))?;
    let mut bytes = Vec::new();
    file.take(limit + 1).read_to_end(&mut bytes).map_err(|e| Error::io("read", path, e))?;
    if bytes.len() as u64 > limit {
        return Err(Error::TooLarge { path: path.to_owned(), limit });
    }
    Ok(bytes)
}

/// Replaces a file in one step. A failure leaves the old one, and no temporary file.
pub(crate) fn write_atomic(path: &Path, contents: &[u8]) -> Result<(), Error> {
    let mut temporary = path.as_os_str().to_owned();
    temporary.push(".tmp");
    let temporary = PathBuf::from(temporary);
    let written = File::create(&temporary)
        .and_then(|mut file| file.write_all(contents))
        .and_then(|()| fs::rename(&temporary, path));
    written.map_err(|e| {
        // The first error is the one to tell; a left-over is all that this one could mean.
        let _ = fs::remove_file(&temporary);
        Error::io("write", path, e)
    })
}
