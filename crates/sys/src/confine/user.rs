//! Changing to another user, and keeping only some of a process's privileges.

use std::ffi::CString;

use super::{Capabilities, capability, forbid_new_privileges, seccomp};
use crate::{Error, Result, check};

/// A user of this machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct User {
    /// Its name.
    pub name: String,
    /// Its number.
    pub uid: u32,
    /// Its primary group.
    pub gid: u32,
}

impl User {
    /// The user called `name`, if there is one.
    pub fn named(name: &str) -> Result<Option<Self>> {
        let text = CString::new(name).map_err(|_| Error::Nul(name.to_owned()))?;
        let mut buffer = vec![0_u8; 16 * 1024];
        // SAFETY: an all-zero `passwd` (null pointers) is a valid value.
        let mut entry: libc::passwd = unsafe { std::mem::zeroed() };
        let mut found = std::ptr::null_mut();
        // SAFETY: all pointers are valid for the call, and `buffer` is as long as is passed.
        let errno = unsafe {
            let (place, length) = (buffer.as_mut_ptr().cast(), buffer.len());
            libc::getpwnam_r(text.as_ptr(), &raw mut entry, place, length, &raw mut found)
        };
        match errno {
            // getpwnam(3) lists these as further ways to say that there is none.
            0 | libc::ENOENT | libc::ESRCH | libc::EBADF | libc::EPERM if found.is_null() => {
                Ok(None)
            }
            0 => Ok(Some(Self { name: name.to_owned(), uid: entry.pw_uid, gid: entry.pw_gid })),
            errno => Err(Error::from_errno("getpwnam_r", errno)),
        }
    }
}

/// The number of threads of this process.
pub(crate) fn threads() -> Result<usize> {
    let path = "/proc/self/task";
    let entries = std::fs::read_dir(path).map_err(|e| Error::file("read", path, e))?;
    Ok(entries.count())
}

/// Becomes `user` (`None`: stays the same user) with the capabilities `keep` and no others, for
/// the rest of this process's life; processes that it starts inherit the capabilities, but
/// nothing gains more. `filter` says whether system calls are filtered too.
///
/// # Errors
/// The kernel's refusal. Threads have capabilities of their own, so the process must have one.
pub fn become_daemon(user: Option<&User>, keep: Capabilities, filter: bool) -> Result<()> {
    if threads()? != 1 {
        return Err(Error::Threads("drop privileges"));
    }
    let keep = keep.common(Capabilities::effective()?);
    let kept_while_changing = keep.and(Capabilities::SETPCAP);
    if let Some(user) = user {
        // SAFETY: takes integers only.
        let result = unsafe { libc::prctl(libc::PR_SET_KEEPCAPS, 1_u64, 0_u64, 0_u64, 0_u64) };
        check("prctl(PR_SET_KEEPCAPS)", result)?;
        // SAFETY: no groups are read from the null pointer.
        check("setgroups", unsafe { libc::setgroups(0, std::ptr::null()) })?;
        // SAFETY: takes integers only.
        check("setresgid", unsafe { libc::setresgid(user.gid, user.gid, user.gid) })?;
        // SAFETY: takes integers only.
        check("setresuid", unsafe { libc::setresuid(user.uid, user.uid, user.uid) })?;
        // Changing the user has cleared the effective set, not the permitted one.
        capability::set(kept_while_changing)?;
    }
    capability::limit(keep)?;
    if user.is_some() {
        capability::pass_on()?;
    }
    forbid_new_privileges()?;
    if filter { seccomp::install() } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_users_by_name() {
        let root = User::named("root").unwrap().unwrap();
        assert_eq!((root.uid, root.gid), (0, 0));
        assert_eq!(User::named("no-such-user-here").unwrap(), None);
        assert!(User::named("a\0b").is_err());
    }

    #[test]
    fn refuses_to_drop_privileges_of_one_thread_among_several() {
        // Beside the thread of this test there is the one that waits for it.
        let work = || become_daemon(None, Capabilities::NONE, false);
        let error = std::thread::spawn(work).join().unwrap();
        assert!(matches!(error, Err(Error::Threads(_))), "{error:?}");
    }
}
