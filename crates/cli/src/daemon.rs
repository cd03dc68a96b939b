//! Daemons drop privileges: another user where there is one for them, and only the capabilities
//! that they need.

use std::os::unix::fs::{DirBuilderExt as _, chown};
use std::path::{Path, PathBuf};

use clap::Args;
use sys::confine::Capabilities;
use sys::confine::user::{self, User};

use crate::Failure;

/// The user that daemons of root become, if the machine has it.
const DEFAULT_USER: &str = "netarium";

#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "Privileges")]
pub(crate) struct Privileges {
    /// User to become, if started by root; by default `netarium` if there is such a user. With
    /// `root`, the daemon stays root. In each case it keeps only the capabilities that it needs
    #[arg(long, value_name = "USER")]
    pub(crate) user: Option<String>,
}

/// A daemon that has not dropped its privileges yet.
pub(crate) struct Daemon {
    user: Option<User>,
}

impl Privileges {
    /// Finds the user. Takes no privilege away yet.
    pub(crate) fn daemon(&self) -> Result<Daemon, Failure> {
        let is_root = rustix::process::geteuid().is_root();
        let user = match self.user.as_deref() {
            Some("root") if is_root => None,
            Some(_) if !is_root => {
                return Err(Failure::usage("--user: only root can become another user")
                    .help("start the daemon as that user, without --user"));
            }
            Some(name) => Some(named(name)?.ok_or_else(|| {
                Failure::usage(format!("--user: there is no user `{name}`"))
                    .help(format!("useradd --system --no-create-home {name}"))
            })?),
            None if is_root => named(DEFAULT_USER)?,
            None => None,
        };
        Ok(Daemon { user })
    }
}

fn named(name: &str) -> Result<Option<User>, Failure> {
    User::named(name).map_err(|e| Failure::machine(format!("--user: {e}")))
}

impl Daemon {
    /// Whether the user is going to change.
    pub(crate) fn changes_user(&self) -> bool {
        self.user.is_some()
    }

    /// Makes a folder for the daemon to write to, where it is missing; it belongs to the new user.
    pub(crate) fn own_folder(&self, path: &Path) -> Result<(), Failure> {
        let Some(user) = &self.user else { return Ok(()) };
        if path.exists() {
            return Ok(());
        }
        let failed = |e| Failure::machine(format!("cannot make {}: {e}", path.display()));
        std::fs::DirBuilder::new().recursive(true).mode(0o755).create(path).map_err(failed)?;
        chown(path, Some(user.uid), Some(user.gid)).map_err(failed)
    }

    /// A folder below `/run` for status sockets, where the user changes: the default one is
    /// root's.
    pub(crate) fn status_folder(&self, kind: &str) -> Result<Option<PathBuf>, Failure> {
        let Some(user) = &self.user else { return Ok(None) };
        let path = PathBuf::from(format!("{STATUS_PREFIX}{}", user.name)).join(kind);
        self.own_folder(&path)?;
        Ok(Some(path))
    }

    /// Becomes the user, and keeps the capabilities `keep`. The process must have one thread.
    /// `filter`: system calls that only labs need are refused from now on.
    pub(crate) fn drop_privileges(&self, keep: Capabilities, filter: bool) -> Result<(), Failure> {
        user::become_daemon(self.user.as_ref(), keep, filter)
            .map_err(|e| Failure::machine(format!("cannot drop privileges: {e}")))
    }
}

/// Status folders of daemons that changed their user begin like this.
const STATUS_PREFIX: &str = "/run/netarium-";

/// Status folders of daemons of all users.
pub(crate) fn status_folders(kind: &str) -> Vec<PathBuf> {
    let entries = std::fs::read_dir("/run").into_iter().flatten().flatten();
    let folders = entries
        .map(|entry| entry.path())
        .filter(|path| path.to_str().is_some_and(|path| path.starts_with(STATUS_PREFIX)));
    let mut folders: Vec<PathBuf> = folders.map(|path| path.join(kind)).collect();
    folders.retain(|folder| folder.is_dir());
    folders.sort();
    folders
}

/// All sockets in `folders`, as far as these exist.
pub(crate) fn sockets(folders: impl Iterator<Item = PathBuf>) -> Result<Vec<PathBuf>, Failure> {
    let mut found = Vec::new();
    for folder in folders {
        let failed =
            |e: &std::io::Error| Failure::machine(format!("cannot read {}: {e}", folder.display()));
        let entries = match std::fs::read_dir(&folder) {
            Ok(entries) => entries,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => continue,
            Err(error) => return Err(failed(&error)),
        };
        for entry in entries {
            let path = entry.map_err(|e| failed(&e))?.path();
            if path.extension().is_some_and(|it| it == "sock") {
                found.push(path);
            }
        }
    }
    found.sort();
    Ok(found)
}
