//! Copies bytes in both directions between two connections.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::ledger::Tally;

/// Size of the buffer of one direction in bytes.
const BUFFER: usize = 64 << 10;

/// Copies until both directions have ended, or one has failed.
pub(crate) async fn relay(
    client: impl AsyncRead + AsyncWrite + Unpin,
    peer: &mut (impl AsyncRead + AsyncWrite + Unpin),
    tally: &Arc<Tally>,
) -> io::Result<()> {
    let mut client = Metered { inner: client, tally: Arc::clone(tally) };
    tokio::io::copy_bidirectional_with_sizes(&mut client, peer, BUFFER, BUFFER).await?;
    Ok(())
}

/// A client's connection with byte counters.
struct Metered<S> {
    inner: S,
    tally: Arc<Tally>,
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
        self.tally.sent.fetch_add(count as u64, Ordering::Relaxed);
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
        self.tally.received.fetch_add(count as u64, Ordering::Relaxed);
        Poll::Ready(Ok(count))
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_shutdown(cx)
    }
}
