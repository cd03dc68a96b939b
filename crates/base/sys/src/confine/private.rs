//! A copy-on-write view of folders: overlay file systems in a separate mount namespace, whose
//! changes are in memory and end with the namespace.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::os::unix::fs::{chown, symlink};
use std::path::{Path, PathBuf};

use crate::namespace::{self, Access, Kinds, Mode, of_descriptor, unescape};
use crate::{Error, Result, sysctl};

/// A folder of the lab on which the changes are temporarily mounted.
const STAGE: &str = "/dev/shm";

/// Folders of the kernel, which are not part of a view.
const KERNEL: [&str; 3] = ["/dev", "/proc", "/sys"];

/// File systems without files of the host. Their mounts stay as they are.
const NO_STORAGE: [&str; 21] = [
    "autofs",
    "binfmt_misc",
    "bpf",
    "cgroup",
    "cgroup2",
    "configfs",
    "debugfs",
    "devpts",
    "devtmpfs",
    "efivarfs",
    "fusectl",
    "hugetlbfs",
    "mqueue",
    "nsfs",
    "proc",
    "pstore",
    "rpc_pipefs",
    "securityfs",
    "selinuxfs",
    "sysfs",
    "tracefs",
];

/// Limits of a folder beside a mount, whose entries are mounted and copied one by one.
const MAX_ENTRIES: usize = 4096;
const MAX_COPY_BYTES: u64 = 1 << 20;

/// A view to be built.
#[derive(Debug)]
pub struct View<'a> {
    /// The private folders; `None`: all except those of the kernel.
    pub folders: Option<&'a [PathBuf]>,
    /// Folders in them that stay shared with the host.
    pub shared: &'a [&'a Path],
    /// Maximum bytes of changed and new files.
    pub bytes: u64,
    /// Owner of private folders whose own owner has no number in this user namespace.
    pub owner: (u32, u32),
}

impl View<'_> {
    /// Builds the view in a new mount namespace, a copy of this one.
    ///
    /// # Errors
    /// The folder or mount, and the error of the kernel: `EINVAL` if a folder is on a file system
    /// that overlayfs does not support, `ENODEV` without overlayfs.
    pub fn build(&self) -> Result<OwnedFd> {
        namespace::in_thread(|| {
            namespace::unshare(Kinds::MOUNT)?;
            let builder = Builder::new(self.owner)?;
            namespace::mount_memory(Path::new(STAGE), self.bytes)?;
            self.build_here(builder)?;
            namespace::current_mounts()
        })
    }

    fn build_here(&self, mut builder: Builder) -> Result<()> {
        let mut shared = Vec::new();
        for path in self.shared {
            let path = resolved(path)?;
            shared.push((hold(&path)?, path));
        }
        let folders = match self.folders {
            Some(folders) => folders.iter().map(|path| resolved(path)).collect::<Result<_>>()?,
            None => top_folders()?,
        };
        for folder in &folders {
            builder.cover(folder, self.folders.is_some())?;
        }
        for (fd, path) in &shared {
            // A private folder that is listed wins over a shared one that contains it.
            if folders.iter().any(|folder| path.starts_with(folder)) {
                namespace::bind_all(&of_descriptor(fd.as_fd()), path)?;
            }
        }
        let stage = Path::new(STAGE);
        namespace::detach(stage)?;
        if self.folders.is_none() {
            namespace::set_access(Path::new("/"), Access::ReadOnly, false)?;
            namespace::mount_new("tmpfs", stage, Mode::Plain)?;
        }
        Ok(())
    }
}

/// The folders in `/` that a view of all files covers.
fn top_folders() -> Result<Vec<PathBuf>> {
    let root = Path::new("/");
    let mut folders = Vec::new();
    for entry in fs::read_dir(root).map_err(|e| Error::file("read", root, e))? {
        let entry = entry.map_err(|e| Error::file("read", root, e))?;
        let is_folder = entry.file_type().is_ok_and(|kind| kind.is_dir());
        if is_folder && !KERNEL.iter().any(|kernel| entry.path() == Path::new(kernel)) {
            folders.push(entry.path());
        }
    }
    folders.sort();
    Ok(folders)
}

fn resolved(path: &Path) -> Result<PathBuf> {
    fs::canonicalize(path).map_err(|e| Error::file("find", path, e))
}

/// A descriptor that refers to this file when something is mounted on its path.
fn hold(path: &Path) -> Result<OwnedFd> {
    let mut options = OpenOptions::new();
    options.read(true).custom_flags(libc::O_PATH | libc::O_NOFOLLOW);
    options.open(path).map(OwnedFd::from).map_err(|e| Error::file("open", path, e))
}

/// A line of `/proc/self/mountinfo` (proc(5)).
#[derive(Debug, PartialEq, Eq)]
struct MountPoint {
    path: PathBuf,
    /// Whether it has files that can be changed.
    is_storage: bool,
}

impl MountPoint {
    fn parse(line: &str) -> Option<Self> {
        // ID parent device root path options optional... - type source options
        let (own, rest) = line.split_once(" - ")?;
        let path = unescape(own.split(' ').nth(4)?);
        let mut fields = rest.split(' ');
        let (kind, options) = (fields.next()?, fields.nth(1)?);
        let is_read_only = options.split(',').any(|option| option == "ro");
        Some(Self { path, is_storage: !is_read_only && !NO_STORAGE.contains(&kind) })
    }
}

/// State of a view that is being built.
struct Builder {
    mounts: Vec<MountPoint>,
    /// Number of folders made on the stage.
    made: usize,
    owner: (u32, u32),
    /// The number that stands for users and groups without a number in this user namespace; `None`
    /// if all have one.
    unmapped: Option<u32>,
}

impl Builder {
    fn new(owner: (u32, u32)) -> Result<Self> {
        let text = namespace::mount_table()?;
        let unmapped = if namespace::is_mapped("self", u32::MAX - 1, u32::MAX - 1) {
            None
        } else {
            sysctl::read("kernel/overflowuid").ok().and_then(|text| text.trim().parse().ok())
        };
        let mounts = text.lines().filter_map(MountPoint::parse).collect();
        Ok(Self { mounts, made: 0, owner, unmapped })
    }

    /// The topmost mounts below a folder.
    fn below(&self, folder: &Path) -> Vec<(PathBuf, bool)> {
        let inside = |path: &Path| path != folder && path.starts_with(folder);
        let mut found: Vec<(PathBuf, bool)> = Vec::new();
        let mut all: Vec<&MountPoint> =
            self.mounts.iter().filter(|mount| inside(&mount.path)).collect();
        all.sort_by(|a, b| a.path.cmp(&b.path));
        for mount in all {
            match found.last_mut() {
                Some((path, is_storage)) if *path == mount.path => *is_storage = mount.is_storage,
                Some((path, _)) if mount.path.starts_with(&*path) => {}
                _ => found.push((mount.path.clone(), mount.is_storage)),
            }
        }
        found
    }

    /// Makes a folder private. A folder that overlayfs does not support is an error if it was
    /// `requested`, and otherwise becomes read-only.
    fn cover(&mut self, folder: &Path, requested: bool) -> Result<()> {
        let below = self.below(folder);
        let lower = hold(folder)?;
        // Paths that cannot be opened are hidden by other mounts.
        let held: Vec<_> = below
            .iter()
            .filter_map(|(path, is_storage)| Some((hold(path).ok()?, path, *is_storage)))
            .collect();
        match self.overlay(&lower, folder, requested) {
            Ok(()) => {}
            // The kernel refuses an overlay that would uncover a folder below a mount of the host.
            Err(error) if error.errno() == Some(libc::EINVAL) && !below.is_empty() => {
                return match self.split(folder) {
                    Err(_) if !requested => freeze(folder),
                    result => result,
                };
            }
            Err(error) if error.errno() == Some(libc::EINVAL) && !requested => {
                return freeze(folder);
            }
            Err(error) => return Err(error),
        }
        for (fd, path, is_storage) in held {
            namespace::bind_all(&of_descriptor(fd.as_fd()), path)?;
            if is_storage && path.is_dir() {
                self.cover(path, false)?;
            }
        }
        Ok(())
    }

    fn overlay(&mut self, lower: &OwnedFd, folder: &Path, requested: bool) -> Result<()> {
        let stage = self.make_folder()?;
        let [upper, work, empty] = ["upper", "work", "empty"].map(|name| stage.join(name));
        for path in [&upper, &work] {
            create_dir(path)?;
        }
        let owner = if requested { self.owner } else { (0, 0) };
        self.copy_attributes(folder, &upper, owner)?;
        if rustix::fs::access(folder, ACCESSIBLE).is_ok() {
            self.adopt(folder, &upper, owner)?;
            return namespace::mount_overlay(lower.as_fd(), &upper, &work, folder);
        }
        // Each access to a file of such a folder would fail: in the view it is empty.
        create_dir(&empty)?;
        namespace::mount_overlay(hold(&empty)?.as_fd(), &upper, &work, folder)
    }

    /// Makes folders in `upper` for those in `folder` whose owner has no ID in this user namespace:
    /// overlayfs cannot copy these later, so no file could be created in them.
    fn adopt(&self, folder: &Path, upper: &Path, owner: (u32, u32)) -> Result<()> {
        let Some(unmapped) = self.unmapped else { return Ok(()) };
        let entries = fs::read_dir(folder).map_err(|e| Error::file("read", folder, e))?;
        for entry in entries.filter_map(io::Result::ok) {
            let (path, copy) = (entry.path(), upper.join(entry.file_name()));
            let facts = fs::symlink_metadata(&path);
            let is_foreign = facts.is_ok_and(|facts| facts.is_dir() && facts.uid() == unmapped);
            if is_foreign && rustix::fs::access(&path, ACCESSIBLE).is_ok() {
                create_dir(&copy)?;
                self.copy_attributes(&path, &copy, owner)?;
            }
        }
        Ok(())
    }

    /// Replaces a folder by a new one with its entries, each a separate mount. Files are copied;
    /// large and unreadable ones are read-only.
    fn split(&mut self, folder: &Path) -> Result<()> {
        let stage = self.make_folder()?;
        self.copy_attributes(folder, &stage, (0, 0))?;
        let mut folders = Vec::new();
        let entries = fs::read_dir(folder).map_err(|e| Error::file("read", folder, e))?;
        for (count, entry) in entries.enumerate() {
            let entry = entry.map_err(|e| Error::file("read", folder, e))?;
            if count == MAX_ENTRIES {
                let text = format!("it contains a mount and more than {MAX_ENTRIES} entries");
                let cause = io::Error::other(text);
                return Err(Error::file("give a private view of", folder, cause));
            }
            let (source, target) = (entry.path(), stage.join(entry.file_name()));
            let facts = fs::symlink_metadata(&source).map_err(|e| failed("examine", &source, e))?;
            if facts.is_symlink() {
                let link = fs::read_link(&source).map_err(|e| failed("read", &source, e))?;
                symlink(link, &target).map_err(|e| failed("create", &target, e))?;
            } else if facts.is_dir() {
                create_dir(&target)?;
                namespace::bind_all(&source, &target)?;
                folders.push(source);
            } else if facts.is_file()
                && facts.len() <= MAX_COPY_BYTES
                && fs::copy(&source, &target).is_ok()
            {
                self.copy_attributes(&source, &target, (0, 0))?;
            } else {
                File::create(&target).map_err(|e| failed("create", &target, e))?;
                namespace::bind(&source, &target)?;
                if facts.is_file() {
                    namespace::set_access(&target, Access::ReadOnly, false)?;
                }
            }
        }
        namespace::bind_all(&stage, folder)?;
        let storage = |path: &Path| {
            self.mounts.iter().rfind(|m| m.path == path).is_none_or(|mount| mount.is_storage)
        };
        let folders: Vec<PathBuf> = folders.into_iter().filter(|path| storage(path)).collect();
        folders.iter().try_for_each(|path| self.cover(path, false))
    }

    fn make_folder(&mut self) -> Result<PathBuf> {
        self.made += 1;
        let path = Path::new(STAGE).join(self.made.to_string());
        create_dir(&path)?;
        Ok(path)
    }

    /// Copies owner and permissions; `owner` replaces an owner without a number.
    fn copy_attributes(&self, from: &Path, to: &Path, owner: (u32, u32)) -> Result<()> {
        let facts = fs::metadata(from).map_err(|e| failed("examine", from, e))?;
        let known = |id, other| if Some(id) == self.unmapped { other } else { id };
        let (uid, gid) = (known(facts.uid(), owner.0), known(facts.gid(), owner.1));
        // A number outside the user namespace: the file keeps its new owner.
        let _ = chown(to, Some(uid), Some(gid));
        let permissions = fs::Permissions::from_mode(facts.mode() & 0o7777);
        fs::set_permissions(to, permissions).map_err(|e| failed("change permissions of", to, e))
    }
}

const ACCESSIBLE: rustix::fs::Access =
    rustix::fs::Access::READ_OK.union(rustix::fs::Access::EXEC_OK);

fn failed(action: &'static str, path: &Path, cause: io::Error) -> Error {
    Error::file(action, path, cause)
}

fn create_dir(path: &Path) -> Result<()> {
    fs::create_dir(path).map_err(|e| failed("create", path, e))
}

/// Makes a folder, and all mounts below it, read-only.
fn freeze(folder: &Path) -> Result<()> {
    namespace::bind_all(folder, folder)?;
    namespace::set_access(folder, Access::ReadOnly, true)
}

/// Whether this kernel can give processes of the calling process's user namespace private files,
/// and whether a removed folder can be made again in them (Linux 6.6). The calling process must be
/// in a new mount namespace.
pub fn probe(stage: &Path) -> Result<bool> {
    namespace::mount_memory(stage, 1 << 20)?;
    let [upper, work, target] = ["upper", "work", "target"].map(|name| stage.join(name));
    for path in [&upper, &work, &target, &target.join("folder")] {
        create_dir(path)?;
    }
    namespace::mount_overlay(hold(&target)?.as_fd(), &upper, &work, &target)?;
    let folder = target.join("folder");
    fs::remove_dir(&folder).map_err(|e| failed("remove", &folder, e))?;
    Ok(create_dir(&folder).is_ok())
}

#[cfg(test)]
mod tests;
