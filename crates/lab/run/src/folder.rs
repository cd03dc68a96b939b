//! The folder of one run.

use std::fs;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::io::{self, ErrorKind, Read};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use self::reserve::Reserve;
use crate::record::{Failure, FailureKind, SCHEMA, Status, Topology};
use crate::sample::{bundle, control, shares, subflow, tcp};
use crate::{Error, RunRecord, files, table};

pub(crate) mod reserve;

/// `run.json` of 1,100 routers takes under 2 MB.
const MAX_RECORD_BYTES: u64 = 256 << 20;

/// The folder of one run, `<parent>/<name>-<id>/`. Its files are replaced atomically.
#[derive(Clone, Debug)]
pub struct RunFolder {
    path: PathBuf,
    id: String,
    /// Reserved space of a run in this process.
    reserve: Option<Reserve>,
}

impl RunFolder {
    /// The file with the resolved lab: every default is written out.
    pub const RESOLVED_LAB: &str = "lab.toml";

    /// Creates a new folder under `parent`, which is created if it does not exist.
    pub fn create(parent: &Path, name: &str) -> Result<Self, Error> {
        Self::create_with(parent, name, |folder| {
            fs::create_dir(&folder.path).map_err(io_error(folder))
        })
    }

    /// Creates the folder of a run that begins now, with its lab, its first record, and space for
    /// the final record. On an error, all created files are removed.
    pub fn begin(
        parent: &Path,
        name: &str,
        lab: &str,
        record: impl Fn(&Self) -> RunRecord,
    ) -> Result<(Self, RunRecord), Error> {
        let mut first_record = None;
        let mut folder = Self::create_with(parent, name, |folder| {
            let record = first_record.insert(record(folder));
            let out_of_memory = folder.encode_out_of_memory(record)?;
            let reserve =
                Reserve::create(&folder.path, &out_of_memory).map_err(io_error(folder))?;
            folder.reserve = Some(reserve);
            Ok(())
        })?;
        let record = first_record.unwrap_or_default();
        let begun = folder.write_first(lab, &record);
        if begun.is_err() {
            folder.reserve = None;
            // The first error is reported.
            let _ = fs::remove_dir_all(&folder.path);
        }
        begun.map(|()| (folder, record))
    }

    /// Creates a folder with an unused name by calling `make`.
    fn create_with(
        parent: &Path,
        name: &str,
        mut make: impl FnMut(&mut Self) -> Result<(), Error>,
    ) -> Result<Self, Error> {
        fs::create_dir_all(parent).map_err(|e| Error::io("create", parent, e))?;
        let parent = parent.canonicalize().map_err(|e| Error::io("open", parent, e))?;
        let name = file_name(name);
        loop {
            // Names must be unique, not secret: the random seed of a hash map is enough.
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

    /// Writes the lab and the first record of a run in this process.
    pub fn write_beginning(&mut self, lab: &str, record: &RunRecord) -> Result<(), Error> {
        let reserve = Reserve::create_in(&self.path, &self.encode_out_of_memory(record)?);
        self.reserve = Some(reserve.map_err(io_error(self))?);
        self.write_first(lab, record)
    }

    fn write_first(&self, lab: &str, record: &RunRecord) -> Result<(), Error> {
        self.write(Self::RESOLVED_LAB, lab.as_bytes())?;
        self.write_record(record)
    }

    /// Encodes the final record of a run that ends because an allocation failed.
    fn encode_out_of_memory(&self, record: &RunRecord) -> Result<Vec<u8>, Error> {
        let mut out_of_memory = record.clone();
        let text = "out of memory: an allocation failed".to_owned();
        out_of_memory.fail(Failure { kind: FailureKind::OutOfMemory, text });
        self.encode(&out_of_memory)
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

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The six hexadecimal digits at the end of its name.
    pub fn id(&self) -> &str {
        &self.id
    }

    pub fn file(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    /// The names of the tables of the run, without `.parquet`, sorted.
    pub fn tables(&self) -> Result<Vec<String>, Error> {
        let failed = |e| Error::io("read", &self.path, e);
        let mut names = Vec::new();
        for entry in fs::read_dir(&self.path).map_err(failed)? {
            let name = entry.map_err(failed)?.file_name();
            names.extend(name.to_string_lossy().strip_suffix(".parquet").map(str::to_owned));
        }
        names.sort();
        Ok(names)
    }

    pub fn table(&self, name: &str) -> PathBuf {
        self.path.join(format!("{name}.parquet"))
    }

    /// Creates `programs/<name>/` for a program's output and returns its path.
    pub fn program(&self, name: &str) -> Result<PathBuf, Error> {
        let programs = self.path.join("programs");
        let path = programs.join(file_name(name));
        for folder in [&programs, &path] {
            files::create_folder(folder).map_err(|e| Error::io("create", folder, e))?;
        }
        Ok(path)
    }

    /// Writes a file atomically: readers see either the old contents or the new.
    pub fn write(&self, name: &str, contents: &[u8]) -> Result<PathBuf, Error> {
        let path = self.path.join(name);
        write_atomic(&path, contents)?;
        Ok(path)
    }

    /// Writes `run.json`. A final record is synced to disk, even if the disk is full: if the whole
    /// record does not fit, its tables of links, flows, programs and nodes are omitted and an
    /// error is returned.
    pub fn write_record(&self, record: &RunRecord) -> Result<(), Error> {
        let path = reserve::record_path(&self.path);
        let text = self.encode(record)?;
        if record.status == Status::Running {
            return write_atomic(&path, &text);
        }
        let write = |text: &[u8]| reserve::write_final(&self.path, text);
        // An I/O error may be transient; a full disk is not.
        let Err(error) = write(&text).or_else(|_| write(&text)) else { return Ok(()) };
        let error = Error::io("write", &path, error);
        let mut short = RunRecord {
            topology: Topology::default(),
            links: Vec::new(),
            flows: Vec::new(),
            programs: Vec::new(),
            ..record.clone()
        };
        let text = format!(
            "{}; links, flows and programs are omitted from the record",
            error.failure().text
        );
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

    /// Reads `run.json`. The status is `killed` if the run's processes have ended
    /// without a final record.
    pub fn read_record(&self) -> Result<RunRecord, Error> {
        let mut record = self.read_as_written()?;
        if record.status != Status::Running || self.reserve.is_some() {
            return Ok(record);
        }
        if reserve::is_abandoned(&self.path) == Some(true) {
            // The record may have become final in the meantime.
            record = self.read_as_written()?;
            if record.status == Status::Running {
                record.fail(process_gone());
            }
        }
        Ok(record)
    }

    /// Reads `run.json` without checking for live processes.
    fn read_as_written(&self) -> Result<RunRecord, Error> {
        let path = self.path.join("run.json");
        let text = read_bounded(&path, MAX_RECORD_BYTES)?;
        let record: RunRecord = serde_json::from_slice(&text)
            .map_err(|source| Error::Record { path: path.clone(), source })?;
        if record.schema != SCHEMA {
            return Err(Error::Schema { path, found: record.schema });
        }
        Ok(record)
    }

    /// Reads up to `limit` bytes from the start of a file of the run; `None` without the file.
    pub fn read_start(&self, name: &str, limit: u64) -> Result<Option<Vec<u8>>, Error> {
        let path = self.path.join(name);
        let file = match files::open(&path) {
            Ok(file) => file,
            Err(e) if e.kind() == ErrorKind::NotFound => return Ok(None),
            Err(e) => return Err(Error::io("open", &path, e)),
        };
        let mut bytes = Vec::new();
        file.take(limit).read_to_end(&mut bytes).map_err(|e| Error::io("read", &path, e))?;
        Ok(Some(bytes))
    }

    /// Repairs the folder of a run whose process has ended: joins the parts of its tables and makes
    /// the record final. Returns whether the record was not final. The caller must know that no
    /// process writes to the folder.
    pub fn mark_killed(&self) -> Result<bool, Error> {
        self.end(process_gone())
    }

    /// Like [`RunFolder::mark_killed`], with this failure.
    pub fn end(&self, failure: Failure) -> Result<bool, Error> {
        let mut record = self.read_as_written()?;
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
        let more = [control::FILE, control::SESSIONS_FILE, bundle::FILE, subflow::FILE, tcp::FILE];
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

/// The failure of a run without a process and without a final record.
fn process_gone() -> Failure {
    let text = "the run's process ended without a final record: it was killed, or the host stopped";
    Failure { kind: FailureKind::Killed, text: text.to_owned() }
}

/// Changes a name to a valid single path component.
pub(crate) fn file_name(name: &str) -> String {
    let is_allowed = |c: char| c.is_alphanumeric() || matches!(c, '-' | '_' | '.');
    let mut text: String =
        name.chars().take(100).map(|c| if is_allowed(c) { c } else { '-' }).collect();
    if text.is_empty() || text.starts_with('.') {
        text.insert(0, '_');
    }
    text
}

fn read_bounded(path: &Path, limit: u64) -> Result<Vec<u8>, Error> {
    files::read(path, limit).map_err(|error| match error.kind() {
        ErrorKind::FileTooLarge => Error::TooLarge { path: path.to_owned(), limit },
        _ => Error::io("read", path, error),
    })
}

/// Replaces a file atomically. On an error, the old file remains.
pub(crate) fn write_atomic(path: &Path, contents: &[u8]) -> Result<(), Error> {
    files::replace(path, contents).map_err(|e| Error::io("write", path, e))
}
