//! The archive on disk: MRT files of equal intervals, named and laid out as the public route
//! collectors do.
//!
//! Records go, whole ones only, to a hidden plain file. At the end of its interval other threads
//! compress it, and the finished file appears under its name at once and whole. The collector may
//! be killed at any moment: the next one cuts a torn tail, finishes what was left, and states in
//! [`GAPS`] what may be missing. A full disk loses records, never tears one, and is stated too.

mod bzip2_join;
mod compress;
mod finish;
mod layout;
mod ledger;
mod recovery;
mod scan;
mod snapshot;
mod store;

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use base::{Span, Time};
use rustix::fs::FlockOperation;

use crate::{Error, Result};
use compress::Pool;
use finish::{Sealed, Shared};
use store::Store;

pub use compress::Compression;
pub(crate) use finish::{FULL, OPEN, PACKED, PARTIAL};
pub use layout::{Kind, Layout, rfc3339};
pub use ledger::{Entry, GAPS, Loss, MANIFEST, read as read_ledger};
pub(crate) use ledger::{Ledger, TABLES, TableMirrors, micros};
pub use snapshot::Snapshot;

/// When the kernel is asked to have everything on disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sync {
    /// When a file is finished.
    AtRotation,
    /// Also in between, this often.
    Every(Span),
}

/// How an archive is written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// Folder of this collector within the archive; may be empty.
    pub collector: String,
    /// Names.
    pub layout: Layout,
    /// How long the records of one file are: whole seconds, counted from midnight UTC 1970.
    pub interval: Span,
    /// Of finished files.
    pub compression: Compression,
    /// Of the file that is written.
    pub sync: Sync,
    /// Threads that compress.
    pub workers: usize,
    /// Complete plain files that may wait for them before the collector does.
    pub backlog: usize,
    /// Bytes of records that are held while the disk takes nothing.
    pub hold: usize,
}

impl Default for Options {
    /// As RIPE RIS: five minutes, gzip.
    fn default() -> Self {
        Self {
            collector: String::new(),
            layout: Layout::Ris,
            interval: Span::from_secs(300),
            compression: Compression::Gzip(6),
            sync: Sync::Every(Span::from_secs(1)),
            workers: 1,
            backlog: 64,
            hold: 16 << 20,
        }
    }
}

/// What an archive did so far.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Status {
    /// Records that were written.
    pub records: u64,
    /// Their bytes.
    pub content: u64,
    /// Files that were finished.
    pub files: u64,
    /// Bytes of these.
    pub bytes: u64,
    /// Complete files that wait to be compressed.
    pub waiting: u64,
    /// How often the collector waited for compression because too many files did.
    pub waits: u64,
    /// How long it did.
    pub waited: Duration,
    /// Records that were lost because the disk took nothing.
    pub lost: u64,
    /// Why the disk takes nothing at present, or why a file cannot be finished.
    pub trouble: Option<String>,
}

/// Files and folders that an archive with one worker has open at a time, with the accounts beside
/// it: the present file, three ledgers and locks, three sets of three that are handed to the disk,
/// a file being compressed, a snapshot and an account being written, and room for one more each.
pub const OPEN_FILES: usize = 32;

/// The most files that this process may open, now that its limit is as high as it may be.
///
/// # Errors
/// If the kernel does not say.
pub fn max_open_files() -> Result<usize> {
    Ok(usize::try_from(sys::limits::raise_open_files()?).unwrap_or(usize::MAX))
}

/// Bytes that are written at once.
const CHUNK: usize = 1 << 20;

/// An archive that is being written. One collector only may write to a folder.
pub struct Archive {
    store: Store,
    /// Records that are not written yet; whole ones but for the one in the making.
    buffer: Vec<u8>,
    /// Records in `buffer`.
    records: u64,
    /// Records earlier than this, and not before `from`, belong to the present file.
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
    /// Opens the archive in `folder`, which is made if need be, and puts in order what a collector
    /// that was killed left there (see [`Self::recovered`]).
    ///
    /// # Errors
    /// If the folder cannot be written, or another collector writes to it.
    pub fn open(folder: &Path, options: Options) -> Result<Self> {
        const SECOND: u64 = 1_000_000_000;
        options.layout.check()?;
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

    /// Where the record of `time` is to be appended, whole, before any other call. Records go to
    /// the file of their interval; one that comes late goes to the present file.
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

    /// The capture's clock says `now`: files whose interval is over are finished, with or without
    /// records in them. Without a first record there is no file.
    pub fn advance(&mut self, now: Time) {
        if self.is_over(now) {
            self.turn(now, false);
        }
    }

    /// Whether the present file's interval is over at `now`.
    pub(crate) fn is_over(&self, now: Time) -> bool {
        self.end > Time::ZERO && now >= self.end
    }

    /// Whether a record of `time` goes to the present file.
    #[inline]
    pub(crate) fn covers(&self, time: Time) -> bool {
        time < self.end && time >= self.from
    }

    /// Hands all records to the kernel, and asks it from time to time to have them on disk.
    pub fn flush(&mut self) {
        let mut buffer = std::mem::take(&mut self.buffer);
        let records = std::mem::take(&mut self.records);
        self.take(&mut buffer, records);
        self.buffer = buffer;
    }

    /// As [`Self::flush`] for whole records in a buffer of the caller, of which `records` are new.
    /// What the disk does not take stays there.
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

    /// Changes to the file of `time`. What is left in `buffer` belongs to an interval that is over.
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

    /// States in [`GAPS`] what others found missing. What the disk does not take now is tried
    /// again, up to a limit.
    pub fn state(&mut self, losses: &[Loss]) {
        self.store.state(losses);
    }

    /// What was found missing when the archive was opened.
    pub fn recovered(&self) -> &[Loss] {
        &self.recovered
    }

    /// The folder that the files are in.
    pub fn folder(&self) -> &Path {
        &self.store.shared.folder
    }

    /// A file of routes, as they are at `time`, of peers that `mirrors` show.
    ///
    /// # Errors
    /// If it cannot be made.
    pub fn snapshot(&self, time: Time, mirrors: Vec<u32>) -> Result<Snapshot> {
        Snapshot::create(&self.store, time, mirrors)
    }

    /// What it did so far.
    pub fn status(&self) -> Status {
        self.store.status()
    }

    /// Writes what there is and finishes all files.
    ///
    /// # Errors
    /// If files are left unfinished: the next collector that opens the archive finishes them.
    pub fn close(mut self) -> Result<Status> {
        self.flush();
        let mut buffer = std::mem::take(&mut self.buffer);
        self.close_with(&mut buffer)
    }

    /// As [`Self::close`], with whole records that the disk did not take yet.
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

    /// Ends the threads; answers how many files they left.
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
    /// Writes what there is. The present file stays as it is for the next collector to continue.
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
        let pool = Pool::start(options.workers).map_err(refused)?;
        let compression = options.compression;
        let common = Arc::clone(shared);
        let work = move || finish::run(&common, compression, &pool, &sealed);
        let thread = thread::Builder::new().name("finish".to_owned()).spawn(work);
        let sync = move || {
            for file in files.iter().flatten() {
                // A failure shows again when the file is finished, and is stated there.
                let _ = file.sync_all();
            }
        };
        let syncer = thread::Builder::new().name("sync".to_owned()).spawn(sync);
        Ok(Self { queue, thread: thread.map_err(refused)?, syncer: syncer.map_err(refused)? })
    }
}

/// Makes sure that nobody else writes here, for as long as the file is open.
fn lock_folder(folder: &Path) -> Result<File> {
    let path = folder.join(".lock");
    let file = File::create(&path).map_err(|e| Error::file("open", &path, e))?;
    match rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(file),
        Err(rustix::io::Errno::WOULDBLOCK) => Err(Error::Locked(folder.to_owned())),
        Err(e) => Err(Error::file("lock", &path, e.into())),
    }
}

/// Hands a complete file to the thread that finishes it; waits only if too many wait already.
fn hand_over(queue: &SyncSender<Sealed>, shared: &Shared, sealed: Sealed) -> Option<Duration> {
    shared.waiting.fetch_add(1, Ordering::Relaxed);
    match queue.try_send(sealed) {
        Err(TrySendError::Full(sealed)) => {
            let begin = Instant::now();
            let _ = queue.send(sealed);
            Some(begin.elapsed())
        }
        Ok(()) | Err(TrySendError::Disconnected(_)) => None,
    }
}

#[cfg(test)]
mod tests;
