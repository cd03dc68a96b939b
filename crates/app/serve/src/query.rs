//! Peers and routes as JSON.

use std::time::Duration;

use axum::extract::{Query, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use bgp::Prefix;
use collector::rib::{PathPattern, Query as Question, Route, Scope, Search};
use collector::text::json_lines;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::sync::oneshot;

use crate::hub::Shared;

pub(crate) async fn index() -> &'static str {
    "A netarium collector.\n\n\
     /v1/ws/      WebSocket in the format of RIS Live\n\
     /v1/stream/  the same as server-sent events; ?format=json for JSON Lines\n\
     /v1/peers    BGP sessions\n\
     /v1/routes   ?prefix=192.0.2.0/24 or ?prefix=192.0.2.1, &more=true, &less=true\n\
     /status      /health, and /metrics for Prometheus\n"
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
                "mirror_name": status.mirror_name(peering),
                "state": format!("{state:?}"),
                "certain": peering.certain,
                "sessions": peering.session + 1,
                "routes": routes.as_ref().map(collector::rib::PeerRoutes::total),
                "complete": routes.as_ref().map(|routes| routes.complete),
            })
        })
        .collect();
    let time = status.time.as_secs_f64();
    json(StatusCode::OK, &json!({"schema": "netarium.peers/1", "time": time, "peers": peers}))
}

/// Parameters of `/v1/routes`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Parameters {
    prefix: String,
    #[serde(default)]
    more: bool,
    #[serde(default)]
    less: bool,
    path: Option<String>,
    peer: Option<std::net::IpAddr>,
}

const MAX_ROUTES: usize = 10_000;
/// Prefixes and routes visited per step, in less than a millisecond.
const STEP_ROUTES: usize = 1_000;
/// Timeout of a query. A query over a large table takes seconds, because packets have precedence.
const QUERY_TIMEOUT: Duration = Duration::from_secs(30);

pub(crate) async fn routes(
    State(shared): State<Shared>,
    Query(parameters): Query<Parameters>,
) -> Response {
    let wrong = |text: String| json(StatusCode::BAD_REQUEST, &json!({"error": text}));
    let question = match question(&parameters) {
        Ok(question) => question,
        Err(text) => return wrong(text),
    };
    let (send, receive) = oneshot::channel();
    let mut pending = Some((send, Search::new(question)));
    let asked = shared.board.ask(Box::new(move |rib| {
        let is_over = pending
            .as_mut()
            .is_none_or(|(send, search)| send.is_closed() || search.step(rib, STEP_ROUTES));
        if is_over && let Some((send, search)) = pending.take() {
            // The client may have disconnected.
            let _ = send.send(search.into_routes());
        }
        is_over
    }));
    let answered = tokio::time::timeout(QUERY_TIMEOUT, receive).await;
    match answered {
        Ok(Ok(routes)) if asked => {
            ([(header::CONTENT_TYPE, "application/json")], answer(&routes)).into_response()
        }
        _ => {
            let text = "the collector has no routes, or is too busy to respond";
            json(StatusCode::SERVICE_UNAVAILABLE, &json!({"error": text}))
        }
    }
}

fn question(parameters: &Parameters) -> Result<Question, String> {
    let text = &parameters.prefix;
    let is_address = !text.contains('/');
    let prefix: Prefix = text.parse().map_err(|e| format!("invalid prefix `{text}`: {e}"))?;
    let scope = match (parameters.more, parameters.less, is_address) {
        (true, true, _) => return Err("`more` and `less` exclude each other".to_owned()),
        (true, false, _) => Scope::MoreSpecific(prefix),
        (false, true, _) => Scope::LessSpecific(prefix),
        (false, false, true) => Scope::Longest(prefix),
        (false, false, false) => Scope::Exact(prefix),
    };
    let path = parameters.path.as_deref().map(PathPattern::new).transpose();
    let path = path.map_err(|e| format!("invalid path: {e}"))?;
    let limit = Some(MAX_ROUTES);
    Ok(Question { scope, path, limit, peer: parameters.peer, ..Question::default() })
}

fn answer(routes: &[Route]) -> Vec<u8> {
    let mut out = b"{\"schema\":\"netarium.routes/1\",\"routes\":[".to_vec();
    for (at, route) in routes.iter().enumerate() {
        if at > 0 {
            out.push(b',');
        }
        json_lines::route(route, &mut out);
    }
    out.extend_from_slice(b"]}\n");
    out
}
