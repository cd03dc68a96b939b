//! Files of run folders. Programs of a lab can write into its run folder, and a run folder may come
//! from another host, so no symbolic link is followed in any component of a path, and only regular
//! files are opened. Paths start with the real path of a run folder, as [`RunFolder`] has it.
//!
//! [`RunFolder`]: crate::RunFolder

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::io::{self, ErrorKind, Write};
use std::os::fd::OwnedFd;
use std::path::{Component, Path};

use rustix::fs::{AtFlags, CWD, Mode, OFlags, ResolveFlags};
use rustix::io::Errno;

/// Permissions of new files and folders before the umask.
const FILE_MODE: Mode = Mode::from_raw_mode(0o666);
const FOLDER_MODE: Mode = Mode::from_raw_mode(0o777);

/// Opens a regular file to read it.
///
/// # Errors
/// If it does not exist, is not a regular file, or a component of the path is a symbolic link.
pub fn open(path: &Path) -> io::Result<File> {
    // Without NONBLOCK, a FIFO would block.
    let file = resolve(path, OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY, Mode::empty())?;
    require_regular_file(file)
}

/// Reads a regular file of at most `limit` bytes; [`ErrorKind::FileTooLarge`] if it is longer.
///
/// # Errors
/// Those of [`open`], or if it cannot be read.
pub fn read(path: &Path, limit: u64) -> io::Result<Vec<u8>> {
    use io::Read as _;
    let mut bytes = Vec::new();
    open(path)?.take(limit.saturating_add(1)).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > limit { Err(ErrorKind::FileTooLarge.into()) } else { Ok(bytes) }
}

/// Reads the last bytes of a regular file, at most `limit`.
///
/// # Errors
/// Those of [`open`], or if it cannot be read.
pub fn read_end(path: &Path, limit: u64) -> io::Result<Vec<u8>> {
    use io::{Read as _, Seek as _, SeekFrom};
    let mut file = open(path)?;
    let length = file.metadata()?.len();
    file.seek(SeekFrom::Start(length.saturating_sub(limit)))?;
    let mut bytes = Vec::new();
    file.take(limit).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Creates a file to read and write it.
///
/// # Errors
/// If the file exists, or a component of the path is a symbolic link.
pub fn create_new(path: &Path) -> io::Result<File> {
    let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL;
    resolve(path, flags, FILE_MODE).map(File::from)
}

/// Opens a regular file to read it and append to it, and creates it if it does not exist.
///
/// # Errors
/// If it is not a regular file, has several names, or a component of the path is a symbolic link.
pub fn append(path: &Path) -> io::Result<File> {
    let flags = OFlags::RDWR | OFlags::APPEND | OFlags::CREATE;
    require_single_name(resolve(path, flags | OFlags::NONBLOCK | OFlags::NOCTTY, FILE_MODE)?)
}

/// Opens an existing regular file to overwrite it.
///
/// # Errors
/// If it is not a regular file, has several names, or a component of the path is a symbolic link.
pub(crate) fn overwrite(path: &Path) -> io::Result<File> {
    let flags = OFlags::WRONLY | OFlags::NONBLOCK | OFlags::NOCTTY;
    require_single_name(resolve(path, flags, Mode::empty())?)
}

/// Creates a folder unless it exists. Its parent folder must exist.
///
/// # Errors
/// If the path exists and is not a folder, or a component of it is a symbolic link.
pub fn create_folder(path: &Path) -> io::Result<()> {
    let (parent, name) = open_parent(path)?;
    match rustix::fs::mkdirat(&parent, name, FOLDER_MODE) {
        Ok(()) => Ok(()),
        Err(Errno::EXIST) => open_folder(path).map(drop),
        Err(errno) => Err(errno.into()),
    }
}

/// Replaces a file atomically: readers see either the old contents or the new. On an error, the old
/// file remains. If the old file is a symbolic link, the link is replaced and not its target.
///
/// # Errors
/// If the file cannot be written, or a component of the path of its folder is a symbolic link.
pub fn replace(path: &Path, contents: &[u8]) -> io::Result<()> {
    let replacement = Replacement::of(path)?;
    replacement.file().write_all(contents)?;
    replacement.commit()
}

/// Renames a file. Replaces a file or link with the new name.
///
/// # Errors
/// If it cannot be renamed, or a component of the path of either folder is a symbolic link.
pub fn rename(from: &Path, to: &Path) -> io::Result<()> {
    let ((old, old_name), (new, new_name)) = (open_parent(from)?, open_parent(to)?);
    Ok(rustix::fs::renameat(old, old_name, new, new_name)?)
}

/// The new contents of a file, which appear under its name with [`Replacement::commit`] and are
/// removed by a drop.
#[derive(Debug)]
pub struct Replacement {
    folder: OwnedFd,
    /// The temporary name in the folder.
    temporary: String,
    name: OsString,
    file: File,
    is_committed: bool,
}

impl Replacement {
    /// An empty file in the folder of `path`.
    ///
    /// # Errors
    /// Those of [`replace`].
    pub fn of(path: &Path) -> io::Result<Self> {
        let (folder, name) = open_parent(path)?;
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
        loop {
            // The name must be unused, not secret: an existing file is never opened.
            let random = RandomState::new().build_hasher().finish();
            let temporary = format!(".{random:016x}.tmp");
            match rustix::fs::openat(&folder, &temporary, flags, FILE_MODE) {
                Ok(file) => {
                    let (name, file) = (name.to_owned(), file.into());
                    return Ok(Self { folder, temporary, name, file, is_committed: false });
                }
                Err(Errno::EXIST) => {}
                Err(errno) => return Err(errno.into()),
            }
        }
    }

    pub fn file(&self) -> &File {
        &self.file
    }

    /// # Errors
    /// If the file cannot be renamed.
    pub fn commit(mut self) -> io::Result<()> {
        rustix::fs::renameat(&self.folder, &self.temporary, &self.folder, &self.name)?;
        self.is_committed = true;
        Ok(())
    }
}

impl Drop for Replacement {
    fn drop(&mut self) {
        if !self.is_committed {
            let _ = rustix::fs::unlinkat(&self.folder, &self.temporary, AtFlags::empty());
        }
    }
}

/// Opens the parent folder of a path, and returns the last component of the path.
fn open_parent(path: &Path) -> io::Result<(OwnedFd, &OsStr)> {
    let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else {
        return Err(io::Error::new(ErrorKind::InvalidInput, "the path has no file name"));
    };
    Ok((open_folder(parent)?, name))
}

fn open_folder(path: &Path) -> io::Result<OwnedFd> {
    let path = if path.as_os_str().is_empty() { Path::new(".") } else { path };
    resolve(path, OFlags::PATH | OFlags::DIRECTORY, Mode::empty())
}

/// Opens a path without symbolic links.
fn resolve(path: &Path, flags: OFlags, mode: Mode) -> io::Result<OwnedFd> {
    let flags = flags | OFlags::CLOEXEC;
    let links = ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
    match rustix::fs::openat2(CWD, path, flags, mode, links) {
        // Some containers reject `openat2`.
        Err(Errno::NOSYS | Errno::PERM) => open_by_component(path, flags, mode),
        opened => opened,
    }
    .map_err(|errno| match errno {
        Errno::LOOP => io::Error::other("it is or contains a symbolic link, which is not followed"),
        errno => errno.into(),
    })
}

/// Like [`resolve`], but opens one component after the other.
fn open_by_component(path: &Path, flags: OFlags, mode: Mode) -> rustix::io::Result<OwnedFd> {
    let within = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let mut components = path.components().peekable();
    let is_absolute = components.next_if_eq(&Component::RootDir).is_some();
    let start = if is_absolute { "/" } else { "." };
    let mut folder = rustix::fs::openat(CWD, start, within, Mode::empty())?;
    while let Some(component) = components.next() {
        let name = component.as_os_str();
        if components.peek().is_none() {
            let opened = rustix::fs::openat(&folder, name, flags | OFlags::NOFOLLOW, mode)?;
            return reject_link(opened, flags);
        }
        let next = rustix::fs::openat(&folder, name, within | OFlags::NOFOLLOW, Mode::empty());
        folder = next.map_err(|errno| link_error(&folder, name, errno))?;
    }
    rustix::fs::openat(&folder, ".", flags, mode)
}

/// Rejects a link: PATH with NOFOLLOW opens the link itself.
fn reject_link(opened: OwnedFd, flags: OFlags) -> rustix::io::Result<OwnedFd> {
    if flags.contains(OFlags::PATH) {
        let kind = rustix::fs::FileType::from_raw_mode(rustix::fs::fstat(&opened)?.st_mode);
        if kind.is_symlink() {
            return Err(Errno::LOOP);
        }
    }
    Ok(opened)
}

/// The error for a link: DIRECTORY with NOFOLLOW reports a link as "not a directory".
fn link_error(folder: &OwnedFd, name: &OsStr, errno: Errno) -> Errno {
    let found = rustix::fs::statat(folder, name, AtFlags::SYMLINK_NOFOLLOW);
    let is_link = found.is_ok_and(|stat| {
        rustix::fs::FileType::from_raw_mode(stat.st_mode) == rustix::fs::FileType::Symlink
    });
    if is_link { Errno::LOOP } else { errno }
}

fn require_regular_file(file: OwnedFd) -> io::Result<File> {
    let file = File::from(file);
    if file.metadata()?.is_file() {
        Ok(file)
    } else {
        Err(io::Error::other("it is not a regular file"))
    }
}

/// Rejects a file that has another name, which may be outside of the run folder.
fn require_single_name(file: OwnedFd) -> io::Result<File> {
    use std::os::unix::fs::MetadataExt as _;
    let file = require_regular_file(file)?;
    if file.metadata()?.nlink() <= 1 {
        Ok(file)
    } else {
        Err(io::Error::other("it has several names (hard links)"))
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;

    /// A folder with `outside/secret` and the run folder `run`.
    fn test_folders() -> tempfile::TempDir {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join("outside")).unwrap();
        fs::create_dir(dir.path().join("run")).unwrap();
        fs::write(dir.path().join("outside/secret"), "secret").unwrap();
        dir
    }

    #[test]
    fn rejects_symbolic_links_in_all_operations() {
        let dir = test_folders();
        let run = dir.path().join("run");
        symlink("../outside", run.join("folder")).unwrap();
        symlink("../outside/secret", run.join("file")).unwrap();
        symlink("../outside/new", run.join("dangling")).unwrap();
        for name in ["file", "folder/secret", "dangling", "folder/new"] {
            let path = run.join(name);
            assert!(open(&path).is_err(), "{name}");
            assert!(read(&path, 100).is_err(), "{name}");
            assert!(create_new(&path).is_err(), "{name}");
            assert!(append(&path).is_err(), "{name}");
            assert!(overwrite(&path).is_err(), "{name}");
            assert!(read_end(&path, 100).is_err(), "{name}");
        }
        fs::write(run.join("plain"), "x").unwrap();
        for name in ["folder/secret", "folder/new"] {
            assert!(replace(&run.join(name), b"x").is_err(), "{name}");
            assert!(rename(&run.join("plain"), &run.join(name)).is_err(), "{name}");
            assert!(rename(&run.join(name), &run.join("moved")).is_err(), "{name}");
        }
        assert!(create_folder(&run.join("folder")).is_err());
        assert!(create_folder(&run.join("folder/sub")).is_err());
        // The link is replaced, not its target.
        replace(&run.join("file"), b"new").unwrap();
        assert_eq!(fs::read(run.join("file")).unwrap(), b"new");
        let outside: Vec<_> = fs::read_dir(dir.path().join("outside")).unwrap().collect();
        assert_eq!(outside.len(), 1, "{outside:?}");
        assert_eq!(fs::read(dir.path().join("outside/secret")).unwrap(), b"secret");
    }

    #[test]
    fn opening_by_component_rejects_symbolic_links() {
        let dir = test_folders();
        let run = dir.path().join("run");
        symlink("../outside", run.join("folder")).unwrap();
        symlink("../outside/secret", run.join("file")).unwrap();
        let open = |name: &str, flags| open_by_component(&run.join(name), flags, Mode::empty());
        assert_eq!(open("file", OFlags::RDONLY).unwrap_err(), Errno::LOOP);
        assert_eq!(open("folder/secret", OFlags::RDONLY).unwrap_err(), Errno::LOOP);
        assert!(open("folder", OFlags::PATH | OFlags::DIRECTORY).is_err());
        assert_eq!(open("folder", OFlags::PATH).unwrap_err(), Errno::LOOP);
        assert_eq!(open("none", OFlags::RDONLY).unwrap_err(), Errno::NOENT);
        fs::write(run.join("plain"), "x").unwrap();
        open("plain", OFlags::RDONLY).unwrap();
        open("../run/plain", OFlags::RDONLY).unwrap();
        open_by_component(Path::new("/"), OFlags::PATH | OFlags::DIRECTORY, Mode::empty()).unwrap();
    }

    #[test]
    fn opens_only_regular_files() {
        let dir = test_folders();
        let run = dir.path().join("run");
        let fifo = run.join("fifo");
        rustix::fs::mknodat(CWD, &fifo, rustix::fs::FileType::Fifo, FILE_MODE, 0).unwrap();
        fs::create_dir(run.join("folder")).unwrap();
        for name in ["fifo", "folder"] {
            assert!(open(&run.join(name)).is_err(), "{name}");
            assert!(append(&run.join(name)).is_err(), "{name}");
        }
        assert!(open(Path::new("/dev/null")).is_err());
    }

    #[test]
    fn rejects_files_with_hard_links() {
        let dir = test_folders();
        let (secret, path) = (dir.path().join("outside/secret"), dir.path().join("run/name"));
        fs::hard_link(&secret, &path).unwrap();
        assert!(append(&path).is_err());
        assert!(overwrite(&path).is_err());
        replace(&path, b"new").unwrap();
        assert_eq!(fs::read(&secret).unwrap(), b"secret");
        assert_eq!(fs::read(&path).unwrap(), b"new");
    }

    #[test]
    fn dropped_replacement_keeps_old_file() {
        let dir = test_folders();
        let path = dir.path().join("outside/secret");
        drop(Replacement::of(&path).unwrap());
        assert_eq!(fs::read(&path).unwrap(), b"secret");
        assert_eq!(fs::read_dir(path.parent().unwrap()).unwrap().count(), 1);
    }

    #[test]
    fn rejects_files_above_size_limit() {
        let dir = test_folders();
        let path = dir.path().join("outside/secret");
        assert_eq!(read(&path, 6).unwrap(), b"secret");
        assert_eq!(read(&path, 5).unwrap_err().kind(), ErrorKind::FileTooLarge);
        assert_eq!(read_end(&path, 3).unwrap(), b"ret");
    }
}
