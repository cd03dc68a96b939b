//! What machines hold, as a file says it: plans can be made before any agent runs.

use std::collections::BTreeMap;
use std::path::Path;

use base::{Bandwidth, Bytes};
use cluster::Resources;
use cluster::placement::Machine;
use serde::Deserialize;
use serde::de::{Deserializer, Error as _};

use crate::{Error, Result};

/// As many hosts as an agent takes that is not told.
const HOSTS: u32 = 1_000;

/// `[machine.NAME]` of a file that lists agents.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    cores: f64,
    #[serde(deserialize_with = "quantity")]
    memory: Bytes,
    #[serde(default, deserialize_with = "maybe")]
    nic: Option<Bandwidth>,
    #[serde(default, deserialize_with = "maybe")]
    traffic: Option<Bandwidth>,
    hosts: Option<u32>,
}

/// The rest is for those who connect.
#[derive(Deserialize)]
struct File {
    #[serde(default)]
    machine: BTreeMap<String, Entry>,
}

fn quantity<'de, D: Deserializer<'de>, T: std::str::FromStr<Err = base::QuantityError>>(
    from: D,
) -> Result<T, D::Error> {
    String::deserialize(from)?.parse().map_err(D::Error::custom)
}

fn maybe<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Bandwidth>, D::Error> {
    quantity(from).map(Some)
}

/// The machines that a file describes, in the order of their names.
///
/// # Errors
/// If the file cannot be read, is wrong, or describes none.
pub fn of_file(path: &Path) -> Result<Vec<Machine>> {
    let text = std::fs::read_to_string(path).map_err(Error::file("read", path))?;
    let usage = |what: &str| Error::Usage { text: format!("{}: {what}", path.display()) };
    let file: File = toml::from_str(&text).map_err(|error| usage(error.message()))?;
    if file.machine.is_empty() {
        return Err(usage(
            "no machine is described: `[machine.NAME]` with `cores` and `memory`, and `nic`, \
             `traffic` and `hosts` where they are limited",
        ));
    }
    let machine = |(name, entry): (String, Entry)| {
        if !(entry.cores.is_finite() && entry.cores > 0.0) {
            return Err(usage(&format!("`cores` of `{name}`: a number above 0")));
        }
        let resources = Resources {
            cores: entry.cores,
            memory: entry.memory,
            nic: entry.nic,
            traffic: entry.traffic,
            hosts: entry.hosts.unwrap_or(HOSTS),
        };
        Ok(Machine { name, resources })
    };
    file.machine.into_iter().map(machine).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Vec<Machine>> {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), text).unwrap();
        of_file(file.path())
    }

    #[test]
    fn machines_are_read() {
        let machines = read(
            "agents = [\"192.0.2.1\"]\n[machine.two]\ncores = 2.5\nmemory = \"4 GiB\"\n\
             [machine.one]\ncores = 8\nmemory = \"16 GiB\"\nnic = \"10 Gbit/s\"\nhosts = 20\n",
        )
        .unwrap();
        assert_eq!(machines.iter().map(|m| m.name.as_str()).collect::<Vec<_>>(), ["one", "two"]);
        let one = machines[0].resources;
        assert_eq!((one.cores, one.memory, one.hosts), (8.0, Bytes::new(16 << 30), 20));
        assert_eq!(one.nic, Some(Bandwidth::from_mbits_per_sec(10_000)));
        let two = machines[1].resources;
        assert_eq!((two.cores, two.nic, two.traffic, two.hosts), (2.5, None, None, HOSTS));
    }

    #[test]
    fn mistakes_are_told() {
        let cases = [
            ("agents = []\n", "no machine is described"),
            ("[machine.a]\ncores = 1\n", "missing field `memory`"),
            ("[machine.a]\ncores = 0\nmemory = \"1 GiB\"\n", "`cores` of `a`"),
            ("[machine.a]\ncores = 1\nmemory = \"1 Gib\"\n", "Gib"),
            ("[machine.a]\ncores = 1\nmemory = \"1 GiB\"\nnics = \"1 Gbit/s\"\n", "nics"),
        ];
        for (text, words) in cases {
            let error = read(text).unwrap_err().to_string();
            assert!(error.contains(words), "{text}: {error}");
        }
    }
}
