//! The space for a run's final record, and the lock that tells whether its process lives.
//!
//! When a run begins, its folder gets the file `.final`: allocated blocks for the final record,
//! locked for as long as a process of the run lives. The final record is written into these blocks,
//! so that a full disk cannot stop it, and the file is then renamed to `run.json`. Until then it
//! holds a whole record with the failure "out of memory": after a failed allocation one rename,
//! which allocates nothing, gives the run its final status.

use std::ffi::CString;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Seek as _, SeekFrom, Write as _};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use rustix::fs::{FallocateFlags, FlockOperation, Mode, OFlags};
use rustix::io::Errno;

/// The reserve's name in the run folder.
const NAME: &str = ".final";
/// Room beyond four times the first record: what a small run adds.
const MARGIN: u64 = 64 << 10;

/// The reserve of a run under way. Clones and forked processes share its lock.
#[derive(Clone, Debug)]
pub(crate) struct Reserve {
    _held: Arc<Held>,
}

#[derive(Debug)]
struct Held {
    path: PathBuf,
    _lock: File,
}

/// Paths that a failed allocation needs.
struct Entry {
    folder: CString,
    reserve: CString,
    record: CString,
}

/// One entry a run of this process that has no final record.
static UNFINISHED: Mutex<Vec<Entry>> = Mutex::new(Vec::new());

impl Reserve {
    /// Makes the folder of a run with its reserve. Once the folder is there, nothing is allocated
    /// before the reserve is complete.
    pub(crate) fn create(folder: &Path, out_of_memory: &[u8]) -> io::Result<Self> {
        Self::fill(folder, out_of_memory, || fs::create_dir(folder))
    }

    /// Makes the reserve in a folder that is there.
    pub(crate) fn create_in(folder: &Path, out_of_memory: &[u8]) -> io::Result<Self> {
        Self::fill(folder, out_of_memory, || Ok(()))
    }

    fn fill(
        folder: &Path,
        out_of_memory: &[u8],
        make: impl FnOnce() -> io::Result<()>,
    ) -> io::Result<Self> {
        let path = folder.join(NAME);
        let text = |path: &Path| CString::new(path.as_os_str().as_bytes()).map_err(io::Error::from);
        let entry = Entry {
            folder: text(folder)?,
            reserve: text(&path)?,
            record: text(&record_path(folder))?,
        };
        UNFINISHED.lock().unwrap_or_else(PoisonError::into_inner).push(entry);
        let made = make();
        let is_made = made.is_ok();
        match made.and_then(|()| write_reserve(&path, out_of_memory)) {
            Ok(lock) => Ok(Self { _held: Arc::new(Held { path, _lock: lock }) }),
            Err(error) => {
                forget(&path);
                if is_made {
                    // What is left is of no use, and a run without a record if the folder is new.
                    let _ = fs::remove_file(&path);
                    let _ = fs::remove_dir(folder);
                }
                Err(error)
            }
        }
    }
}

fn write_reserve(path: &Path, text: &[u8]) -> io::Result<File> {
    let mut file = OpenOptions::new().read(true).write(true).create_new(true).open(path)?;
    rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive)?;
    file.write_all(text)?;
    let size = 4 * text.len() as u64 + MARGIN;
    match rustix::fs::fallocate(&file, FallocateFlags::KEEP_SIZE, 0, size) {
        // A file system that cannot preallocate.
        Ok(()) | Err(Errno::OPNOTSUPP | Errno::NOSYS) => Ok(file),
        Err(errno) => Err(errno.into()),
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        forget(&self.path);
    }
}

fn forget(reserve: &Path) {
    let mut unfinished = UNFINISHED.lock().unwrap_or_else(PoisonError::into_inner);
    unfinished.retain(|entry| entry.reserve.as_bytes() != reserve.as_os_str().as_bytes());
}

pub(crate) fn record_path(folder: &Path) -> PathBuf {
    folder.join("run.json")
}

/// Makes `text` the run's final record: into the reserve if there is one, synced, renamed.
pub(crate) fn write_final(folder: &Path, text: &[u8]) -> io::Result<()> {
    let path = folder.join(NAME);
    let mut file = OpenOptions::new().write(true).create(true).truncate(false).open(&path)?;
    file.seek(SeekFrom::Start(0))?;
    file.write_all(text)?;
    file.set_len(text.len() as u64)?;
    file.sync_all()?;
    fs::rename(&path, record_path(folder))?;
    forget(&path);
    File::open(folder)?.sync_all()
}

/// Whether the run in this folder has no live process any more. `None`: it cannot be seen.
pub(crate) fn is_abandoned(folder: &Path) -> Option<bool> {
    let file = match File::open(folder.join(NAME)) {
        Ok(file) => file,
        Err(error) => return (error.kind() == io::ErrorKind::NotFound).then_some(true),
    };
    match rustix::fs::flock(&file, FlockOperation::NonBlockingLockShared) {
        Ok(()) => Some(true),
        Err(Errno::WOULDBLOCK) => Some(false),
        Err(_) => None,
    }
}

/// Gives every unfinished run of this process the final status "failed: out of memory". For the
/// process that is about to end because an allocation failed: nothing is allocated.
pub fn save_records_without_memory() {
    // Whoever holds the lock may be the caller itself, below in the stack.
    let Ok(unfinished) = UNFINISHED.try_lock() else { return };
    for entry in unfinished.iter() {
        if rustix::fs::rename(entry.reserve.as_c_str(), entry.record.as_c_str()).is_err() {
            // There is no reserve yet. An empty folder would be a run without a record.
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
    fn final_record_is_written_where_no_block_is_free() {
        let dir = tempfile::tempdir().unwrap();
        let _reserve = Reserve::create_in(dir.path(), b"{}").unwrap();
        let blocks = |name| {
            use std::os::unix::fs::MetadataExt as _;
            fs::metadata(dir.path().join(name)).unwrap().blocks()
        };
        let before = blocks(NAME);
        assert!(before * 512 >= MARGIN, "{before}");
        write_final(dir.path(), &vec![b' '; MARGIN as usize]).unwrap();
        assert!(blocks("run.json") <= before, "the record needed blocks beside the reserve");
        assert_eq!(fs::read(record_path(dir.path())).unwrap().len() as u64, MARGIN);
    }

    #[test]
    fn run_is_abandoned_when_the_last_holder_of_its_lock_is_gone() {
        let dir = tempfile::tempdir().unwrap();
        let reserve = Reserve::create_in(dir.path(), b"{}").unwrap();
        assert_eq!(is_abandoned(dir.path()), Some(false));
        drop(reserve);
        assert_eq!(is_abandoned(dir.path()), Some(true));
    }
}
