//! The stream that applications use.

use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll};

use bytes::{Buf, Bytes};
use mctcp::frame::MAX_TARGET_BYTES;
use mctcp::pool::Pool;
use mctcp::session::{Opening, Session, Statistics, SubflowStatus};
use mctcp::{PathId, Reason, secret};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::config::{Config, PathSpec};
use crate::driver::{Client, Driver, Role};
use crate::error::{Error, Result};
use crate::shared::{Ended, Shared, State};
use crate::system;

/// Length of the pieces into which written data are split: the default payload of a frame.
const PIECE_BYTES: usize = 16 << 10;
/// Maximum number of unused buffers: 8 MiB.
const MAX_UNUSED_BUFFERS: usize = 512;
/// Maximum number of bytes per write.
const MAX_WRITE_BYTES: usize = 64 << 10;

/// One end of a session: a stream of bytes in each direction, over as many connections as
/// there are paths.
///
/// A task of the runtime drives it. [`shutdown`](tokio::io::AsyncWriteExt::shutdown) ends this
/// end's direction and leaves the other open, as in TCP. It does not wait, but
/// [`delivered`](Self::delivered) does, and programs should call that before they exit. A stream
/// that is dropped after `shutdown` is driven until the peer has received everything, for at most
/// [`Config::linger`]; one that is dropped without it is aborted with RESET.
#[derive(Debug)]
pub struct MctcpStream {
    shared: Arc<Shared>,
    /// Rest of the last piece.
    piece: Bytes,
    target: String,
}

/// State of one subflow.
#[derive(Clone, Debug)]
pub struct SubflowInfo {
    /// State according to the session.
    pub status: SubflowStatus,
    /// Its local address, if known.
    pub local: Option<SocketAddr>,
    /// Its remote address, if known.
    pub remote: Option<SocketAddr>,
}

/// Reads the state of a session while other code reads and writes its stream, and after its end.
#[derive(Clone, Debug)]
pub struct Observer(Arc<Shared>);

impl Observer {
    /// The current subflows.
    pub fn subflows(&self) -> Vec<SubflowInfo> {
        let state = self.0.lock();
        let of = |status: SubflowStatus| {
            let (local, remote) = state.addresses.get(&status.id).copied().unwrap_or_default();
            SubflowInfo { status, local, remote }
        };
        state.session.subflows().map(of).collect()
    }

    /// Counters since the start.
    pub fn stats(&self) -> Statistics {
        self.0.lock().session.statistics()
    }
}

impl MctcpStream {
    /// Opens a session with the listener at the remote addresses of `paths`, in which the first
    /// path is tried first. `target` is the target requested from the server; it may be empty.
    ///
    /// Returns after the first connection is established and HELLO is queued. Written data follow
    /// at once; whether the peer supports MCTCP is known a round-trip time later (see
    /// [`established`](Self::established)).
    ///
    /// # Errors
    /// [`Error::Connect`] if no path has a connection, and the variants of [`Error`]
    /// for invalid arguments.
    pub async fn connect(
        paths: impl IntoIterator<Item = PathSpec>,
        target: &str,
        config: Config,
    ) -> Result<Self> {
        if target.len() > MAX_TARGET_BYTES {
            return Err(Error::Target { length: target.len() });
        }
        let opening = Opening {
            seed: system::seed(),
            target: target.to_owned(),
            secret: config.psk.as_deref().map(|psk| secret::shared(Some(psk), None)),
            proof: config.psk.is_some(),
        };
        let shared = Arc::new(Shared::new(Session::connect(config.settings.clone(), opening)));
        let mut any = false;
        for path in paths {
            any = true;
            shared.lock().add_path(path);
        }
        if !any {
            return Err(Error::NoPath);
        }
        let client = Client::new(&config);
        let driver = Driver::new(Arc::clone(&shared), Arc::new(config), Role::Client(client));
        driver.spawn();
        // From here on, dropping it ends the session.
        let stream = Self::new(shared, target.to_owned());
        stream.shared.reach(|state| reached(state, state.is_connected)).await?;
        Ok(stream)
    }

    pub(crate) fn new(shared: Arc<Shared>, target: String) -> Self {
        Self { shared, piece: Bytes::new(), target }
    }

    /// Waits until the handshake is complete.
    ///
    /// # Errors
    /// [`Error::NotMctcp`] if the peer uses another protocol, or another error that
    /// ended the session.
    pub async fn established(&self) -> Result<()> {
        self.shared.reach(|state| reached(state, state.is_established)).await
    }

    /// Waits until the peer has received all data written before
    /// [`shutdown`](tokio::io::AsyncWriteExt::shutdown).
    ///
    /// # Errors
    /// The error that ended the session.
    pub async fn delivered(&self) -> Result<()> {
        self.shared.reach(|state| reached(state, state.is_delivered())).await
    }

    /// Waits until the session has ended: both streams were delivered, and the peer has the last
    /// acknowledgement. If a client exits earlier, the server may miss its last data.
    ///
    /// # Errors
    /// The error that ended the session.
    pub async fn closed(&self) -> Result<()> {
        self.shared.reach(|state| reached(state, false)).await
    }

    /// A handle that reads the state of the session.
    pub fn observer(&self) -> Observer {
        Observer(Arc::clone(&self.shared))
    }

    /// The target that the client requested.
    pub fn target(&self) -> &str {
        &self.target
    }

    /// The current subflows.
    pub fn subflows(&self) -> Vec<SubflowInfo> {
        self.observer().subflows()
    }

    /// Counters since the start.
    pub fn stats(&self) -> Statistics {
        self.observer().stats()
    }

    /// Client: adds a path.
    pub fn add_path(&self, path: PathSpec) -> PathId {
        self.shared.change(|state| state.add_path(path))
    }

    /// Client: stops using a path. Data on its subflow are delivered, or sent on another one.
    pub fn remove_path(&self, path: PathId) {
        self.shared.change(|state| {
            state.session.remove_path(system::now(), path);
            state.paths.remove(&path);
        });
    }

    /// Client: opens connections on all paths now, even if there is little to send.
    pub fn join_now(&self) {
        self.shared.change(|state| state.session.join_now(system::now()));
    }

    /// Ends the session and returns written data without acknowledgement, in order, to send them
    /// over plain TCP after [`Error::NotMctcp`].
    pub fn reclaim(self) -> Vec<Bytes> {
        self.shared.lock().session.reclaim()
    }
}

/// The buffers for pieces of all streams of this process. Idle sessions hold none.
pub(crate) fn pieces() -> &'static Pool {
    static PIECES: OnceLock<Pool> = OnceLock::new();
    PIECES.get_or_init(|| Pool::new(PIECE_BYTES, MAX_UNUSED_BUFFERS))
}

/// The result for a task that waits for a state of the session, if it is reached or the session has
/// ended.
fn reached(state: &State, is_reached: bool) -> Option<Result<()>> {
    match &state.ended {
        _ if is_reached => Some(Ok(())),
        Some(Ended::Failed(error)) => Some(Err(error.clone())),
        Some(Ended::Closed) => Some(Ok(())),
        None => None,
    }
}

impl AsyncRead for MctcpStream {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let before = buf.filled().len();
        let mut state = loop {
            let count = this.piece.len().min(buf.remaining());
            buf.put_slice(&this.piece[..count]);
            this.piece.advance(count);
            let mut state = this.shared.lock();
            if buf.remaining() == 0 {
                break state;
            }
            match state.session.read(system::now()) {
                // The driver runs while the piece is copied.
                Some(piece) => this.piece = piece,
                None => break state,
            }
        };
        if buf.filled().len() > before || buf.remaining() == 0 {
            let driver = state.session.is_dack_due().then(|| state.driver.take()).flatten();
            drop(state);
            if let Some(driver) = driver {
                driver.wake();
            }
            return Poll::Ready(Ok(()));
        }
        if state.session.read_finished() {
            return Poll::Ready(Ok(()));
        }
        if let Some(error) = state.failure() {
            return Poll::Ready(Err(error.into()));
        }
        state.reader = Some(cx.waker().clone());
        Poll::Pending
    }
}

impl AsyncWrite for MctcpStream {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        if buf.is_empty() {
            return Poll::Ready(Ok(0));
        }
        let mut state = self.shared.lock();
        if let Some(error) = state.failure() {
            return Poll::Ready(Err(error.into()));
        }
        if state.is_finished || state.ended.is_some() {
            return Poll::Ready(Err(io::ErrorKind::BrokenPipe.into()));
        }
        let now = system::now();
        let room = usize::try_from(state.session.writable().count()).unwrap_or(usize::MAX);
        let count = room.min(buf.len()).min(MAX_WRITE_BYTES);
        if count == 0 {
            // After a rejected write the session reports when its buffer has room.
            state.session.write(now, Bytes::from_static(&[0]));
            state.writer = Some(cx.waker().clone());
            return Poll::Pending;
        }
        drop(state);
        // There is one writer, so the room cannot shrink meanwhile.
        let copy = |part: &[u8]| {
            let mut piece = pieces().take(part.len());
            piece.bytes_mut().copy_from_slice(part);
            piece.freeze()
        };
        let mut pieces = [const { Bytes::new() }; MAX_WRITE_BYTES / PIECE_BYTES];
        let parts = buf[..count].chunks(PIECE_BYTES);
        pieces.iter_mut().zip(parts).for_each(|(piece, part)| *piece = copy(part));
        let mut state = self.shared.lock();
        for piece in pieces.into_iter().filter(|piece| !piece.is_empty()) {
            state.session.write(now, piece);
        }
        let driver = state.driver.take();
        drop(state);
        if let Some(sleeper) = driver {
            self.shared.step(sleeper);
        }
        Poll::Ready(Ok(count))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        // Written data are already being sent.
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        let failure = self.shared.change(|state| {
            if state.ended.is_none() && !state.is_finished {
                state.is_finished = true;
                state.session.finish(system::now());
            }
            state.failure()
        });
        Poll::Ready(failure.map_or(Ok(()), |error| Err(error.into())))
    }
}

impl Drop for MctcpStream {
    fn drop(&mut self) {
        self.shared.change(|state| {
            let now = system::now();
            state.dropped_at = Some(now);
            if !state.is_finished {
                state.session.abort(now, Reason::Aborted);
            }
        });
    }
}
