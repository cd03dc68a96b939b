//! Configurations of boxes: TOML, checked as a whole before anything is touched.
//!
//! ```
//! let text = r#"
//! [bundle.tokyo]
//! remote = ["10.2.0.0/16"]
//! peer = "203.0.113.7"
//! key = "something that both boxes know, and nobody else"
//! "#;
//! let config = bundler_live::config::Send::parse("send.toml", text)?;
//! assert_eq!(config.bundles[0].settings.mode, bundler::settings::Mode::Enforce);
//! # Ok::<(), bundler_live::Error>(())
//! ```

mod bundle;
mod mistake;
mod scheduler;
mod section;
#[cfg(test)]
mod tests;

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::str::FromStr;

use base::Bytes;
use bundler::digest::Key;
use bundler::message::PORT;
use bundler::settings::{Marking, Settings};
use toml::de::{DeTable, DeValue};

use crate::{Error, Prefix, Result};
use section::{Section, Sink};

pub use mistake::{Mistake, Mistakes};

/// Where boxes say how they do, unless told otherwise.
pub const STATUS_FOLDER: &str = "/run/netarium";

/// Configuration of a sendbox.
#[derive(Clone, Debug)]
pub struct Send {
    /// What is the same for both kinds of boxes.
    pub common: Common,
    /// Number of its routing table, and of the first of its four routing rules.
    pub table: u32,
    /// Look at the clock for the last 100 µs before a packet is due.
    pub spin: bool,
    /// The machine's source address translation exempts the bundles' prefixes.
    pub is_exempt: bool,
    /// Its bundles, by name.
    pub bundles: Vec<Outgoing>,
}

/// Configuration of a receivebox.
#[derive(Clone, Debug)]
pub struct Receive {
    /// What is the same for both kinds of boxes.
    pub common: Common,
    /// Where packets of bundles arrive; if empty, where packets to the peers leave.
    pub interfaces: Vec<String>,
    /// Its bundles, by name.
    pub bundles: Vec<Incoming>,
}

/// What is the same for both kinds of boxes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Common {
    /// Where messages, and encapsulated packets, are received.
    pub listen: SocketAddr,
    /// Name of its TUN device.
    pub device: String,
    /// Socket that tells how it does.
    pub status: PathBuf,
    /// Where it serves metrics.
    pub metrics: Option<SocketAddr>,
}

/// A bundle at its sendbox.
#[derive(Clone, Debug)]
pub struct Outgoing {
    /// Its name.
    pub name: String,
    /// Addresses of the other site.
    pub remote: Vec<Prefix>,
    /// Addresses of this site; whichever if empty.
    pub local: Vec<Prefix>,
    /// The receivebox.
    pub peer: SocketAddr,
    /// How it is treated.
    pub settings: Settings,
}

/// A bundle at its receivebox.
#[derive(Clone, Debug)]
pub struct Incoming {
    /// Its name.
    pub name: String,
    /// Addresses of this site: the `remote` of the sendbox.
    pub local: Vec<Prefix>,
    /// Addresses of the other site; whichever if empty.
    pub remote: Vec<Prefix>,
    /// The sendbox.
    pub peer: SocketAddr,
    /// Tells bundles between the same boxes apart.
    pub id: u32,
    /// The secret that both boxes share.
    pub key: Key,
    /// How the boxes recognise packets.
    pub marking: Marking,
    /// Bytes that a packet costs on the path beyond layer 3.
    pub overhead: Bytes,
}

/// The address of a box; its port may be missing.
struct Peer(SocketAddr);

impl FromStr for Peer {
    type Err = String;

    fn from_str(text: &str) -> std::result::Result<Self, String> {
        let whole = text.parse().ok();
        let bare = || text.parse::<IpAddr>().ok().map(|address| SocketAddr::new(address, PORT));
        whole.or_else(bare).map(Self).ok_or_else(|| format!("`{text}` is no address"))
    }
}

const COMMON_KEYS: [&str; 5] = ["listen", "device", "status", "metrics", "bundle"];
const ADDRESS_HELP: &str = "write an address and a port, such as \"203.0.113.7:28316\"";

impl Send {
    /// Reads a file.
    ///
    /// # Errors
    /// If it cannot be read, or with all that is wrong in it.
    pub fn load(path: &Path) -> Result<Self> {
        Self::parse_in(path, &read(path)?)
    }

    /// Reads a text; paths in it are taken from the present folder.
    ///
    /// # Errors
    /// All that is wrong in it.
    pub fn parse(name: &str, text: &str) -> Result<Self> {
        Self::parse_in(Path::new(name), text)
    }

    fn parse_in(path: &Path, text: &str) -> Result<Self> {
        parse(path, text, &["table", "spin", "translation"], |root, sink| {
            let bundles = bundle::read_all(root, sink, |name, section| {
                bundle::outgoing(name, section, path, sink)
            });
            let peers: Vec<SocketAddr> = bundles.iter().map(|(it, _)| it.peer).collect();
            let ids = bundles.iter().map(|(it, at)| (it.settings.id, &it.name, at));
            bundle::check_ids(ids, sink);
            bundle::check_prefixes(&bundles, |it| (&it.remote, &it.local), "remote", sink);
            Self {
                common: common(root, "send", &peers),
                table: table(root).unwrap_or(u32::from(PORT)),
                spin: root.flag("spin").unwrap_or(false),
                is_exempt: is_exempt(root, sink),
                bundles: bundles.into_iter().map(|(bundle, _)| bundle).collect(),
            }
        })
    }
}

impl Receive {
    /// Reads a file.
    ///
    /// # Errors
    /// If it cannot be read, or with all that is wrong in it.
    pub fn load(path: &Path) -> Result<Self> {
        Self::parse_in(path, &read(path)?)
    }

    /// Reads a text; paths in it are taken from the present folder.
    ///
    /// # Errors
    /// All that is wrong in it.
    pub fn parse(name: &str, text: &str) -> Result<Self> {
        Self::parse_in(Path::new(name), text)
    }

    fn parse_in(path: &Path, text: &str) -> Result<Self> {
        parse(path, text, &["interface"], |root, sink| {
            let bundles = bundle::read_all(root, sink, |name, section| {
                bundle::incoming(name, section, path, sink)
            });
            let peers: Vec<SocketAddr> = bundles.iter().map(|(it, _)| it.peer).collect();
            let ids = bundles.iter().map(|(it, at)| (it.id, &it.name, at));
            bundle::check_ids(ids, sink);
            bundle::check_prefixes(&bundles, |it| (&it.local, &it.remote), "local", sink);
            Self {
                common: common(root, "receive", &peers),
                interfaces: root.list("interface", "name an interface").unwrap_or_default(),
                bundles: bundles.into_iter().map(|(bundle, _)| bundle).collect(),
            }
        })
    }
}

fn read(path: &Path) -> Result<String> {
    std::fs::read_to_string(path).map_err(|e| Error::file("read", path, e))
}

fn parse<T>(
    path: &Path,
    text: &str,
    keys: &[&str],
    build: impl for<'a> FnOnce(&Section<'a>, &'a Sink) -> T,
) -> Result<T> {
    let name = path.display().to_string();
    let sink = Sink::default();
    let (document, errors) = DeTable::parse_recoverable(text);
    for error in &errors {
        sink.report(error.span(), error.message(), None);
    }
    if !errors.is_empty() {
        return Err(Mistakes::new(&name, text, sink.into_list()).into());
    }
    let known: Vec<&str> = COMMON_KEYS.iter().chain(keys).copied().collect();
    let table = document.get_ref();
    let built = build(&Section::new(table, 0..0, &known, &sink), &sink);
    let list = sink.into_list();
    if list.is_empty() { Ok(built) } else { Err(Mistakes::new(&name, text, list).into()) }
}

/// The number of the table is also the priority of four rules: ahead of the look-up of the main
/// table, for otherwise no packet would come to the box.
fn table(root: &Section<'_>) -> Option<u32> {
    /// Of the rule that looks into the main table.
    const MAIN: u32 = 32_766;
    const SYSTEM: std::ops::RangeInclusive<u32> = 253..=255;
    let table = root.whole("table", MAIN - 4)?;
    if SYSTEM.contains(&table) {
        root.conflict("table", "253 to 255 are the system's own tables");
    }
    Some(table)
}

fn common(root: &Section<'_>, role: &str, peers: &[SocketAddr]) -> Common {
    let any: IpAddr = if peers.iter().all(SocketAddr::is_ipv4) {
        Ipv4Addr::UNSPECIFIED.into()
    } else {
        Ipv6Addr::UNSPECIFIED.into()
    };
    let listen = root.parsed::<Peer>("listen", ADDRESS_HELP).map(|peer| peer.0);
    let listen = listen.unwrap_or(SocketAddr::new(any, PORT));
    if let Some(peer) = peers.iter().find(|it| it.is_ipv6() && listen.is_ipv4()) {
        root.conflict("listen", &format!("{peer} cannot be reached from {listen}"));
    }
    let device = root.text("device").map_or("bundle0", |(name, at)| {
        let fits = (1..=15).contains(&name.len())
            && name.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_.".contains(&b));
        if !fits || name == "lo" || name.starts_with('.') {
            let help = "a name has at most 15 letters, digits, `-`, `_`, `.`";
            root.sink().report(Some(at), format!("`{name}` is no device name"), help.to_owned());
        }
        name
    });
    let status = root.text("status").map(|(path, _)| PathBuf::from(path));
    Common {
        listen,
        device: device.to_owned(),
        status: status.unwrap_or_else(|| Path::new(STATUS_FOLDER).join(format!("{role}.sock"))),
        metrics: root.parsed("metrics", "write such as \"127.0.0.1:9316\""),
    }
}

fn is_exempt(root: &Section<'_>, sink: &Sink) -> bool {
    let Some((text, at)) = root.text("translation") else { return false };
    let is_exempt = text == "exempt";
    if !is_exempt {
        sink.report(Some(at), "`translation` must be \"exempt\"", None);
    }
    is_exempt
}

/// The tables within `[bundle]`.
fn tables<'a>(
    root: &Section<'a>,
) -> Option<Vec<(&'a str, &'a DeTable<'a>, std::ops::Range<usize>)>> {
    let value = root.value("bundle")?;
    let DeValue::Table(bundles) = value.get_ref() else { return None };
    let mut found = Vec::new();
    for (name, value) in bundles {
        let DeValue::Table(table) = value.get_ref() else { return None };
        found.push((name.get_ref().as_ref(), table, name.span()));
    }
    Some(found)
}
