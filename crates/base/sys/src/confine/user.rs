//! Changes the user, and drops privileges of a process.

use std::ffi::{CStr, CString, OsStr};
use std::os::unix::ffi::OsStrExt as _;
use std::path::PathBuf;

use super::{Capabilities, capability, forbid_new_privileges, seccomp};
use crate::{Error, Result, check};

/// A user of the host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct User {
    pub name: String,
    pub uid: u32,
    /// Its primary group.
    pub gid: u32,
    pub home: PathBuf,
}

/// Numbers of a user and its groups.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ids {
    pub uid: u32,
    /// The primary group.
    pub gid: u32,
    pub groups: Vec<u32>,
}

impl User {
    /// The user called `name`, if there is one.
    pub fn named(name: &str) -> Result<Option<Self>> {
        let text = CString::new(name).map_err(|_| Error::Nul(name.to_owned()))?;
        Self::find(|entry, place, length, found| {
            // SAFETY: see `find`; the name ends in NUL.
            unsafe { libc::getpwnam_r(text.as_ptr(), entry, place, length, found) }
        })
    }

    /// The user with this number, if there is one.
    pub fn with_id(uid: u32) -> Result<Option<Self>> {
        // SAFETY: see `find`.
        Self::find(|entry, place, length, found| unsafe {
            libc::getpwuid_r(uid, entry, place, length, found)
        })
    }

    /// The result of a search, which gets valid pointers and the length of the buffer.
    fn find(
        search: impl FnOnce(
            *mut libc::passwd,
            *mut libc::c_char,
            usize,
            *mut *mut libc::passwd,
        ) -> libc::c_int,
    ) -> Result<Option<Self>> {
        let mut buffer = vec![0_u8; 16 * 1024];
        // SAFETY: an all-zero `passwd` (null pointers) is a valid value.
        let mut entry: libc::passwd = unsafe { std::mem::zeroed() };
        let mut found = std::ptr::null_mut();
        let (place, length) = (buffer.as_mut_ptr().cast(), buffer.len());
        match search(&raw mut entry, place, length, &raw mut found) {
            // getpwnam(3) lists these as other return values for a missing user.
            0 | libc::ENOENT | libc::ESRCH | libc::EBADF | libc::EPERM if found.is_null() => {
                Ok(None)
            }
            0 => {
                // SAFETY: the entry was found, so its texts are in `buffer` and end in NUL.
                let text = |text| unsafe { CStr::from_ptr(text) }.to_bytes();
                Ok(Some(Self {
                    name: String::from_utf8_lossy(text(entry.pw_name)).into_owned(),
                    uid: entry.pw_uid,
                    gid: entry.pw_gid,
                    home: OsStr::from_bytes(text(entry.pw_dir)).into(),
                }))
            }
            errno => Err(Error::from_errno("getpwnam_r", errno)),
        }
    }

    /// Its numbers, with its supplementary groups.
    pub fn ids(&self) -> Result<Ids> {
        let name = CString::new(&*self.name).map_err(|_| Error::Nul(self.name.clone()))?;
        let mut groups = vec![0; 64];
        loop {
            let mut count = groups.len() as libc::c_int;
            // SAFETY: the name ends in NUL, and `groups` has `count` elements.
            let result = unsafe {
                libc::getgrouplist(name.as_ptr(), self.gid, groups.as_mut_ptr(), &raw mut count)
            };
            let needed = usize::try_from(count).unwrap_or(0);
            if result >= 0 {
                groups.truncate(needed);
                return Ok(Ids { uid: self.uid, gid: self.gid, groups });
            }
            if needed <= groups.len() {
                return Err(Error::Malformed("getgrouplist"));
            }
            groups.resize(needed, 0);
        }
    }
}

impl Ids {
    /// Encodes the numbers: `UID:GID:GROUP,GROUP`.
    pub fn to_text(&self) -> String {
        let groups: Vec<String> = self.groups.iter().map(u32::to_string).collect();
        format!("{}:{}:{}", self.uid, self.gid, groups.join(","))
    }

    /// Decodes `UID:GID:GID,GID,…`, the text of [`Self::to_text`].
    pub fn parse(text: &str) -> Option<Self> {
        let (uid, rest) = text.split_once(':')?;
        let (gid, groups) = rest.split_once(':')?;
        let groups = groups.split(',').filter(|group| !group.is_empty()).map(str::parse);
        let groups: std::result::Result<_, _> = groups.collect();
        Some(Self { uid: uid.parse().ok()?, gid: gid.parse().ok()?, groups: groups.ok()? })
    }

    /// Changes the calling process, which must have one thread, to this user and its groups,
    /// permanently. A user other than root has no capabilities, and gains none by executing a file.
    pub fn assume(&self) -> Result<()> {
        if threads()? != 1 {
            return Err(Error::Threads("change the user"));
        }
        // SAFETY: the pointer and the length describe `groups`.
        let result = unsafe { libc::setgroups(self.groups.len(), self.groups.as_ptr()) };
        check("setgroups", result)?;
        // SAFETY: takes integers only.
        check("setresgid", unsafe { libc::setresgid(self.gid, self.gid, self.gid) })?;
        // SAFETY: takes integers only.
        check("setresuid", unsafe { libc::setresuid(self.uid, self.uid, self.uid) })?;
        forbid_new_privileges()
    }
}

pub(crate) fn threads() -> Result<usize> {
    let path = "/proc/self/task";
    let entries = std::fs::read_dir(path).map_err(|e| Error::file("read", path, e))?;
    Ok(entries.count())
}

/// Changes to `user` (`None`: keeps the user) with only the capabilities `keep`, permanently; child
/// processes inherit the capabilities, but cannot gain more. `filter`: filter system calls too.
///
/// # Errors
/// The error of the kernel. Capabilities are per thread, so the process must have only one thread.
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
        assert_eq!(User::with_id(0).unwrap(), Some(root.clone()));
        assert!(root.ids().unwrap().groups.contains(&0));
    }

    #[test]
    fn ids_survive_being_text() {
        for groups in [vec![], vec![4], vec![104, 107]] {
            let ids = Ids { uid: 104, gid: 105, groups };
            assert_eq!(Ids::parse(&ids.to_text()), Some(ids));
        }
        for wrong in ["", "1:2", "1:2:x", "-1:2:"] {
            assert_eq!(Ids::parse(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn refuses_to_drop_privileges_of_one_thread_among_several() {
        // The test's thread, and the one that waits for it.
        let work = || become_daemon(None, Capabilities::NONE, false);
        let error = std::thread::spawn(work).join().unwrap();
        assert!(matches!(error, Err(Error::Threads(_))), "{error:?}");
    }
}
