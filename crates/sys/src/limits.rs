//! Resource limits.

use crate::{Result, check};

/// Raises the number of open files to the hard limit, and says what it is. A host costs a file
/// for its namespace and one for each interface.
pub fn raise_open_files() -> Result<u64> {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: `limit` is a valid place for the answer.
    let result = unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit) };
    check("getrlimit(RLIMIT_NOFILE)", result)?;
    if limit.rlim_cur < limit.rlim_max {
        limit.rlim_cur = limit.rlim_max;
        // SAFETY: `limit` outlives the call.
        let result = unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit) };
        check("setrlimit(RLIMIT_NOFILE)", result)?;
    }
    Ok(limit.rlim_cur)
}

/// The hard limit of real-time priority: 0 where `SCHED_FIFO` needs a capability.
pub fn realtime_priority() -> Result<u64> {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: `limit` is a valid place for the answer.
    let result = unsafe { libc::getrlimit(libc::RLIMIT_RTPRIO, &raw mut limit) };
    check("getrlimit(RLIMIT_RTPRIO)", result)?;
    Ok(limit.rlim_max)
}

#[cfg(test)]
mod tests {
    #[test]
    fn open_files_reach_the_hard_limit() {
        let first = super::raise_open_files().unwrap();
        assert_eq!(super::raise_open_files().unwrap(), first);
        assert!(first >= 64);
    }
}
