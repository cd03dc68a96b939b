//! Status of servers and proxies, as JSON and as metrics.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use base::{Bytes, Metric, Span};
use mctcp::session::{Statistics, SubflowState};
use mctcp_live::SubflowInfo;
use serde_json::{Value, json};

use super::ledger::{Ledger, OpenConnection};

/// Schema of the status.
pub const SCHEMA: &str = "netarium.mctcp/1";
/// Minimum interval over which a rate is measured.
const MIN_RATE_INTERVAL: Duration = Duration::from_millis(500);

/// Computes rates from counters.
#[derive(Debug, Default)]
struct Meter {
    /// Latest readings, by connection and subflow.
    readings: BTreeMap<(u64, Option<u32>), Reading>,
}

#[derive(Clone, Copy, Debug)]
struct Reading {
    at: Instant,
    bytes: [u64; 2],
    rate: [Option<f64>; 2],
}

impl Meter {
    /// Bits per second, sent and received, since the last reading.
    fn read(
        &mut self,
        now: Instant,
        of: (u64, Option<u32>),
        since: Instant,
        bytes: [u64; 2],
    ) -> [Option<f64>; 2] {
        let start = Reading { at: since, bytes: [0; 2], rate: [None; 2] };
        let reading = self.readings.entry(of).or_insert(start);
        let elapsed = now.saturating_duration_since(reading.at);
        if elapsed >= MIN_RATE_INTERVAL {
            let rate = |at: usize| {
                let grown = bytes[at].saturating_sub(reading.bytes[at]);
                Some(grown as f64 * 8.0 / elapsed.as_secs_f64())
            };
            *reading = Reading { at: now, bytes, rate: [rate(0), rate(1)] };
        }
        reading.rate
    }
}

/// Status of a server, proxy or single connection. Clones share it.
#[derive(Clone)]
pub struct Board(Arc<Inner>);

struct Inner {
    since: Instant,
    ledger: Arc<Ledger>,
    current: Mutex<Current>,
}

#[derive(Default)]
struct Current {
    role: &'static str,
    listens: Vec<(&'static str, String)>,
    meter: Meter,
}

impl std::fmt::Debug for Board {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Board").field("since", &self.0.since).finish_non_exhaustive()
    }
}

impl Default for Board {
    fn default() -> Self {
        let (since, ledger, current) = (Instant::now(), Arc::default(), Mutex::default());
        Self(Arc::new(Inner { since, ledger, current }))
    }
}

impl Board {
    pub(crate) fn ledger(&self) -> &Arc<Ledger> {
        &self.0.ledger
    }

    /// Starts with a role: `serve`, `proxy` or `connect`.
    pub(crate) fn begin(&self, role: &'static str, listens: Vec<(&'static str, String)>) {
        let mut current = self.0.current.lock().unwrap_or_else(PoisonError::into_inner);
        (current.role, current.listens) = (role, listens);
    }

    /// As JSON in SI units. Rates are those since a previous call, at least 500 ms ago.
    pub fn json(&self) -> Value {
        let now = Instant::now();
        let Inner { since, ledger, .. } = &*self.0;
        let mut current = self.0.current.lock().unwrap_or_else(PoisonError::into_inner);
        let Current { role, listens, meter } = &mut *current;
        let state = ledger.lock();
        let mut closed = state.closed;
        meter.readings.retain(|(number, _), _| state.open.contains_key(number));
        let mut rows = Vec::new();
        let mut sessions = 0;
        for (&number, connection) in &state.open {
            let session = connection.session.as_ref().map(|inspect| inspect());
            let [sent, received] = bytes(connection);
            closed.sent += sent;
            closed.received += received;
            if let Some((statistics, _)) = &session {
                sessions += 1;
                closed.reinjected += statistics.reinjected;
                closed.subflows += statistics.subflows_opened;
            }
            rows.push(connection_json(now, meter, number, connection, session.as_ref()));
        }
        let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let listens = listens.iter().map(|(kind, at)| json!({"front": kind, "at": at}));
        let counters = &ledger.counters;
        let mut object = json!({
            "schema": SCHEMA,
            "role": role,
            "pid": std::process::id(),
            "listens": listens.collect::<Vec<_>>(),
            "uptime_s": now.saturating_duration_since(*since).as_secs_f64(),
            "connections": rows.len(),
            "sessions": sessions,
            "sessions_total": count(&counters.sessions),
            "fallbacks_total": count(&counters.fallbacks),
            "refused_total": count(&counters.refused),
            "failed_total": count(&counters.failed),
            "sent_bytes_total": closed.sent,
            "received_bytes_total": closed.received,
            "reinjected_bytes_total": closed.reinjected,
            "subflows_total": closed.subflows,
            "list": rows,
        });
        if let Some(listener) = &state.listener {
            object["listener"] = json!({
                "connections_total": listener.connections,
                "joins_total": listener.joins,
                "refused_total": listener.refused,
                "plain_total": listener.plain,
                "failed_total": listener.failed,
                "dropped_sessions_total": listener.dropped,
            });
        }
        object
    }

    /// Totals, and sums of the subflows by local address.
    pub fn metrics(&self) -> Vec<Metric> {
        let status = self.json();
        let role = status["role"].as_str().unwrap_or_default();
        let number = |value: &Value| value.as_f64().unwrap_or(0.0);
        let mut metrics = vec![
            Metric::gauge("uptime_s", "Time since the start.", number(&status["uptime_s"])),
            Metric::gauge("connections", "Open connections.", number(&status["connections"])),
            Metric::gauge("open_sessions", "Open sessions.", number(&status["sessions"])),
        ];
        for (name, key, help) in [
            ("sessions", "sessions_total", "Sessions that were established."),
            ("fallbacks", "fallbacks_total", "Connections in plain TCP."),
            ("refused", "refused_total", "Clients that were refused."),
            ("failed", "failed_total", "Connections whose target could not be reached."),
            ("sent_bytes", "sent_bytes_total", "Bytes to the other end."),
            ("received_bytes", "received_bytes_total", "Bytes from the other end."),
            ("reinjected_bytes", "reinjected_bytes_total", "Bytes sent on a second subflow."),
            ("subflows", "subflows_total", "Subflows that were opened."),
        ] {
            metrics.push(Metric::counter(name, help, status[key].as_u64().unwrap_or(0)));
        }
        let listener = &status["listener"];
        for (name, key, help) in [
            ("listener_connections", "connections_total", "TCP connections that were accepted."),
            ("listener_joins", "joins_total", "Subflows that joined a session."),
            ("listener_refused", "refused_total", "Connections that were refused."),
            ("listener_plain", "plain_total", "Connections that are not MCTCP."),
            ("listener_failed", "failed_total", "Handshakes that failed."),
            (
                "listener_dropped_sessions",
                "dropped_sessions_total",
                "Sessions rejected because of the session limit.",
            ),
        ] {
            metrics.extend(listener[key].as_u64().map(|n| Metric::counter(name, help, n)));
        }
        // Per address: subflows, sent and received bits per second.
        let mut paths: BTreeMap<&str, [f64; 3]> = BTreeMap::new();
        let rows = status["list"].as_array().into_iter().flatten();
        for subflow in rows.flat_map(|row| row["subflows"].as_array().into_iter().flatten()) {
            let Some(local) = subflow["local"].as_str() else { continue };
            let address = local.rsplit_once(':').map_or(local, |(address, _)| address);
            let sums = paths.entry(address).or_default();
            sums[0] += 1.0;
            sums[1] += subflow["send_rate_bit_s"].as_f64().unwrap_or(0.0);
            sums[2] += subflow["receive_rate_bit_s"].as_f64().unwrap_or(0.0);
        }
        for (address, sums) in paths {
            let names = [
                ("path_subflows", "Subflows of the local address."),
                ("path_send_rate_bit_s", "Rate at which it sends."),
                ("path_receive_rate_bit_s", "Rate at which it receives."),
            ];
            for ((name, help), sum) in names.into_iter().zip(sums) {
                metrics.push(Metric::gauge(name, help, sum).label("local", address));
            }
        }
        metrics.into_iter().map(|metric| metric.label("role", role)).collect()
    }
}

fn bytes(connection: &OpenConnection) -> [u64; 2] {
    [&connection.bytes.sent, &connection.bytes.received].map(|it| it.load(Ordering::Relaxed))
}

fn connection_json(
    now: Instant,
    meter: &mut Meter,
    number: u64,
    connection: &OpenConnection,
    session: Option<&(Statistics, Vec<SubflowInfo>)>,
) -> Value {
    let [sent, received] = bytes(connection);
    let rate = meter.read(now, (number, None), connection.since, [sent, received]);
    let subflows = session.iter().flat_map(|(_, subflows)| subflows);
    let rows = subflows.map(|it| subflow_json(now, meter, (number, connection.since), it));
    let mut object = json!({
        "id": number,
        "front": connection.listener,
        "via": connection.transport.name(),
        "client": connection.client,
        "target": connection.target,
        "age_s": now.saturating_duration_since(connection.since).as_secs_f64(),
        "sent_bytes": sent,
        "received_bytes": received,
        "send_rate_bit_s": rate[0],
        "receive_rate_bit_s": rate[1],
        "subflows": rows.collect::<Vec<_>>(),
    });
    if let Some((statistics, _)) = session {
        object["reinjected_bytes"] = statistics.reinjected.into();
        object["duplicate_bytes"] = statistics.duplicate.into();
        object["reorder_peak_bytes"] = statistics.reorder_peak.into();
        object["credit_blocked_s"] = statistics.credit_blocked.as_secs_f64().into();
        object["subflows_opened"] = statistics.subflows_opened.into();
        object["subflows_lost"] = statistics.subflows_lost.into();
    }
    object
}

fn subflow_json(
    now: Instant,
    meter: &mut Meter,
    (number, since): (u64, Instant),
    subflow: &SubflowInfo,
) -> Value {
    let SubflowInfo { status, local, remote } = subflow;
    let [sent, received] = [status.sent, status.received].map(Bytes::count);
    let rate = meter.read(now, (number, Some(status.id.0)), since, [sent, received]);
    json!({
        "id": status.id.0,
        "local": local.map(|it| it.to_string()),
        "remote": remote.map(|it| it.to_string()),
        "state": match status.state {
            SubflowState::Opening => "opening",
            SubflowState::Active => "active",
            SubflowState::Stale => "stale",
            SubflowState::Draining => "draining",
        },
        "backup": status.priority.backup,
        "sent_bytes": sent,
        "received_bytes": received,
        "reinjected_bytes": status.reinjected.count(),
        "retransmits": status.info.retransmits,
        "send_rate_bit_s": rate[0],
        "receive_rate_bit_s": rate[1],
        "srtt_s": status.info.srtt.map(Span::as_secs_f64),
        "cwnd_bytes": status.info.cwnd.count(),
    })
}

#[cfg(test)]
mod tests {
    use base::MetricValue;
    use mctcp::frame::Priority;
    use mctcp::session::SubflowStatus;
    use mctcp::{PathInfo, SubflowId};

    use super::super::ledger::{ByteCounters, Counters, Transport};
    use super::*;

    fn session() -> (Statistics, Vec<SubflowInfo>) {
        let statistics = Statistics { reinjected: 7, subflows_opened: 2, ..Statistics::default() };
        let row = |id: u32, local: &str| {
            let status = SubflowStatus {
                id: SubflowId(id),
                path: None,
                state: SubflowState::Active,
                priority: Priority { backup: id == 1, ..Priority::default() },
                info: PathInfo::default(),
                sent: Bytes::new(1000),
                received: Bytes::ZERO,
                reinjected: Bytes::ZERO,
                outstanding: Bytes::ZERO,
            };
            SubflowInfo { status, local: Some(local.parse().unwrap()), remote: None }
        };
        let rows = vec![row(0, "10.0.1.1:4000"), row(1, "10.0.2.1:4000"), row(2, "10.0.1.1:4001")];
        (statistics, rows)
    }

    fn connection(has_session: bool) -> OpenConnection {
        OpenConnection {
            listener: "socks",
            transport: if has_session { Transport::Mctcp } else { Transport::Plain },
            client: "127.0.0.1:1".to_owned(),
            target: "example.org:80".to_owned(),
            since: Instant::now().checked_sub(Duration::from_secs(2)).unwrap(),
            bytes: Arc::new(ByteCounters { sent: 3000.into(), received: 5.into() }),
            session: has_session.then(|| Box::new(session) as _),
        }
    }

    #[test]
    fn counts_closed_connections() {
        let board = Board::default();
        let ledger = Arc::clone(board.ledger());
        let first = ledger.enter(connection(true));
        let second = ledger.enter(connection(false));
        Counters::add(&ledger.counters.fallbacks);
        let status = board.json();
        assert_eq!((&status["connections"], &status["sessions"]), (&2.into(), &1.into()));
        assert_eq!(status["sent_bytes_total"], 6000);
        assert_eq!(status["reinjected_bytes_total"], 7);
        let row = &status["list"][0];
        assert!(row["send_rate_bit_s"].as_f64().unwrap() > 100.0, "{row}");
        assert_eq!(row["subflows"][1]["backup"], true);
        assert_eq!(status["list"][1]["via"], "tcp");
        drop((first, second));
        let status = board.json();
        assert_eq!(
            (&status["connections"], &status["sent_bytes_total"]),
            (&0.into(), &6000.into())
        );
        assert_eq!(status["subflows_total"], 2);
        assert!(board.0.current.lock().unwrap().meter.readings.is_empty());
    }

    #[test]
    fn metrics_sum_subflows_by_address() {
        let board = Board::default();
        board.begin("serve", Vec::new());
        let ledger = Arc::clone(board.ledger());
        let _entry = ledger.enter(connection(true));
        Counters::add(&ledger.counters.fallbacks);
        let metrics = board.metrics();
        let of = |name: &str| -> Vec<(MetricValue, &str)> {
            let found = metrics.iter().filter(|metric| metric.name == name);
            found.map(|metric| (metric.value, metric.labels[0].1.as_str())).collect()
        };
        assert_eq!(of("fallbacks"), [(MetricValue::Counter(1), "serve")]);
        assert_eq!(of("open_sessions"), [(MetricValue::Gauge(1.0), "serve")]);
        let subflows = [(2.0, "10.0.1.1"), (1.0, "10.0.2.1")];
        assert_eq!(of("path_subflows"), subflows.map(|(n, at)| (MetricValue::Gauge(n), at)));
    }
}
