//! An accepted connection that is not assigned to a session yet.

use std::future::poll_fn;
use std::io;
use std::sync::Arc;

use bytes::Bytes;
use mctcp::acceptor::{ConnectionId, Verdict};
use mctcp::frame::{Frame, PREAMBLE};
use mctcp::{Decoder, Reason, SubflowId};
use tokio::net::TcpStream;
use tokio::sync::mpsc;

use super::{Accepted, Hub, ListenerStatistics, Plain};
use crate::driver::{Arrival, Kind};
use crate::encryption::Encrypted;
use crate::queue::Queue;
use crate::subflow::{Subflow, Wire};

/// Runs the handshake of a connection until there is a verdict or a timeout.
pub(super) async fn open(
    hub: Arc<Hub>,
    id: ConnectionId,
    verdicts: mpsc::UnboundedReceiver<Verdict>,
    stream: TcpStream,
) {
    let timeout = hub.config.limits.handshake.to_std();
    let handshake = handshake(&hub, id, verdicts, stream);
    let outcome = tokio::time::timeout(timeout, handshake).await;
    hub.leave(id, |statistics| count(statistics, outcome.ok().flatten()));
}

/// The result of a handshake.
#[derive(Clone, Copy, Debug)]
enum Outcome {
    Session,
    Subflow,
    Plain,
}

fn count(statistics: &mut ListenerStatistics, outcome: Option<Outcome>) {
    match outcome {
        Some(Outcome::Session) => statistics.sessions += 1,
        Some(Outcome::Subflow) => statistics.joins += 1,
        Some(Outcome::Plain) => statistics.plain += 1,
        None => statistics.failed += 1,
    }
}

/// A connection and the frames on it.
struct Pending {
    wire: Wire,
    decoder: Decoder,
    queue: Queue,
    exported: Option<Box<[u8]>>,
    /// Numbers of the next frames in both directions.
    next_path_seq: u32,
    expected_path_seq: u32,
    /// Identifier of the subflow in the client's HELLO.
    hello_subflow: SubflowId,
}

async fn handshake(
    hub: &Arc<Hub>,
    id: ConnectionId,
    mut verdicts: mpsc::UnboundedReceiver<Verdict>,
    stream: TcpStream,
) -> Option<Outcome> {
    let (wire, exported) = match secured(hub, stream).await.ok()? {
        Secured::Yes(wire, exported) => (wire, exported),
        Secured::Plain(stream) => {
            hub.announce(Accepted::Plain(Plain { stream, head: Bytes::new() }));
            return Some(Outcome::Plain);
        }
    };
    let mut queue = Queue::default();
    queue.push_raw(&PREAMBLE);
    let decoder = Decoder::new(hub.session.max_frame());
    let hello_subflow = SubflowId(0);
    let mut is_finished = false;
    let mut pending = Pending {
        wire,
        decoder,
        queue,
        exported,
        next_path_seq: 0,
        expected_path_seq: 0,
        hello_subflow,
    };
    loop {
        let verdict = tokio::select! {
            biased;
            verdict = verdicts.recv() => verdict?,
            frame = pending.next_frame() => match frame {
                Ok(frame) => {
                    hub.on_frame(id, frame, pending.exported.as_deref());
                    continue;
                }
                Err(HandshakeError::OtherProtocol) => return pending.into_plain(hub),
                Err(HandshakeError::Ended) => return None,
            },
        };
        match verdict {
            Verdict::Send(_, frame) => {
                is_finished |= frame == Frame::Refuse(Reason::Finished);
                pending.queue.push(pending.next_path_seq, frame);
                pending.next_path_seq += 1;
                pending.flush().await.ok()?;
            }
            Verdict::Open(_, hello, ack, key) => {
                let subflow =
                    Subflow::adopt(hello.subflow, pending.wire, pending.decoder, pending.queue);
                hub.begin(&hello, &ack, key, subflow);
                return Some(Outcome::Session);
            }
            Verdict::RepeatedHello(_, session) => {
                let kind = Kind::RepeatedHello(pending.hello_subflow);
                return pending.assign(hub, session, kind);
            }
            Verdict::Joined(_, join) => {
                return pending.assign(hub, join.session, Kind::Joined(join));
            }
            Verdict::Close(_) => {
                pending.flush().await.ok()?;
                // Only the end of this direction matters; the rest is closed with it.
                let _ = poll_fn(|cx| pending.wire.poll_shutdown(cx)).await;
                if is_finished {
                    // A proven client has sent more data, and closing a socket with unread data
                    // resets the connection: the answer would be lost.
                    poll_fn(|cx| pending.wire.poll_discard(cx)).await;
                }
                return None;
            }
        }
    }
}

enum HandshakeError {
    /// It uses another protocol.
    OtherProtocol,
    /// It was closed, or failed.
    Ended,
}

impl Pending {
    /// The next frame. Cancel safe.
    async fn next_frame(&mut self) -> Result<Frame<Bytes>, HandshakeError> {
        loop {
            match self.decoder.next_frame() {
                Ok(Some((path_seq, frame))) if path_seq == self.expected_path_seq => {
                    self.expected_path_seq += 1;
                    if let Frame::Hello(hello) = &frame {
                        self.hello_subflow = hello.subflow;
                    }
                    return Ok(frame);
                }
                Ok(None) => {}
                Err(mctcp::Error::Preamble { .. } | mctcp::Error::Version { .. }) => {
                    return Err(HandshakeError::OtherProtocol);
                }
                Ok(Some(_)) | Err(_) => return Err(HandshakeError::Ended),
            }
            let read = poll_fn(|cx| self.wire.poll_read(cx, &mut self.decoder)).await;
            match read {
                Ok(count) if count > 0 => {}
                // Shorter than a preamble, and no more bytes will follow.
                Ok(_) if self.expected_path_seq == 0 && !self.decoder.unread().is_empty() => {
                    return Err(HandshakeError::OtherProtocol);
                }
                _ => return Err(HandshakeError::Ended),
            }
        }
    }

    async fn flush(&mut self) -> io::Result<()> {
        poll_fn(|cx| self.wire.poll_send(cx, &mut self.queue)).await
    }

    fn into_plain(self, hub: &Hub) -> Option<Outcome> {
        // An encrypted connection cannot be passed on.
        let Wire::Plain(stream) = self.wire else { return None };
        let head = Bytes::copy_from_slice(self.decoder.unread());
        hub.announce(Accepted::Plain(Plain { stream, head }));
        Some(Outcome::Plain)
    }

    fn assign(self, hub: &Hub, session: u64, kind: Kind) -> Option<Outcome> {
        let Self { wire, decoder, queue, .. } = self;
        let arrival = Arrival { wire, decoder, queue, kind };
        hub.arrivals(session)?.try_send(arrival).ok()?;
        Some(Outcome::Subflow)
    }
}

enum Secured {
    Yes(Wire, Option<Box<[u8]>>),
    Plain(TcpStream),
}

/// Performs the handshake of the encryption, if it is required.
async fn secured(hub: &Hub, stream: TcpStream) -> io::Result<Secured> {
    let Some(encryption) = &hub.config.encryption else {
        return Ok(Secured::Yes(Wire::Plain(stream), None));
    };
    let mut first = [0];
    if stream.peek(&mut first).await? == 0 {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    if first[0] == PREAMBLE[0] {
        // A session requires the configured encryption.
        return Err(io::ErrorKind::PermissionDenied.into());
    }
    if !encryption.is_handshake(first[0]) {
        return Ok(Secured::Plain(stream));
    }
    let Encrypted { stream, secret } = encryption.handshake(stream).await?;
    Ok(Secured::Yes(Wire::Encrypted(stream), Some(secret)))
}
