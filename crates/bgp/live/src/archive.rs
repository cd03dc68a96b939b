//! The archive on disk: MRT files of equal intervals, named and laid out as those of
//! public route collectors.
//!
//! Whole records are appended to a hidden plain file. At the end of its interval other threads
//! compress it, and the finished file appears under its name complete. The collector may be killed
//! at any time: the next one removes a torn record, finishes the file, and states in [`GAPS`] what
//! may be missing. A full disk drops records but never tears one, and is stated as well.

mod compress;
mod finish;
mod layout;
mod ledger;
mod options;
mod recovery;
mod scan;
mod snapshot;
mod store;

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicU64;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::Instant;

use base::Time;
use rustix::fs::FlockOperation;

use crate::{Error, Result};
use finish::{Sealed, Shared};
pub use options::{Options, Status, Sync};
use store::Store;

pub use compress::Compression;
pub(crate) use compress::{Compressor, Finished};
pub(crate) use finish::{FULL, OPEN, PACKED, PARTIAL, digest, lock, remove};
pub use layout::{Kind, Layout, rfc3339};
pub use ledger::{Entry, GAPS, Loss, MANIFEST, read as read_ledger};
pub(crate) use ledger::{Ledger, TABLES, TableMirrors, micros};
pub use snapshot::Snapshot;

/// Maximum number of files and folders that an archive has open, including the
/// accounts: the current file, four ledgers and locks, three sets of three being synced, a file
/// being compressed, a snapshot and an account being written, and one more each.
pub const OPEN_FILES: usize = 34;

/// Maximum number of files that this process may open, after raising the limit.
pub fn max_open_files() -> Result<usize> {
    Ok(usize::try_from(sys::limits::raise_open_files()?).unwrap_or(usize::MAX))
}

const CHUNK: usize = 1 << 20;

/// An archive that is being written. A folder has at most one collector.
pub struct Archive {
    store: Store,
    /// Records that are not written yet, and the one that is being encoded.
    buffer: Vec<u8>,
    records: u64,
    /// Records before this time, and not before `from`, belong to the current file.
    end: Time,
    from: Time,
    synced: Instant,
    finisher: Option<Finisher>,
    recovered: Vec<Loss>,
}

struct Finisher {
    queue: SyncSender<Sealed>,
    thread: JoinHandle<usize>,
    syncer: JoinHandle<()>,
}

impl Archive {
    /// Opens the archive in `folder`, which is created if necessary, and recovers the files of a
    /// killed collector (see [`Self::recovered`]).
    pub fn open(folder: &Path, options: Options) -> Result<Self> {
        const SECOND: u64 = 1_000_000_000;
        if !options.collector.is_empty() {
            layout::check_name(&options.collector)?;
        }
        let interval = options.interval.as_nanos();
        if interval == 0 || !interval.is_multiple_of(SECOND) {
            return Err(Error::Interval(options.interval));
        }
        sys::limits::ignore_file_size_signal()?;
        let folder = folder.join(&options.collector);
        fs::create_dir_all(&folder).map_err(|e| Error::file("create", &folder, e))?;
        let lock_file = lock_folder(&folder)?;
        let shared = Arc::new(Shared {
            manifest: Mutex::new(Ledger::open(folder.join(MANIFEST))?),
            gaps: Mutex::new(Ledger::open(folder.join(GAPS))?),
            folder,
            routes: Mutex::new(Vec::new()),
            finished: AtomicU64::new(0),
            bytes: AtomicU64::new(0),
            waiting: AtomicU64::new(0),
            trouble: Mutex::new(None),
            _lock: lock_file,
        });
        let mut recovery = recovery::recover(&shared)?;
        let recovered = std::mem::take(&mut recovery.losses);
        let (queue, sealed) = sync_channel(options.backlog.max(1));
        let (sync, files) = sync_channel(1);
        let finisher = Finisher::start(&shared, &options, queue.clone(), sealed, files)?;
        let store = Store::new(options, shared, queue, sync, recovery);
        Ok(Self {
            store,
            buffer: Vec::with_capacity(CHUNK + (CHUNK >> 3)),
            records: 0,
            end: Time::ZERO,
            from: Time::ZERO,
            synced: Instant::now(),
            finisher: Some(finisher),
            recovered,
        })
    }

    /// Buffer for the whole record of `time`, to be appended before any other call. Records go to
    /// the file of their interval; a late one goes to the current file.
    #[inline]
    pub fn at(&mut self, time: Time) -> &mut Vec<u8> {
        if !self.covers(time) {
            self.turn(time, true);
        } else if self.buffer.len() >= CHUNK {
            self.flush();
        }
        self.records += 1;
        &mut self.buffer
    }

    /// Finishes files whose interval ends before the capture time `now`, with or without records.
    /// Before the first record no file exists.
    pub fn advance(&mut self, now: Time) {
        if self.is_over(now) {
            self.turn(now, false);
        }
    }

    /// Whether the interval of the current file has ended at `now`.
    pub(crate) fn is_over(&self, now: Time) -> bool {
        self.end > Time::ZERO && now >= self.end
    }

    /// Whether a record of `time` belongs to the current file.
    #[inline]
    pub(crate) fn covers(&self, time: Time) -> bool {
        time < self.end && time >= self.from
    }

    /// Writes all records to the kernel, and syncs from time to time.
    pub fn flush(&mut self) {
        let mut buffer = std::mem::take(&mut self.buffer);
        let records = std::mem::take(&mut self.records);
        self.take(&mut buffer, records);
        self.buffer = buffer;
    }

    /// As [`Self::flush`] for whole records in the caller's buffer, of which `records` are new.
    /// Records that cannot be written stay there.
    pub(crate) fn take(&mut self, buffer: &mut Vec<u8>, records: u64) {
        if !buffer.is_empty() {
            self.store.write(buffer, records);
        }
        if let Sync::Every(span) = self.store.options.sync
            && self.synced.elapsed() >= span.to_std()
        {
            self.synced = Instant::now();
            self.store.sync();
        }
    }

    /// Changes to the file of `time`. The rest of `buffer` belongs to a past interval.
    pub(crate) fn turn_with(&mut self, buffer: &mut Vec<u8>, time: Time, is_record: bool) {
        self.store.turn(buffer, time, is_record);
        (self.from, self.end) = self.store.bounds();
    }

    #[cold]
    fn turn(&mut self, time: Time, is_record: bool) {
        self.flush();
        let mut buffer = std::mem::take(&mut self.buffer);
        self.turn_with(&mut buffer, time, is_record);
        self.buffer = buffer;
    }

    /// States losses in [`GAPS`]. Failed writes are retried, up to a limit.
    pub fn state(&mut self, losses: &[Loss]) {
        self.store.state(losses);
    }

    pub fn recovered(&self) -> &[Loss] {
        &self.recovered
    }

    pub fn folder(&self) -> &Path {
        &self.store.shared.folder
    }

    /// A file of the routes at `time`, of peers that `mirrors` show.
    pub fn snapshot(&self, time: Time, mirrors: Vec<u32>) -> Result<Snapshot> {
        Snapshot::create(&self.store, time, mirrors)
    }

    pub fn status(&self) -> Status {
        self.store.status()
    }

    /// Writes all records and finishes all files.
    pub fn close(mut self) -> Result<Status> {
        self.flush();
        let mut buffer = std::mem::take(&mut self.buffer);
        self.close_with(&mut buffer)
    }

    /// As [`Self::close`], with whole records that could not be written before.
    pub(crate) fn close_with(mut self, buffer: &mut Vec<u8>) -> Result<Status> {
        self.store.close(buffer);
        let left = self.stop();
        let status = self.store.status();
        match (left, &status.trouble) {
            (0, None) => Ok(status),
            (_, trouble) => {
                let cause = trouble.clone().unwrap_or_default();
                let path: PathBuf = self.store.shared.folder.clone();
                Err(Error::file("finish all files of", path, std::io::Error::other(cause)))
            }
        }
    }

    /// Ends the threads; returns the number of unfinished files.
    fn stop(&mut self) -> usize {
        let Some(finisher) = self.finisher.take() else { return 0 };
        self.store.hang_up();
        drop(finisher.queue);
        let left = finisher.thread.join().unwrap_or(0);
        let _ = finisher.syncer.join();
        left
    }
}

impl Drop for Archive {
    /// Writes all records. The next collector continues the current file.
    fn drop(&mut self) {
        self.flush();
        self.stop();
    }
}

impl Finisher {
    fn start(
        shared: &Arc<Shared>,
        options: &Options,
        queue: SyncSender<Sealed>,
        sealed: Receiver<Sealed>,
        files: Receiver<Vec<File>>,
    ) -> Result<Self> {
        let refused = |e| Error::file("start threads for", &shared.folder, e);
        let compression = options.compression;
        let common = Arc::clone(shared);
        let work = move || finish::run(&common, compression, &sealed);
        let thread = thread::Builder::new().name("finish".to_owned()).spawn(work);
        let sync = move || {
            for file in files.iter().flatten() {
                // A failure occurs again when the file is finished, and is reported there.
                let _ = file.sync_all();
            }
        };
        let syncer = thread::Builder::new().name("sync".to_owned()).spawn(sync);
        Ok(Self { queue, thread: thread.map_err(refused)?, syncer: syncer.map_err(refused)? })
    }
}

/// Locks the archive against other writers while the file is open.
fn lock_folder(folder: &Path) -> Result<File> {
    let path = folder.join(".lock");
    let file = File::create(&path).map_err(|e| Error::file("open", &path, e))?;
    match rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(file),
        Err(rustix::io::Errno::WOULDBLOCK) => Err(Error::Locked(folder.to_owned())),
        Err(e) => Err(Error::file("lock", &path, e.into())),
    }
}

#[cfg(test)]
mod tests;
