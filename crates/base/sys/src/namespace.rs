//! Namespaces: creating and entering them, mapping users, mounts.

use std::ffi::CString;
use std::fs::File;
use std::io;
use std::ops::BitOr;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use crate::confine::Capabilities;
use crate::{Error, Result, check};

mod mounts;
#[cfg(test)]
pub(crate) mod testing;
mod user;

pub use mounts::{Access, attach_mount, copy_mount, mount_points, set_access};
pub(crate) use mounts::{mount_table, unescape};
pub use user::{
    IdRange, Subordinates, UserNamespace, is_mapped, is_unmappable_root, is_user_mapped, map_user,
    unshare_with_user, user_outside,
};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kinds(pub(crate) libc::c_int);

impl Kinds {
    pub const NONE: Self = Self(0);
    /// Users and capabilities.
    pub const USER: Self = Self(libc::CLONE_NEWUSER);
    /// Network devices, addresses, routes, sockets.
    pub const NET: Self = Self(libc::CLONE_NEWNET);
    pub const MOUNT: Self = Self(libc::CLONE_NEWNS);
    /// Process numbers; takes effect for children.
    pub const PID: Self = Self(libc::CLONE_NEWPID);
    /// System V and POSIX inter-process communication.
    pub const IPC: Self = Self(libc::CLONE_NEWIPC);
    /// The host name.
    pub const UTS: Self = Self(libc::CLONE_NEWUTS);
    /// Not a namespace: the root and working directory, which threads share.
    const FOLDERS: Self = Self(libc::CLONE_FS);

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

/// Moves the calling thread (for `USER`: the whole process, which must have one thread)
/// into new namespaces.
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

pub fn open(path: impl AsRef<Path>) -> Result<OwnedFd> {
    let path = path.as_ref();
    let file = File::open(path).map_err(|e| Error::file("open", path, e))?;
    Ok(file.into())
}

/// Runs `work` in the network namespace `net`, then returns to the previous one.
///
/// # Errors
/// If the namespace cannot be entered, or the previous one cannot be restored.
pub fn in_net<T>(net: BorrowedFd<'_>, work: impl FnOnce() -> T) -> Result<T> {
    let home = current_net()?;
    enter(net, Kinds::NET)?;
    let result = work();
    enter(std::os::fd::AsFd::as_fd(&home), Kinds::NET)?;
    Ok(result)
}

/// The mount namespace of the calling thread, kept alive by the descriptor.
pub fn current_mounts() -> Result<OwnedFd> {
    open("/proc/thread-self/ns/mnt")
}

/// Runs `work` in a separate thread in the mount namespace `mounts`.
///
/// # Errors
/// If the namespace cannot be entered.
pub fn in_mounts<T: Send>(mounts: BorrowedFd<'_>, work: impl FnOnce() -> T + Send) -> Result<T> {
    in_thread(|| {
        unshare(Kinds::FOLDERS)?;
        enter(mounts, Kinds::MOUNT)?;
        Ok(work())
    })
}

/// Runs `work` in a separate thread, whose namespaces can be changed without effect on this one.
pub(crate) fn in_thread<T: Send>(work: impl FnOnce() -> T + Send) -> T {
    let result = std::thread::scope(|scope| scope.spawn(work).join());
    result.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

/// Effective user and group of this process: `(uid, gid)`.
pub fn identity() -> (u32, u32) {
    // SAFETY: these calls cannot fail and touch no memory.
    unsafe { (libc::geteuid(), libc::getegid()) }
}

/// Whether this process holds the capabilities that namespaces, mounts and network devices need
/// (`CAP_SYS_ADMIN`, `CAP_NET_ADMIN`, `CAP_NET_RAW`).
pub fn is_privileged() -> bool {
    Capabilities::SYS_ADMIN.and(Capabilities::NET_ADMIN).and(Capabilities::NET_RAW).are_effective()
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
    options: Option<&str>,
) -> Result<()> {
    let source = c_path(source)?;
    let at = c_path(target)?;
    let text = |text: Option<&str>| text.map(|text| c_bytes(text.as_bytes())).transpose();
    let (kind, options) = (text(kind)?, text(options)?);
    let pointer =
        |text: &Option<CString>| text.as_ref().map_or(std::ptr::null(), |text| text.as_ptr());
    let (kind, options) = (pointer(&kind), pointer(&options));
    // SAFETY: all strings end in NUL and outlive the call.
    let result = unsafe { libc::mount(source.as_ptr(), at.as_ptr(), kind, flags, options.cast()) };
    if result == -1 {
        return Err(Error::file(action, target, io::Error::last_os_error()));
    }
    Ok(())
}

/// Stops the propagation of mounts between this mount namespace and the one that it
/// was copied from.
pub fn make_mounts_private() -> Result<()> {
    let flags = libc::MS_REC | libc::MS_PRIVATE;
    mount("make private", Path::new("none"), Path::new("/"), None, flags, None)
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
    mount("mount on", Path::new(kind), target, Some(kind), flags, None)
}

/// Mounts a new file system in memory of at most `bytes` on `target`.
pub fn mount_memory(target: &Path, bytes: u64) -> Result<()> {
    let (source, flags) = (Path::new("tmpfs"), libc::MS_NOSUID | libc::MS_NODEV);
    let options = format!("size={bytes},mode=755");
    mount("mount on", source, target, Some("tmpfs"), flags, Some(&options))
}

/// Mounts a copy-on-write view of the folder `lower` on `target`. Changes go to `upper`, and `work`
/// is an empty folder of the same file system. `upper` and `work` contain no `,`, `:` or `\`.
pub fn mount_overlay(
    lower: BorrowedFd<'_>,
    upper: &Path,
    work: &Path,
    target: &Path,
) -> Result<()> {
    let (source, flags) = (Path::new("overlay"), libc::MS_NOSUID | libc::MS_NODEV);
    // User namespaces have no `trusted` attributes.
    let options = format!(
        "lowerdir={},upperdir={},workdir={},userxattr",
        of_descriptor(lower).display(),
        upper.display(),
        work.display()
    );
    mount("mount an overlay on", source, target, Some("overlay"), flags, Some(&options))
}

/// A path of the file that `fd` refers to, whatever is mounted on its other paths.
pub(crate) fn of_descriptor(fd: BorrowedFd<'_>) -> PathBuf {
    format!("/proc/self/fd/{}", fd.as_raw_fd()).into()
}

/// Mounts a new instance of pseudoterminals on `target`, separate from that of the host.
pub fn mount_terminals(target: &Path) -> Result<()> {
    let flags = libc::MS_NOSUID | libc::MS_NOEXEC;
    let options = Some("newinstance,ptmxmode=0666");
    mount("mount on", Path::new("devpts"), target, Some("devpts"), flags, options)
}

/// Bind-mounts `source` on `target`, which must exist and be of the same type.
pub fn bind(source: &Path, target: &Path) -> Result<()> {
    mount("bind-mount on", source, target, None, libc::MS_BIND, None)
}

/// As [`bind`], with all mounts below `source`.
pub fn bind_all(source: &Path, target: &Path) -> Result<()> {
    mount("bind-mount on", source, target, None, libc::MS_BIND | libc::MS_REC, None)
}

/// Unmounts the topmost mount on `target`; files in use stay usable.
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
    use std::fs;
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
        let Some(other) = testing::in_new_net("entering_and_returning", || current_net().unwrap())
        else {
            return;
        };
        let inside =
            in_net(other.as_fd(), || fs::read_link("/proc/thread-self/ns/net").unwrap()).unwrap();
        assert_ne!(inside, home);
        assert_eq!(fs::read_link("/proc/thread-self/ns/net").unwrap(), home);
    }

    #[test]
    fn rejects_nul() {
        assert!(matches!(mount_new("tmp\0fs", Path::new("/"), Mode::Plain), Err(Error::Nul(_))));
    }
}
