//! From a plain file that nobody appends to any more to the file that readers see.
//!
//! The order makes it repeatable after a crash at any point: the finished file gets its name only
//! when the disk has all of it, then it is listed, then the plain file goes. Whoever finds both
//! files knows that the finished one is whole.

use std::fmt::Write as _;
use std::fs::{self, File};
use std::io::{self, BufWriter, ErrorKind, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rustix::fs::Access;
use sha2::{Digest, Sha256};

use super::compress::{self, Compression, Finished, Pool, SUFFIXES};
use super::layout::Kind;
use super::ledger::{Entry, Ledger, Loss, TABLES, TableMirrors, micros};
use super::scan::Extent;
use crate::{Error, Result};

/// A plain file that is complete.
pub(super) struct Sealed {
    /// Name of the finished file without suffix, relative to the folder.
    pub name: String,
    pub kind: Kind,
    pub extent: Extent,
    /// Of a table whose mirrors are not listed yet: that of each peer.
    pub mirrors: Vec<u32>,
}

/// What the thread that finishes files shares with the one that writes them.
pub(super) struct Shared {
    /// The collector's folder.
    pub folder: PathBuf,
    pub manifest: Mutex<Ledger>,
    pub gaps: Mutex<Ledger>,
    /// Complete files of routes.
    pub routes: Mutex<Vec<Sealed>>,
    /// Files that were finished.
    pub finished: AtomicU64,
    /// Bytes of these.
    pub bytes: AtomicU64,
    /// Files that wait for their turn.
    pub waiting: AtomicU64,
    /// Why a file could not be finished, last time.
    pub trouble: Mutex<Option<String>>,
    /// Keeps others out.
    pub _lock: File,
}

/// Endings of hidden names: updates, routes, routes that are not complete, half-compressed.
pub(crate) const OPEN: &str = "open";
pub(crate) const FULL: &str = "full";
pub(crate) const PARTIAL: &str = "partial";
pub(crate) const PACKED: &str = "packed";

/// The hidden name of a file without compression. Updates may be appended to it; routes never are.
pub(super) fn plain_path(folder: &Path, name: &str, kind: Kind) -> PathBuf {
    let state = match kind {
        Kind::Updates => OPEN,
        Kind::Routes => FULL,
    };
    hidden(folder, name, state)
}

/// The hidden name of a file of routes that is being written.
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

/// The finished file of that name, whatever its compression.
pub(super) fn finished_path(folder: &Path, name: &str) -> Option<PathBuf> {
    let exists = |path: &PathBuf| rustix::fs::access(path, Access::EXISTS).is_ok();
    SUFFIXES.iter().map(|suffix| folder.join(format!("{name}{suffix}"))).find(exists)
}

/// Waits until the folder of `path` has its names on disk.
pub(super) fn sync_folder(path: &Path) -> io::Result<()> {
    match path.parent() {
        Some(folder) => File::open(folder)?.sync_all(),
        None => Ok(()),
    }
}

/// How often files of routes are looked for, and files that could not be finished tried again.
const PAUSE: Duration = Duration::from_millis(500);

/// Finishes what comes until nothing comes any more. A file that cannot be finished is tried again
/// soon after. Answers how many were left.
pub(super) fn run(
    shared: &Shared,
    compression: Compression,
    pool: &Pool,
    queue: &Receiver<Sealed>,
) -> usize {
    let mut stuck: Vec<Sealed> = Vec::new();
    loop {
        let (next, is_over) = match queue.recv_timeout(PAUSE) {
            Ok(sealed) => (Some(sealed), false),
            Err(RecvTimeoutError::Timeout) => (None, false),
            Err(RecvTimeoutError::Disconnected) => (None, true),
        };
        if next.is_none() {
            stuck.retain(|sealed| !attempt(shared, compression, pool, sealed));
        }
        let routes = std::mem::take(&mut *lock(&shared.routes));
        for sealed in next.into_iter().chain(routes) {
            if !attempt(shared, compression, pool, &sealed) {
                stuck.push(sealed);
            }
        }
        if is_over {
            return stuck.len();
        }
    }
}

fn attempt(shared: &Shared, compression: Compression, pool: &Pool, sealed: &Sealed) -> bool {
    let result = finish(shared, compression, pool, sealed);
    *lock(&shared.trouble) = result.as_ref().err().map(ToString::to_string);
    if result.is_ok() {
        shared.waiting.fetch_sub(1, Ordering::Relaxed);
    }
    result.is_ok()
}

/// Makes the finished file, lists it, removes the plain one. Each of these may be done already,
/// if what follows it failed before.
fn finish(shared: &Shared, compression: Compression, pool: &Pool, sealed: &Sealed) -> Result<()> {
    let (path, done) = match finished_path(&shared.folder, &sealed.name) {
        Some(path) => (path, None),
        None => pack(shared, compression, pool, sealed)?,
    };
    complete(shared, sealed, &path, done)
}

fn pack(
    shared: &Shared,
    compression: Compression,
    pool: &Pool,
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
        // A write that failed left a part of a record, and so did the attempt to cut it off.
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
        let done = compress::copy(pool, compression, &mut source, length, &mut writer)?;
        writer.flush()?;
        writer.get_ref().sync_all()?;
        publish(&packed, &target)?;
        Ok(done)
    };
    let done = work().map_err(|e| Error::file("write", &target, e));
    // Its other name is the finished file's; without one it is half a file that takes room.
    let _ = fs::remove_file(&packed);
    Ok((target, Some(done?)))
}

/// Readers need the mirrors of a table as soon as they can read it.
fn list_mirrors(shared: &Shared, sealed: &Sealed) -> Result<()> {
    if sealed.mirrors.is_empty() || !partial_path(&shared.folder, &sealed.name).exists() {
        return Ok(());
    }
    let (table, mirrors) = (sealed.name.clone(), sealed.mirrors.clone());
    let mut list = Ledger::open(shared.folder.join(TABLES))?;
    list.append(&TableMirrors { table, mirrors })
}

/// A file of routes that was written to its end is called so when the disk has it.
fn complete_routes(partial: &Path, plain: &Path) -> Result<()> {
    let work = || match File::open(partial) {
        Ok(file) => file.sync_all().and_then(|()| fs::rename(partial, plain)),
        Err(e) if e.kind() == ErrorKind::NotFound => Ok(()),
        Err(e) => Err(e),
    };
    work().map_err(|e| Error::file("complete", partial, e))
}

/// Gives a file its final name, never that of another file.
fn publish(from: &Path, to: &Path) -> io::Result<()> {
    match fs::hard_link(from, to) {
        // Some file systems have no links. Nobody else writes here, because of the lock, and
        // nothing had that name just before.
        Err(e) if matches!(e.kind(), ErrorKind::PermissionDenied | ErrorKind::Unsupported) => {
            fs::rename(from, to)?;
        }
        other => other?,
    }
    sync_folder(to)
}

/// Lists a finished file and removes the plain one.
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
    let entry = Entry {
        file,
        kind: sealed.kind,
        records: sealed.extent.records,
        first_us: sealed.extent.first.map(micros),
        last_us: sealed.extent.last.map(micros),
        content: sealed.extent.bytes,
        bytes: done.bytes,
        sha256: hex(&done.digest),
    };
    lock(&shared.manifest).append(&entry)?;
    remove(&plain_path(&shared.folder, &sealed.name, sealed.kind))?;
    shared.finished.fetch_add(1, Ordering::Relaxed);
    shared.bytes.fetch_add(done.bytes, Ordering::Relaxed);
    Ok(())
}

/// Removes a file that may have gone already.
pub(super) fn remove(path: &Path) -> Result<()> {
    match fs::remove_file(path) {
        Err(e) if e.kind() != ErrorKind::NotFound => Err(Error::file("remove", path, e)),
        _ => Ok(()),
    }
}

/// SHA-256 and length of a file.
fn digest(path: &Path) -> io::Result<Finished> {
    let mut file = File::open(path)?;
    let mut hash = Sha256::new();
    let mut block = vec![0; 1 << 18];
    let mut bytes = 0;
    loop {
        match file.read(&mut block)? {
            0 => return Ok(Finished { bytes, digest: hash.finalize().into() }),
            count => {
                hash.update(&block[..count]);
                bytes += count as u64;
            }
        }
    }
}

/// States losses.
pub(super) fn state(shared: &Shared, losses: &[Loss]) -> Result<()> {
    lock(&shared.gaps).append_all(losses)
}

/// Nothing is left half-done by whoever panics with one of our locks.
pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Bytes as two digits each.
pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}
