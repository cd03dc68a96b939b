//! Metrics in Prometheus' text format.

use std::fmt::{Display, Write};
use std::sync::atomic::Ordering;

use axum::extract::State;
use axum::http::header;
use axum::response::{IntoResponse, Response};
use collector::Peering;
use collector_live::board::Status;

use crate::Shared;

/// Writes families of samples.
struct Exposition(String);

impl Exposition {
    fn family(&mut self, name: &str, kind: &str, help: &str) {
        let _ = writeln!(self.0, "# HELP netarium_{name} {help}\n# TYPE netarium_{name} {kind}");
    }

    fn sample(&mut self, name: &str, labels: &str, value: impl Display) {
        let _ = writeln!(self.0, "netarium_{name}{labels} {value}");
    }

    fn counter(&mut self, name: &str, help: &str, value: u64) {
        let name = format!("{name}_total");
        self.family(&name, "counter", help);
        self.sample(&name, "", value);
    }

    fn gauge(&mut self, name: &str, help: &str, value: impl Display) {
        self.family(name, "gauge", help);
        self.sample(name, "", value);
    }
}

pub(crate) async fn metrics(State(shared): State<Shared>) -> Response {
    let status = shared.board.status();
    let mut out = Exposition(String::new());
    let (frames, streams) = (&status.frames, &status.streams);
    out.gauge(
        "capture_time_seconds",
        "Time of the last packet, since 1970.",
        status.time.as_secs_f64(),
    );
    for (name, help, value) in [
        ("frames", "Packets that were captured.", frames.frames),
        ("kernel_drops", "Packets that the kernel had no room for.", status.kernel_drops),
        ("segments", "TCP segments of BGP.", frames.segments),
        ("malformed_frames", "Packets that contradict themselves.", frames.malformed),
        ("bad_checksums", "Segments with a wrong checksum: ignored.", frames.bad_checksums),
        ("snapped_segments", "Segments that were captured in part.", frames.snapped),
        ("bgp_messages", "Whole BGP messages.", status.messages),
        ("stream_bytes", "Octets of payload.", streams.payload_bytes),
        ("duplicate_bytes", "Octets that had come before.", streams.duplicate_bytes),
        (
            "conflicting_bytes",
            "Octets that differ from what came before.",
            streams.conflicting_bytes,
        ),
        ("holes", "Holes in streams.", streams.holes),
        ("missing_bytes", "Octets that never came.", streams.missing_bytes),
        ("skipped_bytes", "Octets that belong to no whole message.", streams.skipped_bytes),
        ("connections", "TCP connections.", streams.connections),
        ("evicted_connections", "Connections forgotten for want of room.", streams.evicted),
        ("archived_records", "Records written to the archive.", status.records),
        ("archived_bytes", "Bytes written to the archive, not compressed.", status.archived),
        ("announced_routes", "Routes that were announced.", status.routes.announced),
        ("withdrawn_routes", "Routes that were withdrawn.", status.routes.withdrawn),
        (
            "feed_lost_events",
            "Events that the feed was too slow for.",
            shared.hub.lost.load(Ordering::Relaxed),
        ),
        (
            "client_lagged_batches",
            "Batches of events that clients were too slow for.",
            shared.hub.lagged.load(Ordering::Relaxed),
        ),
        (
            "refused_clients",
            "Clients that were refused because of the client limit.",
            shared.hub.refused.load(Ordering::Relaxed),
        ),
    ] {
        out.counter(name, help, value);
    }
    out.gauge("waiting_bytes", "Memory of bytes that wait for their turn.", status.waiting);
    out.gauge("route_memory_bytes", "Memory of all routes.", status.memory.total());
    let clients = shared.hub.clients.load(Ordering::Relaxed);
    out.gauge("clients", "Clients that are connected.", clients);
    out.family("peer_established", "gauge", "1 while the session is established.");
    for (peering, state, _) in &status.peerings {
        let labels = labels(&status, peering);
        out.sample("peer_established", &labels, u8::from(*state == collector::State::Established));
    }
    out.family("peer_routes", "gauge", "Routes of the peer.");
    for (peering, _, routes) in &status.peerings {
        if let Some(routes) = routes {
            let labels = labels(&status, peering);
            out.sample("peer_routes", &labels, routes.total());
        }
    }
    ([(header::CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")], out.0).into_response()
}

fn labels(status: &Status, peering: &Peering) -> String {
    let Peering { peer, peer_as, local, mirror, .. } = peering;
    // Names of interfaces may have quotes in them.
    let name = status.mirror_name(peering).unwrap_or_default();
    let name = name.replace('\\', r"\\").replace('"', "\\\"").replace('\n', r"\n");
    format!(
        r#"{{peer="{peer}",peer_as="{peer_as}",local="{local}",mirror="{}",mirror_name="{name}"}}"#,
        mirror.0
    )
}
