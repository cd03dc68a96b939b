//! What is kept beside the archive, besides its lists: the account of integrity, and what was
//! learned about sessions. A thread of its own writes it, so that packets never wait for that.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};

use collector::integrity::Finished;
use collector::session::Learned;
use serde_json::Value;

use super::learned::{self, Line};
use crate::archive::Ledger;
use crate::{Error, Result};

/// Hours of the account that are over, a line each, beside the archive's files.
pub(crate) const ACCOUNT: &str = "INTEGRITY";
/// The hours that are not over; taken over by the next collector if this one is killed.
pub(crate) const CURRENT: &str = "INTEGRITY.now";

/// How long [`ACCOUNT`] is without the hours of [`CURRENT`], in each line of this: a collector
/// that is killed between changing the one and the other leaves no hour twice.
const BEHIND: &str = "behind";

/// Hours that wait for a disk that takes nothing.
const WAITING: usize = 65_536;

/// What is to be kept now.
#[derive(Debug, Default)]
pub(super) struct News {
    /// Hours that are over for good.
    pub(super) over: Vec<Finished>,
    /// Hours that are not.
    pub(super) current: Vec<Finished>,
    /// What is known of sessions.
    pub(super) learned: Vec<Learned>,
    /// Streams of clones by number, as they are shown to people.
    pub(super) mirrors: Vec<String>,
    /// All hours are over: nothing more comes.
    pub(super) last: bool,
}

/// The thread that writes.
#[derive(Debug)]
pub(super) struct Keeper {
    news: SyncSender<News>,
    busy: Arc<AtomicBool>,
    failures: Arc<Mutex<Vec<Error>>>,
    thread: JoinHandle<()>,
}

impl Keeper {
    /// Takes over what a collector that was killed left in `folder`, and begins. `known` is what
    /// was known of sessions.
    ///
    /// # Errors
    /// If files cannot be read or written, or there is no thread to be had.
    pub(super) fn start(folder: &Path, known: Arc<[Line]>) -> Result<Self> {
        let mut account = Ledger::open(folder.join(ACCOUNT))?;
        inherit(&mut account, &folder.join(CURRENT))?;
        let (sender, news) = sync_channel(1);
        let busy = Arc::new(AtomicBool::new(false));
        let failures = Arc::new(Mutex::new(Vec::new()));
        let files = Files { folder: folder.to_owned(), account, known, waiting: Vec::new() };
        let (done, failed) = (Arc::clone(&busy), Arc::clone(&failures));
        let work = move || run(files, &news, &done, &failed);
        let thread = thread::Builder::new().name("keep".to_owned()).spawn(work);
        let thread = thread.map_err(|e| Error::file("start a thread for", folder, e))?;
        Ok(Self { news: sender, busy, failures, thread })
    }

    /// Whether all that was given is written.
    pub(super) fn is_free(&self) -> bool {
        !self.busy.load(Ordering::Acquire)
    }

    /// Has it written; waits only if [`Self::is_free`] is not so.
    pub(super) fn keep(&self, news: News) {
        self.busy.store(true, Ordering::Release);
        // A thread that panicked has said so.
        let _ = self.news.send(news);
    }

    /// What went wrong since the last time.
    pub(super) fn failures(&self) -> Vec<Error> {
        std::mem::take(&mut *self.failures.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Waits until all is written; answers what went wrong.
    pub(super) fn finish(self) -> Vec<Error> {
        let Self { news, failures, thread, .. } = self;
        drop(news);
        let _ = thread.join();
        std::mem::take(&mut *failures.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

fn run(mut files: Files, news: &Receiver<News>, busy: &AtomicBool, failures: &Mutex<Vec<Error>>) {
    for news in news {
        let sessions = files.keep_sessions(&news);
        let account = files.keep_account(news);
        let failed = [sessions, account].into_iter().filter_map(Result::err);
        failures.lock().unwrap_or_else(PoisonError::into_inner).extend(failed);
        busy.store(false, Ordering::Release);
    }
}

struct Files {
    folder: PathBuf,
    account: Ledger,
    known: Arc<[Line]>,
    /// Hours that are over and that the disk did not take.
    waiting: Vec<Finished>,
}

impl Files {
    fn keep_sessions(&self, news: &News) -> Result<()> {
        if news.mirrors.is_empty() {
            return Ok(());
        }
        let text = learned::text(&self.known, &news.learned, &news.mirrors);
        replace(&self.folder.join(learned::SESSIONS), text.as_bytes())
    }

    fn keep_account(&mut self, mut news: News) -> Result<()> {
        self.waiting.append(&mut news.over);
        if news.last {
            self.waiting.append(&mut news.current);
        }
        let lines: Vec<Value> = self.waiting.iter().map(Finished::json).collect();
        let appended = if lines.is_empty() { Ok(()) } else { self.account.append_all(&lines) };
        if appended.is_ok() {
            self.waiting.clear();
        }
        let behind = self.account.length()?;
        let mut text = Vec::new();
        for hour in self.waiting.iter().chain(&news.current) {
            let mut line = hour.json();
            line[BEHIND] = behind.into();
            text.extend_from_slice(line.to_string().as_bytes());
            text.push(b'\n');
        }
        self.waiting.drain(..self.waiting.len().saturating_sub(WAITING));
        let current = self.folder.join(CURRENT);
        let replaced = if text.is_empty() { remove(&current) } else { replace(&current, &text) };
        appended.and(replaced)
    }
}

/// Hours that were not over when a collector was killed are over now. May be repeated after
/// another kill.
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
        behind = line.remove(BEHIND).as_ref().and_then(Value::as_u64).or(behind);
    }
    if let Some(behind) = behind
        && behind < account.length()?
    {
        account.cut(behind)?;
    }
    account.append_all(&lines)?;
    remove(current)
}

/// Writes a file so that there is always the old or the new one.
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

fn remove(path: &Path) -> Result<()> {
    match fs::remove_file(path) {
        Err(e) if e.kind() != io::ErrorKind::NotFound => Err(Error::file("remove", path, e)),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use base::Time;
    use bgp::{Asn, Negotiated};
    use collector::integrity::{Integrity, Settings};
    use collector::{Event, MirrorId, Peering, PeeringId, Reason, Sink, State};

    use super::*;

    /// An hour of a peering.
    fn hour(number: u64) -> Finished {
        let peering = Peering {
            id: PeeringId(0),
            mirror: MirrorId(0),
            peer: Ipv4Addr::new(10, 0, 0, 1).into(),
            peer_as: Asn(65001),
            peer_id: 0,
            local: Ipv4Addr::new(10, 0, 0, 2).into(),
            local_as: Asn(65000),
            local_id: 0,
            from_peer: Negotiated::default(),
            from_local: Negotiated::default(),
            certain: true,
            session: 0,
        };
        let mut integrity = Integrity::new(Settings::default());
        let time = Time::from_nanos(number * 3_600_000_000_000);
        let (old, new, reason) = (State::Idle, State::Established, Reason::Seen);
        integrity.event(&peering, &Event::State { time, old, new, reason });
        let (peering, hour, seen) = integrity.hours().next().unwrap();
        Finished { peering: *peering, hour, seen: seen.clone() }
    }

    fn news(over: &[u64], current: &[u64], last: bool) -> News {
        let hours = |of: &[u64]| of.iter().map(|number| hour(*number)).collect();
        News { over: hours(over), current: hours(current), last, ..News::default() }
    }

    fn hours(folder: &Path) -> Vec<String> {
        let text = fs::read_to_string(folder.join(ACCOUNT)).unwrap();
        let hour = |line: &str| serde_json::from_str::<Value>(line).unwrap()["hour"].to_string();
        text.lines().map(hour).collect()
    }

    fn start(folder: &Path) -> Keeper {
        Keeper::start(folder, Arc::new([])).unwrap()
    }

    fn keep(keeper: &Keeper, news: News) {
        keeper.keep(news);
        while !keeper.is_free() {
            thread::yield_now();
        }
    }

    #[test]
    fn no_hour_is_kept_twice_whenever_the_collector_is_killed() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path();
        let keeper = start(path);
        keep(&keeper, news(&[1], &[2, 3], false));
        let before = fs::read(path.join(CURRENT)).unwrap();
        keep(&keeper, news(&[2], &[3], false));
        drop(keeper.finish());
        // Killed when hour 2 was appended, and before it was no longer current.
        fs::write(path.join(CURRENT), &before).unwrap();
        drop(start(path).finish());
        let all = hours(path);
        assert_eq!(all.len(), 3, "{all:?}");
        // Killed when these were taken over, and before the file was removed.
        fs::write(path.join(CURRENT), &before).unwrap();
        let keeper = start(path);
        assert_eq!(hours(path), all);
        keep(&keeper, news(&[], &[4], true));
        assert!(keeper.finish().is_empty());
        assert_eq!(hours(path).len(), 4);
        assert!(!path.join(CURRENT).exists());
    }

    #[test]
    fn hours_wait_for_a_disk_that_takes_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path();
        let account = Ledger::open("/dev/full".into()).unwrap();
        let known: Arc<[Line]> = Arc::new([]);
        let mut files = Files { folder: path.to_owned(), account, known, waiting: Vec::new() };
        assert!(files.keep_account(news(&[1], &[2], false)).is_err());
        files.account = Ledger::open(path.join(ACCOUNT)).unwrap();
        files.keep_account(news(&[2], &[3], true)).unwrap();
        assert_eq!(hours(path).len(), 3);
    }
}
