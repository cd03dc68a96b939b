//! Copies bytes in both directions between two connections.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;

use super::ledger::{ByteCounters, OpenConnection};
use super::{Event, SharedState};

/// Kind of listener of a server.
pub(crate) const SERVER: &str = "mctcp";
/// Size of the buffer of one direction.
const BUFFER_BYTES: usize = 64 << 10;

impl SharedState {
    /// Copies between a plain TCP connection and the other end of `connection`, until both
    /// directions have ended or one has failed. `early_bytes` were sent before.
    pub(crate) async fn relay(
        &self,
        connection: OpenConnection,
        early_bytes: u64,
        plain: TcpStream,
        other: &mut (impl AsyncRead + AsyncWrite + Unpin),
    ) {
        let (client, target) = (connection.client.clone(), connection.target.clone());
        let via = connection.transport.name();
        let is_server = connection.listener == SERVER;
        let entry = self.ledger.enter(connection);
        self.report(Event::Opened { client: client.clone(), target: target.clone(), via });
        entry.bytes.sent.fetch_add(early_bytes, Ordering::Relaxed);
        let mut plain = Metered { inner: plain, bytes: Arc::clone(&entry.bytes) };
        let size = BUFFER_BYTES;
        let copied = tokio::io::copy_bidirectional_with_sizes(&mut plain, other, size, size).await;
        let why = copied.err().map(|error| error.to_string());
        let [mut sent, mut received] =
            [&entry.bytes.sent, &entry.bytes.received].map(|it| it.load(Ordering::Relaxed));
        if is_server {
            // Its plain connection is that of the target, not that of the client.
            std::mem::swap(&mut sent, &mut received);
        }
        self.report(Event::Closed { client, target, sent, received, why });
    }
}

/// A connection with byte counters.
struct Metered<S> {
    inner: S,
    bytes: Arc<ByteCounters>,
}

impl<S: AsyncRead + Unpin> AsyncRead for Metered<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        place: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = place.filled().len();
        ready!(Pin::new(&mut self.inner).poll_read(cx, place))?;
        let count = place.filled().len() - before;
        self.bytes.sent.fetch_add(count as u64, Ordering::Relaxed);
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Metered<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let count = ready!(Pin::new(&mut self.inner).poll_write(cx, bytes))?;
        self.bytes.received.fetch_add(count as u64, Ordering::Relaxed);
        Poll::Ready(Ok(count))
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_shutdown(cx)
    }
}
