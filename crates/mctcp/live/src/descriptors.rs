//! Reserves file descriptors for connections to targets, name lookups and the status.

use std::os::fd::{AsFd, AsRawFd};
use std::time::Duration;

use rustix::io::fcntl_dupfd_cloexec;
use rustix::process::{Resource, getrlimit};

/// Interval of checks while descriptors are short.
pub const CHECK_INTERVAL: Duration = Duration::from_millis(50);

/// The usable part of the process's descriptor limit.
#[derive(Clone, Copy, Debug)]
pub struct Descriptors {
    usable: u64,
}

impl Descriptors {
    /// Keeps a quarter of the current limit free.
    pub fn of_process() -> Self {
        let limit = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
        Self { usable: limit - limit / 4 }
    }

    /// With this number of usable descriptors.
    pub const fn of(usable: u64) -> Self {
        Self { usable }
    }

    /// Number of usable descriptors.
    pub const fn usable(self) -> u64 {
        self.usable
    }

    /// Whether all usable descriptors are in use: the kernel assigns the lowest free number.
    pub fn are_short(self, any: impl AsFd) -> bool {
        fcntl_dupfd_cloexec(any, 0).map_or(true, |lowest| lowest.as_raw_fd() as u64 >= self.usable)
    }

    /// Waits until one is available; meanwhile connections wait in the listener's backlog.
    pub async fn wait(self, any: impl AsFd) {
        while self.are_short(&any) {
            tokio::time::sleep(CHECK_INTERVAL).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn are_short_when_all_usable_descriptors_are_open() {
        let (file, _other) = std::os::unix::net::UnixStream::pair().unwrap();
        assert!(Descriptors { usable: 0 }.are_short(&file));
        assert!(!Descriptors { usable: 1 << 20 }.are_short(&file));
        let limit = getrlimit(Resource::Nofile).current.unwrap();
        assert!(Descriptors::of_process().usable() < limit);
    }
}
