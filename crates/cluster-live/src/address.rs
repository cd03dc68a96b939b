//! How a cluster is named, and what is proven to its agents.

use std::fmt;
use std::net::{IpAddr, SocketAddr, TcpStream, ToSocketAddrs};
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::Deserialize;
use serde::de::IgnoredAny;

use crate::{Error, Result};

/// The port of agents where none is named.
pub const PORT: u16 = 7447;

/// What agents and coordinators prove to each other.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Access {
    /// All know it. It authenticates; it does not encrypt.
    pub token: Option<String>,
    /// Certificates of both sides.
    pub tls: Option<Tls>,
}

/// The secret stays out of messages.
impl fmt::Debug for Access {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let token = self.token.as_ref().map(|_| "…");
        f.debug_struct("Access").field("token", &token).field("tls", &self.tls).finish()
    }
}

/// Mutual TLS: files in PEM.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Tls {
    /// Who signs certificates of agents and coordinators.
    pub ca: PathBuf,
    /// The own certificate.
    pub cert: PathBuf,
    /// Its key.
    pub key: PathBuf,
}

impl Tls {
    /// Whether the files can be read and are PEM: whoever connects with others is refused without
    /// being told why.
    pub(crate) fn check(&self) -> Result<()> {
        for (path, holds) in
            [(&self.ca, "CERTIFICATE"), (&self.cert, "CERTIFICATE"), (&self.key, "PRIVATE KEY")]
        {
            let text = std::fs::read(path).map_err(Error::file("read", path))?;
            let text = String::from_utf8_lossy(&text);
            let begins = |line: &str| line.starts_with("-----BEGIN") && line.contains(holds);
            if !text.lines().any(begins) {
                let text = format!("{}: there is no {holds} in PEM", path.display());
                return Err(Error::Usage { text });
            }
        }
        Ok(())
    }
}

/// A cluster: where its agents are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cluster {
    /// As the user named it.
    pub named: String,
    /// Addresses of some of its agents: `host:port`.
    pub agents: Vec<String>,
    /// What is proven to them.
    pub access: Access,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct HostsFile {
    agents: Vec<String>,
    token_file: Option<PathBuf>,
    tls: Option<Tls>,
    /// For [`crate::machines`].
    #[serde(default, rename = "machine")]
    _machine: IgnoredAny,
}

impl Cluster {
    /// A cluster by the address of one of its agents, or by a file that lists them.
    ///
    /// # Errors
    /// Where it is neither, or the file is wrong.
    pub fn named(name: &str, access: Access) -> Result<Self> {
        let is_file = Path::new(name).extension().is_some_and(|e| e == "toml");
        if is_file {
            return Self::of_file(Path::new(name), access);
        }
        Ok(Self { named: name.to_owned(), agents: vec![host_and_port(name)?], access })
    }

    fn of_file(path: &Path, given: Access) -> Result<Self> {
        let text = std::fs::read_to_string(path).map_err(Error::file("read", path))?;
        let file: HostsFile = toml::from_str(&text)
            .map_err(|e| Error::Usage { text: format!("{}: {}", path.display(), e.message()) })?;
        if file.agents.is_empty() {
            let text = format!("{}: `agents` names no agent", path.display());
            return Err(Error::Usage { text });
        }
        let beside = |file: PathBuf| path.parent().unwrap_or(Path::new("")).join(file);
        let token = match (given.token, file.token_file) {
            (None, Some(file)) => Some(read_token(&beside(file))?),
            (given, _) => given,
        };
        let tls = given.tls.or_else(|| {
            let Tls { ca, cert, key } = file.tls?;
            Some(Tls { ca: beside(ca), cert: beside(cert), key: beside(key) })
        });
        let agents = file.agents.iter().map(|name| host_and_port(name)).collect::<Result<_>>()?;
        let named = path.display().to_string();
        Ok(Self { named, agents, access: Access { token, tls } })
    }

    /// Why no agent was reached, as far as a plain connection can tell.
    pub(crate) fn unreachable(&self) -> Error {
        Error::Unreachable { cluster: self.named.clone(), why: self.probe_all() }
    }

    /// See [`Self::unreachable`]. It takes seconds where nobody answers.
    pub(crate) fn probe_all(&self) -> String {
        let whys: Vec<String> = self.agents.iter().map(|agent| self.probe(agent)).collect();
        whys.join("; ")
    }

    fn probe(&self, agent: &str) -> String {
        let addresses: Vec<SocketAddr> = match agent.to_socket_addrs() {
            Ok(addresses) => addresses.collect(),
            Err(error) => return format!("{agent} is not known: {error}"),
        };
        let mut why = format!("{agent} has no address");
        for address in addresses {
            match TcpStream::connect_timeout(&address, Duration::from_secs(2)) {
                Ok(_) => {
                    let mend = match &self.access {
                        Access { tls: Some(_), .. } => {
                            "are both sides' certificates of the same authority and in date, and \
                             is the key that of the own one"
                        }
                        Access { token: Some(_), .. } => "is the token that of its agents",
                        _ => "does it want a token (--token-file) or certificates",
                    };
                    return format!(
                        "{agent} is there, but does not accept us ({mend}; or do many others ask \
                         it at once?)"
                    );
                }
                Err(error) => {
                    why = format!("{agent}: {error} (is `netarium agent` running there?)");
                }
            }
        }
        why
    }
}

/// A token from a file: its first line.
///
/// # Errors
/// Where it cannot be read, or is empty.
pub fn read_token(path: &Path) -> Result<String> {
    let text = std::fs::read_to_string(path).map_err(Error::file("read", path))?;
    let token = text.lines().next().unwrap_or_default().trim().to_owned();
    if token.is_empty() {
        return Err(Error::Usage { text: format!("{}: there is no token", path.display()) });
    }
    Ok(token)
}

/// `host:port` of an address that may come without the port, or as Zenoh writes it.
///
/// # Errors
/// Where it is none.
pub fn host_and_port(text: &str) -> Result<String> {
    let bare = text.strip_prefix("tcp/").or_else(|| text.strip_prefix("tls/")).unwrap_or(text);
    let wrong = || Error::Usage {
        text: format!("`{text}` is no address of an agent: write HOST or HOST:PORT"),
    };
    if let Ok(address) = bare.parse::<IpAddr>() {
        return Ok(SocketAddr::new(address, PORT).to_string());
    }
    let (host, port) = match bare.rsplit_once(':') {
        Some((host, port)) => (host, port.parse::<u16>().map_err(|_| wrong())?),
        None => (bare, PORT),
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
    fn a_file_of_hosts() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("hosts.toml");
        std::fs::write(folder.path().join("secret"), " abc \n").unwrap();
        std::fs::write(&path, "agents = ['a', 'b:1']\ntoken-file = 'secret'\n").unwrap();
        let cluster = Cluster::named(path.to_str().unwrap(), Access::default()).unwrap();
        assert_eq!(cluster.agents, ["a:7447", "b:1"]);
        assert_eq!(cluster.access.token.as_deref(), Some("abc"));
        let given = Access { token: Some("x".to_owned()), tls: None };
        let cluster = Cluster::named(path.to_str().unwrap(), given).unwrap();
        assert_eq!(cluster.access.token.as_deref(), Some("x"), "the command line goes first");
        assert!(!format!("{cluster:?}").contains("\"x\""), "secrets stay out of messages");
        for text in ["agents = []", "agents = 1", "agents = ['a']\nports = 1"] {
            std::fs::write(&path, text).unwrap();
            assert!(Cluster::named(path.to_str().unwrap(), Access::default()).is_err(), "{text}");
        }
    }
}
