//! How a cluster is named, and where its credentials are.

use std::net::{IpAddr, SocketAddr, TcpStream, ToSocketAddrs};
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::Deserialize;
use serde::de::IgnoredAny;

use crate::credentials::{Credentials, Role, default_dir};
use crate::{Error, Result};

/// The port of agents where none is named.
pub const PORT: u16 = 7447;

/// A cluster: where its agents are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cluster {
    /// As the user named it.
    pub named: String,
    /// Addresses of some of its agents: `host:port`.
    pub agents: Vec<String>,
    /// The own credentials.
    pub credentials: Credentials,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct HostsFile {
    agents: Vec<String>,
    credentials: Option<PathBuf>,
    /// For [`crate::machines`].
    #[serde(default, rename = "machine")]
    _machine: IgnoredAny,
}

impl Cluster {
    /// A cluster by the address of one of its agents, or by a file that lists them. Coordinator
    /// credentials are in the folder `given`, or in the one that the file names, or in
    /// [`default_dir`].
    ///
    /// # Errors
    /// Where it is neither, the file is wrong, or there are no credentials.
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

    /// The agents and the folder of credentials that a file names.
    fn read(path: &Path) -> Result<(Vec<String>, Option<PathBuf>)> {
        let text = std::fs::read_to_string(path).map_err(Error::file("read", path))?;
        let file: HostsFile = toml::from_str(&text)
            .map_err(|e| Error::Usage { text: format!("{}: {}", path.display(), e.message()) })?;
        if file.agents.is_empty() {
            let text = format!("{}: `agents` names no agent", path.display());
            return Err(Error::Usage { text });
        }
        let beside = |file: PathBuf| path.parent().unwrap_or(Path::new("")).join(file);
        let agents = file.agents.iter().map(|name| host_and_port(name)).collect::<Result<_>>()?;
        Ok((agents, file.credentials.map(beside)))
    }

    /// Why no agent was reached, as far as a plain connection can tell.
    pub(crate) fn unreachable(&self) -> Error {
        Error::Unreachable { cluster: self.named.clone(), why: self.probe_all() }
    }

    /// See [`Self::unreachable`]. It takes seconds where nobody answers.
    fn probe_all(&self) -> String {
        probe_all(&self.agents)
    }
}

/// Why no agent at these addresses was reached. It takes seconds where none answers.
pub(crate) fn probe_all(agents: &[String]) -> String {
    agents.iter().map(|agent| probe(agent)).collect::<Vec<_>>().join("; ")
}

fn probe(agent: &str) -> String {
    let addresses: Vec<SocketAddr> = match agent.to_socket_addrs() {
        Ok(addresses) => addresses.collect(),
        Err(error) => return format!("{agent} is not known: {error}"),
    };
    let mut why = format!("{agent} has no address");
    for address in addresses {
        match TcpStream::connect_timeout(&address, Duration::from_secs(2)) {
            Ok(_) => {
                return format!(
                    "{agent} is there, but its certificate or the own one is not accepted (are \
                     both signed by one authority, and in date?)"
                );
            }
            Err(error) => {
                why = format!("{agent}: {error} (is `netarium agent` running there?)");
            }
        }
    }
    why
}

/// The folder of credentials: the one that is named, or [`default_dir`].
///
/// # Errors
/// Where none is named and there is no home directory.
pub fn credentials_dir(named: Option<PathBuf>) -> Result<PathBuf> {
    named.or_else(default_dir).ok_or_else(|| Error::Usage {
        text: "no folder of credentials is named: --credentials DIR".to_owned(),
    })
}

/// `host:port` of an address that may come without the port, or as Zenoh writes it.
///
/// # Errors
/// Where it is none.
pub fn host_and_port(text: &str) -> Result<String> {
    with_port(text, PORT)
}

/// See [`host_and_port`], with another port where none is given.
///
/// # Errors
/// Where it is none.
pub fn with_port(text: &str, default: u16) -> Result<String> {
    let bare = text.strip_prefix("tcp/").or_else(|| text.strip_prefix("tls/")).unwrap_or(text);
    let wrong = || Error::Usage {
        text: format!("`{text}` is no address of an agent: write HOST or HOST:PORT"),
    };
    if let Ok(address) = bare.parse::<IpAddr>() {
        return Ok(SocketAddr::new(address, default).to_string());
    }
    let (host, port) = match bare.rsplit_once(':') {
        Some((host, port)) => (host, port.parse::<u16>().map_err(|_| wrong())?),
        None => (bare, default),
    };
    let inner = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
    let fits = match inner {
        Some(v6) => v6.parse::<std::net::Ipv6Addr>().is_ok(),
        None => !host.is_empty() && host.chars().all(|c| c.is_alphanumeric() || ".-_".contains(c)),
    };
    if fits { Ok(format!("{host}:{port}")) } else { Err(wrong()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_in_all_their_forms() {
        for (text, address) in [
            ("10.0.0.1", "10.0.0.1:7447"),
            ("10.0.0.1:8000", "10.0.0.1:8000"),
            ("tcp/10.0.0.1:8000", "10.0.0.1:8000"),
            ("node-3.example.org", "node-3.example.org:7447"),
            ("::1", "[::1]:7447"),
            ("[fe80::1]:80", "[fe80::1]:80"),
        ] {
            assert_eq!(host_and_port(text).unwrap(), address);
        }
        for text in ["", ":80", "host:http", "a b", "[x]:1", "host:70000", "quic/host:1"] {
            assert!(host_and_port(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_hosts_file_names_agents_and_credentials() {
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
        assert_eq!(cluster.credentials, mine);
        let given = folder.path().join("other");
        let cluster = Cluster::named(name, Some(&given)).unwrap();
        assert_eq!(cluster.credentials, other, "the command line goes first");
        for text in ["agents = []", "agents = 1", "agents = ['a']\nports = 1"] {
            std::fs::write(&path, text).unwrap();
            assert!(Cluster::named(name, Some(&given)).is_err(), "{text}");
        }
    }
}
