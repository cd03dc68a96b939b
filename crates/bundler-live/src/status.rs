//! How a box does: one list of figures, shown as JSON, as a table and as metrics.

use std::fmt::Write;
use std::io::Read;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use base::{Bandwidth, Span, Time};
use bundler::receivebox;
use bundler::sendbox;
use serde_json::{Map, Value, json};

use crate::{Error, Result};

/// The form of a status.
pub const SCHEMA: &str = "netarium.bundle/1";
/// The longest status that is read.
const LONGEST: u64 = 16 << 20;

/// Interval of snapshots: 1 ms for each bundle, at least 200 ms.
pub(crate) fn interval(bundles: usize) -> Span {
    Span::from_millis(bundles.max(200) as u64)
}

/// Whether a figure only grows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Gauge,
    Counter,
}

/// A figure; one that is not known is left out of metrics and `null` in JSON.
#[derive(Clone, Debug, PartialEq)]
struct Figure {
    name: &'static str,
    kind: Kind,
    value: Option<f64>,
}

/// A bundle as others see it.
#[derive(Clone, Debug, PartialEq)]
struct Row {
    name: String,
    peer: String,
    mode: Option<&'static str>,
    state: Option<String>,
    figures: Vec<Figure>,
}

/// A box as others see it.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Snapshot {
    role: &'static str,
    device: String,
    uptime: Span,
    figures: Vec<Figure>,
    rows: Vec<Row>,
}

/// Where the newest snapshot is.
#[derive(Clone, Debug, Default)]
pub(crate) struct Board(Arc<Mutex<Snapshot>>);

impl Board {
    pub(crate) fn put(&self, snapshot: Snapshot) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = snapshot;
    }

    pub(crate) fn get(&self) -> Snapshot {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

fn gauge(name: &'static str, value: Option<f64>) -> Figure {
    Figure { name, kind: Kind::Gauge, value }
}

fn counter(name: &'static str, value: u64) -> Figure {
    Figure { name, kind: Kind::Counter, value: Some(value as f64) }
}

fn rate(name: &'static str, rate: Option<Bandwidth>) -> Figure {
    gauge(name, rate.map(|rate| rate.bits_per_sec() as f64))
}

fn span(name: &'static str, span: Option<Span>) -> Figure {
    gauge(name, span.map(Span::as_secs_f64))
}

impl Snapshot {
    pub(crate) fn new(role: &'static str, device: &str, uptime: Span) -> Self {
        Self { role, device: device.to_owned(), uptime, ..Self::default() }
    }

    /// A figure of the box that only grows.
    pub(crate) fn count(&mut self, name: &'static str, value: u64) {
        self.figures.push(counter(name, value));
    }

    pub(crate) fn outgoing(
        &mut self,
        bundle: &crate::config::Outgoing,
        status: &sendbox::Status,
        foreign: u64,
        now: Time,
    ) {
        let counters = &status.counters;
        let mut figures = vec![
            span("state_for_s", Some(now.since(status.since))),
            rate("rate_bit_s", status.rate),
            rate("proposed_bit_s", status.proposed),
            rate("send_rate_bit_s", status.send_rate),
            rate("receive_rate_bit_s", status.receive_rate),
            rate("capacity_bit_s", status.capacity),
            span("rtt_s", status.rtt),
            span("min_rtt_s", status.min_rtt),
            span("queueing_s", status.queueing),
            span("sojourn_s", Some(status.sojourn)),
            gauge("backlog_bytes", Some(status.backlog.count() as f64)),
            gauge("backlog_packets", Some(status.backlog_packets as f64)),
            gauge("loss_ratio", status.loss.map(base::Ratio::as_f64)),
            gauge("out_of_order_ratio", status.out_of_order.map(base::Ratio::as_f64)),
            gauge("elasticity", status.elasticity),
            gauge("period_packets", Some(f64::from(status.period))),
        ];
        figures.extend(
            [
                ("arrived_packets", counters.arrived_packets),
                ("arrived_bytes", counters.arrived_bytes),
                ("sent_packets", counters.sent_packets),
                ("sent_bytes", counters.sent_bytes),
                ("dropped_packets", counters.dropped_packets),
                ("marked_packets", counters.marked_packets),
                ("epochs", counters.epochs),
                ("acks", counters.acks),
                ("late_acks", counters.late_acks),
                ("unmatched_acks", counters.unmatched_acks),
                ("rejected_messages", counters.rejected_messages),
                ("foreign_datagrams", foreign),
                ("messages", counters.messages),
                ("peer_restarts", counters.peer_restarts),
                ("transitions", counters.transitions),
            ]
            .map(|(name, value)| counter(name, value)),
        );
        self.rows.push(Row {
            name: bundle.name.clone(),
            peer: bundle.peer.to_string(),
            mode: Some(bundle.settings.mode.as_str()),
            state: Some(status.state.to_string()),
            figures,
        });
    }

    pub(crate) fn incoming(
        &mut self,
        bundle: &crate::config::Incoming,
        status: &receivebox::Status,
        foreign: u64,
        now: Time,
    ) {
        let counters = &status.counters;
        let mut figures = vec![
            gauge("period_packets", status.period.map(f64::from)),
            span("heartbeat_age_s", status.heartbeat.map(|at| now.since(at))),
        ];
        figures.extend(
            [
                ("received_packets", counters.packets),
                ("received_bytes", counters.bytes),
                ("acks", counters.acks),
                ("heartbeats", counters.heartbeats),
                ("reports", counters.reports),
                ("dropped_messages", counters.dropped),
                ("peer_restarts", counters.peer_restarts),
                ("expiries", counters.expiries),
                ("rejected_messages", counters.rejections.total()),
                ("rejected_packets", counters.encapsulated_rejections.total()),
                ("not_adopted_packets", counters.encapsulated_rejections.not_adopted),
                ("foreign_datagrams", foreign),
            ]
            .map(|(name, value)| counter(name, value)),
        );
        self.rows.push(Row {
            name: bundle.name.clone(),
            peer: bundle.peer.to_string(),
            mode: None,
            state: None,
            figures,
        });
    }

    /// As JSON, in SI units.
    pub(crate) fn json(&self) -> Value {
        let fields = |figures: &[Figure]| -> Map<String, Value> {
            let field = |figure: &Figure| {
                let value = match (figure.kind, figure.value) {
                    (_, None) => Value::Null,
                    (Kind::Counter, Some(value)) => json!(value as u64),
                    (Kind::Gauge, Some(value)) => json!(value),
                };
                (figure.name.to_owned(), value)
            };
            figures.iter().map(field).collect()
        };
        let rows = self.rows.iter().map(|row| {
            let mut object = Map::new();
            object.insert("name".to_owned(), json!(row.name));
            object.insert("peer".to_owned(), json!(row.peer));
            if let (Some(mode), Some(state)) = (row.mode, &row.state) {
                object.insert("mode".to_owned(), json!(mode));
                object.insert("state".to_owned(), json!(state));
            }
            object.extend(fields(&row.figures));
            Value::Object(object)
        });
        let mut object = Map::new();
        object.insert("schema".to_owned(), json!(SCHEMA));
        object.insert("role".to_owned(), json!(self.role));
        object.insert("device".to_owned(), json!(self.device));
        object.insert("uptime_s".to_owned(), json!(self.uptime.as_secs_f64()));
        object.extend(fields(&self.figures));
        object.insert("bundles".to_owned(), Value::Array(rows.collect()));
        Value::Object(object)
    }

    /// In the text format of Prometheus.
    pub(crate) fn metrics(&self) -> String {
        let mut lines: Vec<(&str, Kind, String)> = Vec::new();
        let role = self.role;
        lines.push((
            "uptime_s",
            Kind::Gauge,
            format!("{{role=\"{role}\"}} {}", self.uptime.as_secs_f64()),
        ));
        for figure in &self.figures {
            if let Some(value) = figure.value {
                lines.push((figure.name, figure.kind, format!("{{role=\"{role}\"}} {value}")));
            }
        }
        for row in &self.rows {
            let bundle = row.name.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', " ");
            let labels = format!("role=\"{role}\",bundle=\"{bundle}\"");
            if let Some(state) = &row.state {
                lines.push(("state", Kind::Gauge, format!("{{{labels},state=\"{state}\"}} 1")));
            }
            for figure in &row.figures {
                if let Some(value) = figure.value {
                    lines.push((figure.name, figure.kind, format!("{{{labels}}} {value}")));
                }
            }
        }
        // Lines of one metric stand together.
        lines.sort_by_key(|line| line.0);
        let mut text = String::new();
        let mut last = "";
        for (name, kind, line) in lines {
            let (kind, suffix) = match kind {
                Kind::Gauge => ("gauge", ""),
                Kind::Counter => ("counter", "_total"),
            };
            if name != last {
                let _ = writeln!(text, "# TYPE netarium_bundle_{name}{suffix} {kind}");
                last = name;
            }
            let _ = writeln!(text, "netarium_bundle_{name}{suffix}{line}");
        }
        text
    }
}

/// Asks a running box.
///
/// # Errors
/// If none listens there, or what it says is no status.
pub fn ask(path: &Path) -> Result<Value> {
    let failure = |e| Error::file("ask", path, e);
    let stream = UnixStream::connect(path).map_err(failure)?;
    stream.set_read_timeout(Some(Duration::from_secs(5))).map_err(failure)?;
    let mut text = String::new();
    stream.take(LONGEST).read_to_string(&mut text).map_err(failure)?;
    let why = |why: String| Error::Status { path: path.to_owned(), why };
    let value: Value = serde_json::from_str(&text).map_err(|e| why(e.to_string()))?;
    if value["schema"] == SCHEMA { Ok(value) } else { Err(why(format!("it is not {SCHEMA}"))) }
}
