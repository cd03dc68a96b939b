//! Daemons: dropping privileges (change to another user, and keep only the needed capabilities),
//! and messages to the service manager.

use std::io::Write as _;
use std::os::unix::fs::{DirBuilderExt as _, chown};
use std::path::{Path, PathBuf};
use std::sync::Once;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::SeqCst;

use clap::Args;
use ops::service::{self, ServiceState};
use signal_hook::consts::{SIGINT, SIGTERM};
use sys::confine::Capabilities;
use sys::confine::user::{self, User};

use crate::foreign_text::visible;
use crate::{Failure, interrupts};

/// The user that daemons started by root change to, if it exists.
const DEFAULT_USER: &str = "netarium";

#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "Privileges")]
pub(crate) struct Privileges {
    /// User to change to if started by root; default: `netarium` if it exists, else root. Only the
    /// needed capabilities are kept in each case
    #[arg(long, value_name = "USER")]
    pub(crate) user: Option<String>,
}

/// A daemon before it drops its privileges.
pub(crate) struct Daemon {
    user: Option<User>,
}

impl Privileges {
    /// Finds the user. Does not drop privileges yet.
    pub(crate) fn daemon(&self) -> Result<Daemon, Failure> {
        let is_root = rustix::process::geteuid().is_root();
        let user = match self.user.as_deref() {
            Some("root") if is_root => None,
            Some(_) if !is_root => {
                return Err(Failure::usage("--user: only root can change to another user")
                    .help("start the daemon as that user, without --user"));
            }
            Some(name) => Some(named(name)?.ok_or_else(|| {
                Failure::usage(format!("--user: unknown user `{name}`"))
                    .help(format!("create it with `useradd --system --no-create-home {name}`"))
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
    /// Whether the user will change.
    #[cfg(feature = "cluster")]
    pub(crate) fn changes_user(&self) -> bool {
        self.user.is_some()
    }

    /// Creates a folder owned by the new user, if it does not exist.
    pub(crate) fn own_folder(&self, path: &Path) -> Result<(), Failure> {
        let Some(user) = &self.user else { return Ok(()) };
        if path.exists() {
            return Ok(());
        }
        let failed = |e| Failure::machine(format!("cannot create {}: {e}", path.display()));
        std::fs::DirBuilder::new().recursive(true).mode(0o755).create(path).map_err(failed)?;
        chown(path, Some(user.uid), Some(user.gid)).map_err(failed)
    }

    /// The folder for status sockets below `/run` if the daemon does not run as root, because the
    /// default folder belongs to root.
    pub(crate) fn status_folder(&self, kind: &str) -> Result<Option<PathBuf>, Failure> {
        let Some(user) = &self.user else {
            // systemd sets it for `RuntimeDirectory=`.
            let own = std::env::var_os("RUNTIME_DIRECTORY").filter(|own| !own.is_empty());
            return Ok(own.map(|own| PathBuf::from(own).join(kind)));
        };
        let path = PathBuf::from(format!("{STATUS_PREFIX}{}", user.name)).join(kind);
        self.own_folder(&path)?;
        Ok(Some(path))
    }

    /// Changes to the user, and keeps the capabilities `keep`. The process must have one thread.
    /// With `filter`, system calls that only labs need are blocked.
    pub(crate) fn drop_privileges(&self, keep: Capabilities, filter: bool) -> Result<(), Failure> {
        user::become_daemon(self.user.as_ref(), keep, filter)
            .map_err(|e| Failure::machine(format!("cannot drop privileges: {e}")))
    }
}

/// Whether the service manager knows that this process is ready.
static REPORTED_READY: AtomicBool = AtomicBool::new(false);

/// Reports to the service manager that the daemon is ready, and the first SIGINT or SIGTERM, after
/// which it stops. Does nothing without a service manager.
pub(crate) fn report_ready(status: &str) {
    if !service::has_service_manager() {
        return;
    }
    REPORTED_READY.store(true, SeqCst);
    let signals = [SIGINT, SIGTERM];
    warn(interrupts::each_of(&signals, report_stopping).map_err(|failure| failure.message));
    warn(service::report(ServiceState::Ready(status)));
}

/// Reports to the service manager that a daemon that was ready stops, once: at a signal, or at the
/// end of the process, which may come before the thread that waits for signals runs.
pub(crate) fn report_stopping() {
    static REPORT: Once = Once::new();
    if REPORTED_READY.load(SeqCst) {
        REPORT.call_once(|| warn(service::report(ServiceState::Stopping)));
    }
}

/// The daemon continues: the service manager handles the missing message.
fn warn(result: Result<(), impl std::fmt::Display>) {
    if let Err(error) = result {
        // If writing to stderr fails, nothing can report it.
        let _ = writeln!(std::io::stderr(), "warning: {}", visible(&error.to_string()));
    }
}

/// Prefix of status folders of daemons that do not run as root.
const STATUS_PREFIX: &str = "/run/netarium-";

/// Status folders of daemons that do not run as root.
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

/// All sockets in those `folders` that exist.
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
