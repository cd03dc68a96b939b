//! Accepts clients, with limits of their number and timeouts.

use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use axum::Router;
use hyper::server::conn::http1;
use hyper::service::{Service as _, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use quota::Places;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, ReadBuf};
use tokio::net::{TcpListener, TcpStream, UnixListener, UnixStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::AbortHandle;
use tokio::time::{Instant, Sleep, sleep, timeout};

use crate::error::Error;

/// Timeout for the header of a client's first or next request.
const HEADER_TIMEOUT: Duration = Duration::from_secs(10);
/// Timeout of a client that reads no data.
const WRITE_TIMEOUT: Duration = Duration::from_secs(30);
const MAX_HEADER_BYTES: usize = 16 << 10;
/// Maximum number of rejected clients that receive a response. Each uses a file descriptor, and so
/// does one more that is being rejected.
pub const MAX_REFUSED: usize = 16;
/// The timeout of the response.
const REFUSED_TIMEOUT: Duration = Duration::from_secs(1);
const ACCEPT_RETRY_INTERVAL: Duration = Duration::from_millis(100);

/// A client's connection.
pub trait Stream: AsyncRead + AsyncWrite + Unpin + Send + 'static {}

impl<S: AsyncRead + AsyncWrite + Unpin + Send + 'static> Stream for S {}

pub trait Listener {
    type Stream: Stream;
    /// The next connection and its source.
    fn next(&self) -> impl Future<Output = io::Result<(Self::Stream, IpAddr)>>;
}

impl Listener for TcpListener {
    type Stream = TcpStream;
    async fn next(&self) -> io::Result<(TcpStream, IpAddr)> {
        self.accept().await.map(|(stream, from)| (stream, from.ip()))
    }
}

impl Listener for UnixListener {
    type Stream = UnixStream;
    async fn next(&self) -> io::Result<(UnixStream, IpAddr)> {
        self.accept().await.map(|(stream, _)| (stream, Ipv4Addr::UNSPECIFIED.into()))
    }
}

/// Slots of clients. A new connection replaces one that has sent no request yet: the oldest of its
/// source if that has half of all slots, otherwise, if no slot is free, the oldest of all.
#[derive(Debug)]
pub struct Slots {
    count: usize,
    free: Arc<Semaphore>,
    silent: Mutex<Places<AbortHandle>>,
    /// Number of the next connection.
    next: AtomicU64,
}

impl Slots {
    pub fn new(count: usize) -> Self {
        let silent = Mutex::new(Places::new(count, count.div_ceil(2)));
        Self { count, free: Arc::new(Semaphore::new(count)), silent, next: AtomicU64::new(0) }
    }

    /// Waits until no client has a slot.
    pub async fn wait_until_free(&self) {
        let count = u32::try_from(self.count).unwrap_or(u32::MAX);
        // An error means that the semaphore is closed, which it never is.
        let _ = self.free.acquire_many(count).await;
    }

    fn silent(&self) -> MutexGuard<'_, Places<AbortHandle>> {
        self.silent.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A free slot, or that of a silent connection.
    async fn take(&self) -> Option<OwnedSemaphorePermit> {
        if let Ok(slot) = Arc::clone(&self.free).try_acquire_owned() {
            return Some(slot);
        }
        let oldest = self.silent().remove_oldest()?;
        oldest.abort();
        Arc::clone(&self.free).acquire_owned().await.ok()
    }
}

/// Listens at an address, within a runtime.
pub(crate) fn bind(address: SocketAddr) -> Result<TcpListener, Error> {
    let listen = || {
        let listener = std::net::TcpListener::bind(address)?;
        listener.set_nonblocking(true)?;
        TcpListener::from_std(listener)
    };
    listen().map_err(|cause| Error::Listen { address, cause })
}

/// Serves at most as many clients as there are `slots`. Further clients receive status 503, and
/// `refused` is called for each.
pub async fn listen(
    listener: &impl Listener,
    router: Router,
    slots: &Arc<Slots>,
    refused: impl Fn(),
) {
    let places = Arc::new(Semaphore::new(MAX_REFUSED));
    loop {
        let Ok((stream, from)) = listener.next().await else {
            sleep(ACCEPT_RETRY_INTERVAL).await;
            continue;
        };
        if let Some(slot) = slots.take().await {
            let number = slots.next.fetch_add(1, Ordering::Relaxed);
            // The task must not remove its entry before the entry is inserted.
            let mut silent = slots.silent();
            let client = Client::new(stream, slot);
            let task = tokio::spawn(serve(client, router.clone(), Arc::clone(slots), number));
            if let Some(replaced) = silent.insert(from, number, task.abort_handle()) {
                replaced.abort();
            }
        } else {
            refused();
            match Arc::clone(&places).try_acquire_owned() {
                Ok(place) => drop(tokio::spawn(refuse(stream, Some(place)))),
                // A task that waits to run would keep the file descriptor open.
                Err(_) => refuse(stream, None).await,
            }
        }
    }
}

async fn serve<S: Stream>(client: Client<S>, router: Router, slots: Arc<Slots>, number: u64) {
    let mut builder = http1::Builder::new();
    builder
        .timer(TokioTimer::new())
        .header_read_timeout(HEADER_TIMEOUT)
        .max_buf_size(MAX_HEADER_BYTES);
    let router = TowerToHyperService::new(router);
    let service = service_fn(|request| {
        slots.silent().remove(number);
        router.call(request)
    });
    let connection = builder.serve_connection(TokioIo::new(client), service);
    // The client has disconnected or exceeded a limit.
    let _ = connection.with_upgrades().await;
    slots.silent().remove(number);
}

/// Responds without waiting for the request. The connection stays open until the client has read
/// the response: closing it with an unread request would reset it and lose the response.
async fn refuse(mut stream: impl Stream, place: Option<OwnedSemaphorePermit>) {
    const BODY: &str = "the client limit is reached; try again later\n";
    let length = BODY.len();
    let answer = format!(
        "HTTP/1.1 503 Service Unavailable\r\nContent-Type: text/plain\r\nRetry-After: 10\r\n\
         Connection: close\r\nContent-Length: {length}\r\n\r\n{BODY}"
    );
    let rest = async {
        stream.write_all(answer.as_bytes()).await?;
        stream.shutdown().await?;
        tokio::io::copy(&mut stream.take(MAX_HEADER_BYTES as u64), &mut tokio::io::sink()).await
    };
    let time = if place.is_some() { REFUSED_TIMEOUT } else { Duration::ZERO };
    let _ = timeout(time, rest).await;
}

/// A connection with a slot. It ends if the client reads no data for [`WRITE_TIMEOUT`].
struct Client<S> {
    stream: S,
    /// The deadline for the client to read data; set if `is_blocked`.
    deadline: Pin<Box<Sleep>>,
    is_blocked: bool,
    _slot: OwnedSemaphorePermit,
}

impl<S: Stream> Client<S> {
    fn new(stream: S, slot: OwnedSemaphorePermit) -> Self {
        let deadline = Box::pin(sleep(WRITE_TIMEOUT));
        Self { stream, deadline, is_blocked: false, _slot: slot }
    }

    /// The result of a write, or an error after [`WRITE_TIMEOUT`] without success.
    fn with_deadline<T>(
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

impl<S: Stream> AsyncRead for Client<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl<S: Stream> AsyncWrite for Client<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let result = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.with_deadline(context, result)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let result = Pin::new(&mut self.stream).poll_write_vectored(context, parts);
        self.with_deadline(context, result)
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
