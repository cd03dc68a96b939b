//! A cluster on one machine: agents in network namespaces of their own, joined by a bridge.
//!
//! ```text
//! P  the command            waits; has the terminal's signals left to COMMAND
//! I  process 1, inside      makes the networks, starts the agents and COMMAND, ends with it
//!    ├─ agents m1 … mN      each in its own network, mount and host-name namespaces
//!    └─ COMMAND             in I's network namespace, where the bridge is
//! ```
//!
//! COMMAND's namespace has the bridge itself, and on it one port for each agent, of the agent's
//! name: taken down, it is the agent's cable that is out. What agents write lies in a file system
//! of I's, so that everything is gone with I; I ends when P does, and when COMMAND does.

mod inside;
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

/// The file that names the cluster to commands in it.
const HOSTS: &str = "hosts.toml";
/// The variable that names the folder of credentials.
const CREDENTIALS: &str = "NETARIUM_CREDENTIALS";
/// The folder with the credentials of commands in the cluster.
const COORDINATOR: &str = "coordinator";
/// The file with [`Local::again`].
const AGAIN: &str = "again";
/// The port that agents listen on.
const PORT: u16 = 7447;
/// Where the bridge itself is; agents count up from the network's first address.
const HUB: Ipv4Addr = Ipv4Addr::new(198, 18, 0, 254);
/// Length of the network's prefix. The network is set aside for tests (RFC 2544).
const PREFIX: u8 = 24;
/// The most agents.
pub const MOST: usize = 64;
/// The longest name of a port (`IFNAMSIZ`, less the terminator).
const LONGEST_NAME: usize = 15;

/// A cluster on one machine.
#[derive(Clone, Debug)]
pub struct Local {
    /// Names of the agents.
    pub names: Vec<String>,
    /// What each agent's cable carries each way; as much as the machine can without.
    pub rate: Option<Bandwidth>,
    /// Start an agent that has ended once more, a second later.
    pub restart: bool,
    /// Folder for the agents' output, which is otherwise gone with the cluster.
    pub log: Option<PathBuf>,
    /// This executable.
    pub program: PathBuf,
    /// The command line that makes such a cluster again, up to what is run in it.
    pub again: String,
    /// What is run in the cluster, and its arguments.
    pub command: Vec<OsString>,
}

impl Local {
    /// The address of an agent, by its position.
    fn address(at: usize) -> SocketAddrV4 {
        let first = HUB.to_bits() & (u32::MAX << (32 - PREFIX));
        SocketAddrV4::new(Ipv4Addr::from_bits(first + 1 + at as u32), PORT)
    }

    fn check(&self) -> Result<()> {
        let wrong = |text: String| Err(Error::Usage { text });
        if self.names.is_empty() || self.names.len() > MOST {
            return wrong(format!("a cluster on one machine has 1 to {MOST} agents"));
        }
        for (at, name) in self.names.iter().enumerate() {
            let allowed = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
            let taken = ["lo", network::BRIDGE, "run", "all", "default", COORDINATOR];
            if name.is_empty() || name.len() > LONGEST_NAME || !name.chars().all(allowed) {
                let most = format!("at most {LONGEST_NAME} of a-z, A-Z, 0-9, - and _");
                return wrong(format!("`{name}` cannot be an agent's name here: {most}"));
            }
            if self.names[..at].contains(name) || taken.contains(&name.as_str()) {
                return wrong(format!("the name `{name}` is taken"));
            }
        }
        Ok(())
    }
}

/// Runs a command in a cluster of its own; the result is an exit status as a shell tells it. The
/// calling process must have one thread, and cannot start another one afterwards.
///
/// # Errors
/// [`Error::Usage`] for wrong names, [`Error::Local`] with what went wrong before the command was
/// started.
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
        namespace::unshare_with_user(Kinds::PID)?;
    }
    let mut ours = Some(ours);
    let copy = &mut ours;
    let first = || {
        // Only the command's death is to close it.
        drop(copy.take());
        inside::run(local, &place.0, life.into(), File::from(OwnedFd::from(report)))
    };
    let mut child = Child::of(process::fork(first)?)?;
    let mut failure = String::new();
    let read = answer.read_to_string(&mut failure);
    let exit = child.wait_in_foreground()?;
    read.map_err(|cause| sys::Error::Call { call: "read", cause })?;
    if failure.is_empty() { Ok(exit.code()) } else { Err(Error::Local(failure)) }
}

/// An empty folder, on which the cluster has its own file system mounted.
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
        // Usually the cluster's process 1 has done so.
        let _ = fs::remove_dir(&self.0);
    }
}

/// How the cluster that `hosts` names is made again, where it is one on this machine that ends with
/// its command, and has the calling process in it.
pub fn again(hosts: &Path) -> Option<String> {
    let place = PathBuf::from(std::env::var_os("NETARIUM_LOCAL")?);
    let is_own = hosts == place.join(HOSTS);
    is_own.then(|| fs::read_to_string(place.join(AGAIN)).ok()).flatten()
}

/// What an agent has in the cluster's own file system.
fn file_of(place: &Path, name: &str, what: &str) -> PathBuf {
    place.join(name).join(what)
}

/// The variables that name the cluster to commands in it.
fn environment(place: &Path) -> [(&'static OsStr, OsString); 4] {
    [
        (OsStr::new("NETARIUM_CLUSTER"), place.join(HOSTS).into()),
        (OsStr::new(CREDENTIALS), place.join(COORDINATOR).into()),
        (OsStr::new("NETARIUM_LOCAL"), place.into()),
        (OsStr::new("XDG_RUNTIME_DIR"), place.join("run").into()),
    ]
}
