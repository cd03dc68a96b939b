//! The process of a shard, and its control connection.

use std::fs::{self, DirBuilder};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::Shutdown;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::DirBuilderExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::thread;
use std::time::{Duration, Instant};

use cluster::control::{FromShard, Setup, ToShard};
use emu::registry::{Entry, Registry};
use run::supervisor::{spawn_with_control, wait_or_kill};

use crate::shard;
use crate::{Error, Result};

/// Time for a shard to end after its control socket was closed; then it is killed.
const END_TIMEOUT: Duration = Duration::from_secs(10);
/// Max bytes of a dead shard's output in the error message.
const MAX_QUOTE_BYTES: u64 = 2000;
const MAX_MESSAGE_BYTES: u64 = 4 << 20;

/// A private folder, which is deleted when this is dropped.
#[derive(Debug)]
pub(super) struct Folder(PathBuf);

impl Folder {
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
        // After an error, the next agent with this folder deletes it.
        let _ = fs::remove_dir_all(&self.0);
    }
}

#[derive(Debug)]
pub(super) struct Process {
    child: Child,
    control: UnixStream,
    log: PathBuf,
}

impl Process {
    /// Starts `program` as a shard with `fds` and `setup`. `receive` gets its messages, and `None`
    /// once the connection is closed; it returns false to receive no more.
    pub(super) fn start(
        program: &Path,
        folder: &Path,
        setup: &Setup,
        fds: &[OwnedFd; 2],
        receive: impl FnMut(Option<FromShard>) -> bool + Send + 'static,
    ) -> Result<Self> {
        let failed = || Error::machine("start the lab's process");
        let log = folder.join("log");
        let output = run::files::create_new(&log).map_err(Error::file("make", &log))?;
        let mut command = Command::new(program);
        command.arg(shard::ARGUMENT).current_dir(folder);
        command.stdout(output.try_clone().map_err(failed())?).stderr(output);
        let (child, control) = spawn_with_control(&mut command).map_err(failed())?;
        let process = Self { child, control, log };
        process.control.set_write_timeout(Some(Duration::from_secs(5))).map_err(failed())?;
        shard::send_setup(&process.control, [fds[0].as_fd(), fds[1].as_fd()], setup)?;
        process.control.set_write_timeout(Some(Duration::from_secs(1))).map_err(failed())?;
        let reader = process.control.try_clone().map_err(failed())?;
        thread::Builder::new()
            .name("shard".to_owned())
            .spawn(move || receive_messages(reader, receive))
            .map_err(failed())?;
        Ok(process)
    }

    /// Sends a message. The receiving thread notices if the connection is closed.
    pub(super) fn send(&self, message: &ToShard) {
        let mut line = crate::session::bytes(message);
        line.push(b'\n');
        let _ = (&self.control).write_all(&line);
    }

    /// Waits for its exit in another thread, and passes on its exit status and last output.
    pub(super) fn reap(mut self, on_exit: impl FnOnce(String) + Send + 'static) {
        let reap = move || {
            wait_or_kill(&mut self.child, END_TIMEOUT);
            remove_from_registry(self.child.id());
            on_exit(self.exit_report());
        };
        // If the thread cannot start, the process stays a zombie until the agent ends.
        let _ = thread::Builder::new().name("reaper".to_owned()).spawn(reap);
    }

    fn exit_report(&mut self) -> String {
        let status = match self.child.wait() {
            Ok(status) => status.to_string(),
            Err(error) => error.to_string(),
        };
        let output = run::files::read_end(&self.log, MAX_QUOTE_BYTES)
            .map(|bytes| String::from_utf8_lossy(&bytes).trim().to_owned());
        match output {
            Ok(output) if !output.is_empty() => format!("{status}: {output}"),
            _ => status,
        }
    }

    /// Closes its control connection, after which it ends, and kills it after a timeout. Then
    /// deletes its folder.
    pub(super) fn end(mut self, folder: Option<Folder>) {
        let _ = self.control.shutdown(Shutdown::Both);
        let reap = move || {
            wait_or_kill(&mut self.child, END_TIMEOUT);
            remove_from_registry(self.child.id());
            drop(folder);
        };
        // If the thread cannot start, the closure and with it the folder is dropped at once.
        let _ = thread::Builder::new().name("reaper".to_owned()).spawn(reap);
    }
}

/// Removes the entry of a killed process from the registry of running labs once its lab has ended.
fn remove_from_registry(shard: u32) {
    let Ok(registry) = Registry::open() else { return };
    let since = Instant::now();
    while since.elapsed() < END_TIMEOUT {
        let is_shard = |entry: &Entry| entry.supervisor.pid == shard;
        // After an error, the next command that lists the labs repeats it.
        if !registry.sweep().is_ok_and(|listing| listing.live.iter().any(is_shard)) {
            return;
        }
        thread::sleep(Duration::from_millis(50));
    }
}

/// Reads messages until the connection is closed.
fn receive_messages(control: UnixStream, mut receive: impl FnMut(Option<FromShard>) -> bool) {
    let mut lines = BufReader::new(control);
    loop {
        let mut line = Vec::new();
        match lines.by_ref().take(MAX_MESSAGE_BYTES).read_until(b'\n', &mut line) {
            Ok(0) | Err(_) => break,
            Ok(_) => {}
        }
        let Some(message) = crate::session::read(&line) else { continue };
        if !receive(Some(message)) {
            return;
        }
    }
    receive(None);
}
