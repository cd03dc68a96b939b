//! The hosts file: the agents of a cluster, and the resources of their machines.

use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::path::PathBuf;

use base::{Bandwidth, Bytes};
use lab::config::{Entry, Fields, Raw, Sink, Table};
use lab::{Code, section};

use crate::Machine;
use crate::{Error, Result};
use cluster::Resources;

/// Default port of agents.
pub const PORT: u16 = 7447;

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Hosts {
    /// Addresses of agents: `host:port`.
    pub agents: Vec<String>,
    /// The folder of credentials, as written in the file.
    pub credentials: Option<PathBuf>,
    /// The machines by name, for placement without running agents.
    pub machines: Vec<Machine>,
}

section! {
    FILE: File = "a hosts file", "The agents of a cluster.";
    agents: Raw, List(&Text), Default("[]"), "Addresses of agents: HOST or HOST:PORT.";
    credentials: Option<String>, Text, Unset(""), "The folder of credentials.";
    machine: Fields, Map(&Table(MACHINE.section)), Default("{}"), "Machines, `[machine.NAME]`.";
}

section! {
    MACHINE: MachineKeys = "a machine", "Capacity of a machine.";
    cores: Option<f64>, Number(0.001, 65_536.0), Required, "Cores of its processors.";
    memory: Option<Bytes>, Data(Bytes::new(1), Bytes::new(1 << 60)), Required, "Its memory.";
    nic: Option<Bandwidth>, Rate, Unset(""), "Rate of its network interface.";
    traffic: Option<Bandwidth>, Rate, Unset(""), "Rate of packets that it can emulate.";
    hosts: u32, Whole(0, u32::MAX as i64), Default("1000"), "Max hosts.";
}

impl Hosts {
    /// Parses the `text` of `file`.
    ///
    /// # Errors
    /// The first invalid key, with its line.
    pub fn parse(file: &str, text: &str) -> Result<Self> {
        lab::config::read(file, text, FILE.section, |root, sink| Self {
            agents: agents(root, sink),
            credentials: root.read(FILE.credentials).map(PathBuf::from),
            machines: machines(root.read(FILE.machine)),
        })
        .map_err(|errors| {
            let first = errors.list().first();
            let (line, what) = first.map_or((0, String::new()), |error| {
                let help = error.help.as_ref().map(|help| format!("; {help}")).unwrap_or_default();
                (error.position.0, format!("{}{help}", error.message))
            });
            Error::HostsFile { file: file.to_owned(), line: line as usize, what }
        })
    }
}

fn agents(root: &Table, sink: &mut Sink) -> Vec<String> {
    let mut agents = Vec::new();
    for value in root.read(FILE.agents).list().unwrap_or_default() {
        match value.text().map(|name| with_port(name, PORT)) {
            Some(Ok(agent)) => agents.push(agent),
            Some(Err(error)) => {
                sink.report(Code::BadAddress, &value.at, format!("`agents`: {error}"));
            }
            None => {}
        }
    }
    agents
}

/// The machines, in the order of their names.
fn machines(table: &Table) -> Vec<Machine> {
    let machine = |entry: &Entry| {
        let table = entry.value.table()?;
        let resources = Resources {
            cores: table.read(MACHINE.cores)?,
            memory: table.read(MACHINE.memory)?,
            nic: table.read(MACHINE.nic),
            traffic: table.read(MACHINE.traffic),
            hosts: table.read(MACHINE.hosts),
        };
        Some(Machine { name: entry.key.clone(), resources })
    };
    let mut machines: Vec<Machine> = table.entries.iter().filter_map(machine).collect();
    machines.sort_by(|a, b| a.name.cmp(&b.name));
    machines
}

/// Normalizes an address to `host:port`. The default port is `default`; a Zenoh prefix (`tcp/`,
/// `tls/`) is removed.
///
/// # Errors
/// If it is not an address.
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
    fn accepts_all_forms_of_addresses() {
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
    fn reads_agents_and_machines() {
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
        assert_eq!((two.cores, two.nic, two.traffic, two.hosts), (2.5, None, None, 1_000));
    }

    #[test]
    fn errors_have_line_and_key() {
        for (text, line, what) in [
            ("agents = 1", 1, "`agents` wants a list"),
            ("agents = [\n'a',\n'b c']", 3, "`agents`: `b c` is not an address of an agent"),
            ("agents = ['a']\nports = 1", 2, "a hosts file has no key `ports`"),
            ("agents = ['a'\n", 1, "unclosed array"),
            ("\n[machine.a]\ncores = 1\n", 2, "a machine needs `memory`"),
            ("[machine.a]\nmemory = \"1 GiB\"\ncores = nan", 3, "`cores` is out of range: NaN"),
            ("[machine.a]\nmemory = \"1 GiB\"\ncores = 0", 3, "`cores` is out of range: 0"),
            ("[machine.a]\ncores = 1\nmemory = \"1 Gib\"\n", 3, "Gib"),
            ("[machine.a]\ncores = 1\nmemory = \"1 GiB\"\nnics = \"1 Gbit/s\"\n", 4, "`nics`"),
        ] {
            let error = parse(text).unwrap_err().to_string();
            let place = format!("hosts.toml:{line}: ");
            assert!(error.starts_with(&place) && error.contains(what), "{text}: {error}");
        }
    }
}
