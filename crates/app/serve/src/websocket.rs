//! RIS Live over a WebSocket.

use axum::extract::State;
use axum::extract::ws::{Message, WebSocket, WebSocketUpgrade};
use axum::response::Response;
use collector::text::ris_live::Client;
use serde_json::json;
use tokio::sync::broadcast::error::RecvError;

use crate::Shared;
use crate::hub::ClientGuard;

const MAX_MESSAGE_BYTES: usize = 64 << 10;

pub(crate) async fn upgrade(State(shared): State<Shared>, upgrade: WebSocketUpgrade) -> Response {
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
