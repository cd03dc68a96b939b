//! Sections `[bundle.NAME]`.

use std::net::SocketAddr;
use std::ops::Range;
use std::path::Path;

use base::{Bandwidth, Bytes};
use bundler::control::Control;
use bundler::digest::{self, Key};
use bundler::settings::{Marking, Mode, Settings};
use toml::de::DeValue;

use super::section::{Section, Sink};
use super::{ADDRESS_HELP, Incoming, Outgoing, Peer, scheduler, tables};
use crate::Prefix;

const OUTGOING_KEYS: [&str; 18] = [
    "remote",
    "local",
    "peer",
    "key",
    "key_file",
    "id",
    "scheduler",
    "control",
    "marking",
    "mode",
    "floor",
    "ceiling",
    "weight",
    "overhead",
    "elasticity",
    "multipath",
    "on_failure",
    "seed",
];
const INCOMING_KEYS: [&str; 8] =
    ["local", "remote", "peer", "key", "key_file", "id", "marking", "overhead"];
const PREFIX_HELP: &str = "write prefixes, such as [\"10.2.0.0/16\"]";
/// Fewer octets can be guessed.
const SHORTEST_KEY: usize = 16;

const MARKINGS: [(&str, Marking); 3] = [
    ("header", Marking::Header),
    ("hash", Marking::Header),
    ("encapsulation", Marking::Encapsulation),
];
const MODES: [(&str, Mode); 3] =
    [("observe", Mode::Observe), ("dry-run", Mode::DryRun), ("enforce", Mode::Enforce)];

/// Reads all bundles, with the places of their names.
pub(super) fn read_all<'a, T>(
    root: &Section<'a>,
    sink: &Sink,
    mut each: impl FnMut(&str, (&'a toml::de::DeTable<'a>, Range<usize>)) -> Option<T>,
) -> Vec<(T, Range<usize>)> {
    const HELP: &str = "a bundle is a section such as `[bundle.tokyo]`";
    let Some(tables) = tables(root) else {
        let at = root.value("bundle").map(toml::Spanned::span);
        sink.report(at, "there is no bundle", HELP.to_owned());
        return Vec::new();
    };
    if tables.is_empty() {
        sink.report(None, "there is no bundle", HELP.to_owned());
    }
    let built = tables.into_iter().filter_map(|(name, table, at)| {
        let bundle = each(name, (table, at.clone()))?;
        Some((bundle, at))
    });
    built.collect()
}

pub(super) fn outgoing<'a>(
    name: &str,
    (table, at): (&'a toml::de::DeTable<'a>, Range<usize>),
    file: &Path,
    sink: &'a Sink,
) -> Option<Outgoing> {
    let section = Section::new(table, at, &OUTGOING_KEYS, sink);
    let remote = prefixes(&section, "remote", true);
    let local = prefixes(&section, "local", false);
    let peer = peer(&section);
    let key = key(&section, file);
    let scheduler = scheduler::read(&section);
    let control = control(&section);
    let marking = section.word("marking", &MARKINGS);
    let mode = section.word("mode", &MODES);
    let rate = |key| section.parsed::<Bandwidth>(key, "write such as \"5 Mbit/s\"");
    let (floor, ceiling) = (rate("floor"), rate("ceiling"));
    let overhead = overhead(&section);
    let (elasticity, multipath) = (section.flag("elasticity"), section.flag("multipath"));
    let seed = section.whole("seed", u32::MAX);
    let weight = section.whole("weight", 1000);
    // There is one word as yet: it is there for those who want to see it written.
    section.word("on_failure", &[("open", ())]);
    let id = section.whole("id", u32::MAX);
    let (remote, peer, key) = (remote?, peer?, key?);
    let usual = Settings::new(id.unwrap_or_else(|| id_of(&key)), key);
    let floor = floor.unwrap_or(usual.floor);
    if let Some(ceiling) = ceiling
        && ceiling < floor
    {
        section.conflict("ceiling", &format!("`ceiling` ({ceiling}) is below `floor` ({floor})"));
    }
    let settings = Settings {
        scheduler: scheduler.unwrap_or_else(|| usual.scheduler.clone()),
        control: control.unwrap_or_default(),
        marking: marking.unwrap_or_default(),
        mode: mode.unwrap_or_default(),
        floor,
        ceiling,
        weight: weight.unwrap_or(usual.weight).max(1),
        overhead: overhead.unwrap_or(usual.overhead),
        elasticity: elasticity.unwrap_or(usual.elasticity),
        multipath: multipath.unwrap_or(usual.multipath),
        seed: seed.map_or(usual.seed, u64::from),
        ..usual
    };
    let local = local.unwrap_or_default();
    Some(Outgoing { name: name.to_owned(), remote, local, peer, settings })
}

pub(super) fn incoming<'a>(
    name: &str,
    (table, at): (&'a toml::de::DeTable<'a>, Range<usize>),
    file: &Path,
    sink: &'a Sink,
) -> Option<Incoming> {
    let section = Section::new(table, at, &INCOMING_KEYS, sink);
    let local = prefixes(&section, "local", true);
    let remote = prefixes(&section, "remote", false);
    let peer = peer(&section);
    let key = key(&section, file);
    let marking = section.word("marking", &MARKINGS);
    let overhead = overhead(&section);
    let id = section.whole("id", u32::MAX);
    let (local, peer, key) = (local?, peer?, key?);
    Some(Incoming {
        name: name.to_owned(),
        local,
        remote: remote.unwrap_or_default(),
        peer,
        id: id.unwrap_or_else(|| id_of(&key)),
        marking: marking.unwrap_or_default(),
        overhead: overhead.unwrap_or_else(|| Settings::new(0, key.clone()).overhead),
        key,
    })
}

/// Both boxes derive the same number from the secret that they share.
fn id_of(key: &Key) -> u32 {
    digest::of_sequence(&key.digest(), 0, 0) as u32 | 1
}

fn prefixes(section: &Section<'_>, key: &str, wanted: bool) -> Option<Vec<Prefix>> {
    let found = section.list::<Prefix>(key, PREFIX_HELP);
    match &found {
        None if wanted && section.value(key).is_none() => section.missing(key, PREFIX_HELP),
        Some(list) if list.is_empty() && wanted => {
            let empty = section.value(key).and_then(|it| Some(it.get_ref().as_array()?.is_empty()));
            if empty == Some(true) {
                section.conflict(key, &format!("`{key}` has no prefix"));
            }
        }
        _ => {}
    }
    found.filter(|list| !wanted || !list.is_empty())
}

fn peer(section: &Section<'_>) -> Option<SocketAddr> {
    if section.value("peer").is_none() {
        section.missing("peer", "the address of the box at the other site");
    }
    section.parsed::<Peer>("peer", ADDRESS_HELP).map(|peer| peer.0)
}

fn overhead(section: &Section<'_>) -> Option<Bytes> {
    let overhead = section.parsed::<Bytes>("overhead", "write such as \"38 B\"")?;
    if overhead > Bytes::new(1000) {
        section.conflict("overhead", "`overhead` is what a packet costs beyond its IP bytes");
    }
    Some(overhead)
}

fn control(section: &Section<'_>) -> Option<Control> {
    let value = section.value("control")?;
    if let DeValue::Table(table) = value.get_ref() {
        let table = Section::new(table, value.span(), &["kind", "rate"], section.sink());
        table.word("kind", &[("constant", ())])?;
        let rate = table.parsed("rate", "write such as \"90 Mbit/s\"");
        if table.value("rate").is_none() {
            table.missing("rate", "a constant rate, such as \"90 Mbit/s\"");
        }
        return rate.map(Control::Constant);
    }
    section.parsed("control", "write such as \"copa\" or \"constant:90 Mbit/s\"")
}

/// The secret, from the configuration or from a file of its own beside it.
fn key(section: &Section<'_>, file: &Path) -> Option<Key> {
    const HELP: &str = "both boxes have the same one, as made by `openssl rand -hex 32`";
    let secret = match (section.value("key"), section.value("key_file")) {
        (Some(_), Some(_)) => {
            section.conflict("key_file", "there are `key` and `key_file`");
            return None;
        }
        (Some(_), None) => section.text("key")?.0.to_owned(),
        (None, Some(_)) => {
            let (path, at) = section.text("key_file")?;
            let path = file.parent().unwrap_or(Path::new("")).join(path);
            match std::fs::read_to_string(&path) {
                Ok(text) => text.trim().to_owned(),
                Err(error) => {
                    let message = format!("cannot read {}: {error}", path.display());
                    section.sink().report(Some(at), message, None);
                    return None;
                }
            }
        }
        (None, None) => {
            section.missing("key", HELP);
            return None;
        }
    };
    if secret.len() < SHORTEST_KEY {
        let key = if section.value("key").is_some() { "key" } else { "key_file" };
        let message = format!("the key has {} octets; it needs {SHORTEST_KEY}", secret.len());
        section.conflict_with(key, &message, HELP);
        return None;
    }
    Some(Key::from_secret(&secret))
}

/// Reports bundles that the other box could not tell apart.
pub(super) fn check_ids<'b>(
    bundles: impl Iterator<Item = (u32, &'b String, &'b Range<usize>)>,
    sink: &Sink,
) {
    let mut seen: Vec<(u32, &str)> = Vec::new();
    for (id, name, at) in bundles {
        if let Some((_, other)) = seen.iter().find(|(it, _)| *it == id) {
            let message = format!("`{name}` cannot be told from `{other}`: both are bundle {id}");
            let help = "give each a `key` of its own, or an `id` that is the same at both boxes";
            sink.report(Some(at.clone()), message, help.to_owned());
        }
        seen.push((id, name));
    }
}

/// Reports bundles whose packets could not be told apart.
pub(super) fn check_prefixes<T>(
    bundles: &[(T, Range<usize>)],
    of: impl Fn(&T) -> (&[Prefix], &[Prefix]),
    key: &str,
    sink: &Sink,
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
            // One within the other is fine: the longer one decides.
            let twice = to.iter().find(|it| other_to.contains(it));
            if let Some(prefix) = twice.filter(|_| any(from, other_from)) {
                let message = format!("{prefix} is `{key}` of two bundles");
                let help = "their other prefixes would have to tell them apart";
                sink.report(Some(at.clone()), message, help.to_owned());
            }
        }
    }
}
