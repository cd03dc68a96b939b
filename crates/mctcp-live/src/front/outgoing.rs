//! Connections to targets: in a session where the other end speaks MCTCP, else in plain TCP.

use std::collections::BTreeMap;
use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use mctcp::settings::EARLY_CREDIT;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, ReadBuf};
use tokio::net::{TcpSocket, TcpStream};
use tokio::time::{Instant, timeout};
use tokio_rustls::rustls::pki_types::ServerName;
use tokio_rustls::rustls::{ClientConfig, Error as TlsError};

use super::paths::{self, PathOption};
use super::redirect::MARK;
use super::socks::Reply;
use super::target::{Host, Target};
use super::{Error, Result};
use crate::{ClientTls, Config, MctcpStream, Observer};

/// A plain connection has to be there within this.
pub(crate) const PATIENCE: Duration = Duration::from_secs(10);
/// For this long an end that did not speak MCTCP is not asked again.
const MEMORY: Duration = Duration::from_secs(60);
/// The same for one that was not there.
const SHORT_MEMORY: Duration = Duration::from_secs(5);
/// Most ends that are remembered.
const MOST_REMEMBERED: usize = 1024;
/// Most that goes along with a session's beginning.
const EARLY: usize = EARLY_CREDIT.count() as usize;
/// Most of it that is read at once.
const PIECE: usize = 16 << 10;

/// The other end of sessions, and how to reach it.
#[derive(Clone, Debug, Default)]
pub struct Peer {
    /// Addresses of one server; none: each target is asked itself.
    pub servers: Vec<Target>,
    /// Addresses of this machine to use; none: all that lead there.
    pub paths: Vec<PathOption>,
    /// How sessions behave.
    pub config: Config,
    /// TLS, and the server's name if it is not that of [`Self::servers`].
    pub tls: Option<(Arc<ClientConfig>, Option<ServerName<'static>>)>,
    /// Whether plain TCP takes a session's place.
    pub fallback: bool,
}

/// A connection to a target.
#[derive(Debug)]
pub(crate) enum Link {
    Mctcp(Box<MctcpStream>),
    /// With the reason why it is no session.
    Plain(TcpStream, String),
}

/// What a client says before its target is there: it goes along with the first frame, so that a
/// question and its answer take no longer than without a session.
#[derive(Debug)]
pub(crate) struct Early<'a> {
    /// Read already.
    head: Vec<u8>,
    /// Where there may be more; a client who waits for an answer says nothing.
    client: Option<&'a mut TcpStream>,
    /// Bytes that went along.
    pub(crate) count: u64,
}

impl<'a> Early<'a> {
    pub(crate) fn new(head: Vec<u8>, client: Option<&'a mut TcpStream>) -> Self {
        Self { head, client, count: 0 }
    }

    fn take(&mut self) -> Vec<u8> {
        self.count += self.head.len() as u64;
        std::mem::take(&mut self.head)
    }

    /// The next bytes, not empty. Nothing is lost if nobody waits for them any more.
    async fn more(&mut self) -> Vec<u8> {
        let left = EARLY.saturating_sub(usize::try_from(self.count).unwrap_or(usize::MAX));
        if let Some(client) = self.client.as_mut().filter(|_| left > 0) {
            let mut bytes = vec![0; left.min(PIECE)];
            // Whoever carries on finds the end, or the error, again.
            if let Ok(count @ 1..) = client.read(&mut bytes).await {
                bytes.truncate(count);
                self.count += count as u64;
                return bytes;
            }
            self.client = None;
        }
        std::future::pending().await
    }
}

/// There is no session.
struct Unopened {
    error: Error,
    /// What the client has said, and nobody has heard.
    said: Vec<Bytes>,
}

impl From<Error> for Unopened {
    fn from(error: Error) -> Self {
        Self { error, said: Vec::new() }
    }
}

/// Makes connections.
#[derive(Debug)]
pub(crate) struct Outgoing {
    peer: Peer,
    /// Own connections carry [`MARK`].
    marked: bool,
    /// Ends that do not speak MCTCP: until when they are not asked, and why.
    plain: Mutex<BTreeMap<String, (Instant, String)>>,
}

impl Outgoing {
    pub(crate) fn new(mut peer: Peer, marked: bool) -> Self {
        if marked {
            peer.config.dial = Some(Arc::new(|path| {
                let socket = sys::socket::tcp_socket(path.remote.ip()).map_err(io::Error::other)?;
                mark(&socket)?;
                Ok(socket)
            }));
        }
        let options = peer.paths.clone();
        peer.config.further =
            Some(Arc::new(move |address, known| paths::further(&options, address, known)));
        Self { peer, marked, plain: Mutex::default() }
    }

    /// Connects to a target. What the client says meanwhile goes along.
    pub(crate) async fn open(&self, target: &Target, early: &mut Early<'_>) -> Result<Link> {
        let servers = match self.peer.servers.as_slice() {
            [] => std::slice::from_ref(target),
            servers => servers,
        };
        let peer = &servers[0];
        let (why, said) = match self.remembered(&peer.to_string()) {
            Some(why) => (why, Vec::new()),
            None => match self.session(servers, target, early).await {
                Ok(stream) => return Ok(Link::Mctcp(stream)),
                Err(Unopened { error, .. }) if !speaks_otherwise(&error) => return Err(error),
                Err(Unopened { error, .. }) if !self.peer.fallback => {
                    return Err(Error::NoFallback { peer: peer.clone(), cause: Box::new(error) });
                }
                Err(Unopened { error, said }) => {
                    let why = format!("{peer}: {error}");
                    self.remember(peer.to_string(), &why, memory(&error));
                    (why, said)
                }
            },
        };
        let mut stream = self.plain(target).await?;
        let said = if said.is_empty() { vec![early.take().into()] } else { said };
        for piece in said {
            let sent = stream.write_all(&piece).await;
            sent.map_err(|cause| Error::socket("send to", target, cause))?;
        }
        Ok(Link::Plain(stream, why))
    }

    async fn session(
        &self,
        servers: &[Target],
        target: &Target,
        early: &mut Early<'_>,
    ) -> Result<Box<MctcpStream>, Unopened> {
        let mut addresses = Vec::new();
        for server in servers {
            addresses.extend(lookup(server).await?);
        }
        let paths = paths::find(&self.peer.paths, &addresses)?;
        let mut config = self.peer.config.clone();
        if let Some((tls, name)) = &self.peer.tls {
            let name = match name {
                Some(name) => name.clone(),
                None => server_name(&servers[0])?,
            };
            config.tls = Some(ClientTls { config: Arc::clone(tls), name });
        }
        let named = !self.peer.servers.is_empty();
        let text = if named { target.to_string() } else { String::new() };
        let stream = MctcpStream::connect(paths, &text, config).await.map_err(Error::from)?;
        let mut stream = Box::new(stream);
        match self.settle(&mut stream, target, early).await {
            Ok(()) => Ok(stream),
            Err(error) => Err(Unopened { error, said: stream.reclaim() }),
        }
    }

    /// Waits until it is clear that the session is there, and the target.
    async fn settle(
        &self,
        stream: &mut MctcpStream,
        target: &Target,
        early: &mut Early<'_>,
    ) -> Result<()> {
        let named = !self.peer.servers.is_empty();
        let failed = |cause| Error::socket("ask for", target, cause);
        stream.write_all(&early.take()).await.map_err(failed)?;
        loop {
            let answer = async {
                stream.established().await?;
                // The first byte comes in any case, or the session ends.
                Ok::<u8, Error>(if named { stream.read_u8().await.map_err(failed)? } else { 0 })
            };
            let more = tokio::select! {
                answer = answer => return match answer.map(Reply::of)? {
                    Some(Reply::Succeeded) => Ok(()),
                    why => {
                        let why = why.unwrap_or(Reply::Failure);
                        Err(Error::Target { target: target.clone(), why })
                    }
                },
                more = early.more() => more,
            };
            stream.write_all(&more).await.map_err(failed)?;
        }
    }

    async fn plain(&self, target: &Target) -> Result<TcpStream> {
        let addresses = lookup(target).await?;
        connect(target, &addresses, self.marked).await
    }

    fn remembered(&self, peer: &str) -> Option<String> {
        if !self.peer.fallback {
            return None;
        }
        let plain = self.plain.lock().unwrap_or_else(PoisonError::into_inner);
        let (until, why) = plain.get(peer)?;
        (*until > Instant::now()).then(|| why.clone())
    }

    fn remember(&self, peer: String, why: &str, memory: Duration) {
        let mut plain = self.plain.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Instant::now();
        if plain.len() >= MOST_REMEMBERED {
            plain.retain(|_, (until, _)| *until > now);
        }
        if plain.len() < MOST_REMEMBERED {
            plain.insert(peer, (now + memory, why.to_owned()));
        }
    }
}

/// Whether the other end is not there, or there without MCTCP. What is wrong at this end, or with
/// the other's identity, is not put right by plain TCP.
fn speaks_otherwise(error: &Error) -> bool {
    use crate::Error as Session;
    match error {
        Error::Session(Session::NotMctcp) | Error::NoPath(_) => true,
        Error::Session(Session::Connect(cause)) => match cause.get_ref() {
            Some(inner) => matches!(inner.downcast_ref(), Some(TlsError::InvalidMessage(_))),
            None => is_theirs(cause.kind()),
        },
        _ => false,
    }
}

/// Whether an error of connecting is about the other end, or the way there.
fn is_theirs(kind: ErrorKind) -> bool {
    matches!(
        kind,
        ErrorKind::ConnectionRefused
            | ErrorKind::ConnectionReset
            | ErrorKind::ConnectionAborted
            | ErrorKind::TimedOut
            | ErrorKind::HostUnreachable
            | ErrorKind::NetworkUnreachable
            | ErrorKind::UnexpectedEof
    )
}

/// For how long not to ask again.
fn memory(error: &Error) -> Duration {
    let is_other = matches!(error, Error::Session(crate::Error::NotMctcp));
    if is_other { MEMORY } else { SHORT_MEMORY }
}

fn server_name(server: &Target) -> Result<ServerName<'static>> {
    let text = match &server.host {
        Host::Address(address) => address.to_string(),
        Host::Name(name) => name.clone(),
    };
    ServerName::try_from(text.clone()).map_err(|_| {
        let help = "name it with --tls-name NAME, as its certificate does";
        Error::option(format!("--server {server}"), "TLS knows no such name", help)
    })
}

fn mark(socket: &impl AsFd) -> io::Result<()> {
    sys::socket::set_mark(socket.as_fd(), MARK).map_err(io::Error::other)
}

/// Addresses of a target, at least one.
pub(crate) async fn lookup(target: &Target) -> Result<Vec<SocketAddr>> {
    let name = match &target.host {
        Host::Address(address) => return Ok(vec![SocketAddr::new(*address, target.port)]),
        Host::Name(name) => name.as_str(),
    };
    let failed = |cause| Error::socket("find", target, cause);
    let found = timeout(PATIENCE, tokio::net::lookup_host((name, target.port))).await;
    let found = found.map_err(|_| failed(ErrorKind::TimedOut.into()))?.map_err(|cause| {
        // The resolver's own errors have no kind.
        failed(io::Error::new(ErrorKind::HostUnreachable, cause))
    })?;
    let found: Vec<SocketAddr> = found.collect();
    if found.is_empty() { Err(failed(ErrorKind::NotFound.into())) } else { Ok(found) }
}

/// The first of these addresses that answers.
pub(crate) async fn connect(
    target: &Target,
    addresses: &[SocketAddr],
    marked: bool,
) -> Result<TcpStream> {
    let failed = |cause| Error::socket("connect to", target, cause);
    let attempt = async {
        let mut last = io::Error::from(ErrorKind::NotFound);
        for (place, &address) in addresses.iter().enumerate() {
            let one = async {
                let socket =
                    if address.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() };
                let socket = socket?;
                if marked {
                    mark(&socket)?;
                }
                socket.connect(address).await
            };
            // One that is silent leaves time for the others.
            let left = (addresses.len() - place) as u32;
            match timeout(PATIENCE / left.min(4), one).await {
                Ok(Ok(stream)) => return Ok(stream),
                Ok(Err(error)) => last = error,
                Err(_) => last = ErrorKind::TimedOut.into(),
            }
        }
        Err(last)
    };
    let stream = timeout(PATIENCE, attempt).await;
    let stream = stream.map_err(|_| failed(ErrorKind::TimedOut.into()))?.map_err(failed)?;
    // What the other end sends waits for nobody.
    stream.set_nodelay(true).map_err(failed)?;
    Ok(stream)
}

impl Link {
    /// Who watches the session, if it is one.
    pub(crate) fn observer(&self) -> Option<Observer> {
        match self {
            Self::Mctcp(stream) => Some(stream.observer()),
            Self::Plain(..) => None,
        }
    }
}

impl AsyncRead for Link {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        place: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Mctcp(stream) => Pin::new(stream).poll_read(cx, place),
            Self::Plain(stream, _) => Pin::new(stream).poll_read(cx, place),
        }
    }
}

impl AsyncWrite for Link {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Mctcp(stream) => Pin::new(stream).poll_write(cx, bytes),
            Self::Plain(stream, _) => Pin::new(stream).poll_write(cx, bytes),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Mctcp(stream) => Pin::new(stream).poll_flush(cx),
            Self::Plain(stream, _) => Pin::new(stream).poll_flush(cx),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Mctcp(stream) => Pin::new(stream).poll_shutdown(cx),
            Self::Plain(stream, _) => Pin::new(stream).poll_shutdown(cx),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_tcp_does_not_paper_over_what_is_wrong_here_or_forged_there() {
        let of = |error: io::Error| Error::from(crate::Error::Connect(Arc::new(error)));
        let kind = |kind: ErrorKind| of(kind.into());
        assert!(speaks_otherwise(&crate::Error::NotMctcp.into()));
        assert!(speaks_otherwise(&kind(ErrorKind::ConnectionRefused)));
        assert!(speaks_otherwise(&kind(ErrorKind::TimedOut)));
        assert!(!speaks_otherwise(&kind(ErrorKind::AddrNotAvailable)));
        assert!(!speaks_otherwise(&kind(ErrorKind::PermissionDenied)));
        let tls = |error: TlsError| of(io::Error::new(ErrorKind::InvalidData, error));
        assert!(!speaks_otherwise(&tls(TlsError::NoCertificatesPresented)));
        let strange = tokio_rustls::rustls::InvalidMessage::InvalidContentType;
        assert!(speaks_otherwise(&tls(TlsError::InvalidMessage(strange))));
        let ended = crate::Error::Ended { reason: mctcp::Reason::Timeout, by_peer: false };
        assert!(!speaks_otherwise(&ended.into()));
    }

    #[tokio::test]
    async fn what_a_client_says_first_reaches_a_peer_that_does_not_speak_mctcp() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let target = Target::of(listener.local_addr().unwrap());
        let service = tokio::spawn(async move {
            // A service that speaks first, and something else.
            let (mut first, _) = listener.accept().await.unwrap();
            first.write_all(b"220 ready\r\n").await.unwrap();
            let (mut second, _) = listener.accept().await.unwrap();
            let mut bytes = [0; 5];
            second.read_exact(&mut bytes).await.unwrap();
            bytes
        });
        let peer = Peer { fallback: true, ..Peer::default() };
        let outgoing = Outgoing::new(peer, false);
        let mut early = Early::new(b"hello".to_vec(), None);
        let link = outgoing.open(&target, &mut early).await.unwrap();
        assert!(matches!(link, Link::Plain(..)) && early.count == 5);
        assert_eq!(&service.await.unwrap(), b"hello");
        assert!(outgoing.remembered(&target.to_string()).unwrap().contains("MCTCP"));
    }
}
