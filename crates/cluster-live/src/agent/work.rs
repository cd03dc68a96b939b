//! The directory that an agent works in.

use std::fs::{self, DirBuilder, File};
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

use cluster::control::is_lab_id;
use rustix::fs::FlockOperation;

use crate::{Error, Result};

/// A private directory of one agent at a time.
#[derive(Debug)]
pub(super) struct Dir {
    /// Locked for as long as the agent lives.
    _lock: File,
}

impl Dir {
    /// Takes `path`, which is made where it is missing, and removes what an agent that was killed
    /// has left in it.
    pub(super) fn open(path: &Path) -> Result<Self> {
        let made = DirBuilder::new().recursive(true).mode(0o700).create(path);
        made.map_err(Error::file("make", path))?;
        let about = fs::symlink_metadata(path).map_err(Error::file("look at", path))?;
        let own = rustix::process::geteuid().as_raw();
        if !about.is_dir() || about.uid() != own || about.mode() & 0o022 != 0 {
            let text = format!(
                "{} is not a directory that only its owner, the agent's user, may write to: \
                 choose another one with --dir",
                path.display()
            );
            return Err(Error::Usage { text });
        }
        let place = path.join("lock");
        let lock = File::create(&place).map_err(Error::file("make", &place))?;
        if rustix::fs::flock(&lock, FlockOperation::NonBlockingLockExclusive).is_err() {
            let text = format!(
                "another agent works in {}: choose another directory with --dir",
                path.display()
            );
            return Err(Error::Usage { text });
        }
        for entry in fs::read_dir(path).map_err(Error::file("read", path))?.flatten() {
            if is_lab_id(&entry.file_name().to_string_lossy()) {
                let left = entry.path();
                fs::remove_dir_all(&left).map_err(Error::file("remove", left))?;
            }
        }
        Ok(Self { _lock: lock })
    }
}

/// The folder of a lab.
pub(super) fn lab(dir: &Path, id: &str) -> PathBuf {
    dir.join(id)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn one_agent_at_a_time_and_nothing_left() {
        let temp = tempfile::tempdir().unwrap();
        let path = temp.path().join("a/b");
        let dir = Dir::open(&path).unwrap();
        let left = lab(&path, "0123456789abcdef");
        fs::create_dir(&left).unwrap();
        fs::create_dir(path.join("mine")).unwrap();
        assert!(Dir::open(&path).is_err(), "it is in use");
        drop(dir);
        Dir::open(&path).unwrap();
        assert!(!left.exists() && path.join("mine").exists());
        fs::set_permissions(&path, fs::Permissions::from_mode(0o777)).unwrap();
        assert!(Dir::open(&path).is_err(), "others may write to it");
    }
}
