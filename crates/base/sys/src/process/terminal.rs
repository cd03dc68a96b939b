//! The terminal of an interactive command: a pseudoterminal of the command's mount namespace,
//! connected to the terminal of this process.

use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};

use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::io::Errno;
use rustix::process::{Gid, Uid, getpgrp};
use rustix::pty::OpenptFlags;
use rustix::termios::{self, InputModes, OptionalActions, Termios, Winsize, isatty};
use rustix::{io, stdio};

use super::{Child, Exit, Signals};
use crate::confine::user::Ids;
use crate::{Result, named};

/// Signals that end the connection, that the command receives, and that concern the terminal.
const SIGNALS: [libc::c_int; 8] = [
    libc::SIGTERM,
    libc::SIGHUP,
    libc::SIGUSR1,
    libc::SIGUSR2,
    libc::SIGINT,
    libc::SIGQUIT,
    libc::SIGWINCH,
    libc::SIGCONT,
];

/// Maximum number of reads of the command's output between looks at input and signals.
const MAX_READS: usize = 64;

/// Opens a pseudoterminal for UTF-8. The first end controls it and does not block; the second is
/// for programs.
pub fn open_terminal() -> Result<(OwnedFd, OwnedFd)> {
    let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
    let controller = named("open(/dev/ptmx)", rustix::pty::openpt(flags))?;
    named("unlockpt", rustix::pty::unlockpt(&controller))?;
    named("ioctl(FIONBIO)", io::ioctl_fionbio(&controller, true))?;
    let peer = rustix::pty::ioctl_tiocgptpeer(&controller, flags);
    let peer = named("ioctl(TIOCGPTPEER)", peer)?;
    let mut settings = named("tcgetattr", termios::tcgetattr(&peer))?;
    settings.input_modes |= InputModes::IUTF8;
    let set = termios::tcsetattr(&peer, OptionalActions::Now, &settings);
    named("tcsetattr", set)?;
    Ok((controller, peer))
}

/// Sets the size of a terminal in characters.
pub fn set_terminal_size(terminal: BorrowedFd<'_>, columns: u16, rows: u16) -> Result<()> {
    let size = Winsize { ws_col: columns, ws_row: rows, ws_xpixel: 0, ws_ypixel: 0 };
    named("ioctl(TIOCSWINSZ)", termios::tcsetwinsize(terminal, size))
}

/// A pseudoterminal with the settings and the size of this process's terminal.
pub(super) struct Terminal {
    controller: OwnedFd,
    /// The command's end. It stays open here, so that the command may close its copies.
    peer: OwnedFd,
    /// The settings of this process's terminal.
    settings: Termios,
}

impl Terminal {
    /// Opens a pseudoterminal for a command of the user `owner` if standard input and output are
    /// terminals. `None` too if this process is in the background, where it may not read from the
    /// terminal, or if this mount namespace has no pseudoterminals.
    pub(super) fn open(owner: Option<&Ids>) -> Option<Self> {
        let is_interactive = isatty(stdio::stdin()) && isatty(stdio::stdout());
        if !is_interactive || is_in_background() {
            return None;
        }
        let settings = termios::tcgetattr(stdio::stdin()).ok()?;
        let (controller, peer) = open_terminal().ok()?;
        if let Some(Ids { uid, gid, .. }) = owner {
            let (uid, gid) = (Uid::from_raw(*uid), Gid::from_raw(*gid));
            // Without it, the user cannot open the terminal by its name.
            let _ = rustix::fs::fchown(&peer, Some(uid), Some(gid));
        }
        termios::tcsetattr(&peer, OptionalActions::Now, &settings).ok()?;
        let terminal = Self { controller, peer, settings };
        terminal.copy_size();
        Some(terminal)
    }

    /// Makes it the controlling terminal and the standard input and output of this process; also
    /// standard error, if that was a terminal.
    pub(super) fn enter(&self) -> Result<()> {
        let error_is_terminal = isatty(stdio::stderr());
        named("setsid", rustix::process::setsid())?;
        named("ioctl(TIOCSCTTY)", rustix::process::ioctl_tiocsctty(&self.peer))?;
        named("dup2", stdio::dup2_stdin(&self.peer))?;
        named("dup2", stdio::dup2_stdout(&self.peer))?;
        if error_is_terminal {
            named("dup2", stdio::dup2_stderr(&self.peer))?;
        }
        Ok(())
    }

    /// Connects both terminals until the command ends, or until this process loses its terminal or
    /// receives a signal to end.
    pub(super) fn connect(&self, command: &mut Child) -> Result<Exit> {
        let signals = Signals::listen_to(&SIGNALS)?;
        let _raw = RawMode::set(&self.settings);
        let mut input = Vec::new();
        loop {
            while let Some(received) = signals.take() {
                match received.signal.0 {
                    libc::SIGWINCH => self.copy_size(),
                    libc::SIGCONT => {
                        RawMode::apply(&self.settings);
                        self.copy_size();
                    }
                    libc::SIGINT | libc::SIGQUIT => command.signal(received.signal)?,
                    signal => return Ok(Exit::Signal(signal)),
                }
            }
            let exit = command.try_wait()?;
            // After the end of the command, its output is complete.
            let is_connected = self.forward_output();
            if let Some(exit) = exit {
                return Ok(exit);
            }
            if !is_connected || !self.forward_input(&mut input) {
                return Ok(Exit::Signal(libc::SIGHUP));
            }
            self.wait(command, &signals, input.is_empty());
        }
    }

    /// Waits until there is something to do.
    fn wait(&self, command: &Child, signals: &Signals, wants_input: bool) {
        let mut fds = vec![
            PollFd::from_borrowed_fd(command.as_fd(), PollFlags::IN),
            PollFd::from_borrowed_fd(signals.as_fd(), PollFlags::IN),
        ];
        let mut events = PollFlags::IN;
        if wants_input {
            fds.push(PollFd::from_borrowed_fd(stdio::stdin(), PollFlags::IN));
        } else {
            events |= PollFlags::OUT;
        }
        fds.push(PollFd::from_borrowed_fd(self.controller.as_fd(), events));
        // An error is an interruption.
        let _ = rustix::event::poll(&mut fds, None);
    }

    /// Writes the output of the command to standard output; `false` if that is closed.
    fn forward_output(&self) -> bool {
        let mut bytes = [0; 4096];
        for _ in 0..MAX_READS {
            match io::read(&self.controller, &mut bytes) {
                Ok(count) => {
                    if count == 0 || !write_all(stdio::stdout(), &bytes[..count]) {
                        return count == 0;
                    }
                }
                Err(Errno::INTR) => {}
                Err(_) => return true,
            }
        }
        true
    }

    /// Writes `pending` input, and then that of standard input, to the command; what it does not
    /// accept stays pending. `false` if standard input is closed.
    fn forward_input(&self, pending: &mut Vec<u8>) -> bool {
        if pending.is_empty() {
            if !is_ready(stdio::stdin()) {
                return true;
            }
            let mut bytes = [0; 4096];
            match io::read(stdio::stdin(), &mut bytes) {
                Ok(0) => return false,
                Ok(count) => pending.extend_from_slice(&bytes[..count]),
                Err(Errno::INTR | Errno::AGAIN) => return true,
                Err(_) => return false,
            }
        }
        if let Ok(count) = io::write(&self.controller, pending) {
            pending.drain(..count);
        }
        true
    }

    /// Gives it the size of this process's terminal; its foreground processes receive `SIGWINCH`.
    fn copy_size(&self) {
        if let Ok(size) = termios::tcgetwinsize(stdio::stdin()) {
            let _ = termios::tcsetwinsize(&self.controller, size);
        }
    }
}

/// While it exists, this process's terminal passes all bytes on as they are.
struct RawMode<'a> {
    before: &'a Termios,
}

impl<'a> RawMode<'a> {
    fn set(before: &'a Termios) -> Self {
        Self::apply(before);
        Self { before }
    }

    fn apply(settings: &Termios) {
        let mut raw = settings.clone();
        raw.make_raw();
        set_terminal(&raw);
    }
}

impl Drop for RawMode<'_> {
    fn drop(&mut self) {
        set_terminal(self.before);
    }
}

/// Changes the settings of this process's terminal, unless they belong to another process group. A
/// terminal that is gone has none.
fn set_terminal(settings: &Termios) {
    if !is_in_background() {
        let _ = termios::tcsetattr(stdio::stdin(), OptionalActions::Now, settings);
    }
}

/// Whether the terminal's keyboard belongs to another process group.
fn is_in_background() -> bool {
    termios::tcgetpgrp(stdio::stdin()).is_ok_and(|group| group != getpgrp())
}

/// Whether a read from `fd` returns at once.
fn is_ready(fd: BorrowedFd<'_>) -> bool {
    let now = Timespec { tv_sec: 0, tv_nsec: 0 };
    let mut fds = [PollFd::from_borrowed_fd(fd, PollFlags::IN)];
    rustix::event::poll(&mut fds, Some(&now)).is_ok_and(|count| count > 0)
}

fn write_all(to: BorrowedFd<'_>, mut bytes: &[u8]) -> bool {
    while !bytes.is_empty() {
        match io::write(to, bytes) {
            Ok(count) => bytes = &bytes[count..],
            Err(Errno::INTR) => {}
            Err(Errno::AGAIN) => {
                let mut fds = [PollFd::from_borrowed_fd(to, PollFlags::OUT)];
                let _ = rustix::event::poll(&mut fds, None);
            }
            Err(_) => return false,
        }
    }
    true
}
