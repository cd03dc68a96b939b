//! One TCP connection of a session: reading and writing frames.

use std::io::{self, IoSlice};
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
use tokio_rustls::TlsStream;

use crate::connections::Registered;
use crate::memory;
use crate::queue::Queue;
use crate::socket;

/// Least and most data that waits unsent in a socket. What is there can take no other path any
/// more; too little lets a fast path idle between two turns of the driver.
const UNSENT: std::ops::RangeInclusive<u64> = (16 << 10)..=(256 << 10);

/// Longest time that the end of a connection may take.
const LINGER: Span = Span::from_secs(3);

/// A connection, perhaps within TLS.
#[derive(Debug)]
pub(crate) enum Wire {
    Plain(TcpStream),
    Tls(Box<TlsStream<TcpStream>>),
}

impl Wire {
    pub(crate) fn tcp(&self) -> &TcpStream {
        match self {
            Self::Plain(stream) => stream,
            Self::Tls(stream) => stream.get_ref().0,
        }
    }

    /// Reads into a decoder. `Ok(0)`: the peer has finished.
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
                        // There is no more: the next turn need not ask the kernel.
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
            Self::Tls(stream) => {
                let mut place = ReadBuf::new(decoder.space());
                ready!(Pin::new(stream).poll_read(cx, &mut place))?;
                place.filled().len()
            }
        };
        decoder.advance(count);
        Poll::Ready(Ok(count))
    }

    fn poll_write(
        &mut self,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        match self {
            Self::Plain(stream) => Pin::new(stream).poll_write_vectored(cx, slices),
            Self::Tls(stream) => Pin::new(stream).poll_write_vectored(cx, slices),
        }
    }

    /// Hands everything over to TCP.
    fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self {
            Self::Plain(_) => Poll::Ready(Ok(())),
            Self::Tls(stream) => Pin::new(stream).poll_flush(cx),
        }
    }

    /// Writes what is queued as far as TCP takes it.
    pub(crate) fn poll_send(
        &mut self,
        cx: &mut Context<'_>,
        queue: &mut Queue,
    ) -> Poll<io::Result<()>> {
        let written = queue.write(|slices| match self.poll_write(cx, slices) {
            Poll::Ready(Ok(0)) => Err(Poll::Ready(Err(io::ErrorKind::WriteZero.into()))),
            Poll::Ready(Ok(count)) => Ok(count),
            Poll::Ready(Err(error)) => Err(Poll::Ready(Err(error))),
            Poll::Pending => Err(Poll::Pending),
        });
        match written {
            Ok(()) => self.poll_flush(cx),
            Err(ended) => ended,
        }
    }

    /// Drops what comes until there is no more.
    pub(crate) fn poll_discard(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let mut bytes = [std::mem::MaybeUninit::uninit(); 4096];
        loop {
            let mut place = ReadBuf::uninit(&mut bytes);
            let read = match self {
                Self::Plain(stream) => Pin::new(stream).poll_read(cx, &mut place),
                Self::Tls(stream) => Pin::new(stream).poll_read(cx, &mut place),
            };
            match read {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(Ok(())) if !place.filled().is_empty() => {}
                Poll::Ready(_) => return Poll::Ready(()),
            }
        }
    }

    pub(crate) fn poll_shutdown(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self {
            Self::Plain(stream) => Pin::new(stream).poll_shutdown(cx),
            Self::Tls(stream) => Pin::new(stream).poll_shutdown(cx),
        }
    }
}

/// What came from a subflow.
#[derive(Debug)]
pub(crate) enum Inbound {
    Frame(u32, Frame<Bytes>),
    /// Not what the protocol says.
    Wrong(mctcp::Error),
    Ended(End),
}

/// How far its end is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Closing {
    No,
    /// Once the queue is empty, and until then at the latest.
    Asked(Time),
    /// This end has finished, and drops what still comes: a socket that is closed with something
    /// unread resets the connection, and what the peer has not read yet would be lost.
    Lingering(Time),
    Done,
}

/// A subflow as its driver has it.
#[derive(Debug)]
pub(crate) struct Subflow {
    pub(crate) id: SubflowId,
    wire: Wire,
    decoder: Decoder,
    queue: Queue,
    /// The socket takes nothing now.
    is_blocked: bool,
    is_reading: bool,
    closing: Closing,
    /// Data that may wait unsent in the socket.
    unsent: u64,
    /// Whether anything has come from the peer.
    pub(crate) is_heard: bool,
    pub(crate) local: Option<SocketAddr>,
    pub(crate) remote: Option<SocketAddr>,
    /// Keeps the connection in the table of own connections.
    pub(crate) registered: Option<Registered>,
}

impl Subflow {
    /// A connection of this end's making, on which nothing was sent yet.
    pub(crate) fn new(id: SubflowId, wire: Wire, max_frame: u16) -> Self {
        let mut queue = Queue::default();
        queue.push_raw(&PREAMBLE);
        Self::adopt(id, wire, Decoder::new(max_frame), queue)
    }

    /// A connection on which both ends have begun to talk.
    pub(crate) fn adopt(id: SubflowId, wire: Wire, mut decoder: Decoder, queue: Queue) -> Self {
        decoder.set_pool(memory::pieces().clone());
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
            is_heard: false,
            local,
            remote,
            registered: None,
        };
        this.limit_unsent(*UNSENT.start());
        this
    }

    fn limit_unsent(&mut self, bytes: u64) {
        // Without the option the send buffer is the limit.
        if sys::socket::set_notsent_lowat(self.wire.tcp().as_fd(), bytes as u32).is_ok() {
            self.unsent = bytes;
        }
    }

    /// What TCP knows; the limit of unsent data follows the congestion window.
    pub(crate) fn inspect(&mut self) -> Option<PathInfo> {
        let info = socket::path_info(self.wire.tcp())?;
        let wanted = (info.cwnd.count() / 4).clamp(*UNSENT.start(), *UNSENT.end());
        if wanted.abs_diff(self.unsent) > self.unsent / 4 {
            self.limit_unsent(wanted);
        }
        Some(info)
    }

    /// How much it is to be given: what surely fits, as the socket says that it takes more once
    /// it is half empty.
    pub(crate) fn room(&self) -> u64 {
        let takes = !self.is_blocked && self.queue.is_empty() && self.closing == Closing::No;
        if takes { self.unsent / 2 } else { 0 }
    }

    pub(crate) fn queue(&mut self, path_seq: u32, frame: Frame<Bytes>) {
        if self.closing == Closing::No {
            self.queue.push(path_seq, frame);
        }
    }

    /// Reads up to about `budget` bytes and tells what came. Whether there may be more.
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
                        inbox.push((self.id, Inbound::Wrong(error)));
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
                    self.is_heard = true;
                    budget = budget.saturating_sub(count);
                }
                Poll::Ready(ended) => {
                    self.is_reading = false;
                    let whole = ended.is_ok() && !self.decoder.in_frame();
                    let end = if whole { End::Finished } else { End::Failed };
                    inbox.push((self.id, Inbound::Ended(end)));
                }
            }
        }
        false
    }

    /// Writes what is queued. Whether its room has changed, or `Err` if the connection broke.
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

    /// The connection broke while it was written to.
    pub(crate) fn fail(&mut self, inbox: &mut Vec<(SubflowId, Inbound)>) {
        if self.closing == Closing::No {
            inbox.push((self.id, Inbound::Ended(End::Failed)));
        }
        self.closing = Closing::Done;
    }

    /// The session has no more use for it: it ends once what is queued has left.
    pub(crate) fn close(&mut self, now: Time) {
        if self.closing == Closing::No {
            self.closing = Closing::Asked(now + LINGER);
        }
    }

    /// It ends at once, and the peer's TCP hears of it.
    pub(crate) fn abort(&mut self) {
        // A connection that is gone needs no reset.
        let _ = sys::socket::reset_on_close(self.wire.tcp().as_fd());
        self.closing = Closing::Done;
    }

    /// Goes on with its end. Whether it has come to it.
    pub(crate) fn poll_close(&mut self, cx: &mut Context<'_>, now: Time) -> bool {
        if let Closing::Asked(until) = self.closing {
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

    /// When its end is to be reached.
    pub(crate) fn deadline(&self) -> Option<Time> {
        match self.closing {
            Closing::Asked(until) | Closing::Lingering(until) => Some(until),
            Closing::No | Closing::Done => None,
        }
    }
}
