//! The file that lists the agents of a cluster, and what their machines can hold.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::path::PathBuf;

use base::{Bandwidth, Bytes};
use serde::Deserialize;
use serde::de::{Deserializer, Error as _};
use toml::Spanned;

use crate::placement::Machine;
use crate::{Error, Resources, Result};

/// The port of agents where none is named.
pub const PORT: u16 = 7447;

/// Hosts that an agent takes if nothing limits them.
const DEFAULT_HOSTS: u32 = 1_000;

/// A hosts file.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Hosts {
    /// Addresses of agents: `host:port`.
    pub agents: Vec<String>,
    /// The folder of credentials, as the file names it.
    pub credentials: Option<PathBuf>,
    /// The machines, in the order of their names: plans can be made before any agent runs.
    pub machines: Vec<Machine>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(default)]
    agents: Vec<Spanned<String>>,
    credentials: Option<PathBuf>,
    #[serde(default)]
    machine: BTreeMap<String, Entry>,
}

/// `[machine.NAME]`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    cores: Spanned<f64>,
    #[serde(deserialize_with = "quantity")]
    memory: Bytes,
    #[serde(default, deserialize_with = "maybe")]
    nic: Option<Bandwidth>,
    #[serde(default, deserialize_with = "maybe")]
    traffic: Option<Bandwidth>,
    hosts: Option<u32>,
}

fn quantity<'de, D: Deserializer<'de>, T: std::str::FromStr<Err = base::QuantityError>>(
    from: D,
) -> Result<T, D::Error> {
    String::deserialize(from)?.parse().map_err(D::Error::custom)
}

fn maybe<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Bandwidth>, D::Error> {
    quantity(from).map(Some)
}

impl Hosts {
    /// Parses the `text` of `file`.
    ///
    /// # Errors
    /// If a field is wrong, with its line.
    pub fn parse(file: &str, text: &str) -> Result<Self> {
        let wrong = |at: usize, what: String| {
            let line = text.bytes().take(at).filter(|byte| *byte == b'\n').count() + 1;
            Error::HostsFile { file: file.to_owned(), line, what }
        };
        let parsed: File = toml::from_str(text).map_err(|error| {
            wrong(error.span().map_or(0, |span| span.start), error.message().to_owned())
        })?;
        let agent = |name: Spanned<String>| {
            let at = name.span().start;
            with_port(name.get_ref(), PORT).map_err(|error| wrong(at, format!("`agents`: {error}")))
        };
        let machine = |(name, entry): (String, Entry)| {
            let cores = *entry.cores.get_ref();
            if !(cores.is_finite() && cores > 0.0) {
                let what = format!("`cores` of `{name}` is {cores}; expected a number above 0");
                return Err(wrong(entry.cores.span().start, what));
            }
            let Entry { memory, nic, traffic, hosts, .. } = entry;
            let hosts = hosts.unwrap_or(DEFAULT_HOSTS);
            Ok(Machine { name, resources: Resources { cores, memory, nic, traffic, hosts } })
        };
        Ok(Self {
            agents: parsed.agents.into_iter().map(agent).collect::<Result<_>>()?,
            credentials: parsed.credentials,
            machines: parsed.machine.into_iter().map(machine).collect::<Result<_>>()?,
        })
    }
}

/// `host:port` of an address that may come without the port, which is then `default`, or as Zenoh
/// writes it.
///
/// # Errors
/// If it is no address.
pub fn with_port(text: &str, default: u16) -> Result<String> {
    let bare = text.strip_prefix("tcp/").or_else(|| text.strip_prefix("tls/")).unwrap_or(text);
    let wrong = || Error::Address { text: text.to_owned() };
    if let Ok(address) = bare.parse::<IpAddr>() {
        return Ok(SocketAddr::new(address, default).to_string());
    }
    let (host, port) = match bare.rsplit_once(':') {
        Some((host, port)) => (host, port.parse::<u16>().map_err(|_| wrong())?),
        None => (bare, default),
    };
    let inner = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
    let fits = match inner {
        Some(v6) => v6.parse::<Ipv6Addr>().is_ok(),
        None => !host.is_empty() && host.chars().all(|c| c.is_alphanumeric() || ".-_".contains(c)),
    };
    if fits { Ok(format!("{host}:{port}")) } else { Err(wrong()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Hosts> {
        Hosts::parse("hosts.toml", text)
    }

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
            assert_eq!(with_port(text, PORT).unwrap(), address);
        }
        for text in ["", ":80", "host:http", "a b", "[x]:1", "host:70000", "quic/host:1"] {
            assert!(with_port(text, PORT).is_err(), "{text}");
        }
    }

    #[test]
    fn agents_and_machines_are_read() {
        let hosts = parse(
            "agents = [\"192.0.2.1\"]\ncredentials = 'mine'\n\
             [machine.two]\ncores = 2.5\nmemory = \"4 GiB\"\n\
             [machine.one]\ncores = 8\nmemory = \"16 GiB\"\nnic = \"10 Gbit/s\"\nhosts = 20\n",
        )
        .unwrap();
        assert_eq!(hosts.agents, ["192.0.2.1:7447"]);
        assert_eq!(hosts.credentials, Some("mine".into()));
        let names: Vec<_> = hosts.machines.iter().map(|machine| machine.name.as_str()).collect();
        assert_eq!(names, ["one", "two"]);
        let one = hosts.machines[0].resources;
        assert_eq!((one.cores, one.memory, one.hosts), (8.0, Bytes::new(16 << 30), 20));
        assert_eq!(one.nic, Some(Bandwidth::from_mbits_per_sec(10_000)));
        let two = hosts.machines[1].resources;
        assert_eq!((two.cores, two.nic, two.traffic, two.hosts), (2.5, None, None, DEFAULT_HOSTS));
    }

    #[test]
    fn mistakes_have_a_line_and_a_field() {
        for (text, line, what) in [
            ("agents = 1", 1, "expected a sequence"),
            ("agents = [\n'a',\n'b c']", 3, "`agents`: `b c` is not an address of an agent"),
            ("agents = ['a']\nports = 1", 2, "unknown field `ports`"),
            ("agents = ['a'\n", 1, "unclosed array"),
            ("\n[machine.a]\ncores = 1\n", 2, "missing field `memory`"),
            ("[machine.a]\nmemory = \"1 GiB\"\ncores = nan", 3, "`cores` of `a` is NaN"),
            ("[machine.a]\nmemory = \"1 GiB\"\ncores = 0", 3, "`cores` of `a` is 0"),
            ("[machine.a]\ncores = 1\nmemory = \"1 Gib\"\n", 3, "Gib"),
            ("[machine.a]\ncores = 1\nmemory = \"1 GiB\"\nnics = \"1 Gbit/s\"\n", 4, "`nics`"),
        ] {
            let error = parse(text).unwrap_err().to_string();
            let place = format!("hosts.toml:{line}: ");
            assert!(error.starts_with(&place) && error.contains(what), "{text}: {error}");
        }
    }
}
