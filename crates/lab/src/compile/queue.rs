//! Queues: kinds, limits and their defaults.

use base::{Bandwidth, Bytes, Ratio, Span};
use fabric::{Discipline, LinkConfig, QueueConfig, QueueLimit, Rate, Trace};

use super::Compiler;
use crate::code::Code;
use crate::diagnostic::suggest;
use crate::fields::QUEUE_KINDS;
use crate::tree::{Table, Value};

/// The limit of a queue without one.
pub(crate) const UNLIMITED: &str = "unlimited";

/// Where a queue is: what its defaults and its limit depend on.
pub(super) struct Surroundings {
    /// The largest packet that waits, on the wire.
    pub(super) full_size: Bytes,
    /// Rate × 2 × delay; `None` without a rate.
    pub(super) bdp: Option<Bytes>,
    /// The limit of a queue that says none.
    pub(super) limit: QueueLimit,
    /// Number of flow queues, likewise.
    pub(super) flows: u32,
    /// What there is where nothing is said.
    pub(super) usual: Discipline,
    /// The key that says it.
    pub(super) key: &'static str,
    /// What it belongs to, where that has no bdp.
    pub(super) place: &'static str,
}

impl Surroundings {
    /// The queue where nothing is said.
    pub(super) fn queue(&self) -> QueueConfig {
        QueueConfig { discipline: self.usual.clone(), limit: self.limit, ecn: false }
    }
}

impl Compiler<'_> {
    /// Droptail with the larger of 1 bdp and 100 full-size packets.
    pub(super) fn default_queue(&self, config: &LinkConfig) -> QueueConfig {
        self.around(config).queue()
    }

    fn around(&self, config: &LinkConfig) -> Surroundings {
        let (full_size, bdp) = (self.full_size(config), bdp(config));
        let limit = match bdp {
            Some(bdp) if bdp > full_size * 100 => QueueLimit::Bytes(bdp),
            Some(_) => QueueLimit::Packets(100),
            // Without a rate nothing waits.
            None => QueueLimit::Packets(1000),
        };
        Surroundings {
            full_size,
            bdp,
            limit,
            flows: 1024,
            usual: Discipline::DropTail,
            key: "queue",
            place: "a link without a rate",
        }
    }

    /// The queue that a text or a table describes, on a link with this rate and delay.
    pub(super) fn queue(&mut self, value: &Value, config: &LinkConfig) -> QueueConfig {
        let around = self.around(config);
        self.queue_in(value, &around)
    }

    /// The queue that a text or a table describes, in a place like this.
    pub(super) fn queue_in(&mut self, value: &Value, around: &Surroundings) -> QueueConfig {
        let empty = Table::default();
        let (kind, table) = match (value.text(), value.table()) {
            (Some(text), _)
                if text == UNLIMITED || text.starts_with(|c: char| c.is_ascii_digit()) =>
            {
                let limit = self.limit(value, around);
                return QueueConfig { limit: limit.unwrap_or(around.limit), ..around.queue() };
            }
            (Some(text), _) => (text, &empty),
            (_, Some(table)) => (table.text("kind").unwrap_or_default(), table),
            _ => return around.queue(),
        };
        let limit = table.get("limit").and_then(|limit| self.limit(limit, around));
        let default_limit = match kind {
            _ if around.limit == QueueLimit::UNLIMITED => around.limit,
            "codel" => QueueLimit::Packets(1000),
            "fq-codel" => QueueLimit::Packets(10_240),
            _ => around.limit,
        };
        let limit = limit.unwrap_or(default_limit);
        let Some(discipline) = self.discipline(kind, table, limit, around) else {
            if value.text().is_some() {
                let known = QUEUE_KINDS.kinds.iter().map(|kind| kind.0).chain([UNLIMITED]);
                let what = match kind {
                    "drr" | "policer" => "needs a table with its settings".to_owned(),
                    _ => suggest(kind, known, "kinds"),
                };
                let message = format!("`{}` cannot be `{kind}`", around.key);
                self.sink.report(Code::UnknownWord, &value.at, message).help(what);
            }
            return around.queue();
        };
        let ecn = table.flag("ecn").unwrap_or(kind == "fq-codel");
        QueueConfig { discipline, limit, ecn }
    }

    fn discipline(
        &mut self,
        kind: &str,
        table: &Table,
        limit: QueueLimit,
        around: &Surroundings,
    ) -> Option<Discipline> {
        let full_size = around.full_size;
        let target = table.span("target").unwrap_or(Span::from_millis(5));
        let interval = table.span("interval").unwrap_or(Span::from_millis(100));
        let quantum = table.bytes("quantum").unwrap_or(full_size);
        let flows = small(table, "flows").unwrap_or(around.flows);
        Some(match kind {
            "droptail" => Discipline::DropTail,
            "drophead" => Discipline::DropHead,
            "red" => self.red(table, limit, full_size),
            "codel" => Discipline::CoDel { target, interval },
            "fq-codel" => Discipline::FqCoDel { target, interval, flows, quantum },
            "sfq" => Discipline::Sfq { flows, quantum, perturb: table.span("perturb") },
            "priority" => Discipline::Priority { bands: small(table, "bands").unwrap_or(3) },
            "drr" => {
                let value = table.get("quanta")?;
                let quanta: Option<Vec<Bytes>> =
                    value.list()?.iter().map(|quantum| quantum.text()?.parse().ok()).collect();
                let quanta = quanta?;
                if !(1..=64).contains(&quanta.len()) {
                    self.sink.report(
                        Code::OutOfRange,
                        &value.at,
                        "a DRR queue has 1 to 64 classes",
                    );
                    return None;
                }
                Discipline::Drr { quanta }
            }
            "policer" => {
                Discipline::Policer { rate: table.bandwidth("rate")?, burst: table.bytes("burst")? }
            }
            _ => return None,
        })
    }

    fn red(&mut self, table: &Table, limit: QueueLimit, full_size: Bytes) -> Discipline {
        let bytes = match limit {
            QueueLimit::Packets(packets) => full_size.count().saturating_mul(u64::from(packets)),
            QueueLimit::Bytes(bytes) => bytes.count(),
        };
        let min = table.bytes("min").unwrap_or(Bytes::new((bytes / 6).max(1)));
        let max = table.bytes("max").unwrap_or(Bytes::new((bytes / 2).max(2)));
        if min >= max {
            let at = table.get("min").or_else(|| table.get("max"));
            let at = at.map_or(0..0, |value| value.at.clone());
            let message = format!("`min` ({min}) is not below `max` ({max})");
            self.sink
                .report(Code::OutOfRange, &at, message)
                .help("a third of `max` is a good `min`");
        }
        Discipline::Red {
            min,
            max,
            probability: table
                .ratio("probability")
                .unwrap_or(Ratio::from_parts_per_billion(100_000_000)),
            weight: table.ratio("weight").unwrap_or(Ratio::from_parts_per_billion(2_000_000)),
        }
    }

    /// `1 bdp`, `100 packets`, `64 KiB` or `unlimited`.
    fn limit(&mut self, value: &Value, around: &Surroundings) -> Option<QueueLimit> {
        let text = value.text()?.trim();
        if text == UNLIMITED {
            return Some(QueueLimit::UNLIMITED);
        }
        let split = text.find(|c: char| !(c.is_ascii_digit() || c == '.' || c == '_'));
        let (number, unit) = text.split_at(split.unwrap_or(text.len()));
        let limit = match unit.trim() {
            "bdp" => number.parse::<f64>().ok().filter(|n| *n > 0.0 && *n < 1e6).and_then(|n| {
                let bytes = (around.bdp?.count() as f64 * n).round() as u64;
                Some(QueueLimit::Bytes(Bytes::new(bytes).max(around.full_size)))
            }),
            "packet" | "packets" => number.parse().ok().filter(|n| *n > 0).map(QueueLimit::Packets),
            _ => text.parse::<Bytes>().ok().filter(|b| b.is_positive()).map(QueueLimit::Bytes),
        };
        if limit.is_none() {
            let zero = number.bytes().all(|c| matches!(c, b'0' | b'.' | b'_'));
            let diagnostic = if zero && !number.is_empty() && !unit.trim().is_empty() {
                let message = format!("a queue of {text} would hold nothing");
                self.sink.report(Code::OutOfRange, &value.at, message)
            } else if unit.trim() == "bdp" && around.bdp.is_none() {
                let message = format!("{} has no bdp", around.place);
                self.sink.report(Code::Conflict, &value.at, message)
            } else {
                self.sink.report(Code::Quantity, &value.at, format!("`{text}` is no queue limit"))
            };
            // A link can be given a rate.
            let bdp = if around.key == "queue" { "`\"1 bdp\"`, " } else { "" };
            let help = "`\"100 packets\"`, `\"64 KiB\"` or `\"unlimited\"`";
            diagnostic.help(format!("write {bdp}{help}"));
        }
        limit
    }
}

fn small(table: &Table, key: &str) -> Option<u32> {
    table.whole(key).and_then(|value| u32::try_from(value).ok())
}

/// Rate × 2 × delay; `None` without a rate.
fn bdp(config: &LinkConfig) -> Option<Bytes> {
    let round_trip = config.delay.saturating_add(config.delay);
    mean_rate(&config.rate).map(|rate| rate.bytes_in(round_trip))
}

pub(super) fn mean_rate(rate: &Rate) -> Option<Bandwidth> {
    match rate {
        Rate::Unlimited => None,
        Rate::Constant(rate) => Some(*rate),
        Rate::Trace(trace) => {
            let bits =
                trace.opportunities.len() as u128 * u128::from(Trace::OPPORTUNITY.count()) * 8;
            let rate = bits * 1_000_000_000 / u128::from(trace.period.as_nanos().max(1));
            Some(Bandwidth::from_bits_per_sec(u64::try_from(rate).unwrap_or(u64::MAX)))
        }
    }
}
