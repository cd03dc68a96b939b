//! The run supervisor: starts, synchronises, reads, stops and reaps the child processes that run
//! labs.
//!
//! A held child has a control socket as its standard input (`netarium run --await-start`). It
//! writes a byte when its lab is ready, and begins when it receives a byte. End-of-file, which also
//! happens if this process is killed, stops it.

use std::io::{self, ErrorKind, Read, Write};
use std::net::Shutdown;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::process::{Child as Process, ChildStderr, ChildStdout, Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::process::{Pid, Signal, kill_process};

/// Maximum length of a line of a child's output; longer lines are split. A record is the longest.
const MAX_LINE_BYTES: usize = 256 << 20;
const READ_BYTES: usize = 1 << 14;
/// Poll interval of [`wait_or_kill`].
const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// An event of a child, with the child's number.
#[derive(Debug)]
pub enum Event {
    /// The lab is ready to begin.
    Ready(usize),
    /// A line of standard output.
    Output(usize, String),
    /// A line of standard error.
    Log(usize, String),
    /// The child has ended, after all its output was reported.
    Ended(usize, ExitStatus),
}

/// Runs children in parallel. Dropping it stops them and waits for their end.
#[derive(Debug)]
pub struct Supervisor {
    children: Vec<Child>,
    /// Whether held children begin only when all are ready.
    together: bool,
    begun: Option<Instant>,
    stops: usize,
}

#[derive(Debug)]
struct Child {
    process: Process,
    control: Option<UnixStream>,
    output: Option<Lines<ChildStdout>>,
    log: Option<Lines<ChildStderr>>,
    /// Whether it is ready but has not begun.
    is_waiting: bool,
    is_ready: bool,
    status: Option<ExitStatus>,
}

impl Supervisor {
    /// A supervisor whose held children begin as soon as they are ready.
    #[expect(clippy::new_without_default, reason = "a caller must choose how children begin")]
    pub fn new() -> Self {
        Self { children: Vec::new(), together: false, begun: Some(Instant::now()), stops: 0 }
    }

    /// A supervisor whose held children begin when all started children are ready or have ended. A
    /// child that becomes ready later, such as the next run of a sweep, begins immediately.
    pub fn together() -> Self {
        Self { children: Vec::new(), together: true, begun: None, stops: 0 }
    }

    /// Starts a child and returns its number, from 0. The child leads a process group, so that
    /// Ctrl-C in a terminal reaches only this process, which stops the child.
    ///
    /// # Errors
    /// If the process cannot be started.
    pub fn start(&mut self, command: &mut Command, hold: bool) -> io::Result<usize> {
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let (mut process, control) = if hold {
            let (process, control) = spawn_with_control(command)?;
            control.set_nonblocking(true)?;
            (process, Some(control))
        } else {
            (command.stdin(Stdio::null()).process_group(0).spawn()?, None)
        };
        let (output, log) = (process.stdout.take(), process.stderr.take());
        let child = Child {
            output: output.map(Lines::new).transpose()?,
            log: log.map(Lines::new).transpose()?,
            process,
            control,
            is_waiting: false,
            is_ready: false,
            status: None,
        };
        self.children.push(child);
        Ok(self.children.len() - 1)
    }

    /// The time at which held children began.
    pub fn begun(&self) -> Option<Instant> {
        self.begun
    }

    /// The numbers of the children that are running.
    pub fn running(&self) -> impl Iterator<Item = usize> + '_ {
        let running = self.children.iter().enumerate().filter(|(_, child)| child.status.is_none());
        running.map(|(number, _)| number)
    }

    pub fn is_running(&self) -> bool {
        self.running().next().is_some()
    }

    pub fn pid(&self, number: usize) -> u32 {
        self.children[number].process.id()
    }

    /// Waits for events up to `timeout`, and starts the labs of children that are ready.
    ///
    /// # Errors
    /// If polling or reaping fails.
    pub fn wait(&mut self, timeout: Duration) -> io::Result<Vec<Event>> {
        let timeout = Timespec::try_from(timeout).unwrap_or_default();
        let mut fds: Vec<PollFd<'_>> = Vec::new();
        for child in self.children.iter().filter(|child| child.status.is_none()) {
            fds.extend(child.files().map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN)));
        }
        match rustix::event::poll(&mut fds, Some(&timeout)) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(errno) => return Err(errno.into()),
        }
        let mut events = Vec::new();
        for (number, child) in self.children.iter_mut().enumerate() {
            if child.status.is_none() {
                child.read(number, &mut events)?;
            }
        }
        self.begin_ready();
        Ok(events)
    }

    fn begin_ready(&mut self) {
        let is_ready_or_ended =
            |child: &Child| child.control.is_none() || child.is_ready || child.status.is_some();
        if self.together && !self.children.iter().all(is_ready_or_ended) {
            return;
        }
        self.together = false;
        self.begun.get_or_insert_with(Instant::now);
        for child in self.children.iter_mut().filter(|child| child.is_waiting) {
            child.is_waiting = false;
            // A failed write means that the child has ended.
            let _ = child.control.as_ref().map(|mut control| control.write(&[1]));
        }
    }

    /// Sends stop requests until each child has received `times` of them. The first request stops a
    /// lab in an orderly way, the second one immediately.
    pub fn stop(&mut self, times: usize) {
        while self.stops < times {
            let running = self.children.iter().filter(|child| child.status.is_none());
            running.for_each(|child| child.stop(self.stops == 0));
            self.stops += 1;
        }
    }
}

impl Drop for Supervisor {
    fn drop(&mut self) {
        self.stop(1);
        while self.is_running() && self.wait(Duration::from_secs(1)).is_ok() {}
    }
}

impl Child {
    fn files(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        let output = self.output.as_ref().map(|lines| lines.from.as_fd());
        let log = self.log.as_ref().map(|lines| lines.from.as_fd());
        let control = self.control.as_ref().map(AsFd::as_fd);
        output.into_iter().chain(log).chain(control)
    }

    fn read(&mut self, number: usize, events: &mut Vec<Event>) -> io::Result<()> {
        while let Some(mut control) = self.control.as_ref() {
            match control.read(&mut [0]) {
                Ok(0) => self.control = None,
                Ok(_) => {
                    (self.is_waiting, self.is_ready) = (true, true);
                    events.push(Event::Ready(number));
                }
                Err(e) if is_would_block(&e) => break,
                Err(_) => self.control = None,
            }
        }
        Lines::read(&mut self.output, |line| events.push(Event::Output(number, line)));
        Lines::read(&mut self.log, |line| events.push(Event::Log(number, line)));
        if self.output.is_none() && self.log.is_none() {
            let status = self.process.wait()?;
            self.status = Some(status);
            events.push(Event::Ended(number, status));
        }
        Ok(())
    }

    fn stop(&self, is_first: bool) {
        if let (Some(control), true) = (&self.control, is_first) {
            // Unlike a signal, this also stops the next run of a sweep.
            let _ = control.shutdown(Shutdown::Write);
        } else if let Some(pid) = Pid::from_raw(self.process.id() as i32) {
            // The child has not been reaped, so its PID is still valid.
            let _ = kill_process(pid, Signal::TERM);
        }
    }
}

/// Output of a child, split into lines.
#[derive(Debug)]
struct Lines<R> {
    from: R,
    line: Vec<u8>,
}

impl<R: Read + AsFd> Lines<R> {
    fn new(from: R) -> io::Result<Self> {
        rustix::io::ioctl_fionbio(&from, true)?;
        Ok(Self { from, line: Vec::new() })
    }

    /// Reads the available output; at the end of file `lines` becomes `None`.
    fn read(lines: &mut Option<Self>, mut each: impl FnMut(String)) {
        let mut bytes = [0; READ_BYTES];
        while let Some(this) = lines {
            match this.from.read(&mut bytes) {
                Ok(count) if count > 0 => this.take(&bytes[..count], &mut each),
                Err(e) if is_would_block(&e) => return,
                Ok(_) | Err(_) => {
                    let rest = std::mem::take(&mut this.line);
                    if !rest.is_empty() {
                        each(text(&rest));
                    }
                    *lines = None;
                }
            }
        }
    }

    fn take(&mut self, bytes: &[u8], each: &mut impl FnMut(String)) {
        let mut rest = bytes;
        while let Some(end) = rest.iter().position(|byte| *byte == b'\n') {
            self.line.extend(&rest[..end]);
            each(text(&self.line));
            self.line.clear();
            rest = &rest[end + 1..];
        }
        self.line.extend(rest);
        if self.line.len() > MAX_LINE_BYTES {
            each(text(&std::mem::take(&mut self.line)));
        }
    }
}

fn text(line: &[u8]) -> String {
    String::from_utf8_lossy(line).into_owned()
}

fn is_would_block(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted)
}

/// Starts a child in a new process group with one end of a socket as its standard input, and
/// returns the other end.
///
/// # Errors
/// If the process cannot be started.
pub fn spawn_with_control(command: &mut Command) -> io::Result<(Process, UnixStream)> {
    let (control, child_end) = UnixStream::pair()?;
    command.stdin(Stdio::from(OwnedFd::from(child_end))).process_group(0);
    let process = command.spawn();
    // Drops the copy of the child's end in `command`.
    command.stdin(Stdio::null());
    Ok((process?, control))
}

/// Waits for a child's end, and kills it after the timeout.
pub fn wait_or_kill(process: &mut Process, timeout: Duration) {
    let since = Instant::now();
    while matches!(process.try_wait(), Ok(None)) {
        if since.elapsed() > timeout {
            let _ = process.kill();
            let _ = process.wait();
            return;
        }
        thread::sleep(POLL_INTERVAL);
    }
}

#[cfg(test)]
mod tests;
