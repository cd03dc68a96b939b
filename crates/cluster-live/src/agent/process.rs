//! The process of a piece: started, talked to, and ended.

use std::fs::{self, DirBuilder, File};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::Shutdown;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::DirBuilderExt;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::Sender;
use std::thread;
use std::time::{Duration, Instant};

use cluster::control::{FromPiece, Setup, ToPiece};
use emu::registry::{Entry, Registry};

use super::Event;
use crate::piece;
use crate::{Error, Result};

/// How long a piece may take to end once nobody listens any more, before it is killed.
const PATIENCE: Duration = Duration::from_secs(10);
/// How much of what a piece wrote last is quoted when it dies.
const TAIL: u64 = 2000;
/// Longest line that a piece says.
const LONGEST: u64 = 4 << 20;

/// A private directory, which is removed with this.
#[derive(Debug)]
pub(super) struct Folder(PathBuf);

impl Folder {
    /// A new one.
    pub(super) fn new(path: PathBuf) -> Result<Self> {
        DirBuilder::new().mode(0o700).create(&path).map_err(Error::file("make", &path))?;
        Ok(Self(path))
    }

    pub(super) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // What cannot be removed now is removed when an agent starts there again.
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// A piece's process.
#[derive(Debug)]
pub(super) struct Process {
    child: Child,
    control: UnixStream,
    log: PathBuf,
}

impl Process {
    /// Starts `program` as a piece that gets `fds` and `setup`; what it says becomes events.
    pub(super) fn start(
        program: &Path,
        folder: &Path,
        setup: &Setup,
        fds: &[OwnedFd; 2],
        events: &Sender<Event>,
    ) -> Result<Self> {
        let failed = || Error::machine("start the lab's process");
        let (control, theirs) = UnixStream::pair().map_err(failed())?;
        let log = folder.join("log");
        let output = File::create(&log).map_err(Error::file("make", &log))?;
        let child = Command::new(program)
            .arg(piece::ARGUMENT)
            .current_dir(folder)
            .stdin(Stdio::from(OwnedFd::from(theirs)))
            .stdout(output.try_clone().map_err(failed())?)
            .stderr(output)
            // The terminal's Ctrl-C is for the agent, which ends its pieces in order.
            .process_group(0)
            .spawn()
            .map_err(failed())?;
        let process = Self { child, control, log };
        process.control.set_write_timeout(Some(Duration::from_secs(5))).map_err(failed())?;
        piece::send(&process.control, [fds[0].as_fd(), fds[1].as_fd()], setup)?;
        process.control.set_write_timeout(Some(Duration::from_secs(1))).map_err(failed())?;
        let (reader, lab, events) =
            (process.control.try_clone().map_err(failed())?, setup.id.clone(), events.clone());
        thread::Builder::new()
            .name("piece".to_owned())
            .spawn(move || listen(&lab, reader, &events))
            .map_err(failed())?;
        Ok(process)
    }

    /// Says something. One that is gone is noticed by whoever listens to it.
    pub(super) fn say(&self, message: &ToPiece) {
        let _ = say(&self.control, message);
    }

    /// It is gone, or about to be: its last words and how it ended become an event.
    pub(super) fn mourn(mut self, lab: String, events: Sender<Event>) {
        let mourn = move || {
            self.reap();
            tidy(self.child.id());
            let _ = events.send(Event::Died(lab, self.last_words()));
        };
        // Without a thread it stays a zombie until the agent ends.
        let _ = thread::Builder::new().name("reaper".to_owned()).spawn(mourn);
    }

    /// Waits for its end, and sees to it.
    fn reap(&mut self) {
        let since = Instant::now();
        while matches!(self.child.try_wait(), Ok(None)) {
            if since.elapsed() > PATIENCE {
                let _ = self.child.kill();
                let _ = self.child.wait();
                break;
            }
            thread::sleep(Duration::from_millis(20));
        }
    }

    fn last_words(&mut self) -> String {
        let status = match self.child.wait() {
            Ok(status) => status.to_string(),
            Err(error) => error.to_string(),
        };
        let words = File::open(&self.log).and_then(|mut log| {
            use std::io::Seek;
            let length = log.seek(std::io::SeekFrom::End(0))?;
            log.seek(std::io::SeekFrom::Start(length.saturating_sub(TAIL)))?;
            let mut bytes = Vec::new();
            log.take(TAIL).read_to_end(&mut bytes)?;
            Ok(String::from_utf8_lossy(&bytes).trim().to_owned())
        });
        match words {
            Ok(words) if !words.is_empty() => format!("{status}: {words}"),
            _ => status,
        }
    }

    /// Ends it: in order where it listens, else by force. Its folder goes with it.
    pub(super) fn end(mut self, folder: Option<Folder>) {
        let _ = self.control.shutdown(Shutdown::Both);
        let reap = move || {
            self.reap();
            tidy(self.child.id());
            drop(folder);
        };
        // Without a thread it is waited for here: nothing may be left of it.
        let _ = thread::Builder::new().name("reaper".to_owned()).spawn(reap);
    }
}

/// Removes what a process that was killed has left in the registry of running labs, once its lab
/// is gone as well.
fn tidy(piece: u32) {
    let Ok(registry) = Registry::open() else { return };
    let since = Instant::now();
    while since.elapsed() < PATIENCE {
        // Whoever lists the labs next does the same.
        let _ = registry.sweep();
        let is_there = |entry: &Entry| entry.supervisor.pid == piece;
        if !registry.list().is_ok_and(|listing| listing.live.iter().any(is_there)) {
            return;
        }
        thread::sleep(Duration::from_millis(50));
    }
}

fn say(mut control: &UnixStream, message: &impl serde::Serialize) -> Result<()> {
    let mut line = crate::session::bytes(message);
    line.push(b'\n');
    control.write_all(&line).map_err(Error::machine("talk to the lab's process"))
}

/// Makes events of what a piece says, until it is gone.
fn listen(lab: &str, control: UnixStream, events: &Sender<Event>) {
    let mut lines = BufReader::new(control);
    loop {
        let mut line = Vec::new();
        match lines.by_ref().take(LONGEST).read_until(b'\n', &mut line) {
            Ok(0) | Err(_) => break,
            Ok(_) => {}
        }
        let Some(said) = crate::session::read::<FromPiece>(&line) else { continue };
        if events.send(Event::Said(lab.to_owned(), said)).is_err() {
            return;
        }
    }
    let _ = events.send(Event::Gone(lab.to_owned()));
}
