//! Waits for many sockets: epoll(7), level-triggered, with timeouts in nanoseconds.

use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use crate::{Error, Result, check};

/// The event to wait for on a descriptor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Interest {
    Nothing,
    Read,
    Write,
    Both,
}

impl Interest {
    fn flags(self) -> u32 {
        (match self {
            Self::Nothing => 0,
            Self::Read => libc::EPOLLIN,
            Self::Write => libc::EPOLLOUT,
            Self::Both => libc::EPOLLIN | libc::EPOLLOUT,
        }) as u32
    }
}

/// State of a ready descriptor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Readiness {
    /// Data or the end of the stream can be read.
    pub readable: bool,
    pub writable: bool,
    /// An error is pending, or the connection is closed.
    pub failed: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ready {
    /// The token passed to `add`.
    pub token: u64,
    pub readiness: Readiness,
}

/// A set of descriptors. A closed descriptor leaves the set.
#[derive(Debug)]
pub struct ReadyQueue {
    epoll: OwnedFd,
    events: Vec<libc::epoll_event>,
}

impl ReadyQueue {
    pub fn try_new() -> Result<Self> {
        /// Maximum number of descriptors reported by one wait.
        const EVENTS: usize = 256;
        // SAFETY: takes flags only.
        let fd = check("epoll_create1", unsafe { libc::epoll_create1(libc::EPOLL_CLOEXEC) })?;
        // SAFETY: the call has just returned this descriptor, nothing else owns it.
        let epoll = unsafe { OwnedFd::from_raw_fd(fd) };
        Ok(Self { epoll, events: vec![libc::epoll_event { events: 0, u64: 0 }; EVENTS] })
    }

    pub fn add(&self, fd: BorrowedFd<'_>, token: u64, interest: Interest) -> Result<()> {
        self.control("epoll_ctl(ADD)", libc::EPOLL_CTL_ADD, fd, token, interest)
    }

    /// Changes the event to wait for.
    pub fn modify(&self, fd: BorrowedFd<'_>, token: u64, interest: Interest) -> Result<()> {
        self.control("epoll_ctl(MOD)", libc::EPOLL_CTL_MOD, fd, token, interest)
    }

    fn control(
        &self,
        call: &'static str,
        operation: libc::c_int,
        fd: BorrowedFd<'_>,
        token: u64,
        interest: Interest,
    ) -> Result<()> {
        let mut event = libc::epoll_event { events: interest.flags(), u64: token };
        let (epoll, fd) = (self.epoll.as_raw_fd(), fd.as_raw_fd());
        // SAFETY: `event` outlives the call.
        check(call, unsafe { libc::epoll_ctl(epoll, operation, fd, &raw mut event) })?;
        Ok(())
    }

    /// Waits until a descriptor is ready or `nanos` have passed (`None`: no timeout), and appends
    /// the ready ones to `out`.
    pub fn wait(&mut self, nanos: Option<u64>, out: &mut Vec<Ready>) -> Result<()> {
        let count = match self.call(nanos) {
            Err(error) if error.errno() == Some(libc::EINTR) => 0,
            other => other?,
        };
        for event in &self.events[..count] {
            let (flags, token) = (event.events, event.u64);
            let any = |mask: libc::c_int| flags & mask as u32 != 0;
            let readiness = Readiness {
                readable: any(libc::EPOLLIN),
                writable: any(libc::EPOLLOUT),
                failed: any(libc::EPOLLERR | libc::EPOLLHUP),
            };
            out.push(Ready { token, readiness });
        }
        Ok(())
    }

    fn call(&mut self, nanos: Option<u64>) -> Result<usize> {
        let limit = nanos.map(|nanos| libc::timespec {
            tv_sec: (nanos / 1_000_000_000) as libc::time_t,
            tv_nsec: (nanos % 1_000_000_000) as libc::c_long,
        });
        let limit_pointer = limit.as_ref().map_or(std::ptr::null(), std::ptr::from_ref);
        let room = self.events.len() as libc::c_int;
        let (epoll, events) = (self.epoll.as_raw_fd(), self.events.as_mut_ptr());
        // SAFETY: `events` has room for as many events as the call allows; no signal
        // mask is passed.
        let result = unsafe {
            let mask = std::ptr::null::<libc::sigset_t>();
            libc::syscall(libc::SYS_epoll_pwait2, epoll, events, room, limit_pointer, mask, 8_usize)
        };
        if result == -1 {
            let error = Error::last("epoll_pwait2");
            if error.errno() != Some(libc::ENOSYS) {
                return Err(error);
            }
            // Linux before 5.11 supports only milliseconds; waking early is harmless.
            let millis = nanos.map_or(-1, |nanos| (nanos / 1_000_000).min(60_000) as libc::c_int);
            // SAFETY: as above.
            let result = unsafe { libc::epoll_wait(epoll, events, room, millis) };
            return Ok(check("epoll_wait", result)? as usize);
        }
        Ok(result as usize)
    }
}
