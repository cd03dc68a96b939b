//! The work directory of an agent.

use std::fs::{self, DirBuilder, File};
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::Path;

use cluster::control::is_lab_id;
use rustix::fs::FlockOperation;

use crate::{Error, Result};

/// A private directory, locked by one agent.
#[derive(Debug)]
pub(super) struct WorkDir {
    /// Locked until the agent ends.
    _lock: File,
}

impl WorkDir {
    /// Locks `path` and creates it if necessary. Deletes the labs of an agent that was killed.
    pub(super) fn open(path: &Path) -> Result<Self> {
        let made = DirBuilder::new().recursive(true).mode(0o700).create(path);
        made.map_err(Error::file("make", path))?;
        let about = fs::symlink_metadata(path).map_err(Error::file("look at", path))?;
        let own = rustix::process::geteuid().as_raw();
        if !about.is_dir() || about.uid() != own || about.mode() & 0o022 != 0 {
            let text = format!(
                "{} must be a directory of the agent's user that no other user can write to: \
                 choose another one with --dir",
                path.display()
            );
            return Err(Error::Usage { text });
        }
        let place = path.canonicalize().map_err(Error::file("find", path))?.join("lock");
        let lock = run::files::append(&place).map_err(Error::file("make", &place))?;
        if rustix::fs::flock(&lock, FlockOperation::NonBlockingLockExclusive).is_err() {
            let text = format!(
                "another agent uses {}: choose another directory with --dir",
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

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn has_one_owner_and_deletes_old_labs() {
        let temp = tempfile::tempdir().unwrap();
        let path = temp.path().join("a/b");
        let dir = WorkDir::open(&path).unwrap();
        let left = path.join("0123456789abcdef");
        fs::create_dir(&left).unwrap();
        fs::create_dir(path.join("mine")).unwrap();
        assert!(WorkDir::open(&path).is_err(), "it is in use");
        drop(dir);
        WorkDir::open(&path).unwrap();
        assert!(!left.exists() && path.join("mine").exists());
        fs::set_permissions(&path, fs::Permissions::from_mode(0o777)).unwrap();
        assert!(WorkDir::open(&path).is_err(), "others may write to it");
    }
}
