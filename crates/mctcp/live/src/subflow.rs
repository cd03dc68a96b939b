//! One TCP connection of a session: reads and writes frames.

use std::io;
use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use base::{Span, Time};
use bytes::Bytes;
use mctcp::frame::PREAMBLE;
use mctcp::session::End;
use mctcp::{Decoder, Frame, PathInfo, SubflowId};
use tokio::io::{AsyncRead, AsyncWrite, Interest, ReadBuf};
use tokio::net::TcpStream;

use crate::connections::Registered;
use crate::encryption::EncryptedStream;
use crate::queue::Queue;
use crate::socket;
use crate::stream;

/// Minimum and maximum of unsent data in a socket. These data cannot take another path; with too
/// few, a fast path idles between two turns of the driver.
const UNSENT_BYTES: std::ops::RangeInclusive<u64> = (16 << 10)..=(256 << 10);

/// Maximum time for closing a connection.
const CLOSE_TIMEOUT: Span = Span::from_secs(3);

/// A connection, encrypted or not.
#[derive(Debug)]
pub(crate) enum Wire {
    Plain(TcpStream),
    Encrypted(Box<dyn EncryptedStream>),
}

impl Wire {
    pub(crate) fn tcp(&self) -> &TcpStream {
        match self {
            Self::Plain(stream) => stream,
            Self::Encrypted(stream) => stream.tcp(),
        }
    }

    fn writer(&mut self) -> Pin<&mut (dyn AsyncWrite + Unpin)> {
        match self {
            Self::Plain(stream) => Pin::new(stream),
            Self::Encrypted(stream) => Pin::new(&mut **stream),
        }
    }

    /// Reads into a decoder. `Ok(0)`: the peer has sent FIN.
    pub(crate) fn poll_read(
        &mut self,
        cx: &mut Context<'_>,
        decoder: &mut Decoder,
    ) -> Poll<io::Result<usize>> {
        let count = match self {
            Self::Plain(stream) => loop {
                ready!(stream.poll_read_ready(cx))?;
                let mut short = None;
                let read = stream.try_io(Interest::READABLE, || {
                    let mut spaces = decoder.spaces();
                    let room: usize = spaces.iter().map(|space| space.len()).sum();
                    let count = stream.try_read_vectored(&mut spaces)?;
                    if (1..room).contains(&count) {
                        // The socket is empty: the next turn need not read from it.
                        short = Some(count);
                        return Err(io::ErrorKind::WouldBlock.into());
                    }
                    Ok(count)
                });
                match read {
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                        if let Some(count) = short {
                            break count;
                        }
                    }
                    other => break other?,
                }
            },
            Self::Encrypted(stream) => {
                let mut place = ReadBuf::new(decoder.space());
                ready!(Pin::new(stream).poll_read(cx, &mut place))?;
                place.filled().len()
            }
        };
        decoder.advance(count);
        Poll::Ready(Ok(count))
    }

    /// Writes queued data as far as TCP accepts them.
    pub(crate) fn poll_send(
        &mut self,
        cx: &mut Context<'_>,
        queue: &mut Queue,
    ) -> Poll<io::Result<()>> {
        let written = queue.write(|slices| match self.writer().poll_write_vectored(cx, slices) {
            Poll::Ready(Ok(0)) => Err(Poll::Ready(Err(io::ErrorKind::WriteZero.into()))),
            Poll::Ready(Ok(count)) => Ok(count),
            Poll::Ready(Err(error)) => Err(Poll::Ready(Err(error))),
            Poll::Pending => Err(Poll::Pending),
        });
        match written {
            Ok(()) => self.writer().poll_flush(cx),
            Err(ended) => ended,
        }
    }

    /// Reads and drops bytes until the end.
    pub(crate) fn poll_discard(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let mut bytes = [std::mem::MaybeUninit::uninit(); 4096];
        loop {
            let mut place = ReadBuf::uninit(&mut bytes);
            let reader: Pin<&mut (dyn AsyncRead + Unpin)> = match self {
                Self::Plain(stream) => Pin::new(stream),
                Self::Encrypted(stream) => Pin::new(&mut **stream),
            };
            match reader.poll_read(cx, &mut place) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(Ok(())) if !place.filled().is_empty() => {}
                Poll::Ready(_) => return Poll::Ready(()),
            }
        }
    }

    pub(crate) fn poll_shutdown(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.writer().poll_shutdown(cx)
    }
}

/// An event of a subflow.
#[derive(Debug)]
pub(crate) enum Inbound {
    Frame(u32, Frame<Bytes>),
    Violation(mctcp::Error),
    Ended(End),
}

/// State of the close.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Closing {
    No,
    /// Requested: when the queue is empty, or at this time at the latest.
    Requested(Time),
    /// This end has sent FIN and drops received bytes: closing a socket with unread data resets the
    /// connection, and the peer would lose data that it has not read yet.
    Lingering(Time),
    Done,
}

/// The connection of a subflow, owned by the driver.
#[derive(Debug)]
pub(crate) struct Subflow {
    pub(crate) id: SubflowId,
    wire: Wire,
    decoder: Decoder,
    queue: Queue,
    /// The socket accepts no data now.
    is_blocked: bool,
    is_reading: bool,
    closing: Closing,
    /// Maximum of unsent data in the socket.
    unsent: u64,
    /// Whether any bytes were received.
    pub(crate) has_received: bool,
    pub(crate) local: Option<SocketAddr>,
    pub(crate) remote: Option<SocketAddr>,
    /// Entry in [`Config::connections`](crate::Config::connections).
    pub(crate) registered: Option<Registered>,
}

impl Subflow {
    /// A new connection of this end, without sent bytes.
    pub(crate) fn new(id: SubflowId, wire: Wire, max_frame: u16) -> Self {
        let mut queue = Queue::default();
        queue.push_raw(&PREAMBLE);
        Self::adopt(id, wire, Decoder::new(max_frame), queue)
    }

    /// A connection with a started handshake.
    pub(crate) fn adopt(id: SubflowId, wire: Wire, mut decoder: Decoder, queue: Queue) -> Self {
        decoder.set_pool(stream::pieces().clone());
        let (local, remote) = (wire.tcp().local_addr().ok(), wire.tcp().peer_addr().ok());
        let mut this = Self {
            id,
            wire,
            decoder,
            queue,
            is_blocked: false,
            is_reading: true,
            closing: Closing::No,
            unsent: 0,
            has_received: false,
            local,
            remote,
            registered: None,
        };
        this.limit_unsent(*UNSENT_BYTES.start());
        this
    }

    fn limit_unsent(&mut self, bytes: u64) {
        // Without the option the send buffer is the limit.
        if sys::socket::set_notsent_lowat(self.wire.tcp().as_fd(), bytes as u32).is_ok() {
            self.unsent = bytes;
        }
    }

    /// Reads TCP's state, and adapts the limit of unsent data to the congestion window.
    pub(crate) fn inspect(&mut self) -> Option<PathInfo> {
        let info = socket::path_info(self.wire.tcp())?;
        let wanted = (info.cwnd.count() / 4).clamp(*UNSENT_BYTES.start(), *UNSENT_BYTES.end());
        if wanted.abs_diff(self.unsent) > self.unsent / 4 {
            self.limit_unsent(wanted);
        }
        Some(info)
    }

    /// Number of bytes that a writable socket accepts: half of the limit of unsent bytes.
    pub(crate) fn room(&self) -> u64 {
        let is_writable = !self.is_blocked && self.queue.is_empty() && self.closing == Closing::No;
        if is_writable { self.unsent / 2 } else { 0 }
    }

    pub(crate) fn queue(&mut self, path_seq: u32, frame: Frame<Bytes>) {
        if self.closing == Closing::No {
            self.queue.push(path_seq, frame);
        }
    }

    /// Reads about `budget` bytes at most into `inbox`. Returns whether there may be more.
    pub(crate) fn poll_receive(
        &mut self,
        cx: &mut Context<'_>,
        mut budget: usize,
        inbox: &mut Vec<(SubflowId, Inbound)>,
    ) -> bool {
        while self.is_reading && self.closing == Closing::No {
            loop {
                match self.decoder.next_frame() {
                    Ok(Some((path_seq, frame))) => {
                        inbox.push((self.id, Inbound::Frame(path_seq, frame)));
                    }
                    Ok(None) => break,
                    Err(error) => {
                        self.is_reading = false;
                        inbox.push((self.id, Inbound::Violation(error)));
                        return false;
                    }
                }
            }
            if budget == 0 {
                return true;
            }
            match self.wire.poll_read(cx, &mut self.decoder) {
                Poll::Pending => return false,
                Poll::Ready(Ok(count)) if count > 0 => {
                    self.has_received = true;
                    budget = budget.saturating_sub(count);
                }
                Poll::Ready(ended) => {
                    self.is_reading = false;
                    let is_complete = ended.is_ok() && !self.decoder.in_frame();
                    let end = if is_complete { End::Finished } else { End::Failed };
                    inbox.push((self.id, Inbound::Ended(end)));
                }
            }
        }
        false
    }

    /// Writes queued data. Returns whether its room has changed, or `Err` if the connection broke.
    pub(crate) fn poll_send(&mut self, cx: &mut Context<'_>) -> io::Result<bool> {
        if self.queue.is_empty() && !self.is_blocked {
            return Ok(false);
        }
        let was_blocked = self.is_blocked;
        match self.wire.poll_send(cx, &mut self.queue) {
            Poll::Ready(sent) => {
                self.is_blocked = false;
                sent.map(|()| true)
            }
            Poll::Pending => {
                self.is_blocked = true;
                Ok(!was_blocked)
            }
        }
    }

    /// The connection failed during a write.
    pub(crate) fn fail(&mut self, inbox: &mut Vec<(SubflowId, Inbound)>) {
        if self.closing == Closing::No {
            inbox.push((self.id, Inbound::Ended(End::Failed)));
        }
        self.closing = Closing::Done;
    }

    /// The session has closed it: it ends once the queue is empty.
    pub(crate) fn close(&mut self, now: Time) {
        if self.closing == Closing::No {
            self.closing = Closing::Requested(now + CLOSE_TIMEOUT);
        }
    }

    /// Closes at once with a TCP reset.
    pub(crate) fn abort(&mut self) {
        // A closed connection needs no reset.
        let _ = sys::socket::reset_on_close(self.wire.tcp().as_fd());
        self.closing = Closing::Done;
    }

    /// Continues the close; returns whether it is complete.
    pub(crate) fn poll_close(&mut self, cx: &mut Context<'_>, now: Time) -> bool {
        if let Closing::Requested(until) = self.closing {
            let sent = !self.queue.is_empty() && self.is_blocked;
            match (sent, until <= now) {
                (true, true) => self.abort(),
                (true, false) => return false,
                (false, _) => match self.wire.poll_shutdown(cx) {
                    Poll::Ready(Ok(())) => self.closing = Closing::Lingering(until),
                    Poll::Pending if until > now => return false,
                    _ => self.abort(),
                },
            }
        }
        if let Closing::Lingering(until) = self.closing {
            let is_over = !self.is_reading || until <= now;
            if is_over || self.wire.poll_discard(cx).is_ready() {
                self.closing = Closing::Done;
            }
        }
        self.closing == Closing::Done
    }

    /// Deadline of the close.
    pub(crate) fn deadline(&self) -> Option<Time> {
        match self.closing {
            Closing::Requested(until) | Closing::Lingering(until) => Some(until),
            Closing::No | Closing::Done => None,
        }
    }
}
