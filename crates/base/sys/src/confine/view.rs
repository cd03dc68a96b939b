//! The visible part of the host for processes of a lab: kernel parameters, devices, system files,
//! and sockets of services.

use std::fs::{self, File, Permissions};
use std::io::ErrorKind;
use std::os::unix::fs::{FileTypeExt as _, PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};

use crate::namespace::{self, Access, Mode};
use crate::{Error, Result};

/// Kernel parameters that programs may change: those of the network namespace.
const WRITABLE: &str = "/proc/sys/net";

/// Files and folders of `/proc` that change or reveal the state of the whole host.
const READ_ONLY: [&str; 5] =
    ["/proc/bus", "/proc/fs", "/proc/irq", "/proc/sysrq-trigger", "/proc/sys"];
const HIDDEN: [&str; 7] = [
    "/proc/kcore",
    "/proc/keys",
    "/proc/kallsyms",
    "/proc/kpagecount",
    "/proc/kpageflags",
    "/proc/sched_debug",
    "/proc/timer_list",
];

/// Device files that programs may open.
const DEVICES: [&str; 7] = ["null", "zero", "full", "random", "urandom", "tty", "net/tun"];

/// Folders of programs and of their configuration.
const SYSTEM: [&str; 10] = [
    "/usr",
    "/etc",
    "/boot",
    "/bin",
    "/sbin",
    "/lib",
    "/lib32",
    "/lib64",
    "/var/spool/cron",
    "/root/.ssh",
];

/// A folder on which a new `/dev` is temporarily mounted.
const STAGE: &str = "/tmp";

/// Makes kernel parameters below `/proc` read-only, except those of the network namespace, and
/// hides files that reveal the host's memory and keys.
pub fn protect_parameters() -> Result<()> {
    for path in READ_ONLY.map(Path::new) {
        if exists(path) {
            protect(path)?;
        }
    }
    let net = Path::new(WRITABLE);
    if exists(net) {
        namespace::bind(net, net)?;
        namespace::set_access(net, Access::Writable, false)?;
    }
    let null = Path::new("/dev/null");
    for path in HIDDEN.map(Path::new) {
        if exists(path) {
            namespace::bind(null, path)?;
        }
    }
    Ok(())
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

/// Makes the folders of programs and of their configuration read-only.
pub fn protect_system() -> Result<()> {
    SYSTEM.map(Path::new).into_iter().filter(|path| exists(path)).try_for_each(protect)
}

/// Replaces `/dev` by one with harmless devices and private terminals, and disables device files on
/// all other file systems.
pub fn replace_devices() -> Result<()> {
    namespace::set_access(Path::new("/"), Access::NoDevices, true)?;
    let stage = Path::new(STAGE);
    namespace::mount_new("tmpfs", stage, Mode::Plain)?;
    // In a sticky folder with write permission for all, Linux rejects `> /dev/null` by users other
    // than the owner.
    fs::set_permissions(stage, Permissions::from_mode(0o755))
        .map_err(|e| Error::file("change permissions of", stage, e))?;
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

/// Sockets below `/run` on which services of the host accept connections (message bus, service
/// managers, container engines), in the calling process's network namespace. They would act for a
/// program with the rights of its user.
pub fn services() -> Result<Vec<PathBuf>> {
    let path = "/proc/net/unix";
    let text = fs::read_to_string(path).map_err(|e| Error::file("read", path, e))?;
    Ok(listening_sockets(&text).map(PathBuf::from).collect())
}

/// Covers those files that exist.
pub fn hide(paths: &[PathBuf]) -> Result<()> {
    for path in paths {
        match namespace::bind(Path::new("/dev/null"), path) {
            Err(Error::File { cause, .. }) if cause.kind() == ErrorKind::NotFound => {}
            // A parent folder is inaccessible for this process, and therefore for its programs.
            Err(error) if error.is_denied() => {}
            result => result?,
        }
    }
    Ok(())
}

/// Paths of listening sockets below `/run`, without those of users' own services.
fn listening_sockets(table: &str) -> impl Iterator<Item = &str> {
    /// `__SO_ACCEPTCON`.
    const ACCEPTS: u64 = 0x1_0000;
    table.lines().skip(1).filter_map(|line| {
        // Num RefCount Protocol Flags Type St Inode Path
        let mut fields = line.split_ascii_whitespace();
        let flags = u64::from_str_radix(fields.nth(3)?, 16).ok()?;
        let path = fields.nth(3)?;
        let is_service = path.starts_with("/run/") || path.starts_with("/var/run/");
        let is_own = path.starts_with("/run/user/") || path.starts_with("/run/netarium");
        (flags & ACCEPTS != 0 && is_service && !is_own).then_some(path)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_listening_sockets_of_services() {
        let table = "\
Num       RefCount Protocol Flags    Type St Inode Path
0000000000000000: 00000002 00000000 00010000 0001 01 12345 /run/dbus/system_bus_socket
0000000000000000: 00000003 00000000 00000000 0001 03 12346 /run/dbus/system_bus_socket
0000000000000000: 00000002 00000000 00010000 0005 01 12347 /run/udev/control
0000000000000000: 00000002 00000000 00010000 0001 01 12348 /run/user/1000/bus
0000000000000000: 00000002 00000000 00010000 0001 01 12349 @/tmp/.X11-unix/X0
0000000000000000: 00000002 00000000 00010000 0001 01 12350
0000000000000000: 00000002 00000000 00010000 0001 01 12351 /tmp/test.sock
";
        let found: Vec<&str> = listening_sockets(table).collect();
        assert_eq!(found, ["/run/dbus/system_bus_socket", "/run/udev/control"]);
    }
}
