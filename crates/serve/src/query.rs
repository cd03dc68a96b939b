//! Peerings and routes, as JSON.

use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde_json::{Value, json};

use crate::Shared;

pub(crate) async fn index() -> &'static str {
    "A netarium collector.\n\n\
     /v1/ws/      WebSocket in the format of RIS Live\n\
     /v1/stream/  the same as server-sent events; ?format=json for JSON Lines\n\
     /v1/peers    peerings\n\
     /v1/routes   ?prefix=192.0.2.0/24 or ?prefix=192.0.2.1, &more=true, &less=true\n\
     /metrics     for Prometheus\n"
}

fn json(status: StatusCode, value: &Value) -> Response {
    (status, [(header::CONTENT_TYPE, "application/json")], value.to_string() + "\n").into_response()
}

pub(crate) async fn peers(State(shared): State<Shared>) -> Response {
    let status = shared.board.status();
    let peers: Vec<Value> = status
        .peerings
        .iter()
        .map(|(peering, state, routes)| {
            json!({
                "peer": peering.peer.to_string(),
                "peer_as": peering.peer_as.0,
                "local": peering.local.to_string(),
                "local_as": peering.local_as.0,
                "mirror": peering.mirror.0,
                "state": format!("{state:?}"),
                "certain": peering.certain,
                "sessions": peering.session + 1,
                "routes": routes.as_ref().map(|routes| routes.total()),
                "complete": routes.as_ref().map(|routes| routes.complete),
            })
        })
        .collect();
    let time = status.time.as_secs_f64();
    json(StatusCode::OK, &json!({"schema": "netarium.peers/1", "time": time, "peers": peers}))
}
