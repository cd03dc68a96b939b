//! Files beside the archive, besides its lists: the integrity account and the session parameters. A
//! separate thread writes them, so that packets are not delayed.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};

use collector::integrity::Finished;
use collector::session::Learned;
use serde_json::Value;

use super::learned::{self, Line};
use crate::archive::{Ledger, lock, remove};
use crate::{Error, Result};

/// Past hours of the account, one per line, beside the archive's files.
pub(crate) const ACCOUNT: &str = "INTEGRITY";
/// Current hours; the next collector takes them over after a kill.
pub(crate) const CURRENT: &str = "INTEGRITY.now";

/// Length of [`ACCOUNT`] without the hours of [`CURRENT`], in each line, so that a kill between the
/// two writes repeats no hour.
const FLUSHED_LENGTH_KEY: &str = "behind";

/// Maximum number of hours held while the disk accepts no writes.
const MAX_PENDING_HOURS: usize = 65_536;

#[derive(Debug, Default)]
pub(super) struct Snapshot {
    pub(super) over: Vec<Finished>,
    pub(super) current: Vec<Finished>,
    pub(super) learned: Vec<Learned>,
    /// Names of mirrors by number.
    pub(super) mirrors: Vec<String>,
    /// Whether the collector ends, so that the hours of `current` are past as well.
    pub(super) last: bool,
}

#[derive(Debug)]
pub(super) struct Retention {
    snapshot: SyncSender<Snapshot>,
    busy: Arc<AtomicBool>,
    failures: Arc<Mutex<Vec<Error>>>,
    thread: JoinHandle<()>,
}

impl Retention {
    /// Takes over the files of a killed collector in `folder`, and starts the thread. `known` has
    /// the earlier session parameters.
    pub(super) fn start(folder: &Path, known: Arc<[Line]>) -> Result<Self> {
        let mut account = Ledger::open(folder.join(ACCOUNT))?;
        inherit(&mut account, &folder.join(CURRENT))?;
        let (sender, snapshot) = sync_channel(1);
        let busy = Arc::new(AtomicBool::new(false));
        let failures = Arc::new(Mutex::new(Vec::new()));
        let files = Files { folder: folder.to_owned(), account, known, waiting: Vec::new() };
        let (done, failed) = (Arc::clone(&busy), Arc::clone(&failures));
        let work = move || run(files, &snapshot, &done, &failed);
        let thread = thread::Builder::new().name("keep".to_owned()).spawn(work);
        let thread = thread.map_err(|e| Error::file("start a thread for", folder, e))?;
        Ok(Self { snapshot: sender, busy, failures, thread })
    }

    pub(super) fn is_free(&self) -> bool {
        !self.busy.load(Ordering::Acquire)
    }

    /// Queues a save; blocks unless [`Self::is_free`].
    pub(super) fn keep(&self, snapshot: Snapshot) {
        self.busy.store(true, Ordering::Release);
        // The panic of the thread has been reported.
        let _ = self.snapshot.send(snapshot);
    }

    pub(super) fn failures(&self) -> Vec<Error> {
        std::mem::take(&mut *lock(&self.failures))
    }

    /// Waits for all saves; returns the errors.
    pub(super) fn finish(self) -> Vec<Error> {
        let Self { snapshot, failures, thread, .. } = self;
        drop(snapshot);
        let _ = thread.join();
        std::mem::take(&mut *lock(&failures))
    }
}

fn run(
    mut files: Files,
    snapshot: &Receiver<Snapshot>,
    busy: &AtomicBool,
    failures: &Mutex<Vec<Error>>,
) {
    for snapshot in snapshot {
        let sessions = files.keep_sessions(&snapshot);
        let account = files.keep_account(snapshot);
        let failed = [sessions, account].into_iter().filter_map(Result::err);
        lock(failures).extend(failed);
        busy.store(false, Ordering::Release);
    }
}

struct Files {
    folder: PathBuf,
    account: Ledger,
    known: Arc<[Line]>,
    /// Past hours that could not be written.
    waiting: Vec<Finished>,
}

impl Files {
    fn keep_sessions(&self, snapshot: &Snapshot) -> Result<()> {
        if snapshot.mirrors.is_empty() {
            return Ok(());
        }
        let text = learned::text(&self.known, &snapshot.learned, &snapshot.mirrors);
        replace(&self.folder.join(learned::SESSIONS), text.as_bytes())
    }

    fn keep_account(&mut self, mut snapshot: Snapshot) -> Result<()> {
        self.waiting.append(&mut snapshot.over);
        if snapshot.last {
            self.waiting.append(&mut snapshot.current);
        }
        let lines: Vec<Value> = self.waiting.iter().map(Finished::json).collect();
        let appended = if lines.is_empty() { Ok(()) } else { self.account.append_all(&lines) };
        if appended.is_ok() {
            self.waiting.clear();
        }
        let behind = self.account.length()?;
        let mut text = Vec::new();
        for hour in self.waiting.iter().chain(&snapshot.current) {
            let mut line = hour.json();
            line[FLUSHED_LENGTH_KEY] = behind.into();
            text.extend_from_slice(line.to_string().as_bytes());
            text.push(b'\n');
        }
        self.waiting.drain(..self.waiting.len().saturating_sub(MAX_PENDING_HOURS));
        let current = self.folder.join(CURRENT);
        let replaced = if text.is_empty() { remove(&current) } else { replace(&current, &text) };
        appended.and(replaced)
    }
}

/// Hours that were current when a collector was killed are past now. Repeatable after another kill.
fn inherit(account: &mut Ledger, current: &Path) -> Result<()> {
    let text = match fs::read_to_string(current) {
        Ok(text) => text,
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(e) => return Err(Error::file("read", current, e)),
    };
    let mut lines: Vec<Value> =
        text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
    let mut behind = None;
    for line in lines.iter_mut().filter_map(Value::as_object_mut) {
        behind = line.remove(FLUSHED_LENGTH_KEY).as_ref().and_then(Value::as_u64).or(behind);
    }
    if let Some(behind) = behind
        && behind < account.length()?
    {
        account.cut(behind)?;
    }
    account.append_all(&lines)?;
    remove(current)
}

/// Replaces a file atomically.
fn replace(path: &Path, text: &[u8]) -> Result<()> {
    let mut partial = path.as_os_str().to_owned();
    partial.push(".part");
    let work = || {
        let mut file = File::create(&partial)?;
        file.write_all(text)?;
        file.sync_data()?;
        fs::rename(&partial, path)
    };
    work().map_err(|e| Error::file("write", path, e))
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use base::Time;
    use bgp::Asn;
    use collector::integrity::{Integrity, Settings};
    use collector::{Event, MirrorId, Peering, PeeringId, Reason, Sink, State};

    use super::*;

    fn hour(number: u64) -> Finished {
        let peering = Peering {
            peer_as: Asn(65001),
            local_as: Asn(65000),
            certain: true,
            ..Peering::new(
                PeeringId(0),
                MirrorId(0),
                Ipv4Addr::new(10, 0, 0, 1).into(),
                Ipv4Addr::new(10, 0, 0, 2).into(),
            )
        };
        let mut integrity = Integrity::new(Settings::default());
        let time = Time::from_nanos(number * 3_600_000_000_000);
        let (old, new, reason) = (State::Idle, State::Established, Reason::Seen);
        integrity.event(&peering, &Event::State { time, old, new, reason });
        let (peering, hour, seen) = integrity.hours().next().unwrap();
        Finished { peering: *peering, hour, seen: seen.clone() }
    }

    fn snapshot(over: &[u64], current: &[u64], last: bool) -> Snapshot {
        let hours = |of: &[u64]| of.iter().map(|number| hour(*number)).collect();
        Snapshot { over: hours(over), current: hours(current), last, ..Snapshot::default() }
    }

    fn hours(folder: &Path) -> Vec<String> {
        let text = fs::read_to_string(folder.join(ACCOUNT)).unwrap();
        let hour = |line: &str| serde_json::from_str::<Value>(line).unwrap()["hour"].to_string();
        text.lines().map(hour).collect()
    }

    fn start(folder: &Path) -> Retention {
        Retention::start(folder, Arc::new([])).unwrap()
    }

    fn keep(retention: &Retention, snapshot: Snapshot) {
        retention.keep(snapshot);
        while !retention.is_free() {
            thread::yield_now();
        }
    }

    #[test]
    fn keeps_each_hour_once_after_kill() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path();
        let retention = start(path);
        keep(&retention, snapshot(&[1], &[2, 3], false));
        let before = fs::read(path.join(CURRENT)).unwrap();
        keep(&retention, snapshot(&[2], &[3], false));
        drop(retention.finish());
        // Killed after hour 2 was appended, and before it was removed from the current ones.
        fs::write(path.join(CURRENT), &before).unwrap();
        drop(start(path).finish());
        let all = hours(path);
        assert_eq!(all.len(), 3, "{all:?}");
        // Killed after these were taken over, and before the file was removed.
        fs::write(path.join(CURRENT), &before).unwrap();
        let retention = start(path);
        assert_eq!(hours(path), all);
        keep(&retention, snapshot(&[], &[4], true));
        assert!(retention.finish().is_empty());
        assert_eq!(hours(path).len(), 4);
        assert!(!path.join(CURRENT).exists());
    }

    #[test]
    fn retries_hours_after_failed_writes() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path();
        let account = Ledger::open("/dev/full".into()).unwrap();
        let known: Arc<[Line]> = Arc::new([]);
        let mut files = Files { folder: path.to_owned(), account, known, waiting: Vec::new() };
        assert!(files.keep_account(snapshot(&[1], &[2], false)).is_err());
        files.account = Ledger::open(path.join(ACCOUNT)).unwrap();
        files.keep_account(snapshot(&[2], &[3], true)).unwrap();
        assert_eq!(hours(path).len(), 3);
    }
}
