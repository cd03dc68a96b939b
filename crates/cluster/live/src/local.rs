//! A cluster on one machine: agents in separate network namespaces, connected by a bridge.
//!
//! ```text
//! P  this process           waits; leaves the terminal's signals to COMMAND
//! I  init (process 1)       makes the networks, starts the agents and COMMAND, ends with COMMAND
//!    ├─ agents m1 … mN      each in its own network, mount and host-name namespaces
//!    └─ COMMAND             in I's network namespace, which has the bridge
//! ```
//!
//! COMMAND's namespace has the bridge, with one port for each agent. The port has the agent's name;
//! setting it down disconnects the agent. Agents write to a file system in I's mount namespace,
//! which ends with I. I ends when P or COMMAND ends.

mod init;
mod layout;
mod network;

use std::fs::{self, DirBuilder, File};
use std::io::Read as _;
use std::os::fd::OwnedFd;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};

use sys::namespace::{self, Kinds};
use sys::process::{self, Child};

use crate::{Error, Result};
pub use layout::Local;
use layout::{COORDINATOR, HOSTS, REPEAT};

pub const MAX_AGENTS: usize = 64;
/// Max length of a port's name (`IFNAMSIZ` minus the terminator).
const MAX_NAME_LENGTH: usize = 15;

impl Local {
    fn check(&self) -> Result<()> {
        let invalid = |text: String| Err(Error::Usage { text });
        if self.names.is_empty() || self.names.len() > MAX_AGENTS {
            return invalid(format!(
                "a cluster on one machine has 1 to {MAX_AGENTS} agents, not {}",
                self.names.len()
            ));
        }
        for (at, name) in self.names.iter().enumerate() {
            let allowed = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
            let reserved = ["lo", network::BRIDGE, "run", "all", "default", COORDINATOR];
            if name.is_empty() || name.len() > MAX_NAME_LENGTH || !name.chars().all(allowed) {
                let expected = format!("use 1 to {MAX_NAME_LENGTH} of a-z, A-Z, 0-9, - and _");
                return invalid(format!("invalid agent name `{name}`: {expected}"));
            }
            if self.names[..at].contains(name) || reserved.contains(&name.as_str()) {
                return invalid(format!(
                    "agent name `{name}` is reserved or in use: choose another"
                ));
            }
        }
        Ok(())
    }
}

/// Runs a command in a new cluster. Returns its exit status in the form of a shell. The calling
/// process must have one thread, and cannot start another one afterwards.
///
/// # Errors
/// [`Error::Usage`] for invalid names, [`Error::Local`] if the command could not be started.
pub fn run_local(local: &Local) -> Result<i32> {
    local.check()?;
    if let Some(log) = &local.log {
        fs::create_dir_all(log).map_err(|e| sys::Error::file("make", log, e))?;
    }
    let place = Place::new()?;
    let pipe = || std::io::pipe().map_err(|cause| sys::Error::Call { call: "pipe", cause });
    let ((life, ours), (mut answer, report)) = (pipe()?, pipe()?);
    if namespace::is_privileged() {
        namespace::unshare(Kinds::PID)?;
    } else {
        namespace::unshare_with_user(Kinds::PID, None)?;
    }
    let mut ours = Some(ours);
    let copy = &mut ours;
    let first = || {
        // Only the end of the calling process must close it.
        drop(copy.take());
        init::run(local, &place.0, life.into(), File::from(OwnedFd::from(report)))
    };
    let mut child = Child::of(process::fork(first)?)?;
    let mut failure = String::new();
    let read = answer.read_to_string(&mut failure);
    let exit = child.wait_in_foreground()?;
    read.map_err(|cause| sys::Error::Call { call: "read", cause })?;
    if failure.is_empty() { Ok(exit.code()) } else { Err(Error::Local(failure)) }
}

/// An empty folder: the mount point of the cluster's file system.
struct Place(PathBuf);

impl Place {
    fn new() -> Result<Self> {
        let base = std::env::temp_dir();
        let mut number = std::process::id();
        loop {
            let path = base.join(format!("netarium-cluster-{number}"));
            match DirBuilder::new().mode(0o700).create(&path) {
                Ok(()) => return Ok(Self(path)),
                Err(e) if e.kind() == std::io::ErrorKind::AlreadyExists => number += 1,
                Err(e) => return Err(sys::Error::file("make", path, e).into()),
            }
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        // Usually the cluster's init has already done it.
        let _ = fs::remove_dir(&self.0);
    }
}

/// The command line that repeats the cluster of the hosts file `hosts`. `None` if the calling
/// process does not run in a local cluster with this hosts file.
pub fn repeat_command(hosts: &Path) -> Option<String> {
    let place = PathBuf::from(std::env::var_os("NETARIUM_LOCAL")?);
    let is_own = hosts == place.join(HOSTS);
    is_own.then(|| fs::read_to_string(place.join(REPEAT)).ok()).flatten()
}
