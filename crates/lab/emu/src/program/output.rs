//! Programs' output: from pipes to files, up to a limit for each program.
//!
//! One thread copies the output of all programs. Output beyond a program's limit is read and
//! discarded, so that it neither blocks the program nor fills the disk.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, PipeReader, PipeWriter, Read as _, Write as _};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};
use rustix::io::Errno;

use crate::{Error, Result};

/// The epoll key of the pipe that ends the thread.
const END_KEY: u64 = u64::MAX;
/// Bytes copied at a time: the capacity of a pipe.
const PIPE_BYTES: usize = 64 << 10;
/// Maximum events per wait.
const MAX_EVENTS: usize = 64;

/// Copies the output of programs to files.
#[derive(Debug)]
pub(super) struct Collector {
    shared: Arc<Shared>,
    /// Closed to end the thread.
    end: Option<PipeWriter>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug)]
struct Shared {
    epoll: OwnedFd,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    accounts: Vec<Account>,
    streams: BTreeMap<u64, Stream>,
    next_key: u64,
    buffer: Vec<u8>,
}

/// The output counters of one program, over all its starts.
#[derive(Debug)]
struct Account {
    remaining: u64,
    discarded: u64,
    error: Option<run::Error>,
}

#[derive(Debug)]
struct Stream {
    program: usize,
    pipe: PipeReader,
    file: File,
    path: PathBuf,
}

#[derive(Debug)]
pub(super) struct Opened {
    /// Writing end for the program.
    pub(super) pipe: PipeWriter,
    /// Key for [`Collector::finish`].
    pub(super) key: u64,
    /// Previous length of the file.
    pub(super) length: u64,
}

#[derive(PartialEq, Eq)]
enum Copied {
    Some,
    NothingNow,
    All,
}

impl Collector {
    /// Starts the thread for programs with these output limits in bytes.
    pub(super) fn start(limits: impl Iterator<Item = u64>) -> Result<Self> {
        let failed = |call| move |cause| Error::Kernel(sys::Error::Call { call, cause });
        let epoll = epoll::create(CreateFlags::CLOEXEC);
        let epoll = epoll.map_err(|errno| failed("epoll_create1")(errno.into()))?;
        let (reader, end) = io::pipe().map_err(failed("pipe"))?;
        epoll::add(&epoll, &reader, EventData::new_u64(END_KEY), EventFlags::IN)
            .map_err(|errno| failed("epoll_ctl")(errno.into()))?;
        let account = |remaining| Account { remaining, discarded: 0, error: None };
        let state = State {
            accounts: limits.map(account).collect(),
            streams: BTreeMap::new(),
            next_key: 0,
            buffer: vec![0; PIPE_BYTES],
        };
        let shared = Arc::new(Shared { epoll, state: Mutex::new(state) });
        let theirs = Arc::clone(&shared);
        let thread = std::thread::Builder::new()
            .name("output".to_owned())
            .spawn(move || theirs.copy_until_end(&reader))
            .map_err(failed("clone"))?;
        Ok(Self { shared, end: Some(end), thread: Some(thread) })
    }

    /// Opens a stream whose data is appended to a file.
    pub(super) fn open(&self, program: usize, path: &Path) -> Result<Opened> {
        let failed = |cause| Error::Record(run::Error::io("open", path, cause));
        self.append_to(program, path, run::files::append(path).map_err(failed)?)
    }

    fn append_to(&self, program: usize, path: &Path, file: File) -> Result<Opened> {
        let failed = |cause| Error::Record(run::Error::io("open", path, cause));
        let length = file.metadata().map_err(failed)?.len();
        let (reader, pipe) = io::pipe().map_err(failed)?;
        rustix::io::ioctl_fionbio(&reader, true).map_err(|errno| failed(errno.into()))?;
        let mut state = self.shared.state();
        let key = state.next_key;
        epoll::add(&self.shared.epoll, &reader, EventData::new_u64(key), EventFlags::IN)
            .map_err(|errno| failed(errno.into()))?;
        state.next_key += 1;
        let stream = Stream { program, pipe: reader, file, path: path.to_owned() };
        state.streams.insert(key, stream);
        Ok(Opened { pipe, key, length })
    }

    /// Copies the rest of a stream whose program has ended, and closes it.
    pub(super) fn finish(&self, key: u64) {
        let mut state = self.shared.state();
        while state.copy(key) == Copied::Some {}
        state.streams.remove(&key);
    }

    /// Bytes of a program's output beyond its limit.
    pub(super) fn discarded(&self, program: usize) -> u64 {
        self.shared.state().accounts[program].discarded
    }

    /// Takes the error that stopped the output of a program.
    pub(super) fn take_error(&self, program: usize) -> Option<run::Error> {
        self.shared.state().accounts[program].error.take()
    }
}

impl Drop for Collector {
    fn drop(&mut self) {
        self.end.take();
        // A thread that panicked has no result.
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The main function of the thread. `_end` is open as long as it runs.
    fn copy_until_end(&self, _end: &PipeReader) {
        let mut events = Vec::with_capacity(MAX_EVENTS);
        loop {
            events.clear();
            match epoll::wait(&self.epoll, rustix::buffer::spare_capacity(&mut events), None) {
                Ok(_) | Err(Errno::INTR) => {}
                Err(_) => return,
            }
            for event in &events {
                match event.data.u64() {
                    END_KEY => return,
                    key => {
                        self.state().copy(key);
                    }
                }
            }
        }
    }
}

impl State {
    /// Copies the content of a pipe, at most [`PIPE_BYTES`]; removes a stream that has ended.
    fn copy(&mut self, key: u64) -> Copied {
        let Some(stream) = self.streams.get_mut(&key) else { return Copied::All };
        let length = match stream.pipe.read(&mut self.buffer) {
            Ok(0) => {
                self.streams.remove(&key);
                return Copied::All;
            }
            Ok(length) => length,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => return Copied::Some,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Copied::NothingNow,
            Err(error) => {
                let error = run::Error::io("read the output for", &stream.path, error);
                self.accounts[stream.program].error.get_or_insert(error);
                self.streams.remove(&key);
                return Copied::All;
            }
        };
        let account = &mut self.accounts[stream.program];
        let kept = account.remaining.min(length as u64) as usize;
        account.remaining -= kept as u64;
        account.discarded += (length - kept) as u64;
        if let Err(error) = stream.file.write_all(&self.buffer[..kept]) {
            account.remaining = 0;
            account.error = Some(run::Error::io("write", &stream.path, error));
        }
        Copied::Some
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn output_beyond_the_limit_is_discarded_and_counted() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("stdout");
        let collector = Collector::start([100_000].into_iter()).unwrap();
        for round in 0..2 {
            let mut opened = collector.open(0, &path).unwrap();
            assert_eq!(opened.length, round * 70_000);
            opened.pipe.write_all(&vec![b'x'; 70_000]).unwrap();
            drop(opened.pipe);
            collector.finish(opened.key);
        }
        assert_eq!(std::fs::metadata(&path).unwrap().len(), 100_000);
        assert_eq!(collector.discarded(0), 40_000);
        assert!(collector.take_error(0).is_none());
    }

    #[test]
    fn full_disk_is_reported_and_does_not_stop_the_program() {
        let collector = Collector::start([u64::MAX].into_iter()).unwrap();
        let path = Path::new("/dev/full");
        let full = File::options().append(true).open(path).unwrap();
        let mut opened = collector.append_to(0, path, full).unwrap();
        opened.pipe.write_all(&vec![b'x'; 1_000_000]).unwrap();
        drop(opened.pipe);
        collector.finish(opened.key);
        let error = collector.take_error(0).unwrap();
        assert!(matches!(error, run::Error::DiskFull { .. }), "{error}");
        assert!(collector.take_error(0).is_none());
    }
}
