//! The visible part of the host for processes of a lab: files, kernel parameters, devices.

use std::fs::{self, File, Permissions};
use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _, PermissionsExt as _, chown, symlink};
use std::path::{Path, PathBuf};

use crate::namespace::{self, Access, Mode};
use crate::{Error, Result};

/// Kernel parameters that programs may change: those of the network namespace.
const WRITABLE: &str = "/proc/sys/net";

/// Files and folders of `/proc`, besides those of processes, that programs can read. They cannot
/// write them, though root of a lab has the permissions of their owner.
const READABLE: [&str; 40] = [
    "buddyinfo",
    "bus",
    "cgroups",
    "cmdline",
    "config.gz",
    "consoles",
    "cpuinfo",
    "crypto",
    "devices",
    "diskstats",
    "dma",
    "driver",
    "execdomains",
    "fb",
    "filesystems",
    "fs",
    "interrupts",
    "ioports",
    "irq",
    "loadavg",
    "locks",
    "mdstat",
    "meminfo",
    "misc",
    "modules",
    "mtrr",
    "pagetypeinfo",
    "partitions",
    "pressure",
    "schedstat",
    "softirqs",
    "stat",
    "swaps",
    "sys",
    "sysvipc",
    "tty",
    "uptime",
    "version",
    "vmstat",
    "zoneinfo",
];

/// Device files that programs may open.
const DEVICES: [&str; 7] = ["null", "zero", "full", "random", "urandom", "tty", "net/tun"];

/// Folders that every lab may change. The kernel files of processes are protected separately.
const WRITABLE_FOLDERS: [&str; 3] = ["/proc", "/tmp", "/var/tmp"];

/// Folders with sockets and files of the host's services. The second usually links to the first.
const SERVICES: [&str; 2] = ["/run", "/var/run"];

const RESOLVER: &str = "/etc/resolv.conf";
/// As the kernel (`MAXSYMLINKS`).
const MAX_LINKS: usize = 40;

/// A folder on which a new `/dev` is temporarily mounted.
const STAGE: &str = "/tmp";

/// Makes `/proc` read-only, except the files of processes and the kernel parameters of the network
/// namespace. Hides all entries that are not in a list: those that reveal or change the state of
/// the host, its memory and its keys, and what a later kernel adds.
pub fn protect_parameters() -> Result<()> {
    let null = Path::new("/dev/null");
    for (path, is_folder) in kernel_files()? {
        let name = path.file_name().and_then(|name| name.to_str());
        if name.is_some_and(|name| READABLE.contains(&name)) {
            protect(&path)?;
        } else if is_folder {
            namespace::mount_new("tmpfs", &path, Mode::ReadOnly)?;
        } else {
            namespace::bind(null, &path)?;
        }
    }
    let net = Path::new(WRITABLE);
    if exists(net) {
        namespace::bind(net, net)?;
        namespace::set_access(net, Access::Writable, false)?;
    }
    Ok(())
}

/// The entries of `/proc` that are neither of a process nor links, and whether they are folders.
fn kernel_files() -> Result<Vec<(PathBuf, bool)>> {
    let failed = |cause| Error::file("read", "/proc", cause);
    let mut found = Vec::new();
    for entry in fs::read_dir("/proc").map_err(failed)? {
        let entry = entry.map_err(failed)?;
        let kind = entry.file_type().map_err(failed)?;
        let name = entry.file_name();
        let is_process = name.to_string_lossy().bytes().all(|byte| byte.is_ascii_digit());
        if !is_process && !kind.is_symlink() {
            found.push((entry.path(), kind.is_dir()));
        }
    }
    Ok(found)
}

/// Whether a path exists and is not a symbolic link.
fn exists(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok_and(|data| !data.is_symlink())
}

/// Makes `path`, and all mounts below it, read-only.
pub fn protect(path: &Path) -> Result<()> {
    namespace::bind_all(path, path)?;
    namespace::set_access(path, Access::ReadOnly, true)
}

/// Makes all files read-only except those in `/tmp`, `/var/tmp` and the folders `writable`, which
/// must exist. Covers `/run` with an empty folder, so that sockets of services cannot be reached:
/// they would act for a program with the rights of its user. Also covers the folders `hidden`.
///
/// The root folder stays read-only even if it is listed.
pub fn protect_files(writable: &[PathBuf], hidden: &[PathBuf]) -> Result<()> {
    let optional = WRITABLE_FOLDERS.map(PathBuf::from).into_iter().filter(|path| path.exists());
    let held = hold_folders(optional.chain(writable.iter().cloned()))?;
    let resolver = fs::read(RESOLVER).ok();
    namespace::set_access(Path::new("/"), Access::ReadOnly, true)?;
    for path in SERVICES.map(Path::new).into_iter().filter(|path| exists(path)) {
        empty_services(path)?;
    }
    if let Some(text) = resolver {
        restore_resolver(&text)?;
    }
    for (path, mount) in held {
        if !path.exists() {
            // A path below `/run`, which is empty now.
            fs::create_dir_all(&path).map_err(|e| Error::file("make", &path, e))?;
        }
        namespace::attach_mount(mount.as_fd(), &path)?;
    }
    for path in hidden.iter().filter(|path| exists(path)) {
        namespace::mount_new("tmpfs", path, Mode::Plain)?;
        set_mode(path, 0o700)?;
    }
    // The working directory is still in the mount below.
    let dir = std::env::current_dir();
    let _ = dir.and_then(std::env::set_current_dir);
    Ok(())
}

/// Copies of the mounts of these folders, with their present permissions. Omits folders that are
/// inside another one.
fn hold_folders(folders: impl Iterator<Item = PathBuf>) -> Result<Vec<(PathBuf, OwnedFd)>> {
    let resolve = |path: PathBuf| {
        fs::canonicalize(&path)
            .map_err(|cause| Error::file("find the writable folder", path, cause))
    };
    let mut paths = folders.map(resolve).collect::<Result<Vec<_>>>()?;
    paths.retain(|path| path.parent().is_some());
    paths.sort();
    // A sorted list has a folder before those inside it.
    paths.dedup_by(|path, earlier| path.starts_with(earlier));
    paths.into_iter().map(|path| namespace::copy_mount(&path).map(|mount| (path, mount))).collect()
}

/// Mounts a folder in memory over `path`, with the links and empty folders of the original: a
/// service in the lab may need a folder that the host's package has created for it.
fn empty_services(path: &Path) -> Result<()> {
    let read = |e| Error::file("read", path, e);
    let mut entries = Vec::new();
    for entry in fs::read_dir(path).map_err(read)?.filter_map(io::Result::ok) {
        let facts = fs::symlink_metadata(entry.path());
        let link = fs::read_link(entry.path()).ok();
        entries.extend(facts.ok().map(|facts| (entry.path(), facts, link)));
    }
    namespace::mount_new("tmpfs", path, Mode::Plain)?;
    set_mode(path, 0o755)?;
    for (path, facts, link) in entries {
        if let Some(link) = link {
            symlink(link, &path).map_err(|e| Error::file("make", &path, e))?;
        } else if facts.is_dir() {
            fs::create_dir(&path).map_err(|e| Error::file("make", &path, e))?;
            // An owner without a number in the user namespace: the folder keeps its new owner.
            let _ = chown(&path, Some(facts.uid()), Some(facts.gid()));
            set_mode(&path, facts.mode() & 0o7777)?;
        }
    }
    Ok(())
}

fn set_mode(path: &Path, mode: u32) -> Result<()> {
    let permissions = Permissions::from_mode(mode);
    fs::set_permissions(path, permissions)
        .map_err(|e| Error::file("change permissions of", path, e))
}

/// Writes the resolver's configuration to the file to which `/etc/resolv.conf` is a link, if that
/// was in a folder that is now empty.
fn restore_resolver(text: &[u8]) -> Result<()> {
    let mut path = PathBuf::from(RESOLVER);
    for _ in 0..MAX_LINKS {
        let Ok(target) = fs::read_link(&path) else { break };
        path.pop();
        path.push(target);
    }
    if path.exists() {
        return Ok(());
    }
    let folder = path.parent().unwrap_or(Path::new("/"));
    fs::create_dir_all(folder).map_err(|e| Error::file("make", folder, e))?;
    fs::write(&path, text).map_err(|e| Error::file("write", &path, e))
}

/// Makes all files writable again for a privileged program, except those that the user of the lab
/// cannot write either. The mounts of the calling process must be its own.
pub fn unprotect_files() -> Result<()> {
    for path in namespace::mount_points()? {
        // A user namespace does not permit it for mounts that were read-only before the lab. A
        // covered mount has no path.
        let _ = namespace::set_access(&path, Access::Writable, false);
    }
    Ok(())
}

/// Replaces `/dev` by a folder with safe devices (`null`, `random`, …) and private terminals, and
/// disables device files on all other file systems.
pub fn replace_devices() -> Result<()> {
    namespace::set_access(Path::new("/"), Access::NoDevices, true)?;
    let stage = Path::new(STAGE);
    namespace::mount_new("tmpfs", stage, Mode::Plain)?;
    // In a sticky folder with write permission for all, Linux rejects `> /dev/null` by users other
    // than the owner.
    set_mode(stage, 0o755)?;
    let filled = fill(stage).and_then(|()| namespace::bind_all(stage, Path::new("/dev")));
    namespace::detach(stage)?;
    filled
}

fn fill(stage: &Path) -> Result<()> {
    let folder = |name: &str| {
        let path = stage.join(name);
        fs::create_dir(&path).map_err(|e| Error::file("make", &path, e)).map(|()| path)
    };
    let (pts, shm) = (folder("pts")?, folder("shm")?);
    folder("net")?;
    for name in DEVICES {
        let (source, target) = (Path::new("/dev").join(name), stage.join(name));
        if fs::metadata(&source).is_ok_and(|data| data.file_type().is_char_device()) {
            File::create(&target).map_err(|e| Error::file("make", &target, e))?;
            namespace::bind(&source, &target)?;
            namespace::set_access(&target, Access::Devices, false)?;
        }
    }
    namespace::mount_terminals(&pts)?;
    namespace::mount_new("tmpfs", &shm, Mode::Plain)?;
    let links = [
        ("fd", "/proc/self/fd"),
        ("stdin", "/proc/self/fd/0"),
        ("stdout", "/proc/self/fd/1"),
        ("stderr", "/proc/self/fd/2"),
        ("ptmx", "pts/ptmx"),
    ];
    for (name, target) in links {
        let path = stage.join(name);
        symlink(target, &path).map_err(|e| Error::file("make", &path, e))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::{UnixDatagram, UnixListener};

    use super::*;
    use crate::namespace::testing::in_new_mounts;

    /// A folder for a test. Dropping it removes it.
    struct Place(PathBuf);

    impl Place {
        fn new(parent: &Path, test: &str) -> Self {
            let path = parent.join(format!("nt-{}-{test}", std::process::id()));
            fs::create_dir(&path).unwrap();
            Self(path)
        }
    }

    /// A folder in `/run`, if this user may create it.
    fn in_run(test: &str, name: &str) -> Option<Place> {
        if rustix::fs::access("/run", rustix::fs::Access::WRITE_OK).is_err() {
            eprintln!("SKIPPED {test}: this user cannot write to /run");
            return None;
        }
        Some(Place::new(Path::new("/run"), name))
    }

    impl Drop for Place {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    fn has_read_only_mount(path: &Path) -> bool {
        let flags = rustix::fs::statvfs(path).unwrap().f_flag;
        flags.contains(rustix::fs::StatVfsMountFlags::RDONLY)
    }

    fn is_read_only(path: &Path) -> bool {
        let made = fs::create_dir(path);
        if made.is_ok() {
            fs::remove_dir(path).unwrap();
        }
        made.is_err_and(|error| error.kind() == io::ErrorKind::ReadOnlyFilesystem)
    }

    #[test]
    fn only_the_listed_folders_are_writable() {
        let hidden = Place::new(Path::new("/tmp"), "hidden");
        fs::write(hidden.0.join("file"), "").unwrap();
        in_new_mounts("only_the_listed_folders_are_writable", || {
            // A folder that is not for temporary files.
            let current = Path::new("/mnt");
            namespace::mount_new("tmpfs", current, Mode::Plain).unwrap();
            let open = current.join("open");
            fs::create_dir(&open).unwrap();
            protect_files(&[open.clone(), "/".into()], std::slice::from_ref(&hidden.0)).unwrap();
            fs::write(open.join("file"), "").unwrap();
            let closed = ["/", "/usr", "/etc", "/root", "/var/spool"].map(Path::new);
            for path in closed.into_iter().chain([current]).filter(|path| path.is_dir()) {
                assert!(is_read_only(&path.join("nt-new")), "{}", path.display());
            }
            assert!(fs::read_dir(&hidden.0).unwrap().next().is_none());
            fs::write("/tmp/nt-view", "").unwrap();
            fs::remove_file("/tmp/nt-view").unwrap();
            unprotect_files().unwrap();
            assert!(!is_read_only(&current.join("nt-open-again")));
            assert!(open.join("file").exists());
        });
        assert!(hidden.0.join("file").exists());
    }

    #[test]
    fn run_has_the_folders_of_the_host_and_no_sockets() {
        let test = "run_has_the_folders_of_the_host_and_no_sockets";
        let Some(place) = in_run(test, "sockets") else { return };
        fs::create_dir(place.0.join("inner")).unwrap();
        let paths = ["datagram", "stream", "inner/stream", "file"].map(|name| place.0.join(name));
        let [datagram, stream, inner, file] = &paths;
        let _datagram = UnixDatagram::bind(datagram).unwrap();
        let _streams = [stream, inner].map(|path| UnixListener::bind(path).unwrap());
        fs::write(file, "").unwrap();
        in_new_mounts(test, || {
            protect_files(&[], &[]).unwrap();
            assert!(place.0.is_dir());
            for path in &paths {
                assert!(!path.exists(), "{}", path.display());
            }
            fs::write(place.0.join("new"), "").unwrap();
        });
        assert!(!place.0.join("new").exists());
    }

    #[test]
    fn protects_and_hides_files_of_the_kernel() {
        let test = "protects_and_hides_files_of_the_kernel";
        in_new_mounts(test, || {
            if let Err(error) = protect_parameters() {
                eprintln!("SKIPPED {test}: {error}");
                return;
            }
            let hidden = ["kallsyms", "kcore", "kpagecgroup", "sysrq-trigger", "vmallocinfo"];
            for (path, is_folder) in kernel_files().unwrap() {
                let name = path.file_name().and_then(|name| name.to_str()).unwrap();
                let is_readable = READABLE.contains(&name);
                assert!(!is_readable || !hidden.contains(&name), "{name}");
                let facts = fs::metadata(&path).unwrap();
                assert_eq!(
                    facts.file_type().is_char_device(),
                    !is_readable && !is_folder,
                    "{name}"
                );
                if is_folder && !is_readable {
                    assert_eq!(fs::read_dir(&path).unwrap().count(), 0, "{name}");
                }
                if is_folder || is_readable {
                    assert!(has_read_only_mount(&path), "{name}");
                }
                if is_readable && !is_folder {
                    let refused = File::options().write(true).open(&path).unwrap_err();
                    assert_eq!(refused.raw_os_error(), Some(libc::EROFS), "{name}");
                }
            }
            assert!(!has_read_only_mount(Path::new(WRITABLE)));
        });
    }

    #[test]
    fn keeps_a_folder_below_run_that_is_listed() {
        let test = "keeps_a_folder_below_run_that_is_listed";
        let Some(place) = in_run(test, "listed") else { return };
        let inner = place.0.join("inner");
        fs::create_dir(&inner).unwrap();
        let done = in_new_mounts(test, || {
            protect_files(std::slice::from_ref(&inner), &[]).unwrap();
            fs::write(inner.join("new"), "").unwrap();
        });
        assert_eq!(inner.join("new").exists(), done.is_some());
    }

    #[test]
    fn a_missing_folder_is_an_error() {
        let test = "a_missing_folder_is_an_error";
        let work = || protect_files(&["/no/such/folder".into()], &[]).unwrap_err();
        if let Some(error) = in_new_mounts(test, work) {
            let text = error.to_string();
            assert!(text.starts_with("cannot find the writable folder /no/such"), "{text}");
        }
    }
}
