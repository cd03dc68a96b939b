//! Connections to targets: in a session if the other end supports MCTCP, otherwise over plain TCP.

use std::io::{self, ErrorKind};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use bytes::Bytes;
use mctcp::settings::EARLY_CREDIT;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::rustls::pki_types::ServerName;
use tokio_rustls::rustls::{ClientConfig, Error as TlsError};

use super::dial::{Dialer, lookup};
use super::fallback::{Cause, Fallbacks, PlainSlot};
use super::paths::{self, PathOption};
use super::socks::Reply;
use super::target::{Host, Target};
use super::tls::ClientTls;
use super::{Error, Result};
use mctcp_live::Registered;
use mctcp_live::{Config, MctcpStream, Observer};

/// Timeout of the first connection, if plain TCP may replace the session.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(3);
/// Max plain connections by default.
const MAX_PLAIN: usize = 512;
/// Maximum number of bytes sent before the session is established.
const EARLY: usize = EARLY_CREDIT.count() as usize;
/// Maximum number of these bytes per read.
const PIECE: usize = 16 << 10;

/// The other end of sessions, and the paths to it.
#[derive(Clone, Debug, Default)]
pub struct Peer {
    /// Addresses of one server; if empty, each target is expected to support MCTCP.
    pub servers: Vec<Target>,
    /// Local addresses to use; if empty, all that have a route.
    pub paths: Vec<PathOption>,
    pub config: Config,
    /// TLS, and the server's name if it differs from [`Self::servers`].
    pub tls: Option<(Arc<ClientConfig>, Option<ServerName<'static>>)>,
    /// Whether plain TCP may replace a session if neither a key nor TLS is configured.
    pub fallback: bool,
    /// Whether it may do so with a key or TLS.
    pub allow_plain: bool,
    /// Maximum number of plain connections that replace sessions; one target gets at most a
    /// quarter. 0: 512.
    pub max_plain: usize,
}

impl Peer {
    /// Whether plain TCP may replace a session.
    pub fn falls_back(&self) -> bool {
        let is_protected = self.config.psk.is_some() || self.tls.is_some();
        self.allow_plain || (self.fallback && !is_protected)
    }
}

/// A connection to a target.
#[derive(Debug)]
pub(crate) enum Link {
    Mctcp(Box<MctcpStream>),
    Plain(Plain),
}

/// A plain connection.
#[derive(Debug)]
pub(crate) struct Plain {
    stream: TcpStream,
    /// Reason for the missing session.
    pub(crate) why: String,
    _registered: Option<Registered>,
    _slot: PlainSlot,
}

/// First bytes of a client, before its target is connected: they are sent with the first frame, so
/// that a request and its response take no longer than without a session.
#[derive(Debug)]
pub(crate) struct Early<'a> {
    head: Vec<u8>,
    /// Source of more bytes; a client that waits for a response sends none.
    client: Option<&'a mut TcpStream>,
    /// Number of bytes sent early.
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

    /// The next bytes, never empty. Cancel safe.
    async fn more(&mut self) -> Vec<u8> {
        let left = EARLY.saturating_sub(usize::try_from(self.count).unwrap_or(usize::MAX));
        if let Some(client) = self.client.as_mut().filter(|_| left > 0) {
            let mut bytes = vec![0; left.min(PIECE)];
            // The next reader gets the end or the error again.
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

/// The session could not be established.
struct Unopened {
    error: Error,
    /// Undelivered bytes of the client.
    said: Vec<Bytes>,
}

impl From<Error> for Unopened {
    fn from(error: Error) -> Self {
        Self { error, said: Vec::new() }
    }
}

#[derive(Debug)]
pub(crate) struct Outgoing {
    peer: Peer,
    dialer: Arc<Dialer>,
    fallbacks: Arc<Fallbacks>,
}

impl Outgoing {
    pub(crate) fn new(mut peer: Peer, dialer: Dialer) -> Self {
        let dialer = Arc::new(dialer);
        if dialer.is_marked {
            let dialer = Arc::clone(&dialer);
            peer.config.dial = Some(Arc::new(move |path| dialer.socket(path.remote.ip())));
        }
        peer.config.connections = Some(dialer.connections.clone());
        let options = peer.paths.clone();
        peer.config.further =
            Some(Arc::new(move |address, known| paths::further(&options, address, known)));
        let max_plain = if peer.max_plain == 0 { MAX_PLAIN } else { peer.max_plain };
        Self { peer, dialer, fallbacks: Arc::new(Fallbacks::new(max_plain)) }
    }

    /// Whether this process opened a client's connection.
    pub(crate) fn is_own(&self, client: &TcpStream) -> bool {
        self.dialer.connections.contain(client)
    }

    /// Connects to a target. Bytes that the client sends meanwhile are sent early.
    pub(crate) async fn open(&self, target: &Target, early: &mut Early<'_>) -> Result<Link> {
        let servers = match self.peer.servers.as_slice() {
            [] => std::slice::from_ref(target),
            servers => servers,
        };
        let (peer, is_target) = (&servers[0], self.peer.servers.is_empty());
        let name = peer.to_string();
        let recent = if self.peer.falls_back() {
            self.fallbacks.recent(Instant::now(), &name)
        } else {
            None
        };
        let (why, said) = match recent {
            Some(why) => (why, Vec::new()),
            None => match self.session(servers, target, early).await {
                Ok(stream) => {
                    self.fallbacks.works(&name);
                    return Ok(Link::Mctcp(stream));
                }
                Err(Unopened { error, said }) => {
                    let Some(cause) = cause(&error) else { return Err(error) };
                    if !self.peer.falls_back() {
                        return Err(Error::NoFallback { peer: peer.clone(), cause: error.into() });
                    }
                    let why = format!("{peer}: {error}");
                    self.fallbacks.failed(Instant::now(), &name, &why, cause, is_target);
                    (why, said)
                }
            },
        };
        let said = if said.is_empty() { vec![early.take().into()] } else { said };
        let plain = self.plain(target, &why, said).await;
        plain.map(Link::Plain).map_err(|cause| Error::Plain { session: why, cause: cause.into() })
    }

    async fn plain(&self, target: &Target, why: &str, said: Vec<Bytes>) -> Result<Plain> {
        let slot = self.fallbacks.enter(&target.to_string())?;
        let addresses = lookup(target).await?;
        let (mut stream, registered) = self.dialer.connect(target, addresses).await?;
        for piece in said {
            let sent = stream.write_all(&piece).await;
            sent.map_err(|cause| Error::socket("send to", target, cause))?;
        }
        Ok(Plain { stream, why: why.to_owned(), _registered: registered, _slot: slot })
    }

    async fn session(
        &self,
        servers: &[Target],
        target: &Target,
        early: &mut Early<'_>,
    ) -> Result<Box<MctcpStream>, Unopened> {
        let mut addresses = Vec::new();
        for server in servers {
            addresses.extend(self.dialer.foreign(server, lookup(server).await?)?);
        }
        let paths = paths::find(&self.peer.paths, &addresses)?;
        let mut config = self.peer.config.clone();
        if let Some((tls, name)) = &self.peer.tls {
            let name = match name {
                Some(name) => name.clone(),
                None => server_name(&servers[0])?,
            };
            config.encryption = Some(Arc::new(ClientTls { config: Arc::clone(tls), name }));
        }
        let named = !self.peer.servers.is_empty();
        let text = if named { target.to_string() } else { String::new() };
        let connect = MctcpStream::connect(paths, &text, config);
        let stream = if self.peer.falls_back() {
            let connected = timeout(CONNECT_TIMEOUT, connect).await;
            let late = |_| mctcp_live::Error::Connect(Arc::new(ErrorKind::TimedOut.into()));
            connected.map_err(late).and_then(|connected| connected)
        } else {
            connect.await
        };
        let stream = stream.map_err(Error::from)?;
        let mut stream = Box::new(stream);
        match self.settle(&mut stream, target, early).await {
            Ok(()) => Ok(stream),
            Err(error) => Err(Unopened { error, said: stream.reclaim() }),
        }
    }

    /// Waits until the session and the connection to the target are established.
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
                // The first byte is always sent, or the session ends.
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
}

/// Reason for a missing session, if plain TCP may replace it. A local error, or an unauthenticated
/// peer, does not permit plain TCP.
fn cause(error: &Error) -> Option<Cause> {
    use mctcp_live::Error as Session;
    match error {
        Error::NoPath(_) | Error::Session(Session::Disconnected) => Some(Cause::Unreachable),
        Error::Session(Session::NoAnswer) => Some(Cause::Silent),
        Error::Session(Session::NotMctcp) => Some(Cause::Foreign),
        Error::Session(Session::Connect(cause)) => match cause.get_ref() {
            Some(inner) => match inner.downcast_ref() {
                Some(TlsError::InvalidMessage(_)) => Some(Cause::Foreign),
                _ => None,
            },
            None => is_remote(cause.kind()).then_some(Cause::Unreachable),
        },
        _ => None,
    }
}

/// Whether an error of connecting is caused by the peer or by the path to it.
fn is_remote(kind: ErrorKind) -> bool {
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

fn server_name(server: &Target) -> Result<ServerName<'static>> {
    let text = match &server.host {
        Host::Address(address) => address.to_string(),
        Host::Name(name) => name.clone(),
    };
    ServerName::try_from(text.clone()).map_err(|_| {
        let help = "give the name in its certificate with --tls-name NAME";
        Error::option(format!("--server {server}"), "it is not a valid TLS server name", help)
    })
}

impl Link {
    /// An observer of the session, if there is one.
    pub(crate) fn observer(&self) -> Option<Observer> {
        match self {
            Self::Mctcp(stream) => Some(stream.observer()),
            Self::Plain(_) => None,
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
            Self::Plain(plain) => Pin::new(&mut plain.stream).poll_read(cx, place),
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
            Self::Plain(plain) => Pin::new(&mut plain.stream).poll_write(cx, bytes),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Mctcp(stream) => Pin::new(stream).poll_flush(cx),
            Self::Plain(plain) => Pin::new(&mut plain.stream).poll_flush(cx),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Mctcp(stream) => Pin::new(stream).poll_shutdown(cx),
            Self::Plain(plain) => Pin::new(&mut plain.stream).poll_shutdown(cx),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_peer_without_mctcp_is_reached_in_plain_tcp() {
        let of = |error: io::Error| Error::from(mctcp_live::Error::Connect(Arc::new(error)));
        let kind = |kind: ErrorKind| cause(&of(kind.into()));
        assert_eq!(cause(&mctcp_live::Error::NotMctcp.into()), Some(Cause::Foreign));
        assert_eq!(cause(&mctcp_live::Error::NoAnswer.into()), Some(Cause::Silent));
        assert_eq!(kind(ErrorKind::ConnectionRefused), Some(Cause::Unreachable));
        assert_eq!(kind(ErrorKind::TimedOut), Some(Cause::Unreachable));
        assert_eq!(kind(ErrorKind::AddrNotAvailable), None);
        assert_eq!(kind(ErrorKind::PermissionDenied), None);
        let tls = |error: TlsError| cause(&of(io::Error::new(ErrorKind::InvalidData, error)));
        assert_eq!(tls(TlsError::NoCertificatesPresented), None);
        let strange = tokio_rustls::rustls::InvalidMessage::InvalidContentType;
        assert_eq!(tls(TlsError::InvalidMessage(strange)), Some(Cause::Foreign));
        let ended = mctcp_live::Error::Ended { reason: mctcp::Reason::Timeout, by_peer: false };
        assert_eq!(cause(&ended.into()), None);
    }

    #[test]
    fn a_key_forbids_plain_tcp_unless_it_is_allowed() {
        let mut peer = Peer { fallback: true, ..Peer::default() };
        assert!(peer.falls_back());
        peer.config.psk = Some(Arc::from(&b"0123456789abcdef"[..]));
        assert!(!peer.falls_back());
        peer.allow_plain = true;
        assert!(peer.falls_back());
    }

    #[tokio::test]
    async fn early_data_reaches_a_peer_without_mctcp() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let target = Target::of(listener.local_addr().unwrap());
        let service = tokio::spawn(async move {
            // A service that sends first, in another protocol.
            let (mut first, _) = listener.accept().await.unwrap();
            first.write_all(b"220 ready\r\n").await.unwrap();
            let (mut second, _) = listener.accept().await.unwrap();
            let mut bytes = [0; 5];
            second.read_exact(&mut bytes).await.unwrap();
            bytes
        });
        let peer = Peer { fallback: true, ..Peer::default() };
        let outgoing = Outgoing::new(peer, Dialer::default());
        let mut early = Early::new(b"hello".to_vec(), None);
        let link = outgoing.open(&target, &mut early).await.unwrap();
        assert!(matches!(link, Link::Plain(_)) && early.count == 5);
        assert_eq!(&service.await.unwrap(), b"hello");
        let why = outgoing.fallbacks.recent(Instant::now(), &target.to_string()).unwrap();
        assert!(why.contains("another protocol"), "{why}");
    }
}
