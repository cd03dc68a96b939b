//! Configuration files of gateways: TOML, checked completely before anything is changed.
//!
//! ```
//! let text = r#"
//! [bundle.tokyo]
//! remote = ["10.2.0.0/16"]
//! peer = "203.0.113.7"
//! key = "a secret of both gateways"
//! "#;
//! let config = bundler_live::config::Send::parse("send.toml", text)?;
//! assert_eq!(config.bundles[0].settings.mode, bundler::settings::Mode::Enforce);
//! # Ok::<(), bundler_live::Error>(())
//! ```

mod bundle;
mod keys;
#[cfg(test)]
mod tests;

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::{Path, PathBuf};

use bundler::message::PORT;
use lab::Code;
use lab::config::{Sink, Table, Value};

use crate::{Error, Result};
use bundle::{ADDRESS_HELP, Peer};
pub use bundle::{Incoming, Outgoing};
use keys::{RECEIVE, SEND};

pub use lab::Diagnostics;

/// Default folder of the status sockets.
pub const STATUS_FOLDER: &str = "/run/netarium";

/// Configuration of a sendbox.
#[derive(Clone, Debug)]
pub struct Send {
    /// Settings common to both types of gateways.
    pub common: Common,
    /// Number of its routing table, and of the first of its four routing rules.
    pub table: u32,
    /// Poll the clock for the last 100 µs before a packet is due.
    pub spin: bool,
    /// The host's source address translation exempts the bundles' prefixes.
    pub is_exempt: bool,
    pub bundles: Vec<Outgoing>,
}

/// Configuration of a receivebox.
#[derive(Clone, Debug)]
pub struct Receive {
    /// Settings common to both types of gateways.
    pub common: Common,
    /// Interfaces at which packets of bundles arrive; if empty, those with routes to the peers.
    pub interfaces: Vec<String>,
    pub bundles: Vec<Incoming>,
}

/// Settings common to both types of gateways.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Common {
    /// Address for messages and encapsulated packets.
    pub listen: SocketAddr,
    /// Name of its TUN device.
    pub device: String,
    /// Path of the status socket.
    pub status: PathBuf,
    /// Address of the metrics server.
    pub metrics: Option<SocketAddr>,
}

impl Common {
    /// The keys, and whether their values equal those of `other`.
    fn compared(&self, other: &Self) -> [(&'static str, bool); 4] {
        [
            ("listen", self.listen == other.listen),
            ("device", self.device == other.device),
            ("status", self.status == other.status),
            ("metrics", self.metrics == other.metrics),
        ]
    }
}

impl Send {
    /// The first key that differs from `other` and is read only at the start.
    pub(crate) fn fixed_difference(&self, other: &Self) -> Option<&'static str> {
        let own = [
            ("table", self.table == other.table),
            ("spin", self.spin == other.spin),
            ("translation", self.is_exempt == other.is_exempt),
        ];
        first_difference(self.common.compared(&other.common).into_iter().chain(own))
    }

    /// Reads a file.
    ///
    /// # Errors
    /// If it cannot be read, or with all its errors.
    pub fn load(path: &Path) -> Result<Self> {
        Self::parse_in(path, &read(path)?)
    }

    /// Parses a text; paths in it are relative to the current directory.
    ///
    /// # Errors
    /// All its errors.
    pub fn parse(name: &str, text: &str) -> Result<Self> {
        Self::parse_in(Path::new(name), text)
    }

    fn parse_in(path: &Path, text: &str) -> Result<Self> {
        let built =
            lab::config::read(&path.display().to_string(), text, SEND.section, |root, sink| {
                let bundles =
                    bundle::read_all(root.read(SEND.bundle), sink, |entry, table, sink| {
                        bundle::outgoing(entry, table, path, sink)
                    });
                let peers: Vec<SocketAddr> = bundles.iter().map(|(it, _)| it.peer).collect();
                let ids = bundles.iter().map(|(it, at)| (it.settings.id, &it.name, at));
                bundle::check_ids(ids, sink);
                bundle::check_prefixes(&bundles, |it| (&it.remote, &it.local), "remote", sink);
                Self {
                    common: common(root, "send", &peers, sink),
                    table: table(root, sink),
                    spin: root.read(SEND.spin),
                    is_exempt: root.read(SEND.translation).is_some(),
                    bundles: bundles.into_iter().map(|(bundle, _)| bundle).collect(),
                }
            });
        Ok(built.map_err(|found| found.of_file(path))?)
    }
}

impl Receive {
    /// The first key that differs from `other` and is read only at the start.
    pub(crate) fn fixed_difference(&self, other: &Self) -> Option<&'static str> {
        first_difference(self.common.compared(&other.common).into_iter())
    }

    /// Reads a file.
    ///
    /// # Errors
    /// If it cannot be read, or with all its errors.
    pub fn load(path: &Path) -> Result<Self> {
        Self::parse_in(path, &read(path)?)
    }

    /// Parses a text; paths in it are relative to the current directory.
    ///
    /// # Errors
    /// All its errors.
    pub fn parse(name: &str, text: &str) -> Result<Self> {
        Self::parse_in(Path::new(name), text)
    }

    fn parse_in(path: &Path, text: &str) -> Result<Self> {
        let built =
            lab::config::read(&path.display().to_string(), text, RECEIVE.section, |root, sink| {
                let bundles =
                    bundle::read_all(root.read(RECEIVE.bundle), sink, |entry, table, sink| {
                        bundle::incoming(entry, table, path, sink)
                    });
                let peers: Vec<SocketAddr> = bundles.iter().map(|(it, _)| it.peer).collect();
                let ids = bundles.iter().map(|(it, at)| (it.id, &it.name, at));
                bundle::check_ids(ids, sink);
                bundle::check_prefixes(&bundles, |it| (&it.local, &it.remote), "local", sink);
                Self {
                    common: common(root, "receive", &peers, sink),
                    interfaces: interfaces(root),
                    bundles: bundles.into_iter().map(|(bundle, _)| bundle).collect(),
                }
            });
        Ok(built.map_err(|found| found.of_file(path))?)
    }
}

fn first_difference(mut keys: impl Iterator<Item = (&'static str, bool)>) -> Option<&'static str> {
    keys.find(|(_, is_equal)| !is_equal).map(|(key, _)| key)
}

fn read(path: &Path) -> Result<String> {
    lab::read_text(path).map_err(|e| Error::file("read", path, e))
}

fn table(root: &Table, sink: &mut Sink) -> u32 {
    let table = root.read(SEND.table);
    if let Some(value) = root.get(SEND.table).filter(|_| (253..=255).contains(&table)) {
        sink.report(Code::Conflict, &value.at, "253 to 255 are the system's own tables");
    }
    table
}

fn interfaces(root: &Table) -> Vec<String> {
    let values = root.get(RECEIVE.interface).map(Value::one_or_more).unwrap_or_default();
    values.iter().filter_map(|value| Some(value.text()?.to_owned())).collect()
}

fn common(root: &Table, role: &str, peers: &[SocketAddr], sink: &mut Sink) -> Common {
    let any: IpAddr = if peers.iter().all(SocketAddr::is_ipv4) {
        Ipv4Addr::UNSPECIFIED.into()
    } else {
        Ipv6Addr::UNSPECIFIED.into()
    };
    let at = |key| root.get(key).map_or(0..0, |value| value.at.clone());
    let listen = bundle::parsed::<Peer>(root.get(SEND.listen), ADDRESS_HELP, sink);
    let listen = listen.map_or(SocketAddr::new(any, PORT), |peer| peer.0);
    if let Some(peer) = peers.iter().find(|it| it.is_ipv6() && listen.is_ipv4()) {
        let message = format!("{peer} cannot be reached from {listen}");
        sink.report(Code::Conflict, &at(SEND.listen.field), message);
    }
    let device = root.read(SEND.device);
    let fits = (1..=15).contains(&device.len())
        && device.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_.".contains(&b));
    if !fits || device == "lo" || device.starts_with('.') {
        sink.report(
            Code::BadName,
            &at(SEND.device.field),
            format!("`{device}` is not a device name"),
        )
        .help("a name has at most 15 letters, digits, `-`, `_`, `.`");
    }
    let status = root.read(SEND.status).map(PathBuf::from);
    let metrics = root.get(SEND.metrics);
    Common {
        listen,
        device: device.to_owned(),
        status: status.unwrap_or_else(|| Path::new(STATUS_FOLDER).join(format!("{role}.sock"))),
        metrics: bundle::parsed(metrics, "write such as \"127.0.0.1:9316\"", sink),
    }
}

/// The reference page of both files: `docs/src/reference/bundle.md`.
pub fn reference_page() -> String {
    let page = [("send.toml", SEND.section), ("receive.toml", RECEIVE.section)]
        .map(|(file, section)| format!("\n## `{file}`\n\n{}", lab::config::reference(section)));
    let head = "# Configuration of Bundler's gateways\n\nTOML. Quantities are texts with a number \
                and a unit: `\"5 Mbit/s\"`.\n`--check` reports every error of a file with its line; \
                [error codes](errors.md) explains the\ncodes.\n";
    head.to_owned() + &page.concat()
}
