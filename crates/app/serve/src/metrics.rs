//! Status and metrics of a collector.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use base::Metric;
use collector::Peering;
use collector_live::Board;
use collector_live::board::Status;
use serde_json::{Value, json};

use crate::hub::Hub;

#[derive(Debug)]
pub struct Watched {
    pub(crate) name: String,
    pub(crate) board: Board,
    pub(crate) hub: Option<Arc<Hub>>,
    since: Instant,
}

impl Watched {
    /// Metrics of the collector `name`, whose status is at `board`.
    pub fn new(name: &str, board: Board) -> Self {
        Self { name: name.to_owned(), board, hub: None, since: Instant::now() }
    }
}

impl ops::Source for Watched {
    fn prefix(&self) -> &'static str {
        "netarium"
    }

    fn status(&self) -> Value {
        let status = self.board.status();
        let up = |state: &collector::State| *state == collector::State::Established;
        json!({
            "schema": "netarium.collector/1",
            "role": "collect",
            "name": self.name,
            "pid": std::process::id(),
            "uptime_s": self.since.elapsed().as_secs_f64(),
            "time": status.time.as_secs_f64(),
            "frames": status.frames.frames,
            "kernel_drops": status.kernel_drops,
            "messages": status.messages,
            "missing_bytes": status.streams.missing_bytes,
            "records": status.records,
            "peerings": status.peerings.len(),
            "established": status.peerings.iter().filter(|(_, state, _)| up(state)).count(),
            "clients": self.hub.as_ref().map(|hub| hub.clients.load(Ordering::Relaxed)),
        })
    }

    fn metrics(&self) -> Vec<Metric> {
        let status = self.board.status();
        let (frames, streams) = (&status.frames, &status.streams);
        let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let mut metrics: Vec<Metric> = [
            ("frames", "Captured packets.", frames.frames),
            (
                "kernel_drops",
                "Packets dropped by the kernel because its buffer was full.",
                status.kernel_drops,
            ),
            ("segments", "TCP segments of BGP sessions.", frames.segments),
            ("malformed_frames", "Packets with inconsistent headers.", frames.malformed),
            ("bad_checksums", "Ignored segments with a wrong checksum.", frames.bad_checksums),
            ("unverified_checksums", "Segments without a usable sum.", frames.unknown_checksums),
            ("snapped_segments", "Truncated segments (snap length).", frames.snapped),
            ("bgp_messages", "Complete BGP messages.", status.messages),
            ("stream_bytes", "Payload bytes.", streams.payload_bytes),
            ("duplicate_bytes", "Duplicate bytes.", streams.duplicate_bytes),
            (
                "conflicting_bytes",
                "Retransmitted bytes with different content.",
                streams.conflicting_bytes,
            ),
            ("holes", "Gaps in streams.", streams.holes),
            ("missing_bytes", "Missing bytes.", streams.missing_bytes),
            ("skipped_bytes", "Bytes outside of complete messages.", streams.skipped_bytes),
            ("connections", "TCP connections.", streams.connections),
            ("evicted_connections", "Connections evicted for lack of memory.", streams.evicted),
            ("archived_records", "Records written to the archive.", status.records),
            (
                "archived_bytes",
                "Bytes written to the archive, before compression.",
                status.archived,
            ),
            ("announced_routes", "Announced routes.", status.routes.announced),
            ("withdrawn_routes", "Withdrawn routes.", status.routes.withdrawn),
        ]
        .map(|(name, help, value)| Metric::counter(name, help, value))
        .to_vec();
        metrics.extend(
            [
                ("capture_time_seconds", "Time of the last packet.", status.time.as_secs_f64()),
                ("waiting_bytes", "Memory of out-of-order data.", status.waiting as f64),
                ("route_memory_bytes", "Memory of all routes.", status.memory.total() as f64),
            ]
            .map(|(name, help, value)| Metric::gauge(name, help, value)),
        );
        if let Some(hub) = &self.hub {
            let help = "Events lost because the feed was too slow.";
            metrics.push(Metric::counter("feed_lost_events", help, count(&hub.lost)));
            let help = "Batches of events lost because clients were too slow.";
            metrics.push(Metric::counter("client_lagged_batches", help, count(&hub.lagged)));
            let help = "Clients rejected because of the client limit.";
            metrics.push(Metric::counter("refused_clients", help, count(&hub.refused)));
            let clients = count(&hub.clients) as f64;
            metrics.push(Metric::gauge("clients", "Connected clients.", clients));
        }
        for (peering, state, routes) in &status.peerings {
            let up = f64::from(u8::from(*state == collector::State::Established));
            let help = "1 while the BGP session is established, otherwise 0.";
            metrics.push(labelled(Metric::gauge("peer_established", help, up), &status, peering));
            if let Some(routes) = routes {
                let routes = routes.total() as f64;
                let routes = Metric::gauge("peer_routes", "Routes of the peer.", routes);
                metrics.push(labelled(routes, &status, peering));
            }
        }
        metrics
    }
}

fn labelled(metric: Metric, status: &Status, peering: &Peering) -> Metric {
    metric
        .label("peer", peering.peer.to_string())
        .label("peer_as", peering.peer_as.to_string())
        .label("local", peering.local.to_string())
        .label("mirror", peering.mirror.0.to_string())
        .label("mirror_name", status.mirror_name(peering).unwrap_or_default())
}
