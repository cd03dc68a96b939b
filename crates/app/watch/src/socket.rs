//! The WebSocket of a page.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::State;
use axum::extract::ws::{self, CloseFrame, WebSocket, WebSocketUpgrade, close_code};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use emu::control;
use run::RunFolder;
use run::live::{Answer, End, FinishedRun, MAX_REQUEST_BYTES, Message, parse_request};
use tokio::io::{AsyncBufReadExt as _, BufReader, Lines};
use tokio::net::UnixStream;

use crate::{MAX_WATCHERS, Shared};

/// Maximum length of the reason in a close frame (RFC 6455 §5.5: 125 B with the code).
const MAX_REASON_BYTES: usize = 123;

/// Time in which a page must read and answer a close frame.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(1);

/// A connection ends with this code and reason.
pub(crate) type Closed = (u16, String);

pub(crate) async fn upgrade(
    State(shared): State<Arc<Shared>>,
    headers: HeaderMap,
    upgrade: WebSocketUpgrade,
) -> Response {
    if let Some(refused) = refuse_origin(&shared, &headers) {
        return refused;
    }
    let Ok(place) = Arc::clone(&shared.watchers).try_acquire_owned() else {
        let text = format!("There are {MAX_WATCHERS} watchers, which is the limit.\n");
        return (StatusCode::SERVICE_UNAVAILABLE, text).into_response();
    };
    // A message that is slightly too long gets a reason; the library ends the connection on others.
    upgrade.max_message_size(2 * MAX_REQUEST_BYTES).on_upgrade(async move |mut socket| {
        let closed = until_stopped(&shared, serve(&shared, &mut socket)).await;
        close(&mut socket, closed).await;
        drop(place);
    })
}

/// The response to a page of another server.
pub(crate) fn refuse_origin(shared: &Shared, headers: &HeaderMap) -> Option<Response> {
    let refused = (StatusCode::FORBIDDEN, "The origin is another server.\n");
    (!shared.access.has_origin(headers)).then(|| refused.into_response())
}

/// Serves a connection until it or the server ends.
pub(crate) async fn until_stopped(shared: &Shared, serve: impl Future<Output = Closed>) -> Closed {
    let mut stop = shared.stop.clone();
    tokio::select! {
        _ = stop.changed() => (close_code::AWAY, "the server has stopped".to_owned()),
        closed = serve => closed,
    }
}

/// Sends a close frame, and discards what the page sends until it closes its end: unread data would
/// reset the connection, and the page could lose the frame (RFC 6455 §7.1.1).
pub(crate) async fn close(socket: &mut WebSocket, (code, reason): Closed) {
    let mut end = reason.len().min(MAX_REASON_BYTES);
    while !reason.is_char_boundary(end) {
        end -= 1;
    }
    let frame = CloseFrame { code, reason: reason[..end].into() };
    let closing = async {
        let sent = socket.send(ws::Message::Close(Some(frame))).await;
        while sent.is_ok() && matches!(socket.recv().await, Some(Ok(_))) {}
    };
    let _ = tokio::time::timeout(CLOSE_TIMEOUT, closing).await;
}

/// Serves a page until the connection ends.
async fn serve(shared: &Shared, socket: &mut WebSocket) -> Closed {
    let served = match connect(shared).await {
        Some(feed) => live(shared, socket, feed).await,
        None => finished(shared, socket).await,
    };
    match served {
        Ok(()) => listen(shared, socket).await,
        Err(closed) => closed,
    }
}

/// The connection to the lab; `None` if it is not running.
async fn connect(shared: &Shared) -> Option<Lines<BufReader<UnixStream>>> {
    let path = shared.run.socket.clone()?;
    let stream = blocking(move || control::watch(&path)).await.ok()?;
    stream.set_nonblocking(true).ok()?;
    Some(BufReader::new(UnixStream::from_std(stream).ok()?).lines())
}

/// Passes on messages until the lab ends.
async fn live(
    shared: &Shared,
    socket: &mut WebSocket,
    mut feed: Lines<BufReader<UnixStream>>,
) -> Result<(), Closed> {
    let mut is_first = true;
    let mut has_ended = false;
    loop {
        tokio::select! {
            line = feed.next_line() => {
                let Some(mut line) = line.unwrap_or(None) else { break };
                if std::mem::take(&mut is_first) {
                    line = hello(shared, &line)?;
                }
                has_ended |= line.starts_with(r#"{"type":"end""#);
                send(socket, line).await?;
            }
            message = socket.recv() => handle(shared, socket, message).await?,
        }
    }
    if has_ended {
        return Ok(());
    }
    if is_first {
        return finished(shared, socket).await;
    }
    // The supervising process ended without a message.
    let folder = shared.run.folder.clone();
    let end = blocking(move || End::read(&folder)).await.map_err(|why| (close_code::ERROR, why))?;
    send_message(socket, &Message::End(end)).await
}

/// The first message of a lab, with what this server permits.
fn hello(shared: &Shared, line: &str) -> Result<String, Closed> {
    match control::hello(line, shared.run.read_only) {
        Ok(mut hello) => {
            if shared.run.shell.is_some() && !hello.read_only {
                hello.commands.push("terminal".to_owned());
            }
            text(&Message::Hello(hello))
        }
        Err((is_refused, why)) => {
            Err((if is_refused { close_code::AGAIN } else { close_code::ERROR }, why))
        }
    }
}

/// Sends all frames of a finished run.
async fn finished(shared: &Shared, socket: &mut WebSocket) -> Result<(), Closed> {
    let read = || async {
        let folder = shared.run.folder.clone();
        let read = move || RunFolder::open(&folder).and_then(|folder| FinishedRun::read(&folder));
        blocking(read).await.map(Arc::new)
    };
    let run = shared.finished.get_or_try_init(read).await;
    let run = Arc::clone(run.map_err(|why| (close_code::ERROR, why))?);
    let mut hello = run.hello.clone();
    hello.read_only = shared.run.read_only;
    send_message(socket, &Message::Hello(Box::new(hello))).await?;
    for frame in &run.frames {
        send_message(socket, &Message::Frame(Box::new(frame.clone()))).await?;
    }
    send_message(socket, &Message::End(run.end.clone())).await
}

/// Answers requests after the end of the run.
async fn listen(shared: &Shared, socket: &mut WebSocket) -> Closed {
    loop {
        let message = socket.recv().await;
        if let Err(closed) = handle(shared, socket, message).await {
            return closed;
        }
    }
}

/// Handles a message of the page, or the end of the connection.
async fn handle(
    shared: &Shared,
    socket: &mut WebSocket,
    message: Option<Result<ws::Message, axum::Error>>,
) -> Result<(), Closed> {
    let text = match message {
        Some(Ok(ws::Message::Text(text))) => text,
        // The library answers pings.
        Some(Ok(ws::Message::Ping(_) | ws::Message::Pong(_))) => return Ok(()),
        Some(Ok(ws::Message::Binary(_))) => {
            return Err((close_code::POLICY, "binary messages are not used".to_owned()));
        }
        Some(Ok(ws::Message::Close(_))) | None => return Err((close_code::NORMAL, String::new())),
        Some(Err(error)) => return Err((close_code::POLICY, error.to_string())),
    };
    let request = parse_request(&text).map_err(|why| (close_code::POLICY, why))?;
    let Some(id) = request.id() else { return Ok(()) };
    let run = shared.run.clone();
    let answered = blocking(move || io::Result::Ok(control::answer(&run, request))).await;
    let answer = answered.unwrap_or_else(|why| Answer { id, ..Answer::refused(why) });
    send_message(socket, &Message::Answer(answer)).await
}

/// Runs a function that blocks, in another thread.
pub(crate) async fn blocking<T: Send + 'static, E: ToString + Send + 'static>(
    act: impl FnOnce() -> Result<T, E> + Send + 'static,
) -> Result<T, String> {
    let result = tokio::task::spawn_blocking(act).await;
    result.map_err(|error| error.to_string())?.map_err(|error| error.to_string())
}

fn text(message: &Message) -> Result<String, Closed> {
    serde_json::to_string(message).map_err(|error| (close_code::ERROR, error.to_string()))
}

async fn send_message(socket: &mut WebSocket, message: &Message) -> Result<(), Closed> {
    let text = text(message)?;
    send(socket, text).await
}

async fn send(socket: &mut WebSocket, text: String) -> Result<(), Closed> {
    let sent = socket.send(ws::Message::text(text)).await;
    sent.map_err(|error| (close_code::ERROR, error.to_string()))
}
