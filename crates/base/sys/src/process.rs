//! Processes: forking, waiting and signalling without races, starting programs in namespaces, and
//! the small init process of each program.
//!
//! `init` depends on this file too: the init process forks and executes the program itself.

mod attach;
mod init;
mod signals;
mod spawn;
mod terminal;

use std::io::Write as _;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::process::CommandExt as _;
use std::panic::AssertUnwindSafe;
use std::process::Command;

use rustix::io::Errno;
use rustix::process::{self, Pid, PidfdFlags, pidfd_open, pidfd_send_signal};

use crate::confine::user::threads;
use crate::{Error, Result, check, named};

pub use attach::{Attachment, attach, attach_own};
pub use init::{InitReport, ProgramSetup, run_init};
pub use signals::{Received, Signals};
pub use spawn::{Spawn, spawn};
pub use terminal::{open_terminal, set_terminal_size};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Signal(pub(crate) libc::c_int);

impl Signal {
    pub const TERM: Self = Self(libc::SIGTERM);
    pub const KILL: Self = Self(libc::SIGKILL);
    /// Interrupt from the keyboard.
    pub const INT: Self = Self(libc::SIGINT);
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    Code(i32),
    Signal(i32),
}

impl Exit {
    /// Exit code as in a shell: the status, or 128 plus the number of the signal.
    pub const fn code(self) -> i32 {
        match self {
            Self::Code(code) => code,
            Self::Signal(signal) => 128 + signal,
        }
    }

    /// From the status word of `wait`.
    pub(crate) fn from_status(status: i32) -> Self {
        if libc::WIFSIGNALED(status) {
            Self::Signal(libc::WTERMSIG(status))
        } else {
            Self::Code(libc::WEXITSTATUS(status))
        }
    }
}

impl std::fmt::Display for Exit {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Code(code) => write!(f, "status {code}"),
            Self::Signal(libc::SIGKILL) => f.write_str("SIGKILL"),
            Self::Signal(libc::SIGTERM) => f.write_str("SIGTERM"),
            Self::Signal(libc::SIGSEGV) => f.write_str("SIGSEGV"),
            Self::Signal(libc::SIGINT) => f.write_str("SIGINT"),
            Self::Signal(libc::SIGPIPE) => f.write_str("SIGPIPE"),
            Self::Signal(signal) => write!(f, "signal {signal}"),
        }
    }
}

fn id(pid: u32) -> Result<Pid> {
    Pid::from_raw(pid as i32).ok_or(Error::from_errno("pidfd_open", libc::EINVAL))
}

/// A child process. The descriptor becomes readable when the process ends, and never refers
/// to another one.
#[derive(Debug)]
pub struct Child {
    pid: u32,
    fd: OwnedFd,
    exit: Option<Exit>,
}

impl Child {
    /// A handle for the child `pid`, which must not have been waited for.
    pub fn of(pid: u32) -> Result<Self> {
        let fd = named("pidfd_open", pidfd_open(id(pid)?, PidfdFlags::empty()))?;
        Ok(Self { pid, fd, exit: None })
    }

    pub(crate) fn from_parts(pid: u32, fd: OwnedFd) -> Self {
        Self { pid, fd, exit: None }
    }

    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// Waits for its end; returns how it ended.
    pub fn wait(&mut self) -> Result<Exit> {
        loop {
            if let Some(exit) = self.reap(0)? {
                return Ok(exit);
            }
        }
    }

    /// How it ended; `None` while it runs.
    pub fn try_wait(&mut self) -> Result<Option<Exit>> {
        self.reap(libc::WNOHANG)
    }

    /// Waits for a child that uses the terminal. Meanwhile this process ignores the keyboard's
    /// signals (`SIGINT`, `SIGQUIT`).
    pub fn wait_in_foreground(&mut self) -> Result<Exit> {
        ignore(libc::SIGINT, true);
        ignore(libc::SIGQUIT, true);
        let exit = self.wait();
        ignore(libc::SIGINT, false);
        ignore(libc::SIGQUIT, false);
        exit
    }

    fn reap(&mut self, options: libc::c_int) -> Result<Option<Exit>> {
        if self.exit.is_some() {
            return Ok(self.exit);
        }
        let mut status = 0;
        // SAFETY: `status` is a valid place for the answer.
        let pid = unsafe { libc::waitpid(self.pid as i32, &raw mut status, options) };
        match check("waitpid", pid) {
            Ok(0) => Ok(None),
            Ok(_) => {
                self.exit = Some(Exit::from_status(status));
                Ok(self.exit)
            }
            Err(error) if error.errno() == Some(libc::EINTR) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Sends `signal`; no effect if the child has ended.
    pub fn signal(&self, signal: Signal) -> Result<()> {
        if self.exit.is_some() {
            return Ok(());
        }
        let named_signal = process::Signal::from_named_raw(signal.0);
        let unnamed = || Error::from_errno("pidfd_send_signal", libc::EINVAL);
        let signal = named_signal.ok_or_else(unnamed)?;
        match pidfd_send_signal(&self.fd, signal) {
            Err(Errno::SRCH) => Ok(()),
            sent => named("pidfd_send_signal", sent),
        }
    }
}

impl AsFd for Child {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// Runs `work` in a copy of this process, which exits with its result; a panic exits with 70.
///
/// # Errors
/// [`Error::Threads`] unless the process has one thread: in the copy, other threads do not
/// exist, their locks stay locked, and the C library reuses their stacks, to which `work`
/// may have references.
pub fn fork(work: impl FnOnce() -> i32) -> Result<u32> {
    if threads()? != 1 {
        return Err(Error::Threads("fork"));
    }
    // SAFETY: the process has one thread, and only that thread could start another.
    unsafe { fork_one_thread(work) }
}

/// See [`fork`].
///
/// # Safety
/// `work` must not use stacks, thread-local values or locks of other threads.
unsafe fn fork_one_thread(work: impl FnOnce() -> i32) -> Result<u32> {
    // SAFETY: `work` meets the contract above; the C library resets its locks in the child.
    let pid = check("fork", unsafe { libc::fork() })?;
    if pid > 0 {
        return Ok(pid as u32);
    }
    let code = std::panic::catch_unwind(AssertUnwindSafe(work)).unwrap_or(70);
    let _ = std::io::stdout().flush();
    // SAFETY: ends the process without the exit handlers that belong to its parent.
    unsafe { libc::_exit(code) }
}

fn ignore(signal: libc::c_int, ignored: bool) {
    let action = if ignored { libc::SIG_IGN } else { libc::SIG_DFL };
    // SAFETY: no handler is installed.
    unsafe { libc::signal(signal, action) };
}

/// Whether orphaned descendants become children of this process.
pub fn set_subreaper(on: bool) -> Result<()> {
    // SAFETY: takes integers only.
    let result = unsafe { libc::prctl(libc::PR_SET_CHILD_SUBREAPER, libc::c_ulong::from(on)) };
    check("prctl(PR_SET_CHILD_SUBREAPER)", result)?;
    Ok(())
}

/// The kernel sends `signal` to this process when the thread that created it ends.
pub fn set_parent_death_signal(signal: Signal) -> Result<()> {
    let signal = process::Signal::from_named_raw(signal.0);
    named("prctl(PR_SET_PDEATHSIG)", process::set_parent_process_death_signal(signal))
}

/// Starts a session, which does not receive signals from the terminal's keyboard.
pub fn start_session() -> Result<()> {
    named("setsid", process::setsid())?;
    Ok(())
}

/// Executes `command` in this process as if from a shell: no signal is blocked, and a closed pipe
/// ends it. Returns only after an error.
pub fn execute(command: &mut Command) -> std::io::Error {
    // Rust's start-up code ignores SIGPIPE; programs expect the default.
    ignore(libc::SIGPIPE, false);
    init::block_signals(false);
    command.exec()
}

/// Sets `fd` as standard input.
pub fn set_standard_input(fd: BorrowedFd<'_>) -> Result<()> {
    // SAFETY: both are descriptors; standard input has no other owner.
    check("dup2", unsafe { libc::dup2(fd.as_raw_fd(), 0) })?;
    Ok(())
}

/// Waits for ended children that are not `known`: orphans that became children of this process.
/// Returns their number.
pub fn reap_orphans(known: impl Fn(u32) -> bool) -> usize {
    let mut count = 0;
    loop {
        // SAFETY: an all-zero siginfo_t is a valid one, and a valid place for the answer.
        let mut info: libc::siginfo_t = unsafe { std::mem::zeroed() };
        let options = libc::WEXITED | libc::WNOHANG | libc::WNOWAIT;
        // SAFETY: as above.
        let result = unsafe { libc::waitid(libc::P_ALL, 0, &raw mut info, options) };
        // SAFETY: `waitid` fills in the fields of SIGCHLD, or leaves all zero.
        let pid = unsafe { info.si_pid() };
        // The kernel reports the same child until it is waited for; a known one is left to its
        // owner, and children behind it to the next call.
        if result == -1 || pid == 0 || known(pid as u32) {
            return count;
        }
        // SAFETY: the status is not needed.
        unsafe { libc::waitpid(pid, std::ptr::null_mut(), libc::WNOHANG) };
        count += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// For tests, whose process has several threads.
    fn fork(work: impl FnOnce() -> i32) -> u32 {
        // SAFETY: the tests below use nothing of other threads.
        unsafe { fork_one_thread(work) }.unwrap()
    }

    #[test]
    fn a_fork_ends_with_its_result() {
        let mut child = Child::of(fork(|| 42)).unwrap();
        assert_eq!(child.wait().unwrap(), Exit::Code(42));
        assert_eq!(child.try_wait().unwrap(), Some(Exit::Code(42)));
        child.signal(Signal::KILL).unwrap();
    }

    #[test]
    fn refuses_to_fork_a_process_with_several_threads() {
        // The test harness's thread waits for this one.
        let forked = std::thread::spawn(|| super::fork(|| 0)).join().unwrap();
        assert!(matches!(forked, Err(Error::Threads("fork"))), "{forked:?}");
    }

    #[test]
    fn a_killed_child_says_so() {
        let wait_for_ever = || loop {
            std::thread::park();
        };
        let mut child = Child::of(fork(wait_for_ever)).unwrap();
        assert_eq!(child.try_wait().unwrap(), None);
        child.signal(Signal::KILL).unwrap();
        let exit = child.wait().unwrap();
        assert_eq!((exit, exit.code()), (Exit::Signal(libc::SIGKILL), 137));
        assert_eq!(exit.to_string(), "SIGKILL");
    }
}
