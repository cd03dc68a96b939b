//! File descriptors that are kept free: for connections to targets, name lookups and the status.

use std::os::fd::{AsFd, AsRawFd};
use std::time::Duration;

use rustix::io::fcntl_dupfd_cloexec;
use rustix::process::{Resource, getrlimit};

/// From one check to the next while they are short.
pub(crate) const CHECK_INTERVAL: Duration = Duration::from_millis(50);

/// The limit of the process, and how much of it may be used.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Descriptors {
    usable: u64,
}

impl Descriptors {
    /// A quarter of the present limit stays free.
    pub(crate) fn new() -> Self {
        let limit = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
        Self { usable: limit - limit / 4 }
    }

    #[cfg(test)]
    pub(crate) const fn of(usable: u64) -> Self {
        Self { usable }
    }

    /// How many may be used.
    pub(crate) const fn usable(self) -> u64 {
        self.usable
    }

    /// Whether all that may be used are: the kernel gives the lowest free number.
    pub(crate) fn are_short(self, any: impl AsFd) -> bool {
        fcntl_dupfd_cloexec(any, 0).map_or(true, |lowest| lowest.as_raw_fd() as u64 >= self.usable)
    }

    /// Waits until some may be used: connections wait in the listener's backlog meanwhile.
    pub(crate) async fn wait(self, any: impl AsFd) {
        while self.are_short(&any) {
            tokio::time::sleep(CHECK_INTERVAL).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn are_short_when_all_usable_numbers_are_taken() {
        let (file, _other) = std::os::unix::net::UnixStream::pair().unwrap();
        assert!(Descriptors { usable: 0 }.are_short(&file));
        assert!(!Descriptors { usable: 1 << 20 }.are_short(&file));
        let limit = getrlimit(Resource::Nofile).current.unwrap();
        assert!(Descriptors::new().usable() < limit);
    }
}
