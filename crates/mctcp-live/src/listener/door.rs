//! A connection that has been accepted and is nobody's yet.

use std::future::poll_fn;
use std::io;
use std::sync::Arc;

use bytes::Bytes;
use mctcp::acceptor::{ConnectionId, Verdict};
use mctcp::frame::{Frame, PREAMBLE};
use mctcp::{Decoder, Reason, SubflowId};
use tokio::net::TcpStream;
use tokio::sync::mpsc;
use tokio_rustls::TlsAcceptor;

use super::{Accepted, Hub, ListenerStatistics, Plain};
use crate::driver::{Arrival, Kind};
use crate::queue::Queue;
use crate::socket;
use crate::subflow::{Subflow, Wire};

/// What a TLS connection begins with: a handshake record (RFC 8446 §5.1).
const TLS_HANDSHAKE: u8 = 22;

/// Talks with a connection until there is a verdict, or it takes too long.
pub(super) async fn open(
    hub: Arc<Hub>,
    id: ConnectionId,
    verdicts: mpsc::UnboundedReceiver<Verdict>,
    stream: TcpStream,
) {
    let patience = hub.config.limits.handshake.to_std();
    let talk = talk(&hub, id, verdicts, stream);
    let outcome = tokio::time::timeout(patience, talk).await;
    hub.leave(id, |statistics| count(statistics, outcome.ok().flatten()));
}

/// What became of a connection.
#[derive(Clone, Copy, Debug)]
enum Fate {
    Session,
    Subflow,
    Plain,
}

fn count(statistics: &mut ListenerStatistics, fate: Option<Fate>) {
    match fate {
        Some(Fate::Session) => statistics.sessions += 1,
        Some(Fate::Subflow) => statistics.joins += 1,
        Some(Fate::Plain) => statistics.plain += 1,
        None => statistics.failed += 1,
    }
}

/// A connection and what has been said on it.
struct Door {
    wire: Wire,
    decoder: Decoder,
    queue: Queue,
    exported: Option<Box<[u8]>>,
    /// Numbers of the next frames in both directions.
    sends: u32,
    expects: u32,
    /// The name that the client gave the subflow in HELLO.
    named: SubflowId,
}

async fn talk(
    hub: &Arc<Hub>,
    id: ConnectionId,
    mut verdicts: mpsc::UnboundedReceiver<Verdict>,
    stream: TcpStream,
) -> Option<Fate> {
    let (wire, exported) = match secured(hub, stream).await.ok()? {
        Secured::Yes(wire, exported) => (wire, exported),
        Secured::Plain(stream) => {
            hub.announce(Accepted::Plain(Plain { stream, head: Bytes::new() }));
            return Some(Fate::Plain);
        }
    };
    let mut queue = Queue::default();
    queue.push_raw(&PREAMBLE);
    let decoder = Decoder::new(hub.session.max_frame());
    let named = SubflowId(0);
    let mut is_told = false;
    let mut door = Door { wire, decoder, queue, exported, sends: 0, expects: 0, named };
    loop {
        let step = tokio::select! {
            biased;
            verdict = verdicts.recv() => Step::Verdict(verdict?),
            frame = door.next_frame() => match frame {
                Ok(frame) => Step::Frame(frame),
                Err(Wrong::Foreign) => return door.into_plain(hub),
                Err(Wrong::Ended) => return None,
            },
        };
        match step {
            Step::Frame(frame) => hub.on_frame(id, frame, door.exported.as_deref()),
            Step::Verdict(Verdict::Send(_, frame)) => {
                is_told |= frame == Frame::Refuse(Reason::Finished);
                door.queue.push(door.sends, frame);
                door.sends += 1;
                door.flush().await.ok()?;
            }
            Step::Verdict(Verdict::Open(_, hello, ack, key)) => {
                let subflow = Subflow::adopt(hello.subflow, door.wire, door.decoder, door.queue);
                hub.begin(&hello, &ack, key, subflow);
                return Some(Fate::Session);
            }
            Step::Verdict(Verdict::Again(_, session)) => {
                let kind = Kind::Again(door.named);
                return door.hand_over(hub, session, kind);
            }
            Step::Verdict(Verdict::Joined(_, join)) => {
                return door.hand_over(hub, join.session, Kind::Joined(join));
            }
            Step::Verdict(Verdict::Close(_)) => {
                door.flush().await.ok()?;
                // The end of this side is all that matters; the rest is closed with it.
                let _ = poll_fn(|cx| door.wire.poll_shutdown(cx)).await;
                if is_told {
                    // A client that has proven itself has sent more, and a socket that is closed
                    // with something unread resets the connection: it would not be told.
                    poll_fn(|cx| door.wire.poll_discard(cx)).await;
                }
                return None;
            }
        }
    }
}

enum Step {
    Verdict(Verdict),
    Frame(Frame<Bytes>),
}

enum Wrong {
    /// Not MCTCP.
    Foreign,
    /// Gone, or broken.
    Ended,
}

impl Door {
    /// The next frame. Nothing is lost if this is not waited for to its end.
    async fn next_frame(&mut self) -> Result<Frame<Bytes>, Wrong> {
        loop {
            match self.decoder.next_frame() {
                Ok(Some((path_seq, frame))) if path_seq == self.expects => {
                    self.expects += 1;
                    if let Frame::Hello(hello) = &frame {
                        self.named = hello.subflow;
                    }
                    return Ok(frame);
                }
                Ok(None) => {}
                Err(mctcp::Error::Preamble { .. } | mctcp::Error::Version { .. }) => {
                    return Err(Wrong::Foreign);
                }
                Ok(Some(_)) | Err(_) => return Err(Wrong::Ended),
            }
            let read = poll_fn(|cx| self.wire.poll_read(cx, &mut self.decoder)).await;
            match read {
                Ok(count) if count > 0 => {}
                // Too short for a preamble, and all that is going to come.
                Ok(_) if self.expects == 0 && !self.decoder.unread().is_empty() => {
                    return Err(Wrong::Foreign);
                }
                _ => return Err(Wrong::Ended),
            }
        }
    }

    async fn flush(&mut self) -> io::Result<()> {
        poll_fn(|cx| self.wire.poll_send(cx, &mut self.queue)).await
    }

    fn into_plain(self, hub: &Hub) -> Option<Fate> {
        // Within TLS there is no connection that could be handed on.
        let Wire::Plain(stream) = self.wire else { return None };
        let head = Bytes::copy_from_slice(self.decoder.unread());
        hub.announce(Accepted::Plain(Plain { stream, head }));
        Some(Fate::Plain)
    }

    fn hand_over(self, hub: &Hub, session: u64, kind: Kind) -> Option<Fate> {
        let Self { wire, decoder, queue, .. } = self;
        let arrival = Arrival { wire, decoder, queue, kind };
        hub.arrivals(session)?.try_send(arrival).ok()?;
        Some(Fate::Subflow)
    }
}

enum Secured {
    Yes(Wire, Option<Box<[u8]>>),
    Plain(TcpStream),
}

/// Begins TLS where it is asked for.
async fn secured(hub: &Hub, stream: TcpStream) -> io::Result<Secured> {
    let Some(tls) = &hub.config.tls else {
        return Ok(Secured::Yes(Wire::Plain(stream), None));
    };
    let mut first = [0];
    if stream.peek(&mut first).await? == 0 {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    if first[0] == PREAMBLE[0] {
        // Whoever has a secret to keep does not talk without TLS.
        return Err(io::ErrorKind::PermissionDenied.into());
    }
    if first[0] != TLS_HANDSHAKE {
        return Ok(Secured::Plain(stream));
    }
    let stream = TlsAcceptor::from(Arc::clone(tls)).accept(stream).await?;
    let exported = socket::exported(stream.get_ref().1)?;
    Ok(Secured::Yes(Wire::Tls(Box::new(stream.into())), Some(exported)))
}
