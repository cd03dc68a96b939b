//! RIS Live: over a WebSocket, and as a continuous HTTP response.

use std::collections::BTreeMap;
use std::convert::Infallible;

use axum::body::{Body, Bytes};
use axum::extract::ws::{Message, WebSocket, WebSocketUpgrade};
use axum::extract::{Query, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use collector::text::ris_live::Client;
use serde_json::{Map, Value, json};
use tokio::sync::broadcast::error::RecvError;

use crate::hub::{ClientGuard, Shared};

const MAX_MESSAGE_BYTES: usize = 64 << 10;

/// The protocol of RIS Live over a WebSocket.
pub(crate) async fn websocket(State(shared): State<Shared>, upgrade: WebSocketUpgrade) -> Response {
    upgrade.max_message_size(MAX_MESSAGE_BYTES).on_upgrade(move |socket| serve(shared, socket))
}

async fn serve(shared: Shared, mut socket: WebSocket) {
    let _present = ClientGuard::new(&shared.hub);
    let Some(mut pages) = shared.hub.subscribe() else { return };
    let (host, mut stop) = (shared.hub.host.as_str(), shared.stop.clone());
    let mut client = Client::new();
    loop {
        tokio::select! {
            _ = stop.changed() => break,
            message = socket.recv() => match message {
                Some(Ok(Message::Text(text))) => {
                    for reply in client.handle(&text, || shared.hosts()) {
                        if socket.send(Message::text(reply)).await.is_err() {
                            return;
                        }
                    }
                }
                // The library answers pings.
                Some(Ok(Message::Binary(_) | Message::Ping(_) | Message::Pong(_))) => {}
                Some(Ok(Message::Close(_)) | Err(_)) | None => return,
            },
            page = pages.recv() => match page {
                Ok(page) => {
                    for text in page.messages_for(host, &client) {
                        if socket.send(Message::text(text)).await.is_err() {
                            return;
                        }
                    }
                }
                Err(RecvError::Lagged(lost)) => {
                    shared.hub.count_lagged(lost);
                    let message = json!({"type": "ris_error", "data": {
                        "message": format!("{lost} batches of messages were dropped: the \
                                            client reads too slowly"),
                    }});
                    if socket.send(Message::text(message.to_string())).await.is_err() {
                        return;
                    }
                }
                Err(RecvError::Closed) => break,
            },
        }
    }
    let _ = socket.send(Message::Close(None)).await;
}

/// RIS Live as a continuous HTTP response. The parameters are those of a subscription;
/// `format=json` selects JSON Lines.
pub(crate) async fn stream(
    State(shared): State<Shared>,
    Query(mut parameters): Query<BTreeMap<String, String>>,
) -> Response {
    let lines = parameters.remove("format").is_some_and(|format| format == "json");
    parameters.remove("client");
    let mut client = Client::new();
    for reply in client.handle(&subscription(parameters), || shared.hosts()) {
        if reply.contains("\"ris_error\"") {
            return (StatusCode::BAD_REQUEST, reply + "\n").into_response();
        }
    }
    let Some(pages) = shared.hub.subscribe() else {
        return (StatusCode::GONE, "the collector has stopped\n").into_response();
    };
    let guard = ClientGuard::new(&shared.hub);
    let start = (shared, pages, client, guard);
    let body = futures_util::stream::unfold(start, move |mut state| async move {
        let (shared, pages, client, _) = &mut state;
        let mut stop = shared.stop.clone();
        let page = tokio::select! {
            _ = stop.changed() => return None,
            page = pages.recv() => page,
        };
        let mut out = String::new();
        match page {
            Ok(page) => page.messages_for(&shared.hub.host, client).for_each(|text| {
                append_event(&mut out, lines, "ris_message", text);
            }),
            Err(RecvError::Lagged(lost)) => {
                shared.hub.count_lagged(lost);
                let text = format!("{lost} batches were dropped: the client reads too slowly");
                let message = json!({"message": text});
                append_event(&mut out, lines, "ris_error", &message.to_string());
            }
            Err(RecvError::Closed) => return None,
        }
        Some((Ok::<_, Infallible>(Bytes::from(out)), state))
    });
    let kind = if lines { "application/x-ndjson" } else { "text/event-stream" };
    let headers = [(header::CONTENT_TYPE, kind), (header::CACHE_CONTROL, "no-store")];
    (headers, Body::from_stream(body)).into_response()
}

/// Converts the parameters of a URL to a message of RIS Live; numbers and booleans are recognised.
fn subscription(parameters: BTreeMap<String, String>) -> String {
    let raw = parameters.get("includeRaw").is_some_and(|raw| raw == "true");
    let typed =
        parameters.into_iter().filter(|(name, _)| name != "includeRaw").map(|(name, text)| {
            let value = match text.as_str() {
                "true" => Value::Bool(true),
                "false" => Value::Bool(false),
                _ => Value::String(text),
            };
            (name, value)
        });
    let mut data: Map<String, Value> = typed.collect();
    data.insert("socketOptions".to_owned(), json!({"includeRaw": raw}));
    json!({"type": "ris_subscribe", "data": data}).to_string()
}

fn append_event(out: &mut String, lines: bool, event: &str, text: &str) {
    if lines {
        out.push_str(text);
        out.push('\n');
    } else {
        out.push_str("event: ");
        out.push_str(event);
        out.push_str("\ndata: ");
        out.push_str(text);
        out.push_str("\n\n");
    }
}
