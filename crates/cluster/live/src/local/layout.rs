//! Names, addresses and files of a cluster on one machine.

use std::ffi::{OsStr, OsString};
use std::net::{Ipv4Addr, SocketAddrV4};
use std::path::{Path, PathBuf};

use base::Bandwidth;

/// The hosts file for commands in the cluster.
pub(super) const HOSTS: &str = "hosts.toml";
/// The environment variable with the folder of credentials.
pub(super) const CREDENTIALS: &str = "NETARIUM_CREDENTIALS";
/// The folder with the credentials for commands in the cluster.
pub(super) const COORDINATOR: &str = "coordinator";
/// The file with [`Local::repeat`].
pub(super) const REPEAT: &str = "repeat";
/// The port that agents listen on.
pub(super) const PORT: u16 = 7447;
/// Address of the bridge. The agents have the first addresses of the network.
pub(super) const HUB: Ipv4Addr = Ipv4Addr::new(198, 18, 0, 254);
/// Prefix length of the network, which is reserved for tests (RFC 2544).
pub(super) const PREFIX: u8 = 24;

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
    pub(super) fn address(at: usize) -> SocketAddrV4 {
        let first = HUB.to_bits() & (u32::MAX << (32 - PREFIX));
        SocketAddrV4::new(Ipv4Addr::from_bits(first + 1 + at as u32), PORT)
    }
}

/// A file of an agent in the cluster's file system.
pub(super) fn file_of(place: &Path, name: &str, what: &str) -> PathBuf {
    place.join(name).join(what)
}

/// The environment variables for commands in the cluster.
pub(super) fn environment(place: &Path) -> [(&'static OsStr, OsString); 4] {
    [
        (OsStr::new("NETARIUM_CLUSTER"), place.join(HOSTS).into()),
        (OsStr::new(CREDENTIALS), place.join(COORDINATOR).into()),
        (OsStr::new("NETARIUM_LOCAL"), place.into()),
        (OsStr::new("XDG_RUNTIME_DIR"), place.join("run").into()),
    ]
}
