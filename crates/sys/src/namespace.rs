//! Namespaces: leaving old ones, entering others, mapping users, arranging mounts.

use std::ffi::CString;
use std::fs::{self, File};
use std::io;
use std::ops::BitOr;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use crate::{Error, Result, check};

/// A set of namespace kinds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kinds(pub(crate) libc::c_int);

impl Kinds {
    /// None.
    pub const NONE: Self = Self(0);
    /// Users and capabilities.
    pub const USER: Self = Self(libc::CLONE_NEWUSER);
    /// Network devices, addresses, routes, sockets.
    pub const NET: Self = Self(libc::CLONE_NEWNET);
    /// Mounts.
    pub const MOUNT: Self = Self(libc::CLONE_NEWNS);
    /// Process numbers; takes effect for children.
    pub const PID: Self = Self(libc::CLONE_NEWPID);
    /// System V and POSIX inter-process communication.
    pub const IPC: Self = Self(libc::CLONE_NEWIPC);
    /// The host name.
    pub const UTS: Self = Self(libc::CLONE_NEWUTS);

    /// Whether all of `other` are in this set.
    pub const fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }
}

impl BitOr for Kinds {
    type Output = Self;

    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

/// Moves the calling thread (for `USER`: the whole process, which must have one thread) into new
/// namespaces.
pub fn unshare(kinds: Kinds) -> Result<()> {
    // SAFETY: takes flags only.
    check("unshare", unsafe { libc::unshare(kinds.0) })?;
    Ok(())
}

/// Moves the calling thread into the namespaces that `fd` refers to: one `/proc/PID/ns` file, or
/// a process descriptor and any kinds.
pub fn enter(fd: BorrowedFd<'_>, kinds: Kinds) -> Result<()> {
    // SAFETY: the descriptor is open for the length of the call.
    check("setns", unsafe { libc::setns(fd.as_raw_fd(), kinds.0) })?;
    Ok(())
}

/// The network namespace of the calling thread, kept alive by the descriptor.
pub fn current_net() -> Result<OwnedFd> {
    open("/proc/thread-self/ns/net")
}

/// Opens a namespace file.
pub fn open(path: impl AsRef<Path>) -> Result<OwnedFd> {
    let path = path.as_ref();
    let file = File::open(path).map_err(|e| Error::file("open", path, e))?;
    Ok(file.into())
}

/// Runs `work` with the calling thread in the network namespace `net`, then returns to its own.
///
/// # Errors
/// When the namespace cannot be entered, or the thread's own cannot be returned to.
pub fn in_net<T>(net: BorrowedFd<'_>, work: impl FnOnce() -> T) -> Result<T> {
    let home = current_net()?;
    enter(net, Kinds::NET)?;
    let result = work();
    enter(std::os::fd::AsFd::as_fd(&home), Kinds::NET)?;
    Ok(result)
}

/// Maps the user and group that `uid` and `gid` are outside to root inside the calling process's
/// new user namespace. Needs no privilege.
pub fn map_to_root(uid: u32, gid: u32) -> Result<()> {
    let put =
        |path: &str, text: String| fs::write(path, text).map_err(|e| Error::file("write", path, e));
    // Without this an unprivileged process may not write gid_map (user_namespaces(7)).
    put("/proc/self/setgroups", "deny".to_owned())?;
    put("/proc/self/uid_map", format!("0 {uid} 1"))?;
    put("/proc/self/gid_map", format!("0 {gid} 1"))
}

/// Real and effective users and groups of this process: `(uid, gid)`, effective.
pub fn identity() -> (u32, u32) {
    // SAFETY: these calls cannot fail and touch no memory.
    unsafe { (libc::geteuid(), libc::getegid()) }
}

/// Whether this process holds the capabilities that namespaces, mounts and network devices need
/// (`CAP_SYS_ADMIN`, `CAP_NET_ADMIN`, `CAP_NET_RAW`), so that it needs no user namespace.
pub fn is_privileged() -> bool {
    const NET_ADMIN: u64 = 1 << 12;
    const NET_RAW: u64 = 1 << 13;
    const SYS_ADMIN: u64 = 1 << 21;
    const NEEDED: u64 = NET_ADMIN | NET_RAW | SYS_ADMIN;
    let Ok(status) = fs::read_to_string("/proc/self/status") else { return false };
    let effective = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    let mask = effective.and_then(|text| u64::from_str_radix(text.trim(), 16).ok());
    mask.is_some_and(|mask| mask & NEEDED == NEEDED)
}

/// Sets the host name of the calling thread's UTS namespace.
pub fn set_host_name(name: &str) -> Result<()> {
    // SAFETY: the pointer and the length describe `name`.
    check("sethostname", unsafe { libc::sethostname(name.as_ptr().cast(), name.len()) })?;
    Ok(())
}

pub(crate) fn c_path(path: &Path) -> Result<CString> {
    c_bytes(path.as_os_str().as_bytes())
}

pub(crate) fn c_bytes(bytes: &[u8]) -> Result<CString> {
    CString::new(bytes).map_err(|_| Error::Nul(String::from_utf8_lossy(bytes).into_owned()))
}

/// Options of a mount.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// No set-user-id programs, no devices.
    Plain,
    /// Also no writing.
    ReadOnly,
}

fn mount(
    action: &'static str,
    source: &Path,
    target: &Path,
    kind: Option<&str>,
    flags: libc::c_ulong,
) -> Result<()> {
    let source = c_path(source)?;
    let at = c_path(target)?;
    let kind = kind.map(|kind| c_bytes(kind.as_bytes())).transpose()?;
    let kind = kind.as_ref().map_or(std::ptr::null(), |kind| kind.as_ptr());
    // SAFETY: all strings end in NUL and outlive the call; no data argument is passed.
    let result =
        unsafe { libc::mount(source.as_ptr(), at.as_ptr(), kind, flags, std::ptr::null()) };
    if result == -1 {
        return Err(Error::file(action, target, io::Error::last_os_error()));
    }
    Ok(())
}

/// Cuts every mount of this mount namespace off from those it was copied from, both ways.
pub fn make_mounts_private() -> Result<()> {
    let flags = libc::MS_REC | libc::MS_PRIVATE;
    mount("make private", Path::new("none"), Path::new("/"), None, flags)
}

/// Mounts a new instance of the file system `kind` (`proc`, `tmpfs`, `sysfs`) on `target`.
pub fn mount_new(kind: &str, target: &Path, mode: Mode) -> Result<()> {
    let mut flags = libc::MS_NOSUID | libc::MS_NODEV;
    if kind != "tmpfs" {
        flags |= libc::MS_NOEXEC;
    }
    if mode == Mode::ReadOnly {
        flags |= libc::MS_RDONLY;
    }
    mount("mount on", Path::new(kind), target, Some(kind), flags)
}

/// Makes `source` appear at `target`, which must exist and be of the same type.
pub fn bind(source: &Path, target: &Path) -> Result<()> {
    mount("bind-mount on", source, target, None, libc::MS_BIND)
}

/// Takes the uppermost mount off `target`; what is in use stays usable.
pub fn detach(target: &Path) -> Result<()> {
    let path = c_path(target)?;
    // SAFETY: the string ends in NUL and outlives the call.
    let result = unsafe { libc::umount2(path.as_ptr(), libc::MNT_DETACH) };
    if result == -1 {
        return Err(Error::file("unmount", target, io::Error::last_os_error()));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd;

    use super::*;

    #[test]
    fn kinds_combine() {
        let both = Kinds::NET | Kinds::PID;
        assert!(both.contains(Kinds::NET) && !both.contains(Kinds::USER));
    }

    #[test]
    fn entering_and_returning() {
        let home = fs::read_link("/proc/thread-self/ns/net").unwrap();
        let other = std::thread::spawn(|| {
            unshare(Kinds::NET)?;
            current_net()
        });
        let other = match other.join().unwrap() {
            Ok(net) => net,
            Err(error) => {
                eprintln!("SKIPPED entering_and_returning: no network namespace: {error}");
                return;
            }
        };
        let inside =
            in_net(other.as_fd(), || fs::read_link("/proc/thread-self/ns/net").unwrap()).unwrap();
        assert_ne!(inside, home);
        assert_eq!(fs::read_link("/proc/thread-self/ns/net").unwrap(), home);
    }

    #[test]
    fn nul_is_refused() {
        assert!(matches!(mount_new("tmp\0fs", Path::new("/"), Mode::Plain), Err(Error::Nul(_))));
    }
}
