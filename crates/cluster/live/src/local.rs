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
mod network;

use std::ffi::{OsStr, OsString};
use std::fs::{self, DirBuilder, File};
use std::io::Read as _;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::os::fd::OwnedFd;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};

use base::Bandwidth;
use sys::namespace::{self, Kinds};
use sys::process::{self, Child};

use crate::{Error, Result};

/// The hosts file for commands in the cluster.
const HOSTS: &str = "hosts.toml";
/// The environment variable with the folder of credentials.
const CREDENTIALS: &str = "NETARIUM_CREDENTIALS";
/// The folder with the credentials for commands in the cluster.
const COORDINATOR: &str = "coordinator";
/// The file with [`Local::repeat`].
const REPEAT: &str = "repeat";
/// The port that agents listen on.
const PORT: u16 = 7447;
/// Address of the bridge. The agents have the first addresses of the network.
const HUB: Ipv4Addr = Ipv4Addr::new(198, 18, 0, 254);
/// Prefix length of the network, which is reserved for tests (RFC 2544).
const PREFIX: u8 = 24;
pub const MAX_AGENTS: usize = 64;
/// Max length of a port's name (`IFNAMSIZ` minus the terminator).
const MAX_NAME_LENGTH: usize = 15;

#[derive(Clone, Debug)]
pub struct Local {
    pub names: Vec<String>,
    /// Rate of each agent's link in each direction; `None`: no limit.
    pub rate: Option<Bandwidth>,
    /// Restart an agent that has ended after 1 s.
    pub restart: bool,
    /// Folder for the agents' output; by default it is deleted with the cluster.
    pub log: Option<PathBuf>,
    /// Path of this executable.
    pub program: PathBuf,
    /// The command line that repeats this cluster, without the command that runs in it.
    pub repeat: String,
    /// The command to run in the cluster.
    pub command: Vec<OsString>,
}

impl Local {
    /// The address of an agent, by its position.
    fn address(at: usize) -> SocketAddrV4 {
        let first = HUB.to_bits() & (u32::MAX << (32 - PREFIX));
        SocketAddrV4::new(Ipv4Addr::from_bits(first + 1 + at as u32), PORT)
    }

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

/// A file of an agent in the cluster's file system.
fn file_of(place: &Path, name: &str, what: &str) -> PathBuf {
    place.join(name).join(what)
}

/// The environment variables for commands in the cluster.
fn environment(place: &Path) -> [(&'static OsStr, OsString); 4] {
    [
        (OsStr::new("NETARIUM_CLUSTER"), place.join(HOSTS).into()),
        (OsStr::new(CREDENTIALS), place.join(COORDINATOR).into()),
        (OsStr::new("NETARIUM_LOCAL"), place.into()),
        (OsStr::new("XDG_RUNTIME_DIR"), place.join("run").into()),
    ]
}
