//! Status of a gateway: one list of values, for JSON and metrics.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use base::{Bandwidth, Metric, MetricValue, Span, Time};
use bundler::receivebox;
use bundler::sendbox;
use serde_json::{Map, Value, json};

pub const SCHEMA: &str = "netarium.bundle/1";
/// Age of the newest snapshot above which a gateway counts as stuck.
const MAX_AGE: Duration = Duration::from_secs(5);

/// Interval of snapshots: 1 ms per bundle, at least 200 ms.
pub(crate) fn interval(bundles: usize) -> Span {
    Span::from_millis(bundles.max(200) as u64)
}

/// A value; an unknown one has no metric and is `null` in JSON.
#[derive(Clone, Debug, PartialEq)]
struct Figure {
    name: &'static str,
    value: Option<MetricValue>,
}

#[derive(Clone, Debug, PartialEq)]
struct Row {
    name: String,
    peer: String,
    mode: Option<&'static str>,
    state: Option<String>,
    figures: Vec<Figure>,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Snapshot {
    role: &'static str,
    device: String,
    uptime: Span,
    figures: Vec<Figure>,
    rows: Vec<Row>,
}

/// The newest snapshot of a gateway. Clones share it.
#[derive(Clone, Debug)]
pub struct Board(Arc<Mutex<(Instant, Snapshot)>>);

impl Board {
    /// The board of a gateway with this role, `send` or `receive`.
    pub fn new(role: &'static str) -> Self {
        let snapshot = Snapshot { role, ..Snapshot::default() };
        Self(Arc::new(Mutex::new((Instant::now(), snapshot))))
    }

    pub(crate) fn put(&self, snapshot: Snapshot) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = (Instant::now(), snapshot);
    }

    fn get(&self) -> (Instant, Snapshot) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The status as JSON, in SI units.
    pub fn json(&self) -> Value {
        self.get().1.json()
    }

    pub fn metrics(&self) -> Vec<Metric> {
        self.get().1.metrics()
    }

    /// Whether the gateway has updated its status within the last 5 s.
    pub fn is_healthy(&self) -> bool {
        self.get().0.elapsed() < MAX_AGE
    }
}

fn gauge(name: &'static str, value: Option<f64>) -> Figure {
    Figure { name, value: value.map(MetricValue::Gauge) }
}

fn counter(name: &'static str, value: u64) -> Figure {
    Figure { name, value: Some(MetricValue::Counter(value)) }
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

    /// Adds a counter of the gateway.
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

    fn json(&self) -> Value {
        let fields = |figures: &[Figure]| -> Map<String, Value> {
            let field = |figure: &Figure| {
                let value = match figure.value {
                    None => Value::Null,
                    Some(MetricValue::Counter(value)) => json!(value),
                    Some(MetricValue::Gauge(value)) => json!(value),
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
        object.insert("pid".to_owned(), json!(std::process::id()));
        object.insert("device".to_owned(), json!(self.device));
        object.insert("uptime_s".to_owned(), json!(self.uptime.as_secs_f64()));
        object.extend(fields(&self.figures));
        object.insert("bundles".to_owned(), Value::Array(rows.collect()));
        Value::Object(object)
    }

    fn metrics(&self) -> Vec<Metric> {
        let role = |metric: Metric| metric.label("role", self.role);
        let uptime = self.uptime.as_secs_f64();
        let mut metrics = vec![role(Metric::gauge("uptime_s", "Time since the start.", uptime))];
        metrics.extend(self.figures.iter().filter_map(Figure::metric).map(role));
        for row in &self.rows {
            let bundle = |metric: Metric| role(metric).label("bundle", row.name.as_str());
            if let Some(state) = &row.state {
                let state = Metric::gauge("state", "State of the bundle: 1.", 1.0)
                    .label("state", state.as_str());
                metrics.push(bundle(state));
            }
            metrics.extend(row.figures.iter().filter_map(Figure::metric).map(bundle));
        }
        metrics
    }
}

impl Figure {
    fn metric(&self) -> Option<Metric> {
        let help = "See the guide to Bundler.";
        Some(Metric { name: self.name, help, labels: Vec::new(), value: self.value? })
    }
}
