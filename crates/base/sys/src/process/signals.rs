//! Signals that are read from a descriptor (signalfd(2)) instead of interrupting the process.

use std::os::fd::{AsFd, AsRawFd as _, BorrowedFd, FromRawFd as _, OwnedFd};

use super::Signal;
use crate::{Result, check};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Received {
    pub signal: Signal,
    /// Sent by the terminal's keyboard, and therefore to the whole foreground process group.
    pub from_keyboard: bool,
}

/// The signals with which users and supervisors end or notify a command. As long as this value
/// exists they are blocked in the calling thread and its new child processes, and wait here.
#[derive(Debug)]
pub struct Signals {
    fd: OwnedFd,
    before: libc::sigset_t,
}

const FORWARDED: [libc::c_int; 6] =
    [libc::SIGINT, libc::SIGQUIT, libc::SIGTERM, libc::SIGHUP, libc::SIGUSR1, libc::SIGUSR2];

impl Signals {
    /// Blocks the signals. The process must have one thread, or other threads must block them.
    pub fn listen() -> Result<Self> {
        Self::listen_to(&FORWARDED)
    }

    /// As [`Self::listen`], for these signals.
    pub(super) fn listen_to(signals: &[libc::c_int]) -> Result<Self> {
        // SAFETY: the sets are plain data, and all pointers are valid for the calls.
        unsafe {
            let mut set: libc::sigset_t = std::mem::zeroed();
            let mut before: libc::sigset_t = std::mem::zeroed();
            libc::sigemptyset(&raw mut set);
            for signal in signals {
                libc::sigaddset(&raw mut set, *signal);
            }
            let flags = libc::SFD_NONBLOCK | libc::SFD_CLOEXEC;
            let fd = check("signalfd", libc::signalfd(-1, &raw const set, flags))?;
            let fd = OwnedFd::from_raw_fd(fd);
            libc::sigprocmask(libc::SIG_BLOCK, &raw const set, &raw mut before);
            Ok(Self { fd, before })
        }
    }

    /// The next signal, if one has arrived.
    pub fn take(&self) -> Option<Received> {
        // SAFETY: an all-zero `signalfd_siginfo` is a valid one.
        let mut info: libc::signalfd_siginfo = unsafe { std::mem::zeroed() };
        let size = size_of::<libc::signalfd_siginfo>();
        // SAFETY: `info` is as long as is passed.
        let read = unsafe { libc::read(self.fd.as_raw_fd(), (&raw mut info).cast(), size) };
        (usize::try_from(read) == Ok(size)).then_some(Received {
            signal: Signal(info.ssi_signo as libc::c_int),
            from_keyboard: info.ssi_code == libc::SI_KERNEL,
        })
    }
}

impl AsFd for Signals {
    /// Readable when a signal has arrived.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

impl Drop for Signals {
    fn drop(&mut self) {
        // SAFETY: `before` is the mask that `listen` has replaced.
        unsafe {
            libc::sigprocmask(libc::SIG_SETMASK, &raw const self.before, std::ptr::null_mut())
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signals_are_read_with_their_origin() {
        // The mask belongs to this thread, and a signal for one thread goes to no other.
        let work = || {
            let signals = Signals::listen().unwrap();
            assert_eq!(signals.take(), None);
            // SAFETY: the signal is blocked in the calling thread.
            unsafe { libc::raise(libc::SIGUSR1) };
            let received = Received { signal: Signal(libc::SIGUSR1), from_keyboard: false };
            assert_eq!(signals.take(), Some(received));
            assert_eq!(signals.take(), None);
        };
        std::thread::spawn(work).join().unwrap();
    }
}
