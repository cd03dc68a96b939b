//! The folder of one run.

use std::fs::{self, File};
use std::hash::{BuildHasher, Hasher, RandomState};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use crate::run::{SCHEMA, Status};
use crate::{Error, RunRecord, bundle, control, shares, subflow, table};

/// `run.json` of 1,100 routers takes under 2 MB.
const RECORD_LIMIT: u64 = 256 << 20;

/// The folder of one run, `<parent>/<name>-<id>/`. Files in it are replaced atomically.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunFolder {
    path: PathBuf,
    id: String,
}

impl RunFolder {
    /// The file with the lab as it ran, every default written out.
    pub const RESOLVED_LAB: &str = "lab.toml";

    /// Makes a new folder under `parent` (which is made too), with an absolute path.
    pub fn create(parent: &Path, name: &str) -> Result<Self, Error> {
        fs::create_dir_all(parent).map_err(|e| Error::io("create", parent, e))?;
        let parent = parent.canonicalize().map_err(|e| Error::io("open", parent, e))?;
        let name = file_name(name);
        loop {
            // Unique names matter here, not secrecy: the seed of a hash map is random enough.
            let random = RandomState::new().build_hasher().finish();
            let id = format!("{:06x}", random & 0xff_ffff);
            let path = parent.join(format!("{name}-{id}"));
            match fs::create_dir(&path) {
                Ok(()) => return Ok(Self { path, id }),
                Err(e) if e.kind() == io::ErrorKind::AlreadyExists => {}
                Err(e) => return Err(Error::io("create", &path, e)),
            }
        }
    }

    /// Opens the folder of an earlier (or running) run.
    pub fn open(path: &Path) -> Result<Self, Error> {
        let path = path.canonicalize().map_err(|e| Error::io("open", path, e))?;
        if !path.join("run.json").is_file() {
            return Err(Error::NotARun { path });
        }
        let name = path.file_name().map(|n| n.to_string_lossy().into_owned()).unwrap_or_default();
        let id = name.rsplit_once('-').map(|(_, id)| id.to_owned()).unwrap_or_default();
        Ok(Self { path, id })
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

    /// Writes `run.json`.
    pub fn write_record(&self, record: &RunRecord) -> Result<(), Error> {
        let path = self.path.join("run.json");
        let mut text = serde_json::to_vec_pretty(&record.document())
            .map_err(|source| Error::Record { path: path.clone(), source })?;
        text.push(b'\n');
        write_atomic(&path, &text)
    }

    /// Reads `run.json`.
    pub fn read_record(&self) -> Result<RunRecord, Error> {
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
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(e) => return Err(Error::io("open", &path, e)),
        };
        let mut bytes = Vec::new();
        file.take(limit).read_to_end(&mut bytes).map_err(|e| Error::io("read", &path, e))?;
        Ok(Some(bytes))
    }

    /// Puts the folder of a run whose process is gone in order: the samples that had been written
    /// become whole tables, and the status turns from running to killed. Says whether it was
    /// running. The caller knows that nobody writes to the folder any more.
    pub fn mark_killed(&self) -> Result<bool, Error> {
        let mut record = self.read_record()?;
        if record.status != Status::Running {
            return Ok(false);
        }
        let tables = ["links.parquet", "flows.parquet", "transfers.parquet", shares::FILE];
        let more = [control::FILE, control::SESSIONS_FILE, bundle::FILE, subflow::FILE];
        for name in tables.into_iter().chain(more) {
            table::join_parts(&self.path.join(name))?;
        }
        record.status = Status::Killed;
        let ended = self.last_written().and_then(|t| t.duration_since(SystemTime::UNIX_EPOCH).ok());
        if let Some(ended) = ended {
            let ended = ended.as_millis() as u64;
            record.ended_unix_ms = Some(ended);
            record.elapsed_s = ended.saturating_sub(record.started_unix_ms) as f64 / 1e3;
        }
        self.write_record(&record)?;
        Ok(true)
    }

    fn last_written(&self) -> Option<SystemTime> {
        let entries = fs::read_dir(&self.path).ok()?;
        entries.filter_map(|entry| entry.ok()?.metadata().ok()?.modified().ok()).max()
    }
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
