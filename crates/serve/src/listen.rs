//! Accepts clients, within limits of their number and of time.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use axum::Router;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, Sleep, sleep, timeout};

use crate::hub::Hub;

/// Time in which a client must send the header of its first or next request.
const HEADER_TIMEOUT: Duration = Duration::from_secs(10);
/// Time in which a client must read something of what is sent to it.
const WRITE_TIMEOUT: Duration = Duration::from_secs(30);
/// Longest request header, in bytes.
const MAX_HEADER_BYTES: usize = 16 << 10;
/// Refused clients that may read their answer at a time, and for how long.
const MAX_REFUSED: usize = 16;
const REFUSED_TIMEOUT: Duration = Duration::from_secs(1);
/// Pause after the kernel refused to accept a connection.
const ACCEPT_RETRY_INTERVAL: Duration = Duration::from_millis(100);

/// Serves requests of at most as many clients at a time as there are
/// `slots`; others get an answer with status 503.
pub(crate) async fn listen(
    listener: TcpListener,
    router: Router,
    slots: Arc<Semaphore>,
    hub: Arc<Hub>,
) {
    let refused = Arc::new(Semaphore::new(MAX_REFUSED));
    loop {
        let Ok((stream, _)) = listener.accept().await else {
            sleep(ACCEPT_RETRY_INTERVAL).await;
            continue;
        };
        if let Ok(slot) = Arc::clone(&slots).try_acquire_owned() {
            tokio::spawn(serve(Client::new(stream, slot), router.clone()));
        } else {
            hub.refused.fetch_add(1, Ordering::Relaxed);
            tokio::spawn(refuse(stream, Arc::clone(&refused).try_acquire_owned().ok()));
        }
    }
}

async fn serve(client: Client, router: Router) {
    let mut builder = http1::Builder::new();
    builder
        .timer(TokioTimer::new())
        .header_read_timeout(HEADER_TIMEOUT)
        .max_buf_size(MAX_HEADER_BYTES);
    let service = TowerToHyperService::new(router);
    let connection = builder.serve_connection(TokioIo::new(client), service);
    // The client has gone, or did not keep to the limits.
    let _ = connection.with_upgrades().await;
}

/// Answers without waiting for the request. The connection stays until the client has read the
/// answer: closed with a request unread, it would be reset, and the answer lost.
async fn refuse(mut stream: TcpStream, place: Option<OwnedSemaphorePermit>) {
    const BODY: &str = "the client limit of this collector is reached; try again later\n";
    let length = BODY.len();
    let answer = format!(
        "HTTP/1.1 503 Service Unavailable\r\nContent-Type: text/plain\r\nRetry-After: 10\r\n\
         Connection: close\r\nContent-Length: {length}\r\n\r\n{BODY}"
    );
    let _ = stream.try_write(answer.as_bytes());
    let rest = async {
        stream.shutdown().await?;
        tokio::io::copy(&mut stream.take(MAX_HEADER_BYTES as u64), &mut tokio::io::sink()).await
    };
    let time = if place.is_some() { REFUSED_TIMEOUT } else { Duration::ZERO };
    let _ = timeout(time, rest).await;
}

/// A connection that has a slot, and ends when its client reads nothing for [`WRITE_TIMEOUT`].
struct Client {
    stream: TcpStream,
    /// When the client must have read something; `is_blocked` says whether that is set.
    deadline: Pin<Box<Sleep>>,
    is_blocked: bool,
    _slot: OwnedSemaphorePermit,
}

impl Client {
    fn new(stream: TcpStream, slot: OwnedSemaphorePermit) -> Self {
        let deadline = Box::pin(sleep(WRITE_TIMEOUT));
        Self { stream, deadline, is_blocked: false, _slot: slot }
    }

    /// The result of a write, or an error if none succeeded for too long.
    fn in_time<T>(
        &mut self,
        context: &mut Context<'_>,
        result: Poll<io::Result<T>>,
    ) -> Poll<io::Result<T>> {
        if result.is_ready() {
            self.is_blocked = false;
            return result;
        }
        if !self.is_blocked {
            self.is_blocked = true;
            self.deadline.as_mut().reset(Instant::now() + WRITE_TIMEOUT);
        }
        ready!(self.deadline.as_mut().poll(context));
        Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
    }
}

impl AsyncRead for Client {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl AsyncWrite for Client {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let result = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.in_time(context, result)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let result = Pin::new(&mut self.stream).poll_write_vectored(context, parts);
        self.in_time(context, result)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}
