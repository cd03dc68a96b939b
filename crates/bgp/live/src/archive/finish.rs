//! From a complete plain file to the compressed file for readers.
//!
//! The steps are repeatable after a crash at any point: the finished file gets its name after it is
//! on disk, then it is listed, then the plain file is removed. If both files exist, the finished
//! one is complete.

use std::fs::{self, File};
use std::io::{self, BufWriter, ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rustix::fs::Access;

use super::compress::{self, Compression, Digester, Finished, SUFFIXES};
use super::layout::Kind;
use super::ledger::{Entry, Ledger, Loss, TABLES, TableMirrors, micros};
use super::scan::Extent;
use crate::{Error, Result};

pub(super) struct Sealed {
    /// Name of the finished file without suffix, relative to the folder.
    pub name: String,
    pub kind: Kind,
    pub extent: Extent,
    /// Mirrors of the peers of a table that is not listed yet.
    pub mirrors: Vec<u32>,
}

/// State shared by the finishing thread and the writer.
pub(super) struct Shared {
    pub folder: PathBuf,
    pub manifest: Mutex<Ledger>,
    pub gaps: Mutex<Ledger>,
    pub routes: Mutex<Vec<Sealed>>,
    pub finished: AtomicU64,
    pub bytes: AtomicU64,
    pub waiting: AtomicU64,
    pub trouble: Mutex<Option<String>>,
    pub _lock: File,
}

/// Suffixes of hidden names: updates, routes, incomplete routes, partial compression.
pub(crate) const OPEN: &str = "open";
pub(crate) const FULL: &str = "full";
pub(crate) const PARTIAL: &str = "partial";
pub(crate) const PACKED: &str = "packed";

/// Hidden name of an uncompressed file. Updates may be appended to it; routes never.
pub(super) fn plain_path(folder: &Path, name: &str, kind: Kind) -> PathBuf {
    let state = match kind {
        Kind::Updates => OPEN,
        Kind::Routes => FULL,
    };
    hidden(folder, name, state)
}

/// Hidden name of a file of routes that is being written.
pub(super) fn partial_path(folder: &Path, name: &str) -> PathBuf {
    hidden(folder, name, PARTIAL)
}

fn packed_path(folder: &Path, name: &str) -> PathBuf {
    hidden(folder, name, PACKED)
}

fn hidden(folder: &Path, name: &str, state: &str) -> PathBuf {
    match name.rsplit_once('/') {
        Some((parents, last)) => folder.join(format!("{parents}/.{last}.{state}")),
        None => folder.join(format!(".{name}.{state}")),
    }
}

pub(super) fn finished_path(folder: &Path, name: &str) -> Option<PathBuf> {
    let exists = |path: &PathBuf| rustix::fs::access(path, Access::EXISTS).is_ok();
    SUFFIXES.iter().map(|suffix| folder.join(format!("{name}{suffix}"))).find(exists)
}

pub(super) fn sync_folder(path: &Path) -> io::Result<()> {
    match path.parent() {
        Some(folder) => File::open(folder)?.sync_all(),
        None => Ok(()),
    }
}

/// Interval at which files of routes are looked for, and failed files retried.
const PAUSE: Duration = Duration::from_millis(500);

/// Finishes files until the channel closes. Failed files are retried soon. Returns the number
/// of unfinished ones.
pub(super) fn run(shared: &Shared, compression: Compression, queue: &Receiver<Sealed>) -> usize {
    let mut stuck: Vec<Sealed> = Vec::new();
    loop {
        let (next, is_over) = match queue.recv_timeout(PAUSE) {
            Ok(sealed) => (Some(sealed), false),
            Err(RecvTimeoutError::Timeout) => (None, false),
            Err(RecvTimeoutError::Disconnected) => (None, true),
        };
        if next.is_none() {
            stuck.retain(|sealed| !attempt(shared, compression, sealed));
        }
        let routes = std::mem::take(&mut *lock(&shared.routes));
        for sealed in next.into_iter().chain(routes) {
            if !attempt(shared, compression, &sealed) {
                stuck.push(sealed);
            }
        }
        if is_over {
            return stuck.len();
        }
    }
}

fn attempt(shared: &Shared, compression: Compression, sealed: &Sealed) -> bool {
    let result = finish(shared, compression, sealed);
    *lock(&shared.trouble) = result.as_ref().err().map(ToString::to_string);
    if result.is_ok() {
        shared.waiting.fetch_sub(1, Ordering::Relaxed);
    }
    result.is_ok()
}

/// Creates the finished file, lists it, removes the plain one. Each step may be done already, if a
/// later one failed.
fn finish(shared: &Shared, compression: Compression, sealed: &Sealed) -> Result<()> {
    let (path, done) = match finished_path(&shared.folder, &sealed.name) {
        Some(path) => (path, None),
        None => pack(shared, compression, sealed)?,
    };
    complete(shared, sealed, &path, done)
}

fn pack(
    shared: &Shared,
    compression: Compression,
    sealed: &Sealed,
) -> Result<(PathBuf, Option<Finished>)> {
    let plain = plain_path(&shared.folder, &sealed.name, sealed.kind);
    if sealed.kind == Kind::Routes {
        list_mirrors(shared, sealed)?;
        complete_routes(&partial_path(&shared.folder, &sealed.name), &plain)?;
    }
    let target = shared.folder.join(format!("{}{}", sealed.name, compression.suffix()));
    let mut source = File::open(&plain).map_err(|e| Error::file("open", &plain, e))?;
    source.sync_all().map_err(|e| Error::file("sync", &plain, e))?;
    let length = source.metadata().map_err(|e| Error::file("read", &plain, e))?.len();
    if length > sealed.extent.bytes {
        // A failed write may have left a partial record.
        let cut = File::options().write(true).open(&plain);
        let cut = cut.and_then(|file| file.set_len(sealed.extent.bytes));
        cut.map_err(|e| Error::file("cut", &plain, e))?;
    }
    if compression == Compression::None {
        publish(&plain, &target).map_err(|e| Error::file("write", &target, e))?;
        return Ok((target, None));
    }
    let packed = packed_path(&shared.folder, &sealed.name);
    let mut work = || -> io::Result<Finished> {
        let mut writer = BufWriter::with_capacity(1 << 18, File::create(&packed)?);
        let length = sealed.extent.bytes;
        let done = compress::copy(compression, &mut source, length, &mut writer)?;
        writer.flush()?;
        writer.get_ref().sync_all()?;
        publish(&packed, &target)?;
        Ok(done)
    };
    let done = work().map_err(|e| Error::file("write", &target, e));
    // Its other name is the finished file's; without one it is a partial file.
    let _ = fs::remove_file(&packed);
    Ok((target, Some(done?)))
}

/// Readers need the mirrors of a table together with the table.
fn list_mirrors(shared: &Shared, sealed: &Sealed) -> Result<()> {
    if sealed.mirrors.is_empty() || !partial_path(&shared.folder, &sealed.name).exists() {
        return Ok(());
    }
    let (table, mirrors) = (sealed.name.clone(), sealed.mirrors.clone());
    let mut list = Ledger::open(shared.folder.join(TABLES))?;
    list.append(&TableMirrors { table, mirrors })
}

/// Renames a complete file of routes after it is synced.
fn complete_routes(partial: &Path, plain: &Path) -> Result<()> {
    let work = || match File::open(partial) {
        Ok(file) => file.sync_all().and_then(|()| fs::rename(partial, plain)),
        Err(e) if e.kind() == ErrorKind::NotFound => Ok(()),
        Err(e) => Err(e),
    };
    work().map_err(|e| Error::file("complete", partial, e))
}

/// Gives a file its final name, unless the name exists.
fn publish(from: &Path, to: &Path) -> io::Result<()> {
    match fs::hard_link(from, to) {
        // Some file systems have no links. The lock excludes other writers, and the name
        // was free before.
        Err(e) if matches!(e.kind(), ErrorKind::PermissionDenied | ErrorKind::Unsupported) => {
            fs::rename(from, to)?;
        }
        other => other?,
    }
    sync_folder(to)
}

pub(super) fn complete(
    shared: &Shared,
    sealed: &Sealed,
    path: &Path,
    done: Option<Finished>,
) -> Result<()> {
    let done = match done {
        Some(done) => done,
        None => digest(path).map_err(|e| Error::file("read", path, e))?,
    };
    let file = path.strip_prefix(&shared.folder).unwrap_or(path).to_string_lossy().into_owned();
    let bytes = done.bytes;
    let entry = Entry {
        file,
        kind: sealed.kind,
        records: sealed.extent.records,
        first_us: sealed.extent.first.map(micros),
        last_us: sealed.extent.last.map(micros),
        content: sealed.extent.bytes,
        bytes,
        sha256: done.sha256,
    };
    lock(&shared.manifest).append(&entry)?;
    remove(&plain_path(&shared.folder, &sealed.name, sealed.kind))?;
    shared.finished.fetch_add(1, Ordering::Relaxed);
    shared.bytes.fetch_add(bytes, Ordering::Relaxed);
    Ok(())
}

pub(crate) fn remove(path: &Path) -> Result<()> {
    match fs::remove_file(path) {
        Err(e) if e.kind() != ErrorKind::NotFound => Err(Error::file("remove", path, e)),
        _ => Ok(()),
    }
}

pub(crate) fn digest(path: &Path) -> io::Result<Finished> {
    let mut digester = Digester::new(io::sink());
    io::copy(&mut File::open(path)?, &mut digester)?;
    Ok(digester.finish())
}

pub(super) fn state(shared: &Shared, losses: &[Loss]) -> Result<()> {
    lock(&shared.gaps).append_all(losses)
}

/// Locks stay usable after a panic, because no operation leaves them inconsistent.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
