//! What orders a bundle's queue.

use base::{Bytes, Span};
use queue::{Discipline, QueueConfig, QueueLimit};
use toml::de::DeValue;

use super::mistake::suggest;
use super::section::Section;

const KINDS: [&str; 7] = ["sfq", "fq-codel", "codel", "droptail", "drophead", "priority", "drr"];
const KEYS: [&str; 9] =
    ["kind", "limit", "target", "interval", "flows", "quantum", "perturb", "bands", "quanta"];
const TIME: &str = "write such as \"5 ms\"";
const SIZE: &str = "write such as \"1514 B\"";
/// A full packet with its Ethernet header.
const QUANTUM: Bytes = Bytes::new(1514);

/// A word, or a table with a `kind`.
pub(super) fn read(section: &Section<'_>) -> Option<QueueConfig> {
    let value = section.value("scheduler")?;
    let (kind, at, table);
    let empty = toml::de::DeTable::new();
    match value.get_ref() {
        DeValue::String(text) => {
            (kind, at) = (text.as_ref(), value.span());
            table = Section::new(&empty, value.span(), &[], section.sink());
        }
        DeValue::Table(given) => {
            let mut known = KEYS.to_vec();
            known.push("ecn");
            table = Section::new(given, value.span(), &known, section.sink());
            if table.value("kind").is_none() {
                table.missing("kind", "such as `kind = \"fq-codel\"`");
            }
            (kind, at) = table.text("kind")?;
        }
        _ => {
            section.text("scheduler");
            return None;
        }
    }
    let target = table.parsed("target", TIME).unwrap_or(Span::from_millis(5));
    let interval = table.parsed("interval", TIME).unwrap_or(Span::from_millis(100));
    let quantum = table.parsed("quantum", SIZE).unwrap_or(QUANTUM);
    let flows = table.whole("flows", 65_536).unwrap_or(65_536);
    let bands = table.whole("bands", 8).unwrap_or(3);
    let discipline = match kind {
        "sfq" => Discipline::Sfq { flows, quantum, perturb: table.parsed("perturb", TIME) },
        "fq-codel" => Discipline::FqCoDel { target, interval, flows, quantum },
        "codel" => Discipline::CoDel { target, interval },
        "droptail" => Discipline::DropTail,
        "drophead" => Discipline::DropHead,
        "priority" => Discipline::Priority { bands },
        "drr" => {
            let quanta = table.list::<Bytes>("quanta", SIZE).unwrap_or_default();
            if !(1..=64).contains(&quanta.len()) {
                let help = "write `{ kind = \"drr\", quanta = [\"3 KB\", \"1 KB\"] }`";
                table.missing("quanta", help);
                return None;
            }
            Discipline::Drr { quanta }
        }
        word => {
            let message = format!("`scheduler` cannot be `{word}`");
            section.sink().report(Some(at), message, suggest(word, KINDS));
            return None;
        }
    };
    let limit = limit(&table).unwrap_or(QueueLimit::UNLIMITED);
    let ecn = table.flag("ecn").unwrap_or(kind == "fq-codel");
    let config = QueueConfig { discipline, limit, ecn };
    if let Err(error) = config.check() {
        section.sink().report(Some(value.span()), error.to_string(), None);
        return None;
    }
    Some(config)
}

/// `1000 packets` or `4 MB`.
fn limit(table: &Section<'_>) -> Option<QueueLimit> {
    let (text, at) = table.text("limit")?;
    let packets = text.strip_suffix("packets").and_then(|number| number.trim().parse().ok());
    let limit = match packets {
        Some(packets) => Some(QueueLimit::Packets(packets)).filter(|_| packets > 0),
        None => text.parse().ok().filter(|it: &Bytes| it.is_positive()).map(QueueLimit::Bytes),
    };
    if limit.is_none() {
        let help = "write `\"10000 packets\"` or `\"4 MB\"`".to_owned();
        table.sink().report(Some(at), format!("`{text}` is no queue limit"), help);
    }
    limit
}
