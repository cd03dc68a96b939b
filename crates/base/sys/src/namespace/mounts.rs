//! Mounts of the calling process's mount namespace: their table, permissions and copies.

use std::fs;
use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStringExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, StatVfsMountFlags};
use rustix::mount::{MoveMountFlags, OpenTreeFlags, move_mount, open_tree};

use super::{c_path, mount};
use crate::{Error, Result};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    ReadOnly,
    /// Writing is permitted if the file system permits it.
    Writable,
    NoDevices,
    Devices,
}

/// Changes the permissions of the mount at `target` (`below`: and of those below it). Before Linux
/// 5.12, each mount is changed separately.
///
/// # Errors
/// `EINVAL` if `target` is not a mount, `EPERM` if a mount of a parent user namespace forbids it.
pub fn set_access(target: &Path, access: Access, below: bool) -> Result<()> {
    match set_attributes(target, access, below) {
        Err(error) if error.errno() == Some(libc::ENOSYS) => remount(target, access, below),
        result => result,
    }
}

fn set_attributes(target: &Path, access: Access, below: bool) -> Result<()> {
    let (read_only, no_devices) = (libc::MOUNT_ATTR_RDONLY, libc::MOUNT_ATTR_NODEV);
    let (attr_set, attr_clr) = match access {
        Access::ReadOnly => (read_only, 0),
        Access::Writable => (0, read_only),
        Access::NoDevices => (no_devices, 0),
        Access::Devices => (0, no_devices),
    };
    let change = libc::mount_attr { attr_set, attr_clr, propagation: 0, userns_fd: 0 };
    let flags = if below { libc::AT_RECURSIVE } else { 0 };
    let path = c_path(target)?;
    // SAFETY: the path ends in NUL, `change` is as long as is passed, and both outlive the call.
    let result = unsafe {
        libc::syscall(
            libc::SYS_mount_setattr,
            libc::AT_FDCWD,
            path.as_ptr(),
            flags,
            &raw const change,
            size_of::<libc::mount_attr>(),
        )
    };
    if result == -1 {
        return Err(Error::file("change the mount of", target, io::Error::last_os_error()));
    }
    Ok(())
}

/// [`set_access`] for kernels without `mount_setattr`.
fn remount(target: &Path, access: Access, below: bool) -> Result<()> {
    remount_one(target, access)?;
    if !below {
        return Ok(());
    }
    let inside = |path: &PathBuf| path != target && path.starts_with(target);
    for path in mount_points()?.into_iter().filter(inside) {
        match remount_one(&path, access) {
            // Another mount covers this one.
            Err(error) if matches!(error.errno(), Some(libc::ENOENT | libc::EINVAL)) => {}
            result => result?,
        }
    }
    Ok(())
}

fn remount_one(target: &Path, access: Access) -> Result<()> {
    let facts = rustix::fs::statvfs(target)
        .map_err(|cause| Error::file("examine the mount of", target, cause.into()))?;
    // A remount changes all of these, and the kernel refuses to clear those that are locked.
    let names = [
        (StatVfsMountFlags::RDONLY, libc::MS_RDONLY),
        (StatVfsMountFlags::NOSUID, libc::MS_NOSUID),
        (StatVfsMountFlags::NODEV, libc::MS_NODEV),
        (StatVfsMountFlags::NOEXEC, libc::MS_NOEXEC),
        (StatVfsMountFlags::NOATIME, libc::MS_NOATIME),
        (StatVfsMountFlags::NODIRATIME, libc::MS_NODIRATIME),
        (StatVfsMountFlags::RELATIME, libc::MS_RELATIME),
    ];
    let present = names.into_iter().filter(|(flag, _)| facts.f_flag.contains(*flag));
    let present = present.fold(0, |flags, (_, flag)| flags | flag);
    let flags = match access {
        Access::ReadOnly => present | libc::MS_RDONLY,
        Access::Writable => present & !libc::MS_RDONLY,
        Access::NoDevices => present | libc::MS_NODEV,
        Access::Devices => present & !libc::MS_NODEV,
    };
    let flags = flags | libc::MS_REMOUNT | libc::MS_BIND;
    mount("change the mount of", Path::new("none"), target, None, flags, None)
}

/// The file `mountinfo` (proc(5)) of the calling thread: the mounts of its namespace.
pub(crate) fn mount_table() -> Result<String> {
    let path = "/proc/thread-self/mountinfo";
    fs::read_to_string(path).map_err(|e| Error::file("read", path, e))
}

pub fn mount_points() -> Result<Vec<PathBuf>> {
    let table = mount_table()?;
    Ok(table.lines().filter_map(|line| line.split(' ').nth(4)).map(unescape).collect())
}

/// Decodes `\040` and other octal numbers.
pub(crate) fn unescape(text: &str) -> PathBuf {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((first, tail)) = rest.split_first() {
        let digits = tail.get(..3).filter(|_| *first == b'\\');
        let digits = digits.and_then(|digits| std::str::from_utf8(digits).ok());
        let code = digits.and_then(|digits| u8::from_str_radix(digits, 8).ok());
        bytes.push(code.unwrap_or(*first));
        rest = if code.is_some() { &tail[3..] } else { tail };
    }
    std::ffi::OsString::from_vec(bytes).into()
}

/// A copy of the mount of a file or folder, with all mounts below it and their present permissions.
/// It has no path until [`attach_mount`]. Linux 5.2.
pub fn copy_mount(path: &Path) -> Result<OwnedFd> {
    let flags = OpenTreeFlags::OPEN_TREE_CLONE
        | OpenTreeFlags::OPEN_TREE_CLOEXEC
        | OpenTreeFlags::AT_RECURSIVE;
    open_tree(CWD, path, flags).map_err(|e| Error::file("copy the mount of", path, e.into()))
}

/// Mounts a copy of [`copy_mount`] on `path`.
pub fn attach_mount(copy: BorrowedFd<'_>, path: &Path) -> Result<()> {
    let flags = MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH;
    move_mount(copy, "", CWD, path, flags).map_err(|e| Error::file("mount on", path, e.into()))
}

#[cfg(test)]
mod tests {
    use std::io::ErrorKind;

    use super::*;
    use crate::namespace::testing::in_new_mounts;
    use crate::namespace::{self, Mode};

    #[test]
    fn a_remount_changes_all_mounts_below_and_keeps_other_flags() {
        in_new_mounts("a_remount_changes_all_mounts_below_and_keeps_other_flags", || {
            namespace::mount_new("tmpfs", Path::new("/tmp"), Mode::Plain).unwrap();
            fs::create_dir("/tmp/below").unwrap();
            namespace::mount_new("tmpfs", Path::new("/tmp/below"), Mode::Plain).unwrap();
            let write = || fs::write("/tmp/below/file", "").map_err(|error| error.kind());
            remount(Path::new("/tmp"), Access::ReadOnly, true).unwrap();
            assert_eq!(write(), Err(ErrorKind::ReadOnlyFilesystem));
            let flags = rustix::fs::statvfs("/tmp/below").unwrap().f_flag;
            assert!(flags.contains(StatVfsMountFlags::NOSUID | StatVfsMountFlags::NODEV));
            remount(Path::new("/tmp/below"), Access::Writable, false).unwrap();
            assert_eq!(write(), Ok(()));
            remount(Path::new("/"), Access::ReadOnly, true).unwrap();
            assert_eq!(write(), Err(ErrorKind::ReadOnlyFilesystem));
        });
    }
}
