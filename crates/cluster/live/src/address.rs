//! Addresses of clusters, and the folders of credentials.

use std::net::{SocketAddr, TcpStream, ToSocketAddrs};
use std::path::{Path, PathBuf};
use std::time::Duration;

use placement::hosts::{self, Hosts};

use crate::credentials::{Credentials, Role, default_dir};
use crate::{Error, Result};

pub use placement::hosts::PORT;

/// A cluster: addresses of its agents, and own credentials.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cluster {
    /// As the user named it.
    pub named: String,
    /// Addresses of some of its agents: `host:port`.
    pub agents: Vec<String>,
    pub credentials: Credentials,
}

impl Cluster {
    /// The cluster with this address of an agent or this hosts file. The coordinator's credentials
    /// are in the folder `given`, by default in that of the hosts file, or in [`default_dir`].
    ///
    /// # Errors
    /// If `name` is neither, the file is invalid, or there are no credentials.
    pub fn named(name: &str, given: Option<&Path>) -> Result<Self> {
        let path = Path::new(name);
        let (agents, named) = if path.extension().is_some_and(|e| e == "toml") {
            Self::read(path)?
        } else {
            (vec![host_and_port(name)?], None)
        };
        let dir = credentials_dir(given.map(Path::to_owned).or(named))?;
        let credentials = Credentials::load(&dir, Role::Coordinator)?;
        Ok(Self { named: name.to_owned(), agents, credentials })
    }

    /// The agents and the folder of credentials in a hosts file.
    fn read(path: &Path) -> Result<(Vec<String>, Option<PathBuf>)> {
        let text = std::fs::read_to_string(path).map_err(Error::file("read", path))?;
        let file = Hosts::parse(&path.display().to_string(), &text).map_err(|e| usage(&e))?;
        if file.agents.is_empty() {
            let text =
                format!("{}: `agents` is empty: add the address of an agent", path.display());
            return Err(Error::Usage { text });
        }
        let beside = |file: PathBuf| path.parent().unwrap_or(Path::new("")).join(file);
        Ok((file.agents, file.credentials.map(beside)))
    }

    /// The error that no agent was reached, with the result of plain TCP connections to them.
    pub(crate) fn unreachable(&self) -> Error {
        Error::Unreachable { cluster: self.named.clone(), why: probe_all(&self.agents) }
    }
}

/// Tries plain TCP connections to agents, and explains the results. It takes up to 2 s per address.
pub(crate) fn probe_all(agents: &[String]) -> String {
    agents.iter().map(|agent| probe(agent)).collect::<Vec<_>>().join("; ")
}

fn probe(agent: &str) -> String {
    let addresses: Vec<SocketAddr> = match agent.to_socket_addrs() {
        Ok(addresses) => addresses.collect(),
        Err(error) => return format!("{agent}: unknown host: {error}"),
    };
    let mut why = format!("{agent} has no address");
    for address in addresses {
        match TcpStream::connect_timeout(&address, Duration::from_secs(2)) {
            Ok(_) => {
                return format!(
                    "{agent} accepts connections, but its certificate or the own one was rejected \
                     (are both signed by one authority, in date and not revoked?)"
                );
            }
            Err(error) => {
                why = format!("{agent}: {error} (is `netarium agent` running there?)");
            }
        }
    }
    why
}

/// The folder of credentials: `named`, or by default [`default_dir`].
///
/// # Errors
/// If there is neither a named folder nor a home directory.
pub fn credentials_dir(named: Option<PathBuf>) -> Result<PathBuf> {
    named.or_else(default_dir).ok_or_else(|| Error::Usage {
        text: "no home directory for the credentials: choose a folder with --credentials DIR"
            .to_owned(),
    })
}

/// Normalizes an address to `host:port`, see [`hosts::with_port`]. The default port is [`PORT`].
///
/// # Errors
/// If it is not an address.
pub fn host_and_port(text: &str) -> Result<String> {
    with_port(text, PORT)
}

/// See [`host_and_port`], with another default port.
///
/// # Errors
/// If it is not an address.
pub fn with_port(text: &str, default: u16) -> Result<String> {
    hosts::with_port(text, default).map_err(|e| usage(&e))
}

pub(crate) fn usage(error: &placement::Error) -> Error {
    Error::Usage { text: error.to_string() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_agents_and_credentials_of_hosts_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("hosts.toml");
        let authority = crate::authority::Authority::generate(1).unwrap();
        let [mine, other] = ["mine", "other"].map(|name| {
            let own = authority.issue(Role::Coordinator, name, 1).unwrap();
            own.store(&folder.path().join(name)).unwrap();
            own
        });
        let name = path.to_str().unwrap();
        std::fs::write(&path, "agents = ['a', 'b:1']\ncredentials = 'mine'\n").unwrap();
        let cluster = Cluster::named(name, None).unwrap();
        assert_eq!(cluster.agents, ["a:7447", "b:1"]);
        assert_eq!(cluster.credentials.cert, mine.cert);
        let given = folder.path().join("other");
        let cluster = Cluster::named(name, Some(&given)).unwrap();
        assert_eq!(cluster.credentials.cert, other.cert, "the command line takes precedence");
        for text in ["agents = []", "agents = 1", "agents = ['a']\nports = 1"] {
            std::fs::write(&path, text).unwrap();
            assert!(Cluster::named(name, Some(&given)).is_err(), "{text}");
        }
    }
}
