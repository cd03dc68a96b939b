//! The file of the current interval, and the handling of records that it cannot accept.

use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Write};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{SyncSender, TrySendError};
use std::time::{Duration, Instant};

use base::{Span, Time};
use rustix::io::Errno;

use super::finish::{Sealed, Shared, finished_path, lock, partial_path, plain_path};
use super::layout::Kind;
use super::ledger::{Loss, micros};
use super::options::{Options, Status};
use super::recovery::Recovery;
use super::scan::{self, Extent};

/// Maximum number of intervals filled with empty files: a week of five minutes. A longer silence is
/// a clock step.
const EMPTY: u64 = 2_016;

/// Maximum step backward of the clock (or the interval, if longer) without a change of files.
const MAX_CLOCK_STEP_BACK: Span = Span::from_secs(3_600);

/// Time without writes after the disk failed.
const PAUSE: Duration = Duration::from_secs(1);

/// Maximum number of losses held while the disk accepts no writes.
const MAX_PENDING_LOSSES: usize = 10_000;

struct Current {
    name: String,
    path: PathBuf,
    file: File,
    extent: Extent,
    /// A partial record follows the whole ones.
    torn: bool,
}

struct Trouble {
    cause: String,
    tried: Instant,
}

struct Unwritten {
    since: Time,
    until: Time,
    records: u64,
    bytes: u64,
    cause: String,
}

pub(super) struct Store {
    pub options: Options,
    pub shared: Arc<Shared>,
    queue: Option<SyncSender<Sealed>>,
    syncer: Option<SyncSender<Vec<File>>>,
    current: Option<Current>,
    sealed: Vec<Sealed>,
    /// The folder has a new name that is not synced.
    new_name: bool,
    start: Time,
    begun: bool,
    /// A file of the previous collector, perhaps of the current interval.
    resume: Option<Sealed>,
    stopped: bool,
    previous: Option<Time>,
    /// Records of the buffer that could not be written at once.
    pending: u64,
    trouble: Option<Trouble>,
    unwritten: Option<Unwritten>,
    unstated: Vec<Loss>,
    unstated_for: Option<Trouble>,
    /// The list of losses is longer than its synced part.
    new_loss: bool,
    status: Status,
}

impl Store {
    pub(super) fn new(
        options: Options,
        shared: Arc<Shared>,
        queue: SyncSender<Sealed>,
        syncer: SyncSender<Vec<File>>,
        mut recovery: Recovery,
    ) -> Self {
        let is_updates = |sealed: &Sealed| sealed.kind == Kind::Updates;
        let resume = recovery.plain.iter().rposition(is_updates);
        let resume = resume.map(|at| recovery.plain.remove(at));
        let mut store = Self {
            options,
            shared,
            queue: Some(queue),
            syncer: Some(syncer),
            current: None,
            sealed: Vec::new(),
            new_name: false,
            start: Time::ZERO,
            begun: false,
            resume,
            stopped: recovery.stopped,
            previous: recovery.last,
            pending: 0,
            trouble: None,
            unwritten: None,
            unstated: Vec::new(),
            unstated_for: None,
            new_loss: false,
            status: Status::default(),
        };
        for sealed in recovery.plain {
            store.hand_over(sealed);
        }
        store
    }

    /// Records from the first time up to, but not including, the second belong to the current file.
    pub(super) fn bounds(&self) -> (Time, Time) {
        let interval = self.options.interval.as_nanos();
        let start = self.start.as_nanos();
        let from = start.saturating_sub(interval.max(MAX_CLOCK_STEP_BACK.as_nanos()));
        (Time::from_nanos(from), Time::from_nanos(start.saturating_add(interval)))
    }

    pub(super) fn status(&self) -> Status {
        let mut status = self.status.clone();
        status.files = self.shared.finished.load(Ordering::Relaxed);
        status.bytes = self.shared.bytes.load(Ordering::Relaxed);
        status.waiting = self.shared.waiting.load(Ordering::Relaxed);
        let own = self.trouble.as_ref().or(self.unstated_for.as_ref());
        let own = own.map(|trouble| trouble.cause.clone());
        status.trouble = own.or_else(|| lock(&self.shared.trouble).clone());
        status
    }

    fn interval_start(&self, time: Time) -> Time {
        Time::from_nanos(time.as_nanos() - time.as_nanos() % self.options.interval.as_nanos())
    }

    /// Changes to the file of the interval of `time`. Records still in `buffer` belong to a past
    /// interval and are lost.
    pub(super) fn turn(&mut self, buffer: &mut Vec<u8>, time: Time, is_record: bool) {
        if !buffer.is_empty() {
            self.write_now(buffer);
        }
        self.give_up(buffer);
        let start = self.interval_start(time);
        if self.begun {
            self.seal();
            self.bridge(start, time);
        } else {
            self.begin(start, time, is_record);
        }
        self.begun = true;
        self.start = start;
        if self.current.is_none() {
            self.open();
        }
        self.release();
    }

    /// Handles the first record: lists the time without a collector as a loss, and continues the
    /// file of the record's interval.
    fn begin(&mut self, start: Time, time: Time, is_record: bool) {
        if let Some(previous) = self.previous
            && time > previous
            && is_record
        {
            let until_us = micros(time);
            let since_us = micros(previous);
            self.state(&[Loss::Down { since_us, until_us, stopped: self.stopped }]);
        }
        let Some(sealed) = self.resume.take() else { return };
        let name = self.options.layout.path(Kind::Updates, start, self.options.interval);
        if !is_part_of(&sealed.name, &name) {
            return self.hand_over(sealed);
        }
        let path = plain_path(&self.shared.folder, &sealed.name, Kind::Updates);
        match OpenOptions::new().append(true).open(&path) {
            Ok(file) => {
                let Sealed { name, extent, .. } = sealed;
                self.current = Some(Current { name, path, file, extent, torn: false });
            }
            Err(_) => self.hand_over(sealed),
        }
    }

    /// Fills the time between the sealed file and the one that starts at `start`.
    fn bridge(&mut self, start: Time, time: Time) {
        let interval = self.options.interval.as_nanos();
        let next = self.start.as_nanos().saturating_add(interval);
        let between = start.as_nanos().saturating_sub(next) / interval;
        if start < self.start || between > EMPTY {
            let since = self.previous.unwrap_or(self.start);
            self.state(&[Loss::ClockStep { since_us: micros(since), until_us: micros(time) }]);
            return;
        }
        for number in 0..between {
            self.start = Time::from_nanos(next + number * interval);
            if !self.open() {
                return;
            }
            self.seal();
        }
    }

    fn open(&mut self) -> bool {
        let name = self.free_name(Kind::Updates, self.start);
        let path = plain_path(&self.shared.folder, &name, Kind::Updates);
        let create = || {
            if let Some(parent) = path.parent() {
                fs::create_dir_all(parent)?;
            }
            OpenOptions::new().append(true).create_new(true).open(&path)
        };
        match create() {
            Ok(file) => {
                let extent = Extent::default();
                self.current = Some(Current { name, path, file, extent, torn: false });
                self.new_name = true;
                true
            }
            Err(cause) => {
                self.trouble(&cause);
                false
            }
        }
    }

    /// An unused name: further parts of an interval are numbered.
    pub(super) fn free_name(&self, kind: Kind, time: Time) -> String {
        let folder = &self.shared.folder;
        // Another thread may rename a file meanwhile: searching in the order of the
        // steps misses none.
        let is_taken = |name: &str| {
            partial_path(folder, name).exists()
                || plain_path(folder, name, kind).exists()
                || finished_path(folder, name).is_some()
        };
        let first = self.options.layout.path(kind, time, self.options.interval);
        if !is_taken(&first) {
            return first;
        }
        let mut parts = (2_u64..).map(|part| format!("{first}-{part}"));
        parts.find(|name| !is_taken(name)).unwrap_or(first)
    }

    /// Seals the current file. [`Self::release`] passes it on when the next one exists: a running
    /// collector always has one, so that a kill is visible.
    fn seal(&mut self) {
        if let Some(Current { name, extent, .. }) = self.current.take() {
            self.sealed.push(Sealed { name, kind: Kind::Updates, extent, mirrors: Vec::new() });
        }
    }

    fn release(&mut self) {
        for sealed in std::mem::take(&mut self.sealed) {
            self.hand_over(sealed);
        }
    }

    /// Passes a complete file to the finishing thread; waits only if too many are queued.
    fn hand_over(&mut self, sealed: Sealed) {
        let Some(queue) = &self.queue else { return };
        self.shared.waiting.fetch_add(1, Ordering::Relaxed);
        if let Err(TrySendError::Full(sealed)) = queue.try_send(sealed) {
            let begin = Instant::now();
            let _ = queue.send(sealed);
            self.status.waits += 1;
            self.status.waited += begin.elapsed();
        }
    }

    /// Writes the records of `buffer`, of which `records` are new and the last is of `last`.
    /// Records that cannot be written stay, up to a limit.
    pub(super) fn write(&mut self, buffer: &mut Vec<u8>, records: u64) {
        self.pending += records;
        let wait = self.trouble.as_ref().is_some_and(|t| t.tried.elapsed() < PAUSE);
        if !wait {
            self.write_now(buffer);
        }
        if buffer.len() > self.options.hold {
            self.give_up(buffer);
        }
    }

    fn write_now(&mut self, buffer: &mut Vec<u8>) {
        // A file that cannot grow is followed by another part.
        for _ in 0..2 {
            if self.current.is_none() && !self.open() {
                return;
            }
            let Some(current) = &mut self.current else { return };
            let before = current.extent.bytes;
            let result = current.append(buffer);
            let taken = current.extent.bytes - before;
            self.account(buffer, taken as usize);
            let Err(cause) = result else {
                self.trouble = None;
                self.release();
                return self.settle();
            };
            let is_full = Errno::from_io_error(&cause) == Some(Errno::FBIG);
            let has_records = self.current.as_ref().is_some_and(|c| c.extent.records > 0);
            self.trouble(&cause);
            if !is_full || !has_records {
                return;
            }
            self.seal();
        }
    }

    /// Accounts for the first `taken` bytes of `buffer`, which were written.
    fn account(&mut self, buffer: &mut Vec<u8>, taken: usize) {
        let all = taken == buffer.len();
        let records = if all { self.pending } else { scan::whole(&buffer[..taken]).records };
        self.status.records += records;
        self.status.content += taken as u64;
        self.pending -= records.min(self.pending);
        if let Some(last) = self.current.as_ref().and_then(|current| current.extent.last) {
            self.previous = Some(self.previous.map_or(last, |previous| previous.max(last)));
        }
        buffer.drain(..taken);
    }

    fn trouble(&mut self, cause: &io::Error) {
        self.trouble = Some(Trouble { cause: cause.to_string(), tried: Instant::now() });
    }

    fn give_up(&mut self, buffer: &mut Vec<u8>) {
        if buffer.is_empty() {
            return;
        }
        let extent = scan::whole(buffer);
        let (Some(first), Some(last)) = (extent.first, extent.last) else {
            buffer.clear();
            return;
        };
        let since = self.previous.unwrap_or(first).min(first);
        let cause = self.trouble.as_ref().map(|t| t.cause.clone()).unwrap_or_default();
        let unwritten = self.unwritten.get_or_insert(Unwritten {
            since,
            until: last,
            records: 0,
            bytes: 0,
            cause,
        });
        unwritten.until = unwritten.until.max(last);
        unwritten.records += extent.records;
        unwritten.bytes += buffer.len() as u64;
        self.status.lost += extent.records;
        self.pending = 0;
        buffer.clear();
    }

    /// States the losses in the meantime, when the disk accepts records again.
    fn settle(&mut self) {
        if !self.unstated.is_empty() {
            self.state(&[]);
        }
        let Some(unwritten) = self.unwritten.take() else { return };
        self.state(&[Loss::NotWritten {
            since_us: micros(unwritten.since),
            until_us: micros(unwritten.until),
            records: unwritten.records,
            bytes: unwritten.bytes,
            cause: unwritten.cause,
        }]);
    }

    /// States losses. They are synced with the next records.
    pub(super) fn state(&mut self, losses: &[Loss]) {
        let room = MAX_PENDING_LOSSES.saturating_sub(self.unstated.len());
        self.unstated.extend_from_slice(&losses[..losses.len().min(room)]);
        if self.unstated_for.as_ref().is_some_and(|t| t.tried.elapsed() < PAUSE) {
            return;
        }
        match lock(&self.shared.gaps).write(&self.unstated) {
            Ok(()) => {
                self.unstated.clear();
                (self.unstated_for, self.new_loss) = (None, true);
            }
            // Retried with later records or losses.
            Err(error) => {
                let (cause, tried) = (error.to_string(), Instant::now());
                self.unstated_for = Some(Trouble { cause, tried });
            }
        }
    }

    /// States losses one by one, because no retry follows and a full disk may have space for some.
    /// Lost records come first.
    fn state_singly(&mut self) {
        let is_record = |loss: &Loss| matches!(loss, Loss::NotWritten { .. });
        self.unstated.sort_by_key(|loss| !is_record(loss));
        let mut gaps = lock(&self.shared.gaps);
        let stated =
            self.unstated.iter().take_while(|loss| gaps.write(std::slice::from_ref(*loss)).is_ok());
        let stated = stated.count();
        self.unstated.drain(..stated);
        if self.unstated.is_empty() {
            self.unstated_for = None;
        }
    }

    /// Lets another thread sync the written data.
    pub(super) fn sync(&mut self) {
        let (Some(current), Some(syncer)) = (&self.current, &self.syncer) else { return };
        let folder = current.path.parent().filter(|_| self.new_name);
        let folder = folder.and_then(|folder| File::open(folder).ok());
        let gaps = self.new_loss.then(|| lock(&self.shared.gaps).file().ok()).flatten();
        let files = current.file.try_clone().into_iter().chain(folder).chain(gaps).collect();
        // If it is busy, the next sync includes this one.
        if syncer.try_send(files).is_ok() {
            (self.new_name, self.new_loss) = (false, false);
        }
    }

    /// Writes the rest and passes all files to the finishing thread.
    pub(super) fn close(&mut self, buffer: &mut Vec<u8>) {
        if !buffer.is_empty() {
            self.write_now(buffer);
        }
        self.give_up(buffer);
        self.unstated_for = None;
        self.settle();
        self.state_singly();
        // A failed sync is reported when the files are finished.
        let _ = lock(&self.shared.gaps).sync();
        self.seal();
        self.release();
        if let Some(sealed) = self.resume.take() {
            self.hand_over(sealed);
        }
    }

    pub(super) fn hang_up(&mut self) {
        self.queue = None;
        self.syncer = None;
    }
}

impl Current {
    /// Appends as many whole records of `buffer` as the disk accepts.
    fn append(&mut self, buffer: &[u8]) -> io::Result<()> {
        if self.torn {
            self.file.set_len(self.extent.bytes)?;
            self.torn = false;
        }
        let mut written = 0;
        let result = loop {
            match self.file.write(&buffer[written..]) {
                Ok(0) if written < buffer.len() => break Err(ErrorKind::WriteZero.into()),
                Ok(count) => written += count,
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(e) => break Err(e),
            }
            if written == buffer.len() {
                break Ok(());
            }
        };
        let taken = scan::whole(&buffer[..written]);
        self.extent.append(taken);
        if taken.bytes < written as u64 {
            self.torn = true;
            if self.file.set_len(self.extent.bytes).is_ok() {
                self.torn = false;
            }
        }
        result
    }
}

/// Whether `name` is `first` or one of its further parts.
fn is_part_of(name: &str, first: &str) -> bool {
    match name.strip_prefix(first) {
        Some("") => true,
        Some(rest) => rest.strip_prefix('-').is_some_and(|n| n.parse::<u64>().is_ok()),
        None => false,
    }
}
