//! How a front does, as JSON and as metrics; and how to ask one that runs.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::io::Read;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use mctcp::session::{Statistics, SubflowState};
use serde_json::{Value, json};

use super::ledger::{Carried, Ledger, SubflowRow};
use super::{Error, Result};

/// The form of a status.
pub const SCHEMA: &str = "netarium.mctcp/1";
/// The longest status that is read.
const LONGEST: u64 = 64 << 20;
/// A rate is that of this long at least.
const INTERVAL: Duration = Duration::from_millis(500);

/// Where fronts tell how they do, unless told otherwise: of the superuser, or of the user.
pub fn folder() -> Option<PathBuf> {
    let (user, _) = sys::namespace::identity();
    let base = if user == 0 {
        PathBuf::from("/run")
    } else {
        PathBuf::from(std::env::var_os("XDG_RUNTIME_DIR")?)
    };
    Some(base.join("netarium/mctcp"))
}

/// Where the one of this process does.
pub fn default_path() -> Option<PathBuf> {
    folder().map(|folder| folder.join(format!("{}.sock", std::process::id())))
}

/// Works out rates from counters.
#[derive(Debug, Default)]
struct Meter {
    /// By what is measured: the newest reading, the rate up to it, and the reading before.
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
        if elapsed >= INTERVAL {
            let rate = |at: usize| {
                let grown = bytes[at].saturating_sub(reading.bytes[at]);
                Some(grown as f64 * 8.0 / elapsed.as_secs_f64())
            };
            *reading = Reading { at: now, bytes, rate: [rate(0), rate(1)] };
        }
        reading.rate
    }
}

/// Where the status comes from.
pub(crate) struct Board {
    role: &'static str,
    listens: Vec<(&'static str, String)>,
    since: Instant,
    ledger: Arc<Ledger>,
    meter: Meter,
}

impl Board {
    pub(crate) fn new(
        role: &'static str,
        listens: Vec<(&'static str, String)>,
        ledger: Arc<Ledger>,
    ) -> Self {
        Self { role, listens, since: Instant::now(), ledger, meter: Meter::default() }
    }

    /// As JSON, in SI units. Rates are those since the last time, half a second ago or more.
    pub(crate) fn json(&mut self) -> Value {
        let now = Instant::now();
        let (ledger, meter) = (Arc::clone(&self.ledger), &mut self.meter);
        let state = ledger.lock();
        let mut past = state.past;
        meter.readings.retain(|(number, _), _| state.carried.contains_key(number));
        let mut rows = Vec::new();
        let mut sessions = 0;
        for (&number, carried) in &state.carried {
            let statistics = carried.session.as_ref().map(|session| session.statistics());
            let [sent, received] = bytes(carried);
            past.sent += sent;
            past.received += received;
            if let Some(statistics) = &statistics {
                sessions += 1;
                past.reinjected += statistics.reinjected;
                past.subflows += statistics.subflows_opened;
            }
            rows.push(connection(now, meter, number, carried, statistics.as_ref()));
        }
        let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let listens = self.listens.iter();
        let counters = &ledger.counters;
        let mut object = json!({
            "schema": SCHEMA,
            "role": self.role,
            "pid": std::process::id(),
            "listens": listens.map(|(at, what)| json!({"front": at, "at": what})).collect::<Vec<_>>(),
            "uptime_s": now.saturating_duration_since(self.since).as_secs_f64(),
            "connections": rows.len(),
            "sessions": sessions,
            "sessions_total": count(&counters.sessions),
            "fallbacks_total": count(&counters.fallbacks),
            "refused_total": count(&counters.refused),
            "failed_total": count(&counters.failed),
            "sent_bytes_total": past.sent,
            "received_bytes_total": past.received,
            "reinjected_bytes_total": past.reinjected,
            "subflows_total": past.subflows,
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

    /// In the text format of Prometheus. Subflows are summed up by the local address.
    pub(crate) fn metrics(&mut self) -> String {
        let status = self.json();
        let mut text = String::new();
        let role = self.role;
        for (name, kind) in [
            ("uptime_s", "gauge"),
            ("connections", "gauge"),
            ("sessions", "gauge"),
            ("sessions_total", "counter"),
            ("fallbacks_total", "counter"),
            ("refused_total", "counter"),
            ("failed_total", "counter"),
            ("sent_bytes_total", "counter"),
            ("received_bytes_total", "counter"),
            ("reinjected_bytes_total", "counter"),
            ("subflows_total", "counter"),
        ] {
            let _ = writeln!(text, "# TYPE netarium_mctcp_{name} {kind}");
            let _ = writeln!(text, "netarium_mctcp_{name}{{role=\"{role}\"}} {}", status[name]);
        }
        for (name, value) in status["listener"].as_object().into_iter().flatten() {
            let _ = writeln!(text, "# TYPE netarium_mctcp_listener_{name} counter");
            let _ = writeln!(text, "netarium_mctcp_listener_{name}{{role=\"{role}\"}} {value}");
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
        for (at, name) in ["subflows", "send_rate_bit_s", "receive_rate_bit_s"].iter().enumerate() {
            let _ = writeln!(text, "# TYPE netarium_mctcp_path_{name} gauge");
            for (address, sums) in &paths {
                let labels = format!("role=\"{role}\",local=\"{address}\"");
                let _ = writeln!(text, "netarium_mctcp_path_{name}{{{labels}}} {}", sums[at]);
            }
        }
        text
    }
}

fn bytes(carried: &Carried) -> [u64; 2] {
    [&carried.tally.sent, &carried.tally.received].map(|it| it.load(Ordering::Relaxed))
}

fn connection(
    now: Instant,
    meter: &mut Meter,
    number: u64,
    carried: &Carried,
    statistics: Option<&Statistics>,
) -> Value {
    let [sent, received] = bytes(carried);
    let rate = meter.read(now, (number, None), carried.since, [sent, received]);
    let subflows = carried.session.as_ref().map(|session| session.subflows()).unwrap_or_default();
    let rows = subflows.iter().map(|row| subflow(now, meter, (number, carried.since), row));
    let mut object = json!({
        "id": number,
        "front": carried.front,
        "via": carried.via.name(),
        "client": carried.client,
        "target": carried.target,
        "age_s": now.saturating_duration_since(carried.since).as_secs_f64(),
        "sent_bytes": sent,
        "received_bytes": received,
        "send_rate_bit_s": rate[0],
        "receive_rate_bit_s": rate[1],
        "subflows": rows.collect::<Vec<_>>(),
    });
    if let Some(statistics) = statistics {
        object["reinjected_bytes"] = statistics.reinjected.into();
        object["duplicate_bytes"] = statistics.duplicate.into();
        object["reorder_peak_bytes"] = statistics.reorder_peak.into();
        object["credit_blocked_s"] = statistics.credit_blocked.as_secs_f64().into();
        object["subflows_opened"] = statistics.subflows_opened.into();
        object["subflows_lost"] = statistics.subflows_lost.into();
    }
    object
}

fn subflow(
    now: Instant,
    meter: &mut Meter,
    (number, since): (u64, Instant),
    row: &SubflowRow,
) -> Value {
    let rate = meter.read(now, (number, Some(row.id)), since, [row.sent, row.received]);
    json!({
        "id": row.id,
        "local": row.local.map(|it| it.to_string()),
        "remote": row.remote.map(|it| it.to_string()),
        "state": match row.state {
            SubflowState::Opening => "opening",
            SubflowState::Active => "active",
            SubflowState::Stale => "stale",
            SubflowState::Draining => "draining",
        },
        "backup": row.backup,
        "sent_bytes": row.sent,
        "received_bytes": row.received,
        "reinjected_bytes": row.reinjected,
        "retransmits": row.retransmits,
        "send_rate_bit_s": rate[0],
        "receive_rate_bit_s": rate[1],
        "srtt_s": row.srtt_s,
        "cwnd_bytes": row.cwnd,
    })
}

/// Asks a front that runs.
///
/// # Errors
/// If none listens there, or what it says is no status.
pub fn ask(path: &Path) -> Result<Value> {
    let failure = |cause| Error::file("ask", path, cause);
    let stream = UnixStream::connect(path).map_err(failure)?;
    stream.set_read_timeout(Some(Duration::from_secs(5))).map_err(failure)?;
    let mut text = String::new();
    stream.take(LONGEST).read_to_string(&mut text).map_err(failure)?;
    let wrong = |why: String| Error::Status { path: path.to_owned(), why };
    let value: Value = serde_json::from_str(&text).map_err(|e| wrong(e.to_string()))?;
    if value["schema"] == SCHEMA { Ok(value) } else { Err(wrong(format!("it is not {SCHEMA}"))) }
}

#[cfg(test)]
mod tests {
    use super::super::ledger::{Counters, Inspect, Tally, Via};
    use super::*;

    struct Session;

    impl Inspect for Session {
        fn statistics(&self) -> Statistics {
            Statistics { reinjected: 7, subflows_opened: 2, ..Statistics::default() }
        }

        fn subflows(&self) -> Vec<SubflowRow> {
            let row = |id: u32, local: &str| SubflowRow {
                id,
                local: Some(local.parse().unwrap()),
                remote: None,
                state: SubflowState::Active,
                backup: id == 1,
                sent: 1000,
                received: 0,
                reinjected: 0,
                retransmits: 0,
                srtt_s: Some(0.02),
                cwnd: 14480,
            };
            vec![row(0, "10.0.1.1:4000"), row(1, "10.0.2.1:4000"), row(2, "10.0.1.1:4001")]
        }
    }

    fn carried(session: bool) -> Carried {
        Carried {
            front: "socks",
            via: if session { Via::Mctcp } else { Via::Plain },
            client: "127.0.0.1:1".to_owned(),
            target: "example.org:80".to_owned(),
            since: Instant::now().checked_sub(Duration::from_secs(2)).unwrap(),
            tally: Arc::new(Tally { sent: 3000.into(), received: 5.into() }),
            session: session.then(|| Box::new(Session) as _),
        }
    }

    #[test]
    fn what_is_over_still_counts() {
        let ledger = Arc::new(Ledger::default());
        let mut board = Board::new("proxy", Vec::new(), Arc::clone(&ledger));
        let first = ledger.enter(carried(true));
        let second = ledger.enter(carried(false));
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
        assert!(board.meter.readings.is_empty());
    }

    #[test]
    fn metrics_sum_up_addresses() {
        let ledger = Arc::new(Ledger::default());
        let mut board = Board::new("serve", Vec::new(), Arc::clone(&ledger));
        let _entry = ledger.enter(carried(true));
        Counters::add(&ledger.counters.fallbacks);
        let text = board.metrics();
        for line in [
            "netarium_mctcp_fallbacks_total{role=\"serve\"} 1\n",
            "netarium_mctcp_sessions{role=\"serve\"} 1\n",
            "netarium_mctcp_path_subflows{role=\"serve\",local=\"10.0.1.1\"} 2\n",
            "netarium_mctcp_path_subflows{role=\"serve\",local=\"10.0.2.1\"} 1\n",
        ] {
            assert!(text.contains(line), "{line}: {text}");
        }
        assert_eq!(text.matches("# TYPE netarium_mctcp_path_subflows gauge").count(), 1);
    }
}
