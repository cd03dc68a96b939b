//! RIS Live over a WebSocket.

use axum::extract::State;
use axum::extract::ws::{Message, WebSocket, WebSocketUpgrade};
use axum::response::Response;
use collector::text::ris_live::Client;
use serde_json::json;
use tokio::sync::broadcast::error::RecvError;

use crate::Shared;
use crate::hub::Present;

/// The longest message that a client may send.
const MESSAGE: usize = 64 << 10;

pub(crate) async fn upgrade(State(shared): State<Shared>, upgrade: WebSocketUpgrade) -> Response {
    upgrade.max_message_size(MESSAGE).on_upgrade(move |socket| serve(shared, socket))
}

async fn serve(shared: Shared, mut socket: WebSocket) {
    let _present = Present::new(&shared.hub);
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
                // Pings are answered by the library.
                Some(Ok(Message::Binary(_) | Message::Ping(_) | Message::Pong(_))) => {}
                Some(Ok(Message::Close(_)) | Err(_)) | None => return,
            },
            page = pages.recv() => match page {
                Ok(page) => {
                    for text in page.wanted(host, &client) {
                        if socket.send(Message::text(text)).await.is_err() {
                            return;
                        }
                    }
                }
                Err(RecvError::Lagged(lost)) => {
                    shared.hub.count(lost);
                    let told = json!({"type": "ris_error", "data": {
                        "message": format!("you read too slowly: {lost} batches of messages were \
                                            left out"),
                    }});
                    if socket.send(Message::text(told.to_string())).await.is_err() {
                        return;
                    }
                }
                Err(RecvError::Closed) => break,
            },
        }
    }
    let _ = socket.send(Message::Close(None)).await;
}
