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

/// Permits real-time scheduling up to `priority` to this process and what it starts, also inside
/// user namespaces, where no capability permits it. Takes `CAP_SYS_RESOURCE`.
pub fn permit_realtime(priority: u64) -> Result<()> {
    set_realtime(priority)
}

/// Forbids real-time scheduling to this process and what it starts.
pub fn forbid_realtime() -> Result<()> {
    set_realtime(0)
}

fn set_realtime(priority: u64) -> Result<()> {
    let limit = libc::rlimit { rlim_cur: priority, rlim_max: priority };
    // SAFETY: `limit` outlives the call.
    let result = unsafe { libc::setrlimit(libc::RLIMIT_RTPRIO, &raw const limit) };
    check("setrlimit(RLIMIT_RTPRIO)", result)?;
    Ok(())
}

/// Lets a write beyond the limit of file sizes fail with `EFBIG`, instead of ending the process
/// with SIGXFSZ, unless the process already handles that signal.
pub fn ignore_file_size_signal() -> Result<()> {
    // SAFETY: an all-zero sigaction is a valid one (the default action).
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    // SAFETY: only the present action is asked for, and `action` has room for it.
    let result = unsafe { libc::sigaction(libc::SIGXFSZ, std::ptr::null(), &raw mut action) };
    check("sigaction(SIGXFSZ)", result)?;
    if action.sa_sigaction == libc::SIG_DFL {
        action.sa_sigaction = libc::SIG_IGN;
        // SAFETY: `action` outlives the call; ignoring a signal runs no code of ours.
        let result =
            unsafe { libc::sigaction(libc::SIGXFSZ, &raw const action, std::ptr::null_mut()) };
        check("sigaction(SIGXFSZ)", result)?;
    }
    Ok(())
}

/// Limits the size of files that this process writes, in bytes.
pub fn limit_file_size(bytes: u64) -> Result<()> {
    let limit = libc::rlimit { rlim_cur: bytes, rlim_max: libc::RLIM_INFINITY };
    // SAFETY: `limit` outlives the call.
    let result = unsafe { libc::setrlimit(libc::RLIMIT_FSIZE, &raw const limit) };
    check("setrlimit(RLIMIT_FSIZE)", result)?;
    Ok(())
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
