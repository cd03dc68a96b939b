//! Reserved disk space for a run's final record, and a lock held while the run's process lives.
//!
//! When a run begins, its folder gets the file `.final`: allocated blocks for the final record,
//! locked for as long as a process of the run lives. The final record is written into these blocks,
//! so that a full disk cannot stop it, and the file is then renamed to `run.json`. Until then it
//! holds a whole record with the failure "out of memory": after a failed allocation one rename,
//! which allocates nothing, gives the run its final status.

use std::ffi::CString;
use std::fs::{self, File};
use std::io::{self, Write as _};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use rustix::fs::{FallocateFlags, FlockOperation, Mode, OFlags};
use rustix::io::Errno;

use crate::files;

/// The reserve's name in the run folder.
const FILE: &str = ".final";
/// Space beyond four times the size of the first record, for small runs.
const MARGIN_BYTES: u64 = 64 << 10;

/// The reserve of a running run. Clones and forked processes share its lock.
#[derive(Clone, Debug)]
pub(crate) struct Reserve {
    _held: Arc<Held>,
}

#[derive(Debug)]
struct Held {
    path: PathBuf,
    _lock: File,
}

/// Paths for [`save_records_without_memory`], which cannot allocate.
struct UnfinishedRun {
    folder: CString,
    reserve: CString,
    record: CString,
}

/// Runs of this process that have no final record.
static UNFINISHED: Mutex<Vec<UnfinishedRun>> = Mutex::new(Vec::new());

impl Reserve {
    /// Creates the folder of a run with its reserve. No memory is allocated between the two steps.
    pub(crate) fn create(folder: &Path, out_of_memory: &[u8]) -> io::Result<Self> {
        Self::fill(folder, out_of_memory, || fs::create_dir(folder))
    }

    /// Creates the reserve in an existing folder.
    pub(crate) fn create_in(folder: &Path, out_of_memory: &[u8]) -> io::Result<Self> {
        Self::fill(folder, out_of_memory, || Ok(()))
    }

    fn fill(
        folder: &Path,
        out_of_memory: &[u8],
        make: impl FnOnce() -> io::Result<()>,
    ) -> io::Result<Self> {
        let path = folder.join(FILE);
        let c_string =
            |path: &Path| CString::new(path.as_os_str().as_bytes()).map_err(io::Error::from);
        let entry = UnfinishedRun {
            folder: c_string(folder)?,
            reserve: c_string(&path)?,
            record: c_string(&record_path(folder))?,
        };
        UNFINISHED.lock().unwrap_or_else(PoisonError::into_inner).push(entry);
        let made = make();
        let is_made = made.is_ok();
        match made.and_then(|()| write_reserve(&path, out_of_memory)) {
            Ok(lock) => Ok(Self { _held: Arc::new(Held { path, _lock: lock }) }),
            Err(error) => {
                remove_unfinished(&path);
                if is_made {
                    // A folder without a record would look like a run.
                    let _ = fs::remove_file(&path);
                    let _ = fs::remove_dir(folder);
                }
                Err(error)
            }
        }
    }
}

fn write_reserve(path: &Path, text: &[u8]) -> io::Result<File> {
    let mut file = files::create_new(path)?;
    rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive)?;
    file.write_all(text)?;
    let size = 4 * text.len() as u64 + MARGIN_BYTES;
    match rustix::fs::fallocate(&file, FallocateFlags::KEEP_SIZE, 0, size) {
        // Some file systems cannot preallocate.
        Ok(()) | Err(Errno::OPNOTSUPP | Errno::NOSYS) => Ok(file),
        Err(errno) => Err(errno.into()),
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        remove_unfinished(&self.path);
    }
}

fn remove_unfinished(reserve: &Path) {
    let mut unfinished = UNFINISHED.lock().unwrap_or_else(PoisonError::into_inner);
    unfinished.retain(|entry| entry.reserve.as_bytes() != reserve.as_os_str().as_bytes());
}

pub(crate) fn record_path(folder: &Path) -> PathBuf {
    folder.join("run.json")
}

/// Writes the final record into the reserve if there is one, syncs it and renames it to
/// `run.json`.
pub(crate) fn write_final(folder: &Path, text: &[u8]) -> io::Result<()> {
    let path = folder.join(FILE);
    match files::overwrite(&path) {
        Ok(mut file) => {
            file.write_all(text)?;
            file.set_len(text.len() as u64)?;
            file.sync_all()?;
            files::rename(&path, &record_path(folder))?;
        }
        // The reserve does not exist, or a program has replaced it.
        Err(_) => files::replace(&record_path(folder), text)?,
    }
    remove_unfinished(&path);
    File::open(folder)?.sync_all()
}

/// Whether the run in this folder has no live process; `None` if that is unknown.
pub(crate) fn is_abandoned(folder: &Path) -> Option<bool> {
    let file = match files::open(&folder.join(FILE)) {
        Ok(file) => file,
        Err(error) => return (error.kind() == io::ErrorKind::NotFound).then_some(true),
    };
    match rustix::fs::flock(&file, FlockOperation::NonBlockingLockShared) {
        Ok(()) => Some(true),
        Err(Errno::WOULDBLOCK) => Some(false),
        Err(_) => None,
    }
}

/// Gives every unfinished run of this process the final status "failed: out of memory". For use
/// after a failed allocation: it does not allocate.
pub fn save_records_without_memory() {
    // The calling thread itself may hold the lock.
    let Ok(unfinished) = UNFINISHED.try_lock() else { return };
    for entry in unfinished.iter() {
        if rustix::fs::rename(entry.reserve.as_c_str(), entry.record.as_c_str()).is_err() {
            // The reserve does not exist yet. A folder without a record would look like a run.
            let _ = rustix::fs::rmdir(entry.folder.as_c_str());
        } else if let Ok(folder) = rustix::fs::open(
            entry.folder.as_c_str(),
            OFlags::RDONLY | OFlags::CLOEXEC,
            Mode::empty(),
        ) {
            let _ = rustix::fs::fsync(folder);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn final_record_fits_in_reserved_blocks() {
        let dir = tempfile::tempdir().unwrap();
        let _reserve = Reserve::create_in(dir.path(), b"{}").unwrap();
        let blocks = |name| {
            use std::os::unix::fs::MetadataExt as _;
            fs::metadata(dir.path().join(name)).unwrap().blocks()
        };
        let before = blocks(FILE);
        assert!(before * 512 >= MARGIN_BYTES, "{before}");
        write_final(dir.path(), &vec![b' '; MARGIN_BYTES as usize]).unwrap();
        assert!(blocks("run.json") <= before, "the record needed more blocks than the reserve");
        assert_eq!(fs::read(record_path(dir.path())).unwrap().len() as u64, MARGIN_BYTES);
    }

    #[test]
    fn run_is_abandoned_once_its_lock_is_released() {
        let dir = tempfile::tempdir().unwrap();
        let reserve = Reserve::create_in(dir.path(), b"{}").unwrap();
        assert_eq!(is_abandoned(dir.path()), Some(false));
        drop(reserve);
        assert_eq!(is_abandoned(dir.path()), Some(true));
    }
}
