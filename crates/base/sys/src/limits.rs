//! Resource limits.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::{Result, check, named};

/// Raises the limit of open files to the hard limit and returns it. A host of a lab needs one file
/// for its namespace and one per interface.
pub fn raise_open_files() -> Result<u64> {
    let limit = getrlimit(Resource::Nofile);
    if limit.current != limit.maximum {
        let raised = Rlimit { current: limit.maximum, ..limit };
        named("setrlimit(RLIMIT_NOFILE)", setrlimit(Resource::Nofile, raised))?;
    }
    Ok(limit.maximum.unwrap_or(u64::MAX))
}

/// Permits real-time scheduling up to `priority` to this process and its children, also in user
/// namespaces, where no capability permits it. Requires `CAP_SYS_RESOURCE`.
pub fn permit_realtime(priority: u64) -> Result<()> {
    let limit = Rlimit { current: Some(priority), maximum: Some(priority) };
    named("setrlimit(RLIMIT_RTPRIO)", setrlimit(Resource::Rtprio, limit))
}

/// Forbids real-time scheduling to this process and its children.
pub fn forbid_realtime() -> Result<()> {
    permit_realtime(0)
}

/// A write beyond the file size limit fails with `EFBIG` instead of ending the process with
/// SIGXFSZ, unless the process already handles that signal.
pub fn ignore_file_size_signal() -> Result<()> {
    // SAFETY: an all-zero sigaction is a valid one (the default action).
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    // SAFETY: a null new action only reads the present one into `action`.
    let result = unsafe { libc::sigaction(libc::SIGXFSZ, std::ptr::null(), &raw mut action) };
    check("sigaction(SIGXFSZ)", result)?;
    if action.sa_sigaction == libc::SIG_DFL {
        action.sa_sigaction = libc::SIG_IGN;
        // SAFETY: `action` outlives the call; ignoring a signal runs no handler.
        let result =
            unsafe { libc::sigaction(libc::SIGXFSZ, &raw const action, std::ptr::null_mut()) };
        check("sigaction(SIGXFSZ)", result)?;
    }
    Ok(())
}

/// Limits the size of files that this process writes, in bytes.
pub fn limit_file_size(bytes: u64) -> Result<()> {
    let limit = Rlimit { current: Some(bytes), maximum: None };
    named("setrlimit(RLIMIT_FSIZE)", setrlimit(Resource::Fsize, limit))
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
