//! Tables `[bundle.NAME]`.

use std::fmt::Display;
use std::net::{IpAddr, SocketAddr};
use std::path::Path;
use std::str::FromStr;

use base::Bytes;
use bundler::constants::Constants;
use bundler::control::Control;
use bundler::digest::{self, Key as Secret};
use bundler::message::PORT;
use bundler::settings::{Marking, Settings};
use lab::Code;
use lab::config::{
    At, BUNDLE, CONSTANT_CONTROL, CONTROL_KINDS, Entry, Key, Name, Raw, Sink, Surroundings, Table,
    Value,
};
use queue::{Discipline, QueueConfig, QueueLimit};

use super::keys::{INCOMING, OUTGOING};
use crate::Prefix;

pub(super) const ADDRESS_HELP: &str = "write an address and a port, such as \"203.0.113.7:28316\"";
const PREFIX_HELP: &str = "write prefixes, such as [\"10.2.0.0/16\"]";
/// Minimum length of a secret: shorter ones can be guessed.
const MIN_KEY_BYTES: usize = 16;

/// A bundle at its sendbox.
#[derive(Clone, Debug, PartialEq)]
pub struct Outgoing {
    pub name: String,
    /// Addresses of the other site.
    pub remote: Vec<Prefix>,
    /// Addresses of this site; any if empty.
    pub local: Vec<Prefix>,
    pub peer: SocketAddr,
    pub settings: Settings,
}

/// A bundle at its receivebox.
#[derive(Clone, Debug, PartialEq)]
pub struct Incoming {
    pub name: String,
    /// Addresses of this site: the `remote` of the sendbox.
    pub local: Vec<Prefix>,
    /// Addresses of the other site; any if empty.
    pub remote: Vec<Prefix>,
    pub peer: SocketAddr,
    /// Distinguishes bundles between the same gateways.
    pub id: u32,
    /// Keys, from the secret of both gateways.
    pub key: Secret,
    /// How the gateways identify packets.
    pub marking: Marking,
    /// Bytes per packet on the path in addition to layer 3.
    pub overhead: Bytes,
}

/// The address of a gateway; its port may be missing.
pub(super) struct Peer(pub(super) SocketAddr);

impl FromStr for Peer {
    type Err = String;

    fn from_str(text: &str) -> std::result::Result<Self, String> {
        let whole = text.parse().ok();
        let bare = || text.parse::<IpAddr>().ok().map(|address| SocketAddr::new(address, PORT));
        whole.or_else(bare).map(Self).ok_or_else(|| format!("`{text}` is not an address"))
    }
}

/// Reads all bundles, with the positions of their names.
pub(super) fn read_all<T>(
    bundles: &Table,
    sink: &mut Sink,
    mut each: impl FnMut(&Entry, &Table, &mut Sink) -> Option<T>,
) -> Vec<(T, At)> {
    if bundles.entries.is_empty() {
        sink.report(Code::MissingKey, &(0..0), "no bundle is configured")
            .help("a bundle is a section such as `[bundle.tokyo]`");
    }
    let read = bundles.entries.iter().filter_map(|entry| {
        let bundle = each(entry, entry.value.table()?, sink)?;
        Some((bundle, entry.key_at.clone()))
    });
    read.collect()
}

pub(super) fn outgoing(
    entry: &Entry,
    table: &Table,
    file: &Path,
    sink: &mut Sink,
) -> Option<Outgoing> {
    let remote = required_prefixes(table, OUTGOING.remote, sink);
    let local = prefixes(&table.read(OUTGOING.local), sink);
    let peer = parsed::<Peer>(table.get(OUTGOING.peer), ADDRESS_HELP, sink);
    let key = key(entry, table, file, sink);
    let scheduler = scheduler(&table.read(BUNDLE.scheduler), sink);
    let control = control(&table.read(OUTGOING.control), sink);
    let (floor, ceiling) = (table.read(BUNDLE.floor), table.read(BUNDLE.ceiling));
    if let Some(ceiling) = ceiling.filter(|ceiling| *ceiling < floor) {
        let at = table.get(BUNDLE.ceiling).map_or(0..0, |value| value.at.clone());
        let message = format!("`ceiling` ({ceiling}) is below `floor` ({floor})");
        sink.report(Code::Conflict, &at, message);
    }
    let (remote, key) = (remote?, key?);
    let settings = Settings {
        id: table.read(OUTGOING.id).unwrap_or_else(|| id_of(&key)),
        key,
        control: control?,
        scheduler: scheduler?,
        marking: table.read(OUTGOING.marking),
        mode: table.read(BUNDLE.mode),
        floor,
        ceiling,
        weight: table.read(BUNDLE.weight),
        overhead: table.read(OUTGOING.overhead),
        elasticity: table.read(BUNDLE.elasticity),
        multipath: table.read(BUNDLE.multipath),
        seed: table.read(OUTGOING.seed),
        constants: Constants::default(),
    };
    let name = entry.key.clone();
    Some(Outgoing { name, remote, local, peer: peer?.0, settings })
}

pub(super) fn incoming(
    entry: &Entry,
    table: &Table,
    file: &Path,
    sink: &mut Sink,
) -> Option<Incoming> {
    let local = required_prefixes(table, INCOMING.local, sink);
    let remote = prefixes(&table.read(INCOMING.remote), sink);
    let peer = parsed::<Peer>(table.get(OUTGOING.peer), ADDRESS_HELP, sink);
    let key = key(entry, table, file, sink)?;
    Some(Incoming {
        name: entry.key.clone(),
        local: local?,
        remote,
        peer: peer?.0,
        id: table.read(OUTGOING.id).unwrap_or_else(|| id_of(&key)),
        marking: table.read(OUTGOING.marking),
        overhead: table.read(OUTGOING.overhead),
        key,
    })
}

/// Both gateways derive the same number from the secret.
fn id_of(key: &digest::Key) -> u32 {
    digest::of_sequence(&key.digest(), 0, 0) as u32 | 1
}

/// Parses a text as a `T`; `help` describes the format.
pub(super) fn parsed<T: FromStr>(value: Option<&Value>, help: &str, sink: &mut Sink) -> Option<T>
where
    T::Err: Display,
{
    let value = value?;
    let parsed = value.text()?.parse();
    parsed
        .map_err(|e: T::Err| _ = sink.report(Code::BadAddress, &value.at, e.to_string()).help(help))
        .ok()
}

/// One prefix or a list of them.
fn prefixes(value: &Value, sink: &mut Sink) -> Vec<Prefix> {
    let list = value.one_or_more().iter();
    list.filter_map(|value| parsed(Some(value), PREFIX_HELP, sink)).collect()
}

/// The prefixes of a key that needs at least one.
fn required_prefixes(table: &Table, key: Key<Option<Raw>>, sink: &mut Sink) -> Option<Vec<Prefix>> {
    let value = table.get(key)?;
    if value.one_or_more().is_empty() {
        let message = format!("`{}` has no prefix", key.name());
        sink.report(Code::OutOfRange, &value.at, message).help(PREFIX_HELP);
    }
    Some(prefixes(value, sink)).filter(|list| !list.is_empty())
}

/// A queue in the format of a lab's bundle.
fn scheduler(value: &Value, sink: &mut Sink) -> Option<QueueConfig> {
    let surroundings = Surroundings {
        // A full packet with its Ethernet header.
        full_size: Bytes::new(1514),
        bdp: None,
        limit: QueueLimit::UNLIMITED,
        flows: 65_536,
        key: BUNDLE.scheduler,
        place: "a bundle",
    };
    let queue = surroundings.queue(Some(value), sink);
    let wrong = match queue.check() {
        Ok(()) if matches!(queue.discipline, Discipline::Policer { .. }) => {
            "a policer has no queue, and a sendbox must queue packets".to_owned()
        }
        Ok(()) => return Some(queue),
        Err(error) => error.to_string(),
    };
    sink.report(Code::Conflict, &value.at, wrong);
    None
}

fn control(value: &Value, sink: &mut Sink) -> Option<Control> {
    let Some(table) = value.table() else {
        let parsed = value.text()?.parse::<Control>();
        return parsed
            .map_err(|e| _ = sink.report(Code::UnknownWord, &value.at, e.to_string()))
            .ok();
    };
    match table.text(CONTROL_KINDS.key)? {
        "constant" => table.read(CONSTANT_CONTROL.rate).map(Control::Constant),
        word => word.parse().ok(),
    }
}

/// The secret, from the configuration or from a key file.
fn key(entry: &Entry, table: &Table, file: &Path, sink: &mut Sink) -> Option<digest::Key> {
    const HELP: &str = "both gateways need the same key; create it with `openssl rand -hex 32`";
    let (at, secret) = match (table.get(OUTGOING.key), table.get(OUTGOING.key_file)) {
        (Some(_), Some(value)) => {
            sink.report(Code::Conflict, &value.at, "`key` and `key_file` exclude each other");
            return None;
        }
        (Some(value), None) => (&value.at, value.text()?.to_owned()),
        (None, Some(value)) => {
            let path = file.parent().unwrap_or(Path::new("")).join(value.text()?);
            match lab::read_text(&path) {
                Ok(text) => (&value.at, text.trim().to_owned()),
                Err(error) => {
                    let message = format!("cannot read {}: {error}", path.display());
                    sink.report(Code::Unreadable, &value.at, message);
                    return None;
                }
            }
        }
        (None, None) => {
            sink.report(Code::MissingKey, &entry.value.at, "a bundle needs `key` or `key_file`")
                .help(HELP);
            return None;
        }
    };
    if secret.len() < MIN_KEY_BYTES {
        let message = format!("the key has {} bytes; it needs {MIN_KEY_BYTES}", secret.len());
        sink.report(Code::OutOfRange, at, message).help(HELP);
        return None;
    }
    Some(digest::Key::from_secret(&secret))
}

/// Reports bundles that the other gateway could not distinguish.
pub(super) fn check_ids<'b>(
    bundles: impl Iterator<Item = (u32, &'b String, &'b At)>,
    sink: &mut Sink,
) {
    let mut seen: Vec<(u32, &str)> = Vec::new();
    for (id, name, at) in bundles {
        if let Some((_, other)) = seen.iter().find(|(it, _)| *it == id) {
            let message = format!("`{name}` and `{other}` are both bundle {id}");
            let help = "give each a separate `key`, or an `id` that is the same at both gateways";
            sink.report(Code::Conflict, at, message).help(help);
        }
        seen.push((id, name));
    }
}

/// Reports bundles with the same prefixes.
pub(super) fn check_prefixes<T>(
    bundles: &[(T, At)],
    of: impl Fn(&T) -> (&[Prefix], &[Prefix]),
    key: &str,
    sink: &mut Sink,
) {
    for (place, (bundle, at)) in bundles.iter().enumerate() {
        let (to, from) = of(bundle);
        for (other, _) in &bundles[..place] {
            let (other_to, other_from) = of(other);
            let any = |list: &[Prefix], others: &[Prefix]| {
                list.is_empty()
                    || others.is_empty()
                    || list.iter().any(|it| others.iter().any(|other| it.overlaps(other)))
            };
            // Nested prefixes are valid: the longest match applies.
            let twice = to.iter().find(|it| other_to.contains(it));
            if let Some(prefix) = twice.filter(|_| any(from, other_from)) {
                let message = format!("{prefix} is `{key}` of two bundles");
                let help = "give the bundles different prefixes";
                sink.report(Code::Conflict, at, message).help(help);
            }
        }
    }
}
