//! Processes: forking, waiting and signalling without races, starting programs in namespaces,
//! and the small init that runs above each of them.

mod attach;
mod init;
mod spawn;

use std::io::Write as _;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::os::unix::process::CommandExt as _;
use std::panic::AssertUnwindSafe;
use std::process::Command;

use crate::confine::user::threads;
use crate::{Error, Result, check};

pub use attach::{Attachment, attach};
pub use init::{InitReport, ProgramSetup, run_init};
pub use spawn::{Spawn, spawn};

/// A signal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Signal(pub(crate) libc::c_int);

impl Signal {
    /// Please end.
    pub const TERM: Self = Self(libc::SIGTERM);
    /// End now.
    pub const KILL: Self = Self(libc::SIGKILL);
    /// Interrupted from the keyboard.
    pub const INT: Self = Self(libc::SIGINT);
}

/// How a process ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// With this status.
    Code(i32),
    /// By this signal's number.
    Signal(i32),
}

impl Exit {
    /// As a shell tells it: the status, or 128 and the signal's number.
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

/// A child process. The descriptor becomes readable when it ends, and never means another.
#[derive(Debug)]
pub struct Child {
    pid: u32,
    fd: OwnedFd,
    exit: Option<Exit>,
}

impl Child {
    /// Takes hold of the child `pid`, which has not been waited for.
    pub fn of(pid: u32) -> Result<Self> {
        // SAFETY: takes integers only.
        let fd = unsafe { libc::syscall(libc::SYS_pidfd_open, pid, 0) } as libc::c_int;
        let fd = check("pidfd_open", fd)?;
        // SAFETY: the kernel has just given us this descriptor; it closes on exec by itself.
        Ok(Self { pid, fd: unsafe { OwnedFd::from_raw_fd(fd) }, exit: None })
    }

    pub(crate) fn from_parts(pid: u32, fd: OwnedFd) -> Self {
        Self { pid, fd, exit: None }
    }

    /// Its number.
    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// How it ended, waiting for it if need be.
    pub fn wait(&mut self) -> Result<Exit> {
        loop {
            if let Some(exit) = self.reap(0)? {
                return Ok(exit);
            }
        }
    }

    /// How it ended, if it has.
    pub fn try_wait(&mut self) -> Result<Option<Exit>> {
        self.reap(libc::WNOHANG)
    }

    /// Waits for a child that has the terminal: what its keyboard sends is the child's business
    /// meanwhile, not this process's.
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

    /// Sends `signal`; nothing happens when the child has ended.
    pub fn signal(&self, signal: Signal) -> Result<()> {
        if self.exit.is_some() {
            return Ok(());
        }
        let no_info = std::ptr::null::<libc::siginfo_t>();
        // SAFETY: a null pointer asks for what `kill` would fill in.
        let result = unsafe {
            libc::syscall(libc::SYS_pidfd_send_signal, self.fd.as_raw_fd(), signal.0, no_info, 0)
        };
        match check("pidfd_send_signal", result as libc::c_int) {
            Err(error) if error.errno() != Some(libc::ESRCH) => Err(error),
            _ => Ok(()),
        }
    }
}

impl AsFd for Child {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// Runs `work` in a copy of this process, which ends with what it returns; a panic ends it with
/// 70.
///
/// # Errors
/// [`Error::Threads`] unless the process has one thread: in the copy, other threads do not exist,
/// locks that they hold stay locked, and the C library reuses their stacks, to which `work` may
/// have references.
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
/// `work` may not use what belongs to other threads of this process: their stacks, locks that they
/// may hold, and thread-local values.
unsafe fn fork_one_thread(work: impl FnOnce() -> i32) -> Result<u32> {
    // SAFETY: the caller vouches for what the child does; the C library looks after its own locks.
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

/// Has the kernel send `signal` to this process when the thread that made it ends.
pub fn set_parent_death_signal(signal: Signal) -> Result<()> {
    // SAFETY: takes integers only.
    let result = unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, signal.0 as libc::c_ulong) };
    check("prctl(PR_SET_PDEATHSIG)", result)?;
    Ok(())
}

/// Starts a session: signals from the terminal's keyboard do not reach it.
pub fn start_session() -> Result<()> {
    // SAFETY: takes nothing.
    check("setsid", unsafe { libc::setsid() })?;
    Ok(())
}

/// Becomes `command`, which starts as if from a shell: no signal is blocked, and a closed pipe ends
/// it. Returns only when that fails.
pub fn execute(command: &mut Command) -> std::io::Error {
    // Rust's start-up has ignored it; programs expect to die of it.
    ignore(libc::SIGPIPE, false);
    init::block_signals(false);
    command.exec()
}

/// Makes `fd` this process's standard input.
pub fn set_standard_input(fd: BorrowedFd<'_>) -> Result<()> {
    // SAFETY: both are descriptors; nobody owns standard input.
    check("dup2", unsafe { libc::dup2(fd.as_raw_fd(), 0) })?;
    Ok(())
}

/// Waits for ended children that `known` does not claim: orphans which became this process's.
/// Returns how many there were.
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
        // The kernel tells the same child again until it is waited for; a known one is left to
        // its owner, and those behind it to the next call.
        if result == -1 || pid == 0 || known(pid as u32) {
            return count;
        }
        // SAFETY: nobody wants the status.
        unsafe { libc::waitpid(pid, std::ptr::null_mut(), libc::WNOHANG) };
        count += 1;
    }
}

/// Sends `signal` to a process that is not our child, by its number.
pub fn signal_pid(pid: u32, signal: Signal) -> Result<()> {
    if pid == 0 || pid > i32::MAX as u32 {
        return Err(Error::from_errno("kill", libc::ESRCH));
    }
    // SAFETY: takes integers only.
    check("kill", unsafe { libc::kill(pid as i32, signal.0) })?;
    Ok(())
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
        // The harness's thread waits for this one.
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
