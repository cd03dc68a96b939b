//! Addresses of clusters, and the folders of credentials.

use std::io::Read as _;
use std::net::{SocketAddr, TcpStream, ToSocketAddrs};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use placement::hosts::{self, Hosts};
use rustls::crypto::ring;
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection, RootCertStore};

use crate::credentials::{Credentials, Role, default_dir};
use crate::{Error, Result};

pub use placement::hosts::PORT;

/// Time to connect to an agent, and time until it answers the start of a TLS handshake.
const PROBE_TIMEOUT: Duration = Duration::from_secs(2);

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
        let text = lab::read_text(path).map_err(Error::file("read", path))?;
        let file = Hosts::parse(&path.display().to_string(), &text).map_err(|e| usage(&e))?;
        if file.agents.is_empty() {
            let text =
                format!("{}: `agents` is empty: add the address of an agent", path.display());
            return Err(Error::Usage { text });
        }
        let beside = |file: PathBuf| path.parent().unwrap_or(Path::new("")).join(file);
        Ok((file.agents, file.credentials.map(beside)))
    }

    /// The error that no agent was reached, with the result of connections to them.
    pub(crate) fn unreachable(&self) -> Error {
        Error::Unreachable { cluster: self.named.clone(), why: probe_all(&self.agents) }
    }
}

/// Tries to connect to agents, and explains the results. It takes up to 4 s per address.
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
        match TcpStream::connect_timeout(&address, PROBE_TIMEOUT) {
            Ok(stream) => return format!("{agent} accepts connections, but {}", handshake(stream)),
            Err(error) => {
                why = format!("{agent}: {error} (is `netarium agent` running there?)");
            }
        }
    }
    why
}

/// The reason why the bus has no link to an agent that accepts connections: whether the agent
/// continues a TLS handshake on `stream`.
fn handshake(mut stream: TcpStream) -> &'static str {
    match first_byte(&mut stream) {
        // Content type of handshake records (RFC 8446 section 5.1).
        Ok(22) => {
            "its certificate or the own one was rejected (are both signed by one authority, in \
             date and not revoked?)"
        }
        Ok(_) => "it does not use TLS (is another program on this port?)",
        Err(_) => "it did not answer the start of a TLS handshake (is it overloaded?)",
    }
}

/// Starts a TLS handshake, and returns the first byte of the answer.
fn first_byte(stream: &mut TcpStream) -> std::io::Result<u8> {
    let name = ServerName::IpAddress(stream.peer_addr()?.ip().into());
    let client = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_protocol_versions(&[&rustls::version::TLS13])
        .map(|builder| builder.with_root_certificates(RootCertStore::empty()).with_no_client_auth())
        .and_then(|config| ClientConnection::new(Arc::new(config), name));
    client.map_err(std::io::Error::other)?.write_tls(stream)?;
    stream.set_read_timeout(Some(PROBE_TIMEOUT))?;
    let mut first = [0];
    stream.read_exact(&mut first)?;
    Ok(first[0])
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
    use std::io::Write as _;
    use std::net::TcpListener;

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

    #[test]
    fn blames_no_certificate_of_an_agent_that_does_not_answer() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let agent = listener.local_addr().unwrap().to_string();
        let silent = probe(&agent);
        assert!(silent.contains("overloaded") && !silent.contains("certificate"), "{silent}");
        let answers = |bytes: &'static [u8]| {
            std::thread::scope(|scope| {
                let probed = scope.spawn(|| probe(&agent));
                let (mut stream, _) = listener.accept().unwrap();
                stream.write_all(bytes).unwrap();
                // The probe must not read a reset before the bytes.
                let _ = stream.read(&mut [0; 1024]);
                probed.join().unwrap()
            })
        };
        drop(listener.accept().unwrap());
        assert!(answers(b"HTTP/1.1 400\r\n").contains("does not use TLS"));
        assert!(answers(&[22, 3, 3]).contains("certificate"));
    }
}
