//! Queues: kinds, limits and their defaults.

use std::borrow::Cow;

use base::{Bandwidth, Bytes};
use fabric::{Discipline, LinkConfig, QueueConfig, QueueLimit, Rate, Trace};

use super::Compiler;
use crate::code::Code;
use crate::diagnostic::{Sink, suggest};
use crate::fields::{
    CODEL, DIRECTION, DROPTAIL, DRR, DUALPI2, FQ, FQ_CODEL, Key, Name, PIE, POLICER, PRIORITY,
    QUEUE_KINDS, RED, Raw, SFQ,
};
use crate::tree::{Table, Value};

/// The text of an unlimited queue limit.
pub(crate) const UNLIMITED: &str = "unlimited";
/// Default quantum of `fq`.
const FQ_QUANTUM_PACKETS: u64 = 10;

/// The surroundings of a queue, on which its defaults and limits depend.
pub struct Surroundings {
    /// Wire size of the largest packet.
    pub full_size: Bytes,
    /// Rate × 2 × delay; `None` without a rate.
    pub bdp: Option<Bytes>,
    /// The default limit.
    pub limit: QueueLimit,
    /// The default number of flow queues.
    pub flows: u32,
    /// The key that describes the queue.
    pub key: Key<Raw>,
    /// The place of the queue in messages, if it has no BDP.
    pub place: &'static str,
}

impl Compiler<'_> {
    /// The default limit is the larger of 1 BDP and 100 full-size packets.
    fn around(&self, config: &LinkConfig) -> Surroundings {
        let (full_size, bdp) = (self.full_size(config), bdp(config));
        let limit = match bdp {
            Some(bdp) if bdp > full_size * 100 => QueueLimit::Bytes(bdp),
            Some(_) => QueueLimit::Packets(100),
            // Without a rate the queue stays empty.
            None => QueueLimit::Packets(1000),
        };
        Surroundings {
            full_size,
            bdp,
            limit,
            flows: FQ_CODEL.flows.default(),
            key: DIRECTION.queue,
            place: "a link without a rate",
        }
    }

    /// The queue that a text or a table describes, on a link with this rate and delay.
    pub(super) fn queue(&mut self, value: Option<&Value>, config: &LinkConfig) -> QueueConfig {
        self.around(config).queue(value, self.sink)
    }
}

impl Surroundings {
    /// The queue that a text or a table describes, or the key's default.
    pub fn queue(&self, value: Option<&Value>, sink: &mut Sink) -> QueueConfig {
        match value {
            Some(value) => self.described(value, sink),
            None => self.described(&self.key.default(), sink),
        }
    }

    fn described(&self, value: &Value, sink: &mut Sink) -> QueueConfig {
        let (kind, table) = match (value.text(), value.table()) {
            (Some(text), _)
                if text == UNLIMITED || text.starts_with(|c: char| c.is_ascii_digit()) =>
            {
                let limit = self.limit(value, sink).unwrap_or(self.limit);
                return QueueConfig { limit, ..self.queue(None, sink) };
            }
            (Some(text), _) => (text, Table::EMPTY),
            (_, Some(table)) => (table.text(QUEUE_KINDS.key).unwrap_or_default(), table),
            _ => return self.queue(None, sink),
        };
        let limit = match kind {
            _ if self.limit == QueueLimit::UNLIMITED => {
                table.get(DROPTAIL.limit).map(Cow::Borrowed)
            }
            "codel" | "pie" => Some(table.value(CODEL.limit)),
            "fq-codel" | "fq-pie" => Some(table.value(FQ_CODEL.limit)),
            "dualpi2" => Some(table.value(DUALPI2.limit)),
            _ => table.get(DROPTAIL.limit).map(Cow::Borrowed),
        };
        let limit = limit.and_then(|limit| self.limit(&limit, sink)).unwrap_or(self.limit);
        let Some(discipline) = self.discipline(kind, table, limit, sink) else {
            if value.text().is_some() {
                let known = QUEUE_KINDS.kinds.iter().map(|kind| kind.0).chain([UNLIMITED]);
                let what = match kind {
                    "drr" | "policer" => "needs a table with its settings".to_owned(),
                    _ => suggest(kind, known, "kinds"),
                };
                let message = format!("`{}` cannot be `{kind}`", self.key.name());
                sink.report(Code::UnknownWord, &value.at, message).help(what);
            }
            return self.queue(None, sink);
        };
        let marks = matches!(kind, "fq-codel" | "fq-pie" | "dualpi2");
        let ecn = table.read(if marks { FQ_CODEL.ecn } else { RED.ecn });
        QueueConfig { discipline, limit, ecn }
    }

    fn discipline(
        &self,
        kind: &str,
        table: &Table,
        limit: QueueLimit,
        sink: &mut Sink,
    ) -> Option<Discipline> {
        let full_size = self.full_size;
        let (target, interval) = (table.read(CODEL.target), table.read(CODEL.interval));
        let quantum = table.read(FQ_CODEL.quantum).unwrap_or(full_size);
        let flows = table.given(FQ_CODEL.flows).unwrap_or(self.flows);
        Some(match kind {
            "droptail" => Discipline::DropTail,
            "drophead" => Discipline::DropHead,
            "red" => red(table, limit, full_size, sink),
            "codel" => Discipline::CoDel { target, interval },
            "fq" => {
                let quantum = table.read(FQ.quantum).unwrap_or(full_size * FQ_QUANTUM_PACKETS);
                Discipline::Fq { flows, quantum }
            }
            "fq-codel" => Discipline::FqCoDel { target, interval, flows, quantum },
            "pie" | "fq-pie" => {
                let target = table.read(PIE.target);
                let (update, burst) = (table.read(PIE.update), table.read(PIE.burst));
                if kind == "pie" {
                    Discipline::Pie { target, update, burst }
                } else {
                    Discipline::FqPie { target, update, burst, flows, quantum }
                }
            }
            "dualpi2" => Discipline::DualPi2 {
                target: table.read(DUALPI2.target),
                step: table.read(DUALPI2.step),
            },
            "sfq" => Discipline::Sfq { flows, quantum, perturb: table.read(SFQ.perturb) },
            "priority" => Discipline::Priority { bands: table.read(PRIORITY.bands) },
            "drr" => {
                let quanta = table.read(DRR.quanta)?;
                if !(1..=64).contains(&quanta.len()) {
                    sink.report(
                        Code::OutOfRange,
                        &table.get(DRR.quanta)?.at,
                        "a DRR queue has 1 to 64 classes",
                    );
                    return None;
                }
                Discipline::Drr { quanta }
            }
            "policer" => {
                let (rate, burst) = (table.read(POLICER.rate)?, table.read(POLICER.burst)?);
                if burst < full_size {
                    let message =
                        format!("a bucket of {burst} never passes a packet of {full_size}");
                    let at = &table.get(POLICER.burst)?.at;
                    let help = format!("with headers, the largest packet has {full_size}");
                    sink.report(Code::OutOfRange, at, message).help(help);
                }
                Discipline::Policer { rate, burst }
            }
            _ => return None,
        })
    }

    /// `1 bdp`, `100 packets`, `64 KiB` or `unlimited`.
    fn limit(&self, value: &Value, sink: &mut Sink) -> Option<QueueLimit> {
        let text = value.text()?.trim();
        if text == UNLIMITED {
            return Some(QueueLimit::UNLIMITED);
        }
        let split = text.find(|c: char| !(c.is_ascii_digit() || c == '.' || c == '_'));
        let (number, unit) = text.split_at(split.unwrap_or(text.len()));
        let limit = match unit.trim() {
            "bdp" => number.parse::<f64>().ok().filter(|n| *n > 0.0 && *n < 1e6).and_then(|n| {
                let bytes = (self.bdp?.count() as f64 * n).round() as u64;
                Some(QueueLimit::Bytes(Bytes::new(bytes).max(self.full_size)))
            }),
            "packet" | "packets" => number.parse().ok().filter(|n| *n > 0).map(QueueLimit::Packets),
            _ => text.parse::<Bytes>().ok().filter(|b| b.is_positive()).map(QueueLimit::Bytes),
        };
        if limit.is_none() {
            let zero = number.bytes().all(|c| matches!(c, b'0' | b'.' | b'_'));
            let diagnostic = if zero && !number.is_empty() && !unit.trim().is_empty() {
                let message = format!("a queue of {text} cannot hold a packet");
                sink.report(Code::OutOfRange, &value.at, message)
            } else if unit.trim() == "bdp" && self.bdp.is_none() {
                let message = format!("{} has no bdp", self.place);
                sink.report(Code::Conflict, &value.at, message)
            } else {
                sink.report(Code::Quantity, &value.at, format!("`{text}` is not a queue limit"))
            };
            // Only a link can be given a rate.
            let bdp = if self.key.name() == DIRECTION.queue.name() { "`\"1 bdp\"`, " } else { "" };
            let help = "`\"100 packets\"`, `\"64 KiB\"` or `\"unlimited\"`";
            diagnostic.help(format!("write {bdp}{help}"));
        }
        limit
    }
}

fn red(table: &Table, limit: QueueLimit, full_size: Bytes, sink: &mut Sink) -> Discipline {
    let bytes = match limit {
        QueueLimit::Packets(packets) => full_size.count().saturating_mul(u64::from(packets)),
        QueueLimit::Bytes(bytes) => bytes.count(),
    };
    let min = table.read(RED.min).unwrap_or(Bytes::new((bytes / 6).max(1)));
    let max = table.read(RED.max).unwrap_or(Bytes::new((bytes / 2).max(2)));
    if min >= max {
        let at = table.get(RED.min).or_else(|| table.get(RED.max));
        let at = at.map_or(0..0, |value| value.at.clone());
        let message = format!("`min` ({min}) is not below `max` ({max})");
        sink.report(Code::OutOfRange, &at, message).help("a third of `max` is a good `min`");
    }
    Discipline::Red {
        min,
        max,
        probability: table.read(RED.probability),
        weight: table.read(RED.weight),
        harddrop: table.read(RED.harddrop),
    }
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
