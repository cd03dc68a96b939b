//! The list of a sweep's completed runs: JSON Lines.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};

use lab::plan::Plan;
use run::record::{RunRecord, Status};
use run::{Exit, RunFolder};
use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};

use crate::{Error, Result};

/// Maximum size of a list in bytes; that of the largest sweep is below 10 MB.
const LIMIT: u64 = 256 << 20;

/// Identifies a run of a sweep.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(super) struct Key {
    plan_hash: String,
    seed: u64,
    version: String,
}

#[derive(Debug, Serialize, Deserialize)]
struct Line {
    #[serde(flatten)]
    key: Key,
    /// The run's folder: `<name>-<id>`.
    name: String,
    id: String,
    exit_code: Option<Exit>,
    trace_hash: Option<String>,
    values: BTreeMap<String, String>,
}

impl Key {
    pub(super) fn of(plan: &Plan) -> Self {
        Self {
            plan_hash: run::lab_hash(&lab::resolved(plan)),
            seed: plan.seed,
            version: env!("CARGO_PKG_VERSION").to_owned(),
        }
    }
}

/// The list, open for appending.
pub(super) struct List {
    out: PathBuf,
    path: PathBuf,
    file: File,
    known: BTreeMap<Key, (String, String)>,
}

impl List {
    /// Opens or creates the list in a folder, which is created if it does not exist, and locks it
    /// against other sweeps. Truncates an incomplete last line.
    pub(super) fn open(out: &Path) -> Result<Self> {
        let path = out.join("sweep.jsonl");
        let failed = |verb| {
            let path = path.clone();
            move |cause| Error::Io { verb, path, cause }
        };
        std::fs::create_dir_all(out).map_err(failed("create the folder of"))?;
        let folder = out.canonicalize().map_err(failed("open"))?;
        let list = folder.join("sweep.jsonl");
        let mut file = run::files::append(&list).map_err(failed("open"))?;
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {}
            Err(Errno::WOULDBLOCK) => return Err(Error::Busy { path: out.to_owned() }),
            Err(cause) => return Err(failed("lock")(cause.into())),
        }
        let mut text = Vec::new();
        (&mut file).take(LIMIT).read_to_end(&mut text).map_err(failed("read"))?;
        let whole = text.iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1);
        if whole < text.len() {
            file.set_len(whole as u64).map_err(failed("repair"))?;
        }
        let lines = text[..whole].split(|byte| *byte == b'\n');
        let known = lines
            .filter_map(|line| serde_json::from_slice::<Line>(line).ok())
            .map(|line| (line.key, (line.name, line.id)))
            .collect();
        Ok(Self { out: out.to_owned(), path, file, known })
    }

    /// The record of a completed run, if its folder is unchanged.
    pub(super) fn finished(&self, key: &Key) -> Option<RunRecord> {
        let (name, id) = self.known.get(key)?;
        let record = folder(&self.out, name, id).ok()?.read_record().ok()?;
        // A run that reached a limit would do so again; a run that failed because of the
        // host may not.
        let limited = record.status == Status::Failed && record.exit_code == Some(Exit::Usage);
        let over = record.status == Status::Finished || limited;
        (over && record.plan_hash == key.plan_hash && record.seed == key.seed).then_some(record)
    }

    /// Appends a completed run.
    pub(super) fn enter(&mut self, key: &Key, record: &RunRecord) -> Result<()> {
        let values = record.sweep.iter();
        let line = Line {
            key: key.clone(),
            name: record.name.clone(),
            id: record.id.clone(),
            exit_code: record.exit_code,
            trace_hash: record.trace_hash.clone(),
            values: values.map(|value| (value.parameter.clone(), value.value.clone())).collect(),
        };
        let failed = |cause| Error::Io { verb: "write", path: self.path.clone(), cause };
        let mut text = serde_json::to_vec(&line).map_err(|e| failed(e.into()))?;
        text.push(b'\n');
        // One write per line, so that a crash leaves no partial line.
        self.file.write_all(&text).map_err(failed)
    }
}

pub(super) fn folder(out: &Path, name: &str, id: &str) -> Result<RunFolder> {
    Ok(RunFolder::open(&out.join(format!("{name}-{id}")))?)
}
